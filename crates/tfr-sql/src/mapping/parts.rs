//! [`observe`]: collects the strings in a part of a column.

use arrow::array::{Array as _, ArrayRef, AsArray as _, StructArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow_tfrecord::Vocabulary;
use datafusion::error::DataFusionError;
use tfr_arrow::nested::{children, elements, value_type};
use tfr_arrow::visible::masked;

use crate::error::Result;

/// Returns the part of `name` after `of`, if `name` names the column or part `of` itself or a part of it.
pub fn rest_of<'a>(name: &'a str, of: &str, separator: &str) -> Option<&'a str> {
    let rest = name.strip_prefix(of)?;
    (rest.is_empty() || rest.starts_with(separator)).then_some(rest)
}

/// Adds the strings of a part to its vocabulary: all that are not null, in lists and structs at any depth. `rest`
/// identifies the part: its name after the name of `array`.
pub fn observe(vocabulary: &mut Vocabulary, array: &ArrayRef, rest: &str, separator: &str) -> Result<()> {
    let mut add_fields = |entries: &StructArray, names: &[&str]| -> Result<()> {
        for (name, column) in names.iter().zip(entries.columns()) {
            let rest = match rest.strip_prefix(separator) {
                Some(part) => rest_of(part, name, separator),
                None => rest.is_empty().then_some(rest),
            };
            if let Some(rest) = rest {
                let visible = masked(column, entries.nulls()).map_err(DataFusionError::from)?;
                observe(vocabulary, &visible, rest, separator)?;
            }
        }
        Ok(())
    };
    match array.data_type() {
        DataType::Struct(fields) => {
            let names: Vec<_> = fields.iter().map(|field| field.name().as_str()).collect();
            add_fields(array.as_struct(), &names)
        }
        data_type if rest.is_empty() && value_type(data_type).is_string() => Ok(vocabulary.observe(array)?),
        encoded if value_type(encoded) != encoded => {
            let plain = cast(array, value_type(encoded)).map_err(DataFusionError::from)?;
            observe(vocabulary, &plain, rest, separator)
        }
        list_or_map if let Some(elements) = elements(array) => {
            let elements = elements.map_err(DataFusionError::from)?;
            match list_or_map {
                DataType::Map(..) => add_fields(elements.as_struct(), &["key", "value"]),
                _ => observe(vocabulary, &elements, rest, separator),
            }
        }
        // Values of other types cannot become ranks.
        _ => Ok(()),
    }
}

/// Whether a type contains strings.
pub fn has_text(data_type: &DataType) -> bool {
    match value_type(data_type) {
        // Their values have no ranks.
        DataType::Union(..) => false,
        values => values.is_string() || children(values).into_iter().any(has_text),
    }
}
