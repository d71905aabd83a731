//! Record batches like those of the benchmark tables, made here so that the benchmark needs no files.

use std::sync::Arc;

use arrow_array::builder::{Float32Builder, Int64Builder, ListBuilder};
use arrow_array::{ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, StringViewArray};

/// Numbers without a pattern, and the same every time: splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom
/// number generators", 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn text(&mut self, longest: u64) -> String {
        let len = 10 + self.below(longest - 9);
        (0..len).map(|_| char::from(b'a' + self.below(26) as u8)).collect()
    }
}

/// TPC-H lineitem with decimals as doubles and dates as days: 16 columns, about 426 framed bytes a row.
pub fn lineitem(rows: usize) -> RecordBatch {
    let mut random = Random(1);
    let mut keys =
        |end| Arc::new(Int64Array::from_iter_values((0..rows).map(|_| random.below(end) as i64))) as ArrayRef;
    let (order, part, supplier) = (keys(6_000_000), keys(200_000), keys(10_000));
    let line = Arc::new(Int32Array::from_iter_values((0..rows).map(|_| 1 + random.below(7) as i32))) as ArrayRef;
    let mut doubles =
        |end| Arc::new(Float64Array::from_iter_values((0..rows).map(|_| random.below(end) as f64 / 100.0))) as ArrayRef;
    let (quantity, price, discount, tax) = (doubles(5_000), doubles(10_000_000), doubles(11), doubles(9));
    let mut days =
        || Arc::new(Int32Array::from_iter_values((0..rows).map(|_| 8_000 + random.below(2_500) as i32))) as ArrayRef;
    let (ship, commit, receipt) = (days(), days(), days());
    let mut words = |words: &[&str]| {
        let values = (0..rows).map(|_| words[random.below(words.len() as u64) as usize]);
        Arc::new(StringViewArray::from_iter_values(values)) as ArrayRef
    };
    let (flag, status) = (words(&["A", "N", "R"]), words(&["F", "O"]));
    let instruction = words(&["DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"]);
    let mode = words(&["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"]);
    let comment = Arc::new(StringViewArray::from_iter_values((0..rows).map(|_| random.text(43)))) as ArrayRef;
    RecordBatch::try_from_iter([
        ("l_orderkey", order),
        ("l_partkey", part),
        ("l_suppkey", supplier),
        ("l_linenumber", line),
        ("l_quantity", quantity),
        ("l_extendedprice", price),
        ("l_discount", discount),
        ("l_tax", tax),
        ("l_returnflag", flag),
        ("l_linestatus", status),
        ("l_shipdate", ship),
        ("l_commitdate", commit),
        ("l_receiptdate", receipt),
        ("l_shipinstruct", instruction),
        ("l_shipmode", mode),
        ("l_comment", comment),
    ])
    .unwrap()
}

/// A click log: a label, 13 integers and 26 short strings with nulls, an id list, a 64-float embedding, a double.
pub fn ctr(rows: usize) -> RecordBatch {
    let mut random = Random(2);
    let mut columns: Vec<(String, ArrayRef)> = Vec::new();
    let label = Int64Array::from_iter_values((0..rows).map(|_| random.below(2) as i64));
    columns.push(("label".to_owned(), Arc::new(label)));
    for column in 1..=13 {
        let values = (0..rows).map(|_| (random.below(5) > 0).then(|| random.below(1 << (column * 2)) as i64));
        columns.push((format!("i{column}"), Arc::new(Int64Array::from_iter(values))));
    }
    for column in 1..=26 {
        let values = (0..rows).map(|_| (random.below(5) > 0).then(|| format!("{:08x}", random.next() as u32)));
        columns.push((format!("c{column}"), Arc::new(StringArray::from_iter(values))));
    }
    let mut ids = ListBuilder::new(Int64Builder::new());
    let mut embedding = ListBuilder::new(Float32Builder::new());
    for _ in 0..rows {
        for _ in 0..random.below(51) {
            ids.values().append_value(random.below(10_000_000) as i64);
        }
        ids.append(true);
        for _ in 0..64 {
            embedding.values().append_value(random.below(1 << 24) as f32 / 1e6);
        }
        embedding.append(true);
    }
    columns.push(("ids".to_owned(), Arc::new(ids.finish())));
    columns.push(("emb".to_owned(), Arc::new(embedding.finish())));
    let score = Float64Array::from_iter_values((0..rows).map(|_| random.below(1 << 40) as f64 / 1e6));
    columns.push(("score".to_owned(), Arc::new(score)));
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}
