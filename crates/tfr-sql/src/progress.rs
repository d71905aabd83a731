//! How far the run is: rows, bytes a second, share of the input, time left.
//!
//! The engine counts while it runs. [`ShownProgress`] walks the running plan as often as the listener wants and reads those
//! counters.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion_tfrecord::TfRecordWriteExec;
use indicatif::HumanDuration;

use crate::error::{Error, Result};
use crate::listener::Progress;
use crate::printer::{Printer, bytes, grouped};

/// Reports progress until it is dropped.
pub struct ShownProgress {
    printer: Printer,
    /// Hangs up to end the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ShownProgress {
    /// Reports what `read` returns, now and at the interval that the listener asks for.
    pub fn start(printer: &Printer, read: impl Fn() -> Progress + Send + 'static) -> Result<Self> {
        let mut shown = Self { printer: printer.clone(), end: None, thread: None };
        let Some(every) = printer.progress_interval() else { return Ok(shown) };
        printer.progress(Some(&read()));
        let (end, ended) = mpsc::channel();
        let printer = printer.clone();
        let watch = move || {
            while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                printer.progress(Some(&read()));
            }
        };
        let thread = thread::Builder::new().name("progress".to_owned()).spawn(watch);
        shown.thread = Some(thread.map_err(|source| Error::Start { what: "a thread", source })?);
        shown.end = Some(end);
        Ok(shown)
    }

    /// Reports how far a running plan is.
    pub fn of_plan(printer: &Printer, plan: Arc<dyn ExecutionPlan>) -> Result<Self> {
        let started = Instant::now();
        Self::start(printer, move || Counters::read(plan.as_ref()).progress(started.elapsed()))
    }
}

impl Drop for ShownProgress {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // Nothing is reported after the end. A panic of the thread has ended it too.
            let _ = thread.join();
            self.printer.progress(None);
        }
    }
}

/// What the plan has done so far.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Counters {
    /// Rows written, or read while nothing is written.
    rows: u64,
    /// Bytes written, or read while nothing is written.
    bytes: u64,
    /// Bytes of input files, each weighted by the part of it that is scanned.
    scanned: f64,
    /// Bytes of all input files.
    input: f64,
    /// All rows, once they are taken in and sorted, and only then written.
    sorted: Option<u64>,
}

impl Counters {
    fn read(plan: &dyn ExecutionPlan) -> Self {
        let mut read = Self::default();
        let mut writes = None;
        let mut nodes = vec![plan];
        while let Some(node) = nodes.pop() {
            nodes.extend(node.children().into_iter().map(Arc::as_ref));
            if let Some(scan) = node.downcast_ref::<DataSourceExec>() {
                read.add_scan(scan);
            } else if let (Some(_), Some(metrics)) = (node.downcast_ref::<TfRecordWriteExec>(), node.metrics()) {
                let (written, taken_in) = (count(&metrics, "rows_written"), count(&metrics, "rows_encoded"));
                writes = Some((written, taken_in, count(&metrics, "bytes_written")));
            }
        }
        match writes {
            // Rows that are to be sorted come in first.
            Some((0, taken_in, _)) if taken_in > 0 => read.rows = taken_in,
            Some((written, taken_in, bytes)) => {
                (read.rows, read.bytes) = (written, bytes);
                read.sorted = (taken_in > 0).then_some(taken_in);
            }
            None => {}
        }
        read
    }

    fn add_scan(&mut self, scan: &DataSourceExec) {
        let Some(config) = scan.data_source().downcast_ref::<FileScanConfig>() else { return };
        let files = || config.file_groups.iter().flat_map(|group| group.iter());
        let size: u64 = files().map(|file| file.effective_size()).sum();
        self.input += size as f64;
        let Some(metrics) = scan.metrics() else { return };
        let rows = metrics.output_rows().unwrap_or_default() as u64;
        let bytes = count(&metrics, "bytes_scanned");
        self.rows += rows;
        self.bytes += bytes;
        let expected_rows = scan
            .data_source()
            .partition_statistics(None)
            .ok()
            .and_then(|statistics| statistics.num_rows.get_value().copied())
            .unwrap_or_default() as u64;
        // Rows tell best; bytes are read ahead, and fall short of the size when columns are left out.
        let read = if expected_rows > 0 { ratio(rows, expected_rows) } else { ratio(bytes, size) };
        // Rows fall short too, when row groups are skipped; then whole files tell.
        let processed = ratio(count(&metrics, "files_processed"), files().count() as u64);
        self.scanned += size as f64 * read.max(processed).min(1.0);
    }

    fn progress(&self, elapsed: Duration) -> Progress {
        let seconds = elapsed.as_secs_f64().max(0.001);
        // Without sizes of the input, its share is unknown.
        let share_of = |share| (self.input > 0.0).then_some(share);
        if let Some(sorted) = self.sorted {
            let share = ratio(self.rows, sorted);
            let message = format!("{} rows sorted, {:.0} % of them written", grouped(sorted), share * 100.0);
            return Progress { share: share_of(share), message };
        }
        let speed = bytes((self.bytes as f64 / seconds) as u64);
        let mut message = format!("{} rows, {speed}/s", grouped(self.rows));
        let share = share_of(self.scanned / self.input);
        if let Some(share) = share {
            message.push_str(&format!(", {:.0} % of the input", share * 100.0));
            // The first moments say nothing about the rest.
            if share > 0.01 && share < 1.0 && seconds > 1.0 {
                let left = Duration::from_secs_f64((seconds / share * (1.0 - share)).min(1e9));
                message.push_str(&format!(", {:#} left", HumanDuration(left)));
            }
        }
        Progress { share, message }
    }
}

fn count(metrics: &MetricsSet, name: &str) -> u64 {
    metrics.sum_by_name(name).map_or(0, |value| value.as_usize() as u64)
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
