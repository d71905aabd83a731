//! Operand types, where the engine's coercion loses values.
//!
//! Upstream: ours (a choice of meaning). Held by `tests/slt/numbers.slt`: A double that meets a decimal: both are doubles.

pub(crate) mod decimals;
pub(crate) mod digits;
pub(crate) mod division;
pub(crate) mod doubles;
mod ieee;
pub(crate) mod lists;
pub(crate) mod literals;
pub(crate) mod recursion;
mod relations;

use std::fmt::Display;
use std::sync::Arc;

use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use datafusion::config::ConfigOptions;
use datafusion::optimizer::AnalyzerRule;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion_expr::expr::{AggregateFunction, InList, InSubquery, ScalarFunction, SetComparison, WindowFunction};
use datafusion_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion_expr::type_coercion::binary::type_union_coercion;
use datafusion_expr::type_coercion::other::get_coerce_type_for_case_expression;
use datafusion_expr::{
    Between, BinaryExpr, Case, Expr, ExprSchemable as _, LogicalPlan, Operator, ScalarUDF, cast, lit,
};
use tfr_arrow::nested::{element_type, item, value_type, with_item};

use crate::expressions::{is_comparison, rewrite_types_and_plans};
use division::DecimalDivision;
use relations::with_exact_rows;

/// Returns the functions that plans call, and those to register in place of the engine's.
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    let mut functions = vec![
        DecimalDivision::function(),
        digits::DecimalInRange::function(),
        doubles::DecimalToDouble::function(),
        recursion::ExactCast::function(),
    ];
    functions.extend(ieee::functions());
    functions
}

/// Functions whose arguments, or the items of their list arguments, get one type.
const OF_ONE_TYPE: [&str; 25] = [
    "array_append",
    "array_concat",
    "array_except",
    "array_has",
    "array_has_all",
    "array_has_any",
    "array_intersect",
    "array_position",
    "array_positions",
    "array_prepend",
    "array_remove",
    "array_remove_all",
    "array_remove_n",
    "array_replace",
    "array_replace_all",
    "array_replace_n",
    "array_resize",
    "array_union",
    "coalesce",
    "greatest",
    "least",
    "make_array",
    "nullif",
    "nvl",
    "nvl2",
];

/// Those of them that have a number of items among their arguments, and its place.
const COUNTS: [(&str, usize); 3] = [("array_remove_n", 2), ("array_replace_n", 3), ("array_resize", 1)];

/// Percentiles that may be between two values.
const PERCENTILES: [&str; 2] = ["median", "percentile_cont"];

/// Casts operands before the engine's coercion does:
///
/// * a date plus an interval with a time of day: the date becomes a timestamp, because the engine drops the time;
/// * a timestamp plus an interval with a finer unit: the timestamp gets that unit;
/// * times of several units that are compared: all get nanoseconds;
/// * decimals and doubles, wherever they meet: the decimals become doubles, because the engine converts both to
///   decimals, which cannot represent every double;
/// * the default of `lead` and `lag`: it and the values get a common type, because the engine converts the default to
///   the type of the values;
/// * `median` and `percentile_cont`: the values become doubles;
/// * quotients of decimals: see [`division`];
/// * a date beside a number, where both get one type: refused, because the engine takes the number for the days since
///   1970-01-01. `d > 20240101` was false for all dates;
/// * shifts of other numbers than integers: refused, because the engine cuts them;
/// * recursive queries: see [`recursion`].
#[derive(Debug)]
pub struct ExactOperands {
    divide: Arc<ScalarUDF>,
}

impl Default for ExactOperands {
    fn default() -> Self {
        Self { divide: DecimalDivision::function() }
    }
}

impl AnalyzerRule for ExactOperands {
    fn name(&self) -> &str {
        "exact_operands"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        rewrite_types_and_plans(plan, |expr, schema| self.with_exact_operands(expr, schema), with_exact_rows)
    }
}

