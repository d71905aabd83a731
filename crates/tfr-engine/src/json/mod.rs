//! Functions and operators that read texts of JSON: `->`, `->>`, `json_extract`, `json_extract_string`,
//! `get_json_object` and `json_valid`. The engine has none.
//!
//! Numbers are as they are written in the text, because values are parts of it. If a key occurs twice, the last one
//! counts, as in PostgreSQL. A text that is not JSON is an error, as in PostgreSQL and DuckDB, but NULL for
//! `get_json_object`, as in Hive and Spark.
//!
//! Upstream: ours (a choice of meaning). Held by `tests/slt/json.slt`: Texts of JSON in a column.

mod path;
mod text;

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, StringArray, StringBuilder};
use arrow::datatypes::Int64Type;
use arrow_schema::{DataType, Field, FieldRef};
use datafusion_common::{Result, ScalarValue, exec_err, plan_datafusion_err, plan_err};
use datafusion_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use serde_json::Error;
use tfr_arrow::nested::value_type;

use crate::corrected::on_arrays;
use path::{Path, Step};

/// Characters of a text that an error shows.
const SHOWN: usize = 40;

/// Returns the functions to register.
pub(crate) fn functions() -> [Arc<ScalarUDF>; 4] {
    Function::ALL.map(|function| Arc::new(ScalarUDF::new_from_impl(JsonFunction::new(function))))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Function {
    /// The value, as a text of JSON.
    Extract,
    /// The value, as a text without quotes. NULL for null.
    ExtractString,
    /// Like `ExtractString`, for a path. NULL if the text is not JSON.
    GetObject,
    Valid,
}

impl Function {
    const ALL: [Self; 4] = [Self::Extract, Self::ExtractString, Self::GetObject, Self::Valid];

    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Extract => &["json_extract", "json_extract_path"],
            Self::ExtractString => &["json_extract_string", "json_extract_path_text"],
            Self::GetObject => &["get_json_object"],
            Self::Valid => &["json_valid"],
        }
    }
}

/// A function of texts of JSON, and for all but `json_valid` of paths.
#[derive(Debug, PartialEq, Eq, Hash)]
struct JsonFunction {
    function: Function,
    aliases: Vec<String>,
    signature: Signature,
}

impl JsonFunction {
    fn new(function: Function) -> Self {
        let aliases = function.names().iter().skip(1).map(ToString::to_string).collect();
        Self { function, aliases, signature: Signature::user_defined(Volatility::Immutable) }
    }
}

static DOCUMENTATION: LazyLock<[Documentation; 4]> = LazyLock::new(|| {
    Function::ALL.map(|function| {
        let (description, syntax) = match function {
            Function::Extract => ("Returns a value in a text of JSON, as JSON.", "json_extract(json, path)"),
            Function::ExtractString => {
                ("Returns a value in a text of JSON, as text without quotes.", "json_extract_string(json, path)")
            }
            Function::GetObject => {
                ("Returns a value in a text of JSON, as text. NULL if it is not JSON.", "get_json_object(json, path)")
            }
            Function::Valid => ("Whether a text is JSON.", "json_valid(json)"),
        };
        let documentation =
            Documentation::builder(Default::default(), description, syntax).with_argument("json", "A text of JSON.");
        match function {
            Function::Valid => documentation.build(),
            _ => documentation.with_argument("path", "A path such as '$.a[0].b', a key, or an index.").build(),
        }
    })
});

impl ScalarUDFImpl for JsonFunction {
    fn name(&self) -> &str {
        self.function.names().first().copied().unwrap_or_default()
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        // The engine would replace an error by its own. `return_type` reports it.
        Ok(match self.check_types(types) {
            Ok(()) => types.iter().map(coerced).collect(),
            Err(_) => types.to_vec(),
        })
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.check_types(types)?;
        Ok(match self.function {
            Function::Valid => DataType::Boolean,
            Function::Extract | Function::ExtractString | Function::GetObject => DataType::Utf8,
        })
    }

