use super::*;

fn name(index: usize, total: usize) -> ShardName {
    ShardName {
        prefix: "part".to_owned(),
        index,
        total,
        format: RecordFormat::TfRecord,
        compression: Compression::None,
    }
}

#[test]
fn shard_names_sort_in_the_order_of_shards() {
    for total in [1, 9, 10, 99_999, 100_000, 1_234_567] {
        let indices = [0, 1, 8, 9, 10, 99, 100, 9_999, 10_000, 99_998, 99_999, 100_000, 1_000_000];
        let names: Vec<_> = indices.into_iter().filter(|&i| i < total).map(|i| name(i, total).to_string()).collect();
        assert!(names.is_sorted(), "{names:?}");
    }
}

#[test]
fn every_name_parses_back() {
    use RecordFormat::{ArrayRecord, TfRecord};
    for (prefix, index, total, format, compression, text) in [
        ("part", 0, 1, TfRecord, Compression::None, "part-00000-of-00001.tfrecord"),
        ("my-split", 3, 16, TfRecord, Compression::Gzip, "my-split-00003-of-00016.tfrecord.gz"),
        ("a-of-b", 7, 123_456, TfRecord, Compression::Zlib, "a-of-b-000007-of-123456.tfrecord.deflate"),
        ("part", 3, 16, ArrayRecord, Compression::None, "part-00003-of-00016.array_record"),
    ] {
        let name = ShardName { prefix: prefix.to_owned(), index, total, format, compression };
        assert_eq!(name.to_string(), text);
        assert_eq!(text.parse(), Ok(name));
    }
}

#[test]
fn shard_name_of_an_earlier_release_is_read() {
    let earlier = "part-00000-of-00002.tfrecord.zlib";
    let name = ShardName { compression: Compression::Zlib, ..name(0, 2) };
    assert_eq!(earlier.parse(), Ok(name));
    assert_eq!(suffix_of([earlier].into_iter(), Compression::Zlib.into()), ".tfrecord.zlib");
    let zlib = ["part-00000-of-00002.tfrecord.deflate"];
    assert_eq!(suffix_of(zlib.into_iter(), Compression::Zlib.into()), ".tfrecord.deflate");
    assert_eq!(suffix_of([].into_iter(), Compression::Gzip.into()), ".tfrecord.gz");
}

#[test]
fn run_id_is_found_in_the_names_of_shards_and_indexes() {
    for suffix in [".tfrecord", ".tfrecord.gz", ".tfrecord.deflate", ".tfrecord.zlib", ".tfrecord.idx", ".array_record"]
    {
        let name = format!("d=1/part-nightly7-00000-of-00002{suffix}");
        assert_eq!(run_id_in(&name), Some("nightly7"), "{name}");
    }
    assert_eq!(run_id_in("d=1/_part-nightly7-00000-of-00002.tfrecord.idx"), Some("nightly7"));
}

#[test]
fn shard_names_reject_other_files() {
    for text in [
        "",
        "part-00000-of-00001",
        "part-0-of-1.tfrecord",
        "part-+0000-of-00001.tfrecord",
        "part-00001-of-00001.tfrecord",
        "part-00000-of-00001.tfrecord.bz2",
        "part-00000-of-00001.array_record.gz",
        "part-00000.tfrecord",
        "_SUCCESS",
    ] {
        assert!(text.parse::<ShardName>().is_err(), "{text}");
    }
}

#[test]
fn run_id_rejects_separators_and_long_text() {
    for id in ["", "a-b", "a.b", "../x", "a/b", "é", &"x".repeat(65)] {
        assert!(id.parse::<RunId>().is_err(), "{id}");
    }
    assert!(RunId::new().as_str().parse::<RunId>().is_ok());
}