impl ExactOperands {
    fn with_exact_operands(&self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        Ok(match expr {
            Expr::BinaryExpr(BinaryExpr { mut left, op, mut right }) => {
                if op == Operator::Divide
                    && let Some(quotient) = division::quotient(&self.divide, &left, &right, schema)?
                {
                    return Ok(Transformed::yes(quotient));
                }
                if matches!(op, Operator::BitwiseShiftLeft | Operator::BitwiseShiftRight) {
                    check_shift(op, [&left, &right], schema)?;
                }
                let mut changed = with_one_unit(&mut left, op, &mut right, schema);
                if is_comparison(op) {
                    changed |= with_numbers(&mut [&mut left, &mut right], schema)?;
                } else if has_operands_of_one_type(op) {
                    changed |= with_doubles(&mut [&mut left, &mut right], schema);
                }
                Transformed::new_transformed(Expr::BinaryExpr(BinaryExpr { left, op, right }), changed)
            }
            Expr::Between(Between { mut expr, negated, mut low, mut high }) => {
                let changed = with_numbers(&mut [&mut expr, &mut low, &mut high], schema)?;
                Transformed::new_transformed(Expr::Between(Between { expr, negated, low, high }), changed)
            }
            Expr::InList(InList { mut expr, mut list, negated }) => {
                let mut operands: Vec<&mut Expr> = std::iter::once(expr.as_mut()).chain(&mut list).collect();
                let changed = with_numbers(&mut operands, schema)?;
                Transformed::new_transformed(Expr::InList(InList { expr, list, negated }), changed)
            }
            Expr::Case(Case { mut expr, mut when_then_expr, mut else_expr }) => {
                let (mut compared, mut results) = (Vec::new(), Vec::new());
                for (when, then) in &mut when_then_expr {
                    compared.push(when.as_mut());
                    results.push(then.as_mut());
                }
                results.extend(else_expr.as_deref_mut());
                no_dates_beside_numbers(&results, schema)?;
                let changed_results = with_doubles(&mut results, schema) | with_type_of_case(&mut results, schema);
                let changed = match expr.as_deref_mut() {
                    Some(expr) => {
                        compared.push(expr);
                        with_numbers(&mut compared, schema)?
                    }
                    None => false,
                };
                let case = Expr::Case(Case { expr, when_then_expr, else_expr });
                Transformed::new_transformed(case, changed | changed_results)
            }
            Expr::ScalarFunction(ScalarFunction { func, mut args }) if OF_ONE_TYPE.contains(&func.name()) => {
                // The first argument of nvl2 is only compared with NULL.
                let skipped = usize::from(func.name() == "nvl2");
                let mut operands: Vec<_> = args.iter_mut().skip(skipped).collect();
                let changed = with_doubles(&mut operands, schema);
                // A number of items may stand beside dates.
                if let Some((_, count)) = COUNTS.iter().find(|(name, _)| *name == func.name())
                    && *count < operands.len()
                {
                    operands.remove(*count);
                }
                no_dates_beside_numbers(&operands, schema)?;
                Transformed::new_transformed(Expr::ScalarFunction(ScalarFunction { func, args }), changed)
            }
            // Its literals were doubles, and a tensor has no decimals.
            Expr::ScalarFunction(ScalarFunction { func, mut args }) if func.name() == "serialize_tensor" => {
                let double = match args.first() {
                    Some(values) if !values.any_column_refs() => as_double(&values.get_type(schema)?),
                    _ => None,
                };
                let changed = double.is_some();
                if let (Some(double), Some(values)) = (double, args.first_mut()) {
                    *values = cast(std::mem::take(values), double);
                }
                Transformed::new_transformed(Expr::ScalarFunction(ScalarFunction { func, args }), changed)
            }
            Expr::InSubquery(InSubquery { mut expr, mut subquery, negated }) => {
                let changed = relations::with_doubles_in(&mut expr, &mut subquery, schema)?;
                Transformed::new_transformed(Expr::InSubquery(InSubquery { expr, subquery, negated }), changed)
            }
            Expr::SetComparison(SetComparison { mut expr, mut subquery, op, quantifier }) => {
                let changed = relations::with_doubles_in(&mut expr, &mut subquery, schema)?;
                let comparison = SetComparison { expr, subquery, op, quantifier };
                Transformed::new_transformed(Expr::SetComparison(comparison), changed)
            }
            Expr::AggregateFunction(AggregateFunction { func, mut params }) if PERCENTILES.contains(&func.name()) => {
                let changed = with_double_percentiles(&mut params.args, schema);
                Transformed::new_transformed(Expr::AggregateFunction(AggregateFunction { func, params }), changed)
            }
            Expr::WindowFunction(mut window) => {
                let changed = match window.fun.name() {
                    "lead" | "lag" => with_exact_default(&mut window, schema)?,
                    name if PERCENTILES.contains(&name) => with_double_percentiles(&mut window.params.args, schema),
                    _ => false,
                };
                Transformed::new_transformed(Expr::WindowFunction(window), changed)
            }
            other => Transformed::no(other),
        })
    }
}

