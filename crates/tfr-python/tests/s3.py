"""A server of S3 on loopback, with the files of a directory: listings, ranges, conditions, and failures if asked for."""

from __future__ import annotations

import hashlib
import random
import socket
import struct
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Iterator
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


class S3:
    """Serves the directories below `root` as buckets."""

    def __init__(self, root: Path, *, delay: float = 0.0, failures: float = 0.0) -> None:
        self.root, self.delay, self.failures = root, delay, failures
        self.is_denied = False
        #: The keys that are refused, with the status.
        self.refused: dict[str, int] = {}
        #: The headers that identify a version, and whether tags are weak. For a web server, `?f=a` is another file, with that ending.
        self.headers = {"ETag", "Last-Modified"}
        self.is_weak = False
        self.random = random.Random(7)
        self.lock = threading.Lock()
        #: The requests that were answered, as method, key and range, and those that failed.
        self.requests: list[tuple[str, str, str]] = []
        self.failed = 0
        #: The number of requests that have begun.
        self.begun = 0
        handler = type("Handler", (_Handler,), {"s3": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ACCESS_KEY_ID": "id",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.server.server_port}",
        }

    @property
    def web(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def keys(self) -> set[str]:
        """Returns the keys whose content was asked for."""
        return {key for method, key, _ in self.requests if method == "GET"}

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def __enter__(self) -> S3:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _tag(path: Path) -> str:
    state = path.stat()
    return f'"{hashlib.md5(f"{state.st_mtime_ns} {state.st_size}".encode()).hexdigest()}"'


def _time(path: Path, form: str) -> str:
    return time.strftime(form, time.gmtime(path.stat().st_mtime))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    s3: S3

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._serve()

    def do_GET(self) -> None:
        self._serve()

    def _serve(self) -> None:
        url = urlsplit(self.path)
        bucket, _, key = unquote(url.path).lstrip("/").partition("/")
        with self.s3.lock:
            self.s3.begun += 1
        time.sleep(self.s3.delay)
        with self.s3.lock:
            failure = self.s3.random.choice(["status", "body", "reset"]) if self.s3.random.random() < self.s3.failures else None
            self.s3.failed += failure is not None
        if failure == "reset":
            # Closes the connection without an answer.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            return
        if failure == "status":
            return self._answer(500, b"<Error><Code>InternalError</Code></Error>")
        if self.s3.is_denied:
            return self._answer(403, b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>")
        if not bucket or not (self.s3.root / bucket).is_dir():
            return self._answer(404, b"<Error><Code>NoSuchBucket</Code></Error>")
        if not key:
            prefix = parse_qs(url.query).get("prefix", [""])[0]
            return self._answer(200, self._listing(bucket, prefix), is_broken=failure == "body")
        if f"{bucket}/{key}" in self.s3.refused:
            return self._answer(self.s3.refused[f"{bucket}/{key}"], b"<Error><Code>Refused</Code></Error>")
        path = self.s3.root / bucket / (key + "".join(parse_qs(url.query).get("f", [])))
        if not path.is_file():
            return self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        tag, size = f"{'W/' if self.s3.is_weak else ''}{_tag(path)}", path.stat().st_size
        headers = {"ETag": tag, "Last-Modified": _time(path, "%a, %d %b %Y %H:%M:%S GMT")}
        headers = {name: value for name, value in headers.items() if name in self.s3.headers}
        if self.headers.get("If-Match", tag) != tag:
            return self._answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
        status, start, end, wanted = 200, 0, size, self.headers.get("Range", "")
        if wanted:
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            status, start, end = 206, int(first), min(int(last) + 1 if last else size, size)
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
        with path.open("rb") as file:
            file.seek(start)
            content = file.read(end - start)
        with self.s3.lock:
            self.s3.requests.append((self.command, f"{bucket}/{key}", wanted))
        self._answer(status, content, headers, is_broken=failure == "body")

    def _listing(self, bucket: str, prefix: str) -> bytes:
        def entries() -> Iterator[str]:
            root = self.s3.root / bucket
            for path in sorted(root.rglob("*")):
                key = path.relative_to(root).as_posix()
                if path.is_file() and key.startswith(prefix):
                    yield (
                        f"<Contents><Key>{escape(key)}</Key><LastModified>{_time(path, '%Y-%m-%dT%H:%M:%S.000Z')}</LastModified>"
                        f"<ETag>{escape(_tag(path))}</ETag><Size>{path.stat().st_size}</Size></Contents>"
                    )

        found = "".join(entries())
        return f"<ListBucketResult><Name>{bucket}</Name><IsTruncated>false</IsTruncated>{found}</ListBucketResult>".encode()

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None, *, is_broken: bool = False) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if is_broken:
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
        else:
            self.wfile.write(body)
