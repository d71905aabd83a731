//! [`TextArguments`]: rejects bytes, lists, structs and maps where a text is expected.
//!
//! The engine converts them to text. `upper` of bytes failed in the middle of a query, or worked by chance.
//! `reverse([1, 2, 3])` was `]3 ,2 ,1[`, and `length([1, NULL, 3])` was 8. A text or a number that is cast to a list was
//! its only item, and a NULL was a list with a NULL. An integer that is cast to bytes had its least byte first, unlike in
//! PostgreSQL and Spark.
//!
//! Upstream: ours (a choice of meaning). Held by `tests/slt/bytes.slt`: All others refuse bytes, by name and when the query is planned.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef};
use datafusion::optimizer::AnalyzerRule;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, Result, plan_err};
use datafusion_expr::expr::{Cast, TryCast};
use datafusion_expr::type_coercion::functions::{UDFCoercionExt, fields_with_udf};
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use tfr_arrow::nested::{any_type, value_type};

use crate::bytes::is_bytes;
use crate::expressions::columns_of;

/// Runs before the engine's coercion, because casts that are written in the query are allowed.
#[derive(Debug, Default)]
pub(crate) struct TextArguments;

impl AnalyzerRule for TextArguments {
    fn name(&self) -> &str {
        "text_arguments"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.apply_with_subqueries(|node| {
            let schema = columns_of(node)?;
            node.apply_expressions(|expr| {
                expr.apply(|expr| {
                    check(expr, &schema)?;
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        })?;
        Ok(plan)
    }
}

fn check(expr: &Expr, schema: &DFSchema) -> Result<()> {
    match expr {
        Expr::ScalarFunction(call) => check_call(call.func.as_ref(), &call.args, schema),
        Expr::AggregateFunction(call) => check_call(call.func.as_ref(), &call.params.args, schema),
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) => {
            let Ok(source) = expr.get_type(schema) else { return Ok(()) };
            let is_list = kind(field.data_type()) == Some("a list");
            match source {
                source if source.is_string() && is_list => {
                    plan_err!("a CAST of a text to a list is not supported; write string_to_array(x, ',')")
                }
                source if is_list && !source.is_nested() && !source.is_null() => {
                    plan_err!("a CAST of {source} to a list is not supported; write [x] for a list of one item")
                }
                source if source.is_integer() && is_bytes(field.data_type()) => plan_err!(
                    "a CAST of {source} to BINARY is not supported, because systems differ in the order of its bytes; \
                     write CAST(CAST(x AS VARCHAR) AS BYTEA) for the bytes of its text"
                ),
                _ => Ok(()),
            }
        }
        Expr::Like(like) => {
            let name = if like.case_insensitive { "ILIKE" } else { "LIKE" };
            check_operands(name, [&like.expr, &like.pattern], schema)
        }
        Expr::SimilarTo(like) => check_operands("SIMILAR TO", [&like.expr, &like.pattern], schema),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
            Operator::StringConcat => {
                let [left, right] = [left, right].map(|operand| operand.get_type(schema));
                match (left, right) {
                    // The engine concatenates bytes with bytes.
                    (Ok(left), Ok(right)) if is_bytes(&left) && is_bytes(&right) => Ok(()),
                    (Ok(left), Ok(right)) => [left, right].iter().try_for_each(|data_type| check_type("||", data_type)),
                    _ => Ok(()),
                }
            }
            Operator::RegexMatch
            | Operator::RegexIMatch
            | Operator::RegexNotMatch
            | Operator::RegexNotIMatch
            | Operator::LikeMatch
            | Operator::ILikeMatch
            | Operator::NotLikeMatch
            | Operator::NotILikeMatch => check_operands(&op.to_string(), [left, right], schema),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

fn check_operands(name: &str, operands: [&Expr; 2], schema: &DFSchema) -> Result<()> {
    operands
        .into_iter()
        .filter_map(|operand| operand.get_type(schema).ok())
        .try_for_each(|data_type| check_type(name, &data_type))
}

/// Rejects arguments that the engine would cast to text.
fn check_call<F: UDFCoercionExt>(function: &F, args: &[Expr], schema: &DFSchema) -> Result<()> {
    let types: Option<Vec<DataType>> = args.iter().map(|arg| arg.get_type(schema).ok()).collect();
    // The engine reports errors in arguments.
    let Some(types) = types.filter(|types| types.iter().any(|data_type| kind(data_type).is_some())) else {
        return Ok(());
    };
    if function.name() == "array_to_string" && types.first().is_some_and(|list| any_type(list, is_bytes)) {
        return plan_err!(
            "array_to_string of a list of BINARY is not supported, because it leaves out what is not a text; write \
             array_to_string(CAST(x AS VARCHAR[]), ',')"
        );
    }
    let fields: Vec<FieldRef> =
        types.iter().map(|data_type| Arc::new(Field::new("argument", data_type.clone(), true))).collect();
    let Ok(coerced) = fields_with_udf(&fields, function) else { return Ok(()) };
    for (data_type, coerced) in types.iter().zip(&coerced) {
        if coerced.data_type().is_string() {
            check_type(function.name(), data_type)?;
        }
    }
    Ok(())
}

/// Returns the name of a kind of values that are not text.
fn kind(data_type: &DataType) -> Option<&'static str> {
    match value_type(data_type) {
        data_type if is_bytes(data_type) => Some("BINARY"),
        DataType::Struct(_) => Some("a struct"),
        DataType::Map(..) => Some("a map"),
        DataType::Union(..) => Some("a union"),
        data_type if data_type.is_nested() => Some("a list"),
        _ => None,
    }
}

fn check_type(name: &str, data_type: &DataType) -> Result<()> {
    let Some(kind) = kind(data_type) else { return Ok(()) };
    let hint = match (kind, name) {
        ("BINARY", _) => "write CAST(x AS VARCHAR) for its text, or encode(x, 'hex')",
        ("a list", "character_length") => "write array_length(x) for the number of items",
        ("a list", "reverse") => "write array_reverse(x)",
        ("a list", "concat") => "write array_concat(x, y)",
        ("a list", _) => "write array_to_string(x, ',') for its items as text",
        (_, _) => "write CAST(x AS VARCHAR) for its text",
    };
    let name = if name == "character_length" { "length" } else { name };
    plan_err!("{name} of {kind} is not supported, because {kind} is not a text; {hint}")
}
