//! The queries of other engines' test suites: `tests/foreign` asks them, and PostgreSQL and DuckDB judge the answers.
//!
//! `FOREIGN_DIRECTORY` has the suites, which are not part of this repository; without it the test is skipped.
//! `FOREIGN_PYTHON` is an interpreter with both judges and pyarrow, in the place of the tests' own.

use tfr_tests::{Scratch, python_with_judges, skip};

use crate::differential::answer_requests;

#[tokio::test(flavor = "multi_thread")]
async fn foreign_queries_match_their_judges() {
    let Some(directory) = std::env::var_os("FOREIGN_DIRECTORY") else {
        eprintln!("skipped: FOREIGN_DIRECTORY is not set");
        return;
    };
    let script = "tests/foreign/foreign.py";
    let mut command = match python_with_judges(script, "FOREIGN_PYTHON") {
        Ok(command) => command,
        Err(reason) => return skip(&reason),
    };
    let scratch = Scratch::default();
    command.arg(directory).arg(scratch.path());
    assert!(answer_requests(command).await, "answers differ; see above");
}
