//! CSV files as written by other programs: lines before the header, short records, blanks, words for null, padded gzip.
//!
//! Expected values are those of DuckDB's `read_csv` (`skip`, `null_padding`) and of Python's `csv` and `gzip`.

use std::io::Write;

use datafusion::error::Result;

use crate::support::{chain, read, session, texts, write};

/// Writes `content` as `name` and reads it with `options`; returns the column names, then the rows.
async fn table(name: &str, content: &[u8], options: &str) -> Result<Vec<Vec<String>>> {
    let dir = tempfile::tempdir()?;
    write(dir.path(), &[(name, content)])?;
    let batches = read(&format!("\"{}\"{options}", dir.path().join(name).display())).await?;
    let header = batches
        .first()
        .map(|batch| batch.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>());
    Ok(header.into_iter().chain(texts(&batches)?).collect())
}

async fn refused(name: &str, content: &[u8], options: &str) -> String {
    let message = chain(&table(name, content, options).await.expect_err("refused"));
    let start = message.find(name).unwrap_or_default();
    message[start..].to_owned()
}

const BANK: &[u8] = b"\"Account Name : REDACTED\"\r\n\"Range : 01/01-12/31\"\r\n\r\nDate,Debit\r\n2023-01-01,100.0\r\n";

#[tokio::test]
async fn lines_before_the_header_are_skipped() -> Result<()> {
    let expected = [["Date", "Debit"], ["2023-01-01", "100.0"]];
    assert_eq!(table("t.csv", BANK, ",skip_lines=3").await?, expected);
    // A line without a record before the header is always skipped.
    assert_eq!(table("t.csv", BANK, ",skip_lines=2").await?, expected);
    assert_eq!(table("t.csv", BANK, ",skip_lines=4,header=false").await?[1..], expected[1..]);
    assert_eq!(table("t.csv", BANK, ",skip_lines=3,newlines_in_values=false").await?, expected);
    let utf16: Vec<u8> =
        [0xfeff].into_iter().chain("x\na,b\n1,2\n".encode_utf16()).flat_map(u16::to_le_bytes).collect();
    assert_eq!(table("t.csv", &utf16, ",skip_lines=1,encoding=utf-16").await?, [["a", "b"], ["1", "2"]]);
    // Lines are counted from the start of the file.
    let message = refused("t.csv", &[BANK, b"2023-01-02,1,2\n"].concat(), ",skip_lines=3").await;
    assert_eq!(message, "t.csv: line 6: expected 2 cells, found 3");
    assert_eq!(refused("t.csv", b"a\n", ",skip_lines=9").await, "t.csv: no columns: the file contains no record");
    assert_eq!(refused("t.csv", BANK, "").await, "t.csv: line 4: expected 1 cells, found 2");
    Ok(())
}

#[tokio::test]
async fn csv_sep_line_sets_the_delimiter() -> Result<()> {
    let expected = [["a", "b"], ["1", "x,y"]];
    assert_eq!(table("t.csv", b"sep=;\r\na;b\r\n1;x,y\r\n", "").await?, expected);
    assert_eq!(table("t.csv", b"\xef\xbb\xbf\"sep=|\"\na|b\n1|x,y\n", "").await?, expected);
    assert_eq!(table("t.csv", b"sep=,\na;b\n1;x,y\n", ",delimiter=;").await?, expected);
    assert_eq!(table("t.csv", b"sep=;\nnote\na;b\n1;x,y\n", ",skip_lines=2").await?, expected);
    assert_eq!(table("t.csv", b"sep=;;\n1\n", "").await?, [["sep=;;"], ["1"]]);
    // If a file is read in parts, all parts use the delimiter.
    let rows: String = (0..200_000).map(|row| format!("{row};x,{row}\n")).collect();
    for header in [true, false] {
        let dir = tempfile::tempdir()?;
        let head = if header { "sep=;\nn;s\n" } else { "sep=;\n" };
        write(dir.path(), &[("t.csv", format!("{head}{rows}").as_bytes())])?;
        let ctx = session(4);
        let spec = format!("t={},newlines_in_values=false,header={header}", dir.path().join("t.csv").display());
        let opened = tfr_formats::open_table(&ctx.state(), &spec.parse()?).await?;
        ctx.register_table("t", opened)?;
        let (n, s) = if header { ("n", "s") } else { ("column_1", "column_2") };
        let query = format!("SELECT count(*), sum({n}), count(DISTINCT {s}) FROM t");
        let found = texts(&ctx.sql(&query).await?.collect().await?)?;
        assert_eq!(found, [["200000", "19999900000", "200000"]]);
    }
    Ok(())
}

