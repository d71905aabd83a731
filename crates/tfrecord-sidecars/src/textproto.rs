//! [`Textproto`]: protobuf text in the layout of protobuf's own libraries, one field per line.

use std::borrow::Cow;

use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, Value};

/// Protobuf text being written.
#[derive(Default)]
pub(crate) struct Textproto {
    text: String,
    depth: usize,
}

impl Textproto {
    pub(crate) fn line(&mut self, line: &str) {
        for _ in 0..self.depth {
            self.text += "  ";
        }
        self.text += line;
        self.text += "\n";
    }

    pub(crate) fn message(&mut self, name: &str, body: impl FnOnce(&mut Self)) {
        self.line(&format!("{name} {{"));
        self.depth += 1;
        body(self);
        self.depth -= 1;
        self.line("}");
    }

    pub(crate) fn finish(self) -> String {
        self.text
    }

    /// Writes the fields of any message, by number. Unset fields are omitted.
    pub(crate) fn fields(&mut self, message: &DynamicMessage) {
        for (field, value) in message.fields() {
            match value {
                Value::List(values) => values.iter().for_each(|value| self.field(&field, value)),
                Value::Map(entries) => {
                    let mut entries: Vec<_> = entries.iter().collect();
                    entries.sort_by_key(|(key, _)| *key);
                    self.entries(&field, entries);
                }
                value => self.field(&field, value),
            }
        }
    }

    fn entries(&mut self, field: &FieldDescriptor, entries: Vec<(&MapKey, &Value)>) {
        let Kind::Message(entry) = field.kind() else { return };
        for (key, value) in entries {
            self.message(field.name(), |text| {
                text.field(&entry.map_entry_key_field(), &Value::from(key.clone()));
                text.field(&entry.map_entry_value_field(), value);
            });
        }
    }

    fn field(&mut self, field: &FieldDescriptor, value: &Value) {
        let name = field.name();
        let text = match value {
            Value::Message(message) => return self.message(name, |text| text.fields(message)),
            Value::String(text) => format!("\"{}\"", escaped_text(text)),
            Value::Bytes(bytes) => format!("\"{}\"", escaped(bytes)),
            Value::EnumNumber(number) => match field.kind() {
                Kind::Enum(kind) => kind.get_value(*number).map_or(number.to_string(), |value| value.name().to_owned()),
                _ => number.to_string(),
            },
            Value::Bool(value) => value.to_string(),
            Value::I32(value) => value.to_string(),
            Value::I64(value) => value.to_string(),
            Value::U32(value) => value.to_string(),
            Value::U64(value) => value.to_string(),
            // Both print digits that parse to the same number.
            Value::F32(value) => format!("{value:?}").to_lowercase(),
            Value::F64(value) => format!("{value:?}").to_lowercase(),
            Value::List(_) | Value::Map(_) => return,
        };
        self.line(&format!("{name}: {text}"));
    }
}

/// Bytes within quotes, in printable ASCII.
pub(crate) fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'\n' => text += "\\n",
            b'\r' => text += "\\r",
            b'\t' => text += "\\t",
            b'"' | b'\'' | b'\\' => text.extend(['\\', char::from(*byte)]),
            b' '..=b'~' => text.push(char::from(*byte)),
            // An octal escape has three digits, so that a digit may follow.
            _ => text.extend(['\\'].into_iter().chain([6, 3, 0].map(|shift| char::from(b'0' + (byte >> shift & 7))))),
        }
    }
    text
}

/// Text within quotes. Non-ASCII letters are kept.
pub(crate) fn escaped_text(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Owned(escaped(text.as_bytes()));
    }
    let mut buffer = [0; 4];
    let escape = |letter: char| {
        if letter.is_ascii() || letter.is_control() {
            escaped(letter.encode_utf8(&mut buffer).as_bytes())
        } else {
            letter.to_string()
        }
    };
    Cow::Owned(text.chars().map(escape).collect())
}
