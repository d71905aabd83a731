//! `TABLESAMPLE`: selects a random sample of a table's rows.
//!
//! The selection depends only on the seed and on the row numbers in the table, so it does not depend on the number of
//! threads. The table is therefore read in order, by one thread.
//!
//! Upstream: ours (a choice of meaning). Held by `tests/slt/sample.slt`: TABLESAMPLE: a random part of the rows of a table.

mod exec;
mod table;

use std::sync::Arc;

use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::error::Result;
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::sqlparser::ast::{
    TableFactor, TableSample, TableSampleKind, TableSampleMethod, TableSampleSeed, TableSampleUnit, Value,
};
use datafusion_common::{DFSchema, ScalarValue, TableReference, plan_err};

use exec::Size;
use table::SampledTable;

/// The alternative for sampling something other than a table.
const WAY_OUT: &str = "use WHERE random() < 0.1 instead";

/// Plans tables with a `TABLESAMPLE` clause.
#[derive(Debug, Default)]
pub(crate) struct TableSamples;

impl RelationPlanner for TableSamples {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        match relation {
            TableFactor::Table {
                sample: Some(kind),
                alias,
                name,
                args,
                with_hints,
                version,
                with_ordinality,
                partitions,
                json_path,
                index_hints,
            } => {
                let (TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) = kind;
                let position = name.0.first().and_then(|part| part.as_ident()).map(|ident| ident.span.start);
                let position = position.map_or(0, |start| start.line << 32 | start.column);
                let table = TableFactor::Table {
                    sample: None,
                    alias: None,
                    name: name.clone(),
                    args,
                    with_hints,
                    version,
                    with_ordinality,
                    partitions,
                    json_path,
                    index_hints,
                };
                let plan = context.plan(table)?;
                let LogicalPlan::TableScan(scan) = plan else {
                    return refuse(&format!("{name} is not a table, and only tables can be sampled"), WAY_OUT);
                };
                let (size, seed) = clause(*sample, position, context)?;
                // The engine treats two scans of one name as equal, and computes one of them.
                let scanned = format!("{} ({size}, seed {seed})", scan.table_name);
                let table = SampledTable::new(source_as_provider(&scan.source)?, size, seed);
                let table = provider_as_source(Arc::new(table));
                let plan = LogicalPlanBuilder::scan(TableReference::bare(scanned), table, None)?
                    .alias(scan.table_name)?
                    .build()?;
                Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))))
            }
            TableFactor::Derived { sample: Some(_), .. } => {
                refuse("only tables can be sampled, not subqueries", WAY_OUT)
            }
            other => Ok(RelationPlanning::Original(Box::new(other))),
        }
    }
}

/// Returns the size and the seed of a sample. A sample without a seed gets one from its position in the query: the
/// same query selects the same rows again, and two samples in one query select different rows.
fn clause(sample: TableSample, position: u64, context: &mut dyn RelationPlannerContext) -> Result<(Size, u64)> {
    const SUPPORTED: &str = "write TABLESAMPLE BERNOULLI (10 PERCENT), TABLESAMPLE (10 PERCENT) or TABLESAMPLE (1000 ROWS), \
         and perhaps REPEATABLE (42) behind it";
    if sample.bucket.is_some() {
        return refuse("BUCKET is not supported", SUPPORTED);
    }
    if sample.offset.is_some() {
        return refuse("OFFSET is not supported", SUPPORTED);
    }
    let Some(quantity) = sample.quantity else { return refuse("the size of the sample is missing", SUPPORTED) };
    let given = quantity.value.to_string();
    let size = number(context.sql_to_expr(quantity.value, &DFSchema::empty())?, &given)?;
    let size = match (quantity.unit, sample.name) {
        (Some(TableSampleUnit::Rows), _) => {
            if !(size >= 0.0 && size.fract() == 0.0 && size <= u32::MAX.into()) {
                return refuse(&format!("{given} ROWS"), "expected a whole number from 0 to 4294967295");
            }
            Size::Rows(size as usize)
        }
        (Some(TableSampleUnit::Percent), _)
        | (
            None,
            Some(
                TableSampleMethod::Bernoulli
                | TableSampleMethod::System
                | TableSampleMethod::Row
                | TableSampleMethod::Block,
            ),
        ) => {
            if !(0.0..=100.0).contains(&size) {
                return refuse(&format!("{given} PERCENT"), "expected a number from 0 to 100");
            }
            Size::percent(size)
        }
        (None, None) => return refuse("the unit of the size is missing", SUPPORTED),
    };
    let seed = match sample.seed {
        Some(TableSampleSeed { value, .. }) => match &value.value {
            Value::Number(digits, _) => match digits.parse::<u64>() {
                Ok(seed) => seed,
                Err(_) => return refuse(&format!("the seed {digits}"), "expected a whole number from 0 on"),
            },
            other => return refuse(&format!("the seed {other}"), "expected a whole number from 0 on"),
        },
        None => exec::mix(position),
    };
    Ok((size, seed))
}

/// Evaluates a constant numeric expression.
fn number(expr: Expr, given: &str) -> Result<f64> {
    let simplifier = ExprSimplifier::new(SimplifyContext::default());
    let schema = Arc::new(DFSchema::empty());
    let value = simplifier.simplify(simplifier.coerce(expr, &schema)?)?;
    let Expr::Literal(value, _) = value else {
        return refuse(&format!("the size {given}"), "expected a constant number");
    };
    match value.cast_to(&arrow_schema::DataType::Float64) {
        Ok(ScalarValue::Float64(Some(number))) if number.is_finite() && value.data_type().is_numeric() => Ok(number),
        _ => refuse(&format!("the size {given}"), "expected a number"),
    }
}

fn refuse<T>(what: &str, expected: &str) -> Result<T> {
    plan_err!("TABLESAMPLE: {what}; {expected}")
}