/// Casts the results of `CASE` to their common type, if some are numbers. The engine does so later, and takes `CASE` for one
/// of the type of its first result until then: in a `UNION` with `0.25`, 1.789 was rounded to 1.79.
fn with_type_of_case(results: &mut [&mut Expr], schema: &DFSchema) -> bool {
    let types = results.iter().map(|result| result.get_type(schema)).collect::<Result<Vec<_>>>();
    let Ok(types) = types else { return false };
    let Some((last, others)) = types.split_last() else { return false };
    let common = get_coerce_type_for_case_expression(others, Some(last));
    let Some(common) = common.filter(|_| types.iter().any(DataType::is_numeric)) else { return false };
    let mut changed = false;
    for (result, _) in results.iter_mut().zip(&types).filter(|(_, data_type)| **data_type != common) {
        **result = cast(std::mem::take(*result), common.clone());
        changed = true;
    }
    changed
}

fn has_operands_of_one_type(op: Operator) -> bool {
    matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide | Operator::Modulo)
        || matches!(op, Operator::StringConcat | Operator::AtArrow | Operator::ArrowAt)
}

/// Like [`with_doubles`], for operands that are compared. Texts that are compared with decimals become numbers too,
/// because the engine rounds them to the scale of the decimals: `'1.54' = 1.5` was true.
fn with_numbers(operands: &mut [&mut Expr], schema: &DFSchema) -> Result<bool> {
    no_dates_beside_numbers(operands, schema)?;
    let is_text = |expr: &Expr| match expr.get_type(schema) {
        Ok(DataType::Dictionary(_, values)) => values.is_string(),
        Ok(data_type) => data_type.is_string(),
        Err(_) => false,
    };
    let is_decimal = |expr: &Expr| expr.get_type(schema).is_ok_and(|data_type| data_type.is_decimal());
    let mut changed = false;
    if operands.iter().any(|expr| is_decimal(expr)) {
        let only_literals = operands.iter().all(|expr| !is_decimal(expr) || literals::literal(expr).is_some());
        for text in operands.iter_mut().filter(|expr| is_text(expr)) {
            let number = match literals::literal(text) {
                Some(literal) => literal.try_as_str().flatten().and_then(literals::number_of_text).map(lit),
                None if only_literals => Some(cast(text.clone(), DataType::Float64)),
                None => return plan_err!("a text compared with a decimal: {text}; CAST it to a number first"),
            };
            if let Some(number) = number {
                **text = number;
                changed = true;
            }
        }
    }
    Ok(with_doubles(operands, schema) | with_one_time(operands, schema) | changed)
}

/// Casts times of several units that are compared: the engine refuses such comparisons when it plans a query, before
/// [`ExactOperands`].
#[derive(Debug)]
pub struct TimesOfOneUnit;

impl ExprPlanner for TimesOfOneUnit {
    fn plan_binary_op(&self, mut expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        use datafusion::sql::sqlparser::ast::BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        if matches!(expr.op, Eq | NotEq | Lt | LtEq | Gt | GtEq) {
            with_one_time(&mut [&mut expr.left, &mut expr.right], schema);
        }
        Ok(PlannerResult::Original(expr))
    }
}