#[tokio::test]
async fn cells_that_records_lack_are_null() -> Result<()> {
    let text = b"a,b,c\n1,x,y\n2\n3,\"\"\n\n4,,z\n";
    let found = table("t.csv", text, ",short_rows=null").await?;
    assert_eq!(found[1..], [["1", "x", "y"], ["2", "NULL", "NULL"], ["3", "", "NULL"], ["4", "NULL", "z"]]);
    // They are null even if an empty cell is a text.
    let found = table("t.csv", text, ",short_rows=null,null=NA").await?;
    assert_eq!(found[1..], [["1", "x", "y"], ["2", "NULL", "NULL"], ["3", "", "NULL"], ["4", "", "z"]]);
    assert_eq!(refused("t.csv", text, "").await, "t.csv: line 3: expected 3 cells, found 1");
    let long = refused("t.csv", b"a,b\n1,2,3\n", ",short_rows=null").await;
    assert_eq!(long, "t.csv: line 2: expected 2 cells, found 3");
    // Over many batches and types.
    let rows: String =
        (0..20_000).map(|row| if row % 3 == 0 { format!("{row}\n") } else { format!("{row},1.5\n") }).collect();
    let found = table("t.csv", format!("n,x\n{rows}").as_bytes(), ",short_rows=null").await?;
    assert!(found[1..].iter().enumerate().all(|(row, cells)| (cells[1] == "NULL") == (row % 3 == 0)));
    Ok(())
}

#[tokio::test]
async fn csv_trim_option_removes_blanks_around_cells() -> Result<()> {
    let text = b"a , b\n 1,\" x, \" \n2 ,\ty z\n";
    assert_eq!(table("t.csv", text, ",trim=true").await?, [["a", "b"], ["1", " x, "], ["2", "y z"]]);
    // Without it they are text, and a blank before a quote makes the quoted cell text, too.
    assert_eq!(table("t.csv", b"a, b\n1, x\n", "").await?, [["a", " b"], ["1", " x"]]);
    assert_eq!(table("t.tsv", b"a \t b\n 1\t\n", ",trim=true").await?, [["a", "b"], ["1", "NULL"]]);
    Ok(())
}

#[tokio::test]
async fn csv_record_limit_stops_at_an_unclosed_quote() -> Result<()> {
    let rows = "1,x\n".repeat(30_000);
    let text = format!("a,b\n2,\"y\n{rows}");
    let message = refused("t.csv", text.as_bytes(), ",record_limit=64KiB").await;
    assert_eq!(message, "t.csv: line 2: the record is longer than 65536 bytes, as if a quote did not end");
    let message = refused("t.csv", text.as_bytes(), "").await;
    assert_eq!(message, "t.csv: line 2: a quoted cell does not end");
    let long = format!("a,b\n1,\"{}\"\n", "x".repeat(100_000));
    assert_eq!(table("t.csv", long.as_bytes(), ",record_limit=128KiB").await?[1][1].len(), 100_000);
    for wrong in ["0", "257MiB", "1GiB", "x"] {
        assert!(table("t.csv", b"a\n", &format!(",record_limit={wrong}")).await.is_err(), "{wrong}");
    }
    Ok(())
}

#[tokio::test]
async fn gzip_files_that_are_padded_with_zeros_are_whole() -> Result<()> {
    let gzip = |text: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text).and_then(|()| encoder.finish())
    };
    let padded = [gzip(b"a,b\n1,2\n")?, vec![0; 5000], gzip(b"3,4\n")?, vec![0; 3]].concat();
    assert_eq!(table("t.csv.gz", &padded, "").await?, [["a", "b"], ["1", "2"], ["3", "4"]]);
    assert!(refused("t.csv.gz", &[padded, b"x".to_vec()].concat(), "").await.contains("t.csv.gz: cannot be read"));
    Ok(())
}

#[tokio::test]
async fn csv_rejects_binary_files() -> Result<()> {
    let expected = "reading bytes that are not text, with a zero among them, is not supported";
    let binary: Vec<u8> = (0..=255).collect();
    for (name, content) in [("nameless", &binary), ("t.bin", &binary), ("t.csv", &b"a,b\n1,\0\n".to_vec())] {
        assert_eq!(refused(name, content, "").await, format!("{name}: {expected}"));
    }
    // A type specified as text is accepted.
    assert_eq!(table("t", b"a,b\n1,\0\n", ",format=csv").await?, [["a", "b"], ["1", "\0"]]);
    let utf16: Vec<u8> = "a,b\n1,2\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(refused("t.csv", &utf16, "").await, format!("t.csv: {expected}"));
    assert_eq!(table("t.csv", &utf16, ",encoding=utf-16le").await?, [["a", "b"], ["1", "2"]]);
    Ok(())
}

