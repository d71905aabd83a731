//! `tf_split`: returns the split that a key belongs to.

use std::sync::{Arc, LazyLock};

use arrow_array::StringViewArray;
use arrow_schema::{DataType, Field, FieldRef};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use tfrecord_shards::{KeyTypeError, Splits, check_key_type, key_hashes};

use super::SECTION;
use super::argument::Function;
use super::error::FunctionError;

/// `tf_split(splits, key, ...)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Split {
    signature: Signature,
}

const FUNCTION: Function = Function("tf_split");

/// Index of the splits among the arguments.
const SPLITS: usize = 0;

/// Index of the first key column.
const KEY: usize = 1;

impl Default for Split {
    fn default() -> Self {
        Self { signature: Signature::variadic_any(Volatility::Immutable) }
    }
}

fn splits(text: Option<&str>) -> Result<Splits> {
    let text = text.unwrap_or_default();
    Ok(text.parse().map_err(|error| FUNCTION.invalid(SPLITS, text, format!("{error}")))?)
}

/// Creates the error for a key column whose type cannot be hashed.
fn no_key(column: usize, error: &KeyTypeError) -> FunctionError {
    FUNCTION.unexpected(column, "a key, which maps, unions and intervals are not", error.data_type.to_string())
}

impl ScalarUDFImpl for Split {
    fn name(&self) -> &str {
        FUNCTION.0
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        splits(FUNCTION.planned_text(&args, SPLITS)?)?;
        if args.arg_fields.len() <= KEY {
            return Err(FUNCTION.unexpected(KEY, "a column of the key", "nothing").into());
        }
        for (column, field) in args.arg_fields.iter().enumerate().skip(KEY) {
            check_key_type(field.data_type()).map_err(|error| no_key(column, &error))?;
        }
        Ok(Arc::new(Field::new(FUNCTION.0, DataType::Utf8View, false)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let splits = splits(FUNCTION.given_text(&args, SPLITS)?)?;
        let key = &args.args[KEY..];
        let is_scalar = key.iter().all(|column| matches!(column, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let columns = key.iter().map(|column| column.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let hashes = key_hashes(&columns).map_err(|error| no_key(KEY, &error))?;
        let names = hashes.into_iter().map(|hash| splits.name(splits.of(hash)));
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::Utf8View(names.flatten().next().map(str::to_owned))),
            false => ColumnarValue::Array(Arc::new(names.collect::<StringViewArray>())),
        })
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&SPLIT)
    }
}

static SPLIT: LazyLock<Documentation> = LazyLock::new(|| {
    let description = "The name of the split that a key belongs to, as the options `split` and `split_by` assign it. It depends on \
                       the key alone: equal keys are in the same split, whatever their width, encoding or table, and rows \
                       that are added move none of the others. A null is a key like any other.";
    let example = "```sql\nSELECT * FROM events WHERE tf_split('train=0.9,val=0.1', user_id) = 'val'\n```";
    Documentation::builder(SECTION, description, "tf_split(splits, key, ...)")
        .with_sql_example(example)
        .with_argument("splits", "Names of splits and the fractions of keys that they get: `'train=0.9,val=0.1'`.")
        .with_argument("key", "The columns of the key. Of the whole record: `tf_example({...})`.")
        .with_related_udf("tf_example")
        .build()
});
