//! Reads a record's protobuf message, keeping the order of its features.
//!
//! Everything that protobuf allows is read as protobuf reads it: split messages, packed and unpacked lists, fields in
//! any order, unknown fields. Anything else is an error with the byte offset.

use std::collections::HashSet;
use std::str;

use arrow_tfrecord::is_example_list;

use crate::error::{ErrorKind, Result};

/// The maximum nesting of unknown groups, as in protobuf's own parsers.
const MAX_GROUPS: usize = 100;

const VARINT: u8 = 0;
const I64: u8 = 1;
const LEN: u8 = 2;
const START_GROUP: u8 = 3;
const END_GROUP: u8 = 4;
const I32: u8 = 5;

/// An ExampleListWithContext without examples, and with an empty context. As a SequenceExample it would be a feature list
/// without a name and a value, which no library writes.
const EMPTY_LIST: &[u8] = b"\x12\x02\x0a\x00";

/// A parsed record.
#[derive(Debug, PartialEq)]
pub(super) enum Record<'a> {
    Example {
        features: Option<Map<'a, Feature<'a>>>,
    },
    SequenceExample {
        context: Option<Map<'a, Feature<'a>>>,
        feature_lists: Option<Map<'a, Vec<Feature<'a>>>>,
    },
    /// The features of each example, and of the context if there is one.
    ExampleListWithContext {
        examples: Vec<Features<'a>>,
        context: Option<Features<'a>>,
    },
}

/// The features of an Example, if it has any.
type Features<'a> = Option<Map<'a, Feature<'a>>>;

/// Entries in the order of the record, with unique names.
pub(super) type Map<'a, T> = Vec<(&'a str, T)>;

/// A `tf.train.Feature`.
#[derive(Debug, PartialEq, Default)]
pub(super) enum Feature<'a> {
    /// A feature without a kind.
    #[default]
    Unset,
    Bytes(Vec<&'a [u8]>),
    Float(Vec<f32>),
    Int64(Vec<i64>),
}

impl<'a> Record<'a> {
    /// Reads `record`. A message with `feature_lists` is a `SequenceExample`, and one with the structure of an
    /// `ExampleListWithContext` is that.
    pub(super) fn read(record: &'a [u8]) -> Result<Self> {
        if is_example_list(record) || record == EMPTY_LIST {
            return Self::read_examples(record);
        }
        let mut features: Option<Map<'a, Feature<'a>>> = None;
        let mut feature_lists: Option<Map<'a, Vec<Feature<'a>>>> = None;
        Message::new(record).fields(|number, value| {
            match number {
                1 => value.message("expected features, found a number")?.features(features.get_or_insert_default())?,
                2 => value
                    .message("expected feature lists, found a number")?
                    .feature_lists(feature_lists.get_or_insert_default())?,
                _ => {}
            }
            Ok(())
        })?;
        features.iter_mut().for_each(keep_last);
        feature_lists.iter_mut().for_each(keep_last);
        Ok(match feature_lists {
            None => Self::Example { features },
            Some(lists) => Self::SequenceExample { context: features, feature_lists: Some(lists) },
        })
    }
}

impl<'a> Record<'a> {
    fn read_examples(record: &'a [u8]) -> Result<Self> {
        let (mut examples, mut context): (Vec<Features<'a>>, Option<Features<'a>>) = (Vec::new(), None);
        Message::new(record).fields(|number, value| {
            match number {
                1 => {
                    let mut features = None;
                    value.message("expected an example, found a number")?.example(&mut features)?;
                    examples.push(features);
                }
                2 => value.message("expected a context, found a number")?.example(context.get_or_insert_default())?,
                _ => {}
            }
            Ok(())
        })?;
        examples.iter_mut().chain(&mut context).flatten().for_each(keep_last);
        Ok(Self::ExampleListWithContext { examples, context })
    }
}

