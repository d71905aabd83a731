//! How far the run is: rows, bytes a second, share of the input, time left.
//!
//! The engine counts while it runs. [`Progress`] walks the running plan a few times a second, reads those counters and
//! redraws one bar, or writes a line now and then where no bar can be drawn.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::common::runtime::SpawnedTask;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion_tfrecord::TfRecordWriteExec;
use indicatif::{HumanDuration, ProgressBar, ProgressStyle as BarStyle};

use crate::printer::{Printer, ProgressStyle, bytes, grouped};

const REDRAW: Duration = Duration::from_millis(200);
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Shows progress until it is dropped.
pub struct Progress {
    bar: ProgressBar,
    /// Ends with this value.
    _watch: Option<SpawnedTask<()>>,
}

impl Progress {
    /// Watches `plan` run.
    pub fn watch(printer: &Printer, plan: Arc<dyn ExecutionPlan>) -> Self {
        let bar = ProgressBar::new(100);
        let every = match printer.progress_style() {
            ProgressStyle::Hidden => return Self { bar, _watch: None },
            ProgressStyle::Bar => REDRAW,
            ProgressStyle::Lines => LINE_EVERY,
        };
        // A bar that stands still says nothing.
        let template = if Counters::read(plan.as_ref()).input > 0.0 { "{bar:24} {msg}" } else { "{msg}" };
        if let Ok(style) = BarStyle::with_template(template) {
            bar.set_style(style);
        }
        let view = View { printer: printer.clone(), bar: printer.add_bar(bar), plan, started: Instant::now() };
        view.show();
        let bar = view.bar.clone();
        let watch = SpawnedTask::spawn(async move {
            let mut tick = tokio::time::interval_at((view.started + every).into(), every);
            loop {
                tick.tick().await;
                view.show();
            }
        });
        Self { bar, _watch: Some(watch) }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A plan, and where its progress is shown.
struct View {
    printer: Printer,
    bar: ProgressBar,
    plan: Arc<dyn ExecutionPlan>,
    started: Instant,
}

impl View {
    fn show(&self) {
        let message = Counters::read(self.plan.as_ref()).message(self.started.elapsed(), &self.bar);
        match self.printer.progress_style() {
            ProgressStyle::Lines => self.printer.progress_line(&message),
            ProgressStyle::Bar | ProgressStyle::Hidden => self.bar.set_message(message),
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

    /// The line beside the bar, which is moved to the share of the input.
    fn message(&self, elapsed: Duration, bar: &ProgressBar) -> String {
        let seconds = elapsed.as_secs_f64().max(0.001);
        if let Some(sorted) = self.sorted {
            let share = ratio(self.rows, sorted);
            bar.set_position((share * 100.0) as u64);
            return format!("{} rows sorted, {:.0} % of them written", grouped(sorted), share * 100.0);
        }
        let speed = bytes((self.bytes as f64 / seconds) as u64);
        let mut message = format!("{} rows, {speed}/s", grouped(self.rows));
        if self.input > 0.0 {
            let share = self.scanned / self.input;
            bar.set_position((share * 100.0) as u64);
            message.push_str(&format!(", {:.0} % of the input", share * 100.0));
            // The first moments say nothing about the rest.
            if share > 0.01 && share < 1.0 && seconds > 1.0 {
                let left = Duration::from_secs_f64((seconds / share * (1.0 - share)).min(1e9));
                message.push_str(&format!(", {:#} left", HumanDuration(left)));
            }
        }
        message
    }
}

fn count(metrics: &MetricsSet, name: &str) -> u64 {
    metrics.sum_by_name(name).map_or(0, |value| value.as_usize() as u64)
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
