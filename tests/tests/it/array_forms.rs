//! Array forms: the same values in every layout of Arrow give the same answers and the same outputs.
//!
//! Each column is made plain and in other forms: sliced, as a dictionary (with unused, repeated, null or no values), as
//! runs, as other texts and lists. Every query and every output is run over the plain form and over each other one.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, Int8Array, Int32Array, Int64Array, LargeListViewArray, ListArray,
    ListViewArray, RecordBatch, StringArray, new_empty_array, new_null_array,
};
use arrow::compute::{cast, concat, take};
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type, Schema};
use arrow::ipc::writer::FileWriter;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use tfr_tests::{Scratch, read_file, run, shard_files, tfr_sql};

use crate::session;

/// Columns of texts: some with nulls, equal values and an empty text, one all null, one empty.
fn texts() -> Vec<ArrayRef> {
    let column = |values: &[Option<&str>]| Arc::new(StringArray::from(values.to_vec())) as ArrayRef;
    vec![
        column(&[Some("b"), None, Some("a"), Some("b"), Some(""), None, Some("é"), Some("a")]),
        column(&[Some("a"), Some("a"), Some("a")]),
        column(&[None, None, None]),
        column(&[]),
    ]
}

fn numbers() -> Vec<ArrayRef> {
    let column = |values: &[Option<i64>]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
    vec![
        column(&[Some(2), None, Some(1), Some(2), Some(0), None, Some(-7), Some(1)]),
        column(&[Some(3), Some(3), Some(3)]),
        column(&[None, None, None]),
        column(&[]),
    ]
}

fn lists() -> Vec<ArrayRef> {
    let list = |values: &[i64]| Some(values.iter().copied().map(Some).collect::<Vec<_>>());
    let column = |values: Vec<Option<Vec<Option<i64>>>>| {
        Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(values)) as ArrayRef
    };
    vec![
        column(vec![list(&[1, 2]), None, list(&[]), list(&[3]), list(&[1, 2]), Some(vec![Some(5), None])]),
        column(vec![None, None]),
        column(vec![]),
    ]
}

/// Forms for which a query may be refused. If it is not, it has the same answer.
const REFUSED: [&str; 2] = ["runs", "list views"];

