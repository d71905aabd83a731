//! [`Files`]: opens the files of a data set, local ones and objects of stores.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use tfr_stores::Door;
use tfrecord_shards::{Progress, ReadSeek};

use crate::buckets::{AHEAD, Access, Buckets, Object, OpenObject, PART, Stop};
use crate::error::{Failure, Result};

/// Returns a check of whether work that Ctrl-C stops is to stop.
pub(crate) fn stop_of(progress: &Arc<Progress>) -> Stop {
    let progress = Arc::clone(progress);
    Arc::new(move || progress.is_stopped())
}

/// Opens files, as far as that is allowed.
#[derive(Clone)]
pub(crate) struct Files {
    door: Door,
    access: Access,
    /// Started when the first object is opened.
    buckets: Arc<OnceLock<Result<Buckets>>>,
    stop: Stop,
}

impl Files {
    /// Creates what opens the files of one piece of work, which ends soon after `stop` returns true.
    pub(crate) fn new(access: &Access, stop: Stop) -> Result<Self> {
        Ok(Self { door: access.door()?, access: access.clone(), buckets: Arc::default(), stop })
    }

    /// Returns the same for another piece of work.
    pub(crate) fn until(&self, stop: Stop) -> Self {
        Self { stop, ..self.clone() }
    }

    pub(crate) fn door(&self) -> &Door {
        &self.door
    }

    pub(crate) fn buckets(&self) -> Result<&Buckets> {
        self.buckets.get_or_init(|| Buckets::start(&self.access)).as_ref().map_err(Failure::clone)
    }

    pub(crate) fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Opens a file, which is an object if there is one. What is after the byte `until` is not fetched ahead.
    pub(crate) fn open(&self, path: &Path, object: Option<&Object>, until: u64) -> Result<Box<dyn ReadSeek>> {
        match object {
            Some(object) => {
                let object = self.buckets()?.open(path, object)?;
                Ok(Box::new(ObjectFile { files: self.clone(), object, position: 0, until, part: None }))
            }
            None => Ok(Box::new(self.door.open(path).map_err(|error| Failure::io(path, "open", error))?)),
        }
    }

    /// Fetches the parts of an object that have these bytes soon, as far as parts are fetched ahead.
    pub(crate) fn fetch_soon(&self, path: &Path, object: &Object, start: u64, until: u64) {
        let Ok(buckets) = self.buckets() else { return };
        // Whoever reads the object meets the error again.
        if let Ok(object) = buckets.open(path, object) {
            let parts = start / PART..until.min(object.size()).div_ceil(PART);
            buckets.fetch_soon(&object, parts.take(AHEAD as usize));
        }
    }
}

/// An object that is read like a local file.
struct ObjectFile {
    files: Files,
    object: Arc<OpenObject>,
    position: u64,
    /// The byte up to which parts are fetched ahead.
    until: u64,
    /// The part that was read last, and its number. It stays open, also if it is removed from the cache.
    part: Option<(u64, File)>,
}

impl ObjectFile {
    /// Returns the part with the next byte.
    fn part(&mut self, number: u64) -> Result<&File> {
        let part = match self.part.take() {
            Some((open, part)) if open == number => part,
            _ => {
                let buckets = self.files.buckets()?;
                let ahead = number + 1..self.until.min(self.object.size()).div_ceil(PART);
                buckets.fetch_soon(&self.object, ahead.take(AHEAD as usize));
                buckets.part(&self.object, number, self.files.stop.as_ref())?
            }
        };
        Ok(&self.part.insert((number, part)).1)
    }
}

impl Read for ObjectFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let number = self.position / PART;
        let range = self.object.part(number);
        let left = usize::try_from(range.end.saturating_sub(self.position)).unwrap_or(usize::MAX);
        let len = buffer.len().min(left);
        let Some(buffer) = buffer.get_mut(..len).filter(|buffer| !buffer.is_empty()) else { return Ok(0) };
        let offset = self.position - range.start;
        let part = self.part(number).map_err(io::Error::other)?;
        part.read_exact_at(buffer, offset)?;
        self.position += len as u64;
        Ok(len)
    }
}

impl Seek for ObjectFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.object.size().checked_add_signed(by),
        };
        self.position = position.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}
