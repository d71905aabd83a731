//! One record as text, for people and for tools that read lines: [`textproto`] and [`json_line`].

mod wire;

use std::fmt::Write;
use std::str;

use base64::display::Base64Display;
use base64::prelude::BASE64_STANDARD;

use crate::error::Result;
use crate::textproto::{Textproto, escaped, escaped_text};
use wire::{Feature, Map, Record};

/// Prints a record as protobuf's C++ library prints a `tf.train.Example`: features sorted by name, one value per line.
/// Any protobuf library parses it to the same message.
///
/// A record with `feature_lists` is printed as a `tf.train.SequenceExample`, and one that contains Examples as an
/// `ExampleListWithContext` of TensorFlow Ranking. An empty record gives empty text.
///
/// ```
/// let record = b"\x0a\x0c\x0a\x0a\x0a\x01a\x12\x05\x1a\x03\x0a\x01\x07";
/// let text = tfrecord_sidecars::textproto(record)?;
/// assert_eq!(text.split_whitespace().collect::<Vec<_>>().join(" "),
///     r#"features { feature { key: "a" value { int64_list { value: 7 } } } }"#);
/// # Ok::<(), tfrecord_sidecars::Error>(())
/// ```
///
/// # Errors
/// Fails on a record that is none of these, with the byte offset of the defect.
pub fn textproto(record: &[u8]) -> Result<String> {
    let mut text = Textproto::default();
    match Record::read(record)? {
        Record::Example { features } => {
            if let Some(features) = features {
                text.message("features", |text| text.map("feature", features, Textproto::feature));
            }
        }
        Record::ExampleListWithContext { examples, context } => {
            let example = |text: &mut Textproto, features: Option<Map<'_, _>>| {
                if let Some(features) = features {
                    text.message("features", |text| text.map("feature", features, Textproto::feature));
                }
            };
            for features in examples {
                text.message("examples", |text| example(text, features));
            }
            if let Some(features) = context {
                text.message("context", |text| example(text, features));
            }
        }
        Record::SequenceExample { context, feature_lists } => {
            if let Some(context) = context {
                text.message("context", |text| text.map("feature", context, Textproto::feature));
            }
            if let Some(lists) = feature_lists {
                text.message("feature_lists", |text| {
                    text.map("feature_list", lists, |text, steps| {
                        for step in steps {
                            text.message("feature", |text| text.feature(step));
                        }
                    });
                });
            }
        }
    }
    Ok(text.finish())
}

/// Prints a record as one JSON object, without a line feed. Features are in stored order, and every feature is a list.
///
/// Valid UTF-8 bytes are strings, others `{"b64": "..."}`, as in TensorFlow Serving. Numbers are exact; `NaN`,
/// `Infinity` and `-Infinity` are strings. A feature without a kind is null. The object of a `SequenceExample` has the
/// keys `context` and `feature_lists`, whose features are lists of steps, and that of an `ExampleListWithContext` has
/// `context` and `examples`.
///
/// ```
/// let record = b"\x0a\x0c\x0a\x0a\x0a\x01a\x12\x05\x1a\x03\x0a\x01\x07";
/// assert_eq!(tfrecord_sidecars::json_line(record)?, r#"{"a": [7]}"#);
/// # Ok::<(), tfrecord_sidecars::Error>(())
/// ```
///
/// # Errors
/// Fails on a record that is none of these, with the byte offset of the defect.
pub fn json_line(record: &[u8]) -> Result<String> {
    let mut json = Json::default();
    match Record::read(record)? {
        Record::Example { features } => json.map(features, Json::feature),
        Record::ExampleListWithContext { examples, context } => {
            json.text += r#"{"context": "#;
            json.map(context.flatten(), Json::feature);
            json.text += r#", "examples": "#;
            json.list(examples, |json, features| json.map(features, Json::feature));
            json.text += "}";
        }
        Record::SequenceExample { context, feature_lists } => {
            json.text += r#"{"context": "#;
            json.map(context, Json::feature);
            json.text += r#", "feature_lists": "#;
            json.map(feature_lists, |json, steps| json.list(steps, Json::feature));
            json.text += "}";
        }
    }
    Ok(json.text)
}

