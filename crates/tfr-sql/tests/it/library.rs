//! The library: runs in this process, with a listener that collects.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tfr_sql::{Event, ExitStatus, Interrupt, Listener};

use super::workbench::Workbench;

/// Collects events and data; asks to stop at the first data if it has an interrupt.
#[derive(Default)]
pub struct Collected {
    events: Mutex<Vec<String>>,
    data: Mutex<Vec<u8>>,
    stop: Option<Interrupt>,
}

impl Collected {
    pub fn events(&self) -> Vec<String> {
        self.events.lock().unwrap().clone()
    }

    /// The data, as text.
    pub fn text(&self) -> String {
        String::from_utf8(self.data.lock().unwrap().clone()).unwrap()
    }
}

impl Listener for Collected {
    fn event(&self, event: Event<'_>) {
        let event = match event {
            Event::Note(text) => format!("note: {text}"),
            Event::Warning(text) => format!("warning: {text}"),
            Event::Error { message, causes, hint, .. } => format!("error: {message} {causes:?} {hint:?}"),
            Event::Progress(progress) => format!("progress: {}", progress.is_some()),
            other => format!("{other:?}"),
        };
        self.events.lock().unwrap().push(event);
    }

    fn data(&self, data: &[u8]) -> io::Result<()> {
        self.data.lock().unwrap().extend_from_slice(data);
        self.stop.iter().for_each(|stop| assert!(stop.request(ExitStatus::Interrupted)));
        Ok(())
    }

    /// The first report is certain, the second never comes in a short run.
    fn progress_interval(&self) -> Option<Duration> {
        Some(Duration::from_secs(3600))
    }
}

fn run(arguments: &[&str], interrupt: Interrupt, listener: &Arc<Collected>) -> ExitStatus {
    let arguments = ["tfr-sql"].iter().chain(arguments).map(Into::into);
    tfr_sql::run(arguments, || Ok(interrupt), Arc::clone(listener) as _)
}

fn in_quotes(path: &Path) -> String {
    format!("'{}'", path.display())
}

#[test]
fn a_run_reports_to_its_listener() {
    let bench = Workbench::new();
    let events = in_quotes(&bench.path().join("events.parquet"));
    let out = bench.path().join("out");
    let listener = Arc::new(Collected::default());
    let query = format!("SELECT \"UserId\", label FROM {events}");
    let written = run(&[&query, "--out", out.to_str().unwrap()], Interrupt::default(), &listener);
    assert_eq!(written, ExitStatus::Done);
    let [begun, ended, note] = listener.events().try_into().unwrap();
    assert_eq!([begun.as_str(), ended.as_str()], ["progress: true", "progress: false"]);
    assert!(note.starts_with("note: 4 rows in 1 shard"), "{note}");
    assert!(out.join("_SUCCESS").exists());

    let listener = Arc::new(Collected::default());
    let printed = run(&[&format!("SELECT count(*) AS n FROM {events}")], Interrupt::default(), &listener);
    assert_eq!((printed, listener.data.lock().unwrap().as_slice()), (ExitStatus::Done, b"n\n4\n".as_slice()));
}

#[test]
fn errors_are_events_without_secrets() {
    let listener = Arc::new(Collected::default());
    let failed = run(&["SET x.secret = 'hush'; SELECT hush"], Interrupt::default(), &listener);
    assert_eq!(failed, ExitStatus::Failed);
    let [error] = listener.events().try_into().unwrap();
    assert!(error.starts_with("error: ") && !error.contains("hush"), "{error}");

    let listener = Arc::new(Collected::default());
    assert_eq!(run(&["SELECT 1", "--nonsense"], Interrupt::default(), &listener), ExitStatus::Usage);
    let [usage] = listener.events().try_into().unwrap();
    assert!(usage.starts_with("Usage(") && usage.contains("--nonsense"), "{usage}");
}

#[test]
fn an_interrupt_stops_a_run() {
    let interrupt = Interrupt::default();
    let listener = Arc::new(Collected { stop: Some(interrupt.clone()), ..Collected::default() });
    let endless = "SELECT value FROM range(1000000000000)";
    assert_eq!(run(&[endless], interrupt, &listener), ExitStatus::Interrupted);
    assert!(!listener.data.lock().unwrap().is_empty());

    let bench = Workbench::new();
    let listener = Arc::new(Collected::default());
    let interrupt = Interrupt::default();
    assert!(interrupt.request(ExitStatus::Terminated));
    let out = bench.path().join("out");
    let stopped = run(&["SELECT 1 AS x", "--out", out.to_str().unwrap()], interrupt, &listener);
    assert_eq!(stopped, ExitStatus::Terminated);
    assert_eq!(listener.events(), ["note: stopped; nothing was written"]);
    assert!(!out.exists());
}
