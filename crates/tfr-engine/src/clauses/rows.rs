//! Rows of values: `(a, b) = (1, 2)`, `(a, b) IN ((1, 2), (3, 4))`, `(a, b) IN (SELECT x, y FROM t)`.
//!
//! The planner makes structs of them, for which a NULL equals a NULL, and rejects the subquery. They become comparisons
//! of the values, with SQL's three-valued logic.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Query,
    SelectItem, SetExpr, TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins, UnaryOperator, Value,
};

use super::{Checked, parts, refused};
use crate::syntax::Tree;

/// Makes names for subqueries that no query uses.
#[derive(Default)]
pub struct Names {
    made: usize,
}

impl Names {
    fn next(&mut self) -> Ident {
        self.made += 1;
        Ident::with_quote('"', format!("rows {}", self.made))
    }
}

/// Rewrites `expr` if it is an operation on rows.
pub fn check(expr: &mut Expr, names: &mut Names) -> Checked {
    match expr {
        Expr::BinaryOp { left, op, right } => {
            let (Some(lefts), Some(rights)) = (row(left), row(right)) else { return Ok(()) };
            if let Some(compared) = compare(&lefts, op, &rights)? {
                *expr = nested(compared);
            }
        }
        Expr::Between { expr: value, negated, low, high } => {
            let (Some(values), Some(lows), Some(highs)) = (row(value), row(low), row(high)) else { return Ok(()) };
            let low = compare(&values, &BinaryOperator::GtEq, &lows)?.unwrap_or_else(parts::null);
            let high = compare(&values, &BinaryOperator::LtEq, &highs)?.unwrap_or_else(parts::null);
            *expr = not_if(*negated, binary(nested(low), BinaryOperator::And, nested(high)));
        }
        Expr::InList { expr: value, list, negated } => {
            let Some(values) = row(value) else { return Ok(()) };
            let mut terms = Vec::with_capacity(list.len());
            for item in list.iter() {
                let Some(items) = row(item) else {
                    return refused(format!("{value} IN ({item})"), "write a row of as many values");
                };
                terms.extend(compare(&values, &BinaryOperator::Eq, &items)?.map(nested));
            }
            if terms.len() > 1 {
                reject_volatile(&values)?;
            }
            *expr = not_if(*negated, balanced(terms, &BinaryOperator::Or));
        }
        Expr::InSubquery { expr: value, subquery, negated } => {
            let Some(values) = row(value) else { return Ok(()) };
            // true IN (SELECT x = a AND y = b FROM ...) has the three values of IN.
            let (equal, table) = compared_with_rows(&values, subquery, names)?;
            let subquery = parts::select(vec![SelectItem::UnnamedExpr(equal)], vec![table], None);
            *expr = Expr::InSubquery {
                expr: Box::new(Expr::value(Value::Boolean(true))),
                subquery: parts::query(subquery),
                negated: *negated,
            };
        }
        Expr::IsNull(value) => {
            if let Some(values) = row(value) {
                *expr = all(&values, Expr::IsNull);
            }
        }
        Expr::IsNotNull(value) => {
            if let Some(values) = row(value) {
                *expr = all(&values, Expr::IsNotNull);
            }
        }
        Expr::IsDistinctFrom(left, right) => {
            if let (Some(lefts), Some(rights)) = (row(left), row(right)) {
                same_length(&lefts, &rights)?;
                let pairs = lefts.iter().zip(&rights);
                let terms = pairs.map(|(l, r)| nested(Expr::IsDistinctFrom(boxed(l), boxed(r)))).collect();
                *expr = nested(balanced(terms, &BinaryOperator::Or));
            }
        }
        Expr::IsNotDistinctFrom(left, right) => {
            if let (Some(lefts), Some(rights)) = (row(left), row(right)) {
                same_length(&lefts, &rights)?;
                let pairs = lefts.iter().zip(&rights);
                let terms = pairs.map(|(l, r)| nested(Expr::IsNotDistinctFrom(boxed(l), boxed(r)))).collect();
                *expr = nested(balanced(terms, &BinaryOperator::And));
            }
        }
        _ => {}
    }
    Ok(())
}