#[tokio::test]
async fn hadoops_codecs_are_read_or_named() -> Result<()> {
    let zlib = |text: &[u8]| {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text).and_then(|()| encoder.finish())
    };
    assert_eq!(table("000000_0.deflate", &zlib(b"1\x01x\n2\x01\\N\n")?, "").await?[1..], [["1", "x"], ["2", "NULL"]]);
    assert_eq!(table("t.csv.deflate", &zlib(b"a,b\n1,2\n")?, "").await?, [["a", "b"], ["1", "2"]]);
    assert_eq!(table("t", &zlib(b"{\"a\": 1}\n")?, "").await?, [["a"], ["1"]]);
    assert_eq!(table("t.csv", &zlib(b"a\n1\n")?, ",compression=zlib").await?, [["a"], ["1"]]);
    let cut = zlib(&b"1\x01x\n".repeat(100))?;
    assert!(refused("000000_0.deflate", &cut[..cut.len() - 4], ",format=hive-text").await.contains("cannot be read"));
    // The length of a block, with which Hadoop's codecs begin, and magic numbers of others.
    let block: &[u8] = b"\0\0\0\x08\0\0\0\x0a\x08\x1c1,a\n2,b\n";
    for (name, content, codec) in [
        ("000000_0.snappy", block, "snappy"),
        ("t.csv.lz4", block, "LZ4"),
        ("t.lzo_deflate", block, "LZO"),
        ("nameless", b"\x04\x22\x4d\x18rest", "LZ4"),
        ("nameless", b"\x89LZO\0\r\n\x1a\nrest", "LZO"),
    ] {
        let expected = format!("{name}: reading text compressed with {codec} is not supported");
        assert_eq!(refused(name, content, "").await, expected);
    }
    assert_eq!(
        refused("000000_0.snappy", block, ",format=hive-text").await,
        "000000_0.snappy: reading text compressed with snappy is not supported"
    );
    // The name alone is not sufficient.
    assert_eq!(table("t.snappy", b"a\n1\n", "").await?, [["a"], ["1"]]);
    Ok(())
}

/// MultiDelimitSerDe: the last column takes the rest of the line, and an escape has no effect on a delimiter.
#[tokio::test]
async fn delimiters_may_have_several_characters() -> Result<()> {
    let schema = "\"schema=id INT, s STRING, tags ARRAY<STRING>\"";
    let text = b"1||a|b||x,y\n2||\\N||\n3||c||z||w\n4\n";
    let found =
        table("t", text, &format!(",format=hive-text,delimiter=||,\"collection_delimiter=,\",{schema}")).await?;
    assert_eq!(found[1..], [["1", "a|b", "[x, y]"], ["2", "NULL", "[]"], ["3", "c", "[z]"], ["4", "NULL", "NULL"]]);
    let found = table("t.txt", b"1@#@x\n2@#@\n", ",delimiter=@#@").await?;
    assert_eq!(found, [["_col0", "_col1"], ["1", "x"], ["2", ""]]);
    let message = refused("t.csv", b"a||b\n", ",delimiter=||").await;
    assert_eq!(message, "t.csv: option \"delimiter\" is for Hive text, but this is CSV");
    Ok(())
}

#[tokio::test]
async fn a_declared_table_of_empty_files_has_no_rows() -> Result<()> {
    let dir = tempfile::tempdir()?;
    write(dir.path(), &[("t/part-0.csv", b""), ("t/_SUCCESS", b""), ("t/.x.crc", b"x")])?;
    write(dir.path(), &[("p/dt=1/000000_0", b""), ("void/_SUCCESS", b"")])?;
    let path = |name: &str| dir.path().join(name).display().to_string();
    for format in ["CSV", "PARQUET", "TEXTFILE", "TFRECORD"] {
        let ctx = session(2);
        let create =
            format!("CREATE EXTERNAL TABLE t (a BIGINT, b VARCHAR) STORED AS {format} LOCATION '{}'", path("t"));
        ctx.sql(&create).await?;
        let found = texts(&ctx.sql("SELECT count(*), count(a), max(b) FROM t").await?.collect().await?)?;
        assert_eq!(found, [["0", "0", "NULL"]], "{format}");
    }
    let ctx = session(2);
    let create = "CREATE EXTERNAL TABLE t (a BIGINT, dt INT) STORED AS TEXTFILE PARTITIONED BY (dt) LOCATION";
    ctx.sql(&format!("{create} '{}'", path("p"))).await?;
    let found = texts(&ctx.sql("SELECT dt, a FROM t WHERE dt = 1").await?.collect().await?)?;
    assert_eq!(found, Vec::<Vec<String>>::new());
    // Without a declaration there are no columns, and if there is no file there may have been none to write.
    assert!(read(&path("t")).await.is_err());
    let create = format!("CREATE EXTERNAL TABLE u (a BIGINT) STORED AS CSV LOCATION '{}'", path("void"));
    assert!(session(1).sql(&create).await.is_err());
    Ok(())
}
