//! A table with a column of every kind that is nested, and the ways to write it.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Fields, Schema};
use arrow::json::ReaderBuilder;

use crate::came_back::Rules;

const WITHOUT_NULLS: &str = r#"
{"id": 1, "point": {"x": 1, "label": "a"}, "points": [{"x": 1, "tags": ["a", "b"]}, {"x": 2, "tags": []}],
 "scores": {"k": 0.5, "l": 1.5}, "grid": [[1, 2.5], []], "cube": [[[1], [2, 3]], []],
 "matrix": [[1, 2, 3], [4, 5, 6]], "pairs": [[1, 2], [3, 4]], "flags": [true, false], "dense": [[0.1, 2], [3, 4]]}
{"id": 2, "point": {"x": -1, "label": ""}, "points": [], "scores": {}, "grid": [], "cube": [[[]]],
 "matrix": [[0, 0, 0], [0, 0, 0]], "pairs": [], "flags": [], "dense": [[5, 6]]}"#;

const OUTSIDE_OF_LISTS: &str = r#"{"id": 3}"#;

const INSIDE_LISTS: &str = r#"
{"id": 4, "point": {}, "points": [null, {}, {"tags": [null, "c"]}], "scores": {"k": null}, "grid": [null, [null, 1]],
 "cube": [null, [null, [null, 9]]], "matrix": [null, [null, 1, 2]], "pairs": [null, [null, 1]],
 "flags": [null, true]}"#;

/// A table, how to write it, and a name for both.
pub struct Case {
    pub name: &'static str,
    pub table: RecordBatch,
    pub rules: Rules<'static>,
}

/// With and without nulls, masks, and feature lists. Lists of doubles are tensors in all of them.
pub fn cases() -> Vec<Case> {
    let rules = |masks, sequences| Rules { choices: [("dense", "tensor")].into(), masks, sequences };
    let flags = Some(&["flags"][..]);
    let case = |name, rows: &[&str], rules| Case { name, table: table(rows), rules };
    vec![
        case("kinds", &[WITHOUT_NULLS], rules(false, None)),
        case("kinds-nullable", &[WITHOUT_NULLS, OUTSIDE_OF_LISTS], rules(false, None)),
        case("kinds-masked", &[WITHOUT_NULLS, OUTSIDE_OF_LISTS, INSIDE_LISTS], rules(true, None)),
        case("steps", &[WITHOUT_NULLS], rules(false, flags)),
        case("steps-nullable", &[WITHOUT_NULLS, OUTSIDE_OF_LISTS], rules(false, flags)),
        case("steps-masked", &[WITHOUT_NULLS, OUTSIDE_OF_LISTS, INSIDE_LISTS], rules(true, flags)),
    ]
}

/// Nullable at every level, if any of it is null.
fn table(rows: &[&str]) -> RecordBatch {
    let nullable = rows.len() > 1;
    let item = |data_type| Arc::new(Field::new("item", data_type, nullable));
    let list = |data_type| DataType::List(item(data_type));
    let fixed = |data_type, len| DataType::FixedSizeList(item(data_type), len);
    let structs = |fields: [(&str, DataType); 2]| {
        let fields = fields.map(|(name, data_type)| Field::new(name, data_type, nullable));
        DataType::Struct(Fields::from_iter(fields))
    };
    let entries = [Field::new("keys", DataType::Utf8, false), Field::new("values", DataType::Float32, nullable)];
    let entries = Field::new("entries", DataType::Struct(Fields::from_iter(entries)), false);
    let columns = [
        ("point", structs([("x", DataType::Int32), ("label", DataType::Utf8)])),
        ("points", list(structs([("x", DataType::Int16), ("tags", list(DataType::Utf8))]))),
        ("scores", DataType::Map(Arc::new(entries), false)),
        ("grid", list(list(DataType::Float32))),
        ("cube", list(list(list(DataType::Int64)))),
        ("matrix", fixed(fixed(DataType::Float32, 3), 2)),
        ("pairs", list(fixed(DataType::Int16, 2))),
        ("flags", list(DataType::Boolean)),
        ("dense", list(list(DataType::Float64))),
    ];
    let mut fields = vec![Field::new("id", DataType::Int64, false)];
    fields.extend(columns.map(|(name, data_type)| Field::new(name, data_type, nullable)));
    let text = rows.concat();
    let mut reader = ReaderBuilder::new(Arc::new(Schema::new(fields))).build(text.as_bytes()).unwrap();
    reader.next().unwrap().unwrap()
}
