//! Timeouts and retries of requests to stores.

use std::time::Duration;

use object_store::{ClientOptions, RetryConfig};

/// Timeout to connect to a server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout of a request with its whole response: parts of 8 MiB arrive in time at half a megabit per second.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(150);

/// Total time for retries of a failing request. Signatures are valid for longer.
const RETRY_TIMEOUT: Duration = Duration::from_secs(180);

/// Maximum number of retries. The first follows after a tenth of a second; delays double up to 15 s.
const RETRIES: usize = 10;

/// Request timeout for a web server, which may only be able to send files as a whole.
const WHOLE_FILE_TIMEOUT: Duration = Duration::from_secs(4 * 3600);

/// Returns the options for a server that may only be able to send files as a whole.
pub(super) fn web_options() -> ClientOptions {
    client_options().with_timeout(WHOLE_FILE_TIMEOUT)
}

pub(super) fn client_options() -> ClientOptions {
    ClientOptions::new().with_connect_timeout(CONNECT_TIMEOUT).with_timeout(REQUEST_TIMEOUT)
}

pub(super) fn retries() -> RetryConfig {
    RetryConfig { max_retries: RETRIES, retry_timeout: RETRY_TIMEOUT, ..RetryConfig::default() }
}

/// Describes the timeouts and retries in words.
pub(super) fn patience() -> String {
    format!(
        "{RETRIES} retries within {} s, {} s to connect, {} s for an answer",
        RETRY_TIMEOUT.as_secs(),
        CONNECT_TIMEOUT.as_secs(),
        REQUEST_TIMEOUT.as_secs()
    )
}
