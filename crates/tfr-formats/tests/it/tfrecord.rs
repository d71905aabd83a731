//! TFRecord files, detected from their content.

use std::fs;
use std::io;

use datafusion::error::Result;
use tempfile::tempdir;
use tfrecord_framing::{Compression, Level, RecordWriter};

use super::support::{chain, read, row_count, rows, session, texts, write};

/// `{ a: int64_list [7] }`
const RECORD: &[u8] = b"\x0a\x0c\x0a\x0a\x0a\x01a\x12\x05\x1a\x03\x0a\x01\x07";

fn file(records: usize, compression: Compression) -> io::Result<Vec<u8>> {
    let mut writer = RecordWriter::with_compression(Vec::new(), compression, Level::default());
    (0..records).try_for_each(|_| writer.write_record(RECORD)).map_err(io::Error::other)?;
    writer.finish().map_err(io::Error::other)
}

async fn refused(query: &str) -> String {
    let answer = async { session(1).sql(query).await?.collect().await };
    answer.await.err().map_or_else(|| "accepted".to_owned(), |error| chain(&error))
}

#[tokio::test]
async fn tfrecord_is_detected_whatever_the_file_name() -> Result<()> {
    let dir = tempdir()?;
    for compression in [Compression::None, Compression::Gzip, Compression::Zlib] {
        for name in ["train-00000-of-01024", "x.tfrecord-00000-of-00001", "part-r-00000", "x.tfrecord", "x.tfrecord.gz"]
        {
            write(dir.path(), &[(name, &file(3, compression)?)])?;
            let query = format!("SELECT sum(a) FROM '{}'", dir.path().join(name).display());
            assert_eq!(rows(&query).await?, [["21"]], "{name} {compression}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn tfrecord_rejects_compressions_of_text() -> Result<()> {
    let dir = tempdir()?;
    // A block of Hadoop's codecs has no magic number.
    let block: &[u8] = b"\0\0\0\x20\0\0\0\x14\x20\x7c\x10\0\xff\xfe";
    let files: [(&str, &[u8], &str); 4] = [
        ("a.tfrecord.snappy", block, "snappy"),
        ("b.tfrecord.lz4", block, "LZ4"),
        ("c.tfrecord.bz2", b"BZh91AY&SY and so on", "bzip2"),
        ("d.tfrecord.zst", b"\x28\xb5\x2f\xfd and so on", "zstd"),
    ];
    for (name, content, codec) in files {
        write(dir.path(), &[(name, content)])?;
        let expected = format!("{name}: reading TFRecord compressed with {codec} is not supported");
        let path = dir.path().join(name);
        let found = refused(&format!("SELECT * FROM '{}'", path.display())).await;
        assert!(found.contains(&expected), "{found}");
        let found = read(&format!("{},format=tfrecord", path.display())).await.expect_err(name);
        assert!(chain(&found).contains(&expected), "{}", chain(&found));
    }
    Ok(())
}

#[tokio::test]
async fn tfrecord_table_rejects_files_of_another_format() -> Result<()> {
    let dir = tempdir()?;
    let parquet: &[u8] = b"PAR1 and so on";
    let zip: &[u8] = b"PK\x03\x04 and so on";
    let zstd: &[u8] = b"\x28\xb5\x2f\xfd and so on";
    write(
        dir.path(),
        &[("a.tfrecord", parquet), ("b.tfrecord", zip), ("c.tfrecord", zstd), ("d.tfrecord", b"text,\n1,2\n")],
    )?;
    for (name, message) in [
        ("a.tfrecord", "a.tfrecord: the name says TFRecord, but the content is Parquet"),
        ("b.tfrecord", "b.tfrecord: reading zip archives is not supported"),
        ("c.tfrecord", "c.tfrecord: reading TFRecord compressed with zstd is not supported"),
        // Possibly damaged: so report the position of the damage.
        ("d.tfrecord", "d.tfrecord: record 0 at byte 0: truncated, expected 12 bytes of a record header, found 10"),
    ] {
        let found = refused(&format!("SELECT * FROM '{}'", dir.path().join(name).display())).await;
        assert!(found.contains(message), "{found}");
    }
    write(dir.path(), &[("e.csv", &file(1, Compression::None)?)])?;
    let found = refused(&format!("SELECT * FROM '{}'", dir.path().join("e.csv").display())).await;
    assert!(found.contains("e.csv: the name says CSV, but the content is TFRecord"), "{found}");
    Ok(())
}

#[tokio::test]
async fn tfrecord_listing_skips_empty_and_stray_files() -> Result<()> {
    let dir = tempdir()?;
    let records = file(2, Compression::None)?;
    write(
        dir.path(),
        &[("part-0", b""), ("part-1", &records), ("_SUCCESS", b""), (".part-1.crc", b"x"), ("part-2", &records)],
    )?;
    let all = read(&dir.path().display().to_string()).await?;
    assert_eq!(row_count(&all), 4);
    let named = format!("{},format=tfrecord", dir.path().join("part-0").display());
    assert_eq!(row_count(&read(&named).await?), 0);
    Ok(())
}

#[tokio::test]
async fn tfrecord_options_control_reading() -> Result<()> {
    let dir = tempdir()?;
    let mut records = file(3, Compression::None)?;
    let last = records.len() - 1;
    records[last] ^= 1;
    write(dir.path(), &[("f", &records)])?;
    let spec = dir.path().join("f").display().to_string();
    let error = read(&spec).await.expect_err("damage");
    assert!(chain(&error).contains("f: record 2 at byte 60: payload of 14 bytes"), "{error}");
    assert_eq!(row_count(&read(&format!("{spec},crc=skip")).await?), 3);
    for (options, message) in [
        ("compression=gzip", "record 0 at byte 0: expected compression gzip, found none"),
        ("crc=skip,compression=zstd", "option \"compression\" is for CSV"),
        ("crc=skip,header=false", "option \"header\" is for CSV"),
        ("crc=skip,map=a: bits", "\"bits\" is not a choice for type Int64"),
        ("crc=skip,map=b: string", "no column \"b\" to map"),
        ("crc=skip,schema=absent.pbtxt", "absent.pbtxt: no such file"),
    ] {
        let error = read(&format!("{spec},{options}")).await.expect_err(options);
        assert!(chain(&error).contains(message), "{options}: {}", chain(&error));
    }
    write(dir.path(), &[("g.csv", b"a\n1\n")])?;
    let error = read(&format!("{},infer_files=3", dir.path().join("g.csv").display())).await.expect_err("not TFRecord");
    assert!(
        chain(&error).contains("option \"infer_files\" is for TFRecord and ArrayRecord, but this is CSV"),
        "{}",
        chain(&error)
    );
    Ok(())
}

#[tokio::test]
async fn tfrecord_columns_come_from_a_schema_file() -> Result<()> {
    let dir = tempdir()?;
    let schema =
        r#"feature { name: "a" type: INT value_count { min: 0 max: 9 } } feature { name: "b" type: FLOAT shape { } }"#;
    write(dir.path(), &[("data/f", &file(1, Compression::None)?), ("elsewhere.pbtxt", schema.as_bytes())])?;
    let data = dir.path().join("data");
    let with_option = format!("{},schema={}", data.display(), dir.path().join("elsewhere.pbtxt").display());
    assert_eq!(texts(&read(&with_option).await?)?, [["[7]", "NULL"]]);
    assert_eq!(texts(&read(&data.display().to_string()).await?)?, [["7"]]);
    // A schema next to the files needs no option, whether their directory or the files are specified.
    fs::rename(dir.path().join("elsewhere.pbtxt"), data.join("schema.pbtxt"))?;
    assert_eq!(texts(&read(&data.display().to_string()).await?)?, [["[7]", "NULL"]]);
    assert_eq!(texts(&read(&data.join("f").display().to_string()).await?)?, [["[7]", "NULL"]]);
    fs::write(data.join("schema.pbtxt"), "feature {")?;
    let error = read(&data.display().to_string()).await.expect_err("no schema");
    assert!(
        chain(&error).contains("schema.pbtxt: no description of columns that can be read: line 1"),
        "{}",
        chain(&error)
    );
    Ok(())
}
