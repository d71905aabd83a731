//! Disks that fail: every failure is an error that tells what failed, none is a panic, none loses a record.

use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::error::ErrorKind;

/// What is wrong with the disk.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    None,
    Create,
    /// The append of this number fails, after half of its bytes.
    Append(usize),
    /// The read of this number fails.
    Read(usize),
    /// What is appended from this byte on is lost.
    Truncate(usize),
    /// A bit of this byte is another one when it is read.
    Flip(usize),
}

#[derive(Debug)]
struct Disk {
    fault: Fault,
    appends: AtomicUsize,
    reads: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct DiskFile {
    fault: Fault,
    appends: usize,
    reads: Arc<AtomicUsize>,
    bytes: Mutex<Vec<u8>>,
}

impl Disk {
    fn new(fault: Fault) -> Arc<Self> {
        Arc::new(Self { fault, appends: AtomicUsize::new(0), reads: Arc::default() })
    }
}

impl SpillStore for Disk {
    fn create(&self) -> io::Result<Box<dyn SpillFile>> {
        if self.fault == Fault::Create {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let appends = self.appends.load(Ordering::Relaxed);
        Ok(Box::new(DiskFile { fault: self.fault, appends, reads: Arc::clone(&self.reads), bytes: Mutex::default() }))
    }

    fn path(&self) -> &Path {
        Path::new("/scratch")
    }
}

impl SpillFile for DiskFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let file = self.bytes.get_mut().unwrap();
        self.appends += 1;
        match self.fault {
            Fault::Append(number) if number + 1 == self.appends => {
                file.extend_from_slice(&bytes[..bytes.len() / 2]);
                return Err(io::ErrorKind::StorageFull.into());
            }
            Fault::Truncate(len) => file.extend(bytes.iter().take(len.saturating_sub(file.len()))),
            _ => file.extend_from_slice(bytes),
        }
        Ok(())
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        if self.fault == Fault::Read(self.reads.fetch_add(1, Ordering::Relaxed)) {
            return Err(io::Error::other("the disk is gone"));
        }
        let file = self.bytes.lock().unwrap();
        let range = offset as usize..offset as usize + bytes.len();
        bytes.copy_from_slice(file.get(range.clone()).ok_or(io::ErrorKind::UnexpectedEof)?);
        match self.fault {
            Fault::Flip(at) if range.contains(&at) => bytes[at - range.start] ^= 0x10,
            _ => {}
        }
        Ok(())
    }
}

/// Bytes of each of five runs: 60 records of 20 bytes, as many entries, and the end of their block.
const RUN_LEN: usize = 60 * 20 + 60 * 14 + 12;

/// Of a group that is not the first one, whose records are not kept in buckets.
fn records() -> Vec<Record> {
    records_of(8)
}

fn records_of(group: u32) -> Vec<Record> {
    (0..300u32).map(|row| Record::hashed(&(row % 250).to_le_bytes(), |hash| hash, |_| group)).collect()
}

fn run(disk: Arc<Disk>) -> Result<Vec<(PlannedShard, Vec<u8>)>> {
    run_records(disk, &records())
}

fn run_records(disk: Arc<Disk>, records: &[Record]) -> Result<Vec<(PlannedShard, Vec<u8>)>> {
    // The first push of an input is sorted, and goes to the buckets with the second.
    let pushes = vec![(0, 30, false), (0, 30, true)];
    let delivery = Delivery { copy_bytes: 0, pushes, ..spilling(1, 60, 4 << 10) };
    let options = SorterOptions::new(disk).with_equal(EqualRecords::Spread { seed: 1 });
    let sorter = RecordSorter::new(options.with_chunk_bytes(delivery.chunk_bytes).with_copy_bytes(0));
    push_all(&sorter, records, &delivery)?;
    shards(&sorter.finish()?.cut(|_| Sharding::Rows(70))?)
}

fn expected() -> Vec<(PlannedShard, Vec<u8>)> {
    expected_shards(&records(), EqualRecords::Spread { seed: 1 }, Cut::new(Sharding::Rows(70)))
}

