//! The types of single columns, for formats that say themselves which columns they have.

use std::sync::Arc;

use arrow_schema::SchemaRef;

use crate::error::Result;
use crate::hive_text::HiveColumns;

pub(super) const KEYS: &[&str] = &["types"];

/// Sets an option of them; `false` if they have no such option.
pub(super) fn set(types: &mut Option<SchemaRef>, key: &str, value: &str) -> Result<bool> {
    if key != "types" {
        return Ok(false);
    }
    *types = Some(Arc::new(HiveColumns::parse(key, value)?.schema()));
    Ok(true)
}
