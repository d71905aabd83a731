//! Function calls.
//!
//! The planner ignores DISTINCT, FILTER, OVER, IGNORE NULLS, ORDER BY and WITHIN GROUP of scalar functions, subqueries
//! as arguments (`ARRAY(SELECT ...)`), and a second pair of parentheses. Window functions ignore further arguments.

use std::collections::HashSet;
use std::sync::LazyLock;

use datafusion::functions::all_default_functions;
use datafusion::functions_aggregate::all_default_aggregate_functions;
use datafusion::functions_nested::{all_default_higher_order_functions, all_default_nested_functions};
use datafusion::functions_window::all_default_window_functions;
use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArgumentList,
    FunctionArguments, ObjectNamePart, Value, ValueWithSpan,
};

use super::{Checked, order_by, refused, windows};

/// The names of the engine's scalar functions, and of `unnest`, which is none of its functions.
static SCALAR: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let functions = all_default_functions().into_iter().chain(all_default_nested_functions());
    let functions = functions.flat_map(|function| names(function.name(), function.aliases()));
    let higher_order = all_default_higher_order_functions();
    let higher_order = higher_order.iter().flat_map(|function| names(function.name(), function.aliases()));
    functions.chain(higher_order).chain(["unnest", "unnest_outer", "make_map", "map"].map(str::to_owned)).collect()
});

static AGGREGATES: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let functions = all_default_aggregate_functions().into_iter();
    functions.flat_map(|function| names(function.name(), function.aliases())).collect()
});

static WINDOW: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let functions = all_default_window_functions().into_iter();
    functions.flat_map(|function| names(function.name(), function.aliases())).collect()
});

fn names(name: &str, aliases: &[String]) -> Vec<String> {
    std::iter::once(name.to_owned()).chain(aliases.iter().cloned()).collect()
}

/// Window functions with the number of their arguments, where the engine accepts others.
const ARGUMENTS: &[(&str, usize)] = &[("first_value", 1), ("last_value", 1), ("nth_value", 2)];

/// Window functions that read IGNORE NULLS. So does `array_agg`.
const READ_NULLS: &[&str] = &["lag", "lead", "first_value", "last_value", "nth_value", "array_agg"];

/// Aggregates that ignore DISTINCT, and whose result depends on it.
const NOT_DISTINCT: &[&str] = &["approx_percentile_cont", "corr", "covar", "covar_pop", "covar_samp", "nth_value"];

pub fn check(function: &Function) -> Checked {
    let Function { name, uses_odbc_syntax: _, parameters, args, filter, null_treatment, over, within_group } = function;
    match parameters {
        FunctionArguments::None => {}
        FunctionArguments::Subquery(_) | FunctionArguments::List(_) => {
            return refused(format!("{name}(...) with a second pair of parentheses"), "write one list of arguments");
        }
    }
    let list = match args {
        FunctionArguments::None => None,
        FunctionArguments::Subquery(query) => {
            return refused(
                format!("{name} of a subquery"),
                format!("write (SELECT array_agg(x) FROM ({query}) AS t(x))"),
            );
        }
        FunctionArguments::List(list) => Some(list),
    };
    let word = match name.0.as_slice() {
        [ObjectNamePart::Identifier(ident)] => ident.value.to_lowercase(),
        _ => name.to_string(),
    };
    let mut modifiers = Modifiers {
        over: over.is_some(),
        filter: filter.is_some(),
        within_group: !within_group.is_empty(),
        nulls: null_treatment.is_some(),
        ..Modifiers::default()
    };
    if let Some(list) = list {
        let FunctionArgumentList { duplicate_treatment, args, clauses } = list;
        modifiers.distinct = matches!(duplicate_treatment, Some(DuplicateTreatment::Distinct));
        modifiers.arguments = args.len();
        check_arguments(&word, args, &modifiers)?;
        for clause in clauses {
            modifiers.add(name.to_string(), clause)?;
        }
    }
    order_by::check(within_group)?;
    modifiers.check(&word)?;
    over.as_ref().map_or(Ok(()), windows::check)
}

fn check_arguments(name: &str, args: &[FunctionArg], modifiers: &Modifiers) -> Checked {
    for arg in args {
        let (value, named) = match arg {
            FunctionArg::Unnamed(value) => (value, false),
            FunctionArg::Named { name: _, arg, operator: _ } | FunctionArg::ExprNamed { name: _, arg, operator: _ } => {
                (arg, true)
            }
        };
        // The planner reads the names of all other functions.
        if named && ["unnest", "unnest_outer", "make_map", "map"].contains(&name) {
            return refused(format!("a named argument of {name}"), "leave the name out");
        }
        match value {
            FunctionArgExpr::Expr(_) => {}
            FunctionArgExpr::Wildcard | FunctionArgExpr::QualifiedWildcard(_) => {
                if modifiers.distinct {
                    return refused(
                        format!("{name}(DISTINCT *)"),
                        "write SELECT count(*) FROM (SELECT DISTINCT * FROM t)",
                    );
                }
                // `count` of one table's columns has a rule of its own.
                if matches!(value, FunctionArgExpr::Wildcard) && name != "count" && AGGREGATES.contains(name) {
                    return refused(format!("{name}(*)"), format!("write {name}(a)"));
                }
            }
            FunctionArgExpr::WildcardWithOptions(options) => {
                return refused(format!("{name}(*{options})"), "name the columns");
            }
        }
    }
    Ok(())
}

