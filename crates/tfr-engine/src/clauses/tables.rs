//! Tables and joins.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, Ident, Join, JoinConstraint, JoinOperator, ObjectNamePart, SelectItem, TableAlias,
    TableAliasColumnDef, TableFactor, TableFunctionArgs, TableSample, TableSampleKind, TableSampleQuantity,
    TableSampleSeed, TableVersion, TableWithJoins, WildcardAdditionalOptions,
};

use super::{Checked, parts, refused};
use crate::scopes;
use crate::syntax::{OwnExprs, Tree, visit_own_exprs};

pub const PIVOT: &str = "write sum(v) FILTER (WHERE k = 'a') AS a for each value";
pub const UNPIVOT: &str = "write SELECT 'a' AS name, a AS value FROM t UNION ALL ... for each column";

/// Checks a table, except for the queries and expressions in it.
pub fn factor(table: &mut TableFactor) -> Checked {
    match table {
        TableFactor::Table {
            name,
            alias,
            args,
            with_hints,
            version,
            with_ordinality,
            partitions,
            json_path,
            sample,
            index_hints,
        } => {
            check_alias(alias)?;
            check_sample(sample);
            if let Some(TableFunctionArgs { args: _, settings }) = args {
                if settings.is_some() {
                    return refused(format!("SETTINGS of {name}"), "leave it out");
                }
                if name.0.len() > 1 {
                    return refused(format!("the table function {name} of a schema"), "write its name alone");
                }
            }
            if let Some(hint) = with_hints.first() {
                return refused(format!("{name} WITH ({hint})"), "leave the hint out");
            }
            match version {
                None => {}
                Some(
                    TableVersion::ForSystemTimeAsOf(_)
                    | TableVersion::TimestampAsOf(_)
                    | TableVersion::VersionAsOf(_)
                    | TableVersion::Function(_)
                    | TableVersion::Changes { changes: _, at: _, end: _ },
                ) => {
                    return refused(
                        format!("an earlier version of the table {name}"),
                        "query the files that it consisted of",
                    );
                }
            }
            if *with_ordinality {
                return refused(format!("{name} WITH ORDINALITY"), "write row_number() OVER () in the SELECT list");
            }
            if !partitions.is_empty() {
                return refused(
                    format!("{name} PARTITION ({})", joined(partitions)),
                    "filter by the partition columns with WHERE",
                );
            }
            if let Some(path) = json_path {
                return refused(format!("the path {path} after the table {name}"), "write it in the SELECT list");
            }
            if let Some(hint) = index_hints.first() {
                return refused(format!("{name} {hint}"), "leave the hint out");
            }
            Ok(())
        }
        TableFactor::Derived { lateral: _, subquery: _, alias, sample } => {
            check_sample(sample);
            check_alias(alias)
        }
        TableFactor::TableFunction { expr, alias: _ } => {
            refused(format!("TABLE({expr})"), format!("write FROM {expr}"))
        }
        TableFactor::Function { lateral: _, name, args, with_ordinality, alias } => {
            check_alias(alias)?;
            if args.iter().any(|arg| !matches!(arg, FunctionArg::Unnamed(_))) {
                return refused(format!("a named argument of the table function {name}"), "leave the names out");
            }
            if *with_ordinality {
                return refused(format!("{name} WITH ORDINALITY"), "write row_number() OVER () in the SELECT list");
            }
            Ok(())
        }
        TableFactor::UNNEST { alias, array_exprs: _, with_offset, with_offset_alias, with_ordinality } => {
            check_alias(alias)?;
            if *with_offset || with_offset_alias.is_some() {
                return refused("UNNEST WITH OFFSET", ORDINALITY);
            }
            if *with_ordinality {
                return refused("UNNEST WITH ORDINALITY", ORDINALITY);
            }
            lateral_unnest(table);
            Ok(())
        }
        TableFactor::NestedJoin { table_with_joins, alias } => {
            check_alias(alias)?;
            with_joins(table_with_joins)?;
            merge_keys(table);
            Ok(())
        }
        TableFactor::Pivot {
            table: _,
            aggregate_functions: _,
            value_column: _,
            value_source: _,
            default_on_null: _,
            alias: _,
        } => refused("PIVOT", PIVOT),
        TableFactor::Unpivot { table: _, value: _, name: _, columns: _, null_inclusion: _, alias: _ } => {
            refused("UNPIVOT", UNPIVOT)
        }
        TableFactor::MatchRecognize {
            table: _,
            partition_by: _,
            order_by: _,
            measures: _,
            rows_per_match: _,
            after_match_skip: _,
            pattern: _,
            symbols: _,
            alias: _,
        } => refused("MATCH_RECOGNIZE", "write lag and lead over a window"),
        TableFactor::JsonTable { json_expr: _, json_path: _, columns: _, alias: _ } => {
            refused("JSON_TABLE", "write the column to a .jsonl file, and query that as a table")
        }
        TableFactor::OpenJsonTable { json_expr: _, json_path: _, columns: _, alias: _ } => {
            refused("OPENJSON", "write the column to a .jsonl file, and query that as a table")
        }
        TableFactor::XmlTable { namespaces: _, row_expression: _, passing: _, columns: _, alias: _ } => {
            refused("XMLTABLE", "")
        }
        TableFactor::SemanticView { name, dimensions: _, metrics: _, facts: _, where_clause: _, alias: _ } => {
            refused(format!("SEMANTIC_VIEW({name})"), "write the query of the view")
        }
    }
}

