use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, Int64Builder, ListBuilder, StringBuilder, StringViewBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Float32Array, Int64Array, RecordBatch, StringArray, StringViewArray};
use arrow_tfrecord::{Encoder, MappingOptions, NullPolicy, RecordType};
use proptest::prelude::*;
use prost::Message;
use tfr_proto::tensorflow::metadata::v0::DatasetFeatureStatisticsList;

use super::*;

fn encoder(batch: &RecordBatch, options: &MappingOptions) -> Encoder {
    Encoder::new(Arc::new(Mapping::try_new(&batch.schema(), options).unwrap()))
}

fn statistics(batch: &RecordBatch, options: &MappingOptions) -> Statistics {
    let encoder = encoder(batch, options);
    let mut statistics = Statistics::new(encoder.mapping(), Detail::Values);
    statistics.update_batch(&encoder, batch).unwrap();
    statistics
}

fn table(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
}

fn lists(rows: &[Option<&[Option<i64>]>]) -> ArrayRef {
    let mut lists = ListBuilder::new(Int64Builder::new());
    rows.iter().for_each(|row| lists.append_option(row.map(|row| row.iter().copied())));
    Arc::new(lists.finish())
}

#[test]
fn stats_of_lists_follow_the_null_policy() {
    let rows: [Option<&[Option<i64>]>; 4] = [Some(&[Some(1), Some(2)]), None, Some(&[]), Some(&[Some(0)])];
    let batch = table(vec![("l", lists(&rows)), ("s", Arc::new(Int64Array::from(vec![Some(5), None, None, Some(7)])))]);
    let of = |nulls| {
        let found = statistics(&batch, &MappingOptions { nulls, ..MappingOptions::default() });
        let feature = |name: &str| {
            let feature = found.feature(name).unwrap();
            (feature.present(), feature.missing(), feature.num_values(), feature.total_values())
        };
        (feature("l"), feature("s"))
    };
    assert_eq!(of(NullPolicy::Absent), ((3, 1, Some((0, 2)), 3), (2, 2, Some((1, 1)), 2)));
    assert_eq!(of(NullPolicy::Unset), ((3, 1, Some((0, 2)), 3), (2, 2, Some((1, 1)), 2)));
    assert_eq!(of(NullPolicy::Empty), ((4, 0, Some((0, 2)), 3), (4, 0, Some((0, 1)), 2)));

    let given = MappingOptions::default().with_column_nulls("s", arrow_tfrecord::NullRule::Default("-1".to_owned()));
    let found = statistics(&batch, &given);
    let s = found.feature("s").unwrap();
    assert_eq!((s.missing(), s.min(), s.mean(), s.distinct()), (0, Some(-1.0), Some(2.5), Some(3)));
}

/// A feature list counts as what all of its steps hold.
#[test]
fn steps_count_together() {
    let rows: [Option<&[Option<i64>]>; 3] = [Some(&[Some(1), Some(2), Some(3)]), Some(&[]), Some(&[Some(9)])];
    let batch = RecordBatch::try_from_iter([("steps", lists(&rows))]).unwrap();
    let mut options = MappingOptions { record_type: RecordType::SequenceExample, ..MappingOptions::default() };
    options.sequences.insert("steps".to_owned());
    let found = statistics(&batch, &options);
    let steps = found.feature("steps").unwrap();
    assert_eq!((steps.present(), steps.num_values(), steps.total_values()), (3, Some((0, 3)), 4));
    assert_eq!((steps.min(), steps.max(), steps.is_list()), (Some(1.0), Some(9.0), true));
}

