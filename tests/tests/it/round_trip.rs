//! Tables through shards and back: the same types and values with the manifest, and without it what inference is
//! documented to give.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::Path;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Field, SchemaRef};
use arrow::ipc::reader::FileReader;
use tfr_examples::trips_path;
use tfr_tests::{
    Feature, Record, Scratch, Sequence, golden_table, read_sequences, read_shards, records, run, sequences, tfr_sql,
};

use crate::came_back::{Rules, differences};
use crate::interop::{CHOICES, GOLDEN, table_of_choices};
use crate::{kinds, session};

/// What is wrong with a table that was read back from the shards in `out`, of the table `source`.
pub async fn compare(source: &RecordBatch, out: &Path, rules: &Rules<'_>) -> Vec<String> {
    let context = session::of_command(2);
    let mut wrong = match session::select_all(&context, out).await {
        Ok(found) => differences(source, &found, rules),
        Err(error) => vec![error.to_string()],
    };
    // Hidden, and so not there for a reader.
    let (manifest, aside) = (out.join("_manifest.json"), out.join(".aside"));
    fs::rename(&manifest, &aside).unwrap();
    match session::select_all(&context, out).await {
        Ok(found) if rules.sequences.is_some() => wrong.extend(inferred_sequences(&read_sequences(out), &found)),
        Ok(found) => wrong.extend(inferred(&read_shards(out), &found)),
        // A directory of nothing but files of no bytes is taken for one without files.
        Err(_) if source.num_rows() == 0 => {}
        Err(error) => wrong.push(format!("without a manifest: {error}")),
    }
    fs::rename(&aside, &manifest).unwrap();
    wrong
}

/// What is wrong with records that were read without a schema, given the records by protobuf.
pub fn inferred(expected_records: &[Record], found: &RecordBatch) -> Vec<String> {
    let schema = found.schema();
    let types: BTreeMap<_, _> =
        schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect();
    let expected = inferred_types(expected_records);
    let is_sorted = schema.fields().is_sorted_by_key(|field| field.name());
    if types != expected || !is_sorted {
        return vec![format!("inferred {types:?}\n   instead of {expected:?}")];
    }
    let found = records(found);
    if found.len() != expected_records.len() {
        return vec![format!("inferred: {} rows instead of {}", found.len(), expected_records.len())];
    }
    let differs = found.iter().zip(expected_records).enumerate().find_map(|(row, (found, expected))| {
        // A feature without a kind is a null, as one that is not there.
        let expected: Vec<_> = expected.iter().filter(|(_, feature)| *feature != Feature::Unset).collect();
        let same = found
            .iter()
            .map(|(name, feature)| (name, feature))
            .eq(expected.iter().map(|(name, feature)| (name, feature)));
        (!same).then(|| format!("inferred: row {row}: {found:.200?} instead of {expected:.200?}"))
    });
    differs.into_iter().collect()
}

/// What is wrong with SequenceExamples that were read without a schema, given the records by protobuf.
pub fn inferred_sequences(expected: &[Sequence], found: &RecordBatch) -> Vec<String> {
    let steps = |sequence: &Sequence| -> Vec<Record> {
        let lists = sequence.lists.iter();
        // Each step as a record of its own: one that says nothing but that the list is there, and those that there are.
        lists
            .flat_map(|(name, steps)| {
                let there = std::iter::once(&Feature::Unset).chain(steps);
                there.map(|step| vec![(name.clone(), step.clone())])
            })
            .collect()
    };
    let steps: Vec<Record> = expected.iter().flat_map(steps).collect();
    let context: Vec<Record> = expected.iter().map(|sequence| sequence.context.clone()).collect();
    let lists: BTreeSet<String> = steps.iter().flatten().map(|(name, _)| name.clone()).collect();
    let mut types = inferred_types(&context);
    types.extend(inferred_types(&steps).into_iter().map(|(name, step)| match step {
        DataType::Null => (name, DataType::Null),
        step => (name, DataType::new_list(step, true)),
    }));
    let schema = found.schema();
    let columns: Vec<_> =
        schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect();
    if columns != types.clone().into_iter().collect::<Vec<_>>() {
        return vec![format!("inferred {columns:?}\n   instead of {types:?}")];
    }
    let is_known = |name: &String| types[name] != DataType::Null;
    let expected: Vec<_> = expected
        .iter()
        .map(|sequence| Sequence {
            // A feature without a kind is a null, as one that is not there; so is a list of which nothing is known.
            context: sequence.context.iter().filter(|(_, feature)| *feature != Feature::Unset).cloned().collect(),
            lists: sequence.lists.iter().filter(|(name, _)| is_known(name)).cloned().collect(),
        })
        .collect();
    let found = sequences(found, &lists);
    if found.len() != expected.len() {
        return vec![format!("inferred: {} rows instead of {}", found.len(), expected.len())];
    }
    let differs = found.iter().zip(&expected).enumerate().find(|(_, (found, expected))| found != expected);
    differs
        .map(|(row, (found, expected))| format!("inferred: row {row}: {found:.200?} instead of {expected:.200?}"))
        .into_iter()
        .collect()
}

