//! Converts JSON values to Hive's types as JsonSerDe does, which asks Jackson for a value of the type.

use std::borrow::Cow;
use std::collections::HashMap;

use arrow_schema::DataType;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tfr_arrow::nested::struct_fields;

use super::column::{Context, HiveColumnBuilder, Values as Builders};
use super::serdes::JsonBinary;
use super::tally::Oddity;
use super::value::{self, Read};
use crate::csv::is_float;
use crate::error::{ErrorKind, FilePlace, Result};
use crate::json::{Node, NodeKind, Tape};

/// The values of a line.
pub(super) struct JsonValues<'a> {
    pub(super) tape: &'a Tape,
    pub(super) binary: JsonBinary,
}

/// A value that is not nested.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Scalar<'a> {
    Boolean(bool),
    /// As written.
    Number(&'a str),
    Text(&'a str),
}

/// What Jackson makes of a value.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Made<T> {
    Same(T),
    /// A fraction or digits are cut off.
    Cut(T),
    /// It is another value.
    Other(T),
}

impl<T> Made<T> {
    fn of(read: Read<T>) -> Self {
        if read.is_cut { Self::Cut(read.value) } else { Self::Same(read.value) }
    }

    fn value(self) -> T {
        match self {
            Self::Same(value) | Self::Cut(value) | Self::Other(value) => value,
        }
    }

    fn oddity(&self) -> Option<Oddity> {
        match self {
            Self::Same(_) => None,
            Self::Cut(_) => Some(Oddity::Cut),
            Self::Other(_) => Some(Oddity::Changed),
        }
    }
}

/// Appends a value to a column, or to a part of one. A key that is missing is null.
pub(super) fn append(
    column: &mut HiveColumnBuilder,
    values: &JsonValues<'_>,
    value: Option<u32>,
    context: &mut Context<'_>,
) -> Result<()> {
    let tape = values.tape;
    let Some((value, node)) =
        value.map(|value| (value, tape.node(value))).filter(|(_, node)| node.kind != NodeKind::Null)
    else {
        context.count(column.width)?;
        column.append_null();
        return Ok(());
    };
    if let Some(leaf) = values.leaf(node) {
        return append_leaf(column, values.binary, leaf, context);
    }
    context.count(1)?;
    let data_type = &column.data_type;
    match (&mut column.values, node.kind) {
        (Builders::List(lists, item), NodeKind::Array) => {
            let mut len = 0;
            for element in tape.elements(value) {
                append(item, values, Some(element), context)?;
                len += 1;
            }
            lists.push(len, true);
        }
        (Builders::Map(lists, entry), NodeKind::Object) => {
            let (keys, items) = entry.as_mut();
            // The last value of a key counts, at the place of the first.
            let mut found: Vec<(&str, u32)> = Vec::new();
            let mut places = HashMap::new();
            for (key, item) in tape.entries(value) {
                let text = tape.text(tape.node(key));
                let Some(key) = key_of(keys, text) else {
                    context.odd(Oddity::Unfit, text.as_bytes(), &keys.data_type)?;
                    continue;
                };
                match places.get(&key) {
                    Some(place) => {
                        let (first, last): &mut (&str, u32) = &mut found[*place];
                        if *first != text {
                            context.odd(Oddity::Cut, text.as_bytes(), &keys.data_type)?;
                        }
                        *last = item;
                    }
                    None => {
                        places.insert(key, found.len());
                        found.push((text, item));
                    }
                }
            }
            for (key, item) in &found {
                append_leaf(keys, values.binary, Scalar::Text(key), context)?;
                append(items, values, Some(*item), context)?;
            }
            lists.push(found.len(), true);
        }
        (Builders::Struct(valid, fields), NodeKind::Object) => {
            let names = struct_fields(data_type).map(|names| names.as_ref()).unwrap_or_default();
            let mut found = vec![None; fields.len()];
            for (key, part) in tape.entries(value) {
                let key = tape.text(tape.node(key)).to_lowercase();
                let index = names.iter().position(|name| name.name().to_lowercase() == key);
                if let Some(slot) = index.and_then(|index| found.get_mut(index)) {
                    *slot = Some(part);
                }
            }
            for (field, part) in fields.iter_mut().zip(found) {
                append(field, values, part, context)?;
            }
            valid.append_non_null();
        }
        (Builders::Text(None, builder), _) => {
            let mut text = String::new();
            write_json(tape, value, &mut text);
            builder.append_value(text);
        }
        _ => return Err(unfit(values, value, data_type, context)),
    }
    Ok(())
}