#[test]
fn text_and_bytes() {
    let mut bytes = BinaryBuilder::new();
    [&b"\xff\0"[..], b"", b"\xff\0"].iter().for_each(|value| bytes.append_value(value));
    let words: ArrayRef = Arc::new(StringArray::from(vec![Some("é"), None, Some("abc")]));
    let found = statistics(&table(vec![("b", Arc::new(bytes.finish())), ("t", words)]), &MappingOptions::default());
    let (b, t) = (found.feature("b").unwrap(), found.feature("t").unwrap());
    assert_eq!(
        (b.byte_lengths(), b.distinct(), b.frequent(9), b.words()),
        (Some((0, 4.0 / 3.0, 2)), Some(2), vec![], None)
    );
    assert_eq!((t.byte_lengths(), t.distinct(), t.is_distinct_exact()), (Some((2, 2.5, 3)), Some(2), true));
    assert_eq!(t.words(), Some(vec!["abc".to_owned(), "é".to_owned()]));
}

/// What is too long to be listed is counted for all else.
#[test]
fn long_values_are_not_listed() {
    let long = "x".repeat(1000);
    let words: ArrayRef = Arc::new(StringArray::from(vec![long.as_str(), "y", &long, "y", &long]));
    let found = statistics(&table(vec![("t", words)]), &MappingOptions::default());
    let t = found.feature("t").unwrap();
    assert_eq!((t.distinct(), t.is_distinct_exact(), t.words()), (Some(2), false, None));
    assert_eq!(t.frequent(9), [FrequentValue { value: Value::Bytes(b"y"[..].into()), count: 2 }]);
}

/// A wide table of constants, ids, numbers that are close to each other, and text.
fn wide(rows: usize) -> RecordBatch {
    let words = (0..rows).map(|row| format!("word {}", row * row % 5003));
    let floats = (0..rows).map(|row| ((row % 11) > 0).then_some(row as f32 / 3.0));
    table(vec![
        ("id", Arc::new(Int64Array::from_iter_values((0..rows).map(|row| row as i64)))),
        ("same", Arc::new(Int64Array::from(vec![4; rows]))),
        ("close", Arc::new(Int64Array::from_iter_values((0..rows).map(|row| -7 + (row * 13 % 3001) as i64)))),
        ("few", Arc::new(Float32Array::from_iter_values((0..rows).map(|row| (row * 7 % 51) as f32 / 100.0)))),
        ("float", Arc::new(Float32Array::from_iter(floats))),
        ("word", Arc::new(StringArray::from_iter_values(words))),
    ])
}

/// Equal rows give equal statistics, to the last bit, however they come in batches: threads decide where batches end.
#[test]
fn batches_do_not_matter() {
    let wide = wide(50_000);
    let far = (0..50_000_i64).map(|row| hash::word(row as u64) as i64 >> (row % 40));
    let special = (0..50_000).map(|row| match row % 97 {
        1 => f32::NAN,
        2 => f32::NEG_INFINITY,
        row => row as f32 * 1e30 / 7.0,
    });
    let late = (0..50_000_u64).map(|row| if row < 30_000 { row as f32 % 60.0 } else { hash::word(row) as f32 });
    let rows: Vec<Option<Vec<Option<i64>>>> =
        (0..50_000).map(|row| (row % 9 > 0).then(|| (0..row % 5).map(|item| Some(row * item)).collect())).collect();
    let rows: Vec<_> = rows.iter().map(Option::as_deref).collect();
    let mut columns: Vec<_> =
        wide.schema_ref().fields().iter().map(|field| field.name().as_str()).zip(wide.columns().to_vec()).collect();
    columns.extend([
        ("far", Arc::new(Int64Array::from_iter_values(far)) as ArrayRef),
        ("special", Arc::new(Float32Array::from_iter_values(special))),
        ("late", Arc::new(Float32Array::from_iter_values(late))),
        ("list", lists(&rows)),
    ]);
    let batch = table(columns);
    let encoder = encoder(&batch, &MappingOptions::default());
    let of_pieces = |rows: usize| {
        let mut statistics = Statistics::new(encoder.mapping(), Detail::Values);
        for start in (0..batch.num_rows()).step_by(rows) {
            let piece = batch.slice(start, rows.min(batch.num_rows() - start));
            statistics.update_batch(&encoder, &piece).unwrap();
        }
        statistics
    };
    let whole = of_pieces(50_000).to_proto("set");
    for rows in [777, 1024, 1025, 8191, 1] {
        let found = of_pieces(rows).to_proto("set");
        if found != whole {
            let features =
                |proto: &[u8]| DatasetFeatureStatisticsList::decode(proto).unwrap().datasets.swap_remove(0).features;
            for (found, whole) in features(&found).iter().zip(features(&whole)) {
                assert_eq!(*found, whole, "{rows} rows each");
            }
            panic!("{rows} rows each: the features are equal, the rest is not");
        }
    }
}

