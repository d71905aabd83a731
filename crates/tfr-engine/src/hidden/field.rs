//! [`ExactField`]: accesses struct fields and map entries, respecting the nulls of the parents, and takes a key of a map
//! in any number type.

use std::sync::{Arc, LazyLock};

use arrow::array::cast::AsArray;
use arrow::array::{Array, ArrayRef, new_null_array};
use arrow_schema::{DataType, FieldRef};
use datafusion::functions::core::getfield::GetFieldFunc;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{Result, ScalarValue, exec_err, internal_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion_expr::{
    ColumnarValue, Documentation, Expr, ExpressionPlacement, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature,
};
use tfr_arrow::visible::{masked, with_null_keys, without_null_ranges};

static FUNCTION: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::new_from_impl(ExactField { engine: GetFieldFunc::new() })));

/// Like the engine's `get_field`, but a field of a null struct is null, and so is an entry of a null map.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct ExactField {
    engine: GetFieldFunc,
}

impl ExactField {
    pub(crate) fn function() -> Arc<ScalarUDF> {
        Arc::clone(&FUNCTION)
    }

    /// Returns an access to `args[0]` by the names or keys that follow it.
    pub(crate) fn call(args: Vec<Expr>) -> Expr {
        FUNCTION.call(args)
    }

    /// Evaluates one step of an access.
    fn step(&self, array: &ArrayRef, key: &ColumnarValue, args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
        let name = match key {
            ColumnarValue::Scalar(name) => name.try_as_str().flatten(),
            ColumnarValue::Array(_) => None,
        };
        match (array.data_type(), name) {
            (DataType::Struct(_), Some(name)) => {
                let structs = array.as_struct();
                match structs.column_by_name(name) {
                    Some(column) => Ok(ColumnarValue::Array(masked(column, structs.nulls())?)),
                    None => exec_err!("Field {name} not found in struct"),
                }
            }
            (DataType::Dictionary(_, values), Some(name)) if matches!(values.as_ref(), DataType::Struct(_)) => {
                let dictionary = array.as_any_dictionary();
                let structs = dictionary.values().as_struct();
                match structs.column_by_name(name) {
                    Some(column) => {
                        let fields = dictionary.with_values(masked(column, structs.nulls())?);
                        Ok(ColumnarValue::Array(with_null_keys(&fields)?))
                    }
                    None => exec_err!("Field {name} not found in dictionary struct"),
                }
            }
            (DataType::Map(entries, _), _) => {
                let key = match (key, entries.data_type()) {
                    (ColumnarValue::Scalar(key), DataType::Struct(fields)) => {
                        let [key_field, value_field] = fields.as_ref() else {
                            return internal_err!("a map without keys");
                        };
                        match as_key(key, key_field.data_type())? {
                            Some(key) => ColumnarValue::Scalar(key),
                            None => {
                                return Ok(ColumnarValue::Array(new_null_array(value_field.data_type(), array.len())));
                            }
                        }
                    }
                    (key, _) => key.clone(),
                };
                self.by_engine(without_null_ranges(array)?, &key, args)
            }
            _ => self.by_engine(Arc::clone(array), key, args),
        }
    }

    fn by_engine(&self, array: ArrayRef, key: &ColumnarValue, args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.engine.invoke_with_args(ScalarFunctionArgs {
            args: vec![ColumnarValue::Array(array), key.clone()],
            arg_fields: args.arg_fields.clone(),
            number_rows: args.number_rows,
            return_field: Arc::clone(&args.return_field),
            config_options: Arc::clone(&args.config_options),
        })
    }
}

impl ScalarUDFImpl for ExactField {
    fn name(&self) -> &str {
        self.engine.name()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.engine.schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.engine.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.engine.return_type(arg_types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.engine.return_field_from_args(args)
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.engine.coerce_types(arg_types)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [base, path @ ..] = args.args.as_slice() else { return internal_err!("get_field without arguments") };
        if path.is_empty() {
            return exec_err!("get_field requires at least 2 arguments, got 1");
        }
        let is_scalar = matches!(base, ColumnarValue::Scalar(_));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let mut current = base.to_array(rows)?;
        for key in path {
            if current.data_type().is_null() {
                break;
            }
            current = self.step(&current, key, &args)?.into_array(rows)?;
        }
        if current.data_type().is_null() {
            return Ok(ColumnarValue::Scalar(ScalarValue::Null));
        }
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&current, 0)?),
            false => ColumnarValue::Array(current),
        })
    }

    /// Merges nested accesses, and takes fields directly from struct constructors, as the engine does.
    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let (args, is_joined) = joined(args);
        Ok(match self.engine.simplify(args, info)? {
            ExprSimplifyResult::Original(args) if is_joined => ExprSimplifyResult::Simplified(Self::call(args)),
            ExprSimplifyResult::Original(args) => ExprSimplifyResult::Original(args),
            ExprSimplifyResult::Simplified(expr) => ExprSimplifyResult::Simplified(expr.transform_up(exact)?.data),
        })
    }

    fn placement(&self, args: &[ExpressionPlacement]) -> ExpressionPlacement {
        self.engine.placement(args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.engine.documentation()
    }
}

/// Converts a key to the type of a map's keys; `None` if it is a number that the type does not have, and so equal to no
/// key. The engine compares keys of one type only: `m[1]` fails for a `MAP<INT, ...>`.
fn as_key(key: &ScalarValue, data_type: &DataType) -> Result<Option<ScalarValue>> {
    let found = key.data_type();
    if found == *data_type || found.is_nested() || !(found.is_numeric() && data_type.is_numeric() || found.is_string())
    {
        return Ok(Some(key.clone()));
    }
    match key.cast_to(data_type) {
        Ok(cast) if found.is_numeric() && cast.cast_to(&found).ok().as_ref() != Some(key) => Ok(None),
        Ok(cast) => Ok(Some(cast)),
        Err(_) if found.is_numeric() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Merges the arguments of this access and of those in its base. Returns the arguments, and whether there were any to
/// merge.
fn joined(args: Vec<Expr>) -> (Vec<Expr>, bool) {
    let mut args = args;
    let mut is_joined = false;
    loop {
        match args.first_mut() {
            Some(Expr::ScalarFunction(ScalarFunction { func, args: inner })) if func.inner().is::<ExactField>() => {
                let inner = std::mem::take(inner);
                args.splice(..1, inner);
                is_joined = true;
            }
            _ => return (args, is_joined),
        }
    }
}

/// Replaces the engine's function by this one.
fn exact(expr: Expr) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::ScalarFunction(call) if call.func.inner().is::<GetFieldFunc>() => {
            Transformed::yes(ExactField::call(call.args))
        }
        expr => Transformed::no(expr),
    })
}
