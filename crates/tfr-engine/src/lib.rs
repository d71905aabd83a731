//! SQL answers that are right: corrects the query engine where its answers are known to be wrong, and refuses by name what it
//! cannot correct.
//!
//! [`exact`] installs all of it in a session.

mod null_safe_joins;
mod sample;
mod subqueries;

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::optimizer::Optimizer;

/// Installs the corrections in a session that has the engine's default features.
pub fn exact(builder: SessionStateBuilder) -> SessionStateBuilder {
    let mut rules = Optimizer::new().rules;
    null_safe_joins::correct(&mut rules);
    builder
        .with_optimizer_rules(rules)
        .with_analyzer_rule(Arc::new(subqueries::Subqueries))
        .with_relation_planners(vec![Arc::new(sample::TableSamples)])
}