/// Text is the same in each of Arrow's layouts, of few words and of many.
#[test]
fn layouts_do_not_matter() {
    for distinct in [3, 300, 5003] {
        let words = || {
            (0..20_000).map(|row| {
                (row % 7 > 0).then(|| {
                    let n = row * row % distinct;
                    format!("{n:0width$}", width = n % 20)
                })
            })
        };
        let plain = StringArray::from_iter(words());
        let mut shared = StringViewBuilder::new().with_deduplicate_strings();
        words().for_each(|word| shared.append_option(word));
        let dictionary: DictionaryArray<Int32Type> = plain.iter().collect();
        let layouts: [ArrayRef; 4] = [
            Arc::new(plain),
            Arc::new(StringViewArray::from_iter(words())),
            Arc::new(shared.finish()),
            Arc::new(dictionary),
        ];
        let [plain, others @ ..] =
            layouts.map(|words| statistics(&table(vec![("t", words)]), &MappingOptions::default()).to_proto("set"));
        for other in others {
            assert_eq!(other, plain);
        }
    }
}

/// Both zeros are one number, and a NaN is none.
#[test]
fn few_floats() {
    let numbers = [0.0, f32::NAN, -0.0, 1.5, f32::INFINITY, -f32::NAN, 1.5, f32::from_bits(u32::MAX)];
    let numbers: ArrayRef = Arc::new(Float32Array::from_iter_values((0..800).map(|row| numbers[row % 8])));
    let found = statistics(&table(vec![("f", numbers)]), &MappingOptions::default());
    let f = found.feature("f").unwrap();
    assert_eq!((f.distinct(), f.is_distinct_exact(), f.nans(), f.zeros()), (Some(3), true, Some(300), Some(200)));
    let count = |value, count| FrequentValue { value: Value::Float(value), count };
    assert_eq!(f.frequent(9), [count(0.0, 200), count(1.5, 200), count(f32::INFINITY, 100)]);
}

/// What came in a narrow range in some batches and not in others is the same numbers.
#[test]
fn ranges_do_not_matter() {
    let close = |row: i64| i64::MIN + row * 31 % 1000;
    let far = |row: i64| if row % 1000 == 7 { i64::MAX } else { close(row) };
    let of = |number: &dyn Fn(i64) -> i64, rows| {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows).map(number)));
        statistics(&table(vec![("i", numbers)]), &MappingOptions::default())
    };
    let mut both = of(&close, 10_000);
    both.merge(&of(&far, 10_000)).unwrap();
    let i = both.feature("i").unwrap();
    assert_eq!((i.distinct(), i.is_distinct_exact(), i.integers()), (Some(1001), true, Some((i64::MIN, i64::MAX))));
    let mut exact = std::collections::BTreeMap::<i64, u64>::new();
    (0..10_000).flat_map(|row| [close(row), far(row)]).for_each(|number| *exact.entry(number).or_default() += 1);
    for top in i.frequent(usize::MAX) {
        let Value::Int64(number) = top.value else { unreachable!() };
        assert_eq!(top.count, exact[&number]);
    }
}

