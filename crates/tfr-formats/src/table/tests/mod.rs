//! Tables whose columns are found by ids, in Parquet, ORC and Avro.

mod rows;
mod support;
mod types;

use std::path::Path;

use arrow_schema::DataType;
use datafusion_common::{Result, ScalarValue};

use support::{Column, FILES, MICROS, instant, rows};

fn all() -> Vec<Column> {
    use DataType::{Binary, Date32, Decimal128, Int32, Int64, Utf8};
    vec![
        Column::new("id", 1, Int64),
        Column::new("n2", 2, Utf8),
        Column::new("amt", 3, Decimal128(11, 2)),
        Column::new("ts", 4, instant()),
        Column::new("tn", 5, MICROS),
        Column::new("d", 6, Date32),
        Column::new("bin", 7, Binary),
        Column::list("l", 8, Column::new("element", 11, Int64)),
        Column::structure("s", 9, vec![Column::new("a", 12, Int32), Column::new("b", 13, Utf8)]),
        Column::map("m", 10, Column::new("key", 14, Utf8), Column::new("value", 15, Int64)),
        Column::new("late", 16, Int32),
    ]
}

#[tokio::test]
async fn table_files_of_orc_and_avro_have_the_rows_of_spark() -> Result<()> {
    let expected = [
        "0 | Zoë | -5000.00 | 2023-11-14T22:13:20.123456Z | 2020-09-13T12:26:40.000001 | \
         2024-02-28 | 00ff00 | [0, NULL, -1] | {a: 0, b: NULL} | {k0: 0, ß: NULL} | NULL",
        "1 | naïve café | -3765.43 | NULL | 2020-09-14T12:26:40.000001 | \
         2024-02-29 | NULL | [1, NULL, -1] | {a: 1, b: s1} | {k1: 1, ß: NULL} | NULL",
        "2 | 東京 | NULL | 2023-11-15T00:13:20.123458Z | NULL | \
         2024-03-01 |  | NULL | {a: 2, b: NULL} | {k2: 2, ß: NULL} | NULL",
        "3 | NULL | -1296.29 | 2023-11-15T01:13:20.123459Z | 2020-09-16T12:26:40.000001 | \
         2024-03-02 | 00ff03 | [3, NULL, -1] | {a: 3, b: s3} | NULL | NULL",
        "4 | plain | -61.72 | 2023-11-15T02:13:20.123460Z | 2020-09-17T12:26:40.000001 | \
         NULL | 00ff04 | [] | {a: 4, b: NULL} | {k4: 4, ß: NULL} | NULL",
        "5 | fish 🐟 | 1172.85 | 2023-11-15T03:13:20.123461Z | 2020-09-18T12:26:40.000001 | \
         2024-03-04 | 00ff05 | [5, NULL, -1] | NULL | {k5: 5, ß: NULL} | 7",
        "6 | tab\tand \\ and \" | NULL | 2023-11-15T04:13:20.123462Z | 2020-09-19T12:26:40.000001 | \
         2024-03-05 | NULL | [6, NULL, -1] | {a: 6, b: NULL} | {k6: 6, ß: NULL} | 7",
    ];
    let orc = rows(Path::new(FILES), &["orc-1.orc", "orc-2.orc"], &all()).await?;
    let avro = rows(Path::new(FILES), &["avro-1.avro", "avro-2.avro"], &all()).await?;
    assert_eq!(orc, expected);
    assert_eq!(avro, expected);
    Ok(())
}

fn with_defaults(is_orc: bool) -> Vec<Column> {
    use DataType::{Boolean, Date32, Decimal128, Float64, Int32, Int64, Utf8};
    let text = |text: &str| ScalarValue::Utf8(Some(text.to_owned()));
    let mut columns =
        vec![Column::new("id", 1, Int64), Column::new("name", 2, Utf8), Column::new("amt", 3, Decimal128(9, 2))];
    if is_orc {
        columns.push(Column::new("str", 4, Utf8).or(text("défaut")));
        columns.push(Column::new("dec", 5, Decimal128(9, 2)).or(ScalarValue::Decimal128(Some(125), 9, 2)));
        columns.push(Column::new("d", 6, Date32).or(ScalarValue::Date32(Some(19782))));
        return columns;
    }
    let z = Column::new("z", 15, Utf8).or(text("inner"));
    columns.push(Column::structure("s", 4, vec![Column::new("a", 5, Int32), z]));
    columns.push(Column::new("str", 6, Utf8).or(text("défaut")));
    columns.push(Column::new("i", 7, Int32).or(ScalarValue::Int32(Some(7))));
    columns.push(Column::new("b", 13, Boolean).or(ScalarValue::Boolean(Some(true))));
    columns.push(Column::new("dbl", 14, Float64).or(ScalarValue::Float64(Some(0.5))));
    columns
}

