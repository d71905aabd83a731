//! The clauses of a query around its `SELECT`.

use std::mem;

use datafusion::sql::sqlparser::ast::{
    Cte, Expr, ExprWithAlias, ExprWithAliasAndOrderBy, Fetch, ForClause, FormatClause, Ident, LimitClause, LockClause,
    ObjectName, Offset, OrderBy, OrderByKind, OrderByOptions, PipeOperator, Query, SelectItem, SetExpr, SetOperator,
    Values, With,
};

use super::casts::CastMarks;
use super::{Checked, casts, order_by, parts, refused, select, tables, windows};
use crate::syntax::Tree;

/// Returns the calls of aggregates and window functions that order the rows of its `SELECT`.
pub fn check(query: &mut Query) -> Checked<Vec<Expr>> {
    take_sort_by(query)?;
    let ordered_by = casts::calls_in_order(query);
    let Query { with, body, order_by, limit_clause, fetch, locks, for_clause, settings, format_clause, pipe_operators } =
        query;
    if let Some(with) = with {
        check_with(with)?;
    }
    check_set_expr(body)?;
    if let SetExpr::Select(select) = body.as_mut() {
        windows::define(&mut select.named_window)?;
    }
    if let Some(order_by) = order_by {
        check_order_by(order_by, body)?;
        if let SetExpr::Select(select) = body.as_mut()
            && let Some(marks) = CastMarks::of(select, &ordered_by)
        {
            marks.mark_order(order_by);
        }
    }
    take_fetch(limit_clause, fetch)?;
    match limit_clause {
        None | Some(LimitClause::OffsetCommaLimit { offset: _, limit: _ }) => {}
        Some(LimitClause::LimitOffset { limit: _, offset, limit_by }) => {
            if let Some(Offset { value: _, rows: _ }) = offset {}
            if !limit_by.is_empty() {
                return refused(
                    "LIMIT n BY",
                    "write QUALIFY row_number() OVER (PARTITION BY a ORDER BY b) <= n after the WHERE clause",
                );
            }
        }
    }
    if let Some(LockClause { lock_type, of: _, nonblock: _ }) = locks.first() {
        return refused(format!("FOR {lock_type}"), "leave it out: a query reads its tables and locks nothing");
    }
    match for_clause {
        None => {}
        Some(ForClause::Browse) => return refused("FOR BROWSE", "leave it out"),
        Some(ForClause::Json { for_json: _, root: _, include_null_values: _, without_array_wrapper: _ }) => {
            return refused("FOR JSON", "leave it out, and write the result as a JSON file");
        }
        Some(ForClause::Xml { for_xml: _, elements: _, binary_base64: _, root: _, r#type: _ }) => {
            return refused("FOR XML", "leave it out");
        }
    }
    if settings.is_some() {
        return refused("SETTINGS", "leave it out");
    }
    match format_clause {
        None => {}
        Some(FormatClause::Identifier(_) | FormatClause::Null) => return refused("FORMAT", "leave it out"),
    }
    pipe_operators.iter_mut().try_for_each(check_pipe_operator)?;
    Ok(ordered_by)
}

/// `SORT BY` sorts the rows of each task. The result is one table here, so it is an ORDER BY.
fn take_sort_by(query: &mut Query) -> Checked {
    let SetExpr::Select(select) = query.body.as_mut() else { return Ok(()) };
    if select.sort_by.is_empty() {
        return Ok(());
    }
    if query.order_by.is_some() {
        return refused("SORT BY with ORDER BY", "leave SORT BY out");
    }
    let kind = OrderByKind::Expressions(mem::take(&mut select.sort_by));
    query.order_by = Some(OrderBy { kind, interpolate: None });
    Ok(())
}

/// `FETCH FIRST n ROWS ONLY` is `LIMIT n`.
fn take_fetch(limit_clause: &mut Option<LimitClause>, fetch: &mut Option<Fetch>) -> Checked {
    let Some(Fetch { with_ties, percent, quantity }) = fetch.take() else { return Ok(()) };
    if with_ties {
        return refused("FETCH FIRST n ROWS WITH TIES", "write QUALIFY rank() OVER (ORDER BY a) <= n");
    }
    if percent {
        return refused(
            "FETCH FIRST n PERCENT",
            "write QUALIFY row_number() OVER (ORDER BY a) <= n / 100.0 * count(*) OVER ()",
        );
    }
    let quantity = Some(quantity.unwrap_or_else(|| parts::number("1")));
    match limit_clause {
        None => *limit_clause = Some(LimitClause::LimitOffset { limit: quantity, offset: None, limit_by: Vec::new() }),
        Some(LimitClause::LimitOffset { limit: limit @ None, offset: _, limit_by: _ }) => *limit = quantity,
        Some(LimitClause::LimitOffset { .. } | LimitClause::OffsetCommaLimit { .. }) => {
            return refused("FETCH with LIMIT", "leave one of them out");
        }
    }
    Ok(())
}

fn check_with(with: &mut With) -> Checked {
    let With { with_token: _, recursive, cte_tables } = with;
    for Cte { alias, query, from, materialized: _, closing_paren_token: _ } in cte_tables {
        tables::alias(alias)?;
        if let Some(from) = from {
            return refused(
                format!("FROM {from} after a common table expression"),
                "write it in the query that follows",
            );
        }
        if *recursive {
            check_recursive(&alias.name.value, query)?;
        }
    }
    Ok(())
}

/// Checks a query of WITH RECURSIVE. The planner reads only the two sides of its UNION.
fn check_recursive(name: &str, query: &mut Query) -> Checked {
    let SetExpr::SetOperation { op: SetOperator::Union, left: _, right: _, set_quantifier } = query.body.as_ref()
    else {
        return Ok(());
    };
    let by_name = set_quantifier.to_string().contains("NAME");
    let clauses = [
        ("WITH", query.with.is_some()),
        ("ORDER BY", query.order_by.is_some()),
        ("LIMIT", query.limit_clause.is_some() || query.fetch.is_some()),
        ("|>", !query.pipe_operators.is_empty()),
        ("BY NAME", by_name),
    ];
    let Some((clause, _)) = clauses.into_iter().find(|(_, given)| *given) else { return Ok(()) };
    let is_named = |relation: &ObjectName| relation.to_string().trim_matches('"').eq_ignore_ascii_case(name);
    if query.has_relation(&mut { is_named }) {
        return refused(
            format!("{clause} of the recursive query {name}"),
            format!("write it in the query that reads {name}"),
        );
    }
    // Not recursive: a query in parentheses is planned as any other.
    let inner = mem::replace(query, *parts::query(parts::select(Vec::new(), Vec::new(), None)));
    *query.body = SetExpr::Query(Box::new(inner));
    Ok(())
}

/// Checks the set operations of a body. Its selects and queries are visited on their own.
fn check_set_expr(body: &mut SetExpr) -> Checked {
    let mut rest = vec![body];
    while let Some(body) = rest.pop() {
        match body {
            SetExpr::Select(_) | SetExpr::Query(_) => {}
            SetExpr::SetOperation { left, op, set_quantifier: _, right } => {
                match op {
                    SetOperator::Minus => *op = SetOperator::Except,
                    SetOperator::Union | SetOperator::Except | SetOperator::Intersect => {}
                }
                name_items(right);
                rest.extend([left.as_mut(), right.as_mut()]);
            }
            SetExpr::Values(values) => {
                windows::inline(values, &[])?;
                let Values { explicit_row: _, value_keyword, rows: _ } = values;
                if *value_keyword {
                    return refused("VALUE", "write VALUES");
                }
            }
            SetExpr::Table(table) => return refused(format!("{table}"), "write SELECT * FROM the table"),
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
                return refused("a statement that changes a table, inside a query,", "");
            }
        }
    }
    Ok(())
}

