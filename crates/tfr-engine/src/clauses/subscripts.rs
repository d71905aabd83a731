//! Parts of lists: `l[2:]` ends at the last item, and `l[:2]` begins at the first.

use datafusion::sql::sqlparser::ast::{AccessExpr, Expr, Subscript, UnaryOperator};

use super::{Checked, parts, refused};
use crate::syntax::Tree;

pub fn check(access: &mut AccessExpr) -> Checked {
    match access {
        AccessExpr::Dot(_) | AccessExpr::Subscript(Subscript::Index { index: _ }) => Ok(()),
        AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, stride }) => {
            if stride.is_some() && (lower_bound.is_none() || upper_bound.is_none()) {
                return refused("l[::n] without bounds", "write l[1:-1:n]");
            }
            lower_bound.get_or_insert_with(|| parts::number("1"));
            // Negative numbers count from the end.
            upper_bound
                .get_or_insert_with(|| Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(parts::number("1")) });
            Ok(())
        }
    }
}

/// Whether a part of a list in the expression lacks a bound.
pub fn is_rewritten(expr: &Expr) -> bool {
    expr.has_expr(&mut |expr| {
        matches!(expr, Expr::CompoundFieldAccess { root: _, access_chain } if access_chain.iter().any(lacks_bound))
    })
}

fn lacks_bound(access: &AccessExpr) -> bool {
    matches!(access, AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, stride: _ })
        if lower_bound.is_none() || upper_bound.is_none())
}