/// Keeps the last entry of each name, as protobuf does.
fn keep_last<T>(map: &mut Map<'_, T>) {
    let mut names = HashSet::with_capacity(map.len());
    let last: Vec<bool> = map.iter().rev().map(|(name, _)| names.insert(*name)).collect();
    let mut last = last.into_iter().rev();
    map.retain(|_| last.next().unwrap_or(true));
}

/// The bytes of a message within a record.
#[derive(Clone, Copy)]
struct Message<'a> {
    record: &'a [u8],
    at: usize,
    end: usize,
}

/// The value of a field.
#[derive(Clone, Copy)]
enum WireValue<'a> {
    Varint(u64, usize),
    Fixed32([u8; 4], usize),
    Fixed64(usize),
    /// Bytes, which may be a message.
    Len(Message<'a>),
}

fn malformed<T>(at: usize, reason: &'static str) -> Result<T> {
    Err(ErrorKind::Malformed { at, reason }.into())
}

impl<'a> WireValue<'a> {
    fn at(self) -> usize {
        match self {
            Self::Varint(_, at) | Self::Fixed32(_, at) | Self::Fixed64(at) => at,
            Self::Len(message) => message.at,
        }
    }

    /// The bytes of a message, a name or a value. `otherwise` is the error for a number.
    fn message(self, otherwise: &'static str) -> Result<Message<'a>> {
        match self {
            Self::Len(message) => Ok(message),
            number => malformed(number.at(), otherwise),
        }
    }
}

impl<'a> Message<'a> {
    fn new(record: &'a [u8]) -> Self {
        Self { record, at: 0, end: record.len() }
    }

    fn bytes(self) -> &'a [u8] {
        self.record.get(self.at..self.end).unwrap_or_default()
    }

    /// Calls `field` with the number and value of each field, except groups.
    fn fields(mut self, mut field: impl FnMut(u64, WireValue<'a>) -> Result<()>) -> Result<()> {
        let mut groups = Vec::new();
        while self.at < self.end {
            let at = self.at;
            let tag = self.varint()?;
            let (number, wire_type) = (tag >> 3, (tag & 7) as u8);
            if number == 0 || number >= 1 << 29 {
                return malformed(at, "found no field of a message");
            }
            let value = match wire_type {
                VARINT => WireValue::Varint(self.varint()?, at),
                I64 => {
                    self.take::<8>()?;
                    WireValue::Fixed64(at)
                }
                LEN => {
                    let len = self.varint()?;
                    let start = self.at;
                    match usize::try_from(len).ok().and_then(|len| start.checked_add(len)) {
                        Some(end) if end <= self.end => {
                            self.at = end;
                            WireValue::Len(Message { at: start, end, ..self })
                        }
                        _ => return malformed(at, "a length reaches past the end"),
                    }
                }
                I32 => WireValue::Fixed32(self.take::<4>()?, at),
                START_GROUP if groups.len() < MAX_GROUPS => {
                    groups.push(number);
                    continue;
                }
                START_GROUP => return malformed(at, "groups are nested too deep"),
                END_GROUP if groups.pop() == Some(number) => continue,
                END_GROUP => return malformed(at, "a group ends that has not begun"),
                _ => return malformed(at, "found no field of a message"),
            };
            if groups.is_empty() {
                field(number, value)?;
            }
        }
        if groups.is_empty() { Ok(()) } else { malformed(self.end, "a group does not end") }
    }

    fn varint(&mut self) -> Result<u64> {
        let start = self.at;
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.take::<1>()?;
            if shift == 63 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        malformed(start, "a number has more than 64 bits")
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        match self.bytes().first_chunk::<N>() {
            Some(bytes) => {
                self.at += N;
                Ok(*bytes)
            }
            None => malformed(self.at, "the message is cut"),
        }
    }

    /// An `Example`, or a further part of one.
    fn example(self, features: &mut Features<'a>) -> Result<()> {
        self.fields(|number, value| match number {
            1 => value.message("expected features, found a number")?.features(features.get_or_insert_default()),
            _ => Ok(()),
        })
    }

    /// `Features`: a map of features.
    fn features(self, map: &mut Map<'a, Feature<'a>>) -> Result<()> {
        self.entries(map, |feature, value| value.feature(feature))
    }

    /// `FeatureLists`: a map of lists of features.
    fn feature_lists(self, map: &mut Map<'a, Vec<Feature<'a>>>) -> Result<()> {
        self.entries(map, |list, value| {
            value.fields(|number, value| {
                if number == 1 {
                    let mut feature = Feature::default();
                    value.message("expected a feature, found a number")?.feature(&mut feature)?;
                    list.push(feature);
                }
                Ok(())
            })
        })
    }

    fn entries<T: Default>(self, map: &mut Map<'a, T>, read: impl Fn(&mut T, Message<'a>) -> Result<()>) -> Result<()> {
        self.fields(|number, entry| {
            if number != 1 {
                return Ok(());
            }
            let (mut name, mut element) = ("", T::default());
            entry.message("expected a feature, found a number")?.fields(|number, value| {
                match number {
                    1 => name = value.message("expected a name, found a number")?.name()?,
                    2 => read(&mut element, value.message("expected a feature, found a number")?)?,
                    _ => {}
                }
                Ok(())
            })?;
            map.push((name, element));
            Ok(())
        })
    }

