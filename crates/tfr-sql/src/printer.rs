//! [`Printer`]: passes the output of a run to its listener, with secrets hidden. Also formats numbers as text.

use std::borrow::Cow;
use std::fmt::Display as Message;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::cli::Display;
use crate::error::Explanation;
use crate::exit::ExitStatus;
use crate::listener::{Event, Listener, Progress};
use crate::secrets::Secrets;

/// Passes data, messages and progress to the listener. Cheap to clone.
#[derive(Clone)]
pub struct Printer {
    listener: Arc<dyn Listener>,
    secrets: Secrets,
}

impl Printer {
    /// Creates a printer that hides `secrets`.
    pub fn new(listener: Arc<dyn Listener>, secrets: Secrets) -> Self {
        Self { listener, secrets }
    }

    /// Reports to the listener that the arguments are valid.
    pub fn begin(&self, display: &Display) {
        self.listener.begin(display, &self.secrets);
    }

    /// Hides the values of secret options in this SQL from now on.
    pub fn hide_secrets_of(&self, sql: &str) {
        self.secrets.add_sql(sql);
    }

    /// Prints help, or reports an error in the arguments. Returns the exit status.
    ///
    /// # Errors
    /// If the help cannot be written.
    pub fn usage(&self, error: &clap::Error) -> io::Result<ExitStatus> {
        let text = error.render().ansi().to_string();
        if error.use_stderr() {
            self.listener.event(Event::Usage(&self.hide_styled(&text)));
            return Ok(ExitStatus::Usage);
        }
        self.listener.help(&text)?;
        Ok(ExitStatus::Done)
    }

    /// Hides secrets in a text with ANSI styles. A style begins with ESC and ends with `m`, directly before a value.
    fn hide_styled(&self, text: &str) -> String {
        const ESC: char = '\u{1b}';
        let mut pieces = text.split(ESC);
        let mut shown = self.secrets.hide(pieces.next().unwrap_or_default()).into_owned();
        for piece in pieces {
            let (style, plain) = piece.split_at(piece.find('m').map_or(0, |end| end + 1));
            shown.push(ESC);
            shown.push_str(style);
            shown.push_str(&self.secrets.hide(plain));
        }
        shown
    }

    /// Reports the error that ended the run, its causes and a hint.
    pub fn error(&self, explanation: Explanation) {
        let mut texts = explanation.causes.iter().map(|cause| self.secrets.hide(cause).into_owned());
        let message = texts.next().unwrap_or_default();
        let causes: Vec<_> = texts.collect();
        let hint = explanation.hint.as_deref().map(|hint| self.secrets.hide(hint));
        let mut details = explanation.details;
        for text in [&mut details.file, &mut details.column].into_iter().flatten() {
            *text = self.secrets.hide(text).into_owned();
        }
        let hint = hint.as_deref();
        self.listener.event(Event::Error { message: &message, causes: &causes, hint, details: &details });
    }

    /// Reports a problem that does not end the run.
    pub fn warning(&self, message: impl Message) {
        self.listener.event(Event::Warning(&self.secrets.hide(&message.to_string())));
    }

    /// Reports information that the output loses.
    pub fn loss(&self, message: impl Message) {
        self.listener.event(Event::Loss(&self.secrets.hide(&message.to_string())));
    }

    /// Reports the closing summary and other information.
    pub fn note(&self, message: impl Message) {
        self.listener.event(Event::Note(&self.secrets.hide(&message.to_string())));
    }

    /// Reports progress, or the end of the work if `None`.
    pub fn progress(&self, progress: Option<&Progress>) {
        self.listener.event(Event::Progress(progress));
    }

    /// Returns the interval between progress reports.
    pub fn progress_interval(&self) -> Option<Duration> {
        self.listener.progress_interval()
    }

    /// Writes to the run's output.
    pub fn data(&self, text: &[u8]) -> io::Result<()> {
        self.listener.data(text)
    }

    /// Whether a person reads the data.
    pub fn is_terminal(&self) -> bool {
        self.listener.is_terminal()
    }
}

/// Escapes control characters: `\u{1b}` for ESC. Line ends and tabs are kept.
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

/// Escapes all control characters in a text with names of files, and those that change the direction of the text.
pub fn escape_names(text: &str) -> String {
    let is_hidden = |c: char| {
        c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match is_hidden(c) {
            true => escaped.extend(c.escape_default()),
            false => escaped.push(c),
        }
    }
    escaped
}

/// Formats `count` with thousands separators: `6,001,215`.
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

/// Formats a count with its noun: `1 row`, `2,000 rows`.
pub fn counted(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(count), if count == 1 { "" } else { "s" })
}

/// Formats a size: `3.2 MiB`.
pub fn bytes(count: u64) -> String {
    bytesize::ByteSize(count).display().iec().to_string()
}

#[cfg(test)]
mod tests {
    use super::{counted, escape_controls, escape_names, grouped};

    #[test]
    fn printer_escapes_control_characters() {
        assert_eq!(escape_controls("tab\tand\nline stay"), "tab\tand\nline stay");
        assert_eq!(escape_controls("\u{1b}[31mred\u{7} \r\u{9b}2J é"), "\\u{1b}[31mred\\u{7} \\r\\u{9b}2J é");
    }

    #[test]
    fn names_take_one_line() {
        assert_eq!(escape_names("a\u{1b}[31m\n\t\u{202e}é"), "a\\u{1b}[31m\\n\\t\\u{202e}é");
    }

    #[test]
    fn counts_are_easy_to_read() {
        assert_eq!([0, 999, 1000, 6_001_215].map(grouped), ["0", "999", "1,000", "6,001,215"]);
        assert_eq!([0, 1, 2].map(|rows| counted(rows, "row")), ["0 rows", "1 row", "2 rows"]);
    }
}
