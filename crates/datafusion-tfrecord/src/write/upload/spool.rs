//! [`Spool`]: stores parts of uploads on disk when memory is short.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion_execution::disk_manager::DiskManager;
use datafusion_execution::spill_file::SpillFile;
use tfrecord_framing::crc32c_append;

/// One temporary file of the engine, divided into slots of equal length. A thousand open shards thus need one file
/// handle, and at most one slot of disk space each.
pub(super) struct Spool {
    disk: Arc<DiskManager>,
    slot_len: usize,
    state: Mutex<SlotFile>,
}

#[derive(Default)]
struct SlotFile {
    /// Created on first use. The engine removes it when the last reference is dropped.
    file: Option<(Arc<dyn SpillFile>, Arc<File>)>,
    slots: u64,
    free: Vec<u64>,
}

impl Spool {
    pub(super) fn new(disk: Arc<DiskManager>, slot_len: usize) -> Self {
        Self { disk, slot_len, state: Mutex::default() }
    }

    /// Returns an empty slot.
    ///
    /// # Errors
    /// Temporary files are disabled, or the file cannot be created.
    pub(super) fn slot(self: &Arc<Self>) -> io::Result<Slot> {
        let mut state = self.state();
        let file = match &state.file {
            Some((_, file)) => Arc::clone(file),
            None => {
                let made = self.disk.create_tmp_file("parts of uploads").map_err(io::Error::other)?;
                let path = made.path().ok_or(io::ErrorKind::Unsupported)?;
                let file = Arc::new(OpenOptions::new().read(true).write(true).open(path)?);
                state.file = Some((made, Arc::clone(&file)));
                file
            }
        };
        let number = state.free.pop().unwrap_or_else(|| {
            state.slots += 1;
            state.slots - 1
        });
        drop(state);
        Ok(Slot { spool: Arc::clone(self), file, number, len: 0, checksum: 0 })
    }

    fn state(&self) -> MutexGuard<'_, SlotFile> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Spool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spool").field("slots", &self.state().slots).finish()
    }
}

/// Space for as many bytes as a slot has. Reused after it is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    spool: Arc<Spool>,
    file: Arc<File>,
    number: u64,
    len: usize,
    /// The CRC-32C of the bytes.
    checksum: u32,
}

impl Slot {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Appends bytes, which must fit.
    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.len + bytes.len() > self.spool.slot_len {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let written = self.file.write_all_at(bytes, self.start() + self.len as u64);
        written.map_err(|error| self.failed("written", &error))?;
        self.checksum = crc32c_append(self.checksum, bytes);
        self.len += bytes.len();
        Ok(())
    }

    /// Reads all bytes of the slot.
    ///
    /// # Errors
    /// They cannot be read, or are not those that were written: a full disk can lose them after the write.
    pub(super) fn read(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.len];
        let read = self.file.read_exact_at(&mut bytes, self.start());
        read.map_err(|error| self.failed("read", &error))?;
        if crc32c_append(0, &bytes) != self.checksum {
            let changed = io::Error::new(io::ErrorKind::InvalidData, "they are not those that were written");
            return Err(self.failed("read", &changed));
        }
        Ok(bytes)
    }

    /// Names the file, since an error of the system does not.
    fn failed(&self, action: &str, error: &io::Error) -> io::Error {
        let path = self.spool.state().file.as_ref().and_then(|(file, _)| file.path().map(Path::to_owned));
        let path = path.unwrap_or_default();
        let text = format!("{}: parts of uploads cannot be {action}: {error}", path.display());
        io::Error::new(error.kind(), text)
    }

    fn start(&self) -> u64 {
        self.number * self.spool.slot_len as u64
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.spool.state().free.push(self.number);
    }
}

#[cfg(test)]
mod tests {
    use datafusion_execution::disk_manager::DiskManagerBuilder;

    use super::*;

    #[test]
    fn parts_that_have_changed_on_disk_are_an_error() -> datafusion_common::Result<()> {
        let spool = Arc::new(Spool::new(Arc::new(DiskManagerBuilder::default().build()?), 100));
        let (mut first, mut second) = (spool.slot()?, spool.slot()?);
        first.append(b"abc")?;
        second.append(b"defg")?;
        first.append(b"hij")?;
        assert_eq!(first.read()?, b"abchij");
        first.file.write_all_at(b"X", 1)?;
        let error = first.read().expect_err("a changed byte").to_string();
        assert!(error.ends_with("parts of uploads cannot be read: they are not those that were written"), "{error}");
        first.file.set_len(103)?;
        let error = second.read().expect_err("a cut file").to_string();
        assert!(error.contains("parts of uploads cannot be read: "), "{error}");
        Ok(())
    }
}
