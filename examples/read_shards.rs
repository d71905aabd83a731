//! Shards as record batches, in a program without a query engine:
//! `cargo run --example read_shards -- shards/`, of shards that `write_shards` wrote.
//!
//! The manifest has the columns and the form that each has in the records, so they come back in the types that they
//! had. Features that nobody asks for are passed over, not parsed.

use std::env;
use std::error::Error;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use arrow::array::AsArray;
use arrow::compute::sum;
use arrow::datatypes::{Decimal128Type, DecimalType};
use arrow_tfrecord::ReaderBuilder;
use tfrecord_shards::Manifest;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = PathBuf::from(env::args().nth(1).ok_or("usage: read_shards DIRECTORY")?);

    let manifest = Manifest::read(&directory)?;
    let schema = manifest.arrow_schema()?.ok_or("a set without a schema")?;
    let columns = vec![schema.index_of("fare")?];
    let (mut trips, mut fares) = (0, 0);
    for shard in &manifest.shards {
        let file = File::open(directory.join(&shard.path))?;
        let reader = ReaderBuilder::new(schema.clone())
            .with_mapping(manifest.mapping_options()?)
            .with_projection(columns.clone())
            .build(BufReader::new(file))?;
        for batch in reader {
            let batch = batch?;
            trips += batch.num_rows();
            fares += sum(batch.column(0).as_primitive::<Decimal128Type>()).unwrap_or_default();
        }
    }
    #[expect(clippy::print_stdout, reason = "a program may say what it found")]
    {
        println!("{trips} trips, {} in fares", Decimal128Type::format_decimal(fares, 38, 2));
    }
    Ok(())
}