/// A form of an array, with its name.
type Form = (&'static str, ArrayRef);

/// The array between two others, as a slice of all three.
fn sliced(array: &ArrayRef) -> ArrayRef {
    let around = new_null_array(array.data_type(), 2);
    concat(&[&around, array, array]).unwrap().slice(2, array.len())
}

/// The forms of a column of single values.
fn forms(plain: &ArrayRef) -> Vec<Form> {
    let dictionary = |keys: DataType| {
        cast(plain, &DataType::Dictionary(Box::new(keys), Box::new(plain.data_type().clone()))).unwrap()
    };
    let runs = DataType::RunEndEncoded(
        Arc::new(Field::new("run_ends", DataType::Int32, false)),
        Arc::new(Field::new("values", plain.data_type().clone(), true)),
    );
    let runs = cast(plain, &runs).unwrap();
    let mut forms = vec![
        ("sliced", sliced(plain)),
        ("dictionary", dictionary(DataType::Int32)),
        ("small dictionary", dictionary(DataType::UInt8)),
        ("sliced dictionary", sliced(&dictionary(DataType::Int32))),
        ("dictionary with unused values", unused(plain)),
        ("dictionary with repeated values", repeated(plain, false)),
        ("dictionary that holds null", repeated(plain, true)),
        ("runs", Arc::clone(&runs)),
    ];
    if !plain.is_empty() {
        let doubled =
            take(plain, &Int32Array::from_iter_values((0..plain.len() as i32).chain(0..plain.len() as i32)), None);
        let doubled = cast(&doubled.unwrap(), runs.data_type()).unwrap();
        forms.push(("sliced runs", doubled.slice(plain.len(), plain.len())));
    }
    if plain.null_count() == plain.len() {
        let keys = Int8Array::new_null(plain.len());
        let values = new_empty_array(plain.data_type());
        forms.push(("dictionary without values", Arc::new(DictionaryArray::new(keys, values))));
    }
    if plain.data_type() == &DataType::Utf8 {
        forms.push(("large texts", cast(plain, &DataType::LargeUtf8).unwrap()));
        forms.push(("views", sliced(&cast(plain, &DataType::Utf8View).unwrap())));
    }
    forms
}

/// A dictionary with values that no key refers to, before and after those that are used.
fn unused(plain: &ArrayRef) -> ArrayRef {
    let values = cast(&(Arc::new(StringArray::from(vec!["9", "8"])) as ArrayRef), plain.data_type()).unwrap();
    let values = concat(&[&values, plain, &values]).unwrap();
    let keys: Int32Array =
        (0..plain.len()).map(|row| plain.is_valid(row).then(|| i32::try_from(row).unwrap() + 2)).collect();
    Arc::new(DictionaryArray::<Int32Type>::new(keys, values))
}

/// A dictionary with a value for each row. A null is a null key, or a key that refers to a null.
fn repeated(plain: &ArrayRef, holds_null: bool) -> ArrayRef {
    let keys: Int32Array =
        (0..plain.len()).map(|row| (holds_null || plain.is_valid(row)).then(|| i32::try_from(row).unwrap())).collect();
    Arc::new(DictionaryArray::<Int32Type>::new(keys, Arc::clone(plain)))
}

/// The forms of a column of lists. The items of views are in another order, and shared.
fn forms_of_lists(plain: &ArrayRef) -> Vec<Form> {
    let list = plain.as_list::<i32>();
    let DataType::List(field) = plain.data_type() else { panic!("no list: {}", plain.data_type()) };
    let twice = concat(&[list.values(), list.values()]).unwrap();
    let start =
        |row: usize| list.value_offsets()[row] as usize + if row.is_multiple_of(2) { list.values().len() } else { 0 };
    let offsets: Vec<usize> = (0..list.len()).map(start).collect();
    let sizes: Vec<usize> = (0..list.len()).map(|row| list.value_length(row) as usize).collect();
    let view = ListViewArray::new(
        Arc::clone(field),
        offsets.iter().map(|offset| *offset as i32).collect(),
        sizes.iter().map(|size| *size as i32).collect(),
        Arc::clone(&twice),
        list.nulls().cloned(),
    );
    let large_view = LargeListViewArray::new(
        Arc::clone(field),
        offsets.iter().map(|offset| *offset as i64).collect(),
        sizes.iter().map(|size| *size as i64).collect(),
        twice,
        list.nulls().cloned(),
    );
    vec![
        ("sliced", sliced(plain)),
        ("large lists", cast(plain, &DataType::LargeList(Arc::clone(field))).unwrap()),
        ("list views", Arc::new(view)),
        ("large list views", Arc::new(large_view)),
    ]
}

/// A batch of the rows' numbers and the column.
fn batch(column: &ArrayRef) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..column.len() as i64));
    let schema =
        Schema::new(vec![Field::new("id", DataType::Int64, true), Field::new("k", column.data_type().clone(), true)]);
    RecordBatch::try_new(Arc::new(schema), vec![ids, Arc::clone(column)]).unwrap()
}

/// A session with the tables `t`, in two batches, and `p`, the plain form.
fn tables(column: &ArrayRef, plain: &ArrayRef) -> SessionContext {
    let context = session::of_command(2);
    for (name, column) in [("t", column), ("p", plain)] {
        let batch = batch(column);
        let half = batch.num_rows() / 2;
        let parts = vec![vec![batch.slice(0, half)], vec![batch.slice(half, batch.num_rows() - half)]];
        context.register_table(name, Arc::new(MemTable::try_new(batch.schema(), parts).unwrap())).unwrap();
    }
    context
}

/// The rows of an answer as texts, sorted unless the query orders them.
async fn answer(context: &SessionContext, sql: &str) -> Result<Vec<String>, String> {
    let rows = async { context.sql(sql).await?.collect().await }.await.map_err(|error| error.to_string())?;
    let mut texts = rows.iter().flat_map(texts_of).collect::<Vec<_>>();
    if !sql.contains(") ORDER BY") {
        texts.sort();
    }
    Ok(texts)
}

fn texts_of(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::new().with_null("NULL");
    let plain: Vec<ArrayRef> = batch.columns().iter().map(plain_of).collect();
    let columns: Vec<_> = plain.iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
    let row = |row: usize| columns.iter().map(|column| format!("<{}>", column.value(row))).collect::<String>();
    (0..batch.num_rows()).map(row).collect()
}

