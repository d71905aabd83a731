//! Limits the memory that operators use without reserving it.
//!
//! The engine counts rows. A batch has 8192 of them, whatever their length, and 3000 rows that share a text of 1 MB
//! take 3 GB once a function has computed a text for each. [`within`] installs rules that split batches by bytes and
//! compact those that are retained, functions that reject results beyond a bound before they allocate them, and a rule
//! that bounds constants, which planning copies.
//!
//! Upstream: ours (a choice of meaning). Held by `crates/tfr-sql/tests/it/memory.rs`.

mod batches;
mod constants;
mod functions;
mod projection;
mod rule;
mod size;
mod texts;
mod windows;

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;

pub use functions::{ResultTooLarge, padding};
pub use size::RowTooLong;

/// Size limits of batches and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of a batch between operators. A longer row is a batch of its own.
    pub batch: u64,
    /// The memory limit, and bytes of one row. A function's results in one batch may take a quarter of it, and all
    /// constants of a query an eighth, since planning copies them.
    pub value: u64,
}

/// Installs the limits in a session that has the corrections of [`exact`](crate::exact).
pub fn within(mut builder: SessionStateBuilder, bounds: Bounds) -> SessionStateBuilder {
    let mut rules = match builder.physical_optimizers().take() {
        Some(optimizer) => optimizer.rules,
        None => PhysicalOptimizer::new().rules,
    };
    // After all rules that rearrange plans.
    rules.push(Arc::new(rule::BoundBatches(bounds)));
    let optimizer = builder.optimizer().get_or_insert_default();
    let simplified =
        optimizer.rules.iter().position(|rule| rule.name() == "simplify_expressions").map_or(0, |place| place + 1);
    optimizer.rules.insert(simplified, Arc::new(constants::BoundedConstants { limit: bounds.value }));
    let aggregates = builder.aggregate_functions().get_or_insert_default();
    aggregates.extend(texts::bounded_string_agg(bounds.value, aggregates));
    let registered = builder.scalar_functions().get_or_insert_default();
    let joining = functions::bounded_joining(bounds.value, registered);
    registered.extend(functions::bounded(bounds.value));
    registered.extend(joining);
    builder.with_physical_optimizer_rules(rules)
}
