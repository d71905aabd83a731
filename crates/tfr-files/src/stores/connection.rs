//! How long a store is waited for, and how often it is asked again.

use std::time::Duration;

use object_store::{ClientOptions, RetryConfig};

/// To reach a server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// For a request and all of its answer: parts of 8 MiB pass at half a megabit a second.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(150);

/// Until a request that fails again and again is given up. Signatures are valid for longer.
const RETRY_TIMEOUT: Duration = Duration::from_secs(180);

/// How often a request is sent again, first after a tenth of a second, then after twice as long each time, up to 15 s.
const RETRIES: usize = 10;

/// The same for a server of the web, which may send files in one answer only.
const WHOLE_FILE_TIMEOUT: Duration = Duration::from_secs(4 * 3600);

/// Of a server that may send files in one answer only.
pub(super) fn web_options() -> ClientOptions {
    client_options().with_timeout(WHOLE_FILE_TIMEOUT)
}

pub(super) fn client_options() -> ClientOptions {
    ClientOptions::new().with_connect_timeout(CONNECT_TIMEOUT).with_timeout(REQUEST_TIMEOUT)
}

pub(super) fn retries() -> RetryConfig {
    RetryConfig { max_retries: RETRIES, retry_timeout: RETRY_TIMEOUT, ..RetryConfig::default() }
}

/// The same in words.
pub(super) fn patience() -> String {
    format!(
        "{RETRIES} retries within {} s, {} s to connect, {} s for an answer",
        RETRY_TIMEOUT.as_secs(),
        CONNECT_TIMEOUT.as_secs(),
        REQUEST_TIMEOUT.as_secs()
    )
}
