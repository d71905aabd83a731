//! [`S3Server`]: an S3-compatible server of a test's own, which can be told to fail.
//!
//! `s3s` speaks the protocol over the directory that `s3s-fs` keeps; the layer around it counts requests and carries out
//! [`Fault`]s. It listens on loopback and lives as long as the value.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::CONTENT_LENGTH;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use s3s::Body;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s_fs::FileSystem;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use crate::programs::tfr_sql;

/// Access key that the server knows.
pub const ACCESS_KEY: &str = "tfr-tests-access";
/// The secret to it. Nothing that a program says or writes may hold it.
pub const SECRET_KEY: &str = "tfr-tests-secret/+0123456789abcdef";
/// The bucket that is there from the start.
pub const BUCKET: &str = "data";

/// The most bytes of an answer that can be [cut](Fault::Cut).
const MOST_CONTROL: usize = 1 << 20;

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Size and checksum of an object.
    Head,
    /// An object or a part of one.
    Get,
    /// One page of a listing.
    List,
    /// An object in one request.
    Put,
    /// The start of a multipart upload.
    CreateUpload,
    /// One part of it.
    UploadPart,
    /// Its end: the object appears.
    CompleteUpload,
    /// Its end: nothing appears.
    AbortUpload,
    /// One object or many.
    Delete,
    /// Anything else.
    Other,
}

impl Operation {
    fn of(request: &Request<Incoming>) -> Self {
        let query = request.uri().query().unwrap_or_default();
        let asks = |key: &str| query.split('&').any(|pair| pair.split('=').next() == Some(key));
        let is_bucket = request.uri().path().trim_matches('/').split('/').count() < 2;
        match *request.method() {
            Method::HEAD => Self::Head,
            Method::GET if is_bucket => Self::List,
            Method::GET => Self::Get,
            Method::PUT if asks("partNumber") => Self::UploadPart,
            Method::PUT => Self::Put,
            Method::POST if asks("uploads") => Self::CreateUpload,
            Method::POST if asks("uploadId") => Self::CompleteUpload,
            Method::POST if asks("delete") => Self::Delete,
            Method::DELETE if asks("uploadId") => Self::AbortUpload,
            Method::DELETE => Self::Delete,
            _ => Self::Other,
        }
    }
}

/// What goes wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It is refused with this status and body, and not carried out.
    Status(u16, String),
    /// It is refused with 403 and a body that repeats the request, headers and all.
    Echo,
    /// It is not carried out, and the connection is reset.
    Reset,
    /// It is carried out, and the connection is reset in the place of an answer.
    ResetAfter,
    /// It is carried out, and the connection is closed in the middle of the answer's body.
    Cut,
}

/// A body that ends with an error.
struct CutBody(Option<Bytes>);

impl hyper::body::Body for CutBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let end = || io::Error::new(io::ErrorKind::ConnectionReset, "as the test asked for");
        Poll::Ready(Some(self.0.take().map(Frame::data).ok_or_else(end)))
    }
}

impl Fault {
    /// 503 as S3 says it.
    pub fn slow_down() -> Self {
        Self::Status(503, error_body("SlowDown", "Please reduce your request rate."))
    }
}

/// One request that the server got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// What was asked for.
    pub operation: Operation,
    /// Path of the URL as it came: `/bucket/key`, percent-encoded.
    pub path: String,
    /// How many requests of this kind were waiting for an answer when it came, with this one.
    pub waiting: usize,
}

/// A server with one bucket, [`BUCKET`].
pub struct S3Server {
    address: SocketAddr,
    root: TempDir,
    state: Arc<State>,
    // Dropped last: ends every connection.
    _runtime: Runtime,
}

/// What the requests share.
struct State {
    service: S3Service,
    is_public: bool,
    root: PathBuf,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    requests: Vec<Received>,
    counts: HashMap<Operation, usize>,
    under_way: HashMap<Operation, usize>,
    /// By operation and number of the request, counted from 0.
    faults: BTreeMap<(Operation, usize), Fault>,
    always: HashMap<Operation, Fault>,
    delay: Duration,
}

impl Default for S3Server {
    fn default() -> Self {
        Self::new(Some(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY)))
    }
}

impl S3Server {
    /// A server that asks nobody who they are.
    pub fn public() -> Self {
        Self::new(None)
    }

    fn new(auth: Option<SimpleAuth>) -> Self {
        let root = TempDir::with_prefix("tfr-tests-s3-").unwrap();
        fs::create_dir(root.path().join(BUCKET)).unwrap();
        let mut service = S3ServiceBuilder::new(FileSystem::new(root.path()).unwrap());
        let is_public = auth.is_none();
        if let Some(auth) = auth {
            service.set_auth(auth);
        }
        let state = State { service: service.build(), is_public, root: root.path().to_owned(), seen: Mutex::default() };
        let state = Arc::new(state);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(serve(listener, Arc::clone(&state)));
        Self { address, root, state, _runtime: runtime }
    }

    /// `http://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// `s3://data/KEY`.
    pub fn url(&self, key: &str) -> String {
        format!("s3://{BUCKET}/{key}")
    }

