//! Records one by one: [`PyScanner`] reads them in order, [`PyRecords`] by number.

use std::collections::BTreeMap;
use std::io::SeekFrom;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_select::concat::concat_batches;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use tfrecord_framing::{CrcPolicy, Position, RecordDecoder, RecordReader, Records};
use tfrecord_shards::{Finding, FindingKind, MissingParts, Progress, count_records};

use crate::bounds::{Bounds, OpenBounds};
use crate::buckets::Access;
use crate::columns::Columns;
use crate::dataset::{DataSet, Shard, project};
use crate::error::{Failure, Result};
use crate::files::{Files, stop_of};
use crate::framing::RecordFile;
use crate::loader::{PyDataSet, crc_policy, scalars};
use crate::segment::{Decoding, Place};
use crate::signals::interruptible;
use crate::values::{columns_of, into_dict};

/// Records passed to Python at a time.
const STEP: usize = 64;

/// Reads the records of files in order, without decoding them.
#[pyclass(name = "Scanner", module = "tfr_sql._native", frozen)]
pub(crate) struct PyScanner {
    scanner: Mutex<Scanner>,
    /// The files that are missing in the directories that were named: a line for each set of files.
    #[pyo3(get)]
    missing: Vec<String>,
}

struct Scanner {
    /// The files that were not opened yet, last first.
    files: Vec<PathBuf>,
    crc: bool,
    skips_damaged: bool,
    /// Number of records that are left out before the first one, if their files cannot be entered elsewhere.
    left_out: u64,
    open: Option<RecordFile>,
    records: Records,
    /// The damage passed over in the files before the open one: its number, and a line for each file.
    damage: (u64, Vec<String>),
}

#[pymethods]
impl PyScanner {
    /// Finds the files at `paths`. The first record returned is that with the number `start`, counted over all files.
    #[new]
    #[pyo3(signature = (paths, *, start=0, crc=true, skips_damaged=false))]
    fn new(py: Python<'_>, paths: Vec<PathBuf>, start: u64, crc: bool, skips_damaged: bool) -> PyResult<Self> {
        let (mut files, findings) = py.detach(|| tfrecord_shards::files(&paths)).map_err(Failure::from)?;
        let missing = findings.iter().filter_map(missing_parts).collect();
        if start > 0 && !skips_damaged {
            let scanner = Mutex::new(interruptible(py, |progress| Scanner::from(&paths, start, crc, progress))?);
            return Ok(Self { scanner, missing });
        }
        if let Some(finding) = findings.iter().find(|finding| finding.is_gap()) {
            return Err(Failure::finding(finding).into());
        }
        files.reverse();
        let scanner = Scanner { files, skips_damaged, left_out: start, ..Scanner::new(crc) };
        Ok(Self { scanner: Mutex::new(scanner), missing })
    }

    /// Returns the next records; none at the end.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let (records, left_out) = py.detach(|| -> Result<(Records, usize)> {
            let mut scanner = self.scanner.lock().unwrap_or_else(PoisonError::into_inner);
            scanner.read()?;
            let left_out = std::mem::take(&mut scanner.left_out);
            Ok((std::mem::take(&mut scanner.records), usize::try_from(left_out).unwrap_or(usize::MAX)))
        })?;
        let kept: Vec<_> = records.iter().skip(left_out).map(|record| PyBytes::new(py, record)).collect();
        let list = PyList::new(py, kept)?;
        self.scanner.lock().unwrap_or_else(PoisonError::into_inner).records = records;
        Ok(list)
    }

    /// The damaged records that were passed over so far: their number, and a line for each file.
    #[getter]
    fn damage(&self, py: Python<'_>) -> (u64, Vec<String>) {
        py.detach(|| self.scanner.lock().unwrap_or_else(PoisonError::into_inner).passed_over())
    }
}

/// Returns the line for files that are missing, with the path of their directory, as a query has it.
fn missing_parts(finding: &Finding) -> Option<String> {
    let FindingKind::MissingParts(missing) = &finding.kind else { return None };
    let pattern = finding.path.join(&missing.pattern).display().to_string();
    Some(MissingParts { pattern, ..missing.clone() }.to_string())
}

