//! [`Place`]: a path of some namenodes, and the requests about it.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use hdfs_native::Client;
use hdfs_native::client::{ContentSummary, FileStatus};
use hdfs_native::file::FileReader;

use super::fault::Fault;
use super::namespace::Namespace;

/// A path of some namenodes.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) namespace: Arc<Namespace>,
    pub(super) path: String,
}

impl Place {
    pub(super) fn status(&self) -> BoxFuture<'static, Result<FileStatus, Fault>> {
        let Self { namespace, path } = self.clone();
        async move {
            let ask = |client: Client| {
                let path = path.clone();
                async move { client.get_file_info(&path).await }
            };
            namespace.request(ask).await
        }
        .boxed()
    }

    pub(super) fn summary(&self) -> BoxFuture<'static, Result<ContentSummary, Fault>> {
        let Self { namespace, path } = self.clone();
        async move {
            let ask = |client: Client| {
                let path = path.clone();
                async move { client.get_content_summary(&path).await }
            };
            namespace.request(ask).await
        }
        .boxed()
    }

    /// Opens the file: returns the list of its blocks.
    pub(super) fn read(&self) -> BoxFuture<'static, Result<FileReader, Fault>> {
        let Self { namespace, path } = self.clone();
        async move {
            let ask = |client: Client| {
                let path = path.clone();
                async move { client.read(&path).await }
            };
            namespace.request(ask).await
        }
        .boxed()
    }

    /// Lists the files and directories in this directory.
    pub(super) fn list(&self) -> BoxFuture<'static, Result<Vec<FileStatus>, Fault>> {
        let Self { namespace, path } = self.clone();
        async move {
            let ask = |client: Client| {
                let (namespace, path) = (Arc::clone(&namespace), path.clone());
                async move {
                    let (answers, mut found) = (client.list_status_iter(&path, false), Vec::new());
                    // An answer has a thousand names.
                    while let Some(status) = namespace.limited(answers.next()).await? {
                        let status = status?;
                        // A file is listed as itself.
                        if status.path.trim_end_matches('/') != path.trim_end_matches('/') {
                            found.push(status);
                        }
                    }
                    Ok(found)
                }
            };
            namespace.repeat(ask).await
        }
        .boxed()
    }
}
