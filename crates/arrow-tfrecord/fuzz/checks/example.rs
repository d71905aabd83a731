//! Properties of decoding any records with any schema. If prost reads them too, the values are equal, and every
//! rejection has a valid reason. Pieces, projections and filters do not change the result.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow_tfrecord::{Error, ErrorKind, ReaderBuilder, RowFilter};
use prost::Message;
use tfr_proto::tensorflow::Example;
use tfr_proto::tensorflow::feature::Kind;

use super::records;

/// Bytes that choose the schema, before those of the file.
const CHOICES: usize = 4;

const MAX_COLUMNS: usize = 8;

pub fn check(data: &[u8]) {
    let Some((choices, file)) = data.split_first_chunk::<CHOICES>() else { return };
    let records = records::records(file);
    let file = records::framed(&records);
    let examples: Result<Vec<_>, _> = records.iter().map(|record| Example::decode(*record)).collect();
    let schema = schema(choices, &records);
    let builder = ReaderBuilder::new(Arc::clone(&schema));

    let whole = decode(builder.clone(), &file, file.len().max(1));
    let pieces = decode(builder.clone(), &file, 37);
    let filtered = decode(
        builder
            .clone()
            .with_row_filter(RowFilter::new(vec![0], |batch| Ok(BooleanArray::from(vec![true; batch.num_rows()])))),
        &file,
        file.len().max(1),
    );
    match &whole {
        Ok(batch) => {
            let same = |other: &Result<RecordBatch, Error>| {
                other.as_ref().is_ok_and(|other| {
                    batch.columns().iter().zip(other.columns()).all(|(a, b)| is_same(a, b))
                        && batch.num_rows() == other.num_rows()
                })
            };
            assert!(same(&pieces), "{batch:?}\n{pieces:?}");
            assert!(same(&filtered), "{batch:?}\n{filtered:?}");
            let last = schema.fields().len() - 1;
            let projected = decode(builder.with_projection(vec![last]), &file, 1000).expect("a projection");
            assert!(is_same(batch.column(last), projected.column(0)));
        }
        Err(_) => assert!(pieces.is_err() && filtered.is_err()),
    }
    if let Ok(examples) = examples {
        check_against(&examples, &schema, &whole);
    }
}

/// Columns for the features of the records, their types chosen by bytes.
fn schema(choices: &[u8; CHOICES], records: &[&[u8]]) -> SchemaRef {
    let examples = records.iter().filter_map(|record| Example::decode(*record).ok());
    let mut names: BTreeSet<String> =
        examples.flat_map(|example| example.features.unwrap_or_default().feature.into_keys()).collect();
    names.remove("");
    names.insert("a".to_owned());
    let field = |(number, name): (usize, String)| {
        let choice = choices[number % CHOICES].wrapping_add((number / CHOICES) as u8);
        Field::new(name, data_type(choice), !choice.is_multiple_of(7))
    };
    Arc::new(Schema::new(names.into_iter().take(MAX_COLUMNS).enumerate().map(field).collect::<Vec<_>>()))
}

fn data_type(choice: u8) -> DataType {
    let item = |data_type| Arc::new(Field::new_list_field(data_type, true));
    let plain = [DataType::Int64, DataType::Float32, DataType::Binary];
    let other = [
        DataType::Boolean,
        DataType::Int8,
        DataType::UInt64,
        DataType::Float16,
        DataType::Float64,
        DataType::Decimal128(10, 2),
        DataType::Utf8,
        DataType::Utf8View,
        DataType::Date32,
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::FixedSizeBinary(2),
        DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)),
        DataType::RunEndEncoded(
            Arc::new(Field::new("run_ends", DataType::Int32, false)),
            Arc::new(Field::new("values", DataType::Int64, true)),
        ),
        DataType::Null,
        DataType::LargeList(item(DataType::Utf8)),
        DataType::ListView(item(DataType::Int64)),
        DataType::FixedSizeList(item(DataType::LargeUtf8), 1),
    ];
    let choice = usize::from(choice);
    match choice / 3 % 6 {
        0 | 1 => plain[choice % 3].clone(),
        2 | 3 => DataType::List(item(plain[choice % 3].clone())),
        4 => DataType::FixedSizeList(item(plain[choice % 3].clone()), 2),
        _ => other[(choice / 18 * 3 + choice % 3) % other.len()].clone(),
    }
}

