//! Two versions of a file in every format. Their values begin with the number of the version.

use std::io;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::ipc::writer::{FileWriter, StreamWriter};
use datafusion::error::{DataFusionError, Result};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::Compression;
use datafusion::parquet::file::properties::WriterProperties;
use orc_rust::ArrowWriterBuilder;
use serde_json::json;
use tfrecord_framing::RecordWriter;

use crate::avro;

/// Rows of a part of a file: a row group, a stripe, a message or a block.
pub const PART: usize = 100;

/// The names of files, whose extensions specify the formats.
pub const NAMES: [&str; 11] = [
    "t.csv",
    "t.tsv",
    "t.json",
    "t.jsonl",
    "t.hive",
    "t.libsvm",
    "t.avro",
    "t.arrow",
    "t.arrows",
    "t.parquet",
    "t.orc",
];

/// A value of `len` characters.
fn value(version: u8, len: usize) -> String {
    version.to_string().repeat(len)
}

/// The values have a control character, without which an ORC file might be text.
fn batch(version: u8, rows: usize, len: usize) -> Result<RecordBatch> {
    let text = format!("{version}\u{1}{}", value(version, len));
    let values: ArrayRef = Arc::new(StringArray::from_iter_values(vec![text; rows]));
    Ok(RecordBatch::try_from_iter([("v", values)])?)
}

/// Returns a file with `rows` rows of about `len` bytes. Files of as many rows have the same length in both versions.
pub fn content(name: &str, version: u8, rows: usize, len: usize) -> Result<Vec<u8>> {
    let part = || batch(version, PART, len);
    let sizes = || (0..rows / PART).map(|_| PART).chain([rows % PART]).filter(|size| *size > 0);
    let parts = || sizes().map(|size| batch(version, size, len));
    let text = value(version, len);
    let lines = |header: &str, line: String| [header.to_owned(), line.repeat(rows)].concat().into_bytes();
    Ok(match name {
        "t.csv" => lines("v,w\n", format!("{text},1\n")),
        "t.tsv" => lines("v\tw\n", format!("{text}\t1\n")),
        "t.jsonl" => lines("", format!("{{\"v\": \"{text}\"}}\n")),
        "t.json" => {
            let objects = vec![json!({ "v": text }); rows];
            serde_json::to_vec(&objects).map_err(io::Error::other)?
        }
        "t.hive" => lines("", format!("{text}\x01x\n")),
        // The label is the version.
        "t.libsvm" => lines("", format!("{version}{}\n", " 1:1".repeat(len / 4))),
        "t.avro" => {
            let schema = json!({ "type": "record", "name": "r", "fields": [{ "name": "v", "type": "string" }] });
            let record = avro::string(text.as_bytes());
            avro::file(&schema, &sizes().map(|size| (size as i64, record.repeat(size))).collect::<Vec<_>>())
        }
        "t.arrow" => {
            let mut writer = FileWriter::try_new(Vec::new(), &part()?.schema())?;
            parts().try_for_each(|part| Ok::<_, DataFusionError>(writer.write(&part?)?))?;
            writer.into_inner()?
        }
        "t.arrows" => {
            let mut writer = StreamWriter::try_new(Vec::new(), &part()?.schema())?;
            parts().try_for_each(|part| Ok::<_, DataFusionError>(writer.write(&part?)?))?;
            writer.into_inner()?
        }
        "t.parquet" => {
            let properties = WriterProperties::builder()
                .set_compression(Compression::UNCOMPRESSED)
                .set_dictionary_enabled(false)
                .build();
            let mut writer = ArrowWriter::try_new(Vec::new(), part()?.schema(), Some(properties))?;
            for part in parts() {
                writer.write(&part?)?;
                writer.flush()?;
            }
            writer.into_inner()?
        }
        "t.orc" => {
            let mut file = Vec::new();
            let builder = ArrowWriterBuilder::new(&mut file, part()?.schema()).with_stripe_byte_size(PART * len / 2);
            let mut writer = builder.with_batch_size(PART).try_build().map_err(io::Error::other)?;
            for part in parts() {
                writer.write(&part?).map_err(io::Error::other)?;
            }
            writer.close().map_err(io::Error::other)?;
            file
        }
        "t.tfrecord" => {
            let mut writer = RecordWriter::new(Vec::new());
            let record = example(text.as_bytes());
            (0..rows).try_for_each(|_| writer.write_record(&record)).map_err(io::Error::other)?;
            writer.finish().map_err(io::Error::other)?
        }
        name => panic!("{name}"),
    })
}

/// `{ v: bytes_list [text] }`
fn example(text: &[u8]) -> Vec<u8> {
    let field = |key: u8, payload: &[u8]| {
        let mut len = Vec::new();
        let mut rest = payload.len();
        while rest >= 0x80 {
            len.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        len.push(rest as u8);
        [&[key], len.as_slice(), payload].concat()
    };
    let feature = field(0x0a, &field(0x0a, text));
    let entry = [field(0x0a, b"v"), field(0x12, &feature)].concat();
    field(0x0a, &field(0x0a, &entry))
}
