//! [`Spool`]: parts of uploads that wait on disk, because memory is short.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion_execution::disk_manager::DiskManager;
use datafusion_execution::spill_file::SpillFile;

/// One temporary file of the engine, cut into slots of equal length. So a thousand shards that are open need one file
/// handle, and no more disk than a slot each.
pub(super) struct Spool {
    disk: Arc<DiskManager>,
    slot_len: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Made when it is first needed. The engine removes it with the last who holds it.
    file: Option<(Arc<dyn SpillFile>, Arc<File>)>,
    slots: u64,
    free: Vec<u64>,
}

impl Spool {
    pub(super) fn new(disk: Arc<DiskManager>, slot_len: usize) -> Self {
        Self { disk, slot_len, state: Mutex::default() }
    }

    /// An empty slot.
    ///
    /// # Errors
    /// There may be no temporary files, or none can be made.
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
        Ok(Slot { spool: Arc::clone(self), file, number, len: 0 })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Spool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spool").field("slots", &self.state().slots).finish()
    }
}

/// A place for as many bytes as a slot has. Dropped, it is used again.
#[derive(Debug)]
pub(super) struct Slot {
    spool: Arc<Spool>,
    file: Arc<File>,
    number: u64,
    len: usize,
}

impl Slot {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds bytes, for which there must be room.
    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.len + bytes.len() > self.spool.slot_len {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.write_all_at(bytes, self.start() + self.len as u64)?;
        self.len += bytes.len();
        Ok(())
    }

    /// All that was added.
    pub(super) fn read(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.len];
        self.file.read_exact_at(&mut bytes, self.start())?;
        Ok(bytes)
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
