//! `serialize_tensor` and `parse_tensor`: convert values and lists to `TensorProto`, and back.

use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, LargeBinaryArray, StructArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, FieldRef};
use arrow_tfrecord::{parse_tensor, serialize_tensor};
use datafusion_common::{Result, ScalarValue, internal_datafusion_err};
use datafusion_expr::{
    Coercion, ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature,
    TypeSignature, TypeSignatureClass, Volatility,
};
use tfr_arrow::nested::item;

use super::argument::{Function, values};
use super::error::FunctionErrorKind;
use super::{SECTION, result};

/// `serialize_tensor(values [, shape])`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct SerializeTensor {
    signature: Signature,
}

const SERIALIZE: Function = Function("serialize_tensor");

impl Default for SerializeTensor {
    fn default() -> Self {
        let arguments = vec![TypeSignature::Any(1), TypeSignature::Any(2)];
        Self { signature: Signature::one_of(arguments, Volatility::Immutable) }
    }
}

/// Expected second argument.
const SHAPE: &str = "a list of sizes";

/// Serializes the values as tensors, each with the shape in the same row. A single shape applies to all of them.
fn tensors(values: &ArrayRef, shapes: Option<&ArrayRef>) -> Result<LargeBinaryArray> {
    let tensors = match (shapes, shapes.and_then(only_sizes)) {
        (None, _) => serialize_tensor(values, None),
        (_, Some(shape)) => serialize_tensor(values, Some(&shape)),
        (Some(shapes), None) => {
            let field = |name, of: &ArrayRef| Field::new(name, of.data_type().clone(), true);
            let fields = vec![field("data", values), field("shape", shapes)];
            let nulls = NullBuffer::union(values.logical_nulls().as_ref(), shapes.logical_nulls().as_ref());
            let columns = vec![Arc::clone(values), Arc::clone(shapes)];
            let with_shapes: ArrayRef = Arc::new(StructArray::try_new(fields.into(), columns, nulls)?);
            serialize_tensor(&with_shapes, None)
        }
    };
    Ok(tensors.map_err(|error| FunctionErrorKind::Record { function: SERIALIZE.0, error })?)
}

/// Returns the sizes of a single shape.
fn only_sizes(shapes: &ArrayRef) -> Option<Vec<i64>> {
    if shapes.len() != 1 || shapes.is_null(0) {
        return None;
    }
    let shape = ScalarValue::try_from_array(shapes, 0).ok()?;
    let sizes = shape.cast_to(&DataType::new_list(DataType::Int64, true)).ok()?.to_array().ok()?;
    sizes.as_list_opt::<i32>()?.value(0).as_primitive_opt::<Int64Type>()?.iter().collect()
}

impl ScalarUDFImpl for SerializeTensor {
    fn name(&self) -> &str {
        SERIALIZE.0
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::LargeBinary)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        if let Some(shape) = args.arg_fields.get(1)
            && !is_list_of_integers(shape.data_type())
        {
            return Err(SERIALIZE.unexpected(1, SHAPE, shape.data_type().to_string()).into());
        }
        let is_nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(SERIALIZE.0, DataType::LargeBinary, is_nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let shapes = match args.args.get(1) {
            Some(ColumnarValue::Scalar(shape)) if !shape.is_null() => Some(shape.to_array()?),
            shapes => shapes.map(|shapes| shapes.to_array(rows)).transpose()?,
        };
        let tensors = tensors(&args.args[0].to_array(rows)?, shapes.as_ref())?;
        result(Arc::new(tensors), is_scalar)
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&SERIALIZE_TENSOR)
    }
}

fn is_list_of_integers(data_type: &DataType) -> bool {
    item(data_type).is_some_and(|item| item.data_type().is_integer())
}

/// `parse_tensor(tensor, type)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct ParseTensor {
    signature: Signature,
}

const PARSE: Function = Function("parse_tensor");

/// Index of the type among the arguments.
const TYPE: usize = 1;

impl Default for ParseTensor {
    fn default() -> Self {
        let argument = |class| Coercion::new_exact(class);
        let arguments = vec![argument(TypeSignatureClass::Binary), argument(TypeSignatureClass::Any)];
        Self { signature: Signature::coercible(arguments, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for ParseTensor {
    fn name(&self) -> &str {
        PARSE.0
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Err(internal_datafusion_err!("the type of {} is the one in its arguments", PARSE.0))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let text = PARSE.planned_text(&args, TYPE)?.unwrap_or_default();
        let data_type = PARSE.data_type(TYPE, text)?;
        // Checks that tensors of this type are supported.
        let none = arrow_array::new_empty_array(&DataType::LargeBinary);
        let parsed = parse_tensor(&none, &data_type);
        parsed.map_err(|error| FunctionErrorKind::Record { function: PARSE.0, error })?;
        Ok(Arc::new(Field::new(PARSE.0, data_type, args.arg_fields[0].is_nullable())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let data_type = PARSE.data_type(TYPE, PARSE.given_text(&args, TYPE)?.unwrap_or_default())?;
        let (tensors, is_scalar) = values(&args)?;
        let parsed = parse_tensor(&tensors, &data_type);
        result(parsed.map_err(|error| FunctionErrorKind::Record { function: PARSE.0, error })?, is_scalar)
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&PARSE_TENSOR)
    }
}

static SERIALIZE_TENSOR: LazyLock<Documentation> = LazyLock::new(|| {
    let description = "A serialized `TensorProto`, as `tf.io.serialize_tensor` writes it and `tf.io.parse_tensor` reads it: \
                       of rank 0 for a number or a string, of rank 1 for a list, of a higher rank for lists in lists \
                       that are of one length. A null is null.";
    let shape = "The sizes of a tensor of the values of one list, row by row. One may be -1 where they are the same for \
                 all rows.";
    Documentation::builder(SECTION, description, "serialize_tensor(values [, shape])")
        .with_sql_example("```sql\nSELECT serialize_tensor(pixels, [28, -1]) AS image FROM digits\n```")
        .with_argument("values", "A number, a boolean, a string, bytes, or lists of these to any depth.")
        .with_argument("shape", shape)
        .with_related_udf("parse_tensor")
        .build()
});

static PARSE_TENSOR: LazyLock<Documentation> = LazyLock::new(|| {
    let description = "The values of a serialized `TensorProto`. A list takes the values of a tensor of any shape, row by \
                       row; lists in lists take tensors of as many dimensions. A tensor of another dtype is an error. A \
                       null is null.";
    Documentation::builder(SECTION, description, "parse_tensor(tensor, type)")
        .with_sql_example("```sql\nSELECT parse_tensor(image, 'FLOAT[][]') FROM digits\n```")
        .with_argument("tensor", "The bytes of the tensor.")
        .with_argument("type", "The type of the values, as SQL or Arrow spells it: `'FLOAT[]'`, `'Float16'`.")
        .with_related_udf("serialize_tensor")
        .build()
});
