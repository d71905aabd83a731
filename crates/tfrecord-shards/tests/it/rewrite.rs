//! Records moved to a new set.

use std::fs;
use std::path::Path;
use std::slice::from_ref;

use proptest::collection::vec;
use proptest::prelude::*;
use tfrecord_framing::{Compression, RecordWriter};
use tfrecord_shards::{
    ErrorKind, IndexName, Manifest, Progress, RewriteOptions, SaveMode, Sharding, check, index, reshard, salvage,
    verify,
};

use crate::support::{count, files, names, payloads, refusal, write, write_file, write_set};

const CODECS: [Compression; 3] = [Compression::None, Compression::Gzip, Compression::Zlib];

fn options(sharding: Sharding, compression: Compression) -> RewriteOptions {
    let mut options = RewriteOptions::default();
    (options.sharding, options.framing) = (sharding, compression.into());
    options
}

/// Rows of each shard, as the rules tell them one record at a time.
fn expected_rows(records: &[Vec<u8>], sharding: Sharding) -> Vec<u64> {
    match sharding {
        Sharding::Count(shards) => {
            let (rows, shards) = (records.len() as u64, shards.get() as u64);
            (0..shards).map(|shard| rows * (shard + 1) / shards - rows * shard / shards).collect()
        }
        Sharding::Rows(max) => records.chunks(max as usize).map(|chunk| chunk.len() as u64).collect(),
        Sharding::Bytes(max) => {
            let mut shards: Vec<(u64, u64)> = Vec::new();
            for record in records {
                let len = record.len() as u64 + 16;
                match shards.last_mut() {
                    Some((rows, bytes)) if *bytes + len <= max => (*rows, *bytes) = (*rows + 1, *bytes + len),
                    _ => shards.push((1, len)),
                }
            }
            shards.into_iter().map(|(rows, _)| rows).collect()
        }
        _ => unreachable!(),
    }
}

