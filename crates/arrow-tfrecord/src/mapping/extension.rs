//! Arrow's canonical types for tensors.

use arrow_schema::{DataType, Field};
use serde::Deserialize;

use crate::dtype::shaped_data;

/// `{data: list, shape: fixed size list of int32}`: a tensor of any shape.
/// Source: <https://arrow.apache.org/docs/format/CanonicalExtensions.html#variable-shape-tensor>
pub(super) fn is_variable_shape_tensor(field: &Field) -> bool {
    field.extension_type_name() == Some("arrow.variable_shape_tensor") && shaped_data(field.data_type()).is_some()
}

/// The shape of an `arrow.fixed_shape_tensor`, as it lies in memory.
/// Source: <https://arrow.apache.org/docs/format/CanonicalExtensions.html#fixed-shape-tensor>
pub(super) fn fixed_shape(field: &Field) -> Option<Vec<usize>> {
    #[derive(Deserialize)]
    struct Metadata {
        shape: Vec<usize>,
    }

    let DataType::FixedSizeList(item, len) = field.data_type() else { return None };
    let metadata =
        field.extension_type_metadata().filter(|_| field.extension_type_name() == Some("arrow.fixed_shape_tensor"));
    let Metadata { shape } = serde_json::from_str(metadata?).ok()?;
    let values = shape.iter().try_fold(1usize, |values, size| values.checked_mul(*size));
    (values == usize::try_from(*len).ok() && !item.data_type().is_nested()).then_some(shape)
}
