//! [`Domain`]: evaluates a correlated subquery for all values of its outer columns.
//!
//! The distinct values of the outer columns are joined with the relations that the subquery reads, and carried through
//! its operators: aggregates group by them, window functions partition by them, joins match them. The method is known
//! as unnesting arbitrary queries (Neumann and Kemper, 2015).

use std::sync::Arc;

use datafusion::error::{DataFusionError, Result};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{
    Expr, ExprFunctionExt as _, ExprSchemable as _, JoinType, LogicalPlan, LogicalPlanBuilder, lit, when,
};
use datafusion_common::tree_node::{Transformed, TransformedResult as _, TreeNode as _, TreeNodeRecursion};
use datafusion_common::{Column, ScalarValue, not_impl_err};
use datafusion_expr::expr::WindowFunction;
use datafusion_expr::utils::split_conjunction_owned;
use datafusion_expr::{
    Aggregate, Distinct, Filter, Join, Limit, Operator, Projection, SortExpr, SubqueryAlias, Union, Unnest, Window,
    binary_expr,
};

use super::outer::{refers_to, uses_any};
use super::plans::{with_inputs, with_names_of};
use super::{FreshNames, is_volatile, refuse};
use crate::no_keys;
use crate::orders::{depends_on_order, is_ordered};

/// The distinct values of outer columns.
#[derive(Debug)]
pub struct Domain<'a> {
    base: &'a LogicalPlan,
    outer: Vec<Column>,
    names: &'a mut FreshNames,
}

/// Rejects an order that another operator takes from below it.
fn refuse_order<T>() -> Result<T> {
    not_impl_err!(
        "ORDER BY of a derived table in a subquery that refers to columns of the query around it; write ORDER BY next to LIMIT, \
         or in the aggregate or window"
    )
}

/// A plan, and its columns that contain the values of the outer columns.
type Evaluated = (LogicalPlan, Vec<Column>);

impl<'a> Domain<'a> {
    /// Creates the domain of the columns `outer` of `base`, which must return the same rows each time it runs.
    pub fn new(base: &'a LogicalPlan, outer: Vec<Column>, names: &'a mut FreshNames) -> Result<Self> {
        let mut unstable = is_volatile(base)?;
        if base.exists(|plan| Ok(matches!(plan, LogicalPlan::Aggregate(_))))? {
            for column in &outer {
                let data_type = Expr::Column(column.clone()).get_type(base.schema())?;
                // A sum of floats and a collected list depend on the order of the rows.
                unstable |= data_type.is_floating() || data_type.is_nested();
            }
        }
        if unstable {
            return refuse(
                "this correlated subquery needs the rows of the query around it twice, and they may differ: they come from a \
                 LIMIT, a window function, a sum of floats or a function such as random()",
            );
        }
        Ok(Self { base, outer, names })
    }

    /// Returns the relation of the values.
    fn relation(&mut self) -> Result<Evaluated> {
        let names: Vec<_> = self.outer.iter().map(|_| self.names.next("outer")).collect();
        let exprs = self.outer.iter().zip(&names).map(|(column, name)| Expr::Column(column.clone()).alias(name));
        let exprs: Vec<_> = exprs.collect();
        let plan = LogicalPlanBuilder::from(self.base.clone()).project(exprs)?.distinct()?.build()?;
        Ok((plan, names.into_iter().map(Column::new_unqualified).collect()))
    }

