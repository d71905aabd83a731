//! Casts to `VARCHAR(n)`, which cut texts as in PostgreSQL. The engine ignores the length.
//!
//! Upstream: ours (a choice of meaning). Held by `tests/slt/numbers.slt`: VARCHAR(n) cuts.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::functions::unicode::left;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    CharacterLength, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Value, VisitorMut,
};
use datafusion_common::{DataFusionError, Result};
use datafusion_expr::ScalarUDF;

use crate::syntax;

/// A cast to a text with a maximum length: a call of `left` by this name.
#[derive(Debug, Clone, Copy)]
pub struct VarcharCast;

impl VarcharCast {
    const NAME: &str = "varchar";

    /// Returns the function that casts call.
    pub(crate) fn function() -> Arc<ScalarUDF> {
        Arc::new(left().as_ref().clone().with_aliases([Self::NAME]))
    }

    /// Returns the cast as it was written, if an expression is one.
    pub fn written(expr: &Expr) -> Option<Expr> {
        let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = expr else { return None };
        let argument = |number| match list.args.get(number) {
            Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))) => Some(expr),
            _ => None,
        };
        match (name.to_string().as_str(), argument(0)?, argument(1)?) {
            (Self::NAME, Expr::Cast { kind, expr, array, format, .. }, Expr::Value(length)) => {
                let length = length.value.to_string().parse().ok()?;
                Some(Expr::Cast {
                    kind: kind.clone(),
                    expr: expr.clone(),
                    data_type: DataType::Varchar(Some(CharacterLength::IntegerLength { length, unit: None })),
                    array: *array,
                    format: format.clone(),
                })
            }
            _ => None,
        }
    }
}

/// Replaces casts to `VARCHAR(n)`, and rejects those to `CHAR(n)`, which would add spaces.
pub fn cut_texts(statements: &mut VecDeque<Statement>) -> Result<()> {
    for statement in statements {
        if let ControlFlow::Break(written) = syntax::visit(statement, &mut Casts) {
            return Err(DataFusionError::Plan(format!(
                "{written}: CHAR(n) is not supported; write VARCHAR(n), or rpad(x, n) for a text of exactly n characters"
            )));
        }
    }
    Ok(())
}

struct Casts;

impl VisitorMut for Casts {
    type Break = String;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        let Expr::Cast { data_type, .. } = expr else { return ControlFlow::Continue(()) };
        let length = match data_type {
            DataType::Char(Some(_)) | DataType::Character(Some(_)) => return ControlFlow::Break(expr.to_string()),
            DataType::Varchar(length)
            | DataType::Nvarchar(length)
            | DataType::CharVarying(length)
            | DataType::CharacterVarying(length) => length.take(),
            _ => None,
        };
        if let Some(CharacterLength::IntegerLength { length, .. }) = length {
            let length = Expr::value(Value::Number(length.to_string(), false));
            let cast = std::mem::replace(expr, Expr::value(Value::Null));
            *expr = syntax::call(VarcharCast::NAME, [cast, length]);
        }
        ControlFlow::Continue(())
    }
}
