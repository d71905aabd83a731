//! [`ExactMapExtract`]: looks up keys in maps, and returns the values as lists.

use std::sync::{Arc, LazyLock};

use arrow::array::cast::AsArray;
use arrow::array::{Array, ListArray, UInt64Builder, make_comparator};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{SortOptions, take};
use arrow_schema::{DataType, Field};
use datafusion::functions_nested::map_extract::MapExtract;
use datafusion_common::{Result, ScalarValue, exec_err};
use datafusion_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};

static FUNCTION: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::new_from_impl(ExactMapExtract { engine: MapExtract::new() })));

/// `map_extract` as the engine documents it: returns a list with the value, an empty list if the map lacks the key,
/// and null for a null map. The engine's own function returns a list with a null in both cases.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct ExactMapExtract {
    engine: MapExtract,
}

impl ExactMapExtract {
    pub(crate) fn function() -> Arc<ScalarUDF> {
        Arc::clone(&FUNCTION)
    }
}

impl ScalarUDFImpl for ExactMapExtract {
    fn name(&self) -> &str {
        self.engine.name()
    }

    fn aliases(&self) -> &[String] {
        self.engine.aliases()
    }

    fn signature(&self) -> &Signature {
        self.engine.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.engine.return_type(arg_types)
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.engine.coerce_types(arg_types)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [map, key] = args.args.as_slice() else { return exec_err!("map_extract takes a map and a key") };
        let is_scalar = matches!((map, key), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let (map, key) = (map.to_array(rows)?, key.to_array(rows)?);
        if map.data_type().is_null() {
            return Ok(ColumnarValue::Scalar(ScalarValue::Null));
        }
        let Some(maps) = map.as_map_opt() else { return exec_err!("map_extract takes a map, not {}", map.data_type()) };
        if maps.key_type() != key.data_type() {
            return exec_err!("a key of type {} in a map of keys of type {}", key.data_type(), maps.key_type());
        }
        let is_key = make_comparator(maps.keys(), &key, SortOptions::default())?;
        let mut found = UInt64Builder::new();
        let mut lengths = Vec::with_capacity(rows);
        for (row, range) in maps.offsets().windows(2).enumerate() {
            let mut entries = range[0]..range[1];
            let entry = entries.find(|entry| {
                maps.is_valid(row)
                    && key.is_valid(row)
                    && is_key(usize::try_from(*entry).unwrap_or_default(), row).is_eq()
            });
            found.extend(entry.map(|entry| u64::try_from(entry).ok()));
            lengths.push(usize::from(entry.is_some()));
        }
        let values = take(maps.values(), &found.finish(), None)?;
        let item = Arc::new(Field::new_list_field(maps.value_type().clone(), true));
        let lists = ListArray::try_new(item, OffsetBuffer::from_lengths(lengths), values, maps.nulls().cloned())?;
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&lists, 0)?),
            false => ColumnarValue::Array(Arc::new(lists)),
        })
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.engine.documentation()
    }
}
