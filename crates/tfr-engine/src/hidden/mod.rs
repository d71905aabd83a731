//! Values hidden by a null: the fields of a null struct, the items of a null list, the entries of a null map.
//!
//! An Arrow array may store anything there, and SQL must never see it. Several functions of the engine read the stored
//! values without checking the nulls of the parents (apache/datafusion#25120, fixed after version 55;
//! apache/datafusion#25293). [`HideValues`] replaces field accesses by [`ExactField`], unnests structs with it, and
//! passes nested arguments of all other functions through [`Visible`].
//!
//! Upstream: apache/datafusion#25120, #25122, #25293, #25389. Held by `tests/tests/it/hidden.rs`.

mod field;
mod map_extract;
mod visible;

use std::collections::HashSet;
use std::sync::Arc;

use arrow_schema::{DataType, FieldRef};
use datafusion::functions::core::getfield::GetFieldFunc;
use datafusion::functions_nested::flatten::Flatten;
use datafusion::functions_nested::map_extract::MapExtract;
use datafusion::optimizer::AnalyzerRule;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, DFSchema, Result, plan_datafusion_err};
use datafusion_expr::expr::{Cast, HigherOrderFunction, ScalarFunction, TryCast};
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, Projection, ScalarUDF, Unnest, cast, lit};
use tfr_arrow::nested::{item, value_type, with_item};

use field::ExactField;
use map_extract::ExactMapExtract;
use visible::Visible;

use crate::expressions::{columns_of, rewrite_expressions};

/// Returns the functions that [`HideValues`] calls.
pub(crate) fn functions() -> [Arc<ScalarUDF>; 3] {
    [ExactField::function(), ExactMapExtract::function(), Visible::function()]
}

/// Rewrites expressions so that no function reads a value under a null. Requires coerced types.
#[derive(Debug)]
pub(crate) struct HideValues;

impl AnalyzerRule for HideValues {
    fn name(&self) -> &str {
        "hide_values"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(hide_in_plan).map(|plan| plan.data)
    }
}

fn hide_in_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let plan = match plan {
        LogicalPlan::Unnest(unnest) if !unnest.struct_type_columns.is_empty() => unnest_structs_by_field(unnest)?,
        plan => plan,
    };
    let columns = columns_of(&plan)?;
    rewrite_expressions(plan, |expr| {
        hide_in_expr(expr, &columns).transform_data(|expr| Ok(with_null_keys(expr, &columns)))
    })?
    .map_data(LogicalPlan::recompute_schema)
}

fn hide_in_expr(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expr {
        Expr::ScalarFunction(call) if call.func.inner().is::<GetFieldFunc>() => {
            Transformed::yes(ExactField::call(call.args))
        }
        Expr::ScalarFunction(call) if call.func.inner().is::<MapExtract>() => {
            let args = all_visible(call.args, schema).data;
            Transformed::yes(Expr::ScalarFunction(ScalarFunction { func: ExactMapExtract::function(), args }))
        }
        Expr::ScalarFunction(ScalarFunction { func, args })
            if !func.inner().is::<ExactField>() && !func.inner().is::<Visible>() =>
        {
            let args = if func.inner().is::<Flatten>() { lists_of_lists(args, schema) } else { args };
            all_visible(args, schema).update_data(|args| Expr::ScalarFunction(ScalarFunction { func, args }))
        }
        Expr::HigherOrderFunction(HigherOrderFunction { func, args }) => {
            all_visible(args, schema).update_data(|args| Expr::HigherOrderFunction(HigherOrderFunction { func, args }))
        }
        Expr::AggregateFunction(mut call) => {
            let args = all_visible(std::mem::take(&mut call.params.args), schema);
            args.update_data(|args| {
                call.params.args = args;
                Expr::AggregateFunction(call)
            })
        }
        Expr::WindowFunction(mut call) => {
            let args = all_visible(std::mem::take(&mut call.params.args), schema);
            args.update_data(|args| {
                call.params.args = args;
                Expr::WindowFunction(call)
            })
        }
        Expr::Cast(Cast { expr, field }) => {
            made_visible_to_cast(*expr, schema).update_data(|expr| Expr::Cast(Cast { expr: Box::new(expr), field }))
        }
        Expr::TryCast(TryCast { expr, field }) => made_visible_to_cast(*expr, schema)
            .update_data(|expr| Expr::TryCast(TryCast { expr: Box::new(expr), field })),
        expr => Transformed::no(expr),
    }
}

