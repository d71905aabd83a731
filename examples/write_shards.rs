//! Record batches from anywhere as a shard set, without a query engine:
//! `cargo run --example write_shards -- shards/`.
//!
//! Encoding runs on all cores. The set appears when `finish` succeeds, and not before; a writer that is
//! dropped leaves nothing behind.

use std::env;
use std::error::Error;
use std::fs::File;
use std::num::NonZeroUsize;

use arrow::array::RecordBatchReader;
use arrow_tfrecord::{Choice, MappingOptions};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use tfr_examples::trips_path;
use tfrecord_shards::{ShardedWriterBuilder, Sharding};

fn main() -> Result<(), Box<dyn Error>> {
    let out = env::args().nth(1).ok_or("usage: write_shards DIRECTORY")?;

    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(trips_path())?)?.build()?;
    let four = NonZeroUsize::new(4).ok_or("four is not zero")?;
    let mut writer = ShardedWriterBuilder::new(reader.schema())
        // To the cent: 1234, not 12.34.
        .with_mapping(MappingOptions::default().with_choice("fare", Choice::Unscaled))
        .with_sharding(Sharding::Count(four))
        .build(&out)?;
    for batch in reader {
        writer.write(&batch?)?;
    }
    let manifest = writer.finish()?;
    #[expect(clippy::print_stdout, reason = "a program may say what it did")]
    {
        println!("{} rows in {} shards in {out}", manifest.totals.rows, manifest.totals.shards);
    }
    Ok(())
}
