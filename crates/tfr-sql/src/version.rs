//! The release and the commit of this build.

use datafusion::DATAFUSION_VERSION;
use datafusion::arrow::ARROW_VERSION;

/// The release of tfr-sql.
pub const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// The commit of this build. `None` of a development build, and of one without git; see `build.rs`.
pub const COMMIT: Option<&str> = option_env!("TFR_SQL_COMMIT");

/// Names a build in messages.
pub fn build(release: &str, commit: Option<&str>) -> String {
    format!("{release} (commit {})", commit.unwrap_or("unknown"))
}

/// Returns the text of `--version`: the release, the commit with its date, and the engine.
pub fn long() -> String {
    let date = option_env!("TFR_SQL_COMMIT_DATE").map(|date| format!(", {date}")).unwrap_or_default();
    format!("{RELEASE}\ncommit {}{date}\n{}", COMMIT.unwrap_or("unknown"), engine())
}

/// Names the versions of the engine.
pub fn engine() -> String {
    format!("DataFusion {DATAFUSION_VERSION}, Arrow {ARROW_VERSION}")
}