/// Rewrites `IN` of rows in a condition, for which NULL counts as false: `EXISTS` is a join by equality.
pub fn filter(condition: &mut Expr, names: &mut Names) -> Checked {
    let mut rest = vec![condition];
    while let Some(expr) = rest.pop() {
        match expr {
            Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
                rest.extend([left.as_mut(), right.as_mut()]);
            }
            Expr::Nested(inner) => rest.push(inner.as_mut()),
            Expr::UnaryOp { op: UnaryOperator::Not, expr: inner } => {
                if let Expr::InSubquery { expr: value, subquery, negated } = inner.as_ref()
                    && let Some(values) = row(value)
                {
                    *expr = exists(&values, subquery, !negated, names)?;
                }
            }
            Expr::InSubquery { expr: value, subquery, negated } => {
                if let Some(values) = row(value) {
                    *expr = exists(&values, subquery, *negated, names)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Rewrites `CASE (a, b) WHEN (1, 2) THEN ...`.
pub fn case(operand: &mut Option<Box<Expr>>, conditions: &mut [CaseWhen]) -> Checked {
    let Some(values) = operand.as_deref().and_then(row) else { return Ok(()) };
    reject_volatile(&values)?;
    for CaseWhen { condition, result: _ } in conditions {
        let Some(items) = row(condition) else {
            return refused(format!("CASE ({}) WHEN {condition}", list(&values)), "write a row of as many values");
        };
        if let Some(compared) = compare(&values, &BinaryOperator::Eq, &items)? {
            *condition = compared;
        }
    }
    *operand = None;
    Ok(())
}

/// Whether the expression has an operation that [`check`] rewrites.
pub fn is_rewritten(expr: &Expr) -> bool {
    expr.has_expr(&mut |expr| match expr {
        Expr::BinaryOp { left: value, .. }
        | Expr::Between { expr: value, .. }
        | Expr::InList { expr: value, .. }
        | Expr::InSubquery { expr: value, .. }
        | Expr::IsNull(value)
        | Expr::IsNotNull(value)
        | Expr::IsDistinctFrom(value, _)
        | Expr::IsNotDistinctFrom(value, _) => row(value).is_some(),
        _ => false,
    })
}

/// Returns the text of an expression, without the names of `tables`.
pub fn text(expr: &Expr, tables: &[String]) -> String {
    let mut expr = expr.clone();
    expr.each_expr(&mut |expr| {
        if let Expr::CompoundIdentifier(parts) = expr
            && parts.len() > 1
            && parts.first().is_some_and(|first| tables.contains(&first.value))
        {
            parts.remove(0);
        }
    });
    expr.to_string()
}

/// Returns the values of a row: `(a, b)` or `ROW(a, b)`.
fn row(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Tuple(values) if !values.is_empty() => Some(values.clone()),
        Expr::Nested(inner) if matches!(inner.as_ref(), Expr::Tuple(_) | Expr::Function(_)) => row(inner),
        Expr::Function(Function { name, args: FunctionArguments::List(list), .. })
            if !list.args.is_empty() && name.to_string().eq_ignore_ascii_case("row") =>
        {
            let value = |arg: &FunctionArg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
                _ => None,
            };
            list.args.iter().map(value).collect()
        }
        _ => None,
    }
}

/// Returns the comparison of two rows, or `None` for another operator.
fn compare(lefts: &[Expr], op: &BinaryOperator, rights: &[Expr]) -> Checked<Option<Expr>> {
    let strict = match op {
        BinaryOperator::Eq | BinaryOperator::NotEq => None,
        BinaryOperator::Lt | BinaryOperator::LtEq => Some(BinaryOperator::Lt),
        BinaryOperator::Gt | BinaryOperator::GtEq => Some(BinaryOperator::Gt),
        _ => return Ok(None),
    };
    same_length(lefts, rights)?;
    let pairs = || lefts.iter().zip(rights).map(|(left, right)| (left.clone(), right.clone()));
    let Some(strict) = strict else {
        let chain = if *op == BinaryOperator::Eq { BinaryOperator::And } else { BinaryOperator::Or };
        let terms = pairs().map(|(left, right)| nested(binary(left, op.clone(), right))).collect();
        return Ok(Some(balanced(terms, &chain)));
    };
    reject_volatile(lefts)?;
    reject_volatile(rights)?;
    // a < x OR (a = x AND (b < y OR (b = y AND c <= z))), from the last pair on.
    let mut compared: Option<Expr> = None;
    for (left, right) in pairs().rev() {
        compared = Some(match compared {
            None => binary(left, op.clone(), right),
            Some(rest) => {
                let before = binary(left.clone(), strict.clone(), right.clone());
                let tie = binary(nested(binary(left, BinaryOperator::Eq, right)), BinaryOperator::And, nested(rest));
                binary(nested(before), BinaryOperator::Or, nested(tie))
            }
        });
    }
    Ok(compared)
}

fn same_length(lefts: &[Expr], rights: &[Expr]) -> Checked {
    match lefts.len() == rights.len() {
        true => Ok(()),
        false => Err(format!(
            "rows of different lengths are compared: ({}) has {} values, ({}) has {}",
            list(lefts),
            lefts.len(),
            list(rights),
            rights.len()
        )),
    }
}

/// Rejects values that would be computed twice and may differ.
fn reject_volatile(values: &[Expr]) -> Checked {
    let mut volatile = None;
    let mut is_volatile = |expr: &Expr| {
        if let Expr::Function(Function { name, .. }) = expr
            && ["random", "uuid"].iter().any(|volatile| name.to_string().eq_ignore_ascii_case(volatile))
        {
            volatile = Some(name.to_string());
        }
        volatile.is_some()
    };
    values.iter().any(|value| value.has_expr(&mut is_volatile));
    match volatile {
        Some(name) => refused(format!("{name}() in a row that is compared"), "compute it in a subquery"),
        None => Ok(()),
    }
}

/// Returns the comparison of values with the columns of a subquery, and the subquery as a table.
fn compared_with_rows(values: &[Expr], subquery: &Query, names: &mut Names) -> Checked<(Expr, TableWithJoins)> {
    if let SetExpr::Select(select) = subquery.body.as_ref()
        && select
            .projection
            .iter()
            .all(|item| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }))
        && select.projection.len() != values.len()
    {
        return Err(format!(
            "expected {} columns in the subquery that ({}) is compared with, found {}",
            values.len(),
            list(values),
            select.projection.len()
        ));
    }
    let table = names.next();
    let name = |number: usize| Ident::with_quote('"', format!("{} value {number}", table.value));
    let columns: Vec<_> = (1..=values.len()).map(name).collect();
    let mut subquery = subquery.clone();
    // Two columns may be the same here.
    if let SetExpr::Select(select) = subquery.body.as_mut() {
        for (item, alias) in select.projection.iter_mut().zip(&columns) {
            if let SelectItem::UnnamedExpr(expr) = item {
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: alias.clone() };
            }
        }
    }
    let column = |column: &Ident| Expr::CompoundIdentifier(vec![table.clone(), column.clone()]);
    let pairs = columns.iter().zip(values);
    let terms = pairs.map(|(name, value)| nested(binary(column(name), BinaryOperator::Eq, value.clone()))).collect();
    let equal = balanced(terms, &BinaryOperator::And);
    let columns = columns.into_iter().map(|name| TableAliasColumnDef { name, data_type: None }).collect();
    let alias = TableAlias { explicit: true, name: table, columns, at: None };
    let relation =
        TableFactor::Derived { lateral: false, subquery: Box::new(subquery), alias: Some(alias), sample: None };
    Ok((equal, TableWithJoins { relation, joins: Vec::new() }))
}