const ORDINALITY: &str = "write SELECT unnest(range(1, array_length(list) + 1)) AS place, unnest(list) AS item FROM t";

/// All parts of a sample are read by the planner of samples.
fn check_sample(sample: &Option<TableSampleKind>) {
    let Some(TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) = sample else {
        return;
    };
    let TableSample { modifier: _, name: _, quantity, seed, bucket: _, offset: _ } = sample.as_ref();
    if let Some(TableSampleQuantity { parenthesized: _, value: _, unit: _ }) = quantity {}
    if let Some(TableSampleSeed { modifier: _, value: _ }) = seed {}
}

fn check_alias(given: &Option<TableAlias>) -> Checked {
    given.as_ref().map_or(Ok(()), alias)
}

pub fn alias(alias: &TableAlias) -> Checked {
    let TableAlias { explicit: _, name, columns, at } = alias;
    for TableAliasColumnDef { name: column, data_type } in columns {
        if let Some(data_type) = data_type {
            return refused(
                format!("the type of {name}({column} {data_type})"),
                format!("cast the column in the query: CAST({column} AS {data_type})"),
            );
        }
    }
    match at {
        Some(at) => refused(format!("{name} AT {at}"), ORDINALITY),
        None => Ok(()),
    }
}

pub fn with_joins(table: &mut TableWithJoins) -> Checked {
    let TableWithJoins { relation: _, joins } = table;
    joins.iter_mut().try_for_each(join)
}

pub fn join(join: &mut Join) -> Checked {
    let Join { relation, global, join_operator } = join;
    if *global {
        return refused("GLOBAL JOIN", "leave GLOBAL out");
    }
    match join_operator {
        JoinOperator::Semi(constraint) => *join_operator = JoinOperator::LeftSemi(constraint.clone()),
        JoinOperator::Anti(constraint) => *join_operator = JoinOperator::LeftAnti(constraint.clone()),
        _ => {}
    }
    match join_operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint)
        | JoinOperator::Semi(constraint)
        | JoinOperator::LeftSemi(constraint)
        | JoinOperator::RightSemi(constraint)
        | JoinOperator::Anti(constraint)
        | JoinOperator::LeftAnti(constraint)
        | JoinOperator::RightAnti(constraint) => match constraint {
            JoinConstraint::On(_) | JoinConstraint::Using(_) | JoinConstraint::Natural | JoinConstraint::None => Ok(()),
        },
        JoinOperator::CrossJoin(JoinConstraint::None) => Ok(()),
        JoinOperator::CrossJoin(_) => refused("a condition of CROSS JOIN", "write JOIN"),
        JoinOperator::CrossApply => refused("CROSS APPLY", format!("write CROSS JOIN LATERAL {relation}")),
        JoinOperator::OuterApply => refused("OUTER APPLY", format!("write LEFT JOIN LATERAL {relation} ON true")),
        JoinOperator::AsOf { match_condition: _, constraint: _ } => refused(
            "ASOF JOIN",
            "join all earlier rows, and keep the last with QUALIFY row_number() OVER (PARTITION BY a.id ORDER BY b.ts DESC) = 1",
        ),
        JoinOperator::StraightJoin(_) => refused("STRAIGHT_JOIN", "write JOIN"),
        JoinOperator::ArrayJoin | JoinOperator::InnerArrayJoin => {
            refused("ARRAY JOIN", "write CROSS JOIN UNNEST(list) AS u(item)")
        }
        JoinOperator::LeftArrayJoin => refused("LEFT ARRAY JOIN", "write LEFT JOIN UNNEST(list) AS u(item) ON true"),
    }
}

