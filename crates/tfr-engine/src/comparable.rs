//! Comparisons of floating-point numbers and intervals, by the rules of PostgreSQL. NaN equals NaN and is greater than
//! every other number, and 0 equals -0. Intervals compare by length, where a month has 30 days and a day 24 hours.
//!
//! The engine compares by sign and bits in many cases. `-0.0 IN (0.0, ...)` was false, and 0 and -0 were different
//! peers of a window. A NaN with a sign, which the processor returns for `inf - inf`, was less than all numbers and
//! formed its own group. A month was longer than 31 days. Where this can matter, compared values are passed through
//! [`Comparable`] first.
//!
//! Upstream: ours (a choice of meaning). Held by `tests/slt/equal_values.slt`: NaN as it is computed has a sign

pub(crate) mod values;
mod windows;

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::config::ConfigOptions;
use datafusion::optimizer::AnalyzerRule;
use datafusion_common::tree_node::{Transformed, TreeNode as _};
use datafusion_common::{Column, DFSchema, JoinConstraint, Result, ScalarValue, plan_err};
use datafusion_expr::expr::{AggregateFunction, InList, ScalarFunction, Sort as SortExpr, WindowFunction};
use datafusion_expr::utils::grouping_set_to_exprlist;
use datafusion_expr::{
    Aggregate, Between, BinaryExpr, Case, Distinct, DistinctOn, Expr, ExprSchemable as _, LogicalPlan,
    LogicalPlanBuilder, Operator, RecursiveQuery, ScalarUDF, Sort,
};

use crate::aggregates::exact_min;
use crate::expressions::{columns_of, is_comparison, rewrite_expressions};
use crate::group_keys::{ComputedKey, with_computed_keys};
pub use values::Comparable;
use values::comparable;
use values::{is_interval, items_may_be_misread, may_be_misread};
pub use windows::FramesOfGroups;

/// Functions that search lists. Their results contain no values of the list.
const SEARCHES: [&str; 5] = ["array_has", "array_has_all", "array_has_any", "array_position", "array_positions"];

/// Makes compared, sorted and grouped values comparable.
#[derive(Debug)]
pub struct ComparableValues(Arc<ScalarUDF>);

impl Default for ComparableValues {
    fn default() -> Self {
        Self(Comparable::function())
    }
}

impl AnalyzerRule for ComparableValues {
    fn name(&self) -> &str {
        "comparable_values"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(|plan| {
            let schema = columns_of(&plan)?;
            let plan = rewrite_expressions(plan, |expr| self.rewrite(expr, &schema))?;
            plan.transform_data(|plan| match plan {
                LogicalPlan::Sort(Sort { expr, input, fetch }) => {
                    let (expr, changed) = self.sorted(expr, &schema);
                    Ok(Transformed::new_transformed(LogicalPlan::Sort(Sort { expr, input, fetch }), changed))
                }
                LogicalPlan::Join(mut join) => {
                    let mut changed = false;
                    for key in join.on.iter_mut().flat_map(|(left, right)| [left, right]) {
                        if is_misread(key, &schema) && !self.is_comparable(key) {
                            *key = self.comparable(std::mem::take(key), &schema);
                            changed = true;
                        }
                    }
                    // The keys of USING must be columns. Their names have been resolved by now.
                    if changed {
                        join.join_constraint = JoinConstraint::On;
                    }
                    Ok(Transformed::new_transformed(LogicalPlan::Join(join), changed))
                }
                LogicalPlan::Aggregate(aggregate) => self.grouped(aggregate, &schema),
                LogicalPlan::Distinct(distinct) => self.distinct(distinct, &schema),
                LogicalPlan::RecursiveQuery(query) if query.is_distinct => self.recursive(query),
                other => Ok(Transformed::no(other)),
            })
        })?;
        Ok(plan.data)
    }
}

