//! [`PartitionReport`]: the row in which a write partition reports its shards to the committer.
//!
//! It is a row of a record batch rather than an in-memory value, so that the committer may run in another process.

use std::sync::{Arc, LazyLock};

use arrow_array::builder::{ArrayBuilder, ListBuilder, StringBuilder, StructBuilder, UInt32Builder, UInt64Builder};
use arrow_array::cast::AsArray;
use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, BinaryArray, ListArray, RecordBatch, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use datafusion_common::{DataFusionError, Result, internal_datafusion_err};
use tfrecord_shards::{RecordOffset, ShardGroup, StagedIndex, StagedShard, StagedUpload};

/// The result of one write partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PartitionReport {
    /// The partition's number, over all processes. If a partition reports twice, the later report counts.
    pub(super) partition: u32,
    /// Number of rows read from the input.
    pub(super) rows: u64,
    /// The staged shards.
    pub(super) shards: Vec<StagedShard>,
}

fn shard_fields() -> Fields {
    Fields::from(vec![
        Field::new("staged", DataType::Utf8, false),
        // Null if the shard is a file.
        Field::new("upload", DataType::Utf8, true),
        Field::new_list("parts", Field::new("item", DataType::Utf8, false), false),
        Field::new("partition", DataType::UInt32, false),
        Field::new("sequence", DataType::UInt32, false),
        Field::new("split", DataType::Utf8, true),
        // The partition columns and their values, in order.
        Field::new_list("columns", Field::new("item", DataType::Utf8, false), false),
        Field::new_list("values", Field::new("item", DataType::Utf8, true), false),
        Field::new("rows", DataType::UInt64, false),
        Field::new("framed_bytes", DataType::UInt64, false),
        Field::new("file_bytes", DataType::UInt64, false),
        Field::new("crc32c", DataType::UInt32, false),
        // Three numbers for each entry: the record number, and the framed bytes and file bytes before that record.
        Field::new_list("offsets", Field::new("item", DataType::UInt64, false), false),
        // The file that holds the shard's index, or null; its size in bytes and its CRC-32C.
        Field::new("index", DataType::Utf8, true),
        Field::new("index_bytes", DataType::UInt64, true),
        Field::new("index_crc32c", DataType::UInt32, true),
    ])
}

fn shard_item() -> Field {
    Field::new("item", DataType::Struct(shard_fields()), false)
}

/// One row for each partition: its number, its rows, its shards, and `extras`. Later stages collect data in `extras`
/// (sketches, vocabularies), which the committer does not read.
pub(super) static REPORT_SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        Field::new("partition", DataType::UInt32, false),
        Field::new("rows", DataType::UInt64, false),
        Field::new("shards", DataType::List(Arc::new(shard_item())), false),
        Field::new("extras", DataType::Binary, true),
    ]))
});

impl PartitionReport {
    /// Converts the report to a batch of one row.
    pub(super) fn to_batch(&self) -> Result<RecordBatch> {
        let mut shards =
            ListBuilder::new(StructBuilder::from_fields(shard_fields(), self.shards.len())).with_field(shard_item());
        let mut row = ShardRow(shards.values());
        for shard in &self.shards {
            row.append(shard)?;
        }
        shards.append(true);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt32Array::from(vec![self.partition])),
            Arc::new(UInt64Array::from(vec![self.rows])),
            Arc::new(shards.finish()),
            Arc::new(BinaryArray::from(vec![None::<&[u8]>])),
        ];
        Ok(RecordBatch::try_new(Arc::clone(&REPORT_SCHEMA), columns)?)
    }

    /// Reads the reports in a batch.
    pub(super) fn from_batch(batch: &RecordBatch) -> Result<Vec<Self>> {
        let malformed = || internal_datafusion_err!("a write partition's report has the schema {:?}", batch.schema());
        if batch.schema().fields() != REPORT_SCHEMA.fields() {
            return Err(malformed());
        }
        let [partitions, rows, shards, _] = batch.columns() else {
            return Err(malformed());
        };
        let (partitions, rows) = (partitions.as_primitive::<UInt32Type>(), rows.as_primitive::<UInt64Type>());
        let shards = shards.as_list::<i32>();
        (0..batch.num_rows())
            .map(|row| {
                let shards = staged_shards(&shards.value(row)).ok_or_else(malformed)?;
                Ok(Self { partition: partitions.value(row), rows: rows.value(row), shards })
            })
            .collect()
    }
}

