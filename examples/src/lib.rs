//! The table that the examples run on: taxi trips that nobody took.
//!
//! [`trips`] makes the rows of `examples/data/trips.parquet`, the same ones every time. They have what real tables have
//! and converters trip over: nulls, lists that are empty or null, decimals, a timestamp with a zone, a dictionary.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Decimal128Builder, Float32Builder, Float64Builder, Int32Builder, Int64Builder, ListBuilder,
    RecordBatch, StringBuilder, StringDictionaryBuilder, TimestampMicrosecondBuilder, UInt8Builder,
};
use arrow::datatypes::{DataType, Field, Int32Type, Schema};
use arrow::error::ArrowError;

/// Rows of the table.
pub const TRIPS: u32 = 2_000;

const CITIES: [&str; 5] = ["Lisbon", "Oslo", "Montréal", "Kyoto", "Quito"];
const TAGS: [&str; 4] = ["airport", "night", "rain", "pool"];
const COMMENTS: [&str; 4] = ["smooth ride", "late, but friendly", "forgot an umbrella ☂", ""];
const ZONES: u64 = 40;

/// Where the table lies.
pub fn trips_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/trips.parquet")
}

/// The rows of the table.
///
/// # Errors
/// Columns that do not fit each other; a change here would be the cause.
pub fn trips() -> Result<RecordBatch, ArrowError> {
    let mut dice = Dice(0x7472_6970);
    let mut trip_id = Int64Builder::new();
    let mut picked_up_at = TimestampMicrosecondBuilder::new().with_timezone("UTC");
    let mut city = StringDictionaryBuilder::<Int32Type>::new();
    let mut zone_id = Int32Builder::new();
    let mut passengers = UInt8Builder::new();
    let mut distance_km = Float64Builder::new();
    let mut fare = Decimal128Builder::new().with_precision_and_scale(8, 2)?;
    let mut tip = Decimal128Builder::new().with_precision_and_scale(8, 2)?;
    let mut paid_by_card = Vec::new();
    let mut rating = Float32Builder::new();
    let mut stops = ListBuilder::new(Int32Builder::new());
    let mut tags = ListBuilder::new(StringBuilder::new());
    let mut comment = StringBuilder::new();

    let mut time = 1_767_225_600_000_000; // 2026-01-01T00:00:00Z
    for row in 0..TRIPS {
        time += dice.below(900_000_000) as i64;
        let hectometres = 4 + dice.below(300);
        let cents = 350 + 17 * hectometres as i128 + dice.below(100) as i128;

        trip_id.append_value(100_000 + i64::from(row));
        picked_up_at.append_value(time);
        city.append_value(CITIES[dice.below(5) as usize]);
        zone_id.append_option((!dice.one_in(20)).then(|| dice.below(ZONES) as i32));
        passengers.append_option((!dice.one_in(10)).then(|| 1 + dice.below(5) as u8));
        distance_km.append_value(hectometres as f64 / 10.0);
        fare.append_value(cents);
        tip.append_option(dice.one_in(3).then(|| cents * dice.below(25) as i128 / 100));
        paid_by_card.push(!dice.one_in(4));
        rating.append_option(dice.one_in(2).then(|| 1.0 + dice.below(9) as f32 / 2.0));
        if dice.one_in(25) {
            stops.append_null();
        } else {
            let count = dice.below(4);
            stops.append_value((0..count).map(|_| Some(dice.below(ZONES) as i32)));
        }
        tags.append_value(TAGS.iter().filter(|_| dice.one_in(4)).map(Some));
        comment.append_option(dice.one_in(3).then(|| COMMENTS[dice.below(4) as usize]));
    }

    let columns: Vec<(&str, bool, ArrayRef)> = vec![
        ("trip_id", false, Arc::new(trip_id.finish())),
        ("picked_up_at", false, Arc::new(picked_up_at.finish())),
        ("city", false, Arc::new(city.finish())),
        ("zone_id", true, Arc::new(zone_id.finish())),
        ("passengers", true, Arc::new(passengers.finish())),
        ("distance_km", false, Arc::new(distance_km.finish())),
        ("fare", false, Arc::new(fare.finish())),
        ("tip", true, Arc::new(tip.finish())),
        ("paid_by_card", false, Arc::new(BooleanArray::from(paid_by_card))),
        ("rating", true, Arc::new(rating.finish())),
        ("stops", true, Arc::new(stops.finish())),
        ("tags", false, Arc::new(tags.finish())),
        ("comment", true, Arc::new(comment.finish())),
    ];
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, nullable, column)| Field::new(*name, DataType::clone(column.data_type()), *nullable))
        .collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|(.., column)| column).collect())
}

/// SplitMix64 (Steele, Lea and Flood, 2014): a few lines give the same numbers on every machine and in every version.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}
