//! Arrow IPC files and streams.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, DictionaryArray, Int32Array, ListArray, MapArray, RecordBatch, StringArray, StringDictionaryBuilder,
    StructArray,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, Fields, Int8Type};
use datafusion::arrow::ipc::CompressionType;
use datafusion::arrow::ipc::reader::FileReader;
use datafusion::arrow::ipc::writer::{DictionaryHandling, FileWriter, IpcWriteOptions, StreamWriter};
use datafusion::error::Result;
use serde_json::Value;

use crate::corpus::{corpus, manifest, outcome, wrong};
use crate::support::{chain, read, row_count, rows, session, texts, write};
use crate::values::{first_difference, objects};

fn batch(columns: &[(&str, ArrayRef)]) -> Result<RecordBatch> {
    Ok(RecordBatch::try_from_iter(columns.iter().map(|(name, column)| (*name, Arc::clone(column))))?)
}

fn numbers(range: std::ops::Range<i32>) -> ArrayRef {
    Arc::new(Int32Array::from_iter_values(range))
}

fn file(batches: &[RecordBatch], options: IpcWriteOptions) -> Result<Vec<u8>> {
    let mut writer = FileWriter::try_new_with_options(Vec::new(), &batches[0].schema(), options)?;
    batches.iter().try_for_each(|batch| writer.write(batch))?;
    Ok(writer.into_inner()?)
}

fn stream(batches: &[RecordBatch], options: IpcWriteOptions) -> Result<Vec<u8>> {
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &batches[0].schema(), options)?;
    batches.iter().try_for_each(|batch| writer.write(batch))?;
    Ok(writer.into_inner()?)
}

/// Writes `content` and reads it.
async fn table(content: &[u8]) -> Result<Vec<Vec<String>>> {
    let dir = tempfile::tempdir()?;
    write(dir.path(), &[("t.arrow", content)])?;
    texts(&read(&dir.path().join("t.arrow").display().to_string()).await?)
}

#[tokio::test]
async fn a_field_of_a_struct_that_is_null_is_null() -> Result<()> {
    let part = |array: ArrayRef, nulls: Vec<bool>| -> ArrayRef {
        let fields = Fields::from(vec![Field::new("x", array.data_type().clone(), true)]);
        Arc::new(StructArray::new(fields, vec![array], Some(nulls.into())))
    };
    let inner = part(numbers(0..4), vec![true, false, true, true]);
    let outer = part(Arc::clone(&inner), vec![true, true, false, true]);
    let items = Arc::new(Field::new_list_field(inner.data_type().clone(), true));
    let list: ArrayRef = Arc::new(ListArray::new(items, OffsetBuffer::from_lengths([1; 4]), inner, None));
    let keys: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c", "d"]));
    let entries = RecordBatch::try_from_iter([("keys", keys), ("values", numbers(0..4))])?;
    let (fields, entries) = (entries.schema().fields().clone(), StructArray::from(entries));
    let field = Arc::new(Field::new("entries", DataType::Struct(fields), false));
    let nulls = Some(vec![true, true, false, true].into());
    let map: ArrayRef = Arc::new(MapArray::new(field, OffsetBuffer::from_lengths([1; 4]), entries, nulls, false));
    let batches = [batch(&[("s", outer), ("l", list), ("m", map)])?];
    for content in [file(&batches, IpcWriteOptions::default())?, stream(&batches, IpcWriteOptions::default())?] {
        let dir = tempfile::tempdir()?;
        write(dir.path(), &[("t.arrow", &content)])?;
        let path = dir.path().join("t.arrow").display().to_string();
        let found = rows(&format!("SELECT s['x']['x'], l[1]['x'], m['c'], m['d'] FROM '{path}'")).await?;
        let nulls = ["NULL"; 4];
        assert_eq!(found, [["0", "0", "NULL", "NULL"], nulls, ["NULL", "2", "NULL", "NULL"], ["3", "3", "NULL", "3"]]);
    }
    Ok(())
}

#[tokio::test]
async fn files_and_streams_compressed_or_not() -> Result<()> {
    let words: ArrayRef = Arc::new(StringArray::from_iter((0..1000).map(|n| (n % 7 > 0).then(|| format!("word {n}")))));
    let batches = [batch(&[("n", numbers(0..1000)), ("w", words)])?];
    let expected = texts(&batches)?;
    for compression in [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)] {
        let options = || IpcWriteOptions::default().try_with_compression(compression);
        assert_eq!(table(&file(&batches, options()?)?).await?, expected);
        assert_eq!(table(&stream(&batches, options()?)?).await?, expected);
    }
    Ok(())
}

