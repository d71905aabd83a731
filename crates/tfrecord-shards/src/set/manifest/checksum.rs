//! The checksum of a manifest, stored in the manifest itself.
//!
//! It is the CRC-32C of the document without the checksum, in a canonical form: JSON without whitespace, the keys of
//! each object in byte order. So a manifest that another tool has parsed and rewritten still matches, whatever its
//! whitespace, key order and text escapes. A manifest with a changed value does not match.

use serde::Serialize;
use serde_json::Value;
use tfrecord_framing::crc32c_append;

use super::Manifest;
use crate::error::Result;

/// Key of the checksum, at the top level.
pub(crate) const CHECKSUM: &str = "manifest_crc32c";

/// A manifest and its checksum.
#[derive(Serialize)]
struct Checked<'a> {
    #[serde(flatten)]
    manifest: &'a Manifest,
    manifest_crc32c: String,
}

/// Serializes a manifest with its checksum as indented JSON.
pub(super) fn to_json(manifest: &Manifest) -> Result<Vec<u8>> {
    // Sums what a reader parses, because a number may be parsed as another one than was written.
    let content: Value = serde_json::from_slice(&serde_json::to_vec(manifest)?)?;
    let checked = Checked { manifest, manifest_crc32c: format!("{:08x}", crc32c(&content)) };
    let mut json = serde_json::to_vec_pretty(&checked)?;
    json.push(b'\n');
    Ok(json)
}

/// Returns the stored checksum of a manifest and that of its content, if they differ. Manifests before format 1.5 store
/// none.
pub(super) fn mismatch(json: &[u8]) -> Option<(u32, u32)> {
    let content: Value = serde_json::from_slice(json).ok()?;
    let stated = content.get(CHECKSUM)?;
    let found = crc32c(&content);
    // An invalid checksum does not match either.
    let stated = stated.as_str().and_then(|text| u32::from_str_radix(text, 16).ok()).unwrap_or(!found);
    (stated != found).then_some((stated, found))
}

/// Computes the CRC-32C of the document without its checksum.
fn crc32c(content: &Value) -> u32 {
    let mut canonical = Vec::new();
    match content {
        Value::Object(fields) => {
            append_object(fields.iter().filter(|(key, _)| *key != CHECKSUM), &mut canonical);
        }
        other => append(other, &mut canonical),
    }
    crc32c_append(0, &canonical)
}

fn append(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(fields) => append_object(fields.iter(), out),
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                append(item, out);
            }
            out.push(b']');
        }
        scalar => out.extend_from_slice(scalar.to_string().as_bytes()),
    }
}

fn append_object<'a>(fields: impl Iterator<Item = (&'a String, &'a Value)>, out: &mut Vec<u8>) {
    let mut fields: Vec<_> = fields.collect();
    fields.sort_unstable_by_key(|(key, _)| key.as_bytes());
    out.push(b'{');
    for (index, (key, value)) in fields.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(Value::from(key.as_str()).to_string().as_bytes());
        out.push(b':');
        append(value, out);
    }
    out.push(b'}');
}