fn sharding() -> impl Strategy<Value = Sharding> {
    prop_oneof![
        (1usize..9).prop_map(count),
        (1u64..40).prop_map(Sharding::Rows),
        (1u64..200_000).prop_map(Sharding::Bytes),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn rewrite_keeps_order_and_bytes_of_records(
        inputs in vec((0usize..3, vec(prop_oneof![9 => 0usize..500, 1 => 0usize..900_000], 0..40)), 1..4),
        sharding in sharding(),
        codec in 0usize..3,
        by_salvage in any::<bool>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let (mut all, mut paths) = (Vec::new(), Vec::new());
        for (index, (codec, lens)) in inputs.into_iter().enumerate() {
            let record = |(i, len)| (0..len).map(|at: usize| (at * at / 7 + i * 31 + index) as u8).collect();
            let records: Vec<Vec<u8>> = lens.into_iter().enumerate().map(record).collect();
            // The name tells nothing, the content does.
            let path = dir.path().join(format!("input-{index}"));
            write_file(&path, &records, CODECS[codec]);
            all.extend(records);
            paths.push(path);
        }
        let out = dir.path().join("out");
        let (options, progress) = (options(sharding, CODECS[codec]), Progress::default());
        let manifest = if by_salvage {
            let salvaged = salvage(&paths, &out, &options, &progress).unwrap();
            prop_assert!(salvaged.findings.is_empty());
            salvaged.manifest
        } else {
            reshard(&paths, &out, &options, &progress).unwrap().manifest
        };
        prop_assert!(payloads(&out) == all);
        let rows: Vec<_> = manifest.shards.iter().map(|shard| shard.rows).collect();
        let expected = expected_rows(&all, sharding);
        prop_assert_eq!(rows, if expected.is_empty() { vec![0] } else { expected });
        prop_assert_eq!((manifest.sharding, manifest.compression), (sharding, CODECS[codec]));
        prop_assert_eq!(progress.bytes_read(), progress.bytes_total());
        prop_assert!(verify(&[out], &progress).unwrap().findings.is_empty());
    }
}

#[test]
fn reshard_keeps_metadata_of_the_manifest() {
    let dir = tempfile::tempdir().unwrap();
    let old = dir.path().join("old");
    let before = write_set(&old, 0..1000, Sharding::Rows(300), Compression::Gzip);
    let out = dir.path().join("new");
    let after =
        reshard(from_ref(&old), &out, &options(count(3), Compression::None), &Progress::default()).unwrap().manifest;
    assert_eq!(
        (&after.schema, &after.mapping, after.record_type),
        (&before.schema, &before.mapping, before.record_type)
    );
    assert_eq!(after.mapping_options().unwrap(), before.mapping_options().unwrap());
    assert_eq!(after.query, before.query);
    assert_eq!(after.inputs, [old.display().to_string()]);
    assert_eq!(after.options.get("level"), None);
    assert_eq!(Manifest::read(&out).unwrap(), after);
    assert_eq!(payloads(&out), payloads(&old));
    // And of files that the manifest beside them lists.
    let listed = old.join(&before.shards[1].path);
    let third = dir.path().join("third");
    let after = reshard(&[listed], &third, &RewriteOptions::default(), &Progress::default()).unwrap().manifest;
    assert_eq!((after.schema, after.totals.rows), (before.schema, 300));
}

#[test]
fn reshard_of_different_sets_keeps_their_common_metadata() {
    let dir = tempfile::tempdir().unwrap();
    let [one, other, foreign] = ["one", "other", "foreign"].map(|name| dir.path().join(name));
    write_set(&one, 0..10, count(1), Compression::None);
    write(&other, SaveMode::Error, "another query").unwrap();
    let mixed =
        reshard(&[one.clone(), other], &dir.path().join("mixed"), &RewriteOptions::default(), &Progress::default());
    let mixed = mixed.unwrap().manifest;
    assert_eq!((mixed.query.clone(), mixed.schema.is_some()), (None, true));

    // Files of which nothing is known, and a set of such files.
    let [known, more] = [foreign.join("a"), dir.path().join("b")];
    fs::create_dir(&foreign).unwrap();
    for file in [&known, &more] {
        write_file(file, &[b"?".to_vec()], Compression::None);
    }
    let [out, again] = ["unknown", "again"].map(|name| dir.path().join(name));
    reshard(&[foreign], &out, &RewriteOptions::default(), &Progress::default()).unwrap();
    let unknown = reshard(&[out, more], &again, &RewriteOptions::default(), &Progress::default()).unwrap().manifest;
    assert!(unknown.schema.is_none() && unknown.mapping.is_none() && unknown.record_type.is_none());
    assert!(Manifest::read(&again).unwrap().arrow_schema().unwrap().is_none());
    assert_eq!(unknown.totals.rows, 2);
}

#[test]
fn reshard_reports_damage_with_file_record_and_byte() {
    for compression in CODECS {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("b.tfrecord");
        let records = vec![vec![7; 100]; 50_000];
        write_file(&dir.path().join("a.tfrecord"), &records, Compression::None);
        write_file(&path, &records, compression);
        let mut file = fs::read(&path).unwrap();
        let middle = file.len() / 2;
        file[middle] ^= 0x10;
        fs::write(&path, &file).unwrap();
        let error = refusal(&[dir.path().join("a.tfrecord"), path.clone()], &dir.path().join("out"));
        let ErrorKind::Damaged { path: named, .. } = error.kind() else { panic!("{error:?}") };
        assert_eq!(*named, path);
        if compression == Compression::None {
            let record = middle / 116;
            assert!(
                error.to_string().contains(&format!("b.tfrecord: record {record} at byte {}: ", record * 116)),
                "{error}"
            );
        }
    }
}

#[test]
fn a_cut_file_is_refused_while_records_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tfrecord");
    write_file(&path, &vec![vec![7; 100]; 9], Compression::None);
    for (len, expected) in
        [(9 * 116 - 1, "truncated, expected 116 bytes"), (8 * 116 + 5, "truncated, expected 12 bytes")]
    {
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(len).unwrap();
        let out = dir.path().join("out");
        let error =
            reshard(from_ref(&path), &out, &options(count(2), Compression::None), &Progress::default()).unwrap_err();
        assert!(error.to_string().contains(&format!("a.tfrecord: record 8 at byte 928: {expected}")), "{error}");
        assert_eq!(names(dir.path()), ["a.tfrecord"]);
    }
}