/// Of integers near each other, and of few numbers, every figure is that of all of them; until one comes that is too far,
/// and then ranks are still about right.
#[test]
fn stats_are_exact_where_values_can_be_counted() {
    let near: Vec<i64> = (0..100_000).map(|row| 18_000 + row * 31 % 4093).collect();
    let few: Vec<f32> = near.iter().map(|number| (number % 40) as f32 / 8.0).collect();
    let of = |ints: &[i64]| {
        let ints: ArrayRef = Arc::new(Int64Array::from(ints.to_vec()));
        statistics(
            &table(vec![("i", ints), ("f", Arc::new(Float32Array::from(few.clone())))]),
            &MappingOptions::default(),
        )
    };
    let ranks = [0.0, 0.1, 0.25, 0.5, 0.9, 1.0];
    let exact = |mut numbers: Vec<f64>| {
        numbers.sort_unstable_by(f64::total_cmp);
        ranks.map(|rank| numbers[((rank * numbers.len() as f64).ceil() as usize).max(1) - 1])
    };
    let found = of(&near);
    let (i, f) = (found.feature("i").unwrap(), found.feature("f").unwrap());
    assert_eq!(i.quantiles(&ranks), exact(near.iter().map(|number| *number as f64).collect()));
    assert_eq!(f.quantiles(&ranks), exact(few.iter().map(|number| f64::from(*number)).collect()));
    assert_eq!((i.is_distinct_exact(), f.is_distinct_exact(), f.distinct()), (true, true, Some(40)));
    let distinct = near.iter().collect::<std::collections::BTreeSet<_>>().len();
    assert_eq!(i.distinct(), Some(distinct as u64));
    let below = near.iter().filter(|number| **number < 18_000 + 1023).count() as f64;
    assert!((i.histogram(4)[0].count - below).abs() < 1e-6, "{:?} {below}", i.histogram(4));

    let mut far = near.clone();
    far[99_999] = -1 << 40;
    let found = of(&far);
    let i = found.feature("i").unwrap();
    assert_eq!((i.is_distinct_exact(), i.integers()), (false, Some((-1 << 40, 22_092))));
    for (about, exact) in i.quantiles(&ranks[1..]).iter().zip(&exact(near.iter().map(|n| *n as f64).collect())[1..]) {
        assert!((about - exact).abs() < 60.0, "{about} {exact}");
    }
}

#[test]
fn parts_are_merged_in_their_order() {
    let batch = wide(30_000);
    let half = |start| statistics(&batch.slice(start, 15_000), &MappingOptions::default());
    let mut both = half(0);
    both.merge(&half(15_000)).unwrap();
    let (id, word) = (both.feature("id").unwrap(), both.feature("word").unwrap());
    assert_eq!((both.rows(), id.integers(), id.mean()), (30_000, Some((0, 29_999)), Some(14_999.5)));
    let exact = (0..30_000_u64).map(|row| row * row % 5003).collect::<std::collections::BTreeSet<_>>().len() as f64;
    assert!((word.distinct().unwrap() as f64 / exact - 1.0).abs() < 0.04);
    assert!((id.median().unwrap() - 15_000.0).abs() < 300.0);
    assert_eq!(both.feature("same").unwrap().frequent(3), [FrequentValue { value: Value::Int64(4), count: 30_000 }]);

    let other = statistics(&table(vec![("id", lists(&[None]))]), &MappingOptions::default());
    assert!(both.merge(&other).is_err());
}

#[test]
fn presence_alone_gathers_no_values() {
    let batch = wide(100);
    let encoder = encoder(&batch, &MappingOptions::default());
    let mut statistics = Statistics::new(encoder.mapping(), Detail::Presence);
    statistics.update_batch(&encoder, &batch).unwrap();
    let float = statistics.feature("float").unwrap();
    assert_eq!((float.missing(), float.min(), float.distinct(), float.histogram(3)), (10, None, None, vec![]));
}

