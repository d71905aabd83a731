//! The connection to a Hive Metastore: calls of its methods, over Thrift.
//!
//! All calls read, so a call that fails is repeated: at the next server, and then again.

use std::fmt;
use std::io::{Error as IoError, ErrorKind as IoKind};
use std::time::Duration;

use tfr_stores::{Door, LocationText};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};
use url::Url;

use super::thrift::{self, Answer, Struct};
use crate::error::{Error, MetastoreError, Result};

/// How long servers are waited for.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// For a connection.
    connecting: Duration,
    /// For an answer in full.
    answering: Duration,
    /// Before all servers are tried again, each time. A server that starts again needs some seconds.
    pauses: [Duration; 3],
}

impl Default for Patience {
    fn default() -> Self {
        let pauses = [1, 2, 4].map(Duration::from_secs);
        Self { connecting: Duration::from_secs(10), answering: Duration::from_secs(120), pauses }
    }
}

const SCHEME: &str = "thrift";

/// The port of metastores.
const PORT: u16 = 9083;

/// One server.
#[derive(Debug, Clone)]
struct Server {
    url: Url,
    host: String,
    port: u16,
}

impl Server {
    fn parse(text: &str) -> Result<Self> {
        let invalid = |reason: String| {
            Error::from(MetastoreError::Address { address: LocationText::from(text).to_string(), reason })
        };
        let url = Url::parse(text).map_err(|error| invalid(error.to_string()))?;
        if url.scheme() != SCHEME {
            return Err(invalid(format!("the scheme is {}", url.scheme())));
        }
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(|| invalid("no host".to_owned()))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid("a user is not supported".to_owned()));
        }
        if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
            return Err(invalid("something follows the port".to_owned()));
        }
        // The address of IPv6 is in brackets in a URL alone.
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = url.port().unwrap_or(PORT);
        let url = format!("{SCHEME}://{}:{port}/", url.host_str().unwrap_or_default());
        let url = Url::parse(&url).map_err(|error| invalid(error.to_string()))?;
        Ok(Self { url, host, port })
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.url.as_str().trim_end_matches('/'))
    }
}

/// A client of the servers of one metastore.
pub(super) struct Client {
    servers: Vec<Server>,
    patience: Patience,
    connection: Mutex<Connection>,
}

/// The state of the connection.
#[derive(Default)]
struct Connection {
    stream: Option<BufReader<TcpStream>>,
    /// The number of the server that is used, or tried next.
    server: usize,
    /// The number of the last call.
    calls: i32,
}

/// Why a call has failed at a server.
enum CallFailure {
    /// Another server, or another try, may succeed.
    Connection(IoError),
    /// The server has not answered in time.
    Silence,
    /// It will fail again.
    Final(Error),
}

impl Client {
    /// Creates a client of the servers at `addresses`, `thrift://host:port[,...]`. It connects with the first call.
    ///
    /// # Errors
    /// One is not such a URL, or the door does not allow it.
    pub fn new(addresses: &str, door: &Door) -> datafusion_common::Result<Self> {
        let servers = addresses.split(',').map(|text| Server::parse(text.trim()));
        let servers = servers.collect::<Result<Vec<_>>>()?;
        servers.iter().try_for_each(|server| door.check_url(&server.url)).map_err(tfr_files::Error::from)?;
        Ok(Self { servers, patience: Patience::default(), connection: Mutex::default() })
    }

    /// Calls a method, and returns its result: what it returns is field 0, and an exception that it declares another one.
    pub async fn call(&self, method: &'static str, arguments: Struct) -> Result<Struct> {
        let mut connection = self.connection.lock().await;
        let mut failures = Vec::new();
        for pause in self.patience.pauses.map(Some).into_iter().chain([None]) {
            let mut is_silent = false;
            for _ in 0..self.servers.len() {
                let index = connection.server % self.servers.len();
                let server = &self.servers[index];
                match connection.call(server, self.patience, method, arguments.clone()).await {
                    Ok(result) => return Ok(result),
                    Err(CallFailure::Final(error)) => return Err(error),
                    Err(failure) => {
                        let problem = match failure {
                            CallFailure::Connection(error) => error.to_string(),
                            _ => {
                                is_silent = true;
                                format!("no answer to {method} within {} s", self.patience.answering.as_secs())
                            }
                        };
                        log::info!("{server}: {problem}");
                        failures.push((server.to_string(), problem));
                        connection.stream = None;
                        connection.server = index + 1;
                    }
                }
            }
            match pause {
                Some(pause) if !is_silent => sleep(pause).await,
                _ => break,
            }
        }
        // Those of the last round.
        let last = failures.split_off(failures.len() - self.servers.len());
        Err(MetastoreError::Unreachable { servers: last }.into())
    }

    /// The URLs of the servers.
    pub fn addresses(&self) -> String {
        self.servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }
}

impl Connection {
    async fn call(
        &mut self,
        server: &Server,
        patience: Patience,
        method: &'static str,
        arguments: Struct,
    ) -> Result<Struct, CallFailure> {
        self.calls = self.calls.wrapping_add(1);
        let message = thrift::call(method, self.calls, arguments);
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => self.stream.insert(connect(server, patience.connecting).await?),
        };
        let answer = async {
            stream.write_all(&message).await?;
            stream.flush().await?;
            thrift::answer(stream, method, self.calls).await
        };
        let garbage = |found: String| CallFailure::Final(MetastoreError::invalid(server.to_string(), &found).into());
        match timeout(patience.answering, answer).await {
            Err(_) => Err(CallFailure::Silence),
            Ok(Err(error)) if error.kind() == IoKind::InvalidData => Err(garbage(error.to_string())),
            Ok(Err(error)) => Err(CallFailure::Connection(error)),
            Ok(Ok(Answer::Reply(result))) => Ok(result),
            Ok(Ok(Answer::Exception(message))) => {
                let error = MetastoreError::failed(server.to_string(), method, &first_line(&message));
                Err(CallFailure::Final(error.into()))
            }
            Ok(Ok(Answer::Other(bytes))) => Err(match protocol(bytes) {
                Some(protocol) => {
                    CallFailure::Final(MetastoreError::Protocol { server: server.to_string(), protocol }.into())
                }
                None => garbage(format!("bytes {bytes:02x?}")),
            }),
        }
    }
}

async fn connect(server: &Server, limit: Duration) -> Result<BufReader<TcpStream>, CallFailure> {
    let connecting = TcpStream::connect((server.host.as_str(), server.port));
    let late = || IoError::new(IoKind::TimedOut, format!("no connection within {} s", limit.as_secs()));
    let connected = timeout(limit, connecting).await.unwrap_or_else(|_| Err(late()));
    let stream = connected.map_err(CallFailure::Connection)?;
    log::info!("{server}: connected");
    Ok(BufReader::new(stream))
}

/// Returns what a server speaks that begins an answer so.
fn protocol(bytes: [u8; 4]) -> Option<&'static str> {
    match bytes {
        // The status of a negotiation, then the length of a message: a server that wants SASL refuses the call.
        [1..=5, 0, ..] => Some("SASL"),
        [0x15, 0x03, ..] => Some("TLS"),
        [b'H', b'T', b'T', b'P'] => Some("HTTP"),
        _ => None,
    }
}

/// Returns the first line of a message: servers append the stack of the program.
pub(super) fn first_line(message: &str) -> String {
    message.lines().next().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests;
