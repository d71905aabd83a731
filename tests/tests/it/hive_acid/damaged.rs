//! Transactional tables of Hive that are damaged, or of which write ids lack something.

use std::fs;
use std::path::Path;

use tfr_tests::Scratch;

use super::{ask, copied, write_ids};

/// A damaged variant: what is done to a copy of a table, its write ids if they are others, and what the error says.
struct Variant {
    table: &'static str,
    damage: fn(&Path),
    write_ids: Option<&'static str>,
    named: &'static str,
}

fn rename(from: &str, to: &str, table: &Path) {
    fs::rename(table.join(from), table.join(to)).unwrap();
}

const BUCKET: &str = "bucket_00000_0";

const VARIANTS: &[Variant] = &[
    Variant {
        table: "full_aborted",
        damage: |table| rename("delta_0000003_0000003_0000", "delta_0000003_0000001_0000", table),
        write_ids: None,
        named: "delta_0000003_0000001_0000/ is not the name of a directory of Hive",
    },
    // The rows of another write id and of another bucket.
    Variant {
        table: "full_aborted",
        damage: |table| rename("delta_0000003_0000003_0000", "delta_0000004_0000004_0000", table),
        write_ids: Some("t:4:9223372036854775807::2"),
        named: "it has the write id 3, but its directory those from 4 to 4",
    },
    Variant {
        table: "full_bucketed",
        damage: |table| {
            rename("delta_0000003_0000003_0001/bucket_00002_0", "delta_0000003_0000003_0001/bucket_00001_0", table);
        },
        write_ids: None,
        named: "it has rows of bucket 2, but is of bucket 1 by its name",
    },
    // Deleted rows among those that were added, and the other way round.
    Variant {
        table: "full_minor",
        damage: |table| rename("delete_delta_0000006_0000006_0000", "delta_0000006_0000006_0000", table),
        write_ids: None,
        named: "the code of its changes is 2, expected 0",
    },
    Variant {
        table: "full_minor",
        damage: |table| rename("delta_0000005_0000005_0000", "delete_delta_0000005_0000005_0000", table),
        write_ids: None,
        named: "the code of its changes is 0, expected 2",
    },
    Variant {
        table: "full_converted",
        damage: |table| {
            let delete = table.join("delete_delta_10000002_10000002_0000").join(BUCKET);
            fs::copy(table.join("000000_0"), delete).map(drop).unwrap();
        },
        write_ids: None,
        named: "it has no ids of rows",
    },
    Variant {
        table: "full_converted",
        damage: |table| fs::remove_file(table.join("000000_0_copy_1")).unwrap(),
        write_ids: None,
        named: "in the files of bucket 0 with it",
    },
    Variant {
        table: "full_loaded_over",
        damage: |table| rename("base_0000002/000000_0", "base_0000002/part-00000.orc", table),
        write_ids: None,
        named: "rows of it are deleted, and its name has no bucket",
    },
    Variant {
        table: "full_major",
        damage: |table| {
            let delta = table.join("delta_0000003_0000003_0000");
            fs::copy(delta.join(BUCKET), delta.join("bucket_00000_1")).map(drop).unwrap();
        },
        write_ids: None,
        named: "its directory has another file of the bucket",
    },
    Variant {
        table: "full_major",
        damage: |table| fs::write(table.join("base_0000002_v0000090/_orc_acid_version"), "3").unwrap(),
        write_ids: None,
        named: "version \"3\" of its directory is not known",
    },
    Variant {
        table: "full_major",
        damage: |table| {
            let bucket = table.join("base_0000002_v0000090/bucket_00000");
            let bytes = fs::read(&bucket).unwrap();
            fs::write(bucket, &bytes[..bytes.len() / 2]).unwrap();
        },
        write_ids: None,
        named: "base_0000002_v0000090/bucket_00000: ",
    },
    Variant {
        table: "full_major",
        damage: |table| {
            let side = table.join("delta_0000003_0000003_0000/bucket_00000_0_flush_length");
            fs::write(side, [3_u64.to_be_bytes(), 4_u64.to_be_bytes()].concat()).unwrap();
        },
        write_ids: None,
        named: "of which 4 are committed: a stream still writes to it",
    },
    Variant {
        table: "full_major",
        damage: |table| {
            fs::copy(table.join("base_0000002_v0000090/bucket_00000"), table.join(BUCKET)).map(drop).unwrap()
        },
        // Without the base, files beside it are read.
        write_ids: Some("t:4:9223372036854775807::"),
        named: "",
    },
    // A compaction of write ids that are not in the list.
    Variant {
        table: "full_major",
        damage: |_| {},
        write_ids: Some("t:1:9223372036854775807::"),
        named: "a compaction has joined write ids in it that are open or unknown",
    },
    Variant {
        table: "full_part",
        damage: |table| fs::write(table.join("000000_0"), "x").unwrap(),
        write_ids: None,
        named: "it is beside partitions such as",
    },
    Variant {
        table: "full_open",
        damage: |table| {
            fs::create_dir(table.join("sub")).unwrap();
            rename("delta_0000001_0000001_0000", "sub/delta_0000001_0000001_0000", table);
        },
        write_ids: None,
        named: "it is not directly in the directory of a table or a partition",
    },
    // Some rows of a file that does not record which.
    Variant {
        table: "io_orc",
        damage: |table| rename("delta_0000003_0000003_0000", "delta_0000003_0000004_0000", table),
        write_ids: Some("t:3:9223372036854775807::2"),
        named: "it has no ids of rows, and some of its rows were not committed",
    },
];

#[test]
fn acid_damage_is_refused_by_name() {
    for (index, variant) in VARIANTS.iter().enumerate() {
        let scratch = Scratch::default();
        let table = copied(&scratch, variant.table);
        (variant.damage)(&table);
        let ids = variant.write_ids.map_or_else(|| write_ids(variant.table), str::to_owned);
        let found = ask(table.to_str().unwrap(), &format!(",\"write_ids={ids}\""), "SELECT * FROM t");
        let what = format!("{index}: {}", variant.named);
        match variant.named {
            // What a base covers does not matter.
            "" => assert_eq!(found.success().stdout.lines().count(), 3, "{what}"),
            named => {
                assert!(found.code == Some(1) && found.stdout.is_empty(), "{what}: {found:?}");
                assert!(found.stderr.contains(named), "{what}: {}", found.stderr);
            }
        }
    }
}
