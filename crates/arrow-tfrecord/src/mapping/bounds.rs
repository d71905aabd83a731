//! [`ByteBounds`]: how long records can be, before a row is read.

use std::ops::Add;

use arrow_schema::DataType;
use tfr_arrow::nested;
use tfrecord_framing::{FOOTER_LEN, HEADER_LEN};

use super::{ColumnMapping, Mapping};
use crate::feature::{FeatureKind, FeatureMapping, FeatureRole, FeatureShape};
use crate::options::RecordType;
use crate::wire::field_len;

/// The minimum and maximum bytes of something in a record.
///
/// ```
/// use std::sync::Arc;
/// use arrow_schema::{DataType, Field, Schema};
/// use arrow_tfrecord::{ByteBounds, Mapping, MappingOptions};
///
/// let schema = Arc::new(Schema::new(vec![Field::new("flag", DataType::Boolean, false)]));
/// let mapping = Mapping::try_new(&schema, &MappingOptions::default())?;
/// // A frame of 16 bytes and 2 around the features; a key, and a list of one value in a feature.
/// let flag = ByteBounds { least: 15, most: 15, is_open: false };
/// assert_eq!(mapping.columns()[0].byte_bounds(), flag);
/// assert_eq!(mapping.byte_bounds(), ByteBounds { least: 18, most: 18, is_open: false });
/// # Ok::<(), arrow_tfrecord::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ByteBounds {
    /// The minimum.
    pub least: u64,
    /// The maximum, without values of unbounded length.
    pub most: u64,
    /// Whether there are values of unbounded length: strings, and lists without a fixed length.
    pub is_open: bool,
}

impl Add for ByteBounds {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            least: self.least.saturating_add(other.least),
            most: self.most.saturating_add(other.most),
            is_open: self.is_open || other.is_open,
        }
    }
}

impl Mapping {
    /// Returns bounds on a record with its frame, without the features of its columns.
    pub fn byte_bounds(&self) -> ByteBounds {
        let frame = (HEADER_LEN + FOOTER_LEN) as u64;
        let longest = self.columns().iter().map(ColumnMapping::byte_bounds).fold(ByteBounds::default(), Add::add).most;
        // An Example encloses its features in a tag and a length of at least one byte (example.proto, field 1). A
        // SequenceExample does so for each of its two parts.
        let around = |content| field(content) - content;
        let (least, most) = match self.record_type() {
            RecordType::Bytes => (0, 0),
            RecordType::SequenceExample => (0, 2 * around(longest)),
            // The context is an Example with features.
            RecordType::ExampleListWithContext => (2 * around(0), 2 * around(field(longest))),
            _ => (around(0), around(longest)),
        };
        ByteBounds { least: frame + least, most: frame + most, is_open: false }
    }
}

impl ColumnMapping {
    /// Returns bounds on the column's features in a record of a row in which it has a value.
    pub fn byte_bounds(&self) -> ByteBounds {
        self.features.iter().map(|feature| self.bounds_of(feature)).fold(ByteBounds::default(), Add::add)
    }

    fn bounds_of(&self, feature: &FeatureMapping) -> ByteBounds {
        let values = self.value_bounds(feature);
        let is_open = values.is_none();
        if feature.role == FeatureRole::Record {
            return ByteBounds { is_open, ..ByteBounds::default() };
        }
        let (shortest, longest) = values.map_or((0, 0), |(least, most)| (field(least), field(most)));
        // Part of a column may be left out because of its own null.
        let is_whole = self.features.len() == 1 && feature.name == self.column;
        let least = if is_whole { entry(&feature.name, shortest) } else { 0 };
        ByteBounds { least, most: entry(&feature.name, longest), is_open }
    }

    /// Returns the minimum and maximum bytes of a feature's values, or `None` if their length is unbounded.
    fn value_bounds(&self, feature: &FeatureMapping) -> Option<(u64, u64)> {
        let (least, most) = match feature.kind {
            FeatureKind::Float => (4, 4),
            FeatureKind::Int64 => (1, longest_varint(&self.data_type)),
            FeatureKind::Bytes => return None,
        };
        match feature.shape {
            _ if feature.is_repeated() => None,
            FeatureShape::Scalar => Some((least, most)),
            FeatureShape::Fixed(len) => Some((least * len as u64, most * len as u64)),
            FeatureShape::List => None,
        }
    }
}

/// Bytes of a protobuf field of `content` bytes, with its tag and length.
fn field(content: u64) -> u64 {
    field_len(usize::try_from(content).unwrap_or(usize::MAX)) as u64
}

/// Bytes of an entry of the feature map: a key, and a feature with a list of `content` bytes.
fn entry(key: &str, content: u64) -> u64 {
    field(field(key.len() as u64) + field(field(content)))
}

/// Bytes of the longest varint for values of a type. Negative numbers take all ten.
fn longest_varint(data_type: &DataType) -> u64 {
    match nested::value_type(data_type) {
        DataType::Boolean => 1,
        DataType::UInt8 => 2,
        DataType::UInt16 => 3,
        DataType::UInt32 => 5,
        _ => 10,
    }
}