/// Casts times of several units to nanoseconds, in which all are exact. The engine does not compare them.
fn with_one_time(operands: &mut [&mut Expr], schema: &DFSchema) -> bool {
    let types: Vec<_> = operands.iter().filter_map(|expr| expr.get_type(schema).ok()).collect();
    let times: Vec<_> = types.iter().filter(|data_type| !data_type.is_null()).collect();
    let is_time = |data_type: &DataType| matches!(data_type, DataType::Time32(_) | DataType::Time64(_));
    if times.windows(2).all(|pair| pair[0] == pair[1]) || !times.iter().all(|data_type| is_time(data_type)) {
        return false;
    }
    for operand in operands {
        **operand = cast(std::mem::take(*operand), DataType::Time64(TimeUnit::Nanosecond));
    }
    true
}

/// Rejects operands of which some are dates and some are numbers.
fn no_dates_beside_numbers(operands: &[&mut Expr], schema: &DFSchema) -> Result<()> {
    let typed = operands.iter().filter_map(|expr| Some((expr.get_type(schema).ok()?, &**expr as &dyn Display)));
    no_date_meets_a_number(&typed.collect::<Vec<_>>())
}

/// Rejects values that get one type, if some are dates and some are numbers.
fn no_date_meets_a_number(values: &[(DataType, &dyn Display)]) -> Result<()> {
    let first =
        |is_of_kind: fn(&DataType) -> bool| values.iter().find(|(data_type, _)| is_of_kind(element_type(data_type)));
    match (first(|data_type| matches!(data_type, DataType::Date32 | DataType::Date64)), first(DataType::is_numeric)) {
        (Some((_, date)), Some((_, number))) => plan_err!(
            "a date and a number in one place: {date} and {number}; write DATE '2024-01-31' for a date, or CAST(x AS \
             INT) for the days of a date since 1970-01-01"
        ),
        _ => Ok(()),
    }
}

fn check_shift(op: Operator, operands: [&Expr; 2], schema: &DFSchema) -> Result<()> {
    let other = |expr: &&Expr| {
        expr.get_type(schema)
            .is_ok_and(|data_type| element_type(&data_type).is_numeric() && !element_type(&data_type).is_integer())
    };
    match operands.into_iter().find(other) {
        Some(number) => plan_err!("{op} takes integers, and {number} is none; CAST it AS BIGINT"),
        None => Ok(()),
    }
}

/// Casts the decimals among operands to doubles, if there are doubles among them. The same applies to the items of
/// lists. Returns whether it changed any.
fn with_doubles(operands: &mut [&mut Expr], schema: &DFSchema) -> bool {
    let types: Vec<Option<DataType>> = operands.iter().map(|expr| expr.get_type(schema).ok()).collect();
    if !meet_as_doubles(types.iter().flatten()) {
        return false;
    }
    for (operand, data_type) in operands.iter_mut().zip(types) {
        if let Some(double) = data_type.as_ref().and_then(as_double) {
            **operand = cast(std::mem::take(*operand), double);
        }
    }
    true
}

/// Whether there are both decimals and doubles.
fn meet_as_doubles<'a>(types: impl Iterator<Item = &'a DataType> + Clone) -> bool {
    types.clone().any(|data_type| element_type(data_type).is_floating())
        && types.clone().any(|data_type| element_type(data_type).is_decimal())
}

/// Returns the common type of numbers.
fn common_number(types: &[&DataType]) -> Option<DataType> {
    if !types.iter().all(|data_type| data_type.is_numeric() || data_type.is_null()) {
        return None;
    }
    if meet_as_doubles(types.iter().copied()) {
        return Some(DataType::Float64);
    }
    let mut numbers = types.iter().copied().filter(|data_type| !data_type.is_null());
    let first = numbers.next()?.clone();
    numbers.try_fold(first, |common, data_type| type_union_coercion(&common, data_type))
}

/// Returns the type of decimals, or of lists of decimals, after a cast to doubles.
fn as_double(data_type: &DataType) -> Option<DataType> {
    let values = value_type(data_type);
    match item(values) {
        Some(item) => with_item_type(values, &as_double(item.data_type())?),
        None => values.is_decimal().then_some(DataType::Float64),
    }
}