/// Returns the error of a value that Hive cannot read either.
fn unfit(values: &JsonValues<'_>, value: u32, expected: &DataType, context: &Context<'_>) -> crate::Error {
    let mut text = String::new();
    write_json(values.tape, value, &mut text);
    no_value(&text, expected, context)
}

fn no_value(text: &str, expected: &DataType, context: &Context<'_>) -> crate::Error {
    const SHOWN_CHARS: usize = 60;
    let cell = match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    };
    let place = FilePlace::new(context.tally.file(), context.line).column(context.column);
    ErrorKind::Cell { place, expected: expected.clone(), cell, declared: true }.into()
}

fn append_leaf(
    column: &mut HiveColumnBuilder,
    binary: JsonBinary,
    leaf: Scalar<'_>,
    context: &mut Context<'_>,
) -> Result<()> {
    context.count(1)?;
    let data_type = &column.data_type;
    let text = leaf.text();
    macro_rules! made {
        ($builder:expr, $made:expr) => {{
            let made = $made;
            if let Some(oddity) = made.oddity() {
                context.odd(oddity, text.as_bytes(), data_type)?;
            }
            $builder.append_value(made.value());
        }};
    }
    macro_rules! read {
        ($builder:expr, $read:expr) => {{
            let read = $read;
            match &read {
                None => context.odd(Oddity::Unfit, text.as_bytes(), data_type)?,
                Some(read) if read.is_cut => context.odd(Oddity::Cut, text.as_bytes(), data_type)?,
                Some(_) => {}
            }
            $builder.append_option(read.map(|read| read.value));
        }};
    }
    match &mut column.values {
        Builders::Boolean(builder) => made!(builder, leaf.boolean()),
        Builders::Integer(min, max, builder) => match integer(leaf, *min, *max) {
            Some(made) => made!(builder, made),
            None => read!(builder, None::<Read<i64>>),
        },
        Builders::Float32(builder) => match float32(leaf) {
            Some(made) => made!(builder, made),
            None => return Err(no_value(&text, data_type, context)),
        },
        Builders::Float64(builder) => match float64(leaf) {
            Some(made) => made!(builder, made),
            None => return Err(no_value(&text, data_type, context)),
        },
        Builders::Decimal(precision, scale, builder) => {
            let mut read = value::decimal(text.as_bytes(), *precision, *scale);
            // Numbers with a point are doubles first.
            if let (Some(read), Scalar::Number(written)) = (&mut read, leaf) {
                let exact = value::decimal(written.as_bytes(), *precision, *scale);
                read.is_cut |= exact.is_none_or(|exact| exact.value != read.value || exact.is_cut);
            }
            read!(builder, read);
        }
        Builders::Date(builder) => match value::date(text.as_bytes()) {
            Some(read) => made!(builder, Made::of(read)),
            None => return Err(no_value(&text, data_type, context)),
        },
        Builders::Timestamp(unit, builder) => read!(builder, value::timestamp(text.as_bytes(), *unit)),
        Builders::Text(max, builder) => {
            let read = value::text(&text, *max);
            let is_changed = matches!(leaf, Scalar::Number(written) if written != text);
            let oddity = if read.is_cut { Some(Oddity::Cut) } else { is_changed.then_some(Oddity::Changed) };
            if let Some(oddity) = oddity {
                let written = if let Scalar::Number(written) = leaf { written } else { &text };
                context.odd(oddity, written.as_bytes(), data_type)?;
            }
            builder.append_value(read.value);
        }
        Builders::Binary(builder) => match (binary, leaf) {
            (JsonBinary::RawString, Scalar::Text(text)) => builder.append_value(text),
            (JsonBinary::Base64, Scalar::Text(text)) => match decoded(text) {
                Some(bytes) => builder.append_value(bytes),
                None => return Err(no_value(text, data_type, context)),
            },
            (JsonBinary::Base64, _) => {
                context.odd(Oddity::Unfit, text.as_bytes(), data_type)?;
                builder.append_null();
            }
            (JsonBinary::RawString, _) => return Err(no_value(&text, data_type, context)),
        },
        Builders::List(..) | Builders::Map(..) | Builders::Struct(..) | Builders::Union(..) => {
            return Err(no_value(&text, data_type, context));
        }
    }
    Ok(())
}

impl<'a> JsonValues<'a> {
    /// Returns a value that is not nested.
    fn leaf(&self, node: Node) -> Option<Scalar<'a>> {
        Some(match node.kind {
            NodeKind::True => Scalar::Boolean(true),
            NodeKind::False => Scalar::Boolean(false),
            NodeKind::Number => Scalar::Number(self.tape.text(node)),
            NodeKind::String => Scalar::Text(self.tape.text(node)),
            _ => return None,
        })
    }
}

