//! [`Terminal`]: the listener of the command. Data goes to standard output, everything else to standard error.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use anstream::AutoStream;
use clap::builder::styling::{AnsiColor, Style};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle as BarStyle};

use crate::cli::{Display, MessageTarget, When};
use crate::listener::{Event, Listener, Progress};
use crate::messages::message;
use crate::printer::escape_controls;
use crate::secrets::Secrets;

const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default().bold();

/// Prints a run to the process's standard output and standard error, as set by `--quiet`, `--color`, `--progress` and
/// `--verbose`.
///
/// Keeps messages and the progress bar from overwriting each other, and escapes control characters that a terminal
/// would interpret.
#[derive(Clone, Debug, Default)]
pub struct Terminal(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Whether to install the logger.
    logs: bool,
    /// Set when the run begins.
    view: OnceLock<View>,
    bar: Mutex<Option<ProgressBar>>,
}

/// How messages and progress are shown.
#[derive(Debug)]
struct View {
    quiet: bool,
    color: anstream::ColorChoice,
    progress: ProgressStyle,
    bars: MultiProgress,
    /// Where messages go instead of standard error.
    messages: Option<MessageTarget>,
}

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProgressStyle {
    /// No progress.
    Hidden,
    /// A bar that redraws itself; standard error is a terminal.
    Bar,
    /// A line from time to time, for when standard error is a file or a pipe and the user requested progress.
    Lines,
    /// A message from time to time.
    Messages,
}

impl View {
    fn new(display: &Display) -> Self {
        let color = match display.color {
            When::Auto => anstream::ColorChoice::Auto,
            When::Always => anstream::ColorChoice::Always,
            When::Never => anstream::ColorChoice::Never,
        };
        let progress = match (display.progress, io::stderr().is_terminal()) {
            (When::Never, _) => ProgressStyle::Hidden,
            _ if display.messages.is_some() => ProgressStyle::Messages,
            (When::Auto, false) => ProgressStyle::Hidden,
            (When::Auto, true) if display.quiet => ProgressStyle::Hidden,
            (When::Auto | When::Always, true) => ProgressStyle::Bar,
            (When::Always, false) => ProgressStyle::Lines,
        };
        let target = match progress {
            ProgressStyle::Bar => ProgressDrawTarget::stderr(),
            _ => ProgressDrawTarget::hidden(),
        };
        Self {
            quiet: display.quiet,
            color,
            progress,
            bars: MultiProgress::with_draw_target(target),
            messages: display.messages.clone(),
        }
    }
}

impl Terminal {
    /// Creates a terminal that installs the process's logger when the run begins. Warnings of the crates go to
    /// standard error; `-v` adds settings and the plan, `-vv` everything that is logged.
    pub fn with_logger() -> Self {
        Self(Arc::new(Shared { logs: true, ..Shared::default() }))
    }

    fn view(&self) -> &View {
        self.0.view.get_or_init(|| View::new(&Display::default()))
    }

    fn install_logger(&self, verbose: u8, secrets: &Secrets) {
        let (ours, engine) = match verbose {
            _ if self.view().quiet => (log::LevelFilter::Error, log::LevelFilter::Off),
            0 => (log::LevelFilter::Warn, log::LevelFilter::Error),
            1 => (log::LevelFilter::Info, log::LevelFilter::Warn),
            _ => (log::LevelFilter::Debug, log::LevelFilter::Debug),
        };
        let (mut logger, secrets) = (env_logger::Builder::new(), secrets.clone());
        logger.filter_level(engine).format(move |out, record| {
            let text = record.args().to_string();
            let text = secrets.hide(&text);
            let text = escape_controls(&text);
            match record.level() {
                log::Level::Error => writeln!(out, "{ERROR}error{ERROR:#}: {text}"),
                log::Level::Warn => writeln!(out, "{WARNING}warning{WARNING:#}: {text}"),
                level => writeln!(out, "{}: {text}", level.as_str().to_ascii_lowercase()),
            }
        });
        for target in [
            "tfr_sql",
            "tfr_files",
            "tfr_stores",
            "tfr_formats",
            "datafusion_tfrecord",
            "tfrecord_shards",
            "tfrecord_sidecars",
            "arrow_tfrecord",
            "tfrecord_framing",
        ] {
            logger.filter_module(target, ours);
        }
        // A process has only one logger: a second one is rejected and the first stays in use.
        let _ = logger.target(env_logger::Target::Pipe(Box::new(LogLines(self.clone())))).try_init();
    }

