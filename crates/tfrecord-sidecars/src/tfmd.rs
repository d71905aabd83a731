//! `schema.pbtxt` of TensorFlow Metadata: the schema used by TFX, TensorFlow Data Validation, Transform and Merlin.
//!
//! # Reading
//!
//! | in the schema | column |
//! |---|---|
//! | `INT` | `Int64`; with `bool_domain` `Boolean`; with `time_domain` `Timestamp` in UTC of its unit, or `Date32` |
//! | `FLOAT` | `Float32` |
//! | `BYTES` | `Binary`; `Utf8` with a domain of text: `string_domain` or the name of one, `natural_language_domain`, `url_domain`, `mid_domain`, a `string_format` of time, `true_value` and `false_value`; or with the tag `utf8` |
//! | no type | the one of its domain |
//! | `shape {}`, `shape { dim { size: 1 } }`, `value_count` of exactly 1 | one value |
//! | `shape` of known dimensions | `FixedSizeList` of their product, in row-major order |
//! | anything else | `List` |
//! | `presence` of `min_fraction: 1`, in all environments and of a stage that is validated | not null |
//!
//! A feature without a shape has that of its dense `tensor_representation`. The features of a sparse one become
//! separate columns, as they are stored. Features of type `STRUCT`, more than one level of `value_counts`, and ragged
//! tensors of more than one ragged dimension are rejected by name, unless their features have the names of TensorFlow
//! Transform.
//!
//! Bounds and vocabularies of domains do not affect types, and values are not checked against them.
//!
//! # Writing
//!
//! Every feature has its type, presence, shape or value count, and a tensor representation. Domains express the Arrow
//! type: the bounds of integers, booleans, units of time, and the tag `utf8` for text. If the records were observed,
//! presence, value counts and domains are the observed ones: text of at most [`MAX_WORDS`] distinct words has these as
//! its domain.

mod read;
mod write;

use miette::Diagnostic;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use tfr_proto::tensorflow::metadata::v0;

use crate::error::{ErrorKind, Result};
use crate::textproto::Textproto;

pub use read::{ReadableSchema, readable_from_pbtxt, schema_from_pbtxt};
pub use write::{schema_to_pbtxt, schema_to_pbtxt_of};

/// The tag of bytes that are text but have no text domain. [`schema_to_pbtxt`] writes it because a domain would imply
/// more: a `string_domain` lists all possible values.
pub const TEXT_TAG: &str = "utf8";

/// The maximum number of distinct words of categorical text, the default of TensorFlow Data Validation.
pub const MAX_WORDS: usize = 100;

/// The maximum nesting of messages. Schemas have about ten levels; the parser itself has no limit.
const MAX_DEPTH: usize = 64;

fn descriptor() -> Result<MessageDescriptor> {
    let pool = DescriptorPool::decode(tfr_proto::FILE_DESCRIPTOR_SET)?;
    let missing =
        || ErrorKind::Refused { problem: "the descriptors of TensorFlow's messages have no schema".to_owned() };
    Ok(pool.get_message_by_name("tensorflow.metadata.v0.Schema").ok_or_else(missing)?)
}

/// Reads protobuf text.
fn parse(text: &str) -> Result<v0::Schema> {
    // Strip the byte order mark that Windows editors add.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if let Some(at) = too_deep(text) {
        let (line, column) = position(text, at);
        let problem = format!(
            "line {line}, column {column}: not a schema of TensorFlow Metadata: more than {MAX_DEPTH} messages are nested"
        );
        return Err(ErrorKind::Refused { problem }.into());
    }
    let message = DynamicMessage::parse_text_format(descriptor()?, text).map_err(|source| {
        let label = source.labels().and_then(|mut labels| labels.next());
        let (line, column) = position(text, label.map_or(text.len(), |label| label.offset()));
        ErrorKind::Syntax { line, column, source }
    })?;
    Ok(message.transcode_to()?)
}

/// Prints protobuf text.
fn print(schema: &v0::Schema) -> Result<String> {
    let mut message = DynamicMessage::new(descriptor()?);
    message.transcode_from(schema)?;
    let mut text = Textproto::default();
    text.fields(&message);
    Ok(text.finish())
}

/// Line and column of a byte, as editors count them.
fn position(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
    (before.matches('\n').count() + 1, column)
}

/// The byte offset at which messages nest deeper than [`MAX_DEPTH`].
fn too_deep(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'{' | b'<' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Some(at);
                }
            }
            b'}' | b'>' => depth = depth.saturating_sub(1),
            b'#' => {
                bytes.find(|(_, byte)| *byte == b'\n');
            }
            b'"' | b'\'' => {
                while let Some((_, inner)) = bytes.next() {
                    if inner == b'\\' {
                        bytes.next();
                    } else if inner == byte {
                        break;
                    }
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests;
