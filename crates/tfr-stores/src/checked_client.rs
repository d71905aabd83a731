//! [`client`]: the HTTP client of a run that may not open everything. It follows a redirect only to what is allowed.
//!
//! The client that `object_store` builds follows any redirect, and has no option for that.

use std::time::Duration;

use object_store::client::ClientConfigKey;
use object_store::{ClientOptions, HeaderMap};
use reqwest::redirect::Policy;
use reqwest::{Client, Proxy};

use crate::door::Door;
use crate::service::Service;

/// Redirects of one request, as many as the client follows without a door.
const MOST_REDIRECTS: usize = 10;

/// Builds the client for these options. Of them `headers` cannot be read back.
///
/// Only a web server has its redirects followed. The servers of clouds have none for objects: that of a bucket names the
/// region of the bucket.
pub(crate) fn client(
    service: Service,
    options: &ClientOptions,
    headers: &HeaderMap,
    door: &Door,
) -> object_store::Result<Client> {
    let failed = |error: reqwest::Error| object_store::Error::Generic { store: "HTTP", source: Box::new(error) };
    let text = |key: ClientConfigKey| options.get_config_value(&key);
    let is_set = |key: ClientConfigKey| text(key).is_some_and(|value| value == "true");
    let mut builder = Client::builder()
        .user_agent(concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")))
        .default_headers(headers.clone())
        // The bytes of a compressed file are its content.
        .no_gzip()
        .no_brotli()
        .no_zstd()
        .no_deflate()
        .https_only(!is_set(ClientConfigKey::AllowHttp))
        .danger_accept_invalid_certs(is_set(ClientConfigKey::AllowInvalidCertificates))
        .redirect(policy(service, door));
    if is_set(ClientConfigKey::Http1Only) {
        builder = builder.http1_only();
    }
    if let Some(timeout) = text(ClientConfigKey::Timeout).as_deref().and_then(duration) {
        builder = builder.timeout(timeout);
    }
    if let Some(timeout) = text(ClientConfigKey::ConnectTimeout).as_deref().and_then(duration) {
        builder = builder.connect_timeout(timeout);
    }
    if let Some(proxy) = text(ClientConfigKey::ProxyUrl) {
        builder = builder.proxy(Proxy::all(proxy).map_err(failed)?);
    }
    builder.build().map_err(failed)
}

fn policy(service: Service, door: &Door) -> Policy {
    if service != Service::Http {
        return Policy::none();
    }
    let door = door.clone();
    Policy::custom(move |attempt| {
        if attempt.previous().len() > MOST_REDIRECTS {
            return attempt.error("too many redirects");
        }
        match door.check_redirect(attempt.url()) {
            Ok(()) => attempt.follow(),
            Err(refusal) => attempt.error(refusal),
        }
    })
}

/// Parses a time as the options show it: `2m 30s`.
fn duration(text: &str) -> Option<Duration> {
    let part = |part: &str| {
        let (number, unit) = part.split_at(part.find(|c: char| !c.is_ascii_digit())?);
        let number: u64 = number.parse().ok()?;
        Some(match unit {
            "ms" => Duration::from_millis(number),
            "s" => Duration::from_secs(number),
            "m" => Duration::from_secs(number * 60),
            "h" => Duration::from_secs(number * 3600),
            _ => return None,
        })
    };
    text.split(' ').map(part).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::{client_options, web_options};

    #[test]
    fn timeouts_of_options_are_read_back() {
        let timeout = |options: ClientOptions, key| duration(&options.get_config_value(&key).unwrap_or_default());
        assert_eq!(timeout(web_options(), ClientConfigKey::Timeout), Some(Duration::from_secs(4 * 3600)));
        assert_eq!(timeout(client_options(), ClientConfigKey::Timeout), Some(Duration::from_secs(150)));
        assert_eq!(timeout(client_options(), ClientConfigKey::ConnectTimeout), Some(Duration::from_secs(5)));
        assert_eq!(duration("1fortnight"), None);
    }
}