/// Explicit nulls stay, and a null struct has no default.
#[tokio::test]
async fn table_files_without_a_column_have_its_default() -> Result<()> {
    let files = ["defaults-1.parquet", "defaults-2.parquet"];
    let parquet = rows(Path::new(FILES), &files, &with_defaults(false)).await?;
    assert_eq!(
        parquet,
        [
            "0 | Zoë | -5000.00 | {a: 0, z: inner} | défaut | 7 | true | 0.5",
            "1 | naïve café | -3765.43 | NULL | défaut | 7 | true | 0.5",
            "2 | 東京 | NULL | {a: 2, z: inner} | défaut | 7 | true | 0.5",
            "9 | n | 9.50 | {a: 1, z: NULL} | NULL | NULL | NULL | NULL",
        ]
    );
    let orc = rows(Path::new(FILES), &["defaults-1.orc", "defaults-2.orc"], &with_defaults(true)).await?;
    assert_eq!(
        orc,
        [
            "0 | Zoë | -5000.00 | défaut | 1.25 | 2024-02-29",
            "1 | naïve café | -3765.43 | défaut | 1.25 | 2024-02-29",
            "2 | 東京 | NULL | défaut | 1.25 | 2024-02-29",
            "9 | NULL | NULL | NULL | NULL | NULL",
        ]
    );
    Ok(())
}

/// Fields were renamed, widened, dropped and added again in structs, lists and maps.
#[tokio::test]
async fn table_files_have_parts_by_ids() -> Result<()> {
    use DataType::{Date32, Float64, Int32, Int64, Utf8};
    let c = Column::structure("c", 8, vec![Column::new("x", 9, Int32), Column::new("y", 16, Date32)]);
    let element = Column::structure("element", 10, vec![Column::new("p", 11, Int64), Column::new("q", 17, Utf8)]);
    let value = Column::structure("value", 14, vec![Column::new("v", 15, Float64), Column::new("w", 18, Utf8)]);
    let wanted = [
        Column::new("id", 1, Int64),
        Column::structure("s", 2, vec![Column::new("a", 6, Int64), Column::new("bb", 7, Utf8), c]),
        Column::list("l", 3, element),
        Column::map("m", 4, Column::new("key", 13, Utf8), value),
    ];
    assert_eq!(
        rows(Path::new(FILES), &["nested-1.parquet", "nested-2.parquet"], &wanted).await?,
        [
            "0 | {a: 0, bb: b, c: {x: 1, y: NULL}} | [{p: 1, q: NULL}] | {k: {v: 0.10000000149011612, w: NULL}}",
            "1 | {a: 1, bb: b, c: NULL} | [{p: 1, q: NULL}] | {k: {v: 0.10000000149011612, w: NULL}}",
            "2 | {a: 2, bb: b, c: {x: 1, y: NULL}} | [{p: 1, q: NULL}] | {k: {v: 0.10000000149011612, w: NULL}}",
            "9 | {a: 99999999999, bb: n, c: {x: 2, y: 2024-01-01}} | [{p: 9, q: new}] | {k2: {v: 0.1, w: w}}",
        ]
    );
    Ok(())
}

/// `n2` was called `name` when the files without ids were added, and `name` is a newer column.
#[tokio::test]
async fn table_files_without_ids_are_read_by_names() -> Result<()> {
    let wanted = [
        Column::new("id", 1, DataType::Int64).named(&["id"]),
        Column::new("n2", 3, DataType::Utf8).named(&["n2"]),
        Column::new("name", 5, DataType::Utf8).named(&["name"]),
    ];
    let found = rows(Path::new(FILES), &["added-1.parquet", "added-2.parquet"], &wanted).await?;
    assert_eq!(found, ["9 | n2 | name", "0 | NULL | n0", "2 | NULL | n2"]);
    let other = wanted[..1].iter().cloned().chain([wanted[1].clone().named(&["n2", "name"])]).collect::<Vec<_>>();
    let found = rows(Path::new(FILES), &["added-1.parquet", "added-2.parquet"], &other).await?;
    assert_eq!(found, ["9 | n2", "0 | n0", "2 | n2"]);
    Ok(())
}

/// A struct whose fields are all newer than the files is NULL where theirs is.
#[tokio::test]
async fn table_files_have_structs_with_none_of_their_fields() -> Result<()> {
    let seven = ScalarValue::Int32(Some(7));
    let fields = vec![Column::new("x", 98, DataType::Utf8), Column::new("y", 99, DataType::Int32).or(seven)];
    let wanted = [Column::new("id", 1, DataType::Int64), Column::structure("s", 9, fields)];
    let value = "{x: NULL, y: 7}";
    let expected = [0, 1, 2, 3, 4, 5, 6].map(|id| format!("{id} | {}", if id == 5 { "NULL" } else { value }));
    assert_eq!(rows(Path::new(FILES), &["orc-1.orc", "orc-2.orc"], &wanted).await?, expected);
    assert_eq!(rows(Path::new(FILES), &["avro-1.avro", "avro-2.avro"], &wanted).await?, expected);
    Ok(())
}
