//! Events as JSON objects, for `--messages`. `schemas/messages.schema.json` describes them.

use anstream::adapter::strip_str;
use serde_json::{Map, Value, json};

use crate::error::{ErrorClass, ErrorDetails};
use crate::exit::ExitStatus;
use crate::listener::{Event, Progress};

/// Returns the message for an event, or `None` for events that have none.
pub fn message(event: Event<'_>) -> Option<Value> {
    Some(match event {
        Event::Usage(text) => usage(&strip_str(text).to_string()),
        Event::Note(text) => json!({"event": "note", "message": text}),
        Event::Warning(text) => json!({"event": "warning", "kind": "other", "message": text}),
        Event::Loss(text) => json!({"event": "warning", "kind": "loss", "message": text}),
        Event::Error { message, causes, hint, details } => error(message, causes, hint, details),
        Event::Progress(progress) => progress_message(progress?),
    })
}

fn error(message: &str, causes: &[String], hint: Option<&str>, details: &ErrorDetails) -> Value {
    let mut fields = Map::new();
    fields.insert("event".to_owned(), "error".into());
    fields.insert("kind".to_owned(), details.class.name().into());
    fields.insert("message".to_owned(), message.into());
    fields.insert("causes".to_owned(), causes.into());
    let optional = [
        ("hint", hint.map(Value::from)),
        ("file", details.file.as_deref().map(Value::from)),
        ("record", details.record.map(Value::from)),
        ("byte", details.byte.map(Value::from)),
        ("column", details.column.as_deref().map(Value::from)),
        ("row", details.row.map(Value::from)),
    ];
    fields.extend(optional.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
    fields.insert("exit_code".to_owned(), details.class.exit_status().code().into());
    fields.into()
}

/// Returns the message for text of clap: an error, perhaps with a tip or hint, and the usage.
fn usage(text: &str) -> Value {
    let mut paragraphs = text.trim().split("\n\n").map(str::trim);
    let message = paragraphs.next().unwrap_or_default();
    let message = message.strip_prefix("error: ").unwrap_or(message);
    let hint = paragraphs.find_map(|text| ["tip: ", "hint: "].iter().find_map(|prefix| text.strip_prefix(prefix)));
    let details = ErrorDetails { class: ErrorClass::Usage, ..ErrorDetails::default() };
    error(message, &[], hint, &details)
}

fn progress_message(progress: &Progress) -> Value {
    let mut message = json!({"event": "progress", "message": progress.message});
    if let Some(fields) = message.as_object_mut() {
        fields.extend(progress.share.map(|share| ("share".to_owned(), share.into())));
        fields.extend(progress.rows.map(|rows| ("rows".to_owned(), rows.into())));
    }
    message
}

impl ErrorClass {
    /// Returns the exit status of a run that ends with an error of this class.
    pub fn exit_status(self) -> ExitStatus {
        match self {
            Self::Usage => ExitStatus::Usage,
            _ => ExitStatus::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clap_errors_become_message_and_hint() {
        let text = "error: unexpected argument '--shard' found\n\n  tip: a similar argument exists: '--shards'\n\nUsage: \
                    tfr-sql\n\nFor more information, try '--help'.\n";
        let expected = json!({"event": "error", "kind": "usage", "message": "unexpected argument '--shard' found",
            "causes": [], "hint": "a similar argument exists: '--shards'", "exit_code": 2});
        assert_eq!(message(Event::Usage(text)), Some(expected));
    }
}
