//! [`RecordFile`]: reads the records of a file in order, without decoding them.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tfrecord_framing::{CrcPolicy, Damage, RecordReader, RecordScanner, Records};
use tfrecord_shards::ReadSeek;

use crate::error::{Failure, Result};

/// Bytes read at once, past damage.
const BLOCK_LEN: usize = 1 << 20;

/// The damaged records of a file that are passed over.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PassedOver {
    /// Their number. Adjacent ones that cannot be told apart count as one.
    pub(crate) count: u64,
    /// Describes the first.
    first: String,
}

impl PassedOver {
    /// Records this many damaged records, of which `first` is the first.
    pub(crate) fn new(count: u64, first: &Damage) -> Self {
        Self { count, first: first.to_string() }
    }

    /// Describes them in the words of a query.
    pub(crate) fn describe(&self, path: &Path) -> String {
        let Self { count, first } = self;
        format!("{}: damaged records passed over: {count}, the first: {first}", path.display())
    }
}

/// An open file.
pub(crate) struct RecordFile {
    path: PathBuf,
    records: Records,
    source: RecordSource,
}

enum RecordSource {
    /// Damage is an error.
    Whole(Box<RecordReader<Box<dyn ReadSeek>>>),
    /// Damage is passed over.
    PastDamage(Box<Scan>),
}

/// A scan for the intact records of a file.
struct Scan {
    file: Box<dyn ReadSeek>,
    scanner: RecordScanner,
    block: Vec<u8>,
    /// The bytes of the block that were not scanned.
    taken: usize,
    filled: usize,
    has_ended: bool,
    damage: Vec<Damage>,
    passed_over: Option<PassedOver>,
}

impl RecordFile {
    /// Reads an open file. Damaged records are an error, or are passed over.
    pub(crate) fn new(path: PathBuf, file: Box<dyn ReadSeek>, crc: CrcPolicy, skips_damaged: bool) -> Self {
        let source = if skips_damaged {
            RecordSource::PastDamage(Box::new(Scan::new(file)))
        } else {
            RecordSource::Whole(Box::new(RecordReader::detect(file).with_crc_policy(crc)))
        };
        Self { path, records: Records::new(), source }
    }

    /// Continues with the records of a reader.
    pub(crate) fn of_reader(path: PathBuf, reader: RecordReader<Box<dyn ReadSeek>>) -> Self {
        Self { path, records: Records::new(), source: RecordSource::Whole(Box::new(reader)) }
    }

    /// Returns the next records: about `limit`, none at the end. The records before damage come before its error.
    pub(crate) fn read(&mut self, limit: usize) -> Result<&Records> {
        self.records.clear();
        let read = match &mut self.source {
            // The error is returned again by the next call.
            RecordSource::Whole(reader) => reader.read_records(limit, &mut self.records).map(drop),
            RecordSource::PastDamage(scan) => match scan.read(limit, &mut self.records) {
                Ok(scanned) => scanned,
                Err(error) => return Err(Failure::io(&self.path, "read", error)),
            },
        };
        match read {
            Err(error) if self.records.is_empty() => Err(Failure::record(&self.path, &error.into())),
            _ => Ok(&self.records),
        }
    }

    /// Takes the records that were read last.
    pub(crate) fn take(&mut self) -> Records {
        std::mem::take(&mut self.records)
    }

    /// The damage passed over so far: its number, and a line for people.
    pub(crate) fn passed_over(&self) -> Option<(u64, String)> {
        let RecordSource::PastDamage(scan) = &self.source else { return None };
        scan.passed_over.as_ref().map(|damage| (damage.count, damage.describe(&self.path)))
    }
}

impl Scan {
    fn new(file: Box<dyn ReadSeek>) -> Self {
        let (block, scanner) = (vec![0; BLOCK_LEN], RecordScanner::detect());
        let (taken, filled, has_ended, damage, passed_over) = Default::default();
        Self { file, scanner, block, taken, filled, has_ended, damage, passed_over }
    }

    fn read(&mut self, limit: usize, records: &mut Records) -> io::Result<tfrecord_framing::Result<()>> {
        while records.is_empty() && !self.has_ended {
            let mut bytes = self.block.get(self.taken..self.filled).unwrap_or_default();
            let scanned = self.scanner.scan(&mut bytes, limit, records, &mut self.damage);
            self.taken = self.filled - bytes.len();
            let ended = match scanned {
                Ok(0) => !self.fill()?,
                Ok(_) => false,
                Err(error) => return Ok(Err(error)),
            };
            if ended {
                self.has_ended = true;
                if let Err(error) = self.scanner.finish(records, &mut self.damage) {
                    return Ok(Err(error));
                }
            }
            self.note_damage();
        }
        Ok(Ok(()))
    }

    /// Reads the next block; false at the end of the file.
    fn fill(&mut self) -> io::Result<bool> {
        self.taken = 0;
        loop {
            match self.file.read(&mut self.block) {
                Ok(read) => {
                    self.filled = read;
                    return Ok(read > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn note_damage(&mut self) {
        let count = self.damage.len() as u64;
        if let Some(first) = self.damage.first() {
            self.passed_over.get_or_insert_with(|| PassedOver::new(0, first)).count += count;
        }
        self.damage.clear();
    }
}
