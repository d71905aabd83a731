//! Messages of the engine's planner in other words: what it found, and what to write instead.
//!
//! The texts of the engine that are matched here were read from DataFusion 55.2.

use datafusion::common::{SchemaError, TableReference};

use super::quoted;

/// A message, and how to fix the query.
pub(super) struct Reworded {
    pub(super) text: String,
    pub(super) hint: String,
}

/// Returns a message of the planner in other words, if it is one of those that do not help.
pub(super) fn message(text: &str) -> Option<Reworded> {
    if let Some((_, rest)) = text.split_once(" require unique expression names but the expression \"") {
        let (expr, _) = rest.split_once("\" at position ")?;
        // The types of casts come after AS too.
        let alias = expr.rsplit_once(" AS ").map(|(_, alias)| alias).filter(|alias| !alias.contains(')'));
        let name = alias.unwrap_or(expr);
        return Some(two_columns(name));
    }
    if let Some(qualifier) = text.strip_prefix("Invalid qualifier ") {
        return Some(Reworded {
            text: format!("no table named {qualifier}"),
            hint: format!(
                "for the fields of a struct column write unnest({qualifier}), or {qualifier}['a'] AS a for one of them"
            ),
        });
    }
    if let Some((before, _)) = text.split_once(" must appear in the GROUP BY clause") {
        let (_, column) = before.rsplit_once("column ")?;
        return Some(Reworded {
            text: format!("column {column} is neither in GROUP BY nor in an aggregate function"),
            hint: "write it after GROUP BY too, or in an aggregate such as max(x)".to_owned(),
        });
    }
    if text.contains("unnest on struct can only be applied") {
        return Some(Reworded {
            text: "a struct cannot be unnested within an expression, or next to an expression that has the name of a column"
                .to_owned(),
            hint: "unnest it in a subquery: SELECT a + 1 AS a, p, q FROM (SELECT a, unnest(s) FROM t) AS u(a, p, q)".to_owned(),
        });
    }
    let counts = text.strip_prefix("Source table contains ")?;
    let (columns, rest) = counts.split_once(" columns but only ")?;
    let (names, _) = rest.split_once(" names given as column alias")?;
    Some(Reworded {
        text: format!("a table has {columns} columns, and {names} names are given for them"),
        hint: "give a name for each column: AS t(a, b)".to_owned(),
    })
}

/// Returns an error about the names of columns in other words.
pub(super) fn schema(error: &SchemaError) -> Option<Reworded> {
    match error {
        SchemaError::DuplicateQualifiedField { qualifier, name } => Some(in_table(qualifier, name)),
        SchemaError::DuplicateUnqualifiedField { name } => Some(two_columns(&quoted(name))),
        SchemaError::AmbiguousReference { field } => {
            let name = quoted(&field.name);
            Some(Reworded {
                text: format!("several tables have a column {name}"),
                hint: format!("write the name of the table, as in t.{name}"),
            })
        }
        // Explained with the columns that exist.
        SchemaError::FieldNotFound { field: _, valid_fields: _ } => None,
    }
}

fn two_columns(name: &str) -> Reworded {
    Reworded {
        text: format!("two columns have the name {name}"),
        hint: "name one of them with AS: SELECT a.x, b.x AS x_2".to_owned(),
    }
}

fn in_table(table: &TableReference, name: &str) -> Reworded {
    let (table, name) = (quoted(table.table()), quoted(name));
    Reworded {
        text: format!("two columns have the name {table}.{name}"),
        hint: format!(
            "give a table that is joined with itself another name: {table} AS a JOIN {table} AS b; and name columns of a \
             subquery with AS"
        ),
    }
}

#[cfg(test)]
mod tests;
