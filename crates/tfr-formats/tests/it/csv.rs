//! CSV files in every dialect.

use std::io::Write;

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::error::Result;

use crate::support::{chain, read, row_count, rows, texts, write};

/// Writes `content` as `name` and reads it with `options`.
async fn table(name: &str, content: &[u8], options: &str) -> Result<Vec<Vec<String>>> {
    let dir = tempfile::tempdir()?;
    write(dir.path(), &[(name, content)])?;
    let batches = read(&format!("\"{}\"{options}", dir.path().join(name).display())).await?;
    let header = batches
        .first()
        .map(|batch| batch.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>());
    Ok(header.into_iter().chain(texts(&batches)?).collect())
}

/// Returns the error's message, without the scratch directory.
async fn refused(name: &str, content: &[u8], options: &str) -> String {
    let message = chain(&table(name, content, options).await.expect_err("refused"));
    let start = message.find(name).unwrap_or_default();
    message[start..].to_owned()
}

#[tokio::test]
async fn csv_reads_dialects() -> Result<()> {
    let expected = [["a", "b"], ["1", "x,y"]];
    assert_eq!(table("t.csv", b"a,b\n1,\"x,y\"\n", "").await?, expected);
    assert_eq!(table("t", b"a,b\r\n1,\"x,y\"", "").await?, expected);
    assert_eq!(table("t.csv", b"a,b\r1,\"x,y\"\r", "").await?, expected);
    assert_eq!(table("t.tsv", b"a\tb\n1\tx,y\n", "").await?, expected);
    assert_eq!(table("t.txt", b"a\tb\n1\tx,y\n", ",format=tsv").await?, expected);
    assert_eq!(table("t.txt", b"a;b\n1;'x,y'\n", ",delimiter=;,quote='").await?, expected);
    assert_eq!(table("t.csv", b"# first\na,b\n#x\n1,\"x,y\"\n#", ",comment=#").await?, expected);
    assert_eq!(table("t.csv", b"a|b~1|x,y~", ",delimiter=|,terminator=~").await?, expected);
    assert_eq!(table("t.csv", b"a,b\n1,\"x\\\"y\"\n", ",escape=\\").await?[1], ["1", "x\"y"]);
    assert_eq!(table("t.csv", b"a,b\n1,\"x\n", ",quote=none").await?[1], ["1", "\"x"]);
    assert_eq!(table("t.csv", b"a,b\n1,\"p\"q\n", "").await?[1], ["1", "pq"]);
    assert_eq!(table("t", b"1\x01x\n", ",delimiter=\\x01,header=false").await?, [["column_1", "column_2"], ["1", "x"]]);
    Ok(())
}

#[tokio::test]
async fn the_last_line_may_have_no_end() -> Result<()> {
    assert_eq!(table("t.csv", b"a,b\r\n1,2\r\n3,4", "").await?, [["a", "b"], ["1", "2"], ["3", "4"]]);
    let found = table("t.csv", b"id,day,n\n1,,\n12,2020-01-02,7", "").await?;
    assert_eq!(found[1..], [["1", "NULL", "NULL"], ["12", "2020-01-02", "7"]]);
    for rows in 1..40 {
        let text: Vec<_> = (0..rows).map(|row| format!("{row},2020-01-02,{}", "x".repeat(row))).collect();
        let text = format!("n,day,s\n{}", text.join("\n"));
        let (whole, cut) = (format!("{text}\n"), text);
        let dir = tempfile::tempdir()?;
        write(dir.path(), &[("whole.csv", whole.as_bytes()), ("cut.csv", cut.as_bytes())])?;
        let [whole, cut] = ["whole.csv", "cut.csv"].map(|name| dir.path().join(name).display().to_string());
        let (whole, cut) = (read(&whole).await?, read(&cut).await?);
        assert_eq!(cut[0].schema(), whole[0].schema());
        assert_eq!(texts(&cut)?, texts(&whole)?, "{rows} rows");
    }
    Ok(())
}

/// Inference also examines rows that span two decompressed pieces.
#[tokio::test]
async fn long_rows_of_compressed_files() -> Result<()> {
    let rows: Vec<_> = (0..200).map(|row| format!("{row},{},2020-01-02\n", "wide ".repeat(3000 + row))).collect();
    let text = format!("n,s,day\n{}", rows.concat());
    let dir = tempfile::tempdir()?;
    write(dir.path(), &[("plain.csv", text.as_bytes()), ("packed.csv.gz", &gzip(text.as_bytes())?)])?;
    let [plain, packed] = ["plain.csv", "packed.csv.gz"].map(|name| dir.path().join(name).display().to_string());
    let (plain, packed) = (read(&plain).await?, read(&packed).await?);
    assert_eq!(packed[0].schema(), plain[0].schema());
    assert_eq!(*plain[0].schema().field(2).data_type(), DataType::Date32);
    assert_eq!(texts(&packed)?, texts(&plain)?);
    Ok(())
}

