//! The clauses of a `SELECT`.

use std::mem;

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ConnectByKind, Distinct, ExceptSelectItem, ExcludeSelectItem, Expr, Ident, LateralView,
    ReplaceSelectElement, ReplaceSelectItem, Select, SelectFlavor, SelectInto, SelectItem,
    SelectItemQualifiedWildcardKind, TableWithJoins, Top, WildcardAdditionalOptions,
};

use super::casts::CastMarks;
use super::{Checked, group_by, parts, refused, rows, subscripts, tables, unnest, windows};

/// `in_expression`: whether the query is part of an expression, and so may have another query around it whose named
/// windows the planner would use. `ordered_by`: the calls of aggregates and window functions that order its rows.
pub fn check(select: &mut Select, in_expression: bool, ordered_by: &[Expr], names: &mut rows::Names) -> Checked {
    group_by::check(select)?;
    let marks = CastMarks::of(select, ordered_by);
    windows::define(&mut select.named_window)?;
    let Select {
        select_token: _,
        // Comments, which cannot change the rows.
        optimizer_hints: _,
        distinct,
        select_modifiers,
        top,
        top_before_distinct: _,
        projection,
        exclude,
        into,
        from,
        lateral_views,
        prewhere,
        selection,
        connect_by,
        group_by,
        cluster_by,
        distribute_by,
        sort_by,
        having,
        named_window,
        qualify,
        window_before_qualify: _,
        value_table_mode,
        flavor,
    } = select;
    if let Some(Top { with_ties, percent, quantity: _ }) = top {
        let instead = match (*with_ties, *percent) {
            (true, _) => "write QUALIFY rank() OVER (ORDER BY a) <= n",
            (_, true) => "write QUALIFY row_number() OVER (ORDER BY a) <= n / 100.0 * count(*) OVER ()",
            (false, false) => "write LIMIT n at the end of the query",
        };
        return refused("TOP", instead);
    }
    if let Some(modifiers) = select_modifiers
        && modifiers.is_any_set()
    {
        return refused(format!("SELECT {}", modifiers.to_string().trim()), "leave the modifiers out");
    }
    if let Some(ExcludeSelectItem::Single(_) | ExcludeSelectItem::Multiple(_)) = exclude {
        return refused("EXCLUDE after the SELECT list", "write SELECT * EXCLUDE (a)");
    }
    if let Some(SelectInto { temporary: _, unlogged: _, table: _, name }) = into {
        return refused(format!("SELECT ... INTO {name}"), "write the result to files, and read them in another query");
    }
    if let Some(LateralView { lateral_view, lateral_view_name, lateral_col_alias: _, outer: _ }) = lateral_views.first()
    {
        return refused(
            format!("LATERAL VIEW {lateral_view}"),
            format!(
                "write CROSS JOIN UNNEST(list) AS {}(item), or SELECT unnest(list) AS item",
                view_name(&lateral_view_name.to_string())
            ),
        );
    }
    if prewhere.is_some() {
        return refused("PREWHERE", "write WHERE");
    }
    match connect_by.first() {
        None => {}
        Some(ConnectByKind::ConnectBy { connect_token: _, nocycle: _, relationships: _ }) => {
            return refused("CONNECT BY", RECURSIVE);
        }
        Some(ConnectByKind::StartWith { start_token: _, condition: _ }) => return refused("START WITH", RECURSIVE),
    }
    if !cluster_by.is_empty() {
        return refused("CLUSTER BY", SPREAD);
    }
    if !distribute_by.is_empty() {
        return refused("DISTRIBUTE BY", SPREAD);
    }
    if !sort_by.is_empty() {
        return refused("SORT BY inside a set operation", "write ORDER BY at the end of the query");
    }
    if let Some(mode) = value_table_mode {
        return refused(format!("SELECT {mode}"), "write SELECT {a: a, b: b} AS s");
    }
    if *flavor == SelectFlavor::FromFirstNoSelect {
        *flavor = SelectFlavor::FromFirst;
        *projection = vec![SelectItem::Wildcard(no_options())];
    }
    from.iter_mut().try_for_each(tables::with_joins)?;
    let replaced = check_items(projection)?;
    for column in replaced {
        let exists = exists(column);
        *selection = Some(match selection.take() {
            Some(filter) => Expr::BinaryOp {
                left: Box::new(Expr::Nested(Box::new(filter))),
                op: BinaryOperator::And,
                right: Box::new(exists),
            },
            None => exists,
        });
    }
    if let Some(condition) = selection {
        tables::name_using_columns(condition, from);
    }
    keep_names(projection, from);
    for expr in selection.iter_mut().chain(having.iter_mut()).chain(qualify.iter_mut()) {
        rows::filter(expr, names)?;
    }
    match distinct {
        None | Some(Distinct::All | Distinct::Distinct) => {}
        // The planner takes numbers for constants.
        Some(Distinct::On(exprs)) => {
            exprs.iter_mut().try_for_each(|expr| group_by::resolve(expr, projection, "DISTINCT ON"))?;
        }
    }
    windows::inline(distinct, named_window)?;
    windows::inline(from, named_window)?;
    windows::reject(selection, "WHERE")?;
    windows::reject(group_by, "GROUP BY")?;
    windows::reject(having, "HAVING")?;
    windows::inline(qualify, named_window)?;
    for item in projection {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, alias: _ }) = item else { continue };
        match in_expression {
            true => windows::inline(expr, named_window)?,
            // The planner inlines `OVER w` itself, and the column is named by it.
            false => windows::extend(expr, named_window)?,
        }
    }
    unnest::correct(&mut select.projection, &select.from);
    if let Some(marks) = marks {
        marks.mark(select);
    }
    Ok(())
}

