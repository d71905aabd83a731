//! [`DiskSpill`]: stores a sorter's runs in temporary files of the engine.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion_execution::config::SessionConfig;
use datafusion_execution::disk_manager::DiskManager;
use datafusion_execution::spill_file::{SpillFile as EngineFile, SpillWriter};
use tfrecord_shards::sort::{SpillFile, SpillStore};

/// The directory of the engine's temporary files, for messages. Register it as an extension of the session's
/// configuration if the engine's files come from a factory, which does not report its directory.
#[derive(Debug)]
pub struct TemporaryDirectory(pub PathBuf);

/// Creates temporary files in the engine's directories, within its quota
/// `datafusion.runtime.max_temp_directory_size`.
pub(super) struct DiskSpill {
    disk: Arc<DiskManager>,
    path: PathBuf,
}

impl DiskSpill {
    pub(super) fn new(disk: Arc<DiskManager>, config: &SessionConfig) -> Self {
        let directory = config.get_extension::<TemporaryDirectory>().map(|directory| directory.0.clone());
        let path = directory.or_else(|| disk.temp_dir_paths().into_iter().next()).unwrap_or_else(std::env::temp_dir);
        Self { disk, path }
    }
}

impl SpillStore for DiskSpill {
    fn create(&self) -> io::Result<Box<dyn SpillFile>> {
        let file = self.disk.create_tmp_file("sorting records").map_err(io::Error::other)?;
        let reader = File::open(file.path().ok_or(io::ErrorKind::Unsupported)?)?;
        let writer = Mutex::new(file.open_writer().map_err(io::Error::other)?);
        Ok(Box::new(TemporaryFile { reader, writer, _file: file }))
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Debug for DiskSpill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DiskSpill").field(&self.path).finish()
    }
}

/// One temporary file. The engine removes it when the last reference is dropped.
struct TemporaryFile {
    reader: File,
    /// Counts written bytes against the quota. The lock is never contended; it makes the file shareable for reading.
    writer: Mutex<Box<dyn SpillWriter>>,
    _file: Arc<dyn EngineFile>,
}

impl SpillFile for TemporaryFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.get_mut().unwrap_or_else(PoisonError::into_inner).write_all(bytes)
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(&self.reader, bytes, offset)
    }
}

impl fmt::Debug for TemporaryFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TemporaryFile").field(&self.reader).finish()
    }
}

#[cfg(test)]
mod tests {
    use datafusion_execution::disk_manager::DiskManagerBuilder;

    use super::*;

    #[test]
    fn spill_quota_counts_files_while_they_exist() -> datafusion_common::Result<()> {
        let disk = Arc::new(DiskManagerBuilder::default().with_max_temp_directory_size(10).build()?);
        let store = DiskSpill::new(Arc::clone(&disk), &SessionConfig::new());
        let mut file = store.create()?;
        file.append(b"123")?;
        file.append(b"45")?;
        let mut read = [0; 3];
        file.read_exact_at(&mut read, 2)?;
        assert_eq!(&read, b"345");
        assert_eq!(disk.used_disk_space(), 5);
        let error = store.create()?.append(b"123456").expect_err("eleven bytes");
        assert!(error.to_string().contains("max_temp_directory_size"), "{error}");
        drop(file);
        store.create()?.append(b"1234567890")?;
        Ok(())
    }
}