#[tokio::test]
async fn csv_header_excludes_the_byte_order_mark() -> Result<()> {
    assert_eq!(table("t.csv", b"\xef\xbb\xbfa,b\n1,2\n", "").await?, [["a", "b"], ["1", "2"]]);
    assert_eq!(table("t.csv", b"\xef\xbb\xbf\"a\",b\n1,2\n", "").await?, [["a", "b"], ["1", "2"]]);
    Ok(())
}

#[tokio::test]
async fn encodings() -> Result<()> {
    let text = "a,b\n1,é🦀\n";
    let expected = [["a", "b"], ["1", "é🦀"]];
    let utf16: Vec<u8> = [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    assert_eq!(table("t.csv", &utf16, ",encoding=utf-16").await?, expected);
    assert_eq!(table("t.csv", b"a,b\n1,\xe9\n", ",encoding=latin1").await?[1], ["1", "é"]);
    assert_eq!(refused("t.csv", b"a,b\n1,2\n3,\xe9\n", "").await, "t.csv: line 3, cell 2: not UTF-8");
    assert_eq!(
        refused("t.csv", &utf16, "").await,
        "t.csv: the file starts with the byte order mark of UTF-16: not UTF-8"
    );
    for (encoding, bytes, text) in [
        ("windows-1252", &b"a,b\n1,\x80\xe9\n"[..], "€é"),
        ("shift_jis", b"a,b\n1,\x93\xfa\x96\x7b\n", "日本"),
        ("GBK", b"a,b\n1,\xd6\xd0\n", "中"),
        ("koi8-r", b"a,b\n1,\xf0\xd2\n", "Пр"),
    ] {
        assert_eq!(table("t.csv", bytes, &format!(",encoding={encoding}")).await?[1], ["1", text]);
    }
    let message = refused("t.csv", b"a,b\n1,\xd6\n", ",encoding=gbk").await;
    assert_eq!(message, "t.csv: after byte 0: not GBK");
    let message = chain(&table("t.csv", b"", ",encoding=klingon").await.expect_err("refused"));
    assert!(message.contains("option encoding=\"klingon\": expected utf-8, utf-16, "), "{message}");
    Ok(())
}

/// A byte order mark and a quote resemble the length of a message and the root of a FlatBuffer.
#[tokio::test]
async fn csv_in_utf32_is_not_mistaken_for_arrow() -> Result<()> {
    for name in ["t.csv", "t"] {
        for rows in [1, 4000] {
            let text = format!("\u{feff}\"a\",b\n{}", "1,é\n".repeat(rows));
            for (encoding, bytes) in
                [("utf-32", u32::to_le_bytes as fn(u32) -> [u8; 4]), ("utf-32be", u32::to_be_bytes)]
            {
                let text: Vec<u8> = text.chars().flat_map(|c| bytes(c.into())).collect();
                for options in [format!(",encoding={encoding}"), format!(",format=csv,encoding={encoding}")] {
                    let found = table(name, &text, &options).await?;
                    assert_eq!(found[..2], [["a", "b"], ["1", "é"]], "{name}{options}");
                    assert_eq!(found.len(), rows + 1, "{name}{options}");
                }
            }
        }
    }
    Ok(())
}

/// The fix that errors suggest: text first, then a cast.
#[tokio::test]
async fn text_of_blank_cells_can_be_cast() -> Result<()> {
    let dir = tempfile::tempdir()?;
    write(dir.path(), &[("t.csv", b"a,b\n1,\n,x\n")])?;
    let ctx = crate::support::session(1);
    let spec = format!("t={},types=string", dir.path().join("t.csv").display()).parse()?;
    ctx.register_table("t", tfr_formats::open_table(&ctx.state(), &spec).await?)?;
    let found = ctx.sql("SELECT CAST(a AS INT) AS a, b FROM t").await?.collect().await?;
    assert_eq!(texts(&found)?, [["1", "NULL"], ["NULL", "x"]]);
    Ok(())
}

#[tokio::test]
async fn csv_null_option_defines_null_cells() -> Result<()> {
    let text = b"i,s\n1,NA\n,\nNA,x\n";
    assert_eq!(table("t.csv", text, ",null=NA").await?[1..], [["1", "NULL"], ["NULL", ""], ["NULL", "x"]]);
    assert_eq!(table("t.csv", text, "").await?[1..], [["1", "NA"], ["NULL", "NULL"], ["NA", "x"]]);
    assert_eq!(table("t.csv", text, ",null=NA,null=x").await?[3], ["NULL", "NULL"]);
    assert_eq!(table("t.csv", text, ",types=string").await?[1..], [["1", "NA"], ["NULL", "NULL"], ["NA", "x"]]);
    assert_eq!(table("t.csv", text, ",types=string,null=NA").await?[1..], [["1", "NULL"], ["", ""], ["NULL", "x"]]);
    assert_eq!(table("t.csv", b"a,b\n\"\",1\n", ",types=string").await?[1], ["", "1"]);
    assert_eq!(table("t.csv", b"a,b\n\\N,1\n", ",null=\\N").await?[1], ["NULL", "1"]);
    Ok(())
}

#[tokio::test]
async fn csv_quoted_empty_text_is_not_null() -> Result<()> {
    let text = b"s,n,t\n\"\",\"\",x\n,,\n\"\"\"\",1,\"\"\n";
    let expected = [["", "NULL", "x"], ["NULL", "NULL", "NULL"], ["\"", "1", ""]];
    assert_eq!(table("t.csv", text, "").await?[1..], expected);
    assert_eq!(table("t.csv", text, ",null=").await?[1..], expected);
    assert_eq!(table("t.csv", text, ",null=x").await?[1..], [["", "NULL", "NULL"], ["", "NULL", ""], ["\"", "1", ""]]);
    assert_eq!(table("t.csv", b"s\n\n\"\"\n\nx\n", "").await?[1..], [["NULL"], [""], ["NULL"], ["x"]]);
    assert_eq!(table("t.csv", b"s;t\n'';\n", ",delimiter=;,quote='").await?[1], ["", "NULL"]);
    assert_eq!(table("t.csv", b"s,t\n\"\",\n", ",quote=none").await?[1], ["\"\"", "NULL"]);
    Ok(())
}

#[tokio::test]
async fn csv_inference_loses_no_value() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("t.csv");
    std::fs::write(
        &path,
        "bool,int,float,date,time,zoned,nanos,id,mixed,none\n\
         true,1,1.5,2024-02-29,2024-02-29 01:02:03,2024-02-29T01:02:03+01:00,2024-02-29 00:00:00.123456789,007,1,\n\
         FALSE,-2,3,9999-12-31,9999-12-31 23:59:59.5,2024-02-29T01:02:03Z,2024-02-29 00:00:00,1,x,\n",
    )?;
    let batches = read(&path.display().to_string()).await?;
    let schema = batches[0].schema();
    let types: Vec<_> = schema.fields().iter().map(|field| field.data_type().clone()).collect();
    assert_eq!(
        types,
        [
            DataType::Boolean,
            DataType::Int64,
            DataType::Float64,
            DataType::Date32,
            DataType::Timestamp(TimeUnit::Microsecond, None),
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            DataType::Timestamp(TimeUnit::Nanosecond, None),
            DataType::Utf8,
            DataType::Utf8,
            DataType::Utf8,
        ]
    );
    assert_eq!(
        texts(&batches)?[0],
        [
            "true",
            "1",
            "1.5",
            "2024-02-29",
            "2024-02-29T01:02:03",
            "2024-02-29T00:02:03Z",
            "2024-02-29T00:00:00.123456789",
            "007",
            "1",
            "NULL",
        ]
    );
    assert_eq!(texts(&batches)?[1][..5], ["false", "-2", "3.0", "9999-12-31", "9999-12-31T23:59:59.500"]);
    Ok(())
}