proptest! {
    /// Against the plainest computation of each figure.
    #[test]
    fn figures_of_integers(values in prop::collection::vec(prop::option::of(-50_i64..50), 1..300), cut in 0_usize..300) {
        let batch = table(vec![("v", Arc::new(Int64Array::from(values.clone())))]);
        let cut = cut.min(values.len());
        let part = |start: usize, len| statistics(&batch.slice(start, len), &MappingOptions::default());
        let mut found = part(0, cut);
        found.merge(&part(cut, values.len() - cut)).unwrap();
        let v = found.feature("v").unwrap();
        let mut known: Vec<i64> = values.iter().flatten().copied().collect();
        known.sort_unstable();
        let zeros = known.iter().filter(|value| **value == 0).count() as u64;
        prop_assert_eq!((v.present(), v.missing()), (known.len() as u64, (values.len() - known.len()) as u64));
        prop_assert_eq!(v.integers(), known.first().copied().zip(known.last().copied()));
        prop_assert_eq!(v.zeros(), Some(zeros));
        let distinct: std::collections::BTreeSet<_> = known.iter().collect();
        prop_assert_eq!((v.distinct(), v.is_distinct_exact()), (Some(distinct.len() as u64), true));
        if !known.is_empty() {
            prop_assert_eq!(v.median(), Some(known[(known.len() - 1) / 2] as f64));
            let mean = known.iter().sum::<i64>() as f64 / known.len() as f64;
            prop_assert!((v.mean().unwrap() - mean).abs() < 1e-9);
            let total: f64 = v.histogram(7).iter().map(|bucket| bucket.count).sum();
            prop_assert!((total - known.len() as f64).abs() < 1e-6);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Parts in which each value is counted, parts in which they are too many for that, and parts where they become so:
    /// sums, extremes and lengths are those of all values.
    #[test]
    fn stats_sums_include_counted_values(
        parts in prop::collection::vec((0_usize..6000, prop::sample::select(vec![5_u64, 1000, 2100, 50_000])), 1..4),
        wide in any::<bool>(),
    ) {
        let picks = |(rows, distinct): (usize, u64)| (0..rows as u64).map(move |row| hash::word(row) % distinct);
        let int = |pick: u64| (pick as i64 - 700) << if wide { 40 } else { 0 };
        let float = |pick: u64| [f32::NAN, f32::NEG_INFINITY, -0.0].get(pick as usize).copied().unwrap_or(pick as f32 / 7.0);
        let text = |pick: u64| format!("{pick:0width$}", width = pick as usize % 300);
        let part = |part| {
            statistics(&table(vec![
                ("f", Arc::new(Float32Array::from_iter_values(picks(part).map(float)))),
                ("i", Arc::new(Int64Array::from_iter_values(picks(part).map(int)))),
                ("t", Arc::new(StringViewArray::from_iter_values(picks(part).map(text)))),
            ]), &MappingOptions::default())
        };
        let mut found = part((0, 1));
        for given in &parts {
            found.merge(&part(*given)).unwrap();
        }
        let picks: Vec<u64> = parts.iter().copied().flat_map(picks).collect();
        let near = |found: Option<f64>, exact: f64| (found.unwrap_or_default() - exact).abs() <= exact.abs() * 1e-9 + 1e-9;
        let moments = |numbers: &[f64]| {
            let mean = numbers.iter().sum::<f64>() / numbers.len().max(1) as f64;
            let squares = numbers.iter().map(|number| (number - mean).powi(2)).sum::<f64>();
            (mean, (squares / numbers.len().max(1) as f64).sqrt())
        };

        let (i, ints) = (found.feature("i").unwrap(), picks.iter().map(|pick| int(*pick)).collect::<Vec<_>>());
        let (mean, deviation) = moments(&ints.iter().map(|int| *int as f64).collect::<Vec<_>>());
        prop_assert!(near(i.mean(), mean) && near(i.std_dev(), deviation), "{:?} {mean}", i.mean());
        prop_assert_eq!(i.integers(), ints.iter().min().copied().zip(ints.iter().max().copied()));
        prop_assert_eq!(i.zeros(), Some(ints.iter().filter(|int| **int == 0).count() as u64));

        let (f, floats) = (found.feature("f").unwrap(), picks.iter().map(|pick| f64::from(float(*pick))).collect::<Vec<_>>());
        let (mean, deviation) = moments(&floats.iter().copied().filter(|float| float.is_finite()).collect::<Vec<_>>());
        prop_assert!(near(f.mean(), mean) && near(f.std_dev(), deviation), "{:?} {mean}", f.mean());
        let count = |is: fn(&f64) -> bool| Some(floats.iter().filter(|float| is(float)).count() as u64);
        let counts = (count(|float| float.is_nan()), count(|float| float.is_infinite()), count(|float| *float == 0.0));
        prop_assert_eq!((f.nans(), f.infinities(), f.zeros()), counts);
        let numbers = || floats.iter().copied().filter(|float| !float.is_nan());
        prop_assert_eq!((f.min(), f.max()), (numbers().reduce(f64::min), numbers().reduce(f64::max)));

        let lens: Vec<u64> = picks.iter().map(|pick| text(*pick).len() as u64).collect();
        let mean = lens.iter().sum::<u64>() as f64 / lens.len() as f64;
        let exact = lens.iter().min().zip(lens.iter().max()).map(|(least, most)| (*least, mean, *most));
        prop_assert_eq!(found.feature("t").unwrap().byte_lengths(), exact);
    }
}

/// What a page is made of must not become part of it.
#[test]
fn stats_page_escapes_text() {
    let words: ArrayRef = Arc::new(StringArray::from(vec!["<script>", "<script>", "a\u{202e}b", "a\u{202e}b"]));
    let mut long = ListBuilder::new(StringBuilder::new());
    (0..4).for_each(|_| long.append_value([Some("x".repeat(100))]));
    let batch = table(vec![("<b>\"&", words), ("long", Arc::new(long.finish()))]);
    let page = statistics(&batch, &MappingOptions::default()).to_html("<i>", &Vocabularies::default());
    assert!(!page.contains("<script>") && !page.contains("<i></") && !page.contains('\u{202e}'), "{page}");
    assert!(page.contains("&lt;script&gt;") && page.contains("&lt;b&gt;&quot;&amp;"));
    assert!(page.contains("a\\u{202e}b") && page.contains(&format!("{}…", "x".repeat(40))));
    assert!(!page.contains("http") && !page.contains("src="));
}

/// Every element that is opened is closed, in order.
#[test]
fn the_page_is_well_formed() {
    let page = statistics(&wide(3000), &MappingOptions::default()).to_html("set", &Vocabularies::default());
    let mut open = Vec::new();
    for tag in page.split('<').skip(1).filter_map(|rest| rest.split_once('>')).map(|(tag, _)| tag) {
        let name = tag.split_whitespace().next().unwrap_or_default();
        match name.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name)),
            None if ["!doctype", "meta", "link", "br"].contains(&name) => {}
            None => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?}");
    assert_eq!(page.matches("<tr>").count(), 1 + 6);
}

/// Statistics that were sent to another process behave as if they had stayed.
#[test]
fn stored_statistics_are_the_same() {
    let sent = |statistics: &Statistics| Statistics::from_bytes(&statistics.to_bytes().unwrap()).unwrap();
    let options = MappingOptions::default();
    for rows in [0, 10, 3000, 40_000] {
        let batch = wide(rows);
        let (mut stayed, mut moved) = (statistics(&batch, &options), sent(&statistics(&batch, &options)));
        stayed.merge(&statistics(&wide(5000), &options)).unwrap();
        moved.merge(&sent(&statistics(&wide(5000), &options))).unwrap();
        assert_eq!(moved.to_proto("x"), stayed.to_proto("x"), "{rows} rows");
    }
    let bytes = statistics(&wide(3000), &options).to_bytes().unwrap();
    for end in (0..bytes.len()).step_by(97) {
        assert!(Statistics::from_bytes(&bytes[..end]).is_err(), "{end} bytes");
    }
}