/// Whether a call is one of an aggregate or of a window function.
pub fn is_aggregate_or_window(call: &Function) -> bool {
    let name = call.name.to_string().to_lowercase();
    call.over.is_some() || AGGREGATES.contains(&name) || WINDOW.contains(&name)
}

fn is_number(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(ValueWithSpan { value: Value::Number(..), span: _ }))
}

/// What a call has besides its arguments.
#[derive(Default)]
struct Modifiers {
    arguments: usize,
    distinct: bool,
    order_by: bool,
    filter: bool,
    nulls: bool,
    within_group: bool,
    over: bool,
}

impl Modifiers {
    fn add(&mut self, name: String, clause: &FunctionArgumentClause) -> Checked {
        match clause {
            FunctionArgumentClause::IgnoreOrRespectNulls(_) => self.nulls = true,
            FunctionArgumentClause::OrderBy(exprs) => {
                self.order_by = true;
                // The planner takes it for the number of a column of the table.
                if let Some(number) = exprs.iter().find(|order| is_number(&order.expr)) {
                    return refused(format!("the number {} in ORDER BY of {name}", number.expr), "name the column");
                }
                order_by::check(exprs)?;
            }
            FunctionArgumentClause::Limit(_) => {
                return refused(
                    format!("LIMIT in {name}"),
                    format!("write array_slice({name}(x ORDER BY y), 1, n), or LIMIT in a subquery"),
                );
            }
            FunctionArgumentClause::OnOverflow(overflow) => {
                return refused(format!("{overflow} in {name}"), "leave it out: texts have no maximum length");
            }
            FunctionArgumentClause::Having(having) => {
                return refused(format!("{having} in {name}"), "write first_value(x ORDER BY y), or last_value");
            }
            FunctionArgumentClause::Separator(separator) => {
                return refused(
                    format!("SEPARATOR in {name}"),
                    format!(
                        "write string_agg(x, {separator}), with the order as string_agg(x, {separator} ORDER BY y)"
                    ),
                );
            }
            FunctionArgumentClause::JsonNullClause(clause) => return refused(format!("{clause} in {name}"), ""),
            FunctionArgumentClause::JsonReturningClause(clause) => {
                return refused(format!("{clause} in {name}"), "cast the result");
            }
        }
        Ok(())
    }

    fn check(&self, name: &str) -> Checked {
        let is_aggregate = AGGREGATES.contains(name);
        let is_window = WINDOW.contains(name);
        if SCALAR.contains(name) && !is_aggregate && !is_window {
            return match self.first() {
                Some(modifier) => refused(
                    format!("{modifier} of {name}, which is no aggregate,"),
                    "leave it out, or write it at an aggregate",
                ),
                None => Ok(()),
            };
        }
        if name == "any_value" && self.order_by {
            return refused("ORDER BY in any_value", "write first_value(x ORDER BY y)");
        }
        if is_aggregate && self.distinct && (NOT_DISTINCT.contains(&name) || name.starts_with("regr_")) {
            return refused(format!("DISTINCT of {name}"), "write SELECT DISTINCT in a subquery");
        }
        if !self.over {
            return Ok(());
        }
        let has_frame = is_aggregate && !READ_NULLS.iter().any(|reads| *reads == name && name != "array_agg");
        if is_window && !has_frame && (self.distinct || self.filter) {
            return refused(
                format!("{} of the window function {name}", if self.distinct { "DISTINCT" } else { "FILTER" }),
                "write the condition in a subquery",
            );
        }
        if self.nulls && (is_window || is_aggregate) && !READ_NULLS.contains(&name) {
            return refused(format!("IGNORE NULLS and RESPECT NULLS of {name}"), "leave it out");
        }
        match ARGUMENTS.iter().find(|(function, _)| *function == name) {
            Some((_, expected)) if self.arguments != *expected => {
                Err(format!("wrong number of arguments of {name}: expected {expected}, found {}", self.arguments))
            }
            _ => Ok(()),
        }
    }

    fn first(&self) -> Option<&'static str> {
        let modifiers = [
            ("DISTINCT", self.distinct),
            ("ORDER BY", self.order_by),
            ("WITHIN GROUP", self.within_group),
            ("FILTER", self.filter),
            ("IGNORE NULLS", self.nulls),
            ("OVER", self.over),
        ];
        modifiers.into_iter().find(|(_, given)| *given).map(|(modifier, _)| modifier)
    }
}