impl Scanner {
    fn new(crc: bool) -> Self {
        let (files, skips_damaged, left_out, open, records, damage) = Default::default();
        Self { files, crc, skips_damaged, left_out, open, records, damage }
    }

    /// Opens the file with the record `start`, at the last position before it where a reader can start.
    fn from(paths: &[PathBuf], start: u64, crc: bool, progress: &Progress) -> Result<Self> {
        let counted = count_records(paths, progress)?;
        let mut records = Records::new();
        let mut before = 0;
        let mut shards = counted.into_iter().map(|file| Shard::new(file, None));
        while let Some(shard) = shards.next() {
            if before + shard.rows <= start {
                before += shard.rows;
                continue;
            }
            let Shard { path, .. } = &shard;
            let offset = shard.start_before(start - before);
            let mut file = local()?.open(path, None, 0)?;
            file.seek(SeekFrom::Start(offset.file)).map_err(|error| Failure::io(path, "read", error))?;
            let position = Position { record: offset.record, byte: offset.framed };
            let decoder = RecordDecoder::with_container(shard.container()).with_position(position);
            // The records before the first one are not returned, so their content is not checked.
            let mut reader = RecordReader::with_decoder(file, decoder).with_crc_policy(CrcPolicy::Skip);
            let mut left = start - before - offset.record;
            while left > 0 {
                records.clear();
                let limit = usize::try_from(left).unwrap_or(usize::MAX).min(STEP);
                match reader.read_records(limit, &mut records) {
                    Ok(0) => return Err(Failure::data(path, start - before - left, None, "the file ends early")),
                    Ok(read) => left -= read as u64,
                    Err(error) => return Err(Failure::record(path, &error.into())),
                }
            }
            let open = Some(RecordFile::of_reader(shard.path, reader.with_crc_policy(crc_policy(crc))));
            let mut files: Vec<_> = shards.map(|shard| shard.path).collect();
            files.reverse();
            return Ok(Self { files, open, ..Self::new(crc) });
        }
        if start > before {
            return Err(Failure::usage(format!("start is {start}, expected at most {before}, the number of records")));
        }
        Ok(Self::new(crc))
    }

    /// Reads the next records; none at the end.
    fn read(&mut self) -> Result<()> {
        self.records.clear();
        loop {
            if self.open.is_none() {
                let Some(path) = self.files.pop() else { return self.check_start() };
                let file = local()?.open(&path, None, 0)?;
                self.open = Some(RecordFile::new(path, file, crc_policy(self.crc), self.skips_damaged));
            }
            let Some(file) = &mut self.open else { return Ok(()) };
            let count = match file.read(STEP) {
                Ok(records) => records.len(),
                Err(failure) => {
                    self.files.clear();
                    self.open = None;
                    return Err(failure);
                }
            };
            if count == 0 {
                self.damage = self.passed_over();
                self.open = None;
            } else if self.left_out >= count as u64 {
                self.left_out -= count as u64;
            } else {
                self.records = file.take();
                return Ok(());
            }
        }
    }

    /// Checks that there are as many records as are to be left out.
    fn check_start(&mut self) -> Result<()> {
        match std::mem::take(&mut self.left_out) {
            0 => Ok(()),
            left => {
                let problem = format!("start is {left} more than the number of intact records");
                Err(Failure::usage(problem))
            }
        }
    }

    /// Returns the damage passed over so far: its number, and a line for each file.
    fn passed_over(&self) -> (u64, Vec<String>) {
        let (mut count, mut lines) = self.damage.clone();
        if let Some((more, line)) = self.open.as_ref().and_then(RecordFile::passed_over) {
            count += more;
            lines.push(line);
        }
        (count, lines)
    }
}

/// Returns what opens any local file.
fn local() -> Result<Files> {
    Files::new(&Access::default(), Arc::new(|| false))
}

