//! Files of a web server, and directories if it supports WebDAV.

use crate::door::Door;
use crate::location::{query_of_store, user_of_store};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use object_store::http::{HttpBuilder, HttpStore};
use object_store::{HeaderMap, HeaderValue};
use url::Url;

use crate::cloud::Built;
use crate::connection::{retries, web_options};
use crate::error::SettingsProblem;
use crate::service::Service;
use crate::wire::Wire;

/// Opens the server at `url`. The user and password become a header, and the query is sent with every request.
pub(crate) fn web(url: &Url, door: &Door) -> Result<Built<HttpStore>, SettingsProblem> {
    let mut base = url.clone();
    // These fail for a URL that cannot have a host; this one has a host.
    let _ = base.set_username("").and_then(|()| base.set_password(None));
    let summary =
        format!("{}, {}", base.as_str(), if *url == base { "no credentials" } else { "credentials of the URL" });
    let mut headers = HeaderMap::new();
    if let Some(query) = query_of_store(url) {
        base.set_query(Some(&query));
    } else if let Some(user) = user_of_store(url) {
        let mut value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(user)))
            .map_err(|_| SettingsProblem::from("the user of the URL fits into no header".to_owned()))?;
        value.set_sensitive(true);
        headers.insert("authorization", value);
    }
    let store = HttpBuilder::new()
        .with_url(base.as_str())
        .with_client_options(web_options().with_allow_http(true).with_default_headers(headers.clone()))
        .with_retry(retries())
        .with_http_connector(Wire::new(Service::Http, door).with_headers(headers))
        .build()?;
    Ok(Built { store, summary, server: String::new() })
}