impl Textproto {
    fn map<T>(&mut self, name: &str, mut map: Map<'_, T>, value: impl Fn(&mut Self, T)) {
        map.sort_by_key(|(name, _)| *name);
        for (key, element) in map {
            self.message(name, |text| {
                text.line(&format!("key: \"{}\"", escaped_text(key)));
                text.message("value", |text| value(text, element));
            });
        }
    }

    fn feature(&mut self, feature: Feature<'_>) {
        let mut list = |name, values: Vec<String>| {
            self.message(name, |text| values.iter().for_each(|value| text.line(&format!("value: {value}"))));
        };
        match feature {
            Feature::Unset => {}
            Feature::Bytes(values) => {
                list("bytes_list", values.iter().map(|value| format!("\"{}\"", escaped(value))).collect());
            }
            Feature::Float(values) => list("float_list", values.iter().map(|value| float(*value)).collect()),
            Feature::Int64(values) => list("int64_list", values.iter().map(i64::to_string).collect()),
        }
    }
}

/// The six digits of C's `%g` if they identify the number, nine otherwise.
fn float(value: f32) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let short = general(value, 6);
    if short.parse() == Ok(value) { short } else { general(value, 9) }
}

/// `%.{digits}g` of C.
fn general(value: f32, digits: usize) -> String {
    let scientific = format!("{value:.*e}", digits.saturating_sub(1));
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let trimmed = |number: &str| match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => number.to_owned(),
    };
    match usize::try_from(exponent + 4) {
        Ok(at) if at < digits + 4 => trimmed(&format!("{value:.*}", (digits + 3).saturating_sub(at))),
        _ => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{}e{sign}{:02}", trimmed(mantissa), exponent.unsigned_abs())
        }
    }
}

/// JSON being written.
#[derive(Default)]
struct Json {
    text: String,
}

impl Json {
    fn map<T>(&mut self, map: Option<Map<'_, T>>, value: impl Fn(&mut Self, T)) {
        self.text += "{";
        for (position, (name, element)) in map.into_iter().flatten().enumerate() {
            if position > 0 {
                self.text += ", ";
            }
            self.string(name);
            self.text += ": ";
            value(self, element);
        }
        self.text += "}";
    }

    fn list<T>(&mut self, values: Vec<T>, value: impl Fn(&mut Self, T)) {
        self.text += "[";
        for (position, element) in values.into_iter().enumerate() {
            if position > 0 {
                self.text += ", ";
            }
            value(self, element);
        }
        self.text += "]";
    }

    fn feature(&mut self, feature: Feature<'_>) {
        match feature {
            Feature::Unset => self.text += "null",
            Feature::Bytes(values) => self.list(values, Self::bytes),
            Feature::Float(values) => self.list(values, Self::float),
            Feature::Int64(values) => self.list(values, |json, value| json.print(format_args!("{value}"))),
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        match str::from_utf8(bytes) {
            Ok(text) => self.string(text),
            Err(_) => self.print(format_args!("{{\"b64\": \"{}\"}}", Base64Display::new(bytes, &BASE64_STANDARD))),
        }
    }

    fn float(&mut self, value: f32) {
        if value.is_nan() {
            self.text += "\"NaN\"";
        } else if value.is_infinite() {
            self.text += if value > 0.0 { "\"Infinity\"" } else { "\"-Infinity\"" };
        } else {
            // The shortest digits that parse to the same float. `{:?}` keeps the decimal point of a whole number.
            self.print(format_args!("{value:?}"));
        }
    }

    fn string(&mut self, text: &str) {
        self.text += &serde_json::Value::from(text).to_string();
    }

    fn print(&mut self, arguments: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.text.write_fmt(arguments);
    }
}

#[cfg(test)]
mod tests;