/// The bytes of `name` in the tests' data.
fn data(name: &str) -> Result<Vec<u8>> {
    Ok(std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/arrow").join(name))?)
}

/// Of the tests of Apache Arrow for R. The codec is only in the custom metadata of the messages.
#[tokio::test]
async fn feather_files_of_arrow_0_17_are_decompressed() -> Result<()> {
    for name in ["feather_of_arrow_0_17_lz4.arrow", "feather_of_arrow_0_17_zstd.arrow"] {
        let expected = [["one", "2.0", "{c1: inner, c2: 4.0, c3: 50.0}", "four"]];
        assert_eq!(table(&data(name)?).await?, expected, "{name}");
    }
    // A codec that is not known is refused, also in capitals.
    let mut unknown = data("feather_of_arrow_0_17_zstd.arrow")?;
    let places: Vec<_> =
        unknown.windows(4).enumerate().filter(|(_, word)| word.eq_ignore_ascii_case(b"zstd")).collect();
    let places: Vec<_> = places.into_iter().map(|(at, _)| at).collect();
    assert!(!places.is_empty());
    places.into_iter().for_each(|at| unknown[at..at + 4].copy_from_slice(b"BZIP"));
    let message = table(&unknown).await.expect_err("unknown codec");
    assert!(chain(&message).contains("Arrow IPC of version 0.17 with a codec other than LZ4"), "{}", chain(&message));
    Ok(())
}

#[tokio::test]
async fn metadata_may_be_aligned_to_4_bytes() -> Result<()> {
    let long = "another text that is longer than a view";
    let expected = [["short"], ["NULL"], ["a text that is longer than a view"], [long]];
    assert_eq!(table(&data("unaligned.arrows")?).await?, expected);
    Ok(())
}

/// Values that are compressed without a word about it have another length.
#[tokio::test]
async fn buffers_of_another_length_than_their_values_are_refused() -> Result<()> {
    use datafusion::arrow::ipc::{Block, root_as_footer, root_as_message};
    let batches = [batch(&[("n", numbers(0..100))])?];
    let content = file(&batches, IpcWriteOptions::default())?;
    let end = content.len() - 10;
    let len = i32::from_le_bytes(content[end..end + 4].try_into().expect("four bytes")) as usize;
    let block: Block =
        *root_as_footer(&content[end - len..end]).expect("a footer").recordBatches().expect("a batch").get(0);
    let metadata = &content[block.offset() as usize + 8..][..block.metaDataLength() as usize - 8];
    let message = root_as_message(metadata).expect("a message").header_as_record_batch().expect("a batch");
    assert_eq!(message.buffers().map(|buffers| buffers.get(1).length()), Some(400));
    // The lengths of the column and the batch.
    let rows = 100_i64.to_le_bytes();
    for (other, reason) in [(20_i64, "which need 80 bytes, but its buffer has 400"), (101, "which need 404 bytes")] {
        let mut changed = content.clone();
        let range = block.offset() as usize..block.offset() as usize + block.metaDataLength() as usize;
        for at in range.clone() {
            if changed[at..at + 8] == rows {
                changed[at..at + 8].copy_from_slice(&other.to_le_bytes());
            }
        }
        let message = chain(&table(&changed).await.expect_err(reason));
        assert!(message.contains(reason) && message.contains("column \"n\" has"), "{message}");
    }
    Ok(())
}

fn dictionary(words: &[&str]) -> Result<RecordBatch> {
    let mut builder = StringDictionaryBuilder::<Int8Type>::new();
    words.iter().for_each(|word| builder.append_value(word));
    let words: DictionaryArray<Int8Type> = builder.finish();
    batch(&[("w", Arc::new(words))])
}

#[tokio::test]
async fn dictionaries_that_grow_or_are_replaced() -> Result<()> {
    let grown = [dictionary(&["a"])?, dictionary(&["a", "b"])?, dictionary(&["a", "b", "c", "a"])?];
    let delta = || IpcWriteOptions::default().with_dictionary_handling(DictionaryHandling::Delta);
    let expected = texts(&grown)?;
    assert_eq!(table(&file(&grown, delta())?).await?, expected);
    assert_eq!(table(&stream(&grown, delta())?).await?, expected);
    let replaced = [dictionary(&["a", "b"])?, dictionary(&["x", "a"])?];
    assert_eq!(table(&stream(&replaced, IpcWriteOptions::default())?).await?, texts(&replaced)?);
    Ok(())
}

/// A stream from before 0.15 begins with the length of its schema, which may exceed the bytes probed.
#[tokio::test]
async fn arrow_ipc_distinguishes_old_streams_from_text() -> Result<()> {
    use datafusion::arrow::ipc::MetadataVersion;
    for columns in [1, 300] {
        let columns: Vec<_> = (0..columns).map(|column| (format!("a long name {column}"), numbers(0..2))).collect();
        let columns: Vec<_> = columns.iter().map(|(name, values)| (name.as_str(), Arc::clone(values))).collect();
        let stream = stream(&[batch(&columns)?], IpcWriteOptions::try_new(8, true, MetadataVersion::V4)?)?;
        assert_ne!(stream[..4], [0xff; 4], "it has a marker");
        let dir = tempfile::tempdir()?;
        write(dir.path(), &[("part-0", &stream)])?;
        let batches = read(&dir.path().join("part-0").display().to_string()).await?;
        assert_eq!((row_count(&batches), batches[0].num_columns()), (2, columns.len()));
    }
    Ok(())
}

#[tokio::test]
async fn columns_by_name_over_files_and_in_any_order() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let first = file(&[batch(&[("a", numbers(0..2)), ("b", numbers(10..12))])?], IpcWriteOptions::default())?;
    let second = stream(&[batch(&[("b", numbers(12..13)), ("c", numbers(5..6))])?], IpcWriteOptions::default())?;
    write(dir.path(), &[("1.arrow", &first), ("2.arrows", &second)])?;
    let found = rows(&format!("SELECT c, b, a FROM '{}' ORDER BY b", dir.path().display())).await?;
    assert_eq!(found, [["NULL", "10", "0"], ["NULL", "11", "1"], ["5", "12", "NULL"]]);
    let found = rows(&format!("SELECT count(*) FROM '{}'", dir.path().display())).await?;
    assert_eq!(found, [["3"]]);
    Ok(())
}

