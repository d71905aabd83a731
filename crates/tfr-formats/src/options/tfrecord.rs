//! The options of TFRecord.

use datafusion_tfrecord::{ReadOptions, set_mapping_option};
use tfrecord_framing::Compression;

use super::{boolean, invalid, number_or_all};
use crate::error::Result;

pub(super) const KEYS: &[&str] = &[
    "compression",
    "schema",
    "map",
    "null",
    "record_type",
    "sequence",
    "separator",
    "vocabulary",
    "crc",
    "infer_files",
    "infer_records",
    "fixed_size_lists",
];

/// Sets an option of TFRecord; `false` if it has no such option.
pub(super) fn set(tfrecord: &mut ReadOptions, key: &str, value: &str) -> Result<bool> {
    match key {
        "schema" => tfrecord.schema_file = Some(value.into()),
        "compression" => {
            tfrecord.compression = match value.to_ascii_lowercase().as_str() {
                "auto" => None,
                // The engine's word for it.
                "uncompressed" => Some(Compression::None),
                name => Some(name.parse().map_err(|_| invalid("compression", value, "auto, none, gzip or zlib"))?),
            }
        }
        "crc" => tfrecord.crc = value.parse().map_err(|_| invalid("crc", value, "verify or skip"))?,
        "infer_files" => tfrecord.infer_files = number_or_all("infer_files", value, "a number of files or all")?,
        "infer_records" => {
            tfrecord.infer_records = number_or_all("infer_records", value, "a number of records or all")?;
        }
        "fixed_size_lists" => tfrecord.fixed_size_lists = boolean("fixed_size_lists", value)?,
        _ => return set_mapping(tfrecord, key, value),
    }
    Ok(true)
}

/// Sets an option of the mapping, if it is one.
fn set_mapping(tfrecord: &mut ReadOptions, key: &str, value: &str) -> Result<bool> {
    let mut mapping = tfrecord.mapping.clone().unwrap_or_default();
    let is_known = set_mapping_option(&mut mapping, key, value).map_err(|expected| invalid(key, value, &expected))?;
    if is_known {
        tfrecord.mapping = Some(mapping);
    }
    Ok(is_known)
}
