//! [`Wire`]: the HTTP layer of stores, which filters unsuccessful responses.
//!
//! A store's client includes any response of a server in its errors, and a response may contain the request with its
//! headers, or a signed URL. Responses are therefore filtered here, before the client sees them: of a failure only
//! the status, the code and harmless text are passed on, as a [`Refusal`]. Requests are logged without query and
//! headers.

use std::time::Instant;

use crate::door::Door;
use crate::location_text::redacted;
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
    ReqwestConnector,
};
use object_store::{ClientOptions, HeaderMap, HeaderValue};

use crate::checked_client;
use crate::error::Answer;
use crate::service::Service;

/// Creates the HTTP clients of a store.
#[derive(Debug, Clone)]
pub(crate) struct Wire {
    service: Service,
    door: Door,
    /// Sent with every request. They are in the options, too, which do not return them.
    headers: HeaderMap,
}

impl Wire {
    pub(crate) fn new(service: Service, door: &Door) -> Self {
        Self { service, door: door.clone(), headers: HeaderMap::new() }
    }

    pub(crate) fn with_headers(self, headers: HeaderMap) -> Self {
        Self { headers, ..self }
    }
}

/// An unsuccessful response; the innermost source of the client's error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the server answered {0}")]
    Answer(Answer),
    #[error("there is no such bucket: {0}")]
    NoBucket(Answer),
    #[error("the bucket is in region {0}")]
    OtherRegion(String),
    #[error("the server does not list files: {0}")]
    NoListing(Answer),
    #[error("the server does not send parts of files")]
    NoParts,
    #[error("{0}")]
    NoCredentials(String),
    #[error("access is denied: {0}")]
    Denied(Answer),
    #[error("{0}")]
    Unreachable(String),
    #[error("{0} is still being written")]
    BeingWritten(String),
    #[error("{0}")]
    Failed(String),
}

impl HttpConnector for Wire {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let inner = match self.door.is_limited() {
            true => HttpClient::new(checked_client::client(self.service, options, &self.headers, &self.door)?),
            false => ReqwestConnector::default().connect(options)?,
        };
        Ok(HttpClient::new(Judge { service: self.service, inner }))
    }
}

#[derive(Debug)]
struct Judge {
    service: Service,
    inner: HttpClient,
}

/// A description of a request's target.
struct Asked {
    /// Whether the answer may be the content of a file.
    is_data: bool,
    method: String,
    host: String,
    /// The URL without its query.
    url: String,
}

impl Asked {
    fn of(request: &HttpRequest) -> Self {
        let uri = request.uri();
        let host = uri.host().unwrap_or_default().to_owned();
        let port = uri.port_u16().map(|port| format!(":{port}")).unwrap_or_default();
        let url = format!("{}://{host}{port}{}", uri.scheme_str().unwrap_or_default(), uri.path());
        let method = request.method().to_string();
        let lists = uri.query().is_some_and(|query| query.contains("list-type=") || query.contains("comp=list"));
        Self { is_data: method == "GET" && !lists, method, host, url }
    }

    /// Whether the request is for credentials, not for objects.
    fn is_for_credentials(&self) -> bool {
        const HOSTS: [&str; 8] = [
            "169.254.169.254",
            "[fd00:ec2::254]",
            "169.254.170.2",
            "169.254.170.23",
            "metadata.google.internal",
            "oauth2.googleapis.com",
            "iamcredentials.googleapis.com",
            "login.microsoftonline.com",
        ];
        HOSTS.contains(&self.host.as_str()) || self.host.starts_with("sts.")
    }
}

