"""Files of object stores: the same batches as of local files, whatever fails."""

from __future__ import annotations

import contextlib
import copy
import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Iterator

import pyarrow as pa
import pytest

from conftest import digest, example, frame, ids, table
from s3 import S3
from tfr_sql import (
    DamageWarning,
    DataError,
    Loader,
    MissingError,
    Mix,
    RecordSource,
    TfrError,
    UsageError,
    scan_records,
    write_tfrecord,
)
from test_processes import digest_in_process

#: What a request fetches.
PART = 8 << 20


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a bucket, which has sets."""
    root = tmp_path_factory.mktemp("root")
    (root / "bucket").mkdir()
    write_tfrecord(table(3000), root / "bucket" / "set", shards=7)
    write_tfrecord(table(500), root / "bucket" / "arrays", shards=3, record_format="array_record")
    # A shard of several parts, whose records go over their ends.
    large = [os.urandom(100_000) for _ in range(200)]
    write_tfrecord(pa.table({"id": range(200), "image": large}), root / "bucket" / "large", shards=1)
    plain = root / "bucket" / "plain"
    plain.mkdir()
    for number in range(3):
        payloads = [example(id=[number * 100 + row]) for row in range(100)]
        (plain / f"part-{number}.tfrecord").write_bytes(b"".join(map(frame, payloads)))
    return root


@pytest.fixture
def s3(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    with S3(root) as s3:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            monkeypatch.delenv(name)
        for name, value in s3.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
        yield s3


@pytest.fixture
def unreliable(s3: S3) -> S3:
    """Answers after 50 ms, and fails one request in twenty."""
    s3.delay, s3.failures = 0.05, 0.05
    return s3


@pytest.mark.parametrize("options", [{}, {"shuffle": 7}, {"shuffle": 7, "threads": 3, "columns": ["id", "tokens"]}])
@pytest.mark.parametrize("name", ["set", "arrays"])
def test_bucket_has_the_batches_of_the_local_set(unreliable: S3, root: Path, tmp_path: Path, name: str, options: dict[str, Any]) -> None:
    remote = Loader(f"s3://bucket/{name}/", batch_size=64, epochs=2, cache=tmp_path / "cache", **options)
    local = Loader(root / "bucket" / name, batch_size=64, epochs=2, **options)
    assert remote.num_rows == local.num_rows and remote.columns == local.columns
    assert digest(remote) == digest(local)
    assert remote.files[0] == f"s3://bucket/{name}/{os.path.basename(local.files[0])}"


def test_shard_of_several_parts_survives_failures(unreliable: S3, root: Path, tmp_path: Path) -> None:
    unreliable.failures = 0.3
    options: dict[str, Any] = {"batch_size": 16, "epochs": 2, "shuffle": 3}
    remote = Loader("s3://bucket/large", **options, cache=tmp_path / "cache")
    assert digest(remote) == digest(Loader(root / "bucket" / "large", **options))
    assert unreliable.failed > 0


def test_parts_are_fetched_once(s3: S3, tmp_path: Path) -> None:
    loader = Loader("s3://bucket/large/", batch_size=16, epochs=3, cache=tmp_path / "cache")
    assert len(ids(loader)) == 600
    shards = [wanted for _, key, wanted in s3.requests if key.endswith(".tfrecord")]
    assert len(shards) == len(set(shards)) == 3
    other = Loader("s3://bucket/large/", batch_size=16, cache=tmp_path / "cache")
    assert len(ids(other)) == 200
    assert len([key for _, key, _ in s3.requests if key.endswith(".tfrecord")]) == 3


def test_manifest_makes_the_first_batch_cheap(s3: S3, tmp_path: Path) -> None:
    loader = Loader("s3://bucket/set/", batch_size=8, cache=tmp_path / "cache")
    assert loader.num_rows == 3000
    assert s3.keys() == {"bucket/set/_manifest.json"}


def _size(directory: Path) -> int:
    """Returns the length of the files of a directory, from which others remove some meanwhile."""
    lengths = 0
    for path in directory.iterdir():
        with contextlib.suppress(FileNotFoundError):
            lengths += path.stat().st_size
    return lengths


def test_cache_smaller_than_the_set_is_bounded(s3: S3, root: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    size = sum(path.stat().st_size for path in (root / "bucket" / "set").glob("*.tfrecord")) // 3
    options: dict[str, Any] = {"batch_size": 32, "epochs": 2, "shuffle": 5}
    remote = Loader("s3://bucket/set/", **options, cache=cache, cache_size=size)
    largest = 0
    found = []
    for batch in remote:
        found.append(batch)
        largest = max(largest, _size(cache))
    assert digest(found) == digest(Loader(root / "bucket" / "set", **options))
    assert 0 < largest <= size


def test_cache_leaves_other_files_alone(s3: S3, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    for name in ("mine.bin", "mine-7", f"{'a' * 64}-x", f"{'a' * 63}-1"):
        (cache / name).write_bytes(b"x" * 1000)
    (cache / f"{'a' * 64}-1").write_bytes(b"x" * 1000)
    assert len(ids(Loader("s3://bucket/set/", batch_size=500, cache=cache, cache_size=1))) == 3000
    assert {path.name for path in cache.iterdir() if path.stat().st_size == 1000} == {"mine.bin", "mine-7", f"{'a' * 64}-x", f"{'a' * 63}-1"}


def test_damaged_records_of_a_bucket_are_passed_over(s3: S3, tmp_path: Path) -> None:
    bucket = s3.root / "bucket" / "damaged"
    bucket.mkdir(exist_ok=True)
    records = bytearray(b"".join(frame(example(id=[row])) for row in range(100)))
    records[len(records) // 2] ^= 1
    (bucket / "part-0.tfrecord").write_bytes(records)
    with pytest.raises(DataError) as caught:
        list(Loader("s3://bucket/damaged/", batch_size=10, cache=tmp_path / "cache"))
    assert caught.value.file == "s3://bucket/damaged/part-0.tfrecord" and caught.value.record == 50
    with pytest.warns(DamageWarning, match="s3://bucket/damaged/part-0.tfrecord"):
        remote = Loader("s3://bucket/damaged/", batch_size=10, damaged="skip", cache=tmp_path / "cache")
    with pytest.warns(DamageWarning):
        local = Loader(bucket, batch_size=10, damaged="skip")
    assert remote.damaged == 1 and digest(remote) == digest(local)


def test_files_without_a_manifest_are_counted_and_inferred(s3: S3, root: Path, tmp_path: Path) -> None:
    local = Loader(root / "bucket" / "plain", batch_size=30)
    for paths in ("s3://bucket/plain", "s3://bucket/plain/*.tfrecord", [f"s3://bucket/plain/part-{n}.tfrecord" for n in range(3)]):
        remote = Loader(paths, batch_size=30, cache=tmp_path / "cache")
        assert digest(remote) == digest(local)
    assert ids(Loader("s3://bucket/plain/part-[12].*", batch_size=500, cache=tmp_path / "cache")) == list(range(100, 300))
    # Each file was fetched once, to count its records.
    assert len([key for method, key, _ in s3.requests if method == "GET" and key.startswith("bucket/plain/part")]) == 3


def test_shard_that_is_replaced_is_an_error(s3: S3, tmp_path: Path) -> None:
    bucket = s3.root / "bucket" / "moved"
    write_tfrecord(pa.table({"id": range(1000)}), bucket, shards=2)
    loader = Loader("s3://bucket/moved/", batch_size=100, cache=tmp_path / "cache")
    shard = sorted(bucket.glob("*.tfrecord"))[1]
    os.utime(shard, ns=(0, shard.stat().st_mtime_ns + 10**9))
    with pytest.raises(DataError, match="the file changed while it was read") as caught:
        list(loader)
    assert caught.value.file == f"s3://bucket/moved/{shard.name}"
    # The new version is another one in the cache.
    assert len(ids(Loader("s3://bucket/moved/", batch_size=100, cache=tmp_path / "cache"))) == 1000


def test_manifest_with_other_lengths_is_an_error(s3: S3, tmp_path: Path) -> None:
    bucket = s3.root / "bucket" / "cut"
    write_tfrecord(pa.table({"id": range(1000)}), bucket, shards=2)
    shard = sorted(bucket.glob("*.tfrecord"))[0]
    shard.write_bytes(shard.read_bytes()[:-16])
    with pytest.raises(DataError, match=f"s3://bucket/cut/{shard.name}"):
        Loader("s3://bucket/cut/", batch_size=100, cache=tmp_path / "cache")


def _batches(cache: str, seed: int, sent: Any) -> None:
    sent.put(digest(Loader("s3://bucket/large/", batch_size=16, shuffle=seed, cache=cache)))


def test_processes_share_a_cache(unreliable: S3, root: Path, tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    sent = context.Queue()
    processes = [context.Process(target=_batches, args=(str(tmp_path / "cache"), 9, sent)) for _ in range(2)]
    for process in processes:
        process.start()
    found = {sent.get(timeout=60) for _ in processes}
    for process in processes:
        process.join()
    assert found == {digest(Loader(root / "bucket" / "large", batch_size=16, shuffle=9))}
    shards = [wanted for _, key, wanted in unreliable.requests if key.endswith(".tfrecord")]
    # A request whose answer breaks off is sent again.
    assert len(set(shards)) <= 6 and len(shards) <= 3 + unreliable.failed


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_bucket_works_in_another_process(s3: S3, tmp_path: Path, method: str) -> None:
    loader = Loader("s3://bucket/set/", batch_size=64, shuffle=2, cache=tmp_path / "cache")
    expected = digest(copy.copy(loader))
    assert digest_in_process(method, loader) == expected
    batches = iter(loader)
    next(batches)
    assert digest_in_process("fork", batches) == digest(batches)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_torch_read_buckets(unreliable: S3, root: Path, tmp_path: Path, method: str) -> None:
    data = pytest.importorskip("torch.utils.data")
    from tfr_sql.torch import TFRecordDataset

    options: dict[str, Any] = {"batch_size": 64, "shuffle": 7, "columns": ["id"]}
    remote = TFRecordDataset("s3://bucket/set/", **options, cache=tmp_path / "cache")
    # The process itself has read before it forks.
    expected = ids(data.DataLoader(TFRecordDataset(root / "bucket" / "set", **options), batch_size=None))
    assert ids(data.DataLoader(remote, batch_size=None)) == expected
    remote.set_epoch(0)
    workers = data.DataLoader(remote, batch_size=None, num_workers=2, multiprocessing_context=method)
    assert ids(workers) == expected
    assert sorted(ids(workers)) == list(range(3000))


def test_grain_reads_buckets(s3: S3, root: Path, tmp_path: Path) -> None:
    pytest.importorskip("grain")
    from tfr_sql.jax import TFRecordIterDataset, TFRecordSource

    remote = TFRecordIterDataset("s3://bucket/set/", batch_size=64, shuffle=7, cache=tmp_path / "cache")
    assert ids(remote) == ids(Loader(root / "bucket" / "set", batch_size=64, shuffle=7))
    records = TFRecordSource("s3://bucket/arrays/", cache=tmp_path / "cache")
    assert records[7]["id"] == RecordSource(root / "bucket" / "arrays")[7]["id"]


def test_killed_fetch_leaves_nothing_that_is_used(s3: S3, root: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    program = f"from tfr_sql import Loader; list(Loader('s3://bucket/large/', batch_size=16, cache={str(cache)!r}))"
    s3.delay = 0.3
    while True:
        process = subprocess.Popen([sys.executable, "-c", program])
        deadline = time.monotonic() + 30
        while not any(path.name.endswith(".unfinished") for path in (cache.iterdir() if cache.exists() else [])):
            assert time.monotonic() < deadline and process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        if any(path.name.endswith(".unfinished") for path in cache.iterdir()):
            break
    s3.delay = 0.0
    options: dict[str, Any] = {"batch_size": 16}
    assert digest(Loader("s3://bucket/large/", **options, cache=cache)) == digest(Loader(root / "bucket" / "large", **options))
    assert not any(path.name.endswith(".unfinished") for path in cache.iterdir())


def test_state_of_local_files_fits_those_in_a_bucket(s3: S3, root: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"global_batch": 60, "shuffle": 4, "epochs": 2}
    local = Loader(root / "bucket" / "set", **options)
    batches = iter(local)
    for _ in range(20):
        next(batches)
    state = local.state_dict()
    rest = digest(batches)
    remote = Loader("s3://bucket/set", **options, cache=tmp_path / "cache")
    remote.load_state_dict(state)
    assert digest(remote) == rest
    # The ranks of another number have the same rows.
    again = [Loader("s3://bucket/set", **options, cache=tmp_path / "cache", rank=rank, world_size=3) for rank in range(3)]
    for loader in again:
        loader.load_state_dict(state)
    local.load_state_dict(state)
    for expected, *parts in zip(local, *again):
        assert sorted(ids(parts)) == sorted(ids([expected]))


def test_records_of_a_bucket_by_number(s3: S3, root: Path, tmp_path: Path) -> None:
    for name in ("arrays", "plain"):
        remote = RecordSource(f"s3://bucket/{name}", cache=tmp_path / "cache")
        local = RecordSource(root / "bucket" / name)
        assert len(remote) == len(local) and repr(remote) == repr(local)
        numbers = [299, 0, 150, 7, 298]
        for source in (remote, pickle.loads(pickle.dumps(remote))):
            assert [int(row["id"]) for row in source.__getitems__(numbers)] == [int(row["id"]) for row in local.__getitems__(numbers)]


def test_mix_reads_buckets(s3: S3, root: Path, tmp_path: Path) -> None:
    def mix(first: Any, second: Any, **options: Any) -> Mix:
        loaders = {"a": Loader(first, batch_size=8, columns=["id"], **options), "b": Loader(second, batch_size=8, columns=["id"], **options)}
        return Mix(loaders, weights={"a": 2, "b": 1}, batch_size=8)

    remote = mix("s3://bucket/set", root / "bucket" / "plain", cache=tmp_path / "cache")
    local = mix(root / "bucket" / "set", root / "bucket" / "plain")
    assert ids(next(remote) for _ in range(20)) == ids(next(local) for _ in range(20))


def test_allow_refuses_other_urls_and_paths(s3: S3, root: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"batch_size": 8, "cache": tmp_path / "cache", "allow": ["s3://bucket/set/", tmp_path]}
    assert Loader("s3://bucket/set/", **options).num_rows == 3000
    asked = len(s3.requests)
    for path in ("s3://bucket/arrays/", "s3://bucket/set2", "s3://bucket/", "s3://bucket/*", "s3://other/set/", root / "bucket" / "set"):
        with pytest.raises(UsageError, match="not allowed") as caught:
            Loader(path, **options)
        assert "allow= names what may be opened: s3://bucket/set/" in str(caught.value)
    assert len(s3.requests) == asked
    (tmp_path / "link").symlink_to(root / "bucket" / "set")
    with pytest.raises(UsageError, match="not allowed"):
        RecordSource(tmp_path / "link", allow=[tmp_path])
    with pytest.raises(UsageError, match="allow is empty"):
        Loader("s3://bucket/set/", batch_size=8, allow=[])


def test_allow_refuses_what_a_manifest_names_outside(tmp_path: Path) -> None:
    write_tfrecord(table(100), tmp_path / "in", shards=2)
    (tmp_path / "out").mkdir()
    shard = sorted((tmp_path / "in").glob("*.tfrecord"))[0]
    shard.rename(tmp_path / "out" / shard.name)
    shard.symlink_to(tmp_path / "out" / shard.name)
    assert Loader(tmp_path / "in", batch_size=8).num_rows == 100
    with pytest.raises(UsageError, match="not allowed"):
        Loader(tmp_path / "in", batch_size=8, allow=[tmp_path / "in"])


def test_what_is_missing_or_denied_is_named(s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"batch_size": 8, "cache": tmp_path / "cache"}
    for url in ("s3://bucket/none", "s3://bucket/none/", "s3://bucket/none/*"):
        with pytest.raises(MissingError, match=r"^s3://bucket/none.*: no (such file or directory|file matches)"):
            Loader(url, **options)
    with pytest.raises(MissingError, match="there is no s3://nothing"):
        Loader("s3://nothing/set/", **options)
    s3.is_denied = True
    with pytest.raises(TfrError, match="s3://bucket refuses access: 403 AccessDenied") as caught:
        Loader("s3://bucket/set/", **options)
    assert caught.value.hint is not None and "credentials" in caught.value.hint
    with pytest.raises(UsageError, match="unsupported URL scheme"):
        Loader("what://bucket/set/", **options)
    with pytest.raises(UsageError, match="cache_size is '10 stones'"):
        Loader("s3://bucket/set/", batch_size=8, cache_size="10 stones")


def test_cache_is_in_the_directory_of_the_user(s3: S3, tmp_path: Path) -> None:
    assert len(ids(Loader("s3://bucket/set/", batch_size=500))) == 3000
    assert any((tmp_path / "caches" / "tfr_sql").iterdir())


def test_ctrl_c_stops_a_fetch(s3: S3, tmp_path: Path) -> None:
    program = (
        "from tfr_sql import Loader\n"
        f"loader = Loader('s3://bucket/set/', batch_size=8, cache={str(tmp_path / 'cache')!r})\n"
        "print('ready', flush=True)\n"
        "try:\n    input()\n    list(loader)\nexcept KeyboardInterrupt:\n    print('stopped', flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    s3.delay, begun = 3600.0, s3.begun
    process.stdin.write("\n")
    process.stdin.flush()
    deadline = time.monotonic() + 30
    while s3.begun == begun:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "stopped\n"
    process.stdin.close()
    assert process.wait(timeout=30) == 0


def _records(path: Path, ids: range) -> None:
    """Writes a file whose length and time do not depend on the IDs, if they are below 128."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(frame(example(id=[number])) for number in ids))
    os.utime(path, ns=(10**18, 10**18))


