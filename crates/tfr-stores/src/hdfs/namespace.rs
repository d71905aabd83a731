//! [`Namespace`]: requests to the namenodes of one authority, with limits and retries.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::join_all;
use hdfs_native::{Client, ClientBuilder};
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::configuration::{Authority, Configuration, NameService};
use super::fault::Fault;
use crate::connection::{Patience, Retries};

/// A directory that contains neither file of [`Configuration`]: the client does not read them again.
const NO_FILES: &str = "/dev/null";

/// The namenodes of an authority.
pub(super) struct Namespace {
    configuration: Arc<Configuration>,
    authority: Authority,
    user: Option<String>,
    patience: Patience,
    /// The client, with its connections. Made by the first request, and again after one that got no answer: the client
    /// would wait for the same connection.
    client: Mutex<Option<Client>>,
}

impl Namespace {
    pub(super) fn new(
        configuration: Arc<Configuration>,
        authority: Authority,
        user: Option<String>,
        patience: Patience,
    ) -> Self {
        Self { configuration, authority, user, patience, client: Mutex::default() }
    }

    pub(super) fn addresses(&self) -> &[String] {
        &self.authority.addresses
    }

    pub(super) fn patience(&self) -> &Patience {
        &self.patience
    }

    /// Returns the permissions that new files and directories do not get.
    pub(super) fn umask(&self) -> u32 {
        let mode = self.configuration.get("fs.permissions.umask-mode");
        mode.and_then(|mode| u32::from_str_radix(mode, 8).ok()).unwrap_or(0o022)
    }

    /// Sends a request, and repeats it if the reason of its failure may pass.
    pub(super) async fn request<T, A>(&self, ask: impl Fn(Client) -> A) -> Result<T, Fault>
    where
        A: Future<Output = hdfs_native::Result<T>>,
    {
        self.repeat(|client| {
            let answer = self.limited(ask(client));
            async move { answer.await?.map_err(Fault::from) }
        })
        .await
    }

    /// As [`request`](Self::request), of a request of several questions, each of which is [`limited`](Self::limited).
    pub(super) async fn repeat<T, A>(&self, ask: impl Fn(Client) -> A) -> Result<T, Fault>
    where
        A: Future<Output = Result<T, Fault>>,
    {
        let mut retries = self.patience.retries();
        loop {
            let answer = match self.client().await {
                Ok(client) => ask(client).await,
                Err(fault) => Err(fault),
            };
            match answer {
                Ok(answer) => return Ok(answer),
                Err(fault) => self.wait(&mut retries, fault).await?,
            }
        }
    }

    /// Waits before the next attempt.
    ///
    /// # Errors
    /// The fault, if there is no further attempt.
    pub(super) async fn wait(&self, retries: &mut Retries, fault: Fault) -> Result<(), Fault> {
        if !fault.may_pass() {
            return Err(fault);
        }
        let Some(delay) = retries.next_delay() else { return Err(fault) };
        log::info!("{}: {fault}; the request is repeated after {} ms", self.authority.url, delay.as_millis());
        if let Fault::Unreachable(_) = fault {
            *self.client.lock().await = None;
        }
        tokio::time::sleep(delay).await;
        Ok(())
    }

    /// Waits for an answer, for a limited time.
    pub(super) async fn limited<T>(&self, answer: impl Future<Output = T>) -> Result<T, Fault> {
        // The client panics on answers that it does not expect.
        match timeout(self.patience.answer, AssertUnwindSafe(answer).catch_unwind()).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(Fault::Failed("the client failed on an answer that it did not expect".to_owned())),
            Err(_) => Err(Fault::Unreachable(format!("no answer within {} s", self.patience.answer.as_secs_f32()))),
        }
    }

    pub(super) async fn client(&self) -> Result<Client, Fault> {
        let mut client = self.client.lock().await;
        if let Some(client) = &*client {
            return Ok(client.clone());
        }
        let order = self.reachable_first().await?;
        Ok(client.insert(self.build(&order)?).clone())
    }

    fn build(&self, order: &[usize]) -> Result<Client, Fault> {
        let values = self.configuration.values().map(|(name, value)| (name.clone(), value.clone()));
        let mut values: Vec<_> = values.collect();
        if let Some(NameService { name, namenodes }) = &self.authority.service {
            let ordered: Vec<_> = order.iter().map(|index| namenodes[*index].as_str()).collect();
            values.push((format!("dfs.ha.namenodes.{name}"), ordered.join(",")));
            values.extend(
                namenodes.iter().zip(&self.authority.addresses).map(|(namenode, address)| {
                    (format!("dfs.namenode.rpc-address.{name}.{namenode}"), address.clone())
                }),
            );
        }
        // Each namenode is asked once: the retries are those of `request`.
        let others = self.authority.addresses.len().saturating_sub(1);
        values.push(("dfs.client.failover.max.attempts".to_owned(), others.to_string()));
        values.push(("dfs.client.failover.sleep.base.millis".to_owned(), "10".to_owned()));
        let builder = ClientBuilder::new().with_url(&self.authority.url).with_config_dir(NO_FILES).with_config(values);
        let builder = match &self.user {
            Some(user) => builder.with_user(user),
            None => builder,
        };
        builder.build().map_err(Fault::from)
    }

    /// Connects to each namenode, and returns their indices with those first that can be reached. The client itself
    /// waits for minutes for a machine that is switched off before it asks another.
    async fn reachable_first(&self) -> Result<Vec<usize>, Fault> {
        let attempts: Vec<_> = self.authority.addresses.iter().map(|address| self.connect(address)).collect();
        let attempts = join_all(attempts).await;
        let mut order: Vec<_> = (0..attempts.len()).collect();
        order.sort_by_key(|index| attempts[*index].is_err());
        let mut failure = None;
        for attempt in attempts {
            match attempt {
                Ok(()) => return Ok(order),
                // A machine that is down may come back; a name that is unknown does not.
                Err(fault) if failure.is_none() || fault.may_pass() => failure = Some(fault),
                Err(_) => {}
            }
        }
        Err(failure.unwrap_or_else(|| Fault::Failed("there is no namenode".to_owned())))
    }

    async fn connect(&self, address: &str) -> Result<(), Fault> {
        let connecting = async {
            let resolved = lookup_host(address).await.map_err(|error| Fault::Unknown(format!("{address}: {error}")))?;
            let resolved: Vec<_> = resolved.collect();
            let connected = TcpStream::connect(resolved.as_slice()).await;
            connected.map(drop).map_err(|error| Fault::Unreachable(format!("{address}: {error}")))
        };
        let limit = self.patience.connect;
        let late = || Fault::Unreachable(format!("{address}: no connection within {} s", limit.as_secs_f32()));
        timeout(limit, connecting).await.map_err(|_| late())?
    }
}
