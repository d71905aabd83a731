//! The result of a query as shards, from a program that uses DataFusion:
//! `cargo run --example copy_to -- shards/`.
//!
//! One registration gives SQL the format. The set appears when the statement has succeeded, and not before.

use std::env;
use std::error::Error;
use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::UInt64Type;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use tfr_examples::trips_path;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let out = env::args().nth(1).ok_or("usage: copy_to DIRECTORY")?;

    // With the answers of the engine corrected where they are known to be wrong.
    let mut state = tfr_engine::exact(SessionStateBuilder::new().with_default_features()).build();
    state.register_file_format(Arc::new(datafusion_tfrecord::TfRecordFormatFactory), true)?;
    let ctx = SessionContext::new_with_state(state);
    ctx.register_parquet("trips", trips_path().to_string_lossy(), ParquetReadOptions::default()).await?;

    let copied = ctx
        .sql(&format!(
            "COPY (
                 SELECT trip_id, city, fare / distance_km AS fare_per_km, coalesce(tip, 0) > 0 AS tipped
                 FROM trips
                 WHERE distance_km > 0.5
             )
             TO '{out}' STORED AS TFRECORD OPTIONS ('shards' '4', 'compression' 'gzip')"
        ))
        .await?
        .collect()
        .await?;
    let rows = copied[0].column(0).as_primitive::<UInt64Type>().value(0);
    #[expect(clippy::print_stdout, reason = "a program may say what it did")]
    {
        println!("{rows} rows in {out}");
    }
    Ok(())
}