impl<'a> Scalar<'a> {
    /// Returns the value as a text, with numbers as Java prints them.
    fn text(self) -> Cow<'a, str> {
        match self {
            Self::Boolean(true) => Cow::Borrowed("true"),
            Self::Boolean(false) => Cow::Borrowed("false"),
            Self::Number(number) => printed(number),
            Self::Text(text) => Cow::Borrowed(text),
        }
    }

    fn boolean(self) -> Made<bool> {
        match self {
            Self::Boolean(value) => Made::Same(value),
            Self::Number(number) if is_fraction(number) => Made::Other(false),
            Self::Number(number) => {
                let is_zero = number.bytes().all(|byte| matches!(byte, b'0' | b'-'));
                let is_exact = matches!(number, "0" | "1");
                if is_exact { Made::Same(!is_zero) } else { Made::Other(!is_zero) }
            }
            Self::Text(text) => match trimmed(text) {
                "true" => Made::Same(true),
                "false" => Made::Same(false),
                _ => Made::Other(false),
            },
        }
    }
}

/// Whether Jackson reads a number as a double.
fn is_fraction(number: &str) -> bool {
    number.contains(['.', 'e', 'E'])
}

/// Removes what Java's `trim` removes.
fn trimmed(text: &str) -> &str {
    text.trim_matches(|c| c <= ' ')
}

/// Returns an integer within the bounds of its type: of a number its lowest bits, as long as it has no fraction. `None` if
/// the type is not one of Hive.
fn integer(leaf: Scalar<'_>, min: i64, max: i64) -> Option<Made<i64>> {
    let is_long = min == i64::MIN;
    // A double in the range of the type, which is 64 or 32 bits.
    let cut = |number: f64| if is_long { number as i64 } else { i64::from(number as i32) };
    let of_double = |number: f64, made: fn(i64) -> Made<i64>| match cut(number) {
        value if value as f64 == number => Made::Same(value),
        value if value as f64 == number.trunc() => made(value),
        value => Made::Other(value),
    };
    let made = match leaf {
        Scalar::Boolean(value) => Made::Other(i64::from(value)),
        Scalar::Number(number) if is_fraction(number) => of_double(number.parse().ok()?, Made::Cut),
        Scalar::Number(number) => match number.parse::<i64>() {
            Ok(value) if is_long || i32::try_from(value).is_ok() => Made::Same(value),
            Ok(value) => Made::Other(i64::from(value as i32)),
            Err(_) => {
                let lowest = lowest_bits(number);
                Made::Other(if is_long { lowest } else { i64::from(lowest as i32) })
            }
        },
        Scalar::Text(text) => {
            let text = trimmed(text);
            let unsigned = text.strip_prefix('+').unwrap_or(text);
            let digits = unsigned.strip_prefix('-').filter(|_| unsigned.len() == text.len()).unwrap_or(unsigned);
            match digits.bytes().all(|byte| byte.is_ascii_digit()) {
                true => match unsigned.parse::<i64>() {
                    Ok(value) if is_long || i32::try_from(value).is_ok() => Made::Same(value),
                    _ => Made::Other(0),
                },
                false => match value::float64(unsigned.as_bytes()) {
                    Some(read) => of_double(read.value, Made::Cut),
                    None => Made::Other(0),
                },
            }
        }
    };
    let value = made.value();
    if (min..=max).contains(&value) {
        return Some(made);
    }
    match (min, max) {
        (-0x80, 0x7f) => Some(Made::Other(i64::from(value as i8))),
        (-0x8000, 0x7fff) => Some(Made::Other(i64::from(value as i16))),
        _ => None,
    }
}

/// Returns the lowest 64 bits of an integer.
fn lowest_bits(number: &str) -> i64 {
    let digits = number.strip_prefix('-').unwrap_or(number);
    let value = digits
        .bytes()
        .fold(0_u64, |value, byte| value.wrapping_mul(10).wrapping_add(u64::from(byte.wrapping_sub(b'0'))));
    if number.starts_with('-') { value.wrapping_neg() as i64 } else { value as i64 }
}

/// Returns a double. `None` for a hexadecimal number, which Java reads.
fn float64(leaf: Scalar<'_>) -> Option<Made<f64>> {
    Some(match leaf {
        Scalar::Boolean(value) => Made::Other(f64::from(u8::from(value))),
        Scalar::Number(number) => Made::of(value::float64(number.as_bytes())?),
        Scalar::Text(text) => match value::float64(text.as_bytes()) {
            Some(read) => Made::of(read),
            None if text.contains(['x', 'X']) && text.contains(['p', 'P']) => return None,
            None => Made::Other(0.0),
        },
    })
}

