use std::sync::Arc;

use arrow::array::{
    Array as _, ArrayRef, BinaryArray, DictionaryArray, Float32Array, Float64Array, Int64Array, ListArray, NullArray,
    StringArray, StructArray, UnionArray,
};
use arrow::array::{Int32Builder, MapBuilder, StringBuilder};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{Field, Float64Type, Int8Type, Int64Type, UnionFields};
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
    let mut rows = RowWriter::new(format, batches.first().unwrap_or(&batch()).schema());
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
fn csv_distinguishes_empty_text_from_null() {
    let texts = [Some(""), None, Some(" a")];
    let dictionary =
        DictionaryArray::<Int8Type>::new(vec![0, 1, 2].into(), Arc::new(StringArray::from(texts.to_vec())));
    let bytes = BinaryArray::from_opt_vec(vec![Some(b"".as_slice()), None, Some(b"\xff\x00")]);
    let batch = RecordBatch::try_from_iter([
        ("a,b", Arc::new(StringArray::from(texts.to_vec())) as ArrayRef),
        ("dictionary", Arc::new(dictionary)),
        ("", Arc::new(bytes)),
    ]);
    assert_eq!(text(RowFormat::Csv, &[batch.unwrap()]), "\"a,b\",dictionary,\"\"\n\"\",\"\",\"\"\n,,\n a, a,ff00\n");
    // An empty line would be no record.
    let sole = RecordBatch::try_from_iter([("a", Arc::new(StringArray::from(texts.to_vec())) as ArrayRef)]);
    assert_eq!(text(RowFormat::Csv, &[sole.unwrap()]), "a\n\"\"\n\"\"\n a\n");
}

#[test]
fn json_writes_nan_and_infinities_as_words() {
    let floats = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 1.5e300];
    let list = ListArray::from_iter_primitive::<Float64Type, _, _>(floats.map(|value| Some(vec![Some(value), None])));
    let singles = floats.map(|value| if value == 1.5e300 { 0.1 } else { value as f32 });
    let single =
        StructArray::try_from(vec![("x", Arc::new(Float32Array::from(singles.to_vec())) as ArrayRef)]).unwrap();
    let dictionary =
        DictionaryArray::<Int8Type>::new(vec![0, 1, 2, 3, 4].into(), Arc::new(Float64Array::from(floats.to_vec())));
    let batch = RecordBatch::try_from_iter([
        ("d", Arc::new(Float64Array::from(floats.to_vec())) as ArrayRef),
        ("list", Arc::new(list)),
        ("struct", Arc::new(single)),
        ("dictionary", Arc::new(dictionary)),
    ]);
    assert_snapshot!(text(RowFormat::Jsonl, &[batch.unwrap()]), @r#"
    {"d":"NaN","list":["NaN",null],"struct":{"x":"NaN"},"dictionary":"NaN"}
    {"d":"Infinity","list":["Infinity",null],"struct":{"x":"Infinity"},"dictionary":"Infinity"}
    {"d":"-Infinity","list":["-Infinity",null],"struct":{"x":"-Infinity"},"dictionary":"-Infinity"}
    {"d":-0.0,"list":[-0.0,null],"struct":{"x":-0.0},"dictionary":-0.0}
    {"d":1.5e300,"list":[1.5e300,null],"struct":{"x":0.1},"dictionary":1.5e300}
    "#);
}

#[test]
fn json_has_the_value_of_a_union() {
    let point = StructArray::try_from(vec![("x", Arc::new(Float64Array::from(vec![f64::NAN])) as ArrayRef)]).unwrap();
    let members: [(&str, ArrayRef); 4] = [
        ("null", Arc::new(NullArray::new(1))),
        ("int", Arc::new(Int64Array::from(vec![Some(5), None, Some(-6)]))),
        ("string", Arc::new(StringArray::from(vec!["q\""]))),
        ("point", Arc::new(point)),
    ];
    // Numbers of types need not be in order, nor follow each other.
    let fields = UnionFields::try_new(
        [3, 0, 2, 9],
        members.each_ref().map(|(name, values)| Field::new(*name, values.data_type().clone(), true)),
    )
    .unwrap();
    let (types, offsets) = (vec![0, 3, 2, 0, 9, 0], vec![0, 0, 0, 1, 0, 2]);
    let children = members.iter().map(|(_, values)| Arc::clone(values)).collect();
    let dense = UnionArray::try_new(fields, types.into(), Some(offsets.into()), children).unwrap();
    let field = Arc::new(Field::new("item", dense.data_type().clone(), true));
    let list = ListArray::new(field, OffsetBuffer::from_lengths([2, 0, 1, 1, 2, 0]), Arc::new(dense.clone()), None);
    let batch = RecordBatch::try_from_iter([("u", Arc::new(dense) as ArrayRef), ("list", Arc::new(list))]).unwrap();
    assert_snapshot!(text(RowFormat::Jsonl, &[batch.slice(0, 1), batch.slice(1, 5)]), @r#"
    {"u":5,"list":[5,null]}
    {"u":null,"list":[]}
    {"u":"q\"","list":["q\""]}
    {"u":null,"list":[null]}
    {"u":{"x":"NaN"},"list":[{"x":"NaN"},-6]}
    {"u":-6,"list":[]}
    "#);
}

#[test]
fn json_of_integer_keyed_maps_has_keys_of_text() {
    let mut maps = MapBuilder::new(None, Int32Builder::new(), StringBuilder::new());
    maps.keys().append_slice(&[7, -1]);
    maps.values().append_value("a");
    maps.values().append_null();
    maps.append(true).unwrap();
    maps.append(false).unwrap();
    maps.append(true).unwrap();
    let batch = RecordBatch::try_from_iter([("m", Arc::new(maps.finish()) as ArrayRef)]).unwrap();
    assert_eq!(text(RowFormat::Jsonl, &[batch]), "{\"m\":{\"7\":\"a\",\"-1\":null}}\n{\"m\":null}\n{\"m\":{}}\n");
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
fn table_rows_are_printed_incrementally() {
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
fn csv_keeps_a_byte_order_mark_in_the_first_name() {
    let batch =
        |name: &str| RecordBatch::try_from_iter([(name, Arc::new(Int64Array::from(vec![1])) as ArrayRef)]).unwrap();
    assert_eq!(text(RowFormat::Csv, &[batch("\u{feff}a")]), "\u{feff}\u{feff}a\n1\n");
    assert_eq!(text(RowFormat::Csv, &[batch("a\u{feff}")]), "a\u{feff}\n1\n");
}

#[test]
fn an_empty_result_still_names_its_columns() {
    assert_eq!(text(RowFormat::Csv, &[]), "id,text,tags\n");
    assert_eq!(text(RowFormat::Json, &[]), "[]\n");
    assert_eq!(text(RowFormat::Jsonl, &[]), "");
    assert!(text(RowFormat::Markdown, &[]).starts_with("| id | text | tags |\n"));
    assert!(text(RowFormat::Table, &[]).contains("| id | text | tags |"));
}
