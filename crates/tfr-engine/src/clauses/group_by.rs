//! `GROUP BY`.
//!
//! The planner ignores WITH ROLLUP, WITH CUBE and Hive's GROUPING SETS after the keys, takes numbers inside grouping
//! sets for constants, and rejects composite keys in ROLLUP and CUBE.

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, GroupByWithModifier, Select, SelectItem, Value, ValueWithSpan,
};

use super::{Checked, refused};

/// The maximum number of parts of a CUBE with composite keys: it has 2 to the power of this many grouping sets.
const MAX_CUBE: usize = 10;

pub fn check(select: &mut Select) -> Checked {
    let projection = &select.projection;
    let (keys, modifiers) = match &mut select.group_by {
        GroupByExpr::All(modifiers) => {
            return match modifiers.first() {
                None => Ok(()),
                Some(modifier) => refused(format!("GROUP BY ALL {modifier}"), "name the keys in ROLLUP (a, b)"),
            };
        }
        GroupByExpr::Expressions(keys, modifiers) => (keys, modifiers),
    };
    let any = !keys.is_empty();
    *keys = std::mem::take(keys)
        .into_iter()
        .flat_map(|key| match key {
            // (a, b) is a, b, and () is nothing.
            Expr::Tuple(keys) => keys,
            key => vec![key],
        })
        .collect();
    let modifier = match modifiers.as_slice() {
        [] => None,
        [_] => modifiers.pop(),
        [..] => return refused("GROUP BY with several modifiers", "write GROUPING SETS ((a, b), (a), ())"),
    };
    if let Some(modifier) = modifier {
        if keys.iter().any(|key| matches!(key, Expr::Rollup(_) | Expr::Cube(_) | Expr::GroupingSets(_))) {
            return refused(
                format!("{modifier} after ROLLUP, CUBE or GROUPING SETS"),
                "write GROUPING SETS ((a, b), (a), ())",
            );
        }
        let each = || keys.iter().map(|key| vec![key.clone()]).collect();
        *keys = vec![match modifier {
            GroupByWithModifier::Rollup => Expr::Rollup(each()),
            GroupByWithModifier::Cube => Expr::Cube(each()),
            GroupByWithModifier::Totals => {
                return refused("GROUP BY a WITH TOTALS", "write GROUP BY GROUPING SETS ((a), ())");
            }
            GroupByWithModifier::GroupingSets(sets) => sets_of_keys(sets, keys)?,
        }];
    }
    if any && keys.is_empty() {
        // One group of all rows, also where there are no rows or aggregates.
        *keys = vec![Expr::GroupingSets(vec![Vec::new()])];
    }
    keys.iter_mut().try_for_each(|key| check_key(key, projection))
}

/// Checks Hive's `GROUP BY a, b GROUPING SETS ((a, b), (a))`: the sets are those of the keys.
fn sets_of_keys(sets: Expr, keys: &[Expr]) -> Checked<Expr> {
    if let Expr::GroupingSets(sets) = &sets {
        let parts = || sets.iter().flatten();
        if let Some(part) = parts().find(|part| !keys.contains(part)) {
            return refused(format!("{part} in GROUPING SETS, which is no key of GROUP BY,"), "add it to the keys");
        }
        if let Some(key) = keys.iter().find(|key| !parts().any(|part| part == *key)) {
            return refused(format!("the key {key}, which is in none of the GROUPING SETS,"), "leave it out");
        }
    }
    Ok(sets)
}

fn check_key(key: &mut Expr, projection: &[SelectItem]) -> Checked {
    let (Expr::Rollup(parts) | Expr::Cube(parts) | Expr::GroupingSets(parts)) = key else { return Ok(()) };
    parts.iter_mut().flatten().try_for_each(|part| resolve(part, projection, "grouping sets"))?;
    let is_composite = |parts: &[Vec<Expr>]| parts.iter().any(|part| part.len() != 1);
    match key {
        Expr::Rollup(parts) if is_composite(parts) => {
            let sets = (0..=parts.len()).rev().map(|len| parts.iter().take(len).flatten().cloned().collect());
            *key = Expr::GroupingSets(sets.collect());
        }
        Expr::Cube(parts) if is_composite(parts) => {
            if parts.len() > MAX_CUBE {
                return refused(format!("CUBE of more than {MAX_CUBE} composite keys"), "write GROUPING SETS");
            }
            let set = |chosen: usize| {
                let parts = parts.iter().enumerate().filter(|(place, _)| chosen >> place & 1 == 1);
                parts.flat_map(|(_, part)| part).cloned().collect()
            };
            *key = Expr::GroupingSets((0..1 << parts.len()).rev().map(set).collect());
        }
        _ => {}
    }
    Ok(())
}

/// Replaces a number by the item of the SELECT list that it names.
pub fn resolve(expr: &mut Expr, projection: &[SelectItem], clause: &str) -> Checked {
    let Expr::Value(ValueWithSpan { value: Value::Number(number, _), span: _ }) = expr else { return Ok(()) };
    let number = number.to_string();
    let place = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    let before = place.and_then(|place| projection.get(..=place));
    let is_single = |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
    match before.and_then(|items| items.last().filter(|_| items.iter().all(is_single))) {
        Some(SelectItem::UnnamedExpr(found) | SelectItem::ExprWithAlias { expr: found, alias: _ }) => {
            *expr = found.clone();
            Ok(())
        }
        _ => refused(format!("the number {number} in {clause}"), "write the expression instead"),
    }
}