#[async_trait]
impl HttpService for Judge {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let asked = Asked::of(&request);
        let range = request.headers().get("range").cloned();
        let again = (self.service == Service::Http && asked.method == "HEAD").then(|| request.clone());
        let is_data = asked.is_data;
        let response = self.send(&asked, request).await?;
        let status = response.status().as_u16();
        match (again, range) {
            // For servers without HEAD, and URLs signed for GET only.
            (Some(request), _) if matches!(status, 403 | 405 | 501) => match self.head_by_get(request).await? {
                Some(head) => Ok(head),
                None => self.judge(&asked, response).await,
            },
            (_, Some(range)) if self.service == Service::Http && status == 200 => part_of_whole(response, &range).await,
            _ if is_data => self.judge(&asked, response).await,
            _ => whole(self.judge(&asked, response).await?).await,
        }
    }
}

impl Judge {
    async fn send(&self, asked: &Asked, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let started = Instant::now();
        let outcome = self.inner.execute(request).await;
        let Asked { method, url, .. } = asked;
        match outcome {
            Ok(response) => {
                log::debug!("{method} {url}: {} in {:.3?}", response.status().as_u16(), started.elapsed());
                Ok(response)
            }
            Err(error) if asked.is_for_credentials() => {
                log::debug!("{method} {url}: {}", innermost(&error));
                let reason = "none in the environment, and this machine is given none by its cloud";
                Err(final_error(Refusal::NoCredentials(reason.to_owned())))
            }
            Err(error) => {
                log::info!("{method} {url}: {} after {:.3?}", innermost(&error), started.elapsed());
                Err(error)
            }
        }
    }

    /// Passes on successful responses, and only the safe parts of others.
    async fn judge(&self, asked: &Asked, response: HttpResponse) -> Result<HttpResponse, HttpError> {
        let status = response.status().as_u16();
        if response.status().is_success() || status == 304 {
            return Ok(response);
        }
        let (mut head, body) = response.into_parts();
        let body = beginning(body).await;
        let answer = Answer::of(status, &head.headers, &body);
        if let Some(region) = region(&head.headers, &answer, &body) {
            return Err(final_error(Refusal::OtherRegion(region)));
        }
        if asked.is_for_credentials() {
            return Err(final_error(Refusal::NoCredentials(format!("{} answered {answer}", asked.host))));
        }
        if asked.method == "PROPFIND" && matches!(status, 400 | 403 | 405 | 501) {
            return Err(final_error(Refusal::NoListing(answer)));
        }
        match (status, answer.code.as_deref()) {
            (404, Some("NoSuchBucket" | "ContainerNotFound" | "FilesystemNotFound")) => {
                Err(final_error(Refusal::NoBucket(answer)))
            }
            // The client handles each of these by the status alone.
            (300..=399 | 404 | 405 | 409 | 412, _) => {
                head.headers.remove("content-length");
                Ok(HttpResponse::from_parts(head, Bytes::new().into()))
            }
            (408 | 429 | 500 | 502..=599, _) => {
                log::info!("{} {}: {answer}", asked.method, asked.url);
                // The client retries this kind, as it does these statuses.
                Err(HttpError::new(HttpErrorKind::Request, Refusal::Answer(answer)))
            }
            _ => Err(final_error(Refusal::Answer(answer))),
        }
    }

    /// Answers a HEAD request by requesting the first byte.
    async fn head_by_get(&self, mut request: HttpRequest) -> Result<Option<HttpResponse>, HttpError> {
        let Ok(get) = "GET".parse() else { return Ok(None) };
        *request.method_mut() = get;
        request.headers_mut().insert("range", HeaderValue::from_static("bytes=0-0"));
        let asked = Asked::of(&request);
        let mut response = self.send(&asked, request).await?;
        let size = match response.status().as_u16() {
            206 => response.headers().get("content-range").and_then(total_of).map(HeaderValue::from),
            // An empty file has no first byte.
            416 => Some(HeaderValue::from(0)),
            200 => response.headers().get("content-length").cloned(),
            _ => None,
        };
        let (Some(size), Ok(ok)) = (size, 200.try_into()) else { return Ok(None) };
        *response.status_mut() = ok;
        response.headers_mut().remove("content-range");
        response.headers_mut().insert("content-length", size);
        Ok(Some(response))
    }
}