/// Records by number, of files in which each can be read without the others.
#[pyclass(name = "Records", module = "tfr_sql._native", frozen)]
pub(crate) struct PyRecords {
    data: Arc<DataSet>,
    decoding: Decoding,
    /// The number of records before each file, and where its records are.
    bounds: Vec<(u64, Bounds)>,
    /// What opens the files, in the process with this id.
    files: Mutex<(u32, Files)>,
}

#[pymethods]
impl PyRecords {
    /// Finds the bounds of every record: in the index next to a file, in that at its end, or from the lengths in the file.
    #[new]
    #[pyo3(signature = (data, *, columns=None, fill=None, crc=true))]
    fn new(
        py: Python<'_>,
        data: &PyDataSet,
        columns: Option<Vec<String>>,
        fill: Option<&Bound<'_, PyDict>>,
        crc: bool,
    ) -> PyResult<Self> {
        let data = Arc::clone(&data.0);
        let projection = project(&data.schema, columns.as_deref())?;
        let columns = Columns::new(&data.schema, &projection, false, &BTreeMap::new(), &scalars(fill)?)?;
        let (files, bounds) = interruptible(py, |progress| {
            let files = Files::new(&data.access, stop_of(progress))?;
            let mut before = 0;
            let file = |shard: &Shard| {
                let bounds = Bounds::of(shard, &files, progress)?;
                before += shard.rows;
                Ok((before - shard.rows, bounds))
            };
            let bounds = data.shards.iter().map(file).collect::<Result<_>>()?;
            Ok((files, bounds))
        })?;
        let files = Mutex::new((std::process::id(), files));
        Ok(Self { decoding: Decoding { projection, columns, crc: crc_policy(crc) }, bounds, files, data })
    }

    /// The number of records.
    fn __len__(&self) -> usize {
        usize::try_from(self.data.rows()).unwrap_or(usize::MAX)
    }

    /// Returns records by their numbers, as columns with a row for each.
    fn get<'py>(&self, py: Python<'py>, numbers: Vec<u64>) -> PyResult<Bound<'py, PyDict>> {
        let read = |files: &Files| columns_of(self.read(&numbers, files)?, &self.decoding.columns);
        let columns = if self.data.shards.iter().all(|shard| shard.object.is_none()) {
            py.detach(|| read(&self.files()?))?
        } else {
            // A store may take long to answer.
            interruptible(py, |progress| read(&self.files()?.until(stop_of(progress))))?
        };
        into_dict(py, columns)
    }
}

impl PyRecords {
    /// Returns what opens the files. After a fork it has other threads.
    fn files(&self) -> Result<Files> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if files.0 != std::process::id() {
            *files = (std::process::id(), Files::new(&self.data.access, Arc::new(|| false))?);
        }
        Ok(files.1.clone())
    }

    fn read(&self, numbers: &[u64], files: &Files) -> Result<RecordBatch> {
        let mut frames = Vec::new();
        let mut places = Vec::with_capacity(numbers.len());
        let mut open: Option<(usize, OpenBounds<'_>)> = None;
        for number in numbers {
            let index = self.bounds.partition_point(|(before, _)| before <= number).saturating_sub(1);
            // A file without records has as many before it as the next.
            let found = self.bounds.get(index).zip(self.data.shards.get(index));
            let found = found.filter(|((before, _), shard)| number - before < shard.rows);
            let Some(((before, bounds), shard)) = found else {
                return Err(Failure::usage(format!("record {number} of {}", self.data.rows())));
            };
            let file = match &mut open {
                Some((opened, file)) if *opened == index => file,
                _ => &mut open.insert((index, OpenBounds::open(bounds, shard, files)?)).1,
            };
            let start = frames.len();
            let position = file.append(number - before, &mut frames)?;
            places.push(Place { path: &shard.path, position, start });
        }
        let parts = self.decoding.decode_frames(&self.data, self.decoding.crc, &frames, &places)?;
        let Some(first) = parts.first() else {
            return Err(Failure::usage("no record numbers, expected at least one".to_owned()));
        };
        concat_batches(&first.schema(), &parts).map_err(|error| Failure::other(error.to_string()))
    }
}