fn exists(values: &[Expr], subquery: &Query, negated: bool, names: &mut Names) -> Checked<Expr> {
    let (equal, table) = compared_with_rows(values, subquery, names)?;
    // NOT IN is true if all comparisons are false.
    let condition = if negated { Expr::IsNotFalse(Box::new(nested(equal))) } else { equal };
    let one = SelectItem::UnnamedExpr(parts::number("1"));
    let subquery = parts::query(parts::select(vec![one], vec![table], Some(condition)));
    Ok(Expr::Exists { subquery, negated })
}

fn all(values: &[Expr], condition: fn(Box<Expr>) -> Expr) -> Expr {
    let terms = values.iter().map(|value| nested(condition(boxed(value)))).collect();
    nested(balanced(terms, &BinaryOperator::And))
}

/// Joins terms by AND or OR, as a balanced tree.
fn balanced(mut terms: Vec<Expr>, op: &BinaryOperator) -> Expr {
    while terms.len() > 1 {
        let mut pairs = Vec::with_capacity(terms.len().div_ceil(2));
        let mut rest = terms.into_iter();
        while let Some(left) = rest.next() {
            pairs.push(match rest.next() {
                Some(right) => binary(left, op.clone(), right),
                None => left,
            });
        }
        terms = pairs;
    }
    terms.pop().unwrap_or_else(parts::null)
}

fn not_if(negated: bool, expr: Expr) -> Expr {
    match negated {
        true => nested(Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(nested(expr)) }),
        false => nested(expr),
    }
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

fn boxed(expr: &Expr) -> Box<Expr> {
    Box::new(expr.clone())
}

fn list(values: &[Expr]) -> String {
    values.iter().map(Expr::to_string).collect::<Vec<_>>().join(", ")
}
