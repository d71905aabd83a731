use super::*;

fn all(bytes: &[u8], is_v2: bool) -> Vec<u64> {
    Lengths::new(bytes, is_v2).collect()
}

fn signed(bytes: &[u8], is_v2: bool) -> Vec<i64> {
    Lengths::signed(bytes, is_v2).map(|value| value as i64).collect()
}

/// The examples of the ORC specification, "Run Length Encoding".
#[test]
fn run_lengths_match_the_specification() {
    let of_version_1: [(&[u8], Vec<u64>); 3] = [
        (&[0x61, 0x00, 0x07], vec![7; 100]),
        (&[0x61, 0xff, 0x64], (1..=100).rev().collect()),
        (&[0xfb, 0x02, 0x03, 0x04, 0x07, 0x0b], vec![2, 3, 4, 7, 11]),
    ];
    for (bytes, values) in of_version_1 {
        assert_eq!(all(bytes, false), values);
    }
    let patched = [
        0x8e, 0x13, 0x2b, 0x21, 0x07, 0xd0, 0x1e, 0x00, 0x14, 0x70, 0x28, 0x32, 0x3c, 0x46, 0x50, 0x5a, 0x64, 0x6e,
        0x78, 0x82, 0x8c, 0x96, 0xa0, 0xaa, 0xb4, 0xbe, 0xfc, 0xe8,
    ];
    let values: Vec<u64> = [2030, 2000, 2020, 1_000_000].into_iter().chain((2040..=2190).step_by(10)).collect();
    let of_version_2: [(&[u8], Vec<u64>); 4] = [
        (&[0x0a, 0x27, 0x10], vec![10_000; 5]),
        (&[0x5e, 0x03, 0x5c, 0xa1, 0xab, 0x1e, 0xde, 0xad, 0xbe, 0xef], vec![23_713, 43_806, 57_005, 48_879]),
        (&[0xc6, 0x09, 0x02, 0x02, 0x22, 0x42, 0x42, 0x46], vec![2, 3, 5, 7, 11, 13, 17, 19, 23, 29]),
        (&patched, values),
    ];
    for (bytes, values) in of_version_2 {
        assert_eq!(all(bytes, true), values);
    }
}

/// Literals, a run and a delta of version 1, then short repeat, direct, delta and patched base of version 2.
#[test]
fn runs_with_a_sign() {
    assert_eq!(signed(&[0xfe, 0x01, 0x04], false), [-1, 2]);
    assert_eq!(signed(&[0x00, 0xff, 0x03], false), [-2, -3, -4]);
    assert_eq!(signed(&[0x00, 0x05], true), [-3; 3]);
    assert_eq!(signed(&[0x4e, 0x02, 0x01, 0x02, 0x03], true), [-1, 1, -2]);
    assert_eq!(signed(&[0xc0, 0x03, 0x03, 0x01], true), [-2, -3, -4, -5]);
    // Base -5, values of 4 bits.
    assert_eq!(signed(&[0x86, 0x02, 0x00, 0x00, 0x85, 0x12, 0x30], true), [-4, -3, -2]);
}

#[test]
fn window_sums_are_never_underestimated() {
    // Ten lengths of 10 000 in two runs.
    let bytes = [0x0a, 0x27, 0x10, 0x0a, 0x27, 0x10];
    let sums = Lengths::new(bytes.as_slice(), true).sums(10, 3);
    assert_eq!(sums.total, 100_000);
    assert!(sums.most >= 30_000 && sums.most <= 60_000, "{sums:?}");
    let sums = Lengths::new(bytes.as_slice(), true).sums(4, 100);
    assert_eq!(sums, Sums { most: 40_000, total: 40_000 });
}

#[test]
fn bytes_in_runs_are_counted() {
    // A hundred zeros, then two bytes.
    let runs = [0x61, 0x00, 0xfe, 0x44, 0x45];
    assert_eq!([1, 100, 102, 1000].map(|wanted| byte_count(runs.as_slice(), wanted)), [1, 100, 102, 102]);
    assert_eq!(byte_count(&runs[..4], 1000), 100);
    assert_eq!(byte_count(&[][..], 1000), 0);
}

#[test]
fn the_end_of_a_damaged_stream_is_the_end() {
    assert_eq!(all(&[0x0a, 0x27, 0x10, 0x0a, 0x27], true), vec![10_000; 5]);
    assert_eq!(all(&[0xff; 40], false).len(), 0);
}