#[test]
fn reshard_rejects_incomplete_set() {
    let dir = tempfile::tempdir().unwrap();
    let (set, out) = (dir.path().join("set"), dir.path().join("out"));
    let manifest = write_set(&set, 0..100, count(3), Compression::None);
    let shard = set.join(&manifest.shards[1].path);

    // As long as it was, and sound, but another.
    let bytes = fs::read(&shard).unwrap();
    let mut writer = RecordWriter::new(Vec::new());
    writer.write_record(&vec![7; bytes.len() - 16]).unwrap();
    fs::write(&shard, writer.finish().unwrap()).unwrap();
    let error = refusal(from_ref(&set), &out);
    assert!(error.to_string().ends_with(&format!("found 1 in {}", bytes.len())), "{error}");
    let named = dir.path().join("named");
    let options = options(count(2), Compression::None);
    let manifest_of_one = reshard(from_ref(&shard), &named, &options, &Progress::default()).unwrap().manifest;
    assert_eq!(manifest_of_one.shards.iter().map(|shard| shard.rows).collect::<Vec<_>>(), [0, 1]);

    fs::remove_file(&shard).unwrap();
    let error = refusal(from_ref(&set), &out);
    assert!(error.to_string().contains("part-00001-of-00003.tfrecord: missing"), "{error}");
    fs::write(&shard, bytes).unwrap();

    fs::remove_file(set.join("_SUCCESS")).unwrap();
    assert!(refusal(from_ref(&set), &out).to_string().ends_with("set: _SUCCESS is missing"));
    // What is named is read.
    let named: Vec<_> = manifest.shards.iter().map(|shard| set.join(&shard.path)).collect();
    assert_eq!(
        reshard(&named, &out, &RewriteOptions::default(), &Progress::default()).unwrap().manifest.totals.rows,
        100
    );
}

#[test]
fn reshard_checks_its_target_like_any_write() {
    let dir = tempfile::tempdir().unwrap();
    let (set, out) = (dir.path().join("set"), dir.path().join("out"));
    write_set(&set, 0..100, count(3), Compression::None);
    assert!(matches!(refusal(from_ref(&set), &set).kind(), ErrorKind::Overlap { .. }));
    write(&out, SaveMode::Error, "old").unwrap();
    assert!(matches!(refusal(from_ref(&set), &out).kind(), ErrorKind::NotEmpty { .. }));
    let mut options = RewriteOptions::default();
    options.mode = SaveMode::Overwrite;
    options.prefix = "train".to_owned();
    let manifest = reshard(&[set], &out, &options, &Progress::default()).unwrap().manifest;
    assert_eq!(names(&out), ["_SUCCESS", "_manifest.json", "train-00000-of-00001.tfrecord"]);
    assert_eq!(manifest.totals.rows, 100);
}

#[test]
fn threads_do_not_change_a_byte() {
    let dir = tempfile::tempdir().unwrap();
    let paths: Vec<_> = (0..5).map(|file| dir.path().join(format!("{file}.tfrecord"))).collect();
    for (file, path) in paths.iter().enumerate() {
        write_file(path, &vec![vec![file as u8; 1_000]; 2_000], CODECS[file % 3]);
    }
    let of_threads = |threads: usize| {
        let out = dir.path().join(threads.to_string());
        let mut options = options(count(3), Compression::Gzip);
        options.pool = Some(rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().into());
        let mut manifest = reshard(&paths, &out, &options, &Progress::default()).unwrap().manifest;
        manifest.run.clear();
        manifest.created = chrono::DateTime::UNIX_EPOCH;
        manifest
    };
    assert_eq!(of_threads(1), of_threads(4));
}

#[test]
fn salvage_without_sound_records_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (file, out) = (dir.path().join("a.tfrecord"), dir.path().join("out"));
    fs::write(&file, "version https://git-lfs.github.com/spec/v1\n").unwrap();
    let error = salvage(from_ref(&file), &out, &RewriteOptions::default(), &Progress::default()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NothingSound { findings, .. } if !findings.is_empty()), "{error}");
    assert_eq!(files(dir.path()).into_keys().collect::<Vec<_>>(), ["a.tfrecord"]);
    // A sound file of no records is another matter.
    fs::write(&file, "").unwrap();
    let saved = salvage(from_ref(&file), &out, &RewriteOptions::default(), &Progress::default()).unwrap();
    assert_eq!((saved.manifest.totals.rows, saved.findings.len()), (0, 0));
}

#[test]
fn interrupted_tools_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let inputs: Vec<_> = (0..4).map(|file| dir.path().join(format!("{file}.tfrecord"))).collect();
    inputs.iter().for_each(|path| write_file(path, &vec![vec![7; 1_000]; 3_000], Compression::None));
    let before = files(dir.path());
    let out = dir.path().join("out");
    type Run<'a> = &'a dyn Fn(&Progress) -> tfrecord_shards::Result<()>;
    let options = options(Sharding::Rows(500), Compression::Gzip);
    let runs: [(&str, Run<'_>); 5] = [
        ("reshard", &|progress| reshard(&inputs, &out, &options, progress).map(drop)),
        ("reshard", &|progress| {
            reshard(&inputs, &out, &self::options(count(3), Compression::None), progress).map(drop)
        }),
        ("salvage", &|progress| salvage(&inputs, &out, &options, progress).map(drop)),
        ("index", &|progress| index(&inputs, IndexName::Idx, progress).map(drop)),
        ("verify", &|progress| verify(&inputs, progress).map(drop)),
    ];
    for (name, run) in runs {
        for bytes in [1, 2_000_000, 11_000_000] {
            let progress = Progress::default();
            progress.stop_after(bytes);
            let error = run(&progress).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Stopped), "{name}: {error}");
            assert_eq!(files(dir.path()), before, "{name} stopped after {bytes} bytes");
        }
    }
}