/// Reads an answer that is not the content of a file. One that breaks off is an error that the client repeats the request
/// for; it does not if it finds that itself.
async fn whole(response: HttpResponse) -> Result<HttpResponse, HttpError> {
    let (head, body) = response.into_parts();
    match body.bytes().await {
        Ok(bytes) => Ok(HttpResponse::from_parts(head, bytes.into())),
        Err(error) => Err(HttpError::new(HttpErrorKind::Interrupted, error)),
    }
}

/// Above this size a file is not fetched as a whole for each part of it.
const WHOLE_FILE_LIMIT: u64 = 64 << 20;

/// Returns the requested part of a response with the whole file.
async fn part_of_whole(response: HttpResponse, range: &HeaderValue) -> Result<HttpResponse, HttpError> {
    let (head, body) = response.into_parts();
    let number = |value: &HeaderValue| value.to_str().ok()?.parse::<u64>().ok();
    let size = head.headers.get("content-length").and_then(number).filter(|size| *size <= WHOLE_FILE_LIMIT);
    let asked = size.and_then(|size| Some((size, bounds(range.to_str().ok()?, size)?)));
    let (Some((size, (start, end))), Ok(partial)) = (asked, 206.try_into()) else {
        return Err(final_error(Refusal::NoParts));
    };
    let mut part = BytesMut::new();
    let mut at = 0;
    let mut pieces = body.bytes_stream();
    while at < end {
        let Some(piece) = pieces.next().await.transpose()? else { break };
        let offset = |wanted: u64| usize::try_from(wanted.saturating_sub(at)).unwrap_or(usize::MAX).min(piece.len());
        part.extend_from_slice(&piece[offset(start)..offset(end)]);
        at += piece.len() as u64;
    }
    let len = part.len();
    let mut response = HttpResponse::new(part.freeze().into());
    *response.status_mut() = partial;
    *response.headers_mut() = head.headers;
    response.headers_mut().insert("content-length", HeaderValue::from(len));
    if let Ok(range) = HeaderValue::try_from(format!("bytes {start}-{}/{size}", end - 1)) {
        response.headers_mut().insert("content-range", range);
    }
    Ok(response)
}

/// Returns the start and the exclusive end of `bytes=1-2`, `bytes=1-` or `bytes=-2` in a file; `None` if there is no
/// such part.
fn bounds(range: &str, size: u64) -> Option<(u64, u64)> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    let (start, end) = match (first, last) {
        ("", last) => (size.saturating_sub(last.parse().ok()?), size),
        (first, "") => (first.parse().ok()?, size),
        (first, last) => (first.parse().ok()?, last.parse::<u64>().ok()?.checked_add(1)?.min(size)),
    };
    (start < end).then_some((start, end))
}

/// Returns the size in `bytes 0-0/123`.
fn total_of(range: &HeaderValue) -> Option<u64> {
    range.to_str().ok()?.rsplit_once('/')?.1.parse().ok()
}

/// Creates an error that the client does not retry.
fn final_error(refusal: Refusal) -> HttpError {
    HttpError::new(HttpErrorKind::Unknown, refusal)
}

/// Returns the message of the last error in a chain.
pub(crate) fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let last = std::iter::successors(Some(error), |error| error.source()).last();
    last.map(|error| redacted(&error.to_string()).into_owned()).unwrap_or_default()
}

/// Reads enough of a body for the error in it.
async fn beginning(body: HttpResponseBody) -> Vec<u8> {
    const ENOUGH: usize = 16 << 10;
    let mut bytes = Vec::new();
    let mut pieces = body.bytes_stream();
    while let Some(Ok(piece)) = pieces.next().await
        && bytes.len() < ENOUGH
    {
        bytes.extend_from_slice(&piece[..piece.len().min(ENOUGH)]);
    }
    bytes
}