struct ShardRow<'a>(&'a mut StructBuilder);

impl ShardRow<'_> {
    fn append(&mut self, shard: &StagedShard) -> Result<()> {
        self.field::<StringBuilder>(0)?.append_value(&shard.staged);
        self.field::<StringBuilder>(1)?.append_option(shard.upload.as_ref().map(|upload| &upload.id));
        let parts = shard.upload.iter().flat_map(|upload| &upload.parts);
        self.append_texts(2, parts.map(|part| Some(part.as_str())))?;
        self.field::<UInt32Builder>(3)?.append_value(shard.partition);
        self.field::<UInt32Builder>(4)?.append_value(shard.sequence);
        let ShardGroup { partition_values, split } = &shard.group;
        self.field::<StringBuilder>(5)?.append_option(split.as_ref());
        self.append_texts(6, partition_values.iter().map(|(column, _)| Some(column.as_str())))?;
        self.append_texts(7, partition_values.iter().map(|(_, value)| value.as_deref()))?;
        self.field::<UInt64Builder>(8)?.append_value(shard.rows);
        self.field::<UInt64Builder>(9)?.append_value(shard.framed_bytes);
        self.field::<UInt64Builder>(10)?.append_value(shard.file_bytes);
        self.field::<UInt32Builder>(11)?.append_value(shard.crc32c);
        let offsets = self.field::<ListBuilder<Box<dyn ArrayBuilder>>>(12)?;
        let numbers = offsets.values().as_any_mut().downcast_mut::<UInt64Builder>().ok_or_else(|| other_builder(12))?;
        for RecordOffset { record, framed, file } in &shard.offsets {
            numbers.append_slice(&[*record, *framed, *file]);
        }
        offsets.append(true);
        let index = shard.index.as_ref();
        let path = index.map(|index| {
            let not_text = || internal_datafusion_err!("{}: not UTF-8", index.path.display());
            index.path.to_str().ok_or_else(not_text)
        });
        self.field::<StringBuilder>(13)?.append_option(path.transpose()?);
        self.field::<UInt64Builder>(14)?.append_option(index.map(|index| index.file_bytes));
        self.field::<UInt32Builder>(15)?.append_option(index.map(|index| index.crc32c));
        self.0.append(true);
        Ok(())
    }

    fn append_texts<'a>(&mut self, index: usize, texts: impl Iterator<Item = Option<&'a str>>) -> Result<()> {
        let list = self.field::<ListBuilder<Box<dyn ArrayBuilder>>>(index)?;
        let items = list.values().as_any_mut().downcast_mut::<StringBuilder>().ok_or_else(|| other_builder(index))?;
        texts.for_each(|text| items.append_option(text));
        list.append(true);
        Ok(())
    }

    fn field<B: ArrayBuilder>(&mut self, index: usize) -> Result<&mut B> {
        self.0.field_builder::<B>(index).ok_or_else(|| other_builder(index))
    }
}

fn other_builder(index: usize) -> DataFusionError {
    internal_datafusion_err!("a shard's field {index} is not of its builder's type")
}