#[test]
fn sort_succeeds_on_a_sound_disk() {
    assert_eq!(run(Disk::new(Fault::None)).unwrap(), expected());
}

#[test]
fn sort_reports_files_that_cannot_be_created() {
    let error = run(Disk::new(Fault::Create)).unwrap_err();
    assert_eq!(error.to_string(), "/scratch: cannot create a temporary file");
}

#[test]
fn sort_reports_a_full_disk() {
    // Five runs in one file, of two appends each; and those of the copies.
    for number in 0..10 {
        let error = run(Disk::new(Fault::Append(number))).unwrap_err();
        assert_eq!(error.to_string(), "/scratch: cannot write to a temporary file");
        let ErrorKind::Io { source, .. } = error.kind() else { panic!("{error:?}") };
        assert_eq!(source.kind(), io::ErrorKind::StorageFull);
    }
}

#[test]
fn sort_reports_failed_reads() {
    let sound = Disk::new(Fault::None);
    run(Arc::clone(&sound)).unwrap();
    let reads = sound.reads.load(Ordering::Relaxed);
    assert!(reads > 50);
    for number in (0..reads).step_by(reads.div_ceil(150)) {
        let error = run(Disk::new(Fault::Read(number))).unwrap_err();
        assert_eq!(error.to_string(), "/scratch: cannot read a temporary file", "read {number} of {reads}");
    }
}

#[test]
fn sort_reports_truncated_files() {
    for len in (0..5 * RUN_LEN).step_by(97) {
        let error = run(Disk::new(Fault::Truncate(len))).unwrap_err();
        let ErrorKind::Io { source, path, .. } = error.kind() else { panic!("{len}: {error:?}") };
        assert_eq!((source.kind(), path.as_path()), (io::ErrorKind::UnexpectedEof, Path::new("/scratch")));
    }
}

/// What is wrong with a key or with the header of a record is caught. A payload has its checksum with it, for whoever reads
/// the set; here it does no more harm than to be somebody else's.
#[test]
fn sort_detects_a_flipped_bit_in_keys_and_headers() {
    let expected = expected();
    let lens = |shards: &[(PlannedShard, Vec<u8>)]| shards.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
    for at in (0..5 * RUN_LEN).step_by(61) {
        let in_run = at % RUN_LEN;
        let in_entry = in_run >= 60 * 20;
        match run(Disk::new(Fault::Flip(at))) {
            Ok(found) => {
                assert!(!in_entry && in_run % 20 >= 12, "byte {at}");
                assert_eq!(lens(&found), lens(&expected), "byte {at}");
            }
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::SpillDamaged { .. }), "byte {at}: {error:?}");
                assert!(
                    error.to_string().starts_with("/scratch: a temporary file does not contain what was written to it")
                );
            }
        }
    }
}

#[test]
fn sort_reports_failed_reads_of_buckets() {
    let run = |fault| {
        let disk = Disk::new(fault);
        (run_records(Arc::clone(&disk), &records_of(0)), disk.reads.load(Ordering::Relaxed))
    };
    let (sound, reads) = run(Fault::None);
    assert_eq!(
        sound.unwrap(),
        expected_shards(&records_of(0), EqualRecords::Spread { seed: 1 }, Cut::new(Sharding::Rows(70)))
    );
    assert!(reads > 30);
    for number in 0..reads {
        let error = run(Fault::Read(number)).0.unwrap_err();
        assert_eq!(error.to_string(), "/scratch: cannot read a temporary file", "read {number} of {reads}");
    }
    for len in (0..5 * BUCKET_RUN_LEN).step_by(97) {
        let Err(error) = run(Fault::Truncate(len)).0 else { panic!("{len} of {}", 5 * BUCKET_RUN_LEN) };
        let ErrorKind::Io { source, .. } = error.kind() else { panic!("{len}: {error:?}") };
        assert_eq!(source.kind(), io::ErrorKind::UnexpectedEof);
    }
    for number in 0..5 {
        let error = run(Fault::Append(number)).0.unwrap_err();
        assert_eq!(error.to_string(), "/scratch: cannot write to a temporary file");
    }
}

