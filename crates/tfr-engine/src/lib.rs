//! SQL answers that are right: corrects the query engine where its answers are known to be wrong, and refuses by name what it
//! cannot correct.
//!
//! [`exact`] installs all of it in a session. What the parser gets wrong is mended before: parse with [`parse`], not by
//! `SessionContext::sql`.

mod dialect;
mod time_zones;

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion_expr::ScalarUDF;

pub use dialect::{SqlDialect, parse, parse_all};

/// Installs the corrections in a session that has the engine's default features.
pub fn exact(builder: SessionStateBuilder) -> SessionStateBuilder {
    let mut builder = builder.with_type_planner(Arc::new(time_zones::ZonedTypes));
    builder
        .scalar_functions()
        .get_or_insert_default()
        .push(Arc::new(ScalarUDF::new_from_impl(time_zones::AtTimeZone::default())));
    builder
}
