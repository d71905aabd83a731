//! [`WebServer`]: a server of the web with one directory of files, which may know less than HTTP has.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderValue, IF_MATCH, LOCATION, RANGE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use s3s::Body;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// What a server of the web knows.
#[derive(Debug, Clone, Copy)]
pub struct WebServerOptions {
    /// HEAD requests; else they are answered with 405.
    pub head: bool,
    /// Parts of files; else every answer is the whole file.
    pub ranges: bool,
}

/// A server on loopback that lives as long as the value. Files are answered to who knows their path, whatever the query.
pub struct WebServer {
    address: SocketAddr,
    state: Arc<State>,
    // Dropped last: ends every connection.
    _runtime: Runtime,
}

struct State {
    options: WebServerOptions,
    files: BTreeMap<String, Vec<u8>>,
    replacement: Mutex<Option<Replacement>>,
    redirects: Mutex<BTreeMap<String, String>>,
    requests: Mutex<Vec<(String, HeaderMap)>>,
}

/// A new version of a file.
struct Replacement {
    path: String,
    content: Vec<u8>,
    /// The number of GET requests for the file that are answered from the old version.
    after: usize,
    gets: usize,
    honours: bool,
}

impl WebServer {
    /// Serves files by their paths (`/a.csv`, percent-encoded).
    pub fn new<const N: usize>(options: WebServerOptions, files: [(&str, Vec<u8>); N]) -> Self {
        let files = files.into_iter().map(|(path, content)| (path.to_owned(), content)).collect();
        let state = Arc::new(State {
            options,
            files,
            replacement: Mutex::default(),
            redirects: Mutex::default(),
            requests: Mutex::default(),
        });
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(serve(listener, Arc::clone(&state)));
        Self { address, state, _runtime: runtime }
    }

    /// `127.0.0.1:PORT`.
    pub fn authority(&self) -> String {
        self.address.to_string()
    }

    /// Answers requests for a path with a redirect.
    pub fn redirect(&self, path: &str, location: &str) {
        let mut redirects = self.state.redirects.lock().unwrap_or_else(PoisonError::into_inner);
        redirects.insert(path.to_owned(), location.to_owned());
    }

    /// Replaces a file after so many GET requests for it from now on. Its answers have a strong entity tag, and the server
    /// `honours` If-Match or ignores it.
    pub fn replace_after(&self, after: usize, path: &str, content: Vec<u8>, honours: bool) {
        let replacement = Replacement { path: path.to_owned(), content, after, gets: 0, honours };
        *self.state.replacement.lock().unwrap_or_else(PoisonError::into_inner) = Some(replacement);
    }

    /// The number of GET requests for the replaced file.
    pub fn gets(&self) -> usize {
        self.state.replacement.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map_or(0, |file| file.gets)
    }

    /// The request lines so far (`GET /a.csv?b=c`), each with its headers.
    pub fn requests(&self) -> Vec<(String, HeaderMap)> {
        self.state.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn serve(listener: TcpListener, state: Arc<State>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let state = Arc::clone(&state);
        let service = service_fn(move |request| {
            let response = state.answer(&request);
            async move { Ok::<_, Infallible>(response) }
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

impl State {
    fn answer(&self, request: &Request<Incoming>) -> Response<Body> {
        let line = format!("{} {}", request.method(), request.uri());
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push((line, request.headers().clone()));
        let mut response = Response::new(Body::empty());
        let is_head = request.method() == Method::HEAD;
        if !(request.method() == Method::GET || is_head && self.options.head) {
            *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
            return response;
        }
        let redirects = self.redirects.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(location) = redirects.get(request.uri().path()).and_then(|to| HeaderValue::from_str(to).ok()) {
            *response.status_mut() = StatusCode::FOUND;
            response.headers_mut().insert(LOCATION, location);
            return response;
        }
        let Some(file) = self.files.get(request.uri().path()) else {
            *response.status_mut() = StatusCode::NOT_FOUND;
            return response;
        };
        let mut replacement = self.replacement.lock().unwrap_or_else(PoisonError::into_inner);
        let mut file = file;
        if let Some(replacement) = replacement.as_mut().filter(|replacement| replacement.path == request.uri().path()) {
            let is_new = replacement.gets >= replacement.after;
            replacement.gets += usize::from(!is_head);
            let tag = if is_new { "\"new\"" } else { "\"old\"" };
            response.headers_mut().insert(ETAG, HeaderValue::from_static(tag));
            if replacement.honours && request.headers().get(IF_MATCH).is_some_and(|asked| asked != tag) {
                *response.status_mut() = StatusCode::PRECONDITION_FAILED;
                return response;
            }
            file = if is_new { &replacement.content } else { file };
        }
        let asked = request.headers().get(RANGE).filter(|_| self.options.ranges).map(|range| range.to_str().unwrap());
        let body = match asked.and_then(|range| range.strip_prefix("bytes=")?.split_once('-')) {
            Some((first, last)) => {
                let (first, last) = (first.parse::<usize>().unwrap(), last.parse::<usize>().unwrap_or(usize::MAX));
                let last = last.min(file.len() - 1);
                *response.status_mut() = StatusCode::PARTIAL_CONTENT;
                let range = format!("bytes {first}-{last}/{}", file.len());
                response.headers_mut().insert(CONTENT_RANGE, range.parse().unwrap());
                file[first..=last].to_vec()
            }
            None => file.clone(),
        };
        response.headers_mut().insert(CONTENT_LENGTH, body.len().into());
        if !is_head {
            *response.body_mut() = Body::from(body);
        }
        response
    }
}