/// Rewrites a join by `USING` or `NATURAL` that has a name as a subquery. The planner would keep both columns of a key.
fn merge_keys(table: &mut TableFactor) {
    let TableFactor::NestedJoin { table_with_joins, alias: alias @ Some(_) } = table else { return };
    let has_keys = table_with_joins.joins.iter().any(|join| {
        matches!(scopes::constraint(&join.join_operator), Some((JoinConstraint::Using(_) | JoinConstraint::Natural, _)))
    });
    if has_keys {
        let all = SelectItem::Wildcard(WildcardAdditionalOptions::default());
        let subquery = parts::query(parts::select(vec![all], vec![table_with_joins.as_ref().clone()], None));
        *table = TableFactor::Derived { lateral: false, subquery, alias: alias.take(), sample: None };
    }
}

/// Rewrites `UNNEST` of columns as a lateral subquery. The planner does not find the columns.
fn lateral_unnest(table: &mut TableFactor) {
    let TableFactor::UNNEST { alias, array_exprs, with_offset: false, with_offset_alias: None, with_ordinality: false } =
        table
    else {
        return;
    };
    let is_column = |expr: &Expr| matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    if !array_exprs.has_expr(&mut { is_column }) {
        return;
    }
    let items: Vec<_> =
        array_exprs.iter().map(|list| SelectItem::UnnamedExpr(parts::call("unnest", vec![list.clone()]))).collect();
    let unnamed = || TableAlias { explicit: true, name: Ident::new("unnest"), columns: Vec::new(), at: None };
    let mut alias = alias.take().unwrap_or_else(unnamed);
    if alias.columns.is_empty() && items.len() == 1 {
        // The column of a function has the name of its table.
        alias.columns.push(TableAliasColumnDef { name: alias.name.clone(), data_type: None });
    }
    let subquery = parts::query(parts::select(items, Vec::new(), None));
    *table = TableFactor::Derived { lateral: true, subquery, alias: Some(alias), sample: None };
}

/// Returns the names by which a SELECT refers to its tables.
pub fn names(from: &[TableWithJoins]) -> Vec<String> {
    idents(from).into_iter().map(|name| name.value.clone()).collect()
}

fn idents<'a>(from: &'a [TableWithJoins]) -> Vec<&'a Ident> {
    let tables = from
        .iter()
        .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)));
    let name = |table: &'a TableFactor| match table {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::UNNEST { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. } => Some(&alias.name),
        TableFactor::Table { name, .. } => name.0.last().and_then(ObjectNamePart::as_ident),
        _ => None,
    };
    tables.filter_map(name).collect()
}

/// Gives the columns of `USING` that a `WHERE` names without a table the first table, whose values they have. The planner
/// finds them in each table there.
pub fn name_using_columns(condition: &mut Expr, from: &[TableWithJoins]) {
    let [TableWithJoins { relation: _, joins }] = from else { return };
    let (names, mut keys) = (idents(from), None::<Vec<&Ident>>);
    for join in joins {
        let (JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)) = &join.join_operator
        else {
            return;
        };
        let JoinConstraint::Using(columns) = constraint else { return };
        let columns = columns.iter().filter_map(|column| match column.0.as_slice() {
            [ObjectNamePart::Identifier(column)] => Some(column),
            _ => None,
        });
        keys = Some(match keys {
            // Another column of this name would be ambiguous.
            Some(keys) => columns.filter(|column| keys.contains(column)).collect(),
            None => columns.collect(),
        });
    }
    if let Some(keys) = keys
        && let Some(first) = names.first().filter(|_| names.len() == joins.len() + 1)
    {
        let _ = visit_own_exprs(condition, &mut UsingColumns { keys, table: first, parameters: Vec::new() });
    }
}

struct UsingColumns<'a> {
    keys: Vec<&'a Ident>,
    table: &'a Ident,
    /// Those of the lambda functions around the visited expression.
    parameters: Vec<Vec<Ident>>,
}

impl OwnExprs for UsingColumns<'_> {
    fn enter(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        match expr {
            Expr::Lambda(lambda) => {
                self.parameters.push(lambda.params.iter().map(|parameter| parameter.name.clone()).collect());
            }
            Expr::Identifier(name)
                if self.keys.contains(&&*name)
                    && !self.parameters.iter().flatten().any(|parameter| parameter == name) =>
            {
                *expr = Expr::CompoundIdentifier(vec![self.table.clone(), name.clone()]);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn leave(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        if matches!(expr, Expr::Lambda(_)) {
            self.parameters.pop();
        }
        ControlFlow::Continue(())
    }
}

fn joined(names: &[Ident]) -> String {
    names.iter().map(Ident::to_string).collect::<Vec<_>>().join(", ")
}
