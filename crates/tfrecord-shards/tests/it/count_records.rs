//! How records are counted, and where readers may start.

use std::fs;
use std::slice::from_ref;

use tfrecord_framing::Compression;
use tfrecord_shards::{CountedFile, ErrorKind, OFFSET_INTERVAL, Progress, RecordOffset, count_records, record_bounds};

use crate::support::{count, payloads, write_file, write_set};

/// Rows, framed bytes and offsets of a file.
fn figures(file: &CountedFile) -> (u64, u64, &[RecordOffset]) {
    (file.rows, file.framed_bytes, &file.offsets)
}

#[test]
fn count_records_equals_the_manifest_without_it() {
    let dir = tempfile::tempdir().unwrap();
    let records: Vec<_> = (0..40_u8).map(|i| vec![i; 1 << 20]).collect();
    for compression in [Compression::None, Compression::Gzip, Compression::Zlib] {
        let set = dir.path().join(compression.to_string());
        write_set(&set, 0..1000, count(3), compression);
        let listed = count_records(from_ref(&set), &Progress::default()).unwrap();
        assert_eq!(listed.len(), 3);
        for file in &listed {
            assert!(file.entry().is_some());
            assert_eq!(payloads(&file.path).len() as u64, file.rows);
            let alone = dir.path().join("alone");
            fs::copy(&file.path, &alone).unwrap();
            let [found] = &count_records(from_ref(&alone), &Progress::default()).unwrap()[..] else {
                panic!("one file")
            };
            assert_eq!(figures(found), figures(file));
            assert_eq!((found.container, found.len), (compression.into(), file.len));
        }
    }
    let large = dir.path().join("large");
    write_file(&large, &records, Compression::None);
    let [file] = &count_records(&[large], &Progress::default()).unwrap()[..] else { panic!("one file") };
    let frame = (1 << 20) + 16;
    let expected: Vec<_> = [16, 32].map(|record| record * frame).into_iter().collect();
    assert_eq!(file.offsets.iter().map(|offset| offset.framed).collect::<Vec<_>>(), expected);
    assert!(file.offsets.iter().all(|offset| offset.file == offset.framed && offset.framed == offset.record * frame));
    assert!(expected[0] >= OFFSET_INTERVAL);
    let bounds =
        record_bounds(&file.path, Box::new(fs::File::open(&file.path).unwrap()), &Progress::default()).unwrap();
    assert_eq!(bounds, (0..=40).map(|record| record * frame).collect::<Vec<_>>());
}

#[test]
fn count_records_rejects_changed_or_damaged_files() {
    let dir = tempfile::tempdir().unwrap();
    let set = dir.path().join("set");
    write_set(&set, 0..10, count(2), Compression::None);
    let shard = count_records(from_ref(&set), &Progress::default()).unwrap().remove(1);
    let content = fs::read(&shard.path).unwrap();
    let refusal = || count_records(from_ref(&set), &Progress::default()).unwrap_err();

    fs::write(&shard.path, &content[1..]).unwrap();
    assert!(matches!(refusal().kind(), ErrorKind::ShardLength { .. }));
    // A file that is named is read as it is.
    fs::write(&shard.path, [&content[..], &content[..]].concat()).unwrap();
    assert_eq!(count_records(from_ref(&shard.path), &Progress::default()).unwrap()[0].rows, 2 * shard.rows);
    fs::remove_file(&shard.path).unwrap();
    assert!(matches!(refusal().kind(), ErrorKind::NotWhole(_)));

    let damaged = dir.path().join("damaged");
    fs::write(&damaged, &content[..content.len() - 1]).unwrap();
    let error = count_records(&[damaged], &Progress::default()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Damaged { .. }), "{error}");
    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let error = count_records(&[empty], &Progress::default()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NoFiles { .. }), "{error}");
}
