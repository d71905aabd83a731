//! Shards as a table, in a program that uses DataFusion:
//! `cargo run --example query_shards -- shards/`.
//!
//! Types come from the manifest, from the declaration, or from the records themselves. Only the features that a query
//! needs are parsed, and a file that can be cut is read by all threads.

use std::env;
use std::error::Error;

use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let shards = env::args().nth(1).ok_or("usage: query_shards DIRECTORY")?;

    // With the answers of the engine corrected where they are known to be wrong.
    let mut state = tfr_engine::exact(SessionStateBuilder::new().with_default_features()).build();
    state.table_factories_mut().insert("TFRECORD".to_owned(), tfr_formats::table_factory());
    let ctx = SessionContext::new_with_state(state);

    ctx.sql(&format!("CREATE EXTERNAL TABLE trips STORED AS TFRECORD LOCATION '{shards}'")).await?;
    ctx.sql(
        "SELECT city, count(*) AS trips, round(avg(distance_km), 1) AS km, count(tip) AS tipped
         FROM trips
         GROUP BY city
         ORDER BY city",
    )
    .await?
    .show()
    .await?;
    Ok(())
}
