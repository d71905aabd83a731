//! Timeouts and retries of requests to stores.

use std::fmt;
use std::time::Duration;
#[cfg(feature = "hdfs")]
use std::time::Instant;

use object_store::{ClientOptions, RetryConfig};

/// Request timeout for a web server, which may only be able to send files as a whole.
const WHOLE_FILE_TIMEOUT: Duration = Duration::from_secs(4 * 3600);

/// Delay before the first retry. Delays double up to [`LONGEST_DELAY`].
#[cfg(feature = "hdfs")]
const FIRST_DELAY: Duration = Duration::from_millis(100);

#[cfg(feature = "hdfs")]
const LONGEST_DELAY: Duration = Duration::from_secs(15);

/// The limits of requests, the same for every store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// Timeout to connect to a server.
    pub(crate) connect: Duration,
    /// Timeout of a request with its whole response: parts of 8 MiB arrive in time at half a megabit per second.
    pub(crate) answer: Duration,
    /// Total time for retries of a failing request. Signatures are valid for longer.
    pub(crate) retry: Duration,
    /// Maximum number of retries. The first follows after a tenth of a second; delays double up to 15 s.
    pub(crate) retries: usize,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            answer: Duration::from_secs(150),
            retry: Duration::from_secs(180),
            retries: 10,
        }
    }
}

impl fmt::Display for Patience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { connect, answer, retry, retries } = self;
        let [connect, answer, retry] = [connect, answer, retry].map(Duration::as_secs);
        write!(f, "{retries} retries within {retry} s, {connect} s to connect, {answer} s for an answer")
    }
}

/// Returns the options for a server that may only be able to send files as a whole.
pub(crate) fn web_options() -> ClientOptions {
    client_options().with_timeout(WHOLE_FILE_TIMEOUT)
}

pub(crate) fn client_options() -> ClientOptions {
    let Patience { connect, answer, .. } = Patience::default();
    ClientOptions::new().with_connect_timeout(connect).with_timeout(answer)
}

pub(crate) fn retries() -> RetryConfig {
    let Patience { retry, retries, .. } = Patience::default();
    RetryConfig { max_retries: retries, retry_timeout: retry, ..RetryConfig::default() }
}

/// The retries of one request, for a client that has other ones.
#[cfg(feature = "hdfs")]
pub(crate) struct Retries {
    end: Instant,
    left: usize,
    delay: Duration,
}

#[cfg(feature = "hdfs")]
impl Patience {
    /// Begins the retries of a request.
    pub(crate) fn retries(&self) -> Retries {
        Retries { end: Instant::now() + self.retry, left: self.retries, delay: FIRST_DELAY }
    }
}

#[cfg(feature = "hdfs")]
impl Retries {
    /// Returns the time to wait before the next attempt; `None` if there is none.
    pub(crate) fn next_delay(&mut self) -> Option<Duration> {
        self.left = self.left.checked_sub(1)?;
        let delay = self.delay;
        self.delay = LONGEST_DELAY.min(delay * 2);
        (Instant::now() < self.end).then_some(delay)
    }
}
