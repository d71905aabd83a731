//! Arithmetic of integers and decimals that reports overflows. The engine's integers wrap around: `9223372036854775807 +
//! 1` was -9223372036854775808. For decimals, see [`digits`].
//!
//! Upstream: ours (a choice of meaning). Held by `tests/slt/answers.slt`: Integers do not wrap around.

use std::sync::Arc;

use arrow::compute::kernels::numeric::{add, mul, neg, sub};
use arrow::error::ArrowError;
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::config::ConfigOptions;
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr_common::datum::apply;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{DFSchema, DataFusionError, Result, exec_err, plan_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::interval_arithmetic::Interval;
use datafusion_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable as _, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::expressions::{columns_of, rewrite_expressions};
use crate::numbers::digits::{self, DecimalInRange};
use crate::opaque;

/// Calls [`CheckedArithmetic`] where integers are added, subtracted, multiplied or negated, and checks the digits of sums,
/// differences and products of decimals.
#[derive(Debug)]
pub struct CheckedIntegers {
    add: Arc<ScalarUDF>,
    subtract: Arc<ScalarUDF>,
    multiply: Arc<ScalarUDF>,
    negate: Arc<ScalarUDF>,
    in_range: Arc<ScalarUDF>,
}

impl Default for CheckedIntegers {
    fn default() -> Self {
        let function = |operation| Arc::new(ScalarUDF::new_from_impl(CheckedArithmetic::new(operation)));
        Self {
            add: function(Arithmetic::Add),
            subtract: function(Arithmetic::Subtract),
            multiply: function(Arithmetic::Multiply),
            negate: function(Arithmetic::Negate),
            in_range: DecimalInRange::function(),
        }
    }
}

impl AnalyzerRule for CheckedIntegers {
    fn name(&self) -> &str {
        "checked_integers"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(|plan| {
            // A limit is a number that the engine checks itself. The literals of VALUES are left unchanged.
            if matches!(plan, LogicalPlan::Limit(_)) {
                return Ok(Transformed::no(plan));
            }
            let columns = columns_of(&plan)?;
            rewrite_expressions(plan, |expr| self.rewrite(expr, &columns))
        })?;
        Ok(plan.data)
    }
}

impl CheckedIntegers {
    fn rewrite(&self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        // The engine builds the function's name at each level to determine its type. For a long sum, that takes time
        // quadratic in the number of terms.
        let is_ours = |expr: &Expr| matches!(expr, Expr::ScalarFunction(call) if self.functions().contains(&call.func));
        let is_integer =
            |expr: &Expr| is_ours(expr) || expr.get_type(schema).is_ok_and(|data_type| data_type.is_integer());
        Ok(match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_integer(&left) && is_integer(&right) => {
                let function = match op {
                    Operator::Plus => &self.add,
                    Operator::Minus => &self.subtract,
                    Operator::Multiply => &self.multiply,
                    _ => return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right }))),
                };
                call(function, vec![*left, *right])
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right })
                if matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply) =>
            {
                let ((left, is_left_widest), (right, is_right_widest)) =
                    (digits::unchecked(*left), digits::unchecked(*right));
                let result = Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op, right: Box::new(right) });
                let is_widest = || result.get_type(schema).is_ok_and(|data_type| digits::is_widest(&data_type));
                match is_left_widest || is_right_widest || is_widest() {
                    true => call(&self.in_range, vec![result]),
                    false => Transformed::no(result),
                }
            }
            // The engine gives the result as many digits as the arguments have, and it may have more.
            Expr::ScalarFunction(of_decimals)
                if of_decimals.func.name() == "lcm"
                    && of_decimals
                        .args
                        .iter()
                        .any(|arg| arg.get_type(schema).is_ok_and(|found| found.is_decimal())) =>
            {
                call(&self.in_range, vec![Expr::ScalarFunction(of_decimals)])
            }
            // Except for the sign of a literal.
            Expr::Negative(inner) if is_integer(&inner) && !matches!(*inner, Expr::Literal(..)) => {
                call(&self.negate, vec![*inner])
            }
            other => Transformed::no(other),
        })
    }

    /// Returns the functions that plans call.
    pub fn functions(&self) -> [Arc<ScalarUDF>; 4] {
        [&self.add, &self.subtract, &self.multiply, &self.negate].map(Arc::clone)
    }
}

fn call(function: &Arc<ScalarUDF>, args: Vec<Expr>) -> Transformed<Expr> {
    Transformed::yes(Expr::ScalarFunction(ScalarFunction { func: Arc::clone(function), args }))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Negate,
}

/// Arithmetic of integers of one type.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CheckedArithmetic {
    operation: Arithmetic,
    signature: Signature,
}

impl CheckedArithmetic {
    fn new(operation: Arithmetic) -> Self {
        let operands = if operation == Arithmetic::Negate { 1 } else { 2 };
        Self { operation, signature: Signature::any(operands, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for CheckedArithmetic {
    fn name(&self) -> &str {
        match self.operation {
            Arithmetic::Add => "checked_add",
            Arithmetic::Subtract => "checked_subtract",
            Arithmetic::Multiply => "checked_multiply",
            Arithmetic::Negate => "checked_negate",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [first, ..] if first.is_integer() && arg_types.iter().all(|other| other == first) => Ok(first.clone()),
            _ => plan_err!("{} takes integers of one type, not {arg_types:?}", self.name()),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<_> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, nullable)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        opaque::unbounded(inputs)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let result = match (self.operation, args.args.as_slice()) {
            (Arithmetic::Add, [left, right]) => apply(left, right, add),
            (Arithmetic::Subtract, [left, right]) => apply(left, right, sub),
            (Arithmetic::Multiply, [left, right]) => apply(left, right, mul),
            (Arithmetic::Negate, [ColumnarValue::Array(values)]) => {
                neg(values).map(ColumnarValue::Array).map_err(DataFusionError::from)
            }
            (Arithmetic::Negate, [ColumnarValue::Scalar(value)]) => {
                return Ok(ColumnarValue::Scalar(value.arithmetic_negate()?));
            }
            _ => return exec_err!("{} was called with other arguments", self.name()),
        };
        result.map_err(|error| match error.find_root() {
            DataFusionError::ArrowError(arrow, _) if matches!(**arrow, ArrowError::ArithmeticOverflow(_)) => {
                DataFusionError::Execution(format!(
                    "integer out of range: {arrow}; CAST an operand AS DECIMAL(38, 0) for larger numbers"
                ))
            }
            _ => error,
        })
    }
}
