//! Comparisons of floating point numbers, by the rules of PostgreSQL: NaN equals NaN and is greater than every other number,
//! and 0 equals -0.
//!
//! The engine compares by sign and bits in many places. There `-0.0 IN (0.0, ...)` was false, 0 and -0 were two peers of a
//! window, and a NaN with a sign, as the processor makes it of `inf - inf`, was less than all numbers. What is compared goes
//! through [`Comparable`] first, where that can matter.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray};
use arrow_schema::DataType;
use datafusion::arrow::datatypes::{Float16Type, Float32Type, Float64Type};
use datafusion::config::ConfigOptions;
use datafusion::optimizer::AnalyzerRule;
use datafusion_common::tree_node::{Transformed, TreeNode as _};
use datafusion_common::{Column, DFSchema, Result, ScalarValue, exec_err, plan_err};
use datafusion_expr::expr::{AggregateFunction, InList, ScalarFunction, Sort as SortExpr, WindowFunction};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{
    Between, BinaryExpr, Case, ColumnarValue, Expr, ExprSchemable as _, LogicalPlan, Operator, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Sort, Volatility,
};

/// Makes what is compared and sorted comparable.
#[derive(Debug)]
pub struct ComparableFloats(Arc<ScalarUDF>);

impl Default for ComparableFloats {
    fn default() -> Self {
        Self(Arc::new(ScalarUDF::new_from_impl(Comparable::default())))
    }
}

impl AnalyzerRule for ComparableFloats {
    fn name(&self) -> &str {
        "comparable_floats"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(|plan| {
            let mut schema = merge_schema(&plan.inputs());
            if let LogicalPlan::TableScan(scan) = &plan {
                schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
            }
            let names = NamePreserver::new(&plan);
            let plan = plan.map_expressions(|expr| {
                let name = names.save(&expr);
                let expr = expr.transform_up(|expr| self.rewrite(expr, &schema))?;
                Ok(expr.update_data(|expr| name.restore(expr)))
            })?;
            plan.transform_data(|plan| match plan {
                LogicalPlan::Sort(Sort { expr, input, fetch }) => {
                    let (expr, changed) = self.sorted(expr, &schema);
                    Ok(Transformed::new_transformed(LogicalPlan::Sort(Sort { expr, input, fetch }), changed))
                }
                other => Ok(Transformed::no(other)),
            })
        })?;
        Ok(plan.data)
    }
}