    /// Evaluates `plan` for each value. Returns its columns and those of the values.
    pub fn evaluate(&mut self, plan: &LogicalPlan) -> Result<Evaluated> {
        if !refers_to(plan, &self.outer)? {
            let (values, columns) = self.relation()?;
            return Ok((LogicalPlanBuilder::from(plan.clone()).cross_join(values)?.build()?, columns));
        }
        if !matches!(plan, LogicalPlan::Limit(_)) && depends_on_order(plan) && plan.inputs().into_iter().all(is_ordered)
        {
            return refuse_order();
        }
        match plan {
            LogicalPlan::Filter(Filter { predicate, input, .. }) => {
                let (input, values) = self.evaluate(input)?;
                let predicate = self.with_values(predicate, &values)?;
                Ok((LogicalPlanBuilder::from(input).filter(predicate)?.build()?, values))
            }
            LogicalPlan::Projection(projection) => self.projection(projection),
            LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, .. }) => {
                let (input, values) = self.evaluate(input)?;
                Ok((LogicalPlanBuilder::from(input).alias(alias.clone())?.build()?, values))
            }
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let (input, values) = self.evaluate(input)?;
                Ok((LogicalPlanBuilder::from(input).distinct()?.build()?, values))
            }
            LogicalPlan::Sort(_) => refuse_order(),
            LogicalPlan::Limit(limit) => self.limit(limit),
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Window(window) => self.window(window),
            LogicalPlan::Union(union) => self.union(union),
            LogicalPlan::Unnest(unnest) => {
                let (input, values) = self.evaluate(&unnest.input)?;
                let unnest = Unnest::try_new(Arc::new(input), unnest.exec_columns.clone(), unnest.options.clone())?;
                Ok((no_keys::hide_keys(LogicalPlan::Unnest(unnest))?, values))
            }
            // A LATERAL subquery that is the first relation.
            LogicalPlan::Subquery(subquery) => self.evaluate(&subquery.subquery),
            other => {
                refuse(&format!("a subquery cannot refer to columns of the query around it here: {}", other.display()))
            }
        }
    }

    /// Replaces outer columns in `expr` by columns of values.
    fn with_values(&self, expr: &Expr, values: &[Column]) -> Result<Expr> {
        expr.clone()
            .transform(|expr| match &expr {
                Expr::OuterReferenceColumn(_, column) => {
                    match self.outer.iter().position(|outer| outer == column).and_then(|position| values.get(position))
                    {
                        Some(value) => Ok(Transformed::yes(Expr::Column(value.clone()))),
                        None => Ok(Transformed::no(expr)),
                    }
                }
                _ => Ok(Transformed::no(expr)),
            })
            .data()
    }

    fn projection(&mut self, projection: &Projection) -> Result<Evaluated> {
        let (input, values) = self.evaluate(&projection.input)?;
        let mut exprs = Vec::with_capacity(projection.expr.len() + values.len());
        for (expr, name) in projection.expr.iter().zip(projection.schema.columns()) {
            let replaced = self.with_values(expr, &values)?;
            // An expression over outer columns would get another name.
            exprs.push(match replaced == *expr {
                true => replaced,
                false => replaced.unalias().alias_qualified(name.relation, name.name),
            });
        }
        exprs.extend(values.iter().cloned().map(Expr::Column));
        Ok((LogicalPlanBuilder::from(input).project(exprs)?.build()?, values))
    }

    fn aggregate(&mut self, aggregate: &Aggregate) -> Result<Evaluated> {
        let (input, values) = self.evaluate(&aggregate.input)?;
        if aggregate.group_expr.iter().any(|group| matches!(group, Expr::GroupingSet(_))) {
            return refuse("grouping sets in a subquery cannot refer to columns of the query around it");
        }
        let value_exprs = values.iter().cloned().map(Expr::Column);
        let mut groups: Vec<_> = value_exprs.clone().collect();
        // A group key that is one of the values is not added twice.
        let mut positions = Vec::with_capacity(aggregate.group_expr.len());
        for group in &aggregate.group_expr {
            let group = self.with_values(group, &values)?;
            positions.push(groups.iter().position(|known| *known == group).unwrap_or(groups.len()));
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        let aggregates = aggregate.aggr_expr.iter().map(|expr| self.with_values(expr, &values));
        let aggregates = aggregates.collect::<Result<Vec<_>>>()?;
        positions.extend(groups.len()..groups.len() + aggregates.len());
        let grouped = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(input), groups, aggregates)?);
        let grouped_columns = grouped.schema().columns();
        let (keys, rest) = grouped_columns.split_at(values.len());
        let names = aggregate.schema.columns();
        if !aggregate.group_expr.is_empty() {
            let mut exprs = Vec::new();
            for (position, name) in positions.into_iter().zip(names) {
                let Some(column) = grouped_columns.get(position) else {
                    return datafusion_common::internal_err!("an aggregate without column {position}");
                };
                exprs.push(Expr::Column(column.clone()).alias_qualified(name.relation, name.name));
            }
            exprs.extend(value_exprs);
            return Ok((LogicalPlanBuilder::from(grouped).project(exprs)?.build()?, values));
        }
        // Without GROUP BY there is a row for every value, even if nothing was aggregated.
        let found = self.names.next("found");
        let mut exprs: Vec<_> = keys.iter().cloned().map(Expr::Column).collect();
        let aliases: Vec<_> = rest.iter().map(|_| self.names.next("aggregate")).collect();
        exprs.extend(rest.iter().zip(&aliases).map(|(column, alias)| Expr::Column(column.clone()).alias(alias)));
        exprs.push(lit(true).alias(&found));
        let grouped = LogicalPlanBuilder::from(grouped).project(exprs)?.build()?;
        let (domain, domain_columns) = self.relation()?;
        let joined = LogicalPlanBuilder::from(domain)
            .join_on(grouped, JoinType::Left, same_values(&domain_columns, keys))?
            .build()?;
        let mut exprs = Vec::new();
        for ((alias, name), expr) in aliases.into_iter().zip(names).zip(&aggregate.aggr_expr) {
            let value = Expr::Column(Column::new_unqualified(alias));
            let value = or_default(value, Expr::Column(Column::new_unqualified(&found)), expr, &aggregate.input)?;
            exprs.push(value.alias_qualified(name.relation, name.name));
        }
        exprs.extend(domain_columns.iter().cloned().map(Expr::Column));
        Ok((LogicalPlanBuilder::from(joined).project(exprs)?.build()?, domain_columns))
    }

    fn limit(&mut self, limit: &Limit) -> Result<Evaluated> {
        // A projection commutes with a limit.
        if let LogicalPlan::Projection(projection) = limit.input.as_ref() {
            let limited = Limit { input: Arc::clone(&projection.input), ..limit.clone() };
            let limited = Arc::new(LogicalPlan::Limit(limited));
            return self.projection(&Projection::try_new(projection.expr.clone(), limited)?);
        }
        let (input, order) = match limit.input.as_ref() {
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => (&sort.input, sort.expr.clone()),
            input if is_ordered(input) => return refuse_order(),
            _ => (&limit.input, Vec::new()),
        };
        let (input, values) = self.evaluate(input)?;
        let mut keys = Vec::with_capacity(order.len());
        for SortExpr { expr, asc, nulls_first } in order {
            keys.push(SortExpr::new(self.with_values(&expr, &values)?, asc, nulls_first));
        }
        let number = self.names.next("number");
        let columns: Vec<_> = (0..input.schema().fields().len()).collect();
        let schema = Arc::clone(input.schema());
        let window =
            row_number().partition_by(values.iter().cloned().map(Expr::Column).collect()).order_by(keys).build()?;
        let numbered = LogicalPlanBuilder::from(input).window([window])?.build()?;
        let Some(numbers) = numbered.schema().columns().pop() else {
            return datafusion_common::internal_err!("a window without columns");
        };
        let all = schema.columns().into_iter().map(Expr::Column);
        let exprs: Vec<_> = all.chain([Expr::Column(numbers).alias(&number)]).collect();
        let mut builder = LogicalPlanBuilder::from(numbered).project(exprs)?;
        let int = |expr: &Expr| expr.clone().cast_to(&arrow_schema::DataType::UInt64, builder.schema());
        let number = Expr::Column(Column::new_unqualified(number));
        let skip = limit.skip.as_deref().map(int).transpose()?.unwrap_or_else(|| lit(0_u64));
        let mut condition = number.clone().gt(skip.clone());
        if let Some(fetch) = limit.fetch.as_deref() {
            condition = condition.and(number.lt_eq(binary_expr(skip, Operator::Plus, int(fetch)?)));
        }
        builder = builder.filter(condition)?;
        Ok((with_names_of(builder.build()?, &schema, &columns)?, values))
    }

    fn join(&mut self, join: &Join) -> Result<Evaluated> {
        let (in_left, in_right) = (refers_to(&join.left, &self.outer)?, refers_to(&join.right, &self.outer)?);
        let on = join.on.iter().flat_map(|(left, right)| [left, right]).chain(&join.filter);
        let in_condition = on.into_iter().any(|expr| uses_any(expr, &self.outer));
        // A side whose unmatched rows are in the result requires the values. The other side requires them only for its
        // references.
        let (left_kept, right_kept) = match join.join_type {
            JoinType::Inner => (in_condition && !in_right, false),
            JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => (true, false),
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => (false, true),
            JoinType::Full => {
                return refuse("a FULL JOIN in a subquery cannot use columns of the query around it");
            }
        };
        if join.null_aware && in_right {
            return refuse("this NOT IN cannot be nested in a subquery that refers to columns of the query around it");
        }
        let mut evaluated = |plan: &Arc<LogicalPlan>, refers: bool| {
            if refers {
                self.evaluate(plan).map(|(plan, values)| (plan, Some(values)))
            } else {
                Ok((plan.as_ref().clone(), None))
            }
        };
        let (left, left_values) = evaluated(&join.left, in_left || left_kept)?;
        let (right, right_values) = evaluated(&join.right, in_right || right_kept)?;
        let (values, same) = match (left_values, right_values) {
            (Some(left), Some(right)) => {
                let same = same_values(&left, &right);
                (if right_kept { right } else { left }, same)
            }
            (Some(values), None) | (None, Some(values)) => (values, Vec::new()),
            (None, None) => return datafusion_common::internal_err!("a join without outer columns"),
        };
        let mut on = Vec::with_capacity(join.on.len());
        for (left, right) in &join.on {
            on.push((self.with_values(left, &values)?, self.with_values(right, &values)?));
        }
        let filter = join.filter.as_ref().map(|filter| self.with_values(filter, &values)).transpose()?;
        let conjuncts = filter.map(split_conjunction_owned).unwrap_or_default();
        let filter = datafusion_expr::utils::conjunction(conjuncts.into_iter().chain(same));
        let joined = with_inputs(&Join { on, filter, ..join.clone() }, left, right)?;
        Ok((LogicalPlan::Join(joined), values))
    }

    fn window(&mut self, window: &Window) -> Result<Evaluated> {
        let (input, values) = self.evaluate(&window.input)?;
        let inner = input.schema().fields().len();
        let exprs = window.window_expr.iter().map(|expr| {
            self.with_values(expr, &values)?
                .transform_down(|expr| match expr {
                    Expr::WindowFunction(function) => {
                        let WindowFunction { fun, mut params } = *function;
                        params.partition_by.extend(values.iter().cloned().map(Expr::Column));
                        let function = Expr::WindowFunction(Box::new(WindowFunction { fun, params }));
                        Ok(Transformed::new(function, true, TreeNodeRecursion::Jump))
                    }
                    other => Ok(Transformed::no(other)),
                })
                .data()
        });
        let exprs = exprs.collect::<Result<Vec<_>>>()?;
        let computed = LogicalPlan::Window(Window::try_new(exprs, Arc::new(input))?);
        let columns = computed.schema().columns();
        let (before, added) = columns.split_at(inner);
        let names = window.schema.columns().into_iter().skip(window.input.schema().fields().len());
        let mut exprs: Vec<_> = before.iter().cloned().map(Expr::Column).collect();
        for (column, name) in added.iter().zip(names) {
            exprs.push(Expr::Column(column.clone()).alias_qualified(name.relation, name.name));
        }
        Ok((LogicalPlanBuilder::from(computed).project(exprs)?.build()?, values))
    }

    fn union(&mut self, union: &Union) -> Result<Evaluated> {
        let names: Vec<_> = self.outer.iter().map(|_| Column::new_unqualified(self.names.next("outer"))).collect();
        let wanted = union.schema.columns();
        let mut inputs = Vec::with_capacity(union.inputs.len());
        for input in &union.inputs {
            let inner = input.schema().columns();
            let (plan, values) = self.evaluate(input)?;
            let columns = inner.into_iter().zip(&wanted);
            let mut exprs: Vec<_> = columns
                .map(|(column, name)| Expr::Column(column).alias_qualified(name.relation.clone(), name.name.clone()))
                .collect();
            exprs.extend(values.into_iter().zip(&names).map(|(value, name)| Expr::Column(value).alias(&name.name)));
            inputs.push(Arc::new(LogicalPlanBuilder::from(plan).project(exprs)?.build()?));
        }
        let plan = LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?);
        let all: Vec<_> =
            plan.schema().columns().into_iter().zip(wanted.into_iter().chain(names.iter().cloned())).collect();
        let exprs = all.into_iter().map(|(column, name)| match column == name {
            true => Expr::Column(column),
            false => Expr::Column(column).alias_qualified(name.relation, name.name),
        });
        let exprs: Vec<_> = exprs.collect();
        Ok((LogicalPlanBuilder::from(plan).project(exprs)?.build()?, names))
    }
}

/// Returns the conditions that two relations have the same values.
fn same_values(left: &[Column], right: &[Column]) -> Vec<Expr> {
    left.iter()
        .zip(right)
        .map(|(left, right)| {
            binary_expr(Expr::Column(left.clone()), Operator::IsNotDistinctFrom, Expr::Column(right.clone()))
        })
        .collect()
}

/// Returns `value`, or the result of `aggregate` for no rows where nothing was found.
pub fn or_default(value: Expr, found: Expr, aggregate: &Expr, input: &LogicalPlan) -> Result<Expr> {
    let default = default_value(aggregate, input)?;
    if default.is_null() {
        return Ok(value);
    }
    when(Expr::IsNull(Box::new(found)), lit(default)).otherwise(value)
}

/// Returns the result of an aggregate for no rows.
fn default_value(aggregate: &Expr, input: &LogicalPlan) -> Result<ScalarValue> {
    match aggregate {
        Expr::Alias(alias) => default_value(&alias.expr, input),
        Expr::AggregateFunction(function) => {
            let data_type = aggregate.get_type(input.schema())?;
            function.func.default_value(&data_type)
        }
        other => Err(DataFusionError::Internal(format!("not an aggregate: {other}"))),
    }
}
