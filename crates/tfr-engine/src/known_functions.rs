//! [`keep_known`]: removes the engine's functions whose answers nobody has compared with a judge.
//!
//! A new version of the engine may bring functions, and their answers may be wrong. So a session has only those of the
//! engine's functions that `known_functions.txt` lists. The test `matrix` writes this list: it holds the functions that
//! it asks over edge values. Any other function of the engine is an invalid function when a query is planned. Functions
//! that a user of the library registers stay.
//!
//! Upstream: ours (a choice of meaning). Held by `tests/slt/matrix.slt`: A function of the engine that the matrix does not know.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::execution::{SessionStateBuilder, SessionStateDefaults};

/// A kind and a name in each line.
const KNOWN: &str = include_str!("known_functions.txt");

/// Removes the engine's other functions from a session.
pub(crate) fn keep_known(builder: &mut SessionStateBuilder) {
    keep(builder.scalar_functions(), &SessionStateDefaults::default_scalar_functions(), "scalar", |function| {
        function.name()
    });
    keep(
        builder.higher_order_functions(),
        &SessionStateDefaults::default_higher_order_functions(),
        "scalar",
        |function| function.name(),
    );
    keep(
        builder.aggregate_functions(),
        &SessionStateDefaults::default_aggregate_functions(),
        "aggregate",
        |function| function.name(),
    );
    keep(builder.window_functions(), &SessionStateDefaults::default_window_functions(), "window", |function| {
        function.name()
    });
}

/// Keeps the functions of a kind that are known or not the engine's.
fn keep<F: PartialEq>(
    functions: &mut Option<Vec<Arc<F>>>,
    of_engine: &[Arc<F>],
    kind: &str,
    name: impl Fn(&F) -> &str,
) {
    let known: HashSet<_> = KNOWN.lines().filter_map(|line| line.split_once(' ')).collect();
    if let Some(functions) = functions {
        functions.retain(|function| known.contains(&(kind, name(function))) || !of_engine.contains(function));
    }
}

#[cfg(test)]
mod tests {
    use datafusion_expr::registry::FunctionRegistry;

    use super::*;

    fn named(functions: &[&str]) -> Option<Vec<Arc<String>>> {
        Some(functions.iter().map(|name| Arc::new((*name).to_owned())).collect())
    }

    #[test]
    fn functions_missing_from_the_list_are_removed() {
        let of_engine = named(&["lower", "new_in_this_version"]).unwrap_or_default();
        let mut functions = named(&["lower", "new_in_this_version", "of_a_user"]);
        keep(&mut functions, &of_engine, "scalar", |name| name.as_str());
        assert_eq!(functions, named(&["lower", "of_a_user"]));
    }

    #[test]
    fn functions_of_the_list_are_registered() {
        let state = crate::exact(SessionStateBuilder::new().with_default_features()).build();
        assert!(state.udf("lower").is_ok() && state.udaf("sum").is_ok() && state.udwf("rank").is_ok());
        assert!(state.udf("arrow_metadata").is_err());
    }
}