impl Answer {
    /// Parses the error in a response of S3, GCS or Azure.
    fn of(status: u16, headers: &HeaderMap, body: &[u8]) -> Self {
        let body = String::from_utf8_lossy(body);
        let in_header = headers.get("x-ms-error-code").and_then(|code| code.to_str().ok());
        let code = in_header.or_else(|| element(&body, "Code")).filter(|code| is_code(code));
        let text = element(&body, "Message").map(str::trim).filter(|text| is_harmless(text));
        Self { status: Some(status), code: code.map(str::to_owned), text: text.map(str::to_owned) }
    }
}

/// Returns the region of a bucket, as reported by the server.
fn region(headers: &HeaderMap, answer: &Answer, body: &[u8]) -> Option<String> {
    let moved = match (answer.status.unwrap_or_default(), answer.code.as_deref()) {
        (301 | 307, _) => true,
        (400, code) => code.is_none_or(|code| code == "AuthorizationHeaderMalformed"),
        _ => false,
    };
    let body = String::from_utf8_lossy(body);
    let named =
        || headers.get("x-amz-bucket-region").and_then(|region| region.to_str().ok()).or(element(&body, "Region"));
    moved.then(named).flatten().filter(|region| is_code(region)).map(str::to_owned)
}

/// Returns the text of the first XML element of this name.
fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    rest.split_once("</").map(|(text, _)| text)
}

fn is_code(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 64
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
}

/// Whether a server's text cannot contain secrets: one short sentence that does not mention any.
fn is_harmless(text: &str) -> bool {
    const SECRETIVE: [&str; 8] = ["authori", "signature", "token", "credential", "password", "secret", "sig=", "://"];
    let lower = text.to_ascii_lowercase();
    !text.is_empty()
        && text.len() <= 200
        && !text.contains(char::is_control)
        && !SECRETIVE.iter().any(|word| lower.contains(word))
        && !text.split(' ').any(|word| word.len() > 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn store_answer_shows_the_code_and_no_secrets() {
        let answer = |body: &str| Answer::of(403, &HeaderMap::new(), body.as_bytes()).to_string();
        assert_eq!(
            answer("<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"),
            "403 SlowDown (Please reduce your request rate.)"
        );
        for body in [
            "",
            "not XML at all",
            "<Code>Bad Code</Code><Message>authorization: AWS4-HMAC-SHA256 Credential=a, Signature=b</Message>",
            "<Code>a\nb</Code><Message>x-amz-security-token: FwoGZXIvYXdz</Message>",
            "<Message>GET /f?sig=abc</Message>",
            "<Message>wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY</Message>",
        ] {
            assert_eq!(answer(body), "403", "{body}");
        }
    }

    #[test]
    fn range_header_parses_to_bounds() {
        assert_eq!(bounds("bytes=2-4", 10), Some((2, 5)));
        assert_eq!(bounds("bytes=2-", 10), Some((2, 10)));
        assert_eq!(bounds("bytes=-4", 10), Some((6, 10)));
        assert_eq!(bounds("bytes=-40", 10), Some((0, 10)));
        assert_eq!(bounds("bytes=8-90", 10), Some((8, 10)));
        for range in ["bytes=10-", "bytes=5-4", "bytes=-", "lines=1-2", "bytes=0-18446744073709551615x"] {
            assert_eq!(bounds(range, 10), None, "{range}");
        }
        assert_eq!(total_of(&HeaderValue::from_static("bytes 0-0/123")), Some(123));
        assert_eq!(total_of(&HeaderValue::from_static("bytes 0-0/*")), None);
    }

    #[test]
    fn s3_region_is_read_from_the_error_body() {
        let body =
            b"<Error><Code>AuthorizationHeaderMalformed</Code><Message>m</Message><Region>eu-west-1</Region></Error>";
        let answer = Answer::of(400, &HeaderMap::new(), body);
        assert_eq!(region(&HeaderMap::new(), &answer, body).as_deref(), Some("eu-west-1"));
        let answer = Answer { status: Some(403), ..answer };
        assert_eq!(region(&HeaderMap::new(), &answer, body), None);
    }
}
