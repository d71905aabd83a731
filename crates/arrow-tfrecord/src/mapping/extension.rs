//! Arrow's canonical types for tensors.

use arrow_schema::{DataType, Field};
use serde::Deserialize;

use crate::dtype::shaped_data;

/// `{data: list, shape: fixed size list of int32}`: a tensor of any shape.
/// Source: <https://arrow.apache.org/docs/format/CanonicalExtensions.html#variable-shape-tensor>
pub(super) fn is_variable_shape_tensor(field: &Field) -> bool {
    field.extension_type_name() == Some("arrow.variable_shape_tensor") && shaped_data(field.data_type()).is_some()
}

/// The parameters of an `arrow.fixed_shape_tensor`.
/// Source: <https://arrow.apache.org/docs/format/CanonicalExtensions.html#fixed-shape-tensor>
#[derive(Deserialize)]
struct FixedShape {
    /// As it lies in memory.
    shape: Vec<usize>,
    /// The order in which readers see the dimensions.
    permutation: Option<Vec<usize>>,
}

impl FixedShape {
    fn of(field: &Field) -> Option<Self> {
        let DataType::FixedSizeList(item, len) = field.data_type() else { return None };
        let metadata =
            field.extension_type_metadata().filter(|_| field.extension_type_name() == Some("arrow.fixed_shape_tensor"));
        let fixed: Self = serde_json::from_str(metadata?).ok()?;
        let values = fixed.shape.iter().try_fold(1usize, |values, size| values.checked_mul(*size));
        (values == usize::try_from(*len).ok() && !item.data_type().is_nested()).then_some(fixed)
    }

    fn is_permuted(&self) -> bool {
        self.permutation.as_ref().is_some_and(|order| !order.iter().copied().eq(0..self.shape.len()))
    }
}

/// The shape of an `arrow.fixed_shape_tensor`, if its values are in the order of its dimensions.
pub(super) fn fixed_shape(field: &Field) -> Option<Vec<usize>> {
    FixedShape::of(field).filter(|fixed| !fixed.is_permuted()).map(|fixed| fixed.shape)
}

/// The order of the dimensions of an `arrow.fixed_shape_tensor` whose values are in another order.
pub(super) fn permutation(field: &Field) -> Option<Vec<usize>> {
    FixedShape::of(field).filter(FixedShape::is_permuted)?.permutation
}