#[tokio::test]
async fn a_file_is_read_in_parts_by_its_batches() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let batches = (0..50).map(|n| batch(&[("n", numbers(n * 100..(n + 1) * 100))])).collect::<Result<Vec<_>>>()?;
    let files = [
        ("f.arrow", file(&batches, IpcWriteOptions::default())?),
        ("s.arrow", stream(&batches, IpcWriteOptions::default())?),
    ];
    for (name, content) in files {
        write(dir.path(), &[(name, &content)])?;
        let ctx = session(4);
        ctx.state_ref().write().config_mut().options_mut().optimizer.repartition_file_min_size = 1024;
        let sum = format!("SELECT sum(n), count(*) FROM '{}'", dir.path().join(name).display());
        assert_eq!(texts(&ctx.sql(&sum).await?.collect().await?)?, [["12497500", "5000"]], "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn declared_columns() -> Result<()> {
    let dir = tempfile::tempdir()?;
    write(
        dir.path(),
        &[("t.arrow", &file(&[batch(&[("n", numbers(0..2)), ("m", numbers(2..4))])?], IpcWriteOptions::default())?)],
    )?;
    let ctx = session(1);
    let location = dir.path().display();
    ctx.sql(&format!("CREATE EXTERNAL TABLE t (m BIGINT) STORED AS ARROW LOCATION '{location}'")).await?;
    let found = ctx.sql("SELECT m FROM t").await?.collect().await?;
    assert_eq!(found[0].schema().field(0).data_type(), &DataType::Int64);
    assert_eq!(texts(&found)?, [["2"], ["3"]]);
    Ok(())
}

/// Every byte of a small file is overwritten in turn, and the file is truncated everywhere: an error or a table,
/// nothing else.
#[tokio::test]
async fn damage_is_an_error_that_names_the_file() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("t.arrow");
    let words: ArrayRef = Arc::new(StringArray::from_iter_values(["a", "bc"]));
    let batches = [batch(&[("n", numbers(0..2)), ("w", words)])?];
    let zstd = IpcWriteOptions::default().try_with_compression(Some(CompressionType::ZSTD))?;
    for whole in [file(&batches, zstd.clone())?, stream(&batches, zstd)?] {
        let cut = (1..whole.len()).step_by(7).map(|len| whole[..len].to_vec());
        let overwritten = (8..whole.len()).step_by(3).map(|at| {
            let mut damaged = whole.clone();
            damaged[at] = 0xff;
            damaged
        });
        for damaged in cut.chain(overwritten) {
            std::fs::write(&path, &damaged)?;
            if let Err(error) = read(&format!("{},format=arrow", path.display())).await {
                assert!(chain(&error).contains("t.arrow"), "{}", chain(&error));
            }
        }
    }
    Ok(())
}