#[tokio::test]
async fn a_later_cell_of_another_type_is_an_error_with_its_place() -> Result<()> {
    for (first, later, data_type) in [
        ("1", "x", "Int64"),
        ("1", "1.5", "Int64"),
        ("1", "007", "Int64"),
        ("true", "1", "Boolean"),
        ("2024-01-01", "2024-01-01 10:00:00", "Date32"),
        ("2024-01-01", "2024-13-01", "Date32"),
        ("2024-01-01 00:00:00", "2024-01-01 00:00:00.1234567", "Timestamp(µs)"),
        ("2024-01-01 00:00:00", "2024-01-01 00:00:00Z", "Timestamp(µs)"),
        ("9999-12-31 00:00:00", "2024-01-01 00:00:00.1234567", "Timestamp(µs)"),
        ("2024-01-01 00:00:00.1234567", "9999-12-31 00:00:00", "Timestamp(ns)"),
        ("2016-12-31 23:59:59", "2016-12-31 23:59:60", "Timestamp(µs)"),
        ("0.5", "1e400", "Float64"),
        ("0.5", "9007199254740993", "Float64"),
    ] {
        let content = format!("a,\"col\numn\"\n1,{first}\n2,\n3,{later}\n");
        let message = refused("t.csv", content.as_bytes(), ",infer_rows=1").await;
        assert_eq!(message, format!("t.csv: line 5: column \"col\numn\": expected {data_type}, found {later:?}"),);
        let all = table("t.csv", content.as_bytes(), ",infer_rows=all").await?;
        assert_eq!(all.len(), 4, "all rows are read with a type that holds them");
    }
    Ok(())
}

