//! Writes `examples/data/trips.parquet` anew: `cargo run --example generate_trips`.

use std::error::Error;
use std::fs::File;

use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use tfr_examples::{TRIPS, trips, trips_path};

fn main() -> Result<(), Box<dyn Error>> {
    let trips = trips()?;
    // Four row groups, so that there is something to read in parallel.
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(9)?))
        .set_max_row_group_row_count(Some(TRIPS as usize / 4))
        .build();
    let mut writer = ArrowWriter::try_new(File::create(trips_path())?, trips.schema(), Some(properties))?;
    writer.write(&trips)?;
    writer.close()?;
    Ok(())
}