@pytest.fixture
def web(tmp_path: Path) -> Iterator[S3]:
    """A web server with two files of equal length and time."""
    _records(tmp_path / "web" / "files" / "data-a", range(50))
    _records(tmp_path / "web" / "files" / "data-b", range(50, 100))
    with S3(tmp_path / "web") as web:
        yield web


def test_urls_that_differ_in_a_query_are_not_one_file(web: S3, tmp_path: Path) -> None:
    web.headers = {"Last-Modified"}
    options: dict[str, Any] = {"batch_size": 10, "cache": tmp_path / "cache"}
    first, second = [f"{web.web}/files/data-?f={name}" for name in "ab"]
    assert ids(Loader(first, **options)) == list(range(50))
    assert ids(Loader(second, **options)) == list(range(50, 100))
    for paths in ([first, second], [second, first]):
        with pytest.raises(UsageError, match="several files have this name") as caught:
            Loader(paths, **options)
        assert "f=" not in str(caught.value)
    assert ids(Loader([first, first], **options)) == list(range(50))


def test_file_without_a_version_is_refused(web: S3, tmp_path: Path) -> None:
    options: dict[str, Any] = {"batch_size": 10, "cache": tmp_path / "cache"}
    for headers, is_weak in ((set(), False), ({"ETag"}, True)):
        web.headers, web.is_weak = headers, is_weak
        for call in (Loader, lambda url, batch_size, cache: RecordSource(url, cache=cache)):
            with pytest.raises(TfrError, match="files/data-a: the server sends neither a strong ETag nor Last-Modified"):
                call(f"{web.web}/files/data-a", **options)
    for name in ("ETag", "Last-Modified"):
        web.headers, web.is_weak = {name}, False
        assert ids(Loader(f"{web.web}/files/data-a", **options)) == list(range(50))