/// Bytes of each of five runs: 60 records of 20 bytes and as many entries in two buckets, each with a checksum.
const BUCKET_RUN_LEN: usize = 60 * (20 + 12) + 2 * 4;

/// All is caught but what is wrong with a payload, which has its checksum with it.
#[test]
fn sort_detects_a_flipped_bit_in_buckets() {
    let records: Vec<_> = (0..300u32).map(|row| Record::hashed(&row.to_le_bytes(), |hash| hash, |_| 0)).collect();
    let sound = run_records(Disk::new(Fault::None), &records).unwrap();
    let mut changed = 0;
    for at in 0..BUCKET_RUN_LEN {
        match run_records(Disk::new(Fault::Flip(at)), &records) {
            Ok(found) => {
                assert!(found.iter().zip(&sound).all(|(found, sound)| found.0 == sound.0), "byte {at}");
                changed += 1;
            }
            Err(error) => assert!(matches!(error.kind(), ErrorKind::SpillDamaged { .. }), "byte {at}: {error:?}"),
        }
    }
    // Those of payloads and behind them.
    assert_eq!(changed, 60 * 8);
}

/// A compact record is one of another length, or has other values, under the checksum of the right ones.
#[test]
fn sort_detects_a_flipped_bit_in_compact_records() {
    let records: Vec<_> = (0..300u32)
        .map(|row| Record::hashed(&example(&(row % 250).to_le_bytes(), row % 3), |hash| hash, |_| 0))
        .collect();
    let sound = run_records(Disk::new(Fault::None), &records).unwrap();
    let (mut refused, mut changed) = (0, 0);
    for at in (0..4000).step_by(7) {
        match run_records(Disk::new(Fault::Flip(at)), &records) {
            Ok(found) => {
                assert!(found.iter().zip(&sound).all(|(found, sound)| found.0 == sound.0), "byte {at}");
                changed += usize::from(found != sound);
            }
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::SpillDamaged { .. }), "byte {at}: {error:?}");
                refused += 1;
            }
        }
    }
    assert!(refused > 100 && changed > 100, "{refused} {changed}");
}

#[test]
fn sort_rejects_records_without_keys() {
    let sorter = RecordSorter::new(SorterOptions::new(Disk::new(Fault::None)));
    let mut buffer = RecordBuffer::default();
    buffer.push_frame(&records()[0].frame);
    let error = sorter.input().push(&[], &buffer).unwrap_err();
    assert_eq!(error.to_string(), "cannot sort records: expected a key for each of 1 records, found 0 keys");
}

#[test]
fn sort_rejects_unfinished_inputs() {
    let sorter = RecordSorter::new(SorterOptions::new(Disk::new(Fault::None)));
    drop(sorter.input());
    let error = sorter.clone().finish().unwrap_err();
    assert_eq!(error.to_string(), "cannot sort records: inputs that have not been finished: 1");
}

#[test]
fn sort_rejects_inputs_that_lost_records() {
    let sorter = RecordSorter::new(SorterOptions::new(Disk::new(Fault::Create)));
    let mut input = sorter.input();
    let mut buffer = RecordBuffer::default();
    buffer.push_frame(&records()[0].frame);
    input.push(&[SortKey::default()], &buffer).unwrap();
    input.spill().unwrap_err();
    assert!(matches!(input.finish().unwrap_err().kind(), ErrorKind::Failed));
    sorter.finish().unwrap_err();
}

#[test]
fn sort_can_be_finished_once() {
    let sorter = RecordSorter::new(SorterOptions::new(Disk::new(Fault::None)));
    sorter.clone().finish().unwrap();
    let problem = "cannot sort records: the sorter has been finished before";
    assert_eq!(sorter.input().finish().unwrap_err().to_string(), problem);
    assert_eq!(sorter.finish().unwrap_err().to_string(), problem);
}
