//! Extension types of Arrow: a name and parameters in the metadata of a field, such as `arrow.uuid`. The names of
//! [labels](tfr_arrow::labels) are metadata of the same kind.
//!
//! Readers keep them and drop all other metadata, which is that of one file and not of the table.

use arrow_schema::Field;
use arrow_schema::extension::{EXTENSION_TYPE_METADATA_KEY, EXTENSION_TYPE_NAME_KEY};
use tfr_arrow::labels::LABELS_KEY;

/// Returns the field with no metadata but that of its extension type.
pub fn only_extension(mut field: Field) -> Field {
    let is_extension = |key: &str| matches!(key, EXTENSION_TYPE_NAME_KEY | EXTENSION_TYPE_METADATA_KEY | LABELS_KEY);
    field.metadata_mut().retain(|key, _| is_extension(key));
    field
}

/// Returns the field as one of its storage type.
pub(crate) fn without_extension(mut field: Field) -> Field {
    field.metadata_mut().remove(EXTENSION_TYPE_NAME_KEY);
    field.metadata_mut().remove(EXTENSION_TYPE_METADATA_KEY);
    field.metadata_mut().remove(LABELS_KEY);
    field
}

/// Whether two fields have the same extension type, or neither has one.
pub(crate) fn same_extension(left: &Field, right: &Field) -> bool {
    left.extension_type_name() == right.extension_type_name()
        && left.extension_type_metadata() == right.extension_type_metadata()
        && left.metadata().get(LABELS_KEY) == right.metadata().get(LABELS_KEY)
}
