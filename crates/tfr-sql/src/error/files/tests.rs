use arrow::datatypes::DataType;

use super::*;

fn conflict(column: &str, sql: Option<&str>) -> ErrorKind {
    ErrorKind::SchemaConflict {
        column: column.to_owned(),
        first_file: "a".to_owned(),
        expected: DataType::Int64,
        file: "b".to_owned(),
        found: DataType::Utf8,
        declarable: sql.map(str::to_owned),
        part: None,
    }
}

#[test]
fn file_conflict_errors_have_hints() {
    let hints: Vec<_> = [
        conflict("x", Some("DOUBLE")),
        conflict("a b", Some("VARCHAR")),
        conflict("x", Some("DECIMAL(38, 0)")),
        conflict("x", Some("TIMESTAMP(6)")),
        conflict("x", None),
        ErrorKind::ColumnInPath { file: "a".to_owned(), column: "x".to_owned() },
        ErrorKind::Unfinished { directory: "out/".to_owned() },
        ErrorKind::FileName { file: "a\nb".to_owned() },
    ]
    .map(|kind| hint(&kind.into()).unwrap())
    .into();
    insta::assert_snapshot!(hints.join("\n"), @r#"
    give the column one type: --table 't=...,types=x DOUBLE'; a value that is not exact in it is an error
    give the column one type: --table 't=...,types=`a b` STRING', and CAST("a b" AS ...) in the query
    give the column one type: --table 't=...,"types=x DECIMAL(38, 0)"'; a value that is not exact in it is an error
    declare the columns, this one with a type for all files: CREATE EXTERNAL TABLE t ("x" TIMESTAMP(6), ...) STORED AS ... LOCATION '...'; a value that is not exact in it is an error
    register the files of each type as a table of their own, by a pattern, and join them with UNION ALL: SELECT CAST("x" AS ...) ...
    name each key=value directory as a location of its own to read the column of the file, or rename it in one of the two
    wait for the job to end, or write the files again; a pattern reads what is there: 'out/**/part-*'
    rename it, or read it from standard input: tfr-sql "SELECT * FROM '-'" <FILE
    "#);
}