impl ComparableValues {
    fn rewrite(&self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        Ok(match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right })
                if is_comparison(op) && (is_misread(&left, schema) || is_misread(&right, schema)) =>
            {
                self.compared(*left, op, *right, schema)
            }
            Expr::Between(Between { expr, negated, low, high }) if is_misread(&expr, schema) => {
                let (low_op, high_op) = match negated {
                    false => (Operator::GtEq, Operator::LtEq),
                    true => (Operator::Lt, Operator::Gt),
                };
                let low = self.compared((*expr).clone(), low_op, *low, schema).data;
                let high = self.compared(*expr, high_op, *high, schema).data;
                Transformed::yes(if negated { low.or(high) } else { low.and(high) })
            }
            Expr::InList(list) if is_misread(&list.expr, schema) => self.in_list(list, schema),
            Expr::Case(Case { expr: Some(value), when_then_expr, else_expr }) if is_misread(&value, schema) => {
                let whens =
                    when_then_expr.into_iter().map(|(when, then)| (Box::new(self.comparable(*when, schema)), then));
                Transformed::yes(Expr::Case(Case {
                    expr: Some(Box::new(self.comparable(*value, schema))),
                    when_then_expr: whens.collect(),
                    else_expr,
                }))
            }
            Expr::ScalarFunction(ScalarFunction { func, mut args })
                if func.name() == "nullif" && args.len() == 2 && args.iter().all(|arg| is_misread(arg, schema)) =>
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
                    && args.iter().any(|arg| is_of_intervals(arg, schema)) =>
            {
                return plan_err!(
                    "{} of intervals is not supported: write CASE WHEN a > b THEN a ELSE b END",
                    func.name()
                );
            }
            Expr::ScalarFunction(ScalarFunction { func, args })
                if matches!(func.name(), "greatest" | "least")
                    && args.iter().any(|arg| is_misread(arg, schema) && !self.is_comparable(arg)) =>
            {
                let args = args
                    .into_iter()
                    .map(|arg| if is_misread(&arg, schema) { self.comparable(arg, schema) } else { arg });
                Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args: args.collect() }))
            }
            Expr::ScalarFunction(ScalarFunction { func, args })
                if SEARCHES.contains(&func.name()) && args.iter().any(|arg| is_list_of_misread(arg, schema)) =>
            {
                let mut changed = false;
                let args = args.into_iter().map(|arg| match () {
                    () if self.is_comparable(&arg) => arg,
                    () if is_list_of_misread(&arg, schema) => {
                        changed = true;
                        self.called(arg, schema)
                    }
                    () if is_misread(&arg, schema) => self.comparable(arg, schema),
                    () => arg,
                });
                let args = args.collect();
                Transformed::new_transformed(Expr::ScalarFunction(ScalarFunction { func, args }), changed)
            }
            Expr::WindowFunction(mut window) => {
                let WindowFunction { fun, params } = window.as_mut();
                let (order_by, sorted) = self.sorted(std::mem::take(&mut params.order_by), schema);
                params.order_by = order_by;
                let mut changed = sorted;
                if params.distinct {
                    changed |= self.distinct_arguments(fun.name(), &mut params.args, schema)?;
                }
                for key in &mut params.partition_by {
                    if is_misread(key, schema) {
                        *key = self.comparable(std::mem::take(key), schema);
                        changed = true;
                    }
                }
                Transformed::new_transformed(Expr::WindowFunction(window), changed)
            }
            Expr::AggregateFunction(AggregateFunction { func, mut params }) => {
                let (order_by, mut changed) = self.sorted(std::mem::take(&mut params.order_by), schema);
                params.order_by = order_by;
                if params.distinct {
                    changed |= self.distinct_arguments(func.name(), &mut params.args, schema)?;
                }
                Transformed::new_transformed(Expr::AggregateFunction(AggregateFunction { func, params }), changed)
            }
            other => Transformed::no(other),
        })
    }

    fn sorted(&self, keys: Vec<SortExpr>, schema: &DFSchema) -> (Vec<SortExpr>, bool) {
        let mut changed = false;
        let mut sorted = Vec::with_capacity(keys.len());
        for mut key in keys {
            if is_misread(&key.expr, schema) && !self.is_comparable(&key.expr) {
                changed = true;
                key.expr = self.comparable(key.expr, schema);
            } else if is_nested(&key.expr, schema) && key.asc == key.nulls_first {
                // The engine puts NULL in lists and structs where it puts NULL, but there it is greater than all values.
                changed = true;
                sorted.push(SortExpr { expr: key.expr.clone().is_null(), asc: !key.nulls_first, nulls_first: false });
                key.nulls_first = !key.asc;
            }
            sorted.push(key);
        }
        (sorted, changed)
    }

    /// Makes the arguments of an aggregate with DISTINCT comparable.
    fn distinct_arguments(&self, function: &str, args: &mut [Expr], schema: &DFSchema) -> Result<bool> {
        if matches!(function, "min" | "max") {
            return Ok(false);
        }
        let mut changed = false;
        for argument in args {
            if !is_misread(argument, schema) {
                continue;
            }
            // The results contain the converted values.
            if is_of_intervals(argument, schema) && function != "count" {
                return plan_err!(
                    "{function}(DISTINCT ...) of intervals is not supported: group by the interval first"
                );
            }
            *argument = self.comparable(std::mem::take(argument), schema);
            changed = true;
        }
        Ok(changed)
    }

    /// Groups by comparable keys. A group of equal intervals shows the one with the fewest months, then days.
    fn grouped(&self, aggregate: Aggregate, schema: &DFSchema) -> Result<Transformed<LogicalPlan>> {
        let keys = grouping_set_to_exprlist(&aggregate.group_expr)?;
        let misread = keys.into_iter().filter(|key| is_misread(key, schema));
        let computed: Vec<_> = misread
            .map(|key| {
                let value = key.clone().unalias();
                let shown = is_of_intervals(key, schema).then(|| exact_min().call(vec![value.clone()]));
                ComputedKey { key: key.clone(), value: self.comparable(value, schema), shown }
            })
            .collect();
        with_computed_keys(aggregate, computed)
    }

    /// Rewrites DISTINCT to use comparable columns.
    fn distinct(&self, distinct: Distinct, schema: &DFSchema) -> Result<Transformed<LogicalPlan>> {
        let columns = schema.columns().into_iter().map(Expr::Column);
        match distinct {
            Distinct::On(DistinctOn { on_expr, select_expr, sort_expr, input, schema: selected }) => {
                let (sort_expr, _) = sort_expr.map_or((None, false), |keys| {
                    let (keys, changed) = self.sorted(keys, schema);
                    (Some(keys), changed)
                });
                let key = |expr| if is_misread(&expr, schema) { self.comparable(expr, schema) } else { expr };
                let on_expr = on_expr.into_iter().map(key).collect();
                let on = DistinctOn { on_expr, select_expr, sort_expr, input, schema: selected };
                Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::On(on))))
            }
            Distinct::All(input) if columns.clone().any(|column| is_of_intervals(&column, schema)) => {
                self.grouped(Aggregate::try_new(input, columns.collect(), Vec::new())?, schema)
            }
            Distinct::All(input) if columns.clone().any(|column| is_misread(&column, schema)) => {
                let input = Arc::new(self.comparable_columns(Arc::unwrap_or_clone(input))?);
                Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::All(input))))
            }
            all @ Distinct::All(_) => Ok(Transformed::no(LogicalPlan::Distinct(all))),
        }
    }

    /// Rewrites a recursive query with UNION, which ends when there are no new rows.
    fn recursive(&self, query: RecursiveQuery) -> Result<Transformed<LogicalPlan>> {
        let schema = Arc::clone(&query.schema);
        if !schema.fields().iter().any(|field| may_be_misread(field.data_type())) {
            return Ok(Transformed::no(LogicalPlan::RecursiveQuery(query)));
        }
        if schema.fields().iter().any(|field| is_interval(field.data_type())) {
            return plan_err!("a recursive query with UNION over intervals is not supported: use UNION ALL");
        }
        let RecursiveQuery { name, static_term, recursive_term, is_distinct, .. } = query;
        let term = |term| {
            Ok::<_, datafusion_common::DataFusionError>(Arc::new(self.comparable_columns(Arc::unwrap_or_clone(term))?))
        };
        let (static_term, recursive_term) = (term(static_term)?, term(recursive_term)?);
        let query = RecursiveQuery { name, static_term, recursive_term, is_distinct, schema };
        Ok(Transformed::yes(LogicalPlan::RecursiveQuery(query)))
    }

    /// Returns the rows of a plan with comparable values.
    fn comparable_columns(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let schema = Arc::clone(plan.schema());
        let column = |column: Column| {
            let expr = Expr::Column(column.clone());
            if is_misread(&expr, &schema) {
                self.comparable(expr, &schema).alias_qualified(column.relation, column.name)
            } else {
                expr
            }
        };
        let columns: Vec<_> = schema.columns().into_iter().map(column).collect();
        LogicalPlanBuilder::from(plan).project(columns)?.build()
    }

    /// Rewrites a comparison. A comparison with a number stays unchanged if NaN and zeros make no difference, so that
    /// file statistics can be used.
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
            // A NaN with a sign is less than all numbers here. The second comparison removes it.
            Some(Operator::Lt | Operator::LtEq) if matches!(other, Expr::Column(_)) => {
                Transformed::yes(compare(left, right).and(exact))
            }
            _ => Transformed::yes(exact),
        }
    }

    fn in_list(&self, list: InList, schema: &DFSchema) -> Transformed<Expr> {
        let InList { expr, list, negated } = list;
        let mut list: Vec<Expr> = list.into_iter().map(with_one_zero).collect();
        // Comparisons with numbers only stay unchanged, because the list contains both zeros.
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
            literal @ Expr::Literal(..) if !is_of_intervals(&literal, schema) => literal,
            expr if self.is_comparable(&expr) => expr,
            expr => self.called(expr, schema),
        }
    }

    fn called(&self, expr: Expr, schema: &DFSchema) -> Expr {
        Expr::ScalarFunction(ScalarFunction { func: Arc::clone(&self.0), args: vec![qualified(expr, schema)] })
    }

    fn is_comparable(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::ScalarFunction(ScalarFunction { func, .. }) if func.name() == Comparable::NAME)
    }
}

/// Qualifies the columns of an expression with the tables of the schema. If a join key is an expression, the engine
/// turns it into a column, named once with the tables and once without.
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

fn is_list_of_misread(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|data_type| items_may_be_misread(&data_type))
}

/// Whether the engine may compare the values of an expression differently from SQL.
fn is_misread(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|data_type| may_be_misread(&data_type))
}

fn is_nested(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|data_type| data_type.is_list() || matches!(data_type, DataType::Struct(_)))
}

fn is_of_intervals(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|data_type| is_interval(&data_type))
}

/// Whether an expression is a numeric literal other than NaN.
fn is_number(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(ScalarValue::Float64(Some(value)), _) => !value.is_nan(),
        Expr::Literal(ScalarValue::Float32(Some(value)), _) => !value.is_nan(),
        Expr::Literal(ScalarValue::Float16(Some(value)), _) => !value.is_nan(),
        _ => false,
    }
}

/// Removes the sign of zero and NaN from a literal.
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

/// Returns -0 for 0.
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
