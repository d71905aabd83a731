use std::collections::HashMap;

use super::*;

fn number(value: u64) -> Option<Value> {
    Some(Value::Int64(value as i64))
}

/// Counts as a feature does: all while they are few, then a sample.
fn add(frequent: &mut Frequent, values: &[u64]) {
    let mut at = 0;
    while at < values.len() && frequent.counts_all() {
        assert!(frequent.count(hash::word(values[at]), 1, || number(values[at])));
        at += 1;
        if frequent.is_full() {
            frequent.drop_rarest();
        }
    }
    let rest = &values[at..];
    frequent.sample(rest.len(), |at| Some(hash::word(rest[at])), |at| number(rest[at]));
}

/// One value in four is 1, one in eight 2, and so on; all others differ.
fn skewed(count: u64) -> Vec<u64> {
    let frequent = |i: u64| u64::from(hash::word(i).trailing_zeros());
    (0..count).map(|i| if (1..7).contains(&frequent(i)) { frequent(i) } else { 1000 + i }).collect()
}

#[test]
fn few_values_are_counted_exactly() {
    let mut frequent = Frequent::default();
    let values: Vec<u64> = (0..100_000).map(|i| i * i % 1999).collect();
    add(&mut frequent, &values);
    let mut exact = HashMap::<u64, u64>::new();
    values.iter().for_each(|value| *exact.entry(*value).or_default() += 1);
    assert_eq!(frequent.distinct(), Some(exact.len() as u64));
    for top in frequent.top(usize::MAX) {
        let Value::Int64(value) = top.value else { unreachable!() };
        assert_eq!(top.count, exact[&(value as u64)]);
    }
}

#[test]
fn frequent_ones_among_many_are_found() {
    let (mut frequent, values) = (Frequent::default(), skewed(1_000_000));
    values.chunks(8192).for_each(|batch| add(&mut frequent, batch));
    assert_eq!(frequent.distinct(), None);
    let top = frequent.top(6);
    for (place, top) in top.iter().enumerate() {
        assert_eq!(top.value, Value::Int64(place as i64 + 1));
        let exact = values.iter().filter(|value| **value == place as u64 + 1).count() as f64;
        // Of 1/128 of a million values, one in 32 and then in 64: two standard deviations are 16 %.
        assert!((top.count as f64 / exact - 1.0).abs() < 0.16, "{top:?} of {exact}");
    }
    assert_eq!(top.len(), 6);
}

/// Values of which none is frequent are not listed.
#[test]
fn frequent_values_exclude_uniform_noise() {
    let mut frequent = Frequent::default();
    let values: Vec<u64> = (0..500_000).map(|i| hash::word(i) % 200_000).collect();
    add(&mut frequent, &values);
    assert_eq!(frequent.top(10), []);
}

#[test]
fn the_sample_does_not_depend_on_batches() {
    let (mut one, mut other, values) = (Frequent::default(), Frequent::default(), skewed(200_000));
    add(&mut one, &values);
    values.chunks(777).for_each(|batch| add(&mut other, batch));
    assert_eq!(one.top(100), other.top(100));
}

#[test]
fn parts_are_merged() {
    let values = skewed(400_000);
    let (mut one, mut other) = (Frequent::default(), Frequent::default());
    add(&mut one, &values[..100_000]);
    add(&mut other, &values[100_000..]);
    one.merge(&other);
    let exact = values.iter().filter(|value| **value == 1).count() as f64;
    let first = &one.top(1)[0];
    assert_eq!(first.value, Value::Int64(1));
    assert!((first.count as f64 / exact - 1.0).abs() < 0.05);
}