/// Returns a float, which is a double first.
fn float32(leaf: Scalar<'_>) -> Option<Made<f32>> {
    let made = float64(leaf)?;
    let double = made.value();
    let float = double as f32;
    let is_lost = float.is_infinite() && double.is_finite() || float == 0.0 && double != 0.0;
    let is_exact = match leaf {
        Scalar::Number(number) if !is_fraction(number) => is_float(number, f64::from(float)),
        _ => true,
    };
    Some(match made {
        Made::Other(_) => Made::Other(float),
        Made::Cut(_) => Made::Cut(float),
        Made::Same(_) if is_lost || !is_exact => Made::Cut(float),
        Made::Same(_) => Made::Same(float),
    })
}

/// Returns what is equal for equal keys of a map. `None` if the key is null.
fn key_of(column: &HiveColumnBuilder, text: &str) -> Option<String> {
    let leaf = Scalar::Text(text);
    Some(match &column.values {
        Builders::Boolean(_) => leaf.boolean().value().to_string(),
        Builders::Integer(min, max, _) => integer(leaf, *min, *max)?.value().to_string(),
        Builders::Float32(_) => {
            float32(leaf).map_or_else(|| text.to_owned(), |made| made.value().to_bits().to_string())
        }
        Builders::Float64(_) => {
            float64(leaf).map_or_else(|| text.to_owned(), |made| made.value().to_bits().to_string())
        }
        Builders::Decimal(precision, scale, _) => {
            value::decimal(text.as_bytes(), *precision, *scale)?.value.to_string()
        }
        Builders::Date(_) => {
            value::date(text.as_bytes()).map_or_else(|| text.to_owned(), |read| read.value.to_string())
        }
        Builders::Timestamp(unit, _) => value::timestamp(text.as_bytes(), *unit)?.value.to_string(),
        Builders::Text(max, _) => value::text(text, *max).value.to_owned(),
        _ => text.to_owned(),
    })
}

/// Decodes base64 with padding; several padded texts may follow one another.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let padding = rest.find('=').unwrap_or(rest.len());
        let end = rest.len() - rest[padding..].trim_start_matches('=').len();
        bytes.extend(STANDARD.decode(&rest[..end]).ok()?);
        rest = &rest[end..];
    }
    Some(bytes)
}

/// Returns a number as Java prints it: integers without a sign before zero, others as doubles.
fn printed(number: &str) -> Cow<'_, str> {
    match number {
        "-0" => Cow::Borrowed("0"),
        _ if !is_fraction(number) => Cow::Borrowed(number),
        _ => Cow::Owned(java_double(number.parse().unwrap_or(f64::NAN))),
    }
}

/// Returns a double as Java prints it.
fn java_double(value: f64) -> String {
    let sign = if value.is_sign_negative() { "-" } else { "" };
    let value = value.abs();
    let with_point = |digits: &str| if digits.contains('.') { digits.to_owned() } else { format!("{digits}.0") };
    match value {
        _ if value.is_infinite() => format!("{sign}Infinity"),
        _ if value == 0.0 || (1e-3..1e7).contains(&value) => format!("{sign}{}", with_point(&value.to_string())),
        _ => {
            let text = format!("{value:e}");
            let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            format!("{sign}{}E{exponent}", with_point(digits))
        }
    }
}

/// Writes a value as Jackson does, without blanks.
fn write_json(tape: &Tape, value: u32, out: &mut String) {
    let node = tape.node(value);
    match node.kind {
        NodeKind::Array => {
            out.push('[');
            for (index, element) in tape.elements(value).enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                write_json(tape, element, out);
            }
            out.push(']');
        }
        NodeKind::Object => {
            // The last value of a key counts, at the place of the first.
            let mut entries: Vec<(&str, u32)> = Vec::new();
            let mut places = HashMap::new();
            for (key, value) in tape.entries(value) {
                let key = tape.text(tape.node(key));
                match places.get(key) {
                    Some(place) => {
                        let entry: &mut (&str, u32) = &mut entries[*place];
                        entry.1 = value;
                    }
                    None => {
                        places.insert(key, entries.len());
                        entries.push((key, value));
                    }
                }
            }
            out.push('{');
            for (index, (key, value)) in entries.into_iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                write_string(key, out);
                out.push(':');
                write_json(tape, value, out);
            }
            out.push('}');
        }
        NodeKind::String => write_string(tape.text(node), out),
        NodeKind::Number => match printed(tape.text(node)).as_ref() {
            infinite @ ("Infinity" | "-Infinity") => write_string(infinite, out),
            number => out.push_str(number),
        },
        NodeKind::True => out.push_str("true"),
        NodeKind::False => out.push_str("false"),
        NodeKind::Null | NodeKind::Column => out.push_str("null"),
    }
}

fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}
