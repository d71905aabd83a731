//! HDFS, with a client that implements the protocol itself: it needs neither Java nor native libraries.

use hdfs_native_object_store::{HdfsObjectStore, HdfsObjectStoreBuilder};
use url::Url;

use super::cloud::Built;
use super::error::SettingsProblem;

/// Opens the name node, name service or view that `url` names, configured by the files in `HADOOP_CONF_DIR`.
pub(super) fn hdfs(url: &Url) -> Result<Built<HdfsObjectStore>, SettingsProblem> {
    let store = HdfsObjectStoreBuilder::new().with_url(url.as_str().trim_end_matches('/')).build()?;
    Ok(Built { store, summary: "settings of HADOOP_CONF_DIR".to_owned() })
}
