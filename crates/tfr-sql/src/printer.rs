//! The one door to the terminal: data on standard output, everything else on standard error.
//!
//! [`Printer`] knows what the user asked for (`--quiet`, `--color`, `--progress`) and what the streams are, keeps
//! messages and the progress bar from overwriting each other, and escapes control characters where a terminal would
//! obey them.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, PoisonError, RwLock};

use anstream::AutoStream;
use clap::builder::styling::{AnsiColor, Style};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget};

use crate::cli::{Display, When};
use crate::error::Explanation;
use crate::secrets::Secrets;

const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default().bold();

/// Writes to standard output and standard error. Cheap to clone; clones share the progress bar.
#[derive(Clone, Debug)]
pub struct Printer {
    quiet: bool,
    color: anstream::ColorChoice,
    progress: ProgressStyle,
    bars: MultiProgress,
    secrets: Arc<RwLock<Secrets>>,
}

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressStyle {
    /// Not at all.
    Hidden,
    /// A bar that redraws itself; standard error is a terminal.
    Bar,
    /// A line now and then; standard error is a file or a pipe and the user wants progress nevertheless.
    Lines,
}

impl Printer {
    /// A printer for what `display` asks of this process's streams.
    pub fn new(display: &Display, secrets: Secrets) -> Self {
        let color = match display.color {
            When::Auto => anstream::ColorChoice::Auto,
            When::Always => anstream::ColorChoice::Always,
            When::Never => anstream::ColorChoice::Never,
        };
        let progress = match (display.progress, io::stderr().is_terminal()) {
            (When::Never, _) | (When::Auto, false) => ProgressStyle::Hidden,
            (When::Auto, true) if display.quiet => ProgressStyle::Hidden,
            (When::Auto | When::Always, true) => ProgressStyle::Bar,
            (When::Always, false) => ProgressStyle::Lines,
        };
        let target = match progress {
            ProgressStyle::Bar => ProgressDrawTarget::stderr(),
            ProgressStyle::Hidden | ProgressStyle::Lines => ProgressDrawTarget::hidden(),
        };
        Self {
            quiet: display.quiet,
            color,
            progress,
            bars: MultiProgress::with_draw_target(target),
            secrets: Arc::new(RwLock::new(secrets)),
        }
    }

    /// Hides the values of secret options in this SQL from now on.
    pub fn hide_secrets_of(&self, sql: &str) {
        self.secrets.write().unwrap_or_else(PoisonError::into_inner).add_sql(sql);
    }

    /// A message for a person: no secrets, nothing that a terminal obeys.
    fn shown(&self, text: &str) -> String {
        let secrets = self.secrets.read().unwrap_or_else(PoisonError::into_inner);
        escape_controls(&secrets.hide(text)).into_owned()
    }

    /// Says that the run failed, why, and the way out. Never quiet.
    pub fn error(&self, explanation: &Explanation) {
        self.to_stderr(|out| {
            let mut causes = explanation.causes.iter().map(|cause| self.shown(cause));
            writeln!(out, "{ERROR}error{ERROR:#}: {}", causes.next().unwrap_or_default())?;
            for cause in causes {
                writeln!(out, "  {ERROR}cause{ERROR:#}: {cause}")?;
            }
            if let Some(hint) = &explanation.hint {
                writeln!(out, "\n{HINT}hint{HINT:#}: {}", self.shown(hint))?;
            }
            Ok(())
        });
    }

    /// Something the user should know although the run goes on.
    pub fn warning(&self, message: impl std::fmt::Display) {
        if !self.quiet {
            let message = message.to_string();
            self.to_stderr(|out| writeln!(out, "{WARNING}warning{WARNING:#}: {}", self.shown(&message)));
        }
    }

    /// Talk: the closing summary, and what happens on Ctrl-C.
    pub fn note(&self, message: impl std::fmt::Display) {
        if !self.quiet {
            let message = message.to_string();
            self.to_stderr(|out| writeln!(out, "{}", self.shown(&message)));
        }
    }

    /// One line of progress where no bar can be drawn.
    pub fn progress_line(&self, message: &str) {
        self.to_stderr(|out| writeln!(out, "{}", self.shown(message)));
    }

