use super::*;

fn cell(expected: DataType, cell: &str, declared: bool) -> ErrorKind {
    let within = Within::Line(Line { number: 2, after_byte: None });
    ErrorKind::Cell { place: place(within), expected, cell: cell.to_owned(), declared }
}

fn place(within: Within) -> FilePlace {
    FilePlace { file: "t".to_owned(), within, column: Some("x".to_owned()) }
}

#[test]
fn input_value_errors_have_hints() {
    let file = || "t".to_owned();
    let unfit = ErrorKind::Unfit { place: place(Within::Row { row: 1, after_byte: None }), reason: file() };
    let hints: Vec<_> = [
        cell(DataType::Int32, "3000000000", true),
        cell(DataType::Int32, "3000000000", false),
        cell(DataType::Float64, "9007199254740993", true),
        cell(DataType::Float64, "1e400", true),
        unfit,
        ErrorKind::UnsupportedFormat { file: "a.xls".to_owned(), format: UnsupportedFormat::Named("Excel workbooks") },
        ErrorKind::UnsupportedFormat { file: file(), format: UnsupportedFormat::CompressedText("LZ4") },
        ErrorKind::UnsupportedFormat { file: file(), format: UnsupportedFormat::CompressedRecords("LZ4") },
        ErrorKind::Misnamed {
            file: file(),
            named: "Parquet",
            found: "bzip2-compressed".to_owned(),
            is_compressed: true,
        },
    ]
    .map(|kind| hint(&kind.into()).unwrap())
    .into();
    insta::assert_snapshot!(hints.join("\n"), @r#"
    declare "x" with a type that can represent every cell exactly, or as VARCHAR and CAST it in the query
    types are inferred from the first rows: read every column as text with types=string and CAST "x" in the query, or read more rows with infer_rows=all
    Float64 cannot represent this number: declare "x" as BIGINT or DECIMAL(38, 0), or as VARCHAR and CAST it in the query
    declare "x" with a type that can represent every cell exactly, or as VARCHAR and CAST it in the query
    give "x" a type that holds all values of the files, in the columns of CREATE EXTERNAL TABLE or with the option types; STRING holds numbers and times, for a CAST in the query
    convert it: python3 -c "import pandas; pandas.read_excel('a.xls').to_parquet('out.parquet')", or save the sheet as CSV
    unpack it, or write it with gzip, bzip2, xz, zstd or deflate
    unpack it, or write it with gzip or deflate, the compressions of TFRecord
    unpack it: Parquet files have their own compression, and are not read from another
    "#);
}