def test_file_with_another_weak_tag_is_another_version(web: S3, tmp_path: Path) -> None:
    web.is_weak = True
    loader = Loader(f"{web.web}/files/data-a", batch_size=10, cache=tmp_path / "cache")
    assert ids(loader) == list(range(50))
    _records(tmp_path / "web" / "files" / "data-a", range(70, 120))
    os.utime(tmp_path / "web" / "files" / "data-a", ns=(10**18, 10**18 + 1000))
    shutil.rmtree(tmp_path / "cache")
    with pytest.raises(DataError, match="the file changed while it was read"):
        list(loader)


def test_equal_urls_of_two_endpoints_are_two_files(s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _records(tmp_path / "one" / "same" / "data", range(50))
    _records(tmp_path / "two" / "same" / "data", range(50, 100))
    for name, expected in (("one", range(50)), ("two", range(50, 100))):
        with S3(tmp_path / name) as server:
            monkeypatch.setenv("AWS_ENDPOINT_URL", server.environment["AWS_ENDPOINT_URL"])
            assert ids(Loader("s3://same/data", batch_size=10, cache=tmp_path / "cache")) == list(expected)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open files are listed by Linux only")
def test_cache_is_not_locked_by_a_forked_process(s3: S3, tmp_path: Path) -> None:
    import fcntl

    cache = tmp_path / "cache"
    loader = Loader("s3://bucket/set/", batch_size=500, cache=cache)
    found: list[int] = []
    reader = threading.Thread(target=lambda: found.extend(ids(loader)), daemon=True)

    def opened() -> int:
        count = 0
        for name in os.listdir("/proc/self/fd"):
            # Threads close files meanwhile.
            with contextlib.suppress(FileNotFoundError):
                count += os.readlink(f"/proc/self/fd/{name}") == os.path.realpath(cache / ".lock")
        return count

    with open(cache / ".lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        reader.start()
        deadline = time.monotonic() + 30
        while opened() < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        receive, send = os.pipe()
        child = os.fork()
        if child == 0:
            # It has the file open whose lock a thread of the other process gets now.
            os.close(send)
            os.read(receive, 1)
            os._exit(0)
        os.close(receive)
        fcntl.flock(lock, fcntl.LOCK_UN)
        reader.join(30)
        is_alive = reader.is_alive()
        os.close(send)
        os.waitpid(child, 0)
    assert not is_alive and sorted(found) == list(range(3000))


def test_cache_that_others_can_change_is_refused(s3: S3, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    options: dict[str, Any] = {"batch_size": 500, "cache": cache}
    for mode in (0o777, 0o1777, 0o770):
        cache.chmod(mode)
        with pytest.raises(UsageError, match="cache: not used as the cache: other users may write to it") as caught:
            Loader("s3://bucket/set/", **options)
        assert caught.value.hint is not None and "chmod go-w" in caught.value.hint
    cache.chmod(0o755)
    assert len(ids(Loader("s3://bucket/set/", **options))) == 3000
    if os.geteuid() == 0:
        os.chown(cache, 12345, -1)
        with pytest.raises(UsageError, match="it belongs to the user 12345"):
            Loader("s3://bucket/set/", **options)


def test_links_in_a_cache_are_not_followed(web: S3, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    options: dict[str, Any] = {"batch_size": 10, "cache": cache}
    assert ids(Loader(f"{web.web}/files/data-a", **options)) == list(range(50))
    (part,) = [path for path in cache.iterdir() if path.name.endswith("-0")]
    other = tmp_path / "web" / "files" / "data-b"
    part.unlink()
    part.symlink_to(other)
    with pytest.raises(TfrError, match="cannot use the cache"):
        Loader(f"{web.web}/files/data-a", **options)
    # Nor is the file at its end changed.
    part.unlink()
    Path(f"{part}.unfinished").symlink_to(other)
    with pytest.raises(TfrError, match="cannot use the cache"):
        Loader(f"{web.web}/files/data-a", **options)
    assert other.stat().st_mtime_ns == 10**18


def test_manifest_that_cannot_be_read_is_an_error(s3: S3, tmp_path: Path) -> None:
    shard = sorted((s3.root / "bucket" / "set").glob("*.tfrecord"))[0]
    url, options = f"s3://bucket/set/{shard.name}", {"batch_size": 500, "cache": tmp_path / "cache"}
    expected = Loader(url, **options)  # type: ignore[arg-type]
    s3.refused = {"bucket/set/_manifest.json": 400}
    with pytest.raises(TfrError, match=r"s3://bucket/set/_manifest\.json: .*400"):
        Loader(url, **options)  # type: ignore[arg-type]
    # Without the right to list files, S3 denies what does not exist.
    s3.refused = {"bucket/set/_manifest.json": 403}
    assert Loader(url, **options).num_rows == expected.num_rows  # type: ignore[arg-type]
    s3.refused = {}
    with pytest.raises(UsageError, match=r"s3://bucket/set/_manifest\.json: not allowed"):
        Loader(url, allow=[url], **options)  # type: ignore[arg-type]
    assert digest(Loader(url, allow=[url, "s3://bucket/set/_manifest.json"], **options)) == digest(expected)  # type: ignore[arg-type]


def test_allow_of_a_local_file_does_not_read_the_manifest_beside_it(tmp_path: Path) -> None:
    write_tfrecord(table(100), tmp_path / "set", shards=2)
    shard = sorted((tmp_path / "set").glob("*.tfrecord"))[0]
    with pytest.raises(UsageError, match=r"set/_manifest\.json: not allowed"):
        Loader(shard, batch_size=8, allow=[shard])
    expected = digest(Loader(shard, batch_size=8))
    assert digest(Loader(shard, batch_size=8, allow=[shard, tmp_path / "set" / "_manifest.json"])) == expected
    shutil.copy(shard, tmp_path / "alone.tfrecord")
    assert Loader(tmp_path / "alone.tfrecord", batch_size=8, allow=[tmp_path / "alone.tfrecord"]).num_rows == 50


def test_messages_of_paths_show_no_secrets() -> None:
    for call in (
        lambda: Loader("a", batch_size=8, allow="https://me:hunter2@host/f?sig=hunter2"),  # type: ignore[arg-type]
        lambda: scan_records("https://me:hunter2@host/f?sig=hunter2"),
    ):
        with pytest.raises(UsageError, match="host/f") as caught:
            call()
        assert "hunter2" not in f"{caught.value} {caught.value.hint}"


def test_cache_options_do_not_change_local_files(sets: dict[int, str], tmp_path: Path) -> None:
    options: dict[str, Any] = {"batch_size": 64, "cache": tmp_path / "cache", "cache_size": "1 GiB", "allow": [sets[3]]}
    assert digest(Loader(sets[3], **options)) == digest(Loader(sets[3], batch_size=64))
    assert not (tmp_path / "cache").exists()