    /// `tfr-sql` with the credentials and the endpoint in its environment, and nothing else of this machine's about
    /// object stores.
    pub fn tfr_sql(&self) -> Command {
        let mut command = without_stores(tfr_sql());
        command
            .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
            .env("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
            .env("AWS_REGION", "us-east-1")
            .env("AWS_ENDPOINT_URL", self.endpoint());
        command
    }

    /// Puts an object into the bucket, behind the server's back.
    pub fn put(&self, key: &str, content: impl AsRef<[u8]>) {
        let path = self.root.path().join(BUCKET).join(key);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Puts the files of a directory into the bucket, under their paths in it after `prefix`.
    pub fn put_directory(&self, prefix: &str, directory: &Path) {
        for path in files(directory) {
            let name = path.strip_prefix(directory).unwrap().to_str().unwrap();
            self.put(&format!("{prefix}{name}"), fs::read(&path).unwrap());
        }
    }

    /// Makes all objects below a key older than they are.
    pub fn age(&self, prefix: &str, by: Duration) {
        let bucket = self.root.path().join(BUCKET);
        for key in self.keys().iter().filter(|key| key.starts_with(prefix)) {
            let file = fs::File::options().write(true).open(bucket.join(key)).unwrap();
            let modified = file.metadata().unwrap().modified().unwrap();
            file.set_modified(modified - by).unwrap();
        }
    }

    /// The content of an object.
    pub fn object(&self, key: &str) -> Vec<u8> {
        fs::read(self.root.path().join(BUCKET).join(key)).unwrap_or_else(|error| panic!("{key}: {error}"))
    }

    /// The keys of all objects, sorted.
    pub fn keys(&self) -> Vec<String> {
        let bucket = self.root.path().join(BUCKET);
        let key = |path: PathBuf| path.strip_prefix(&bucket).unwrap().to_str().unwrap().to_owned();
        let mut keys: Vec<_> = files(&bucket).into_iter().map(key).collect();
        keys.sort();
        keys
    }

    /// The keys of multipart uploads that are neither completed nor aborted, sorted.
    pub fn open_uploads(&self) -> Vec<String> {
        // `s3s-fs` has no request for them, but a file for each: `.bucket-B.object-K.upload-ID.metadata.json`.
        let names = fs::read_dir(self.root.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let key = |name: &str| {
            let (object, _) = name.split_once(".object-")?.1.split_once(".upload-")?;
            Some(String::from_utf8(URL_SAFE_NO_PAD.decode(object).unwrap()).unwrap())
        };
        let mut keys: Vec<_> = names.filter_map(|name| key(name.to_str()?)).collect();
        keys.sort();
        keys
    }

    /// How many parts of uploads are stored that are neither completed nor aborted.
    pub fn open_parts(&self) -> usize {
        let names = fs::read_dir(self.root.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().starts_with(".upload_id-")).count()
    }

    /// Fails the `number`-th request of this kind, counted from 0 since the server started.
    pub fn fail(&self, operation: Operation, number: usize, fault: Fault) {
        self.state.seen().faults.insert((operation, number), fault);
    }

    /// Fails every request of this kind from now on.
    pub fn fail_always(&self, operation: Operation, fault: Fault) {
        self.state.seen().always.insert(operation, fault);
    }

    /// Holds every request back for so long from now on, so that those that are sent at once are seen at once.
    pub fn delay(&self, delay: Duration) {
        self.state.seen().delay = delay;
    }

    /// Every request so far, in the order of their arrival.
    pub fn requests(&self) -> Vec<Received> {
        self.state.seen().requests.clone()
    }

    /// How many requests there were.
    pub fn received(&self) -> usize {
        self.state.seen().requests.len()
    }

    /// How many requests of this kind there were.
    pub fn count(&self, operation: Operation) -> usize {
        self.of(operation).count()
    }

    fn of(&self, operation: Operation) -> impl Iterator<Item = Received> {
        self.requests().into_iter().filter(move |request| request.operation == operation)
    }

    /// The most requests of this kind that were waiting for an answer at one time.
    pub fn most_at_once(&self, operation: Operation) -> usize {
        self.of(operation).map(|request| request.waiting).max().unwrap_or_default()
    }
}

/// The command without what this machine says of object stores and proxies.
///
/// It trusts no certificate: the servers of the tests need none, and to parse those of the machine takes a dev build some
/// 40 ms.
pub fn without_stores(mut command: Command) -> Command {
    const PREFIXES: [&str; 5] = ["AWS_", "GOOGLE_", "AZURE_", "HADOOP_", "STORAGE_EMULATOR_"];
    for (name, _) in std::env::vars_os() {
        let is_foreign = name.to_str().is_some_and(|name| {
            PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || name.to_ascii_lowercase().ends_with("_proxy")
        });
        if is_foreign {
            command.env_remove(name);
        }
    }
    command.env("SSL_CERT_FILE", "/dev/null").env_remove("SSL_CERT_DIR");
    command
}

impl State {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(&self, mut request: Request<Incoming>) -> io::Result<Response<Body>> {
        let operation = Operation::of(&request);
        let (fault, delay) = self.seen().arrives(operation, request.uri().path());
        let _under_way = UnderWay { state: self, operation };
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let reset = || io::Error::new(io::ErrorKind::ConnectionReset, "as the test asked for");
        match fault {
            Some(Fault::Reset) => return Err(reset()),
            Some(Fault::Status(status, body)) => return Ok(response(StatusCode::from_u16(status).unwrap(), body)),
            Some(Fault::Echo) => {
                let repeated = format!("{} {}\n{:?}", request.method(), request.uri(), request.headers());
                return Ok(response(StatusCode::FORBIDDEN, error_body("AccessDenied", &repeated)));
            }
            Some(Fault::ResetAfter | Fault::Cut) | None => {}
        }
        if matches!(operation, Operation::Head | Operation::Get) && self.is_directory(request.uri().path()) {
            return Ok(response(StatusCode::NOT_FOUND, error_body("NoSuchKey", "The specified key does not exist.")));
        }
        if operation == Operation::AbortUpload && !self.has_upload(request.uri().query().unwrap_or_default()) {
            // `s3s-fs` refuses access instead.
            let message = "The specified upload does not exist.";
            return Ok(response(StatusCode::NOT_FOUND, error_body("NoSuchUpload", message)));
        }
        if self.is_public {
            // Google's clients send a kind to an emulator that `s3s` does not understand.
            request.headers_mut().remove("authorization");
        }
        // In a task of its own, so that a request that was received is carried out as a whole, whatever its sender does.
        let service = self.service.clone();
        let answer = tokio::spawn(async move { service.call(request.map(Body::from)).await });
        let answer = answer.await.map_err(io::Error::other)?;
        let answer = answer.map_err(|error| io::Error::other(format!("{error:?}")))?;
        match fault {
            Some(Fault::Cut) => {
                let (mut head, mut body) = answer.into_parts();
                let content = body.store_all_limited(MOST_CONTROL).await.map_err(io::Error::other)?;
                head.headers.remove(CONTENT_LENGTH);
                let half = content.slice(..content.len() / 2);
                Ok(Response::from_parts(head, Body::http_body(CutBody(Some(half)))))
            }
            Some(_) => Err(reset()),
            None => Ok(answer),
        }
    }

    /// Whether the upload that a query names is neither completed nor aborted.
    fn has_upload(&self, query: &str) -> bool {
        let id = query.split('&').find_map(|pair| pair.strip_prefix("uploadId=")).unwrap_or_default();
        let mark = format!(".upload-{id}.");
        fs::read_dir(&self.root).unwrap().any(|entry| entry.unwrap().file_name().to_string_lossy().contains(&mark))
    }

    /// Whether the path is that of a directory that `s3s-fs` keeps objects in, which it takes for an object.
    fn is_directory(&self, path: &str) -> bool {
        let decoded = percent_decode(path.trim_start_matches('/'));
        decoded.trim_end_matches('/').contains('/') && self.root.join(decoded).is_dir()
    }
}

impl Seen {
    fn arrives(&mut self, operation: Operation, path: &str) -> (Option<Fault>, Duration) {
        let count = self.counts.entry(operation).or_default();
        let number = *count;
        *count += 1;
        let under_way = self.under_way.entry(operation).or_default();
        *under_way += 1;
        let waiting = *under_way;
        self.requests.push(Received { operation, path: path.to_owned(), waiting });
        let fault = self.faults.remove(&(operation, number)).or_else(|| self.always.get(&operation).cloned());
        (fault, self.delay)
    }
}

/// Counts a request as under way until it is dropped.
struct UnderWay<'a> {
    state: &'a State,
    operation: Operation,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(under_way) = self.state.seen().under_way.get_mut(&self.operation) {
            *under_way -= 1;
        }
    }
}

async fn serve(listener: TcpListener, state: Arc<State>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        tokio::spawn(converse(stream, Arc::clone(&state)));
    }
}

async fn converse(stream: TcpStream, state: Arc<State>) {
    let service = service_fn(move |request| {
        let state = Arc::clone(&state);
        Box::pin(async move { state.answer(request).await })
    });
    let mut connection = http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service);
    let ended = poll_fn(|context| connection.poll_without_shutdown(context)).await;
    if ended.is_err() {
        // Makes the end of the connection a reset.
        connection.into_parts().io.into_inner().set_zero_linger().ok();
    }
}

fn response(status: StatusCode, body: String) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response
}

fn error_body(code: &str, message: &str) -> String {
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>{code}</Code><Message>{message}</Message></Error>")
}

fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let escaped = match (first, tail) {
            (b'%', [high, low, ..]) => {
                u8::from_str_radix(&String::from_utf8_lossy(&[*high, *low]), 16).ok().map(|byte| (byte, &tail[2..]))
            }
            _ => None,
        };
        let (byte, tail) = escaped.unwrap_or((first, tail));
        bytes.push(byte);
        rest = tail;
    }
    String::from_utf8(bytes).unwrap()
}

/// The files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}