/// Names the values of the second `SELECT` of a set operation, whose names have no effect. The planner would give a value
/// the name of the column of the first `SELECT`, which another column of the second may have.
fn name_items(second: &mut SetExpr) {
    let SetExpr::Select(select) = second else { return };
    for (number, item) in select.projection.iter_mut().enumerate() {
        if let SelectItem::UnnamedExpr(expr) = item
            && matches!(expr, Expr::Value(_) | Expr::UnaryOp { .. } | Expr::BinaryOp { .. } | Expr::Cast { .. })
        {
            let alias = Ident::with_quote('"', format!("value {number}"));
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
    }
}

fn check_order_by(order_by: &mut OrderBy, body: &SetExpr) -> Checked {
    let OrderBy { kind, interpolate } = order_by;
    if interpolate.is_some() {
        return refused("INTERPOLATE", "");
    }
    match (kind, body) {
        (OrderByKind::All(OrderByOptions { asc: _, nulls_first: _ }), SetExpr::Select(_)) => Ok(()),
        (OrderByKind::All(_), _) => refused("ORDER BY ALL after a set operation", "name the columns"),
        (OrderByKind::Expressions(exprs), body) => {
            let named_window = match body {
                SetExpr::Select(select) => select.named_window.as_slice(),
                _ => &[],
            };
            windows::inline(exprs, named_window)?;
            order_by::check(exprs)
        }
    }
}

fn check_pipe_operator(operator: &mut PipeOperator) -> Checked {
    windows::inline(operator, &[])?;
    match operator {
        PipeOperator::Where { expr: _ }
        | PipeOperator::Limit { expr: _, offset: _ }
        | PipeOperator::As { alias: _ }
        | PipeOperator::Union { set_quantifier: _, queries: _ }
        | PipeOperator::Intersect { set_quantifier: _, queries: _ }
        | PipeOperator::Except { set_quantifier: _, queries: _ } => Ok(()),
        PipeOperator::OrderBy { exprs } => order_by::check(exprs),
        PipeOperator::Select { exprs } | PipeOperator::Extend { exprs } => {
            if !select::check_items(exprs)?.is_empty() {
                return refused("REPLACE after |>", "name the columns");
            }
            Ok(())
        }
        PipeOperator::Aggregate { full_table_exprs, group_by_expr } => {
            for ExprWithAliasAndOrderBy { expr, order_by } in full_table_exprs.iter().chain(group_by_expr.iter()) {
                let ExprWithAlias { expr: _, alias: _ } = expr;
                let OrderByOptions { asc, nulls_first } = order_by;
                if asc.is_some() || nulls_first.is_some() {
                    return refused("an order in |> AGGREGATE", "add |> ORDER BY");
                }
            }
            Ok(())
        }
        PipeOperator::Join(join) => tables::join(join),
        PipeOperator::Set { assignments: _ } => refused("|> SET", "write |> SELECT with all columns"),
        PipeOperator::Drop { columns: _ } => refused("|> DROP", "write |> SELECT * EXCLUDE (a)"),
        PipeOperator::Rename { mappings: _ } => refused("|> RENAME", "write |> SELECT a AS b"),
        PipeOperator::TableSample { sample: _ } => refused("|> TABLESAMPLE", "write |> WHERE random() < 0.1"),
        PipeOperator::Call { function: _, alias: _ } => refused("|> CALL", ""),
        PipeOperator::Pivot { aggregate_functions: _, value_column: _, value_source: _, alias: _ } => {
            refused("|> PIVOT", tables::PIVOT)
        }
        PipeOperator::Unpivot { value_column: _, name_column: _, unpivot_columns: _, alias: _ } => {
            refused("|> UNPIVOT", tables::UNPIVOT)
        }
    }
}
