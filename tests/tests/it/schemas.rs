//! What `schema` prints of a set is what its readers need: TensorFlow, TensorFlow Metadata, TensorFlow Datasets, SQL.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, FixedSizeListArray, Float32Array, Float64Array, Int64Array, ListArray,
    RecordBatch, StringArray, UInt8Array,
};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Field, Int8Type, Int32Type, Schema};
use serde_json::{Value, json};
use tfr_tests::{Scratch, golden_table, run, tfr_sql};

use crate::came_back::Rules;
use crate::checker::with_tensorflow;
use crate::interop::{CHOICES, GOLDEN, refused, table_of_choices};
use crate::{kinds, session};

/// A set of one shard and the table that it was made of.
struct Set {
    name: String,
    table: RecordBatch,
    source: PathBuf,
    out: PathBuf,
    rules: Rules<'static>,
}

impl Set {
    fn write(scratch: &Scratch, name: &str, table: RecordBatch, rules: Rules<'static>) -> Self {
        let (source, out) = (scratch.arrow(&format!("{name}.arrow"), &table), scratch.join(format!("{name}.shards")));
        let parquet = scratch.parquet(&format!("{name}.parquet"), &table, 1024);
        let mut command = tfr_sql();
        command.arg(format!("SELECT * FROM '{}'", parquet.display())).arg("--out").arg(&out).args(["--shards", "1"]);
        run(command.args(rules.arguments())).success();
        Self { name: name.to_owned(), table, source, out, rules }
    }

    /// What `schema --as` prints.
    fn described(&self, form: &str) -> String {
        run(tfr_sql().arg("schema").arg(&self.out).args(["--as", form])).success().stdout
    }

    fn is_of_examples(&self) -> bool {
        self.rules.sequences.is_none()
    }

    fn job(&self, scratch: &Scratch) -> Value {
        let file = |form: &str| scratch.text(&format!("{}.{form}", self.name), &self.described(form));
        let of_examples = |form: &str| self.is_of_examples().then(|| file(form));
        json!({
            "name": self.name, "source": self.source, "out": self.out, "choices": self.rules.choices,
            "nulls": if self.rules.masks { "mask" } else { "absent" },
            "record_type": if self.is_of_examples() { "example" } else { "sequence-example" },
            "sequences": self.rules.sequences.unwrap_or_default(),
            "python": file("python"), "pbtxt": of_examples("pbtxt"), "features": of_examples("features.json"),
        })
    }
}

/// Every golden table that is written, every choice of a form, every kind of nested column, and columns that are never
/// null.
fn sets(scratch: &Scratch) -> Vec<Set> {
    let golden = GOLDEN.iter().filter(|table| refused(table) == "converted");
    let mut sets: Vec<_> =
        golden.map(|table| Set::write(scratch, table, golden_table(table), Rules::default())).collect();
    let most = CHOICES.iter().map(|(_, choices)| choices.len()).max().unwrap();
    sets.extend((0..most).map(|turn| {
        let choices = CHOICES.map(|(column, choices)| (column, choices[turn % choices.len()])).into();
        let rules = Rules { choices, ..Rules::default() };
        Set::write(scratch, &format!("choices-{turn}"), table_of_choices(), rules)
    }));
    sets.extend(kinds::cases().into_iter().map(|case| Set::write(scratch, case.name, case.table, case.rules)));
    sets.push(Set::write(scratch, "not-null", never_null(), Rules::default()));
    sets
}

fn never_null() -> RecordBatch {
    let columns: [(&str, ArrayRef); 9] = [
        ("int64", Arc::new(Int64Array::from(vec![1, i64::MIN]))),
        ("bool", Arc::new(BooleanArray::from(vec![true, false]))),
        ("uint8", Arc::new(UInt8Array::from(vec![0, u8::MAX]))),
        ("half", cast(&Float32Array::from(vec![1.5, -2.5]), &DataType::Float16).unwrap()),
        ("double", Arc::new(Float64Array::from(vec![0.1, f64::NAN]))),
        ("text", Arc::new(StringArray::from(vec!["a", "é"]))),
        ("bytes", Arc::new(BinaryArray::from(vec![&b"\xff\0"[..], b""]))),
        ("list", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1)]), Some(vec![])]))),
        (
            "pair",
            Arc::new(FixedSizeListArray::from_iter_primitive::<Int8Type, _, _>(
                [Some(vec![Some(1), Some(-2)]), Some(vec![Some(3), Some(4)])],
                2,
            )),
        ),
    ];
    let fields: Vec<_> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), false)).collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