    fn name(self) -> Result<&'a str> {
        match str::from_utf8(self.bytes()) {
            Ok(name) => Ok(name),
            Err(error) => malformed(self.at + error.valid_up_to(), "the name of a feature is not UTF-8"),
        }
    }

    /// Reads a `Feature`, or a further part of one. The last of several kinds counts.
    fn feature(self, feature: &mut Feature<'a>) -> Result<()> {
        self.fields(|number, value| {
            if !(1..=3).contains(&number) {
                return Ok(());
            }
            let list = value.message("expected a list of values, found a number")?;
            match (number, &mut *feature) {
                (1, Feature::Bytes(values)) => list.bytes_list(values),
                (2, Feature::Float(values)) => list.float_list(values),
                (3, Feature::Int64(values)) => list.int64_list(values),
                (kind, feature) => {
                    *feature = match kind {
                        1 => Feature::Bytes(collect(|values| list.bytes_list(values))?),
                        2 => Feature::Float(collect(|values| list.float_list(values))?),
                        _ => Feature::Int64(collect(|values| list.int64_list(values))?),
                    };
                    Ok(())
                }
            }
        })
    }

    fn bytes_list(self, values: &mut Vec<&'a [u8]>) -> Result<()> {
        self.fields(|number, value| {
            if number == 1 {
                values.push(value.message("expected bytes, found a number")?.bytes());
            }
            Ok(())
        })
    }

    fn float_list(self, values: &mut Vec<f32>) -> Result<()> {
        self.fields(|number, value| match (number, value) {
            (1, WireValue::Fixed32(bytes, _)) => {
                values.push(f32::from_le_bytes(bytes));
                Ok(())
            }
            (1, WireValue::Len(mut packed)) => {
                while packed.at < packed.end {
                    values.push(f32::from_le_bytes(packed.take()?));
                }
                Ok(())
            }
            (1, other) => malformed(other.at(), "expected a float, found another number"),
            _ => Ok(()),
        })
    }

    fn int64_list(self, values: &mut Vec<i64>) -> Result<()> {
        self.fields(|number, value| match (number, value) {
            (1, WireValue::Varint(value, _)) => {
                values.push(value.cast_signed());
                Ok(())
            }
            (1, WireValue::Len(mut packed)) => {
                while packed.at < packed.end {
                    values.push(packed.varint()?.cast_signed());
                }
                Ok(())
            }
            (1, other) => malformed(other.at(), "expected an int64, found another number"),
            _ => Ok(()),
        })
    }
}

fn collect<T>(read: impl FnOnce(&mut Vec<T>) -> Result<()>) -> Result<Vec<T>> {
    let mut values = Vec::new();
    read(&mut values)?;
    Ok(values)
}
