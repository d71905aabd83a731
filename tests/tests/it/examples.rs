//! The programs and the data of `examples/`.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use arrow::array::AsArray;
use arrow::compute::{concat_batches, sum};
use arrow::datatypes::{Decimal128Type, DecimalType};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use tfr_examples::{TRIPS, trips, trips_path};
use tfr_tests::{Feature, Scratch, example, read_shards, repository, run, shard_files, tfr_sql};

#[test]
fn trips_file_matches_its_generator() {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(trips_path()).unwrap()).unwrap();
    let schema = reader.schema().clone();
    let batches: Vec<_> = reader.build().unwrap().collect::<Result<_, _>>().unwrap();
    let stored = concat_batches(&schema, &batches).unwrap();
    let made = trips().unwrap();
    assert_eq!(stored.schema().fields(), made.schema().fields());
    assert!(stored.columns() == made.columns(), "run `cargo run --example generate_trips`");
}

#[test]
fn library_without_an_engine() {
    let scratch = Scratch::default();
    let out = scratch.join("shards");
    let finished = run(example("write_shards").arg(&out)).success();
    assert!(finished.stdout.starts_with("2000 rows in 4 shards"), "{}", finished.stdout);
    assert_eq!(shard_files(&out).len(), 4);
    let records = read_shards(&out);
    assert_eq!(records.len(), TRIPS as usize);
    let (name, fare) = records[0].iter().find(|(name, _)| name == "fare").unwrap();
    assert!(matches!(fare, Feature::Int64(cents) if cents.len() == 1), "{name}: {fare:?}");
}

#[test]
fn library_with_datafusion() {
    let scratch = Scratch::default();
    let out = scratch.join("shards");
    let finished = run(example("copy_to").arg(&out)).success();
    let records = read_shards(&out);
    assert!(!records.is_empty());
    assert!(finished.stdout.contains(&format!("{} rows", records.len())), "{}", finished.stdout);
}

/// What one example writes the others read.
#[test]
fn shards_are_read_back() {
    let scratch = Scratch::default();
    let out = scratch.join("shards");
    run(example("write_shards").arg(&out)).success();
    let read = run(example("read_shards").arg(&out)).success();
    let fares =
        trips().unwrap().column_by_name("fare").map(|fares| sum(fares.as_primitive::<Decimal128Type>())).unwrap();
    let fares = Decimal128Type::format_decimal(fares.unwrap(), 38, 2);
    assert_eq!(read.stdout.trim(), format!("2000 trips, {fares} in fares"));
    let queried = run(example("query_shards").arg(&out)).success();
    insta::assert_snapshot!(queried.stdout, @"
    +----------+-------+------+--------+
    | city     | trips | km   | tipped |
    +----------+-------+------+--------+
    | Kyoto    | 427   | 15.7 | 130    |
    | Lisbon   | 413   | 15.3 | 114    |
    | Montréal | 364   | 15.5 | 130    |
    | Oslo     | 427   | 15.1 | 147    |
    | Quito    | 369   | 15.8 | 130    |
    +----------+-------+------+--------+
    ");
}

/// Slurm's `sbatch`, which runs a job at once, and the command, which fails once for each of its tasks and can be repeated.
#[test]
fn slurm_jobs_write_the_set() {
    let scratch = Scratch::default();
    fs::create_dir_all(scratch.join("bin")).unwrap();
    fs::create_dir_all(scratch.join("events")).unwrap();
    for copy in 0..4 {
        fs::copy(trips_path(), scratch.join(format!("events/{copy}.parquet"))).unwrap();
    }
    let program = |name: &str, text: String| {
        let path = scratch.join("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    program("sleep", "echo \"$@\" >> slept".to_owned());
    let command = tfr_sql();
    program(
        "tfr-sql",
        format!(
            r#"case $1 in task|cut|finish) once="failed-$1-$3-$4"; [ -e "$once" ] || {{ touch "$once"; exit 75; }} ;; esac
exec {} "$@"
"#,
            command.get_program().display()
        ),
    );
    program(
        "sbatch",
        r#"indices=none
while [ $# -gt 0 ]; do
    case $1 in --array=0-*) indices=$(seq 0 "${1#--array=0-}") ;; --wrap) shift; wrap=$1 ;; esac
    shift
done
for index in $indices; do
    SLURM_ARRAY_TASK_ID=$index SLURM_CPUS_PER_TASK=1 sh -c "$wrap" >&2 || exit 1
done
echo 7
"#
        .to_owned(),
    );
    let path = format!("{}:{}", scratch.join("bin").display(), std::env::var("PATH").unwrap());
    let script = repository().join("examples/cluster/task.slurm");
    run(Command::new("sh").arg(script).current_dir(scratch.path()).env("PATH", path)).success();
    assert_eq!(read_shards(&scratch.join("train")).len(), 4 * TRIPS as usize);
    let slept = fs::read_to_string(scratch.join("slept")).unwrap();
    assert!(slept.lines().all(|wait| wait == "1m") && slept.lines().count() > 3, "{slept}");
}
