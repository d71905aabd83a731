use std::sync::Arc;

use arrow::util::pretty::pretty_format_batches;
use datafusion::error::DataFusionError;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};

use super::super::{Bounds, within};

/// 20,000 rows: partitions of 1, 2, ... 199 rows, and the rest in one.
const ROWS: &str = "SELECT value AS v, least(CAST(floor((sqrt(8 * value + 1) - 1) / 2) AS BIGINT), 200) AS k, \
                    concat('text ', value % 7) AS s FROM generate_series(0, 39999)";

/// Whole partitions in each frame, so that the engine would hold all rows.
const WINDOWS: &str = "SELECT v, k, s, sum(v) OVER (PARTITION BY k) AS a, last_value(s) OVER (PARTITION BY k ORDER BY v \
                       RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS b, ntile(3) OVER (PARTITION BY k ORDER BY v) AS c";

async fn answer(sql: &str, batch: u64, pool: usize) -> Result<String, DataFusionError> {
    let config =
        SessionConfig::new().with_target_partitions(2).with_batch_size(512).with_sort_spill_reservation_bytes(1024);
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(GreedyMemoryPool::new(pool))).build_arc()?;
    let builder = SessionStateBuilder::new().with_default_features().with_config(config).with_runtime_env(runtime);
    let bounds = Bounds { batch, value: 1 << 30 };
    let context = SessionContext::new_with_state(within(crate::exact(builder), bounds).build());
    let rows = context.sql(sql).await?.collect().await?;
    Ok(pretty_format_batches(&rows)?.to_string())
}

#[tokio::test]
async fn partitions_are_computed_as_in_one_piece() {
    let sql = format!("{WINDOWS} FROM ({ROWS}) ORDER BY v");
    let whole = answer(&sql, u64::MAX, usize::MAX).await.expect("rows");
    assert!(whole.contains("| 19899 | 198 | text 5 | 3940200"), "{}", whole.lines().nth(19_902).unwrap_or_default());
    for batch in [5_000, 100_000] {
        assert!(answer(&sql, batch, usize::MAX).await.expect("rows") == whole, "{batch}");
    }
}

#[tokio::test]
async fn partitions_beyond_the_limit_are_refused() {
    let one = format!("SELECT count(*) AS n, sum(a) AS s FROM (SELECT sum(v) OVER () AS a FROM ({ROWS}))");
    let refused = answer(&one, 20_000, 400_000).await.expect_err("an error").find_root().to_string();
    assert!(refused.contains("WindowAggExec[0]"), "{refused}");
}
