//! Decimals and doubles that meet in the rows of relations: in `UNION`, `VALUES`, `INTERSECT`, `USING` and
//! `IN (SELECT ...)`. Dates that meet numbers there are refused.

use std::fmt::Display;
use std::sync::Arc;

use arrow_schema::DataType;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{DFSchema, Result};
use datafusion_expr::expr::Cast;
use datafusion_expr::expr_rewriter::coerce_plan_expr_for_schema;
use datafusion_expr::logical_plan::Subquery;
use datafusion_expr::{Expr, ExprSchemable as _, Join, LogicalPlan, LogicalPlanBuilder, Union, Values, cast};

use super::literals::{literal, number_of_text};
use super::recursion::with_exact_terms;
use super::{as_double, common_number, meet_as_doubles, no_date_meets_a_number};

/// Gives the numbers of rows from several inputs one type.
pub fn with_exact_rows(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Union(union) => union_of_numbers(union),
        LogicalPlan::Join(join) => keys_of_numbers(join),
        LogicalPlan::Values(values) => values_of_numbers(values),
        LogicalPlan::RecursiveQuery(query) => with_exact_terms(query),
        other => Ok(Transformed::no(other)),
    }
}

/// Gives the columns of a union that contain numbers of several types one type. Until the engine does so, the schema
/// has the types of the first input, and a decimal could not be told from an integer.
fn union_of_numbers(Union { inputs, schema }: Union) -> Result<Transformed<LogicalPlan>> {
    let types = |column| inputs.iter().map(move |input| input.schema().field(column).data_type());
    for column in 0..schema.fields().len() {
        let fields = inputs.iter().map(|input| input.schema().field(column));
        let typed = fields.map(|field| (field.data_type().clone(), field.name() as &dyn Display));
        no_date_meets_a_number(&typed.collect::<Vec<_>>())?;
    }
    let common: Vec<Option<DataType>> = (0..schema.fields().len())
        .map(|column| {
            let number = common_number(&types(column).collect::<Vec<_>>())?;
            let differs = |data_type: &DataType| *data_type != number;
            (types(column).any(differs) || differs(schema.field(column).data_type())).then_some(number)
        })
        .collect();
    if common.iter().all(Option::is_none) {
        return Ok(Transformed::no(LogicalPlan::Union(Union { inputs, schema })));
    }
    let inputs = inputs
        .into_iter()
        .map(|input| {
            let typed = with_types(input.schema(), &common)?;
            Ok(Arc::new(coerce_plan_expr_for_schema(Arc::unwrap_or_clone(input), &typed)?))
        })
        .collect::<Result<Vec<_>>>()?;
    let schema = Arc::new(with_types(&schema, &common)?);
    Ok(Transformed::yes(LogicalPlan::Union(Union { inputs, schema })))
}

/// Returns a schema with other types for some of its columns.
fn with_types(schema: &DFSchema, types: &[Option<DataType>]) -> Result<DFSchema> {
    let fields = schema.iter().zip(types).map(|((qualifier, field), data_type)| {
        let field = match data_type {
            Some(data_type) => Arc::new(field.as_ref().clone().with_data_type(data_type.clone())),
            None => Arc::clone(field),
        };
        (qualifier.cloned(), field)
    });
    DFSchema::new_with_metadata(fields.collect(), schema.metadata().clone())
}

/// Casts the decimals among the keys of a join to doubles where they are compared with doubles.
fn keys_of_numbers(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    let mut changed = false;
    for (left, right) in &mut join.on {
        let (left_type, right_type) = (left.get_type(join.left.schema()), right.get_type(join.right.schema()));
        let (Ok(left_type), Ok(right_type)) = (left_type, right_type) else { continue };
        no_date_meets_a_number(&[(left_type.clone(), left), (right_type.clone(), right)])?;
        if meet_as_doubles([&left_type, &right_type].into_iter()) {
            for (key, data_type) in [(left, left_type), (right, right_type)] {
                if let Some(double) = as_double(&data_type) {
                    *key = cast(std::mem::take(key), double);
                    changed = true;
                }
            }
        }
    }
    Ok(Transformed::new_transformed(LogicalPlan::Join(join), changed))
}

/// Gives the columns of `VALUES` that the engine made decimals the type of all their numbers: of doubles, which it
/// converts to decimals, and of texts, which it rounds.
fn values_of_numbers(Values { schema, mut values }: Values) -> Result<Transformed<LogicalPlan>> {
    let empty = DFSchema::empty();
    let mut changed = false;
    for (column, field) in schema.fields().iter().enumerate().filter(|(_, field)| field.data_type().is_decimal()) {
        let mut written = Vec::with_capacity(values.len());
        let mut types = Vec::with_capacity(values.len());
        let mut is_converted = false;
        for cell in values.iter().filter_map(|row| row.get(column)) {
            let cell = match cell {
                Expr::Cast(Cast { expr, field: to }) if to.data_type() == field.data_type() => {
                    let from = expr.get_type(&empty)?;
                    is_converted |= from.is_floating() || from.is_string();
                    let text = literal(expr).filter(|_| from.is_string());
                    let number = text.and_then(|text| number_of_text(text.try_as_str().flatten()?));
                    number.map_or_else(|| expr.as_ref().clone(), |number| Expr::Literal(number, None))
                }
                cell => cell.clone(),
            };
            types.push(cell.get_type(&empty)?);
            written.push(cell);
        }
        let Some(common) = common_number(&types.iter().collect::<Vec<_>>()).filter(|_| is_converted) else { continue };
        for (row, cell) in values.iter_mut().zip(written) {
            if let Some(place) = row.get_mut(column) {
                *place = cell.cast_to(&common, &empty)?;
                changed = true;
            }
        }
    }
    if !changed {
        return Ok(Transformed::no(LogicalPlan::Values(Values { schema, values })));
    }
    Ok(Transformed::yes(LogicalPlanBuilder::values(values)?.build()?))
}

/// Casts the decimals of a comparison with a subquery to doubles, if the other side has doubles. Returns whether it
/// changed any.
pub fn with_doubles_in(expr: &mut Expr, subquery: &mut Subquery, schema: &DFSchema) -> Result<bool> {
    let Some((qualifier, field)) = subquery.subquery.schema().iter().next() else { return Ok(false) };
    let Ok(data_type) = expr.get_type(schema) else { return Ok(false) };
    no_date_meets_a_number(&[(data_type.clone(), expr), (field.data_type().clone(), field.name())])?;
    if !meet_as_doubles([&data_type, field.data_type()].into_iter()) {
        return Ok(false);
    }
    if let Some(double) = as_double(&data_type) {
        *expr = cast(std::mem::take(expr), double);
    } else if let Some(double) = as_double(field.data_type()) {
        let column = cast(Expr::from((qualifier, field)), double).alias(field.name().as_str());
        let plan = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone()).project([column])?.build()?;
        subquery.subquery = Arc::new(plan);
    }
    Ok(true)
}