const RECURSIVE: &str = "write WITH RECURSIVE";
const SPREAD: &str = "leave it out: the rows are one table, and ORDER BY sorts them";

fn view_name(name: &str) -> &str {
    if name.is_empty() { "u" } else { name }
}

/// Checks the items of a SELECT list. Returns the columns that `* REPLACE (... AS column)` expects.
pub fn check_items(items: &mut [SelectItem]) -> Checked<Vec<Vec<Ident>>> {
    let mut replaced = Vec::new();
    for item in items {
        match item {
            SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { expr: _, alias: _ } => {}
            SelectItem::ExprWithAliases { expr, aliases: _ } => {
                return refused(format!("{expr} with several names"), "write an item for each column");
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                let parts = || name.0.iter().filter_map(|part| part.as_ident()).cloned();
                replaced.extend(check_wildcard(options)?.into_iter().map(|column| parts().chain([column]).collect()));
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::Expr(expr), _) => {
                return refused(
                    format!("{expr}.*"),
                    format!("write unnest({expr}) for all fields of a struct, or {expr}['a'] AS a for one"),
                );
            }
            SelectItem::Wildcard(options) => {
                replaced.extend(check_wildcard(options)?.into_iter().map(|column| vec![column]));
            }
        }
    }
    Ok(replaced)
}

fn check_wildcard(options: &WildcardAdditionalOptions) -> Checked<Vec<Ident>> {
    let WildcardAdditionalOptions {
        wildcard_token: _,
        opt_ilike,
        opt_exclude,
        opt_except,
        opt_replace,
        opt_rename,
        opt_alias,
    } = options;
    if let Some(ilike) = opt_ilike {
        return refused(format!("* {ilike}"), "name the columns");
    }
    if opt_rename.is_some() {
        return refused("* RENAME", "write * EXCLUDE (a), a AS b");
    }
    if let Some(alias) = opt_alias {
        return refused(format!("* AS {alias}"), "name the columns");
    }
    match opt_exclude {
        None | Some(ExcludeSelectItem::Single(_) | ExcludeSelectItem::Multiple(_)) => {}
    }
    if let Some(ExceptSelectItem { first_element: _, additional_elements: _ }) = opt_except {}
    let Some(ReplaceSelectItem { items }) = opt_replace else { return Ok(Vec::new()) };
    let columns = items.iter().map(|item| {
        let ReplaceSelectElement { expr: _, column_name, as_keyword: _ } = item.as_ref();
        column_name.clone()
    });
    Ok(columns.collect())
}

/// Returns a condition that is always true, and that cannot be planned without the column. The planner ignores the
/// replacement of a column that does not exist.
fn exists(mut column: Vec<Ident>) -> Expr {
    if let Some(name) = column.last_mut() {
        // Replaced columns are compared exactly.
        name.quote_style = Some('"');
    }
    let column = match column.as_slice() {
        [name] => Expr::Identifier(name.clone()),
        _ => Expr::CompoundIdentifier(column),
    };
    Expr::IsNotNull(Box::new(Expr::Nested(Box::new(Expr::IsNull(Box::new(column))))))
}

fn no_options() -> WildcardAdditionalOptions {
    WildcardAdditionalOptions {
        wildcard_token: AttachedToken::empty(),
        opt_ilike: None,
        opt_exclude: None,
        opt_except: None,
        opt_replace: None,
        opt_rename: None,
        opt_alias: None,
    }
}

/// Names the unnamed items that will be rewritten by their text, without the names of tables.
fn keep_names(items: &mut [SelectItem], from: &[TableWithJoins]) {
    for item in items {
        let SelectItem::UnnamedExpr(expr) = item else { continue };
        if !rows::is_rewritten(expr) && !subscripts::is_rewritten(expr) {
            continue;
        }
        let expr = mem::replace(expr, parts::null());
        let alias = Ident::with_quote('"', rows::text(&expr, &tables::names(from)));
        *item = SelectItem::ExprWithAlias { expr, alias };
    }
}
