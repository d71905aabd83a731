//! Measures the progress of a run: rows, bytes per second, fraction of the input, time left.
//!
//! The engine counts while it runs. [`ShownProgress`] reads the counters of the running plan at the interval that the
//! listener requests.

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
    /// Dropped to end the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ShownProgress {
    /// Reports the result of `read`, now and at the interval that the listener requests.
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

    /// Reports the progress of a running plan.
    pub fn of_plan(printer: &Printer, plan: Arc<dyn ExecutionPlan>) -> Result<Self> {
        let started = Instant::now();
        Self::start(printer, move || Counters::read(plan.as_ref()).progress(started.elapsed()))
    }
}

impl Drop for ShownProgress {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // Wait for the thread, so that nothing is reported after the end. A panic of the thread has ended it too.
            let _ = thread.join();
            self.printer.progress(None);
        }
    }
}

/// The work that the plan has done so far.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Counters {
    /// Rows written, or rows read if none have been written.
    rows: u64,
    /// Bytes written, or bytes read if none have been written.
    bytes: u64,
    /// Bytes of input files, each weighted by the fraction that has been scanned.
    scanned: f64,
    /// Bytes of all input files.
    input: f64,
    /// The number of all rows, if they are sorted before the first is written and all have arrived.
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
            // Rows to sort are all read before the first is written.
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
        // Rows are the best measure. Bytes are read ahead, and do not add up to the file size when columns are
        // skipped.
        let read = if expected_rows > 0 { ratio(rows, expected_rows) } else { ratio(bytes, size) };
        // Row counts fall short too, when row groups are skipped. Then whole files are the measure.
        let processed = ratio(count(&metrics, "files_processed"), files().count() as u64);
        self.scanned += size as f64 * read.max(processed).min(1.0);
    }

    fn progress(&self, elapsed: Duration) -> Progress {
        let seconds = elapsed.as_secs_f64().max(0.001);
        // Without input sizes, the fraction is unknown.
        let share_of = |share| (self.input > 0.0).then_some(share);
        if let Some(sorted) = self.sorted {
            let share = ratio(self.rows, sorted);
            let message = format!("{} rows sorted, {:.0} % of them written", grouped(sorted), share * 100.0);
            return Progress { share: share_of(share), rows: Some(self.rows), message };
        }
        let speed = bytes((self.bytes as f64 / seconds) as u64);
        let mut message = format!("{} rows, {speed}/s", grouped(self.rows));
        let share = share_of(self.scanned / self.input);
        if let Some(share) = share {
            message.push_str(&format!(", {:.0} % of the input", share * 100.0));
            // The first moments are not representative.
            if share > 0.01 && share < 1.0 && seconds > 1.0 {
                let left = Duration::from_secs_f64((seconds / share * (1.0 - share)).min(1e9));
                message.push_str(&format!(", {:#} left", HumanDuration(left)));
            }
        }
        Progress { share, rows: Some(self.rows), message }
    }
}

fn count(metrics: &MetricsSet, name: &str) -> u64 {
    metrics.sum_by_name(name).map_or(0, |value| value.as_usize() as u64)
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
