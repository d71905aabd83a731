//! The machine: names, order, what is refused. How it fares when it dies, fails or is not alone, [`model`] tells.

mod model;

use super::*;
use crate::set::schema::{FieldDescription, SchemaDescription};

fn staged(partition: u32, sequence: u32) -> StagedShard {
    let stats = ShardStats { rows: 1, framed_bytes: 20, file_bytes: 20, crc32c: 7, ..ShardStats::default() };
    StagedShard::new(format!("{partition}-{sequence}"), partition, sequence, stats)
}

/// Partitioned by `dt`, in two splits.
fn grouped() -> SetDescription {
    let split = |name: &str, fraction| SplitDescription::new(name, fraction);
    let column = FieldDescription {
        name: "dt".to_owned(),
        data_type: "Utf8".to_owned(),
        nullable: true,
        metadata: Default::default(),
    };
    SetDescription {
        splits: vec![split("train", 0.75), split("eval", 0.25)],
        partition_columns: Some(SchemaDescription { fields: vec![column], ipc: String::new() }),
        ..SetDescription::of_records()
    }
}

fn group(dt: Option<&str>, split: &str) -> ShardGroup {
    let value = dt.map(str::to_owned);
    ShardGroup { partition_values: vec![("dt".to_owned(), value)], split: Some(split.to_owned()) }
}

fn setting(run: &RunId) -> Setting<'_> {
    Setting { out: Path::new("shards"), staging: Staging::Beside, mode: SaveMode::Error, current: None, run }
}

fn publish(shards: Vec<StagedShard>, description: SetDescription) -> Result<(Publication, Manifest)> {
    Publication::with_sidecars(setting(&RunId::new()), shards, description, |_| Ok(Vec::new()))
}

fn paths(manifest: &Manifest) -> Vec<&str> {
    manifest.shards.iter().map(|shard| shard.path.as_str()).collect()
}

#[test]
fn shards_are_numbered_by_partition_and_sequence() {
    let shards = vec![staged(1, 0), staged(0, 10), staged(0, 2)];
    let (mut publication, manifest) = publish(shards, SetDescription::of_records()).unwrap();
    let steps: Vec<_> = std::iter::from_fn(|| publication.next_step()).map(|step| step.to_string()).collect();
    assert_eq!(
        steps,
        [
            "discard what is not of the set",
            "write _manifest.json",
            "move staging/0-2 to staging/part-00000-of-00003.tfrecord",
            "move staging/0-10 to staging/part-00001-of-00003.tfrecord",
            "move staging/1-0 to staging/part-00002-of-00003.tfrecord",
            "write _SUCCESS",
            "sync staging",
            "lock the target",
            "check the staged files",
            "inspect the target",
        ]
    );
    assert_eq!(manifest.totals.rows, 3);
    assert_eq!(manifest.shards[2].path, "part-00002-of-00003.tfrecord");
}

#[test]
fn shards_of_a_group_are_numbered_by_themselves() {
    let groups = [
        (Some("b"), "eval"),
        (None, "train"),
        (Some("b"), "train"),
        (Some("a"), "train"),
        (Some("b"), "eval"),
        // As null.
        (Some(""), "train"),
    ];
    let shards = groups.iter().zip(0..).map(|((dt, split), n)| staged(0, 9 - n).with_group(group(*dt, split)));
    let (_, manifest) = publish(shards.collect(), grouped()).unwrap();
    assert_eq!(
        paths(&manifest),
        [
            "dt=__HIVE_DEFAULT_PARTITION__/train-00000-of-00002.tfrecord",
            "dt=__HIVE_DEFAULT_PARTITION__/train-00001-of-00002.tfrecord",
            "dt=a/train-00000-of-00001.tfrecord",
            // Splits in the order in which they were declared.
            "dt=b/train-00000-of-00001.tfrecord",
            "dt=b/eval-00000-of-00002.tfrecord",
            "dt=b/eval-00001-of-00002.tfrecord",
        ]
    );
    assert_eq!(manifest.shards[0].partition_values, [("dt".to_owned(), None)].into());
    assert_eq!(manifest.shards[3].split.as_deref(), Some("train"));
    assert_eq!(manifest.contradiction(), None);
}

#[test]
fn publication_rejects_two_shards_with_one_number() {
    let shards = vec![staged(0, 0), staged(0, 1), staged(0, 0)];
    let error = publish(shards, SetDescription::of_records()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::ShardTwice { partition: 0, sequence: 0 }), "{error}");
}

#[test]
fn shards_of_groups_that_the_set_does_not_have_are_refused() {
    let shard = |group: ShardGroup| vec![staged(0, 0).with_group(group)];
    for (shards, description, expected) in [
        (shard(ShardGroup::default()), grouped(), "is of no split"),
        (shard(group(None, "test")), grouped(), "is of split \"test\", which the set does not have"),
        (
            shard(ShardGroup { split: Some("train".to_owned()), ..ShardGroup::default() }),
            grouped(),
            "does not have one value",
        ),
        (shard(ShardGroup { split: None, ..group(None, "") }), SetDescription::of_records(), "does not have one value"),
        (
            shard(ShardGroup { partition_values: Vec::new(), ..group(None, "train") }),
            SetDescription::of_records(),
            "is of split",
        ),
    ] {
        let error = publish(shards, description).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::ManifestContent { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    let error = publish(shard(group(Some(&"x".repeat(300)), "train")), grouped()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::LongName { .. }), "{error}");
    let mut hidden = grouped();
    hidden.splits[1].name = "_eval".to_owned();
    let error = publish(shard(group(None, "train")), hidden).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Prefix { prefix } if prefix == "_eval"), "{error}");
}

#[test]
fn prefix_rejects_hidden_and_path_like_names() {
    for prefix in ["", ".part", "_part", "a/b", "../part", "a\\b", "a\nb", &"p".repeat(149)] {
        assert!(check_prefix(prefix).is_err(), "{prefix:?}");
    }
    for prefix in ["part", "train", "my data", "größe-1"] {
        assert!(check_prefix(prefix).is_ok(), "{prefix:?}");
    }
}

/// With the longest prefix and the longest id of a run there is still room for two numbers.
#[test]
fn names_fit_file_systems() {
    let run: RunId = "r".repeat(64).parse().unwrap();
    let names = ObjectNames {
        prefix: "p".repeat(148),
        total: None,
        suffix: tfrecord_framing::Framing::from(tfrecord_framing::Compression::Zlib).suffix(),
        run: Some(run),
    };
    let last = u32::MAX as usize;
    let name = names.path(ShardPlace { group: &ShardGroup::default(), index: last - 1, total: last });
    assert!(name.len() <= crate::set::group::LONGEST_NAME, "{}", name.len());
}
