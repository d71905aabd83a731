//! SQL answers that are right: corrects the query engine where its answers are known to be wrong, and refuses by name what it
//! cannot correct.
//!
//! [`exact`] installs all of it in a session.

mod text_casts;

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;

/// Installs the corrections in a session that has the engine's default features.
pub fn exact(builder: SessionStateBuilder) -> SessionStateBuilder {
    builder.with_analyzer_rule(Arc::new(text_casts::CheckTextCasts::new()))
}
