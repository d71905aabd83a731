//! Writes small tables with manifests as Iceberg has them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Field, Schema};
use serde_json::{Value, json};
use tfr_tests::Scratch;

/// A file of a table.
#[derive(Clone)]
pub struct File {
    /// 0 data, 1 positions, 2 keys.
    pub content: i64,
    /// As the manifest names it.
    pub path: String,
    pub size: i64,
    pub rows: i64,
    pub sequence: i64,
    /// The partition spec, and the only part of the partition if it has one: a text.
    pub spec: i64,
    pub part: Option<&'static str>,
    /// The columns of keys.
    pub ids: Vec<i32>,
    /// The path that is both bounds of the paths in a file of positions.
    pub bound: Option<String>,
    /// The data file that a file of positions is of.
    pub referenced: Option<String>,
}

/// A table that is being written.
pub struct Table<'a> {
    pub scratch: &'a Scratch,
    pub name: &'a str,
    pub fields: Value,
    pub specs: Value,
    pub properties: Value,
    pub files: Vec<File>,
    /// Whether the manifests are in the metadata file, and not in a list.
    pub is_unlisted: bool,
}

impl<'a> Table<'a> {
    /// A table with a column `id` of type long and a column `p` of type string, without partitions.
    pub fn new(scratch: &'a Scratch, name: &'a str) -> Self {
        let fields = json!([
            {"id": 1, "name": "id", "required": false, "type": "long"},
            {"id": 2, "name": "p", "required": false, "type": "string"},
        ]);
        let specs = json!([{"spec-id": 0, "fields": []}]);
        Self { scratch, name, fields, specs, properties: json!({}), files: Vec::new(), is_unlisted: false }
    }

    pub fn directory(&self) -> PathBuf {
        self.scratch.join(self.name)
    }

    /// Writes a Parquet file, whose columns have these ids, if they have any.
    pub fn parquet(&self, path: &str, columns: &[(&str, Option<i32>, ArrayRef)], group: usize) -> File {
        let file = self.scratch.parquet(path, &batch(columns), group);
        File {
            content: 0,
            path: format!("file:{}", file.display()),
            size: fs::metadata(file).unwrap().len().try_into().unwrap(),
            rows: columns[0].2.len().try_into().unwrap(),
            sequence: 1,
            spec: 0,
            part: None,
            ids: Vec::new(),
            bound: None,
            referenced: None,
        }
    }

    /// Writes a Parquet file of positions, each in the data file with a path.
    pub fn positions(&self, path: &str, rows: &[(&str, i64)]) -> File {
        let paths: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|(path, _)| path)));
        let positions: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|(_, position)| *position)));
        let columns = [("file_path", Some(2_147_483_546), paths), ("pos", Some(2_147_483_545), positions)];
        File { content: 1, ..self.parquet(path, &columns, 50) }
    }

    /// Writes the metadata of the table.
    pub fn write(&self) -> PathBuf {
        let directory = self.directory();
        fs::create_dir_all(directory.join("metadata")).unwrap();
        let (mut list, mut paths) = (Vec::new(), Vec::new());
        let specs = self.specs.as_array().unwrap();
        for spec in specs {
            for has_deletes in [false, true] {
                let is_in = |file: &&File| spec["spec-id"] == file.spec && (file.content > 0) == has_deletes;
                let files: Vec<_> = self.files.iter().filter(is_in).collect();
                if !files.is_empty() {
                    let (path, record) = manifest(&directory, spec, has_deletes, &files);
                    list.push(record);
                    paths.push(path);
                }
            }
        }
        let path = directory.join("metadata/snap-1-1-x.avro");
        fs::write(&path, avro(LIST, &[("format-version", "2"), ("snapshot-id", "1")], &list)).unwrap();
        let mut metadata = json!({
            "format-version": 2, "table-uuid": "x", "location": format!("file:{}", directory.display()),
            "last-sequence-number": 9, "last-updated-ms": 0, "last-column-id": 9,
            "current-schema-id": 0, "schemas": [{"type": "struct", "schema-id": 0, "fields": self.fields}],
            "default-spec-id": 0, "partition-specs": self.specs, "properties": self.properties,
            "current-snapshot-id": 1, "refs": {"main": {"snapshot-id": 1, "type": "branch"}},
            "snapshots": [{"snapshot-id": 1, "sequence-number": 9, "timestamp-ms": 0, "schema-id": 0,
                "manifest-list": format!("file:{}", path.display())}],
        });
        if self.is_unlisted {
            let snapshot = metadata["snapshots"][0].as_object_mut().unwrap();
            snapshot.remove("manifest-list");
            snapshot.insert("manifests".to_owned(), json!(paths));
        }
        fs::write(directory.join("metadata/v1.metadata.json"), metadata.to_string()).unwrap();
        directory
    }
}

/// Columns whose fields have these ids.
fn batch(columns: &[(&str, Option<i32>, ArrayRef)]) -> RecordBatch {
    let fields = columns.iter().map(|(name, id, values)| {
        let field = Field::new(*name, values.data_type().clone(), true);
        let id = id.map(|id| ("PARQUET:field_id".to_owned(), id.to_string()));
        field.with_metadata(id.into_iter().collect())
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    RecordBatch::try_new(schema, columns.iter().map(|(_, _, values)| Arc::clone(values)).collect()).unwrap()
}

const LIST: &str = r#"{"type": "record", "name": "manifest_file", "fields": [
    {"name": "manifest_path", "type": "string", "field-id": 500},
    {"name": "manifest_length", "type": "long", "field-id": 501},
    {"name": "partition_spec_id", "type": "int", "field-id": 502},
    {"name": "content", "type": "int", "field-id": 517},
    {"name": "sequence_number", "type": "long", "field-id": 515},
    {"name": "added_data_files_count", "type": "int", "field-id": 504},
    {"name": "existing_files_count", "type": ["null", "int"], "field-id": 505},
    {"name": "added_rows_count", "type": "long", "field-id": 512}]}"#;

