use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, ListArray, StringArray};
use arrow::datatypes::Int64Type;
use arrow::record_batch::RecordBatch;
use insta::assert_snapshot;

use super::RowWriter;
use crate::cli::RowFormat;

fn batch() -> RecordBatch {
    let tags = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1), None]), None, Some(vec![])]);
    RecordBatch::try_from_iter([
        ("id", Arc::new(Int64Array::from(vec![Some(1), Some(2), None])) as ArrayRef),
        ("text", Arc::new(StringArray::from(vec![Some("a|b"), Some("two\nlines, \"quoted\""), None]))),
        ("tags", Arc::new(tags)),
    ])
    .unwrap()
}

/// The text of `batches`, in as many calls.
fn text(format: RowFormat, batches: &[RecordBatch]) -> String {
    let mut out = Vec::new();
    let mut rows = RowWriter::new(format, batch().schema());
    for batch in batches {
        rows.write(batch, &mut out).unwrap();
    }
    rows.finish(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn csv_has_one_header_and_quotes_what_needs_it() {
    assert_snapshot!(text(RowFormat::Csv, &[batch().slice(0, 1), batch().slice(1, 2)]), @r#"
    id,text,tags
    1,a|b,"[1, ]"
    2,"two
    lines, ""quoted""",
    ,,[]
    "#);
}

#[test]
fn json_lines_keep_nulls() {
    assert_snapshot!(text(RowFormat::Jsonl, &[batch()]), @r#"
    {"id":1,"text":"a|b","tags":[1,null]}
    {"id":2,"text":"two\nlines, \"quoted\"","tags":null}
    {"id":null,"text":null,"tags":[]}
    "#);
}

#[test]
fn json_is_one_array_however_the_rows_arrive() {
    let whole = text(RowFormat::Json, &[batch()]);
    assert_eq!(whole, text(RowFormat::Json, &[batch().slice(0, 2), batch().slice(2, 0), batch().slice(2, 1)]));
    let parsed: Vec<serde_json::Value> = serde_json::from_str(&whole).unwrap();
    assert_eq!(parsed.len(), 3);
}

#[test]
fn markdown_cells_cannot_break_the_table() {
    assert_snapshot!(text(RowFormat::Markdown, &[batch()]), @r#"
    | id | text | tags |
    |---:|---|---|
    | 1 | a\|b | [1, ] |
    | 2 | two<br>lines, "quoted" |  |
    |  |  | [] |
    "#);
}

#[test]
fn a_long_result_is_printed_as_it_comes() {
    let ids = Arc::new(Int64Array::from_iter_values(0..2500)) as ArrayRef;
    let batch = RecordBatch::try_from_iter([("id", ids)]).unwrap();
    let mut rows = RowWriter::new(RowFormat::Table, batch.schema());
    let mut out = Vec::new();
    rows.write(&batch, &mut out).unwrap();
    let so_far = String::from_utf8(out.clone()).unwrap();
    assert!(so_far.contains("| 1999 |") && !so_far.contains("| 2000 |"));
    rows.finish(&mut out).unwrap();
    assert!(String::from_utf8(out).unwrap().contains("| 2499 |"));
}

#[test]
fn an_empty_result_still_names_its_columns() {
    assert_eq!(text(RowFormat::Csv, &[]), "id,text,tags\n");
    assert_eq!(text(RowFormat::Json, &[]), "[]\n");
    assert_eq!(text(RowFormat::Jsonl, &[]), "");
    assert!(text(RowFormat::Markdown, &[]).starts_with("| id | text | tags |\n"));
    assert!(text(RowFormat::Table, &[]).contains("| id | text | tags |"));
}