/// Rewrites a call that returns a dictionary so that no key points to a null: the engine evaluates only the values of
/// the dictionary. A cast of plain values makes null keys.
fn with_null_keys(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let is_computed = match &expr {
        Expr::ScalarFunction(call) => !call.func.inner().is::<ExactField>() && !call.func.inner().is::<Visible>(),
        Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) => {
            expr.get_type(schema).is_ok_and(|source| matches!(source, DataType::Dictionary(..)))
        }
        _ => false,
    };
    match is_computed && matches!(expr.get_type(schema), Ok(DataType::Dictionary(..))) {
        true => Transformed::yes(Visible::call(expr)),
        false => Transformed::no(expr),
    }
}

/// Rewrites the arguments of `flatten`, which converts inner fixed-size lists to lists. It would include the items of
/// null ones.
fn lists_of_lists(mut args: Vec<Expr>, schema: &DFSchema) -> Vec<Expr> {
    let list = |item: &FieldRef| match item.data_type() {
        DataType::FixedSizeList(inner, _) => {
            Some(Arc::new(item.as_ref().clone().with_data_type(DataType::List(Arc::clone(inner)))))
        }
        _ => None,
    };
    if let Some(arg) = args.first_mut() {
        let lists = match arg.get_type(schema) {
            Ok(DataType::FixedSizeList(..)) | Err(_) => None,
            Ok(lists) => item(&lists).and_then(list).map(|item| with_item(&lists, item)),
        };
        if let Some(lists) = lists {
            *arg = cast(made_visible(std::mem::take(arg), schema).data, lists);
        }
    }
    args
}

fn all_visible(args: Vec<Expr>, schema: &DFSchema) -> Transformed<Vec<Expr>> {
    let mut is_changed = false;
    let args = args.into_iter().map(|arg| {
        let arg = made_visible(arg, schema);
        is_changed |= arg.transformed;
        arg.data
    });
    let args = args.collect();
    if is_changed { Transformed::yes(args) } else { Transformed::no(args) }
}

/// Hides the values under nulls of an expression, if its type can have any.
fn made_visible(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let is_plain = match &expr {
        Expr::Literal(..) | Expr::Lambda(_) => true,
        Expr::ScalarFunction(call) if call.func.inner().is::<Visible>() => true,
        // A type that is not known here may be any.
        expr => expr.get_type(schema).is_ok_and(|data_type| !value_type(&data_type).is_nested()),
    };
    if is_plain { Transformed::no(expr) } else { Transformed::yes(Visible::call(expr)) }
}

/// Hides the values under nulls of the operand of a cast. A cast of a dictionary to text views ignores the nulls among
/// its values.
fn made_visible_to_cast(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let is_dictionary = expr.get_type(schema).is_ok_and(|data_type| matches!(data_type, DataType::Dictionary(..)));
    match &expr {
        Expr::ScalarFunction(call) if call.func.inner().is::<Visible>() => Transformed::no(expr),
        Expr::Literal(..) => Transformed::no(expr),
        _ if is_dictionary => Transformed::yes(Visible::call(expr)),
        _ => made_visible(expr, schema),
    }
}

/// Unnests structs with field accesses. The engine's operator ignores the nulls of the struct, and declares the fields
/// as required where the struct does.
fn unnest_structs_by_field(unnest: Unnest) -> Result<LogicalPlan> {
    let Unnest { input, exec_columns, struct_type_columns, dependency_indices, schema, options, .. } = unnest;
    let structs: HashSet<usize> = struct_type_columns.into_iter().collect();
    let columns = Arc::clone(input.schema());
    let mut lists = Vec::new();
    for column in exec_columns {
        if !structs.contains(&columns.index_of_column(&column)?) {
            lists.push(column);
        }
    }
    let input = match lists.is_empty() {
        true => input,
        false => Arc::new(LogicalPlan::Unnest(Unnest::try_new(input, lists, options)?)),
    };
    let mut exprs = Vec::with_capacity(dependency_indices.len());
    let mut previous = None;
    let mut position = 0;
    for (source, (qualifier, field)) in dependency_indices.into_iter().zip(schema.iter()) {
        if !structs.contains(&source) {
            exprs.push(Expr::Column(Column::from((qualifier, field))));
            continue;
        }
        position = if previous == Some(source) { position + 1 } else { 0 };
        previous = Some(source);
        let (of, column) = columns.qualified_field(source);
        let child = match column.data_type() {
            DataType::Struct(children) => children.get(position),
            _ => None,
        };
        let child = child.ok_or_else(|| plan_datafusion_err!("{} has no field for {}", column.name(), field.name()))?;
        let access = ExactField::call(vec![Expr::Column(Column::from((of, column))), lit(child.name().as_str())]);
        exprs.push(access.alias_qualified(qualifier.cloned(), field.name()));
    }
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, input)?))
}