/// Writes a manifest, and returns its path and its record in the list.
fn manifest(directory: &Path, spec: &Value, has_deletes: bool, files: &[&File]) -> (String, Vec<u8>) {
    let fields = spec["fields"].as_array().unwrap();
    let parts: Vec<_> = fields
        .iter()
        .map(|field| json!({"name": field["name"], "type": ["null", "string"], "field-id": field["field-id"]}))
        .collect();
    let schema = json!({"type": "record", "name": "manifest_entry", "fields": [
        {"name": "status", "type": "int", "field-id": 0},
        {"name": "sequence_number", "type": ["null", "long"], "field-id": 3},
        {"name": "data_file", "field-id": 2, "type": {"type": "record", "name": "r2", "fields": [
            {"name": "content", "type": "int", "field-id": 134},
            {"name": "file_path", "type": "string", "field-id": 100},
            {"name": "file_format", "type": "string", "field-id": 101},
            {"name": "partition", "field-id": 102, "type": {"type": "record", "name": "r102", "fields": parts}},
            {"name": "record_count", "type": "long", "field-id": 103},
            {"name": "file_size_in_bytes", "type": "long", "field-id": 104},
            {"name": "equality_ids", "field-id": 135, "type": ["null", {"type": "array", "items": "int"}]},
            {"name": "lower_bounds", "field-id": 125, "type": ["null", bounds("k126_v127")]},
            {"name": "upper_bounds", "field-id": 128, "type": ["null", bounds("k129_v130")]},
            {"name": "referenced_data_file", "field-id": 143, "type": ["null", "string"]},
        ]}},
    ]});
    let records: Vec<_> = files.iter().map(|file| entry(file, !parts.is_empty())).collect();
    let content = if has_deletes { "deletes" } else { "data" };
    let spec = spec["spec-id"].as_i64().unwrap();
    let path = directory.join(format!("metadata/{spec}-{content}-m0.avro"));
    let header = [("format-version", "2"), ("partition-spec-id", &spec.to_string()), ("content", content)];
    let bytes = avro(&schema.to_string(), &header, &records);
    fs::write(&path, &bytes).unwrap();
    let path = format!("file:{}", path.display());
    let mut record = Vec::new();
    text(&mut record, &path);
    long(&mut record, bytes.len() as i64);
    long(&mut record, spec);
    long(&mut record, has_deletes.into());
    long(&mut record, 9);
    long(&mut record, files.len() as i64);
    long(&mut record, 1);
    long(&mut record, 0);
    long(&mut record, files.iter().map(|file| file.rows).sum());
    (path, record)
}

/// The type of bounds: pairs of the id of a column and a value.
fn bounds(name: &str) -> Value {
    json!({"type": "array", "logicalType": "map", "items": {"type": "record", "name": name, "fields": [
        {"name": "key", "type": "int"}, {"name": "value", "type": "bytes"}]}})
}

fn entry(file: &File, has_part: bool) -> Vec<u8> {
    let mut record = Vec::new();
    long(&mut record, 1);
    long(&mut record, 1);
    long(&mut record, file.sequence);
    long(&mut record, file.content);
    text(&mut record, &file.path);
    text(&mut record, "PARQUET");
    match file.part {
        Some(part) => {
            long(&mut record, 1);
            text(&mut record, part);
        }
        None if has_part => long(&mut record, 0),
        None => {}
    }
    long(&mut record, file.rows);
    long(&mut record, file.size);
    match file.ids.is_empty() {
        true => long(&mut record, 0),
        false => {
            long(&mut record, 1);
            long(&mut record, file.ids.len() as i64);
            file.ids.iter().for_each(|id| long(&mut record, (*id).into()));
            long(&mut record, 0);
        }
    }
    for _ in ["lower", "upper"] {
        long(&mut record, file.bound.is_some().into());
        if let Some(bound) = &file.bound {
            long(&mut record, 1);
            long(&mut record, 2_147_483_546);
            text(&mut record, bound);
            long(&mut record, 0);
        }
    }
    long(&mut record, file.referenced.is_some().into());
    file.referenced.iter().for_each(|path| text(&mut record, path));
    record
}

/// An Avro file without compression.
fn avro(schema: &str, header: &[(&str, &str)], records: &[Vec<u8>]) -> Vec<u8> {
    const SYNC: [u8; 16] = *b"0123456789abcdef";
    let mut bytes = b"Obj\x01".to_vec();
    long(&mut bytes, header.len() as i64 + 1);
    for (key, value) in header.iter().chain(&[("avro.schema", schema)]) {
        text(&mut bytes, key);
        text(&mut bytes, value);
    }
    long(&mut bytes, 0);
    bytes.extend(SYNC);
    let contents = records.concat();
    long(&mut bytes, records.len() as i64);
    long(&mut bytes, contents.len() as i64);
    bytes.extend(contents);
    bytes.extend(SYNC);
    bytes
}

fn long(bytes: &mut Vec<u8>, number: i64) {
    let mut rest = ((number << 1) ^ (number >> 63)) as u64;
    while rest >= 0x80 {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
}

fn text(bytes: &mut Vec<u8>, text: &str) {
    long(bytes, text.len() as i64);
    bytes.extend(text.as_bytes());
}