/// The length before a compressed buffer is not trusted.
#[tokio::test]
async fn arrow_ipc_names_files_of_other_formats() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let arrow = file(&[batch(&[("n", numbers(0..3))])?], IpcWriteOptions::default())?;
    for (other, format) in [
        (&b"PAR1\x15\x04\x15\x10PAR1"[..], "Parquet"),
        (b"Obj\x01\x04\x14avro.codec", "Avro"),
        (b"\x1f\x8b\x08\0\0\0\0\0", "gzip-compressed"),
    ] {
        write(dir.path(), &[("1.arrow", &arrow), ("2", other)])?;
        let message = chain(&read(&dir.path().display().to_string()).await.expect_err(format));
        let expected = format!("2: the content is {format}, but the table is read as Arrow IPC");
        assert!(message.ends_with(&expected), "{message}");
    }
    Ok(())
}

#[tokio::test]
async fn arrow_ipc_checks_compressed_lengths_before_allocation() -> Result<()> {
    for codec in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        let options = IpcWriteOptions::default().try_with_compression(Some(codec))?;
        let zeros: ArrayRef = Arc::new(Int32Array::from(vec![0; 1000]));
        let mut content = stream(&[batch(&[("n", zeros)])?], options)?;
        let length = 4000_i64.to_le_bytes();
        let at = content.windows(8).position(|window| window == length).expect("the length of the buffer");
        content[at..at + 8].copy_from_slice(&(1_i64 << 46).to_le_bytes());
        let error = table(&content).await.expect_err("refused");
        assert!(chain(&error).contains("bytes cannot be decompressed to 70368744177664"), "{}", chain(&error));
    }
    Ok(())
}

#[tokio::test]
async fn arrow_ipc_rejects_bytes_after_the_stream() -> Result<()> {
    let one = stream(&[batch(&[("n", numbers(0..2))])?], IpcWriteOptions::default())?;
    let error = table(&[one.clone(), one].concat()).await.expect_err("refused");
    assert!(chain(&error).contains("bytes behind the end of the stream"), "{error}");
    Ok(())
}

fn expectation(path: &Path) -> Result<Vec<Value>> {
    let batches = FileReader::try_new(File::open(path)?, None)?.collect::<Result<Vec<_>, _>>()?;
    Ok(objects(&batches))
}

/// Files whose outcome differs from the corpus, and why.
const KNOWN: &[(&str, &str)] = &[
    // If two columns have one name, neither can be selected.
    ("generated_duplicate_fieldnames.arrow_file", "column \"ints\" occurs more than once"),
    ("generated_duplicate_fieldnames.stream", "column \"ints\" occurs more than once"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_arrow_file() -> Result<()> {
    let Some(corpus) = corpus() else { return Ok(()) };
    let mut outcomes = Vec::new();
    for row in manifest(&corpus, "arrow_ipc").await? {
        let mut outcome = outcome(&corpus, &row, ",format=arrow").await;
        if outcome.as_ref().is_ok_and(|outcome| outcome.ends_with("read")) {
            let batches = read(&format!("\"{}\"", corpus.join(&row["path"]).display())).await?;
            let expected = expectation(&corpus.join(&row["expected"]))?;
            let compared = first_difference(&objects(&batches), &expected, |found, expected| found == expected);
            outcome = compared.and(outcome).and_then(|outcome| match row_count(&batches).to_string() == row["rows"] {
                true => Ok(outcome),
                false => Err(format!("{} rows, expected {}", row_count(&batches), row["rows"])),
            });
        }
        outcomes.push((row["path"].clone(), outcome));
    }
    assert_eq!(wrong(&outcomes, KNOWN), Vec::<String>::new());
    Ok(())
}