#[test]
fn index_lists_the_position_of_each_record() {
    let dir = tempfile::tempdir().unwrap();
    let set = dir.path().join("set");
    let manifest = write_set(&set, 0..1000, count(2), Compression::None);
    let written = index(from_ref(&set), IndexName::TfIndex, &Progress::default()).unwrap().indexes;
    assert_eq!(written.iter().map(|index| index.records).sum::<u64>(), 1000);
    for (shard, index) in manifest.shards.iter().zip(&written) {
        let path = set.join(&shard.path);
        assert_eq!(index.path, path.with_extension("tfindex"));
        let (file, records) = (fs::read(&path).unwrap(), payloads(&path));
        let lines = fs::read_to_string(&index.path).unwrap();
        assert_eq!(lines.lines().count(), records.len());
        for (line, record) in lines.lines().zip(records) {
            let (start, len) = line.split_once(' ').unwrap();
            let (start, len): (usize, usize) = (start.parse().unwrap(), len.parse().unwrap());
            assert_eq!(file[start + 12..start + len - 4], record);
        }
    }
    // An index does not make the set another.
    assert!(matches!(check(&set).unwrap(), tfrecord_shards::SetState::Whole(_)));
    assert!(verify(from_ref(&set), &Progress::default()).unwrap().findings.is_empty());
    assert_eq!(index(&[set], IndexName::TfIndex, &Progress::default()).unwrap().indexes, written);
}

#[test]
fn index_is_replaced_where_an_earlier_release_put_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.tfrecord");
    write_file(&file, &[b"a".to_vec()], Compression::None);
    let write = || index(from_ref(&file), IndexName::Idx, &Progress::default()).unwrap().indexes.remove(0).path;
    assert_eq!(write(), dir.path().join("_a.tfrecord.idx"));
    fs::rename(dir.path().join("_a.tfrecord.idx"), dir.path().join("a.tfrecord.idx")).unwrap();
    assert_eq!(write(), dir.path().join("a.tfrecord.idx"));
    assert_eq!(names(dir.path()), ["a.tfrecord", "a.tfrecord.idx"]);
}

#[test]
fn index_rejects_two_files_with_one_index_name() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a", "a.tfrecord"] {
        write_file(&dir.path().join(name), &[b"a".to_vec()], Compression::None);
    }
    let before = files(dir.path());
    let error = index(&[dir.path().to_owned()], IndexName::TfIndex, &Progress::default()).unwrap_err();
    let text = error.to_string().replace(&format!("{}/", dir.path().display()), "");
    assert_eq!(text, "a.tfindex: would be the index of a and of a.tfrecord");
    assert_eq!(files(dir.path()), before);
    assert_eq!(index(&[dir.path().to_owned()], IndexName::Idx, &Progress::default()).unwrap().indexes.len(), 2);
}

#[test]
fn index_rejects_unsuitable_files_and_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let good = dir.path().join("a.tfrecord");
    write_file(&good, &vec![vec![7; 100]; 9], Compression::None);
    let refused = |path: &Path| {
        let before = files(dir.path());
        let error = index(&[good.clone(), path.to_owned()], IndexName::Idx, &Progress::default()).unwrap_err();
        assert_eq!(files(dir.path()), before);
        error
    };
    let compressed = dir.path().join("b.tfrecord");
    write_file(&compressed, &[vec![7; 100]], Compression::Zlib);
    let error = refused(&compressed);
    assert!(
        error.to_string().ends_with("b.tfrecord: an index is for uncompressed files, found compression zlib"),
        "{error}"
    );
    let mut bytes = fs::read(&good).unwrap();
    bytes[116 * 3] ^= 1;
    let damaged = dir.path().join("c.tfrecord");
    fs::write(&damaged, bytes).unwrap();
    assert!(refused(&damaged).to_string().contains("c.tfrecord: record 3 at byte 348: length 101 has"), "");
}
