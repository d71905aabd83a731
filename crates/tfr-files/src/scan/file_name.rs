//! [`named`]: the result of `input_file_name()`.
//!
//! The engine replaces the function by the path of the file in its store: `data/a.csv` for `/data/a.csv`.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_array::StringArray;
use arrow_schema::{DataType, Field};
use datafusion_common::cast::as_string_array;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use datafusion_physical_expr::ScalarFunctionExpr;
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use object_store::path::Path;
use tfr_stores::FileNames;

/// The engine's function for the file of a row.
const INPUT_FILE_NAME: &str = "input_file_name";

/// Whether the expression is a call of `input_file_name`.
pub(super) fn is_file_name(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.downcast_ref::<ScalarFunctionExpr>().is_some_and(|call| call.name() == INPUT_FILE_NAME)
}

/// Makes calls of `input_file_name()` return the name that messages give the file.
pub(super) fn named(expr: Arc<dyn PhysicalExpr>, names: &FileNames) -> Result<Arc<dyn PhysicalExpr>> {
    let named = expr.transform_down(|expr| {
        if !is_file_name(&expr) {
            return Ok(Transformed::no(expr));
        }
        let function = ScalarUDF::new_from_impl(FileName::new(names.clone()));
        let field = Arc::new(Field::new(INPUT_FILE_NAME, DataType::Utf8, true));
        let call = ScalarFunctionExpr::new(
            "input_file_name_in_messages",
            Arc::new(function),
            vec![expr],
            field,
            Arc::new(ConfigOptions::default()),
        );
        Ok(Transformed::new(Arc::new(call) as Arc<dyn PhysicalExpr>, true, TreeNodeRecursion::Jump))
    });
    named.data()
}

/// Converts the path of a file in its store to the name that messages give it.
#[derive(Debug, PartialEq, Eq)]
struct FileName {
    names: FileNames,
    signature: Signature,
}

impl FileName {
    fn new(names: FileNames) -> Self {
        Self { names, signature: Signature::exact(vec![DataType::Utf8], Volatility::Immutable) }
    }

    fn name(&self, path: &str) -> String {
        Path::parse(path).map_or_else(|_| path.to_owned(), |path| self.names.name(&path))
    }
}

impl Hash for FileName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.signature.hash(state);
    }
}

impl ScalarUDFImpl for FileName {
    fn name(&self) -> &str {
        "input_file_name_in_messages"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.into_iter().next() {
            Some(ColumnarValue::Scalar(path)) => {
                let path = path.try_as_str().flatten().map(|path| self.name(path));
                Ok(ColumnarValue::Scalar(ScalarValue::Utf8(path)))
            }
            Some(ColumnarValue::Array(paths)) => {
                let names = as_string_array(&paths)?.iter().map(|path| path.map(|path| self.name(path)));
                Ok(ColumnarValue::Array(Arc::new(names.collect::<StringArray>())))
            }
            None => Ok(ColumnarValue::Scalar(ScalarValue::Utf8(None))),
        }
    }
}