    /// Checks a constant path while the query is planned.
    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<_> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let return_type = self.return_type(&types)?;
        if let Some(steps) = args.scalar_arguments.get(1..)
            && let Some(steps) = steps.iter().copied().collect::<Option<Vec<&ScalarValue>>>()
        {
            let steps = steps.into_iter().map(|step| step.cast_to(&coerced(&step.data_type()))?.to_array());
            self.path(&steps.collect::<Result<Vec<_>>>()?, 0)?;
        }
        Ok(Arc::new(Field::new(self.name(), return_type, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let args = args.args;
        if self.function == Function::Valid {
            return on_arrays(&args, |arrays| {
                let [json] = arrays else { return exec_err!("json_valid takes one argument") };
                let valid = json.as_string::<i32>().iter().map(|json| json.map(|json| text::check(json).is_ok()));
                Ok(Arc::new(valid.collect::<BooleanArray>()))
            });
        }
        let Some((json, steps)) = args.split_first() else { return exec_err!("{} without a text", self.name()) };
        // A constant path is parsed once.
        let constants: Option<Vec<_>> = steps
            .iter()
            .map(|step| match step {
                ColumnarValue::Scalar(step) => Some(step.clone()),
                ColumnarValue::Array(_) => None,
            })
            .collect();
        match constants {
            Some(steps) => {
                let steps = steps.iter().map(ScalarValue::to_array).collect::<Result<Vec<_>, _>>()?;
                let path = self.path(&steps, 0)?;
                on_arrays(std::slice::from_ref(json), |arrays| {
                    let [json] = arrays else { return exec_err!("{} without a text", self.name()) };
                    self.extract(json.as_string::<i32>(), |_| Ok(path.clone()))
                })
            }
            None => on_arrays(&args, |arrays| {
                let Some((json, steps)) = arrays.split_first() else {
                    return exec_err!("{} without a text", self.name());
                };
                self.extract(json.as_string::<i32>(), |row| self.path(steps, row))
            }),
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        Function::ALL.iter().position(|function| *function == self.function).and_then(|index| DOCUMENTATION.get(index))
    }
}

impl JsonFunction {
    fn check_types(&self, types: &[DataType]) -> Result<()> {
        let is_number = match self.function {
            Function::Valid => types.len() == 1,
            Function::GetObject => types.len() == 2,
            Function::Extract | Function::ExtractString => types.len() > 1,
        };
        let Some((json, steps)) = types.split_first().filter(|_| is_number) else {
            return plan_err!("{} takes {}, found {} arguments", self.name(), self.arguments(), types.len());
        };
        if !is_text(json) {
            return plan_err!(
                "{} takes a text of JSON, found {json}; fields of a struct are s['a'], and CAST(b AS VARCHAR) is the text \
                 of bytes",
                self.name()
            );
        }
        let has_indexes = self.function != Function::GetObject;
        match steps.iter().find(|step| !(is_text(step) || has_indexes && step.is_integer())) {
            Some(other) => plan_err!("{} takes {}, found {other}", self.name(), self.arguments()),
            None => Ok(()),
        }
    }

    fn arguments(&self) -> &'static str {
        match self.function {
            Function::Extract | Function::ExtractString => "a text of JSON, and a path, keys or indexes",
            Function::GetObject => "a text of JSON, and a path such as '$.a[0].b'",
            Function::Valid => "one argument",
        }
    }

    /// Returns the path in a row, or `None` if a part of it is NULL.
    fn path(&self, steps: &[ArrayRef], row: usize) -> Result<Option<Path>> {
        if steps.iter().any(|step| step.is_null(row)) {
            return Ok(None);
        }
        let text = |step: &ArrayRef| step.as_string_opt::<i32>().map(|step: &StringArray| step.value(row).to_owned());
        if let [path] = steps
            && let Some(path) = text(path)
            && (path.starts_with('$') || self.function == Function::GetObject)
        {
            return Path::parse(&path).map(Some).map_err(|reason| {
                plan_datafusion_err!("{}: '{path}' is not a path such as '$.a[0].b': {reason}", self.name())
            });
        }
        let is_one = steps.len() == 1;
        let step = |step: &ArrayRef| match text(step) {
            Some(key) if is_one => Step::Key(key),
            // PostgreSQL's paths of keys have indexes among them.
            Some(key) => Step::KeyOrIndex(key),
            None => {
                let index: &Int64Array = step.as_primitive::<Int64Type>();
                Step::Index(index.value(row))
            }
        };
        Ok(Some(Path(steps.iter().map(step).collect())))
    }

    fn extract(&self, json: &StringArray, path: impl Fn(usize) -> Result<Option<Path>>) -> Result<ArrayRef> {
        let mut result = StringBuilder::new();
        for (row, json) in json.iter().enumerate() {
            let (Some(json), Some(path)) = (json, path(row)?) else {
                result.append_null();
                continue;
            };
            match self.value(json, &path) {
                Ok(Some(value)) => result.append_value(value),
                Ok(None) => result.append_null(),
                Err(_) if self.function == Function::GetObject => result.append_null(),
                Err(error) => {
                    let shown: String = json.chars().take(SHOWN).collect();
                    return exec_err!(
                        "{}: the text is not JSON: {error}: {shown:?}; json_valid(x) is false for such texts, and \
                         get_json_object(x, '$.a') returns NULL",
                        self.name()
                    );
                }
            }
        }
        Ok(Arc::new(result.finish()))
    }

    fn value(&self, json: &str, path: &Path) -> Result<Option<String>, Error> {
        text::check(json)?;
        let Some(value) = text::find(json, path)? else { return Ok(None) };
        match (self.function, value.as_bytes().first()) {
            (Function::Extract | Function::Valid, _) => Ok(Some(value.to_owned())),
            (_, Some(b'"')) => serde_json::from_str(value).map(Some),
            (_, _) if value == "null" => Ok(None),
            (_, _) => Ok(Some(value.to_owned())),
        }
    }
}

/// Returns the type that an argument is coerced to.
fn coerced(data_type: &DataType) -> DataType {
    if data_type.is_integer() { DataType::Int64 } else { DataType::Utf8 }
}

fn is_text(data_type: &DataType) -> bool {
    let values = value_type(data_type);
    values.is_string() || values.is_null()
}