#[tokio::test]
async fn numbers_and_times_that_a_type_would_change_are_text() -> Result<()> {
    for cells in [
        ["9007199254740993", "0.5"],
        ["1e400", "0.5"],
        ["2016-12-31 23:59:60", "2016-12-31 23:59:59"],
        ["9999-01-01 00:00:00", "2020-01-01 00:00:00.123456789"],
    ] {
        let content = format!("a,b\n1,{}\n2,{}\n", cells[0], cells[1]);
        assert_eq!(table("t.csv", content.as_bytes(), "").await?[1..], [["1", cells[0]], ["2", cells[1]]]);
    }
    assert_eq!(table("t.csv", b"a,b\n1,9007199254740992\n2,0.5\n", "").await?[1], ["1", "9007199254740992.0"]);
    Ok(())
}

#[tokio::test]
async fn csv_rejects_a_partition_column_in_the_file() -> Result<()> {
    let dir = tempfile::tempdir()?;
    write(dir.path(), &[("a=1/1.csv", b"b\n3\n"), ("a=1/2.csv", b"b,a\n3,2\n")])?;
    let message = chain(&read(&dir.path().display().to_string()).await.expect_err("refused"));
    assert!(message.ends_with("a=1/2.csv: column \"a\" is both in the file and in its path"), "{message}");
    assert_eq!(texts(&read(&dir.path().join("a=1/2.csv").display().to_string()).await?)?, [["3", "2"]]);

    let ctx = crate::support::session(1);
    let create = "CREATE EXTERNAL TABLE t (b INT) STORED AS CSV PARTITIONED BY (a) LOCATION";
    ctx.sql(&format!("{create} '{}'", dir.path().display())).await?;
    let message = chain(&ctx.sql("SELECT b FROM t").await?.collect().await.expect_err("refused"));
    assert!(message.ends_with("a=1/2.csv: column \"a\" is both in the file and in its path"), "{message}");
    Ok(())
}

#[tokio::test]
async fn every_record_has_a_cell_for_every_column() -> Result<()> {
    assert_eq!(refused("t.csv", b"a,b\n1,2\n\n3\n", "").await, "t.csv: line 4: expected 2 cells, found 1");
    assert_eq!(refused("t.csv", b"a,b\n1,2\n3,4,5\n", "").await, "t.csv: line 3: expected 2 cells, found 3");
    assert_eq!(refused("t.csv", b"a,b\n1,\"2\n3,4\n", "").await, "t.csv: line 2: a quoted cell does not end");
    assert_eq!(refused("t.csv", b"", "").await, "t.csv: no columns: the file contains no record");
    assert_eq!(table("t.csv", b"a,b\n", "").await?, Vec::<Vec<String>>::new());
    Ok(())
}

#[tokio::test]
async fn a_header_may_repeat_or_lack_names() -> Result<()> {
    let found = table("t.csv", b"a,,a,a_1,\n1,2,3,4,5\n", "").await?;
    assert_eq!(found, [["a", "column_2", "a_2", "a_1", "column_5"], ["1", "2", "3", "4", "5"]]);
    Ok(())
}

#[tokio::test]
async fn columns_are_matched_by_name_across_files_and_types_joined() -> Result<()> {
    let dir = tempfile::tempdir()?;
    write(dir.path(), &[("1.csv", b"a,b\n1,2\n"), ("2.csv", b"b,c,a\n2.5,x,9\n")])?;
    let batches = read(&dir.path().display().to_string()).await?;
    assert_eq!(texts(&batches)?, [["1", "2.0", "NULL"], ["9", "2.5", "x"]]);
    Ok(())
}

