//! The stores that scans read their files from.

use std::sync::Arc;

use datafusion_datasource::file_groups::FileGroup;
use datafusion_datasource::file_scan_config::FileScanConfig;
use datafusion_execution::object_store::ObjectStoreUrl;
use object_store::ObjectStore;
use tfr_stores::FileNames;

use crate::scan::read_ahead::ReadAhead;
use crate::unchanged::store::UnchangedFiles;

/// Returns the store of one partition of a scan, or of all of them. It refuses files that have changed since they were
/// listed, and fetches small remote files ahead. Errors name files as `names` specifies.
pub fn store_of_scan(
    store: Arc<dyn ObjectStore>,
    config: &FileScanConfig,
    names: &FileNames,
    partition: Option<usize>,
) -> Arc<dyn ObjectStore> {
    let unchanged = unchanged_files(store, config, names, partition);
    match config.object_store_url == ObjectStoreUrl::local_filesystem() {
        true => unchanged,
        false => Arc::new(ReadAhead::part_of(unchanged, groups(config, partition), config.file_groups.len())),
    }
}

/// The same, without fetching files ahead.
pub(crate) fn unchanged_files(
    store: Arc<dyn ObjectStore>,
    config: &FileScanConfig,
    names: &FileNames,
    partition: Option<usize>,
) -> Arc<dyn ObjectStore> {
    let groups = groups(config, partition);
    Arc::new(UnchangedFiles::of_scan(store, &config.object_store_url, names.clone(), groups))
}

fn groups(config: &FileScanConfig, partition: Option<usize>) -> &[FileGroup] {
    let all = config.file_groups.as_slice();
    partition.and_then(|partition| all.get(partition)).map_or(all, std::slice::from_ref)
}