impl ComparableFloats {
    fn rewrite(&self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        Ok(match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right })
                if is_comparison(op) && (is_float(&left, schema) || is_float(&right, schema)) =>
            {
                self.compared(*left, op, *right, schema)
            }
            Expr::Between(Between { expr, negated, low, high }) if is_float(&expr, schema) => {
                let (low_op, high_op) = match negated {
                    false => (Operator::GtEq, Operator::LtEq),
                    true => (Operator::Lt, Operator::Gt),
                };
                let low = self.compared((*expr).clone(), low_op, *low, schema).data;
                let high = self.compared(*expr, high_op, *high, schema).data;
                Transformed::yes(if negated { low.or(high) } else { low.and(high) })
            }
            Expr::InList(list) if is_float(&list.expr, schema) => self.in_list(list, schema),
            Expr::Case(Case { expr: Some(value), when_then_expr, else_expr }) if is_float(&value, schema) => {
                let whens =
                    when_then_expr.into_iter().map(|(when, then)| (Box::new(self.comparable(*when, schema)), then));
                Transformed::yes(Expr::Case(Case {
                    expr: Some(Box::new(self.comparable(*value, schema))),
                    when_then_expr: whens.collect(),
                    else_expr,
                }))
            }
            Expr::ScalarFunction(ScalarFunction { func, mut args })
                if func.name() == "nullif" && args.len() == 2 && args.iter().all(|arg| is_float(arg, schema)) =>
            {
                let (Some(other), Some(value)) = (args.pop(), args.pop()) else {
                    return plan_err!("nullif takes two arguments");
                };
                let equal = self.compared(value.clone(), Operator::Eq, other, schema).data;
                Transformed::yes(Expr::Case(Case {
                    expr: None,
                    when_then_expr: vec![(Box::new(equal), Box::new(null_of(value.get_type(schema)?)?))],
                    else_expr: Some(Box::new(value)),
                }))
            }
            Expr::ScalarFunction(ScalarFunction { func, args })
                if matches!(func.name(), "greatest" | "least")
                    && args.iter().any(|arg| is_float(arg, schema) && !self.is_comparable(arg)) =>
            {
                let args =
                    args.into_iter().map(|arg| if is_float(&arg, schema) { self.comparable(arg, schema) } else { arg });
                Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args: args.collect() }))
            }
            Expr::WindowFunction(mut window) => {
                let WindowFunction { params, .. } = window.as_mut();
                let (order_by, sorted) = self.sorted(std::mem::take(&mut params.order_by), schema);
                params.order_by = order_by;
                let mut changed = sorted;
                for key in &mut params.partition_by {
                    if is_float(key, schema) {
                        *key = self.comparable(std::mem::take(key), schema);
                        changed = true;
                    }
                }
                Transformed::new_transformed(Expr::WindowFunction(window), changed)
            }
            Expr::AggregateFunction(AggregateFunction { func, mut params }) => {
                let (order_by, changed) = self.sorted(std::mem::take(&mut params.order_by), schema);
                params.order_by = order_by;
                Transformed::new_transformed(Expr::AggregateFunction(AggregateFunction { func, params }), changed)
            }
            other => Transformed::no(other),
        })
    }

    fn sorted(&self, keys: Vec<SortExpr>, schema: &DFSchema) -> (Vec<SortExpr>, bool) {
        let mut changed = false;
        let keys = keys.into_iter().map(|key| {
            if !is_float(&key.expr, schema) || self.is_comparable(&key.expr) {
                return key;
            }
            changed = true;
            SortExpr { expr: self.comparable(key.expr, schema), ..key }
        });
        (keys.collect(), changed)
    }

    /// A comparison. What is compared with a number stays as it is where NaN and zeros make no difference, so that statistics
    /// of files are of use.
    fn compared(&self, left: Expr, op: Operator, right: Expr, schema: &DFSchema) -> Transformed<Expr> {
        let compare =
            |left: Expr, right: Expr| Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op, right: Box::new(right) });
        if self.is_comparable(&left) && self.is_comparable(&right) {
            return Transformed::no(compare(left, right));
        }
        let (left, right) = (with_one_zero(left), with_one_zero(right));
        let (number, other, op_of_other) = match (is_number(&left), is_number(&right)) {
            (true, true) => return Transformed::no(compare(left, right)),
            (true, false) => (true, &right, op.swap()),
            (false, true) => (true, &left, Some(op)),
            (false, false) => (false, &left, None),
        };
        let exact = compare(self.comparable(left.clone(), schema), self.comparable(right.clone(), schema));
        if !number || other.is_volatile() {
            return Transformed::yes(exact);
        }
        match op_of_other {
            Some(Operator::Eq | Operator::NotEq) => Transformed::no(compare(left, right)),
            // A NaN with a sign is less than all numbers here, and is taken out by the second comparison.
            Some(Operator::Lt | Operator::LtEq) if matches!(other, Expr::Column(_)) => {
                Transformed::yes(compare(left, right).and(exact))
            }
            _ => Transformed::yes(exact),
        }
    }

    fn in_list(&self, list: InList, schema: &DFSchema) -> Transformed<Expr> {
        let InList { expr, list, negated } = list;
        let mut list: Vec<Expr> = list.into_iter().map(with_one_zero).collect();
        // What is compared with numbers alone stays as it is: both zeros are in the list.
        if list.iter().all(is_number) && !expr.is_volatile() {
            let zeros: Vec<Expr> = list.iter().filter_map(other_zero).collect();
            let changed = !zeros.is_empty();
            list.extend(zeros);
            return Transformed::new_transformed(Expr::InList(InList { expr, list, negated }), changed);
        }
        if self.is_comparable(&expr) {
            return Transformed::no(Expr::InList(InList { expr, list, negated }));
        }
        let list = list.into_iter().map(|value| self.comparable(value, schema)).collect();
        Transformed::yes(Expr::InList(InList { expr: Box::new(self.comparable(*expr, schema)), list, negated }))
    }

    fn comparable(&self, expr: Expr, schema: &DFSchema) -> Expr {
        match with_one_zero(expr) {
            literal @ Expr::Literal(..) => literal,
            expr if self.is_comparable(&expr) => expr,
            expr => {
                Expr::ScalarFunction(ScalarFunction { func: Arc::clone(&self.0), args: vec![qualified(expr, schema)] })
            }
        }
    }

    fn is_comparable(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::ScalarFunction(ScalarFunction { func, .. }) if func.name() == Comparable::NAME)
    }
}