    /// Data for standard output, which is flushed; controls are escaped when it is a terminal.
    pub fn data(&self, text: &[u8]) -> io::Result<()> {
        self.bars.suspend(|| {
            let mut stdout = io::stdout().lock();
            if stdout.is_terminal() {
                stdout.write_all(escape_controls(&String::from_utf8_lossy(text)).as_bytes())?;
            } else {
                stdout.write_all(text)?;
            }
            stdout.flush()
        })
    }

    /// Whether data goes to a person.
    pub fn is_terminal(&self) -> bool {
        io::stdout().is_terminal()
    }

    /// How progress is to be shown.
    pub fn progress_style(&self) -> ProgressStyle {
        self.progress
    }

    /// Adds a bar to the terminal; it is drawn only for [`ProgressStyle::Bar`].
    pub fn add_bar(&self, bar: ProgressBar) -> ProgressBar {
        self.bars.add(bar)
    }

    /// Sends what the crates log to standard error: warnings, with `-v` settings and plan, with `-vv` all.
    pub fn log(&self, verbose: u8) {
        let (ours, engine) = match verbose {
            _ if self.quiet => (log::LevelFilter::Error, log::LevelFilter::Off),
            0 => (log::LevelFilter::Warn, log::LevelFilter::Error),
            1 => (log::LevelFilter::Info, log::LevelFilter::Warn),
            _ => (log::LevelFilter::Debug, log::LevelFilter::Debug),
        };
        let (mut logger, printer) = (env_logger::Builder::new(), self.clone());
        logger.filter_level(engine).format(move |out, record| {
            let text = record.args().to_string();
            let text = printer.shown(&text);
            match record.level() {
                log::Level::Error => writeln!(out, "{ERROR}error{ERROR:#}: {text}"),
                log::Level::Warn => writeln!(out, "{WARNING}warning{WARNING:#}: {text}"),
                level => writeln!(out, "{}: {text}", level.as_str().to_ascii_lowercase()),
            }
        });
        for target in [
            "tfr_sql",
            "tfr_files",
            "tfr_formats",
            "datafusion_tfrecord",
            "tfrecord_shards",
            "tfrecord_sidecars",
            "arrow_tfrecord",
            "tfrecord_framing",
        ] {
            logger.filter_module(target, ours);
        }
        // A second logger in one process is refused; the first one serves.
        let _ = logger.target(env_logger::Target::Pipe(Box::new(LogLines(self.clone())))).try_init();
    }

    /// Runs `write` on a locked standard error with the bar out of the way. There is nobody to tell when standard
    /// error itself fails.
    fn to_stderr(&self, write: impl FnOnce(&mut AutoStream<io::StderrLock<'static>>) -> io::Result<()>) {
        self.bars.suspend(|| {
            let color = match self.color {
                anstream::ColorChoice::Auto => AutoStream::choice(&io::stderr()),
                color => color,
            };
            let _ = write(&mut AutoStream::new(io::stderr().lock(), color));
        });
    }
}

/// The logger's sink.
struct LogLines(Printer);

impl Write for LogLines {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.to_stderr(|out| out.write_all(text));
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Shows control characters instead of obeying them: `\u{1b}` for an escape. Line ends and tabs stay.
pub fn escape_controls(text: &str) -> Cow<'_, str> {
    let obeyed = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if !text.contains(obeyed) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if obeyed(c) {
            escaped.extend(c.escape_default());
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// `count` with thousands separated, as in `6,001,215`.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 row`, `2,000 rows`.
pub fn counted(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(count), if count == 1 { "" } else { "s" })
}

/// `3.2 MiB`.
pub fn bytes(count: u64) -> String {
    bytesize::ByteSize(count).display().iec().to_string()
}

#[cfg(test)]
mod tests {
    use super::{counted, escape_controls, grouped};

    #[test]
    fn a_terminal_obeys_nothing_in_the_data() {
        assert_eq!(escape_controls("tab\tand\nline stay"), "tab\tand\nline stay");
        assert_eq!(escape_controls("\u{1b}[31mred\u{7} \r\u{9b}2J é"), "\\u{1b}[31mred\\u{7} \\r\\u{9b}2J é");
    }

    #[test]
    fn counts_are_easy_to_read() {
        assert_eq!([0, 999, 1000, 6_001_215].map(grouped), ["0", "999", "1,000", "6,001,215"]);
        assert_eq!([0, 1, 2].map(|rows| counted(rows, "row")), ["0 rows", "1 row", "2 rows"]);
    }
}