    fn show(&self, progress: Option<&Progress>) {
        let view = self.view();
        match (view.progress, progress) {
            (ProgressStyle::Hidden | ProgressStyle::Messages, _) | (ProgressStyle::Lines, None) => {}
            (ProgressStyle::Lines, Some(progress)) => self.line(&progress.message),
            (ProgressStyle::Bar, Some(progress)) => {
                let mut shown = self.0.bar.lock().unwrap_or_else(PoisonError::into_inner);
                let bar = shown.get_or_insert_with(|| {
                    let bar = ProgressBar::new(100);
                    let template = if progress.share.is_some() { "{bar:24} {msg}" } else { "{msg}" };
                    if let Ok(style) = BarStyle::with_template(template) {
                        bar.set_style(style);
                    }
                    view.bars.add(bar)
                });
                bar.set_position((progress.share.unwrap_or_default() * 100.0) as u64);
                bar.set_message(progress.message.clone());
            }
            (ProgressStyle::Bar, None) => {
                if let Some(bar) = self.0.bar.lock().unwrap_or_else(PoisonError::into_inner).take() {
                    bar.finish_and_clear();
                }
            }
        }
    }

    fn line(&self, text: &str) {
        self.to_stderr(|out| writeln!(out, "{}", escape_controls(text)));
    }

    /// Runs `write` on a locked standard error, with the progress bar hidden. An error of standard error itself cannot
    /// be reported.
    fn to_stderr(&self, write: impl FnOnce(&mut AutoStream<io::StderrLock<'static>>) -> io::Result<()>) {
        let view = self.view();
        view.bars.suspend(|| {
            let color = match view.color {
                anstream::ColorChoice::Auto => AutoStream::choice(&io::stderr()),
                color => color,
            };
            let _ = write(&mut AutoStream::new(io::stderr().lock(), color));
        });
    }
}

impl Listener for Terminal {
    fn begin(&self, display: &Display, secrets: &Secrets) {
        // A second run in the same process is shown like the first.
        let _ = self.0.view.set(View::new(display));
        if self.0.logs {
            self.install_logger(display.verbose, secrets);
        }
    }

    fn event(&self, event: Event<'_>) {
        let is_quiet = matches!(event, Event::Note(_) | Event::Warning(_) | Event::Loss(_)) && self.view().quiet;
        if let Some(target) = self.view().messages.as_ref().filter(|_| !is_quiet)
            && let Some(message) = message(event)
        {
            // An error of the target itself cannot be reported.
            return drop(target.write(&message));
        }
        match event {
            // A printing error cannot be reported.
            Event::Usage(text) => drop(write!(anstream::stderr(), "{text}")),
            Event::Note(_) | Event::Warning(_) | Event::Loss(_) if self.view().quiet => {}
            Event::Note(text) => self.line(text),
            Event::Warning(text) | Event::Loss(text) => {
                self.to_stderr(|out| writeln!(out, "{WARNING}warning{WARNING:#}: {}", escape_controls(text)));
            }
            Event::Error { message, causes, hint, .. } => self.to_stderr(|out| {
                writeln!(out, "{ERROR}error{ERROR:#}: {}", escape_controls(message))?;
                for cause in causes {
                    writeln!(out, "  {ERROR}cause{ERROR:#}: {}", escape_controls(cause))?;
                }
                if let Some(hint) = hint {
                    writeln!(out, "\n{HINT}hint{HINT:#}: {}", escape_controls(hint))?;
                }
                Ok(())
            }),
            Event::Progress(progress) => self.show(progress),
        }
    }

    fn help(&self, text: &str) -> io::Result<()> {
        let mut stdout = anstream::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    }

    /// Writes to standard output and flushes it. Control characters are escaped if it is a terminal.
    fn data(&self, data: &[u8]) -> io::Result<()> {
        self.view().bars.suspend(|| {
            let mut stdout = io::stdout().lock();
            if stdout.is_terminal() {
                stdout.write_all(escape_controls(&String::from_utf8_lossy(data)).as_bytes())?;
            } else {
                stdout.write_all(data)?;
            }
            stdout.flush()
        })
    }

    fn is_terminal(&self) -> bool {
        io::stdout().is_terminal()
    }

    fn progress_interval(&self) -> Option<Duration> {
        match self.view().progress {
            ProgressStyle::Hidden => None,
            ProgressStyle::Bar | ProgressStyle::Messages => Some(Duration::from_millis(200)),
            ProgressStyle::Lines => Some(Duration::from_secs(1)),
        }
    }
}

/// The log target.
struct LogLines(Terminal);

impl Write for LogLines {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.to_stderr(|out| out.write_all(text));
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