fn staged_shards(shards: &dyn Array) -> Option<Vec<StagedShard>> {
    let shards = shards.as_struct_opt()?;
    let [
        staged,
        upload,
        parts,
        partition,
        sequence,
        split,
        columns,
        values,
        rows,
        framed_bytes,
        file_bytes,
        crc32c,
        offsets,
        index,
        index_bytes,
        index_crc32c,
    ] = shards.columns()
    else {
        return None;
    };
    let (staged, upload) = (staged.as_string_opt::<i32>()?, upload.as_string_opt::<i32>()?);
    let texts = |lists: &ListArray, row| -> Vec<Option<String>> {
        lists.value(row).as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect()
    };
    let parts = parts.as_list_opt::<i32>()?;
    let parts_of = |row| texts(parts, row).into_iter().flatten().collect();
    let (split, columns, values) =
        (split.as_string_opt::<i32>()?, columns.as_list_opt::<i32>()?, values.as_list_opt::<i32>()?);
    let group = |row| ShardGroup {
        partition_values: texts(columns, row).into_iter().flatten().zip(texts(values, row)).collect(),
        split: split.is_valid(row).then(|| split.value(row).to_owned()),
    };
    let (partition, sequence) =
        (partition.as_primitive_opt::<UInt32Type>()?, sequence.as_primitive_opt::<UInt32Type>()?);
    let (rows, framed_bytes) = (rows.as_primitive_opt::<UInt64Type>()?, framed_bytes.as_primitive_opt::<UInt64Type>()?);
    let (file_bytes, crc32c) = (file_bytes.as_primitive_opt::<UInt64Type>()?, crc32c.as_primitive_opt::<UInt32Type>()?);
    let offsets = offsets.as_list_opt::<i32>()?;
    let (index, index_bytes) = (index.as_string_opt::<i32>()?, index_bytes.as_primitive_opt::<UInt64Type>()?);
    let index_crc32c = index_crc32c.as_primitive_opt::<UInt32Type>()?;
    let index_of = |row| {
        index.is_valid(row).then(|| StagedIndex {
            path: index.value(row).into(),
            file_bytes: index_bytes.value(row),
            crc32c: index_crc32c.value(row),
        })
    };
    let shard = |row| StagedShard {
        staged: staged.value(row).to_owned(),
        upload: upload.is_valid(row).then(|| StagedUpload { id: upload.value(row).to_owned(), parts: parts_of(row) }),
        partition: partition.value(row),
        sequence: sequence.value(row),
        group: group(row),
        rows: rows.value(row),
        framed_bytes: framed_bytes.value(row),
        file_bytes: file_bytes.value(row),
        crc32c: crc32c.value(row),
        offsets: record_offsets(offsets.value(row).as_primitive::<UInt64Type>().values()),
        index: index_of(row),
    };
    Some((0..shards.len()).map(shard).collect())
}

fn record_offsets(numbers: &[u64]) -> Vec<RecordOffset> {
    let (offsets, _) = numbers.as_chunks();
    offsets.iter().map(|&[record, framed, file]| RecordOffset { record, framed, file }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_survive_the_way_to_the_committer() -> Result<()> {
        let shard = |sequence| StagedShard {
            staged: format!("shard-{sequence}"),
            upload: (sequence != 1).then(|| StagedUpload {
                id: format!("upload {sequence}"),
                parts: (0..sequence).map(|part| format!("part {part}")).collect(),
            }),
            partition: 7,
            sequence,
            group: ShardGroup {
                partition_values: (0..sequence)
                    .map(|n| (format!("column {n}"), (n > 0).then(|| format!("value {n}"))))
                    .collect(),
                split: (sequence != 0).then(|| "train".to_owned()),
            },
            rows: 1 << 40,
            framed_bytes: 1 << 41,
            file_bytes: 1 << 42,
            crc32c: u32::MAX,
            offsets: (0..sequence.into()).map(|n| RecordOffset { record: n, framed: n << 24, file: n << 20 }).collect(),
            index: (sequence == 1).then(|| StagedIndex { path: "index".into(), file_bytes: 1 << 40, crc32c: 7 }),
        };
        for shards in [vec![], vec![shard(0), shard(3), shard(1)]] {
            let report = PartitionReport { partition: 7, rows: 1 << 41, shards };
            assert_eq!(PartitionReport::from_batch(&report.to_batch()?)?, [report]);
        }
        Ok(())
    }
}