fn plain_of(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Dictionary(_, values) => plain_of(&cast(column, values).unwrap()),
        DataType::RunEndEncoded(_, values) => plain_of(&cast(column, values.data_type()).unwrap()),
        _ => Arc::clone(column),
    }
}

/// Runs every query over every form.
async fn same_answers(columns: Vec<ArrayRef>, forms: fn(&ArrayRef) -> Vec<Form>, queries: &[&str]) {
    let mut wrong = Vec::new();
    for plain in &columns {
        let expected = tables(plain, plain);
        let forms: Vec<_> = forms(plain).into_iter().map(|(form, column)| (form, tables(&column, plain))).collect();
        for sql in queries {
            let expected = match answer(&expected, sql).await {
                Ok(expected) => expected,
                Err(error) => {
                    wrong.push(format!("plain: {sql}\n  {error}"));
                    continue;
                }
            };
            for (form, tables) in &forms {
                let found = answer(tables, sql).await;
                let may_be_refused = REFUSED.iter().any(|refused| form.ends_with(refused));
                if found.as_ref() != Ok(&expected) && !(may_be_refused && found.is_err()) {
                    wrong.push(format!(
                        "{form} of {} rows: {sql}\n  found    {found:?}\n  expected {expected:?}",
                        plain.len()
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} differences\n{}", wrong.len(), wrong.join("\n"));
}

/// Queries over columns of any type. Rows of an inner query in parentheses are ordered.
const OF_ANY: &[&str] = &[
    "SELECT id, k FROM t",
    "SELECT id FROM t WHERE k IS NULL",
    "SELECT id FROM t WHERE k IS NOT NULL",
    "SELECT id, k = k, k IS DISTINCT FROM k FROM t",
    "SELECT t.id, p.id FROM t JOIN p ON t.k = p.k",
    "SELECT t.id, p.id FROM p JOIN t ON p.k = t.k AND p.id < t.id",
    "SELECT t.id, p.id FROM t LEFT JOIN p ON t.k = p.k AND p.id > 2",
    "SELECT t.id, p.id FROM t FULL JOIN p ON t.k = p.k AND p.id = t.id + 1",
    "SELECT t.id, p.id FROM t JOIN p ON t.k IS NOT DISTINCT FROM p.k",
    "SELECT k, t.id, p.id FROM t JOIN p USING (k)",
    "SELECT a.id, b.id FROM t a JOIN t b ON a.k = b.k",
    "SELECT a.id, b.k FROM t a, t b WHERE a.k < b.k",
    "SELECT id FROM t WHERE k IN (SELECT k FROM p WHERE id > 1)",
    "SELECT id FROM t WHERE k NOT IN (SELECT k FROM p WHERE id > 100)",
    "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM p WHERE p.k = t.k AND p.id <> t.id)",
    "SELECT k, count(*), count(k), min(id) FROM t GROUP BY k",
    "SELECT count(DISTINCT k), count(k), count(*) FROM t",
    "SELECT DISTINCT k FROM t",
    "SELECT k, count(*) FROM t GROUP BY ROLLUP (k)",
    "SELECT array_agg(k ORDER BY id) FROM t",
    "SELECT first_value(k ORDER BY id), last_value(k ORDER BY id) FROM t",
    "SELECT * FROM (SELECT id, k FROM t) ORDER BY k NULLS LAST, id",
    "SELECT * FROM (SELECT id, k FROM t) ORDER BY k DESC NULLS FIRST, id LIMIT 3",
    "SELECT id, row_number() OVER (PARTITION BY k ORDER BY id) FROM t",
    "SELECT id, rank() OVER (ORDER BY k NULLS FIRST), dense_rank() OVER (ORDER BY k DESC NULLS LAST) FROM t",
    "SELECT id, lag(k) OVER (ORDER BY id), lead(k, 2) OVER (ORDER BY id) FROM t",
    "SELECT id, first_value(k) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING), nth_value(k, 2) OVER (ORDER BY id) FROM t",
    "SELECT id, count(k) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t",
    "SELECT k FROM t UNION ALL SELECT k FROM p",
    "SELECT k FROM t UNION SELECT k FROM p WHERE id > 1",
    "SELECT k FROM t INTERSECT SELECT k FROM p WHERE id > 1",
    "SELECT k FROM p EXCEPT SELECT k FROM t WHERE id > 1",
    "SELECT k FROM p EXCEPT ALL SELECT k FROM t WHERE id > 1",
    "SELECT id, CASE WHEN id > 1 THEN k END FROM t",
    "SELECT id, CASE WHEN k IS NULL THEN id ELSE -1 END FROM t",
    "SELECT t.id, coalesce(t.k, p.k), nullif(t.k, p.k) FROM t JOIN p ON t.id = p.id + 1",
    "SELECT id, [k], named_struct('f', k)['f'] FROM t",
    "SELECT max(c) FROM (SELECT count(*) AS c FROM t GROUP BY k)",
    "SELECT (SELECT k FROM t WHERE id = 0), (SELECT count(k) FROM t)",
    "WITH RECURSIVE r AS (SELECT id, k FROM t WHERE id = 0 UNION ALL SELECT r.id + 1, r.k FROM r WHERE r.id < 2) SELECT * FROM r",
];

const OF_TEXTS: &[&str] = &[
    "SELECT id FROM t WHERE k = 'b'",
    "SELECT id FROM t WHERE 'b' <> k",
    "SELECT id FROM t WHERE k > 'a'",
    "SELECT id FROM t WHERE k BETWEEN 'a' AND 'b'",
    "SELECT id FROM t WHERE k IN ('a', 'x', 'é')",
    "SELECT id FROM t WHERE k NOT IN ('a', '')",
    "SELECT id, k IN ('b', NULL), k NOT IN ('b', NULL) FROM t",
    "SELECT id, k IS DISTINCT FROM 'a', k IS NOT DISTINCT FROM NULL FROM t",
    "SELECT id, k LIKE '%b', k NOT LIKE '_', k ILIKE 'A' FROM t",
    "SELECT id, k ~ '^[ab]$' FROM t",
    "SELECT id, CASE WHEN k = 'a' THEN 'x' ELSE k END, CASE k WHEN 'b' THEN 1 WHEN '' THEN 2 END FROM t",
    "SELECT id, coalesce(k, 'none'), nullif(k, ''), greatest(k, 'aa'), least(k, 'aa') FROM t",
    "SELECT id, upper(k), length(k), character_length(k), octet_length(k) FROM t",
    "SELECT id, concat(k, '!'), k || '!', concat_ws('-', k, k) FROM t",
    "SELECT id, substr(k, 1, 1), left(k, 1), replace(k, 'a', 'z'), trim(k), strpos(k, 'b') FROM t",
    "SELECT id, starts_with(k, 'a'), reverse(k), lpad(k, 3, '-'), split_part(k, 'b', 1), md5(k) FROM t",
    "SELECT id, regexp_replace(k, 'a', 'z'), regexp_like(k, 'b') FROM t",
    "SELECT id, CAST(k AS VARCHAR) AS v, TRY_CAST(k AS BIGINT) AS n, arrow_cast(k, 'Dictionary(Int8, Utf8)') FROM t",
    "SELECT id, array_has(['a', 'b'], k), array_position(['a', 'b'], k), make_array(k, 'x')[1] FROM t",
    "SELECT min(k), max(k), string_agg(k, ',' ORDER BY id) FROM t",
    "SELECT id, min(k) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW), max(k) OVER (PARTITION BY id % 2) FROM t",
    "SELECT upper(k), count(*) FROM t GROUP BY upper(k)",
    "SELECT k AS a, 'x' AS b FROM t UNION ALL SELECT 'y', k FROM t",
    "SELECT t.id FROM t JOIN (VALUES ('a'), ('b')) v(k) ON t.k = v.k",
];

const OF_NUMBERS: &[&str] = &[
    "SELECT id FROM t WHERE k = 2",
    "SELECT id FROM t WHERE 1 >= k",
    "SELECT id FROM t WHERE k IN (0, 2, 9)",
    "SELECT id, k NOT IN (2, NULL), k BETWEEN 0 AND 1, k IS DISTINCT FROM 2 FROM t",
    "SELECT id, k + 1, k * 2 - id, 0 - k, k % 2, k / 2 FROM t",
    "SELECT id, CAST(k AS DOUBLE) AS d, CAST(k AS VARCHAR) AS v, round(CAST(k AS DOUBLE), 1) FROM t",
    "SELECT id, coalesce(k, 0), nullif(k, 2), greatest(k, 1), CASE k WHEN 2 THEN k ELSE 0 END FROM t",
    "SELECT sum(k), avg(k), min(k), max(k), count(k) FROM t",
    "SELECT id, sum(k) OVER (ORDER BY id), avg(k) OVER (ORDER BY id ROWS 1 PRECEDING) FROM t",
    "SELECT k, sum(k) FROM t GROUP BY k HAVING k > 0",
    "SELECT t.id FROM t JOIN (VALUES (1), (2)) v(k) ON t.k = v.k",
];

const OF_LISTS: &[&str] = &[
    "SELECT id, k[1], k[-1], array_length(k), cardinality(k) FROM t",
    "SELECT id, k = [1, 2], array_has(k, 2), array_position(k, 2) FROM t",
    "SELECT id, unnest(k) AS u FROM t",
    "SELECT id, array_to_string(k, ','), array_append(k, 7), array_concat(k, [8]) FROM t",
    "SELECT id, array_sort(k), array_distinct(k), array_remove(k, 1) FROM t",
    "SELECT id, k[1:1], array_slice(k, 2, 3), empty(k) FROM t",
    "SELECT id, CAST(k AS VARCHAR) AS v FROM t",
    "SELECT id, coalesce(k, [0]), CASE WHEN id > 1 THEN k ELSE [9] END FROM t",
];

#[tokio::test(flavor = "multi_thread")]
async fn array_layouts_of_texts_give_equal_answers() {
    same_answers(texts(), forms, OF_ANY).await;
    same_answers(texts(), forms, OF_TEXTS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn array_layouts_of_numbers_give_equal_answers() {
    same_answers(numbers(), forms, OF_ANY).await;
    same_answers(numbers(), forms, OF_NUMBERS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn array_layouts_of_lists_give_equal_answers() {
    same_answers(lists(), forms_of_lists, OF_ANY).await;
    same_answers(lists(), forms_of_lists, OF_LISTS).await;
}

fn write_arrow(path: &Path, batch: &RecordBatch) {
    let mut writer = FileWriter::try_new(File::create(path).unwrap(), &batch.schema()).unwrap();
    writer.write(batch).unwrap();
    writer.finish().unwrap();
}

/// The outputs of the command, and their records or rows.
async fn outputs(directory: &Path, column: &ArrayRef) -> Vec<String> {
    std::fs::create_dir(directory).unwrap();
    let table = directory.join("t.arrow");
    write_arrow(&table, &batch(column));
    let table = format!("t={}", table.display());
    let query = "SELECT * FROM t ORDER BY id";
    let mut outputs = Vec::new();
    for format in ["csv", "jsonl", "table"] {
        outputs.push(run(tfr_sql().args([query, "--table", &table, "--format", format])).success().stdout);
    }
    let shards = directory.join("shards");
    let command = ["--table", &table, "--shards", "1", "--null", "drop"];
    run(tfr_sql().arg(query).args(command).arg("--out").arg(&shards)).success();
    for file in shard_files(&shards) {
        outputs.extend(read_file(&file).iter().map(|record| format!("{record:?}")));
    }
    let context = session::of_command(1);
    for output in ["shards", "x.parquet", "x.arrow", "x.csv", "x.jsonl"] {
        let path = directory.join(output);
        if output != "shards" && !(output == "x.csv" && column.data_type().is_nested()) {
            run(tfr_sql().args([query, "--table", &table]).arg("--out").arg(&path)).success();
        }
        match output {
            "x.csv" | "x.jsonl" => outputs.extend(std::fs::read_to_string(&path).ok()),
            _ => outputs.extend(texts_of(&session::select_all(&context, &path).await.unwrap())),
        }
    }
    outputs
}

#[tokio::test(flavor = "multi_thread")]
async fn array_layouts_give_equal_outputs() {
    let scratch = Scratch::default();
    let mut wrong = Vec::new();
    let columns = texts().into_iter().chain(numbers()).map(|plain| (forms(&plain), plain));
    let columns = columns.chain(lists().into_iter().map(|plain| (forms_of_lists(&plain), plain)));
    for (number, (forms, plain)) in columns.enumerate().filter(|(_, (_, plain))| !plain.is_empty()) {
        let expected = outputs(&scratch.join(format!("{number}")), &plain).await;
        for (form, column) in forms {
            let found = outputs(&scratch.join(format!("{number} {form}")), &column).await;
            if found != expected {
                wrong.push(format!("{form} of {plain:?}\n  found    {found:?}\n  expected {expected:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
