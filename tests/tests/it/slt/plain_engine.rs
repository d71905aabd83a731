//! Which sections of `answers.slt` the engine answers right without the corrections of `tfr-engine`. If a new version of the
//! engine answers another one, a correction may go: the head of its module names the section that holds it.

use std::path::Path;

use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result};
use datafusion::prelude::{SessionConfig, SessionContext};
use sqllogictest::{AsyncDB, DBOutput, DefaultColumnType, Record, Runner};
use tfr_tests::repository;

use super::output;
use crate::session;

const RIGHT: [&str; 4] = [
    "What no statistics of a file say: they leave NaN out.",
    "The second is equal once the column that nobody reads is left out.",
    "DISTINCT makes keys, too.",
    "A field of a struct whose rule failed (apache/datafusion#25414).",
];

#[tokio::test(flavor = "multi_thread")]
async fn plain_engine_answers_the_known_sections() {
    // Some wrong answers depend on which partition comes first, so that a run may answer a section right by chance. What is
    // right in each run counts; the runs end as soon as nothing else is left.
    let mut right = right_sections().await;
    for _ in 0..4 {
        if right == RIGHT {
            break;
        }
        let again = right_sections().await;
        right.retain(|section| again.contains(section));
    }
    assert_eq!(right, RIGHT);
}

/// The headings of the sections whose queries one run of the plain engine answers right.
async fn right_sections() -> Vec<String> {
    let mut runner =
        Runner::new(|| async { Ok(PlainEngine(session::open_plain(SessionConfig::new().with_target_partitions(2)))) });
    runner.set_var("DATA".to_owned(), repository().join("tests/data").display().to_string());
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("slt/answers.slt");
    // The heading of each section, whether it has a query, and whether all its answers are right.
    let mut sections: Vec<(String, bool, bool)> = Vec::new();
    for record in sqllogictest::parse_file::<DefaultColumnType>(file).unwrap() {
        if let Record::Comment(lines) = &record {
            sections.push((lines.concat().trim().to_owned(), false, true));
        }
        let is_query = matches!(record, Record::Query { .. });
        let is_right = runner.run_async(record).await.is_ok();
        if let Some((_, has_query, all_right)) = sections.last_mut() {
            *has_query |= is_query;
            *all_right &= is_right;
        }
    }
    sections.retain(|(_, has_query, all_right)| *has_query && *all_right);
    sections.into_iter().map(|(heading, ..)| heading).collect()
}

struct PlainEngine(SessionContext);

#[async_trait]
impl AsyncDB for PlainEngine {
    type Error = DataFusionError;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>> {
        let (context, sql) = (self.0.clone(), sql.to_owned());
        // Of some queries the engine panics.
        let answered = tokio::spawn(async move { output(context.sql(&sql).await?).await }).await;
        answered.map_err(|panic| DataFusionError::ExecutionJoin(Box::new(panic)))?
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        "DataFusion"
    }
}