/// Returns the type of lists with other items.
fn with_item_type(list: &DataType, item_type: &DataType) -> Option<DataType> {
    Some(with_item(list, Arc::new(item(list)?.as_ref().clone().with_data_type(item_type.clone()))))
}

/// Returns the types to compare a number with the items of a list in, if theirs differ: that of a list of both.
pub(crate) fn element_and_list(element: &DataType, list: &DataType) -> Option<(DataType, DataType)> {
    let item = item(list)?.data_type();
    if element == item {
        return None;
    }
    let common = common_number(&[element, item])?;
    let list = with_item_type(list, &common)?;
    Some((common, list))
}

/// Gives the values and the default of `lead` and `lag` a common type.
fn with_exact_default(window: &mut WindowFunction, schema: &DFSchema) -> Result<bool> {
    let [value, _, default] = window.params.args.as_mut_slice() else { return Ok(false) };
    let (value_type, default_type) = (value.get_type(schema)?, default.get_type(schema)?);
    if value_type == default_type || default_type.is_null() {
        return Ok(false);
    }
    let common = match meet_as_doubles([&value_type, &default_type].into_iter()) {
        true => Some(DataType::Float64),
        false => type_union_coercion(&value_type, &default_type),
    };
    let Some(common) = common else { return Ok(false) };
    if let Some(literal) = literals::literal(default) {
        *default = Expr::Literal(literals::cast_exactly(&literal, &common)?, None);
    }
    if value_type != common {
        *value = cast(std::mem::take(value), common);
    }
    Ok(true)
}

/// Casts the values of percentiles to doubles, in which percentiles between two values are computed. The engine computes
/// them in the type of the values: the median of the integers 1 and 2 was 1.
fn with_double_percentiles(args: &mut [Expr], schema: &DFSchema) -> bool {
    match args.first_mut() {
        Some(value)
            if value.get_type(schema).is_ok_and(|of| element_type(&of).is_numeric() && of != DataType::Float64) =>
        {
            *value = cast(std::mem::take(value), DataType::Float64);
            true
        }
        _ => false,
    }
}

/// Casts a date or timestamp to which an interval with a finer unit is added. Returns whether it changed any.
fn with_one_unit(left: &mut Expr, op: Operator, right: &mut Expr, schema: &DFSchema) -> bool {
    if !matches!(op, Operator::Plus | Operator::Minus) {
        return false;
    }
    let (Ok(left_type), Ok(right_type)) = (left.get_type(schema), right.get_type(schema)) else { return false };
    if let Some(finer) = with_room_for(&left_type, (right, &right_type)) {
        *left = cast(std::mem::take(left), finer);
        return true;
    }
    if op == Operator::Plus
        && let Some(finer) = with_room_for(&right_type, (left, &left_type))
    {
        *right = cast(std::mem::take(right), finer);
        return true;
    }
    false
}

/// Returns the timestamp type to which an interval can be added without loss, if the date or timestamp does not have
/// it.
fn with_room_for(time: &DataType, (interval, interval_type): (&Expr, &DataType)) -> Option<DataType> {
    let DataType::Interval(unit) = interval_type else { return None };
    let needed = match interval {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(value)), _) => match value.nanoseconds {
            0 => return None,
            nanos if nanos % 1_000 == 0 => TimeUnit::Microsecond,
            _ => TimeUnit::Nanosecond,
        },
        Expr::Literal(ScalarValue::IntervalDayTime(Some(value)), _) if value.milliseconds == 0 => return None,
        _ => match unit {
            IntervalUnit::YearMonth => return None,
            IntervalUnit::DayTime => TimeUnit::Millisecond,
            IntervalUnit::MonthDayNano => TimeUnit::Nanosecond,
        },
    };
    match time {
        DataType::Date32 | DataType::Date64 => Some(DataType::Timestamp(needed.max(TimeUnit::Microsecond), None)),
        DataType::Timestamp(unit, zone) if *unit < needed && matches!(interval, Expr::Literal(..)) => {
            Some(DataType::Timestamp(needed, zone.clone()))
        }
        _ => None,
    }
}