fn decode(builder: ReaderBuilder, file: &[u8], piece: usize) -> Result<RecordBatch, Error> {
    let mut decoder = builder.build_decoder()?;
    for piece in file.chunks(piece).chain([&[][..]]) {
        if decoder.decode(piece)? < piece.len() {
            // There are too few records to fill a batch, so one of them must be rejected.
            assert_eq!(decoder.capacity(), 0);
            return Err(decoder.flush().expect_err("a full batch"));
        }
    }
    let batch = decoder.flush()?;
    Ok(batch.unwrap_or_else(|| RecordBatch::new_empty(decoder.schema())))
}

/// Whether the values are the same, NaNs by their bits.
fn is_same(a: &ArrayRef, b: &ArrayRef) -> bool {
    a.to_data() == b.to_data()
}

/// Values as prost has them, floats by their bits.
#[derive(Debug, PartialEq)]
enum Values {
    Int64(Vec<i64>),
    Float(Vec<u32>),
    Bytes(Vec<Vec<u8>>),
}

fn check_against(examples: &[Example], schema: &SchemaRef, ours: &Result<RecordBatch, Error>) {
    let theirs = |row: usize, name: &str| {
        let kind = examples[row].features.as_ref()?.feature.get(name)?.kind.as_ref()?;
        Some(match kind {
            Kind::Int64List(list) => Values::Int64(list.value.clone()),
            Kind::FloatList(list) => Values::Float(list.value.iter().map(|value| value.to_bits()).collect()),
            Kind::BytesList(list) => Values::Bytes(list.value.clone()),
        })
    };
    let mut fits = true;
    let mut is_known = true;
    for (column, field) in schema.fields().iter().enumerate() {
        let (item, count) = match field.data_type() {
            DataType::List(item) => (item.data_type(), None),
            DataType::FixedSizeList(item, len) => (item.data_type(), usize::try_from(*len).ok()),
            plain => (plain, Some(1)),
        };
        if !matches!(item, DataType::Int64 | DataType::Float32 | DataType::Binary) {
            is_known = false;
            continue;
        }
        for row in 0..examples.len() {
            let theirs = theirs(row, field.name());
            fits &= match (&theirs, item) {
                (None, _) => field.is_nullable(),
                (Some(Values::Int64(values)), DataType::Int64) => count.is_none_or(|count| count == values.len()),
                (Some(Values::Float(values)), DataType::Float32) => count.is_none_or(|count| count == values.len()),
                (Some(Values::Bytes(values)), DataType::Binary) => count.is_none_or(|count| count == values.len()),
                _ => false,
            };
            if let Ok(batch) = ours {
                assert_eq!(values(batch.column(column), row), theirs, "{field:?}, row {row}");
            }
        }
    }
    match ours {
        Ok(batch) => assert!(fits && batch.num_rows() == examples.len()),
        Err(error) => match error.kind() {
            // prost reads an entry of a map whatever the wire type of its tag is; so between features it is no oracle.
            ErrorKind::Malformed { feature: None, .. } => {}
            ErrorKind::KindMismatch { .. } | ErrorKind::ValueCount { .. } | ErrorKind::MissingFeature { .. } => {
                assert!(!fits || !is_known, "{error}");
            }
            ErrorKind::InvalidValue { .. } | ErrorKind::TooManyValues { .. } => assert!(!is_known, "{error}"),
            _ => panic!("{error}"),
        },
    }
}

/// The values of a row; none if it is null.
fn values(array: &ArrayRef, row: usize) -> Option<Values> {
    if array.is_null(row) {
        return None;
    }
    let values = match array.data_type() {
        DataType::List(_) => array.as_list::<i32>().value(row),
        DataType::FixedSizeList(..) => array.as_fixed_size_list().value(row),
        _ => array.slice(row, 1),
    };
    assert_eq!(values.null_count(), 0);
    Some(match values.data_type() {
        DataType::Int64 => Values::Int64(values.as_primitive::<Int64Type>().values().to_vec()),
        DataType::Float32 => {
            Values::Float(values.as_primitive::<Float32Type>().values().iter().map(|value| value.to_bits()).collect())
        }
        _ => Values::Bytes(values.as_binary::<i32>().iter().flatten().map(<[u8]>::to_vec).collect()),
    })
}