#[tokio::test]
async fn a_parquet_file_among_csv_files_is_refused() -> Result<()> {
    let dir = tempfile::tempdir()?;
    write(dir.path(), &[("1.csv", b"a\n1\n"), ("2.csv", b"PAR1\x15\x04")])?;
    let message = chain(&read(&dir.path().display().to_string()).await.expect_err("refused"));
    assert!(message.ends_with("2.csv: the content is Parquet, but the table is read as CSV"), "{message}");
    Ok(())
}

/// Compresses `text` as gzip in two members.
fn gzip(text: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut members = Vec::new();
    for part in [&text[..text.len() / 2], &text[text.len() / 2..]] {
        let mut encoder = flate2::write::GzEncoder::new(&mut members, flate2::Compression::default());
        encoder.write_all(part)?;
        encoder.finish()?;
    }
    Ok(members)
}

#[tokio::test]
async fn csv_detects_compression_and_reads_every_member() -> Result<()> {
    let text: String = (0..10_000).map(|row| format!("{row},x\n")).collect();
    let text = format!("a,b\n{text}");
    let compressed = gzip(text.as_bytes())?;
    for (name, options) in [("t.csv.gz", ""), ("000000_0", ""), ("t.csv", ""), ("t.csv", ",compression=gzip")] {
        assert_eq!(table(name, &compressed, options).await?.len(), 10_001, "{name}{options}");
        // A compressed file cannot be split; it is still read exactly once.
        assert_eq!(table(name, &compressed, &format!("{options},newlines_in_values=false")).await?.len(), 10_001);
    }
    let message = refused("t.csv.gz", &compressed[..compressed.len() - 9], "").await;
    assert!(message.starts_with("t.csv.gz: cannot be read: "), "{message}");
    Ok(())
}

#[tokio::test]
async fn a_file_without_line_ends_in_cells_is_read_in_parts() -> Result<()> {
    use crate::support::session;
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("t.csv");
    let text: String = (0..5000).map(|row| format!("é{row},{row}\r\n")).collect();
    std::fs::write(&path, format!("\u{feff}s,n\r\n{text}"))?;
    let ctx = session(7);
    ctx.state_ref().write().config_mut().options_mut().optimizer.repartition_file_min_size = 1;
    let spec = format!("t={},newlines_in_values=false", path.display()).parse()?;
    let table = tfr_formats::open_table(&ctx.state(), &spec).await?;
    ctx.register_table("t", table)?;
    let frame = ctx.sql("SELECT count(DISTINCT s), sum(n) FROM t").await?;
    assert_eq!(texts(&frame.collect().await?)?, [["5000", "12497500"]]);
    let plan = ctx.sql("SELECT * FROM t").await?.create_physical_plan().await?;
    assert_eq!(plan.properties().output_partitioning().partition_count(), 7);
    let batches = datafusion::physical_plan::collect(plan, ctx.task_ctx()).await?;
    assert_eq!(row_count(&batches), 5000);

    let cut = ctx.sql("SELECT * FROM t").await?;
    std::fs::write(&path, "s,n\r\na,1\r\n")?;
    let message = chain(&cut.collect().await.expect_err("refused"));
    assert!(message.contains("t.csv: the file changed while it was read"), "{message}");
    Ok(())
}

#[tokio::test]
async fn csv_rejects_line_end_in_a_cell_if_declared_impossible() -> Result<()> {
    let text = format!("s,n\n{}\"a\nb\",1\n", "c,1\n".repeat(2000));
    let message = refused("t.csv", text.as_bytes(), ",newlines_in_values=false").await;
    assert_eq!(message, "t.csv: line 2002: a line end in a cell, although newlines_in_values=false");
    Ok(())
}

#[tokio::test]
async fn projections_reach_the_reader() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("t.csv");
    std::fs::write(&path, "a,b,c\n1,x,2\n3,y,4\n")?;
    let path = path.display();
    assert_eq!(rows(&format!("SELECT c + 1, a FROM '{path}' WHERE b = 'y'")).await?, [["5", "3"]]);
    assert_eq!(rows(&format!("SELECT count(*) FROM '{path}'")).await?, [["2"]]);
    assert_eq!(rows(&format!("SELECT a FROM '{path}' LIMIT 1")).await?, [["1"]]);
    Ok(())
}