/// An expression whose columns have the tables of the schema. The engine makes a column of a key of a join that is an expression,
/// and names it once with the tables and once as it is.
pub(crate) fn qualified(expr: Expr, schema: &DFSchema) -> Expr {
    let table_of = |column: &Column| match schema.qualified_field_with_unqualified_name(&column.name) {
        Ok((Some(table), _)) => Some(table.clone()),
        _ => None,
    };
    let unchanged = expr.clone();
    let qualified = expr.transform(|expr| match expr {
        Expr::Column(column) if column.relation.is_none() => match table_of(&column) {
            Some(table) => Ok(Transformed::yes(Expr::Column(Column { relation: Some(table), ..column }))),
            None => Ok(Transformed::no(Expr::Column(column))),
        },
        other => Ok(Transformed::no(other)),
    });
    qualified.map_or(unchanged, |qualified| qualified.data)
}

fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

fn is_float(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|data_type| data_type.is_floating())
}

/// Whether an expression is a number that is written out, and not NaN.
fn is_number(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(ScalarValue::Float64(Some(value)), _) => !value.is_nan(),
        Expr::Literal(ScalarValue::Float32(Some(value)), _) => !value.is_nan(),
        Expr::Literal(ScalarValue::Float16(Some(value)), _) => !value.is_nan(),
        _ => false,
    }
}

/// A literal without the sign of zero and NaN.
fn with_one_zero(expr: Expr) -> Expr {
    match expr {
        Expr::Literal(ScalarValue::Float64(Some(value)), metadata) => {
            Expr::Literal(ScalarValue::Float64(Some(comparable(value))), metadata)
        }
        Expr::Literal(ScalarValue::Float32(Some(value)), metadata) => {
            Expr::Literal(ScalarValue::Float32(Some(comparable(value))), metadata)
        }
        other => other,
    }
}

/// -0 for 0.
fn other_zero(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Literal(ScalarValue::Float64(Some(0.0)), metadata) => {
            Some(Expr::Literal(ScalarValue::Float64(Some(-0.0)), metadata.clone()))
        }
        Expr::Literal(ScalarValue::Float32(Some(0.0)), metadata) => {
            Some(Expr::Literal(ScalarValue::Float32(Some(-0.0)), metadata.clone()))
        }
        _ => None,
    }
}

fn null_of(data_type: DataType) -> Result<Expr> {
    Ok(Expr::Literal(ScalarValue::try_new_null(&data_type)?, None))
}

/// A number that stands for all that are equal to it.
pub trait OneOfEquals: Copy {
    /// 0 for -0, and one NaN for all.
    fn one_of_equals(self) -> Self;
}

macro_rules! one_of_equals {
    ($($float:ty: $nan:expr, $zero:expr;)*) => {
        $(impl OneOfEquals for $float {
            fn one_of_equals(self) -> Self {
                if self.is_nan() { $nan } else { self + $zero }
            }
        })*
    };
}

one_of_equals! {
    f64: Self::NAN, 0.0;
    f32: Self::NAN, 0.0;
    half::f16: Self::NAN, Self::ZERO;
}

/// 0 for -0, and one NaN for all.
pub fn comparable<T: OneOfEquals>(value: T) -> T {
    value.one_of_equals()
}

/// Floating point numbers of which those that are equal have the same bits.
///
/// # Errors
/// If they are of another type.
pub fn comparable_array(values: &ArrayRef) -> Result<ArrayRef> {
    fn of<T: ArrowPrimitiveType<Native: OneOfEquals>>(values: &ArrayRef) -> ArrayRef {
        Arc::new(values.as_primitive::<T>().unary::<_, T>(comparable))
    }
    Ok(match values.data_type() {
        DataType::Float64 => of::<Float64Type>(values),
        DataType::Float32 => of::<Float32Type>(values),
        DataType::Float16 => of::<Float16Type>(values),
        other => return exec_err!("{} is for floating point numbers, not {other}", Comparable::NAME),
    })
}

/// Gives equal numbers the same bits.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Comparable(Signature);

impl Comparable {
    /// What plans show.
    pub const NAME: &str = "comparable";
}

impl Default for Comparable {
    fn default() -> Self {
        Self(Signature::any(1, Volatility::Immutable))
    }
}

impl ScalarUDFImpl for Comparable {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [argument] if argument.is_floating() => Ok(argument.clone()),
            _ => plan_err!("{} takes a floating point number", Self::NAME),
        }
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(match args.args.as_slice() {
            [ColumnarValue::Array(values)] => ColumnarValue::Array(comparable_array(values)?),
            [ColumnarValue::Scalar(value)] => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&comparable_array(&value.to_array()?)?, 0)?)
            }
            _ => return exec_err!("{} takes one argument", Self::NAME),
        })
    }
}