/// The rules for inference, written down a second time: one value in every record that has the feature is a scalar.
fn inferred_types(records: &[Record]) -> BTreeMap<String, DataType> {
    #[derive(Default)]
    struct Seen {
        item: Option<DataType>,
        lengths: BTreeSet<usize>,
    }
    let mut seen = BTreeMap::<&str, Seen>::new();
    for (name, feature) in records.iter().flatten() {
        let seen = seen.entry(name).or_default();
        let (item, length) = match feature {
            Feature::Int64(values) => (DataType::Int64, values.len()),
            Feature::Float(values) => (DataType::Float32, values.len()),
            Feature::Bytes(values) => {
                let is_text = values.iter().all(|value| std::str::from_utf8(value).is_ok())
                    && seen.item != Some(DataType::Binary);
                (if is_text { DataType::Utf8 } else { DataType::Binary }, values.len())
            }
            Feature::Unset => continue,
        };
        seen.item = Some(item);
        seen.lengths.insert(length);
    }
    let data_type = |seen: Seen| match seen.item {
        None => DataType::Null,
        Some(item) if seen.lengths == [1].into() => item,
        Some(item) => DataType::List(Field::new_list_field(item, true).into()),
    };
    seen.into_iter().map(|(name, seen)| (name.to_owned(), data_type(seen))).collect()
}

/// Converts a table with the command, and compares what is read back.
async fn through_shards(table: &Path, out: &Path, rules: &Rules<'_>) -> Vec<String> {
    let mut command = tfr_sql();
    command.arg(format!("SELECT * FROM '{}'", table.display())).arg("--out").arg(out);
    command.args(["--shards", "1", "--threads", "1", "--quiet"]).args(rules.arguments());
    run(&mut command).success();
    let source = session::select_all(&session::of_command(1), table).await.unwrap();
    let mut wrong = compare(&source, out, rules).await;
    wrong.extend(differences(&source, &by_the_command(out, &source.schema()), rules));
    wrong
}

/// The rows as the command gives them. Its files hold plain strings and binaries where the table has views of them.
fn by_the_command(shards: &Path, schema: &SchemaRef) -> RecordBatch {
    let file = shards.with_extension("back.arrow");
    let query = format!("SELECT * FROM '{}/'", shards.display());
    run(tfr_sql().arg(query).arg("--out").arg(&file).arg("--quiet")).success();
    let reader = FileReader::try_new(File::open(file).unwrap(), None).unwrap();
    let written = reader.schema();
    let rows = concat_batches(&written, &reader.collect::<Result<Vec<_>, _>>().unwrap()).unwrap();
    let viewed = rows.columns().iter().zip(schema.fields()).map(|(column, field)| match field.data_type() {
        view @ (DataType::Utf8View | DataType::BinaryView) => cast(column, view).unwrap(),
        _ => ArrayRef::clone(column),
    });
    RecordBatch::try_new(SchemaRef::clone(schema), viewed.collect()).unwrap()
}

pub fn report(wrong: BTreeMap<String, Vec<String>>) {
    let wrong: Vec<_> = wrong.into_iter().filter(|(_, wrong)| !wrong.is_empty()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn golden_tables_round_trip() {
    let scratch = Scratch::default();
    let mut wrong = BTreeMap::new();
    for table in GOLDEN {
        // Refused without these.
        let choice = match table {
            "floats" => Some(("f64", "bits")),
            "list_float" => Some(("d", "bits")),
            "uint64_big" => Some(("u64", "wrap")),
            _ => None,
        };
        let parquet = scratch.parquet(&format!("{table}.parquet"), &golden_table(table), 1024);
        let has_nulls_in_lists = table.ends_with("_null_elem");
        for masks in if has_nulls_in_lists { &[true][..] } else { &[false, true] } {
            let rules = Rules { choices: choice.into_iter().collect(), masks: *masks, ..Rules::default() };
            let name = format!("{table}, masks: {masks}");
            wrong.insert(name.clone(), through_shards(&parquet, &scratch.join(name), &rules).await);
        }
    }
    let trips = through_shards(&trips_path(), &scratch.join("trips"), &Rules::default()).await;
    wrong.insert("trips".to_owned(), trips);
    report(wrong);
}

/// Every kind of nested column, in records of both types.
#[tokio::test]
async fn nested_column_kinds_round_trip() {
    let scratch = Scratch::default();
    let mut wrong = BTreeMap::new();
    for case in kinds::cases() {
        let table = scratch.parquet(&format!("{}.parquet", case.name), &case.table, 1024);
        wrong.insert(case.name.to_owned(), through_shards(&table, &scratch.join(case.name), &case.rules).await);
    }
    report(wrong);
}

/// Every choice of a form.
#[tokio::test]
async fn mapping_choices_round_trip() {
    let scratch = Scratch::default();
    let table = scratch.parquet("choices.parquet", &table_of_choices(), 2);
    let most = CHOICES.iter().map(|(_, choices)| choices.len()).max().unwrap();
    let mut wrong = BTreeMap::new();
    for turn in 0..most {
        let chosen = CHOICES.map(|(column, choices)| (column, choices[turn % choices.len()]));
        let rules = Rules { choices: chosen.into(), ..Rules::default() };
        wrong.insert(format!("turn {turn}"), through_shards(&table, &scratch.join(turn.to_string()), &rules).await);
    }
    report(wrong);
}