/// The Python module parses every value; TensorFlow Metadata and TensorFlow Datasets load theirs, and these say what
/// the records hold.
#[test]
fn schema_formats_load_in_their_readers() {
    let scratch = Scratch::default();
    let jobs: Vec<Value> = sets(&scratch).iter().map(|set| set.job(&scratch)).collect();
    let input = scratch.text("jobs.json", &Value::from(jobs).to_string());
    let Some(output) = with_tensorflow("tests/interop/check_schemas.py", |command| {
        command.stdin(Stdio::from(File::open(input).unwrap()))
    }) else {
        return;
    };
    let answers: Value =
        serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", output.stdout));
    let wrong: Vec<_> = answers.as_array().unwrap().iter().filter(|answer| answer["problems"] != json!([])).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Of what is read above, the module says that it is read by the op that is made for it.
#[test]
fn parse_module_uses_the_feature_op_for_each_kind() {
    let scratch = Scratch::default();
    let modules: String = kinds::cases()
        .into_iter()
        .filter(|case| ["kinds", "kinds-nullable", "steps"].contains(&case.name))
        .map(|case| Set::write(&scratch, case.name, case.table, case.rules).described("python"))
        .collect();
    for spec in [
        r#""matrix": tf.io.FixedLenFeature([2, 3], tf.float32)"#,
        r#""point/x": _scalar("point/x", tf.int64)"#, // a VarLenFeature, unless it is in the table of nulls
        r#""points/x": tf.io.RaggedFeature(tf.int64)"#,
        r#"tf.io.RaggedFeature.RowLengths("cube/ragged_row_lengths_0")"#,
        r#"tf.io.RaggedFeature.RowLengths("cube/ragged_row_lengths_1")"#,
        "tf.io.RaggedFeature.UniformRowLength(2)",
        "tf.io.parse_sequence_example(records, CONTEXT, SEQUENCES)",
        r#""flags": tf.io.FixedLenSequenceFeature([], tf.int64)"#,
        r#""grid": tf.io.RaggedFeature(tf.float32)"#,
    ] {
        assert!(modules.contains(spec), "{spec}\n{modules}");
    }
}

/// The statement gives a column the type that it had, unless a comment says that SQL has no name for it; and the same
/// values.
#[tokio::test]
async fn ddl_reads_back_the_same_types() {
    let scratch = Scratch::default();
    let mut wrong = Vec::new();
    for set in sets(&scratch).into_iter().filter(Set::is_of_examples) {
        let statement = set.described("ddl");
        match differences(&set, &statement).await {
            Ok(differences) => {
                wrong.extend(differences.into_iter().map(|difference| format!("{}: {difference}", set.name)))
            }
            Err(error) => wrong.push(format!("{}: {error}\n{statement}", set.name)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

async fn differences(set: &Set, statement: &str) -> datafusion::common::Result<Vec<String>> {
    let (context, found) = (session::of_command(1), declared(statement).await?);
    let expected = session::select_all(&context, &set.out).await?;
    let mut wrong = Vec::new();
    for (field, column) in expected.schema().fields().iter().zip(expected.columns()) {
        let quoted = format!("\"{}\"", field.name().replace('"', "\"\""));
        let line = statement.lines().find(|line| line.trim_start().starts_with(&quoted));
        let renamed = line.is_none_or(|line| line.contains(" -- "));
        match found.column_by_name(field.name()) {
            Some(column) if renamed && column.len() == expected.num_rows() => {}
            Some(read) if read == column => {}
            Some(read) => wrong.push(format!("{line:?}: {} instead of {}", read.data_type(), column.data_type())),
            None if statement.contains(&format!("-- {quoted} is")) => {}
            None => wrong.push(format!("no column {quoted}")),
        }
    }
    Ok(wrong)
}

/// The statement says all that the manifest does: once that is gone, the values are the same, in types that hold the same.
#[tokio::test]
async fn ddl_reads_without_the_manifest() {
    let scratch = Scratch::default();
    let mut wrong = Vec::new();
    let mut sets = sets(&scratch);
    let (source, out) =
        (scratch.parquet("parts.parquet", &kinds::cases().remove(2).table, 1024), scratch.join("parts"));
    let query = format!(
        "SELECT *, named_struct('at', TIMESTAMP '2026-01-02 03:04:05', 'n', id % 2 = 0, 'in', named_struct('x', id / 3.0)) \
         AS s FROM '{}'",
        source.display()
    );
    let parts = ["--separator", ".", "--null", "mask", "--map", "s.at: millis", "--map", "s.in.x: string"];
    let dense = ["--map", "dense: tensor", "--shards", "1"];
    run(tfr_sql().arg(query).arg("--out").arg(&out).args(parts).args(dense)).success();
    let table = session::select_all(&session::of_command(1), &out).await.unwrap();
    sets.push(Set { name: "parts".to_owned(), table, source, out, rules: Rules::default() });
    for set in sets {
        let expected = session::select_all(&session::of_command(1), &set.out).await.unwrap();
        let statement = set.described("ddl");
        fs::remove_file(set.out.join("_manifest.json")).unwrap();
        let found = match declared(&statement).await {
            Ok(found) => found,
            // A directory of nothing but files of no bytes is taken for one without files.
            Err(_) if expected.num_rows() == 0 => continue,
            Err(error) => {
                wrong.push(format!("{}: {error}\n{statement}", set.name));
                continue;
            }
        };
        for (field, column) in expected.schema().fields().iter().zip(expected.columns()) {
            let quoted = format!("\"{}\"", field.name().replace('"', "\"\""));
            let line = statement.lines().find(|line| line.trim_start().starts_with(&quoted));
            let Some(line) = line.filter(|line| !line.contains("as stored")) else { continue };
            let read = found.column_by_name(field.name()).map(|read| match (read.data_type(), column.data_type()) {
                // Numbers are in UTC, but a session without a zone does not say so.
                (DataType::Timestamp(unit, None), zoned @ DataType::Timestamp(_, Some(_))) => {
                    let utc = cast(read, &DataType::Timestamp(*unit, Some("UTC".into()))).unwrap();
                    cast(&utc, zoned).unwrap()
                }
                (_, data_type) => cast(read, data_type).unwrap(),
            });
            if read.as_ref() != Some(column) {
                wrong.push(format!("{}: {line}\n{read:?}\n   instead of\n{column:?}", set.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The rows of the table that a statement declares.
async fn declared(statement: &str) -> datafusion::common::Result<RecordBatch> {
    let context = session::of_command(1);
    context.sql(statement).await?.collect().await?;
    let name = context.catalog("datafusion").unwrap().schema("public").unwrap().table_names().remove(0);
    let found = context.table(format!("\"{}\"", name.replace('"', "\"\""))).await?;
    let schema = Arc::clone(found.schema().inner());
    Ok(concat_batches(&schema, &found.collect().await?)?)
}

/// A `schema.pbtxt` that is put beside the shards tells the same types once the manifest is gone, and neither it nor
/// other descriptions are taken for records.
#[tokio::test]
async fn pbtxt_supplies_types_without_a_manifest() {
    let scratch = Scratch::default();
    let set = Set::write(&scratch, "not-null", never_null(), Rules::default());
    fs::write(set.out.join("schema.pbtxt"), set.described("pbtxt")).unwrap();
    fs::write(set.out.join("features.json"), set.described("features.json")).unwrap();
    fs::write(set.out.join("dataset_info.json"), "{}").unwrap();
    fs::write(set.out.join("text.labels.txt"), "a\né\n").unwrap();
    run(tfr_sql().arg("index").arg(&set.out)).success();
    fs::remove_file(set.out.join("_manifest.json")).unwrap();
    fs::remove_file(set.out.join("_SUCCESS")).unwrap();
    let read = session::select_all(&session::of_command(1), &set.out).await.unwrap();
    let types: Vec<_> = read
        .schema()
        .fields()
        .iter()
        .map(|field| {
            format!("{} {}{}", field.name(), field.data_type(), if field.is_nullable() { "" } else { " not null" })
        })
        .collect();
    assert_eq!(
        types,
        [
            "int64 Int64 not null",
            "bool Boolean not null",
            "uint8 Int64 not null",
            "half Float32 not null",
            "double Float32 not null",
            "text Utf8 not null",
            "bytes Binary not null",
            "list List(Int64) not null",
            "pair FixedSizeList(2 x Int64) not null",
        ]
    );
    assert_eq!(read.num_rows(), set.table.num_rows());
}
