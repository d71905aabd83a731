//! The modifiers of sort expressions: in queries, windows and aggregates.

use datafusion::sql::sqlparser::ast::{OrderByExpr, OrderByOptions};

use super::{Checked, refused};

pub fn check(exprs: &[OrderByExpr]) -> Checked {
    for OrderByExpr { expr: _, options, with_fill } in exprs {
        let OrderByOptions { asc: _, nulls_first: _ } = options;
        if with_fill.is_some() {
            return refused("ORDER BY ... WITH FILL", "join with generate_series(first, last)");
        }
    }
    Ok(())
}
