//! Lists of numbers and single numbers of another type: `array_append(xs, 0.5)`, `0.5 = ANY(xs)`, `xs || 0.5`.
//!
//! The engine finds no function for a list of doubles, integers or other decimals and a decimal. Here both get the type
//! that they would get in a list.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef};
use datafusion::functions_nested::planner::NestedFunctionPlanner;
use datafusion_common::{DFSchema, Result};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion_expr::type_coercion::functions::fields_with_udf;
use datafusion_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use tfr_arrow::nested::item;

use super::{common_number, with_item_type};

/// The functions, the position of their list, and those of their elements.
const FUNCTIONS: [(&str, usize, &[usize]); 12] = [
    ("array_append", 0, &[1]),
    ("array_has", 0, &[1]),
    ("array_position", 0, &[1]),
    ("array_positions", 0, &[1]),
    ("array_prepend", 1, &[0]),
    ("array_remove", 0, &[1]),
    ("array_remove_all", 0, &[1]),
    ("array_remove_n", 0, &[1]),
    ("array_replace", 0, &[1, 2]),
    ("array_replace_all", 0, &[1, 2]),
    ("array_replace_n", 0, &[1, 2]),
    ("array_resize", 0, &[2]),
];

/// Gives the functions that take a list and elements types for numbers of several types.
pub fn with_numbers(functions: &mut [Arc<ScalarUDF>]) {
    for function in functions {
        if let Some(of_numbers) = OfNumbers::of(function) {
            *function = of_numbers;
        }
    }
}

/// Plans operators on lists as calls of [`OfNumbers`].
#[derive(Debug)]
pub struct ListOperators;

impl ExprPlanner for ListOperators {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        Ok(match NestedFunctionPlanner.plan_binary_op(expr, schema)? {
            PlannerResult::Planned(Expr::ScalarFunction(ScalarFunction { func, args })) => {
                let func = OfNumbers::of(&func).unwrap_or(func);
                PlannerResult::Planned(Expr::ScalarFunction(ScalarFunction { func, args }))
            }
            other => other,
        })
    }
}

/// A function on lists that takes numbers of several types.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OfNumbers {
    inner: Arc<ScalarUDF>,
    signature: Signature,
    list: usize,
    elements: &'static [usize],
}

impl OfNumbers {
    fn of(inner: &Arc<ScalarUDF>) -> Option<Arc<ScalarUDF>> {
        let (_, list, elements) = *FUNCTIONS.iter().find(|(name, ..)| *name == inner.name())?;
        let signature = Signature::user_defined(inner.signature().volatility);
        Some(Arc::new(ScalarUDF::new_from_impl(Self { inner: Arc::clone(inner), signature, list, elements })))
    }

    /// Returns the types of the arguments, where the list and its elements are numbers.
    fn types_of_numbers(&self, arg_types: &[DataType]) -> Option<Vec<DataType>> {
        let list = arg_types.get(self.list)?;
        let item = item(list)?.data_type();
        let elements = self.elements.iter().map(|&position| arg_types.get(position)).collect::<Option<Vec<_>>>()?;
        let numbers: Vec<&DataType> = std::iter::once(item).chain(elements).collect();
        let common = common_number(&numbers)?;
        let mut types = arg_types.to_vec();
        *types.get_mut(self.list)? = with_item_type(list, &common)?;
        for &position in self.elements {
            *types.get_mut(position)? = common.clone();
        }
        Some(types)
    }
}

impl ScalarUDFImpl for OfNumbers {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let types = self.types_of_numbers(arg_types).unwrap_or_else(|| arg_types.to_vec());
        let fields: Vec<FieldRef> = types.into_iter().map(|of| Arc::new(Field::new("argument", of, true))).collect();
        let coerced = fields_with_udf(&fields, self.inner.as_ref())?;
        Ok(coerced.iter().map(|field| field.data_type().clone()).collect())
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.simplify(args, info)
    }

    fn is_strict(&self) -> bool {
        self.inner.inner().is_strict()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.inner.invoke_with_args(args)
    }
}
