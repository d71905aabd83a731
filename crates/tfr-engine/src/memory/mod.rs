//! Limits the memory that operators use without reserving it.
//!
//! The engine counts rows. A batch has 8192 of them, whatever their length, and 3000 rows that share a text of 1 MB
//! take 3 GB once a function has computed a text for each. [`within`] installs rules that split batches by bytes and
//! compact those that are retained, and functions that reject results beyond a bound before they allocate them.
//!
//! Upstream: ours (a choice of meaning). Held by `crates/tfr-sql/tests/it/memory.rs`.

mod batches;
mod functions;
mod projection;
mod rule;
mod size;
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
    /// Bytes of one row, and of a function's result in one row. The results in one batch may take a quarter of it.
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
    let registered = builder.scalar_functions().get_or_insert_default();
    let joining = functions::bounded_joining(bounds.value, registered);
    registered.extend(functions::bounded(bounds.value));
    registered.extend(joining);
    builder.with_physical_optimizer_rules(rules)
}
