//! [`OrcColumn`]: the columns of a file, in Arrow's types and in the types to which the library decodes them.
//!
//! The two differ where the library would lose data. Timestamps are decoded as decimals, which represent all of them,
//! and moved to the writer's local time by [`Clock`]. Short integers are decoded as long ones: the library sums runs in
//! the result type, and fails if only an intermediate sum is out of range (apache/auron#1636). It does not support the
//! decimals of ORC 2, which are encoded as integers.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowTimestampType, Date32Type, Decimal128Type, Int16Type, Int32Type, Int64Type, Time64MicrosecondType,
    TimestampMicrosecondType, TimestampNanosecondType,
};
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_schema::{ArrowError, DECIMAL128_MAX_PRECISION, DataType, Field, Fields, TimeUnit};
use chrono::DateTime;
use tfr_arrow::nested::{child_arrays, children, key_and_value, with_children};
use tfr_files::AcidColumns;

use super::clock::Clock;
use super::proto::{StringPair, Type, kind};
use crate::calendar::{Rule, Watched};
use crate::error::{Error, ErrorKind, Result, Within};
use crate::foreign::UnsupportedFormat;
use crate::mapped::with_field_id;

/// Maximum digits of a decimal that ORC 2 stores as an integer.
const MAX_INTEGER_PRECISION: u32 = 18;

/// A decimal type that represents every timestamp: seconds with nine decimal places.
const SECONDS: DataType = DataType::Decimal128(DECIMAL128_MAX_PRECISION, 9);

/// The unit of the timestamps of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampUnit {
    /// From 1677 to 2262, exact.
    Nanosecond,
    /// All years; a more precise timestamp is an error.
    Microsecond,
    /// All years; digits beyond a microsecond are cut off and counted.
    MicrosecondCut,
}

/// What a finding about cut timestamps is about.
pub(crate) const CUT_TIMESTAMPS: &str = "timestamps finer than their type, which are cut";

impl From<TimestampUnit> for TimeUnit {
    fn from(unit: TimestampUnit) -> Self {
        match unit {
            TimestampUnit::Nanosecond => Self::Nanosecond,
            TimestampUnit::Microsecond | TimestampUnit::MicrosecondCut => Self::Microsecond,
        }
    }
}

/// A column of a file.
#[derive(Debug)]
pub(super) struct OrcColumn {
    pub(super) name: String,
    /// The id of the column, if attributes count.
    pub(super) id: Option<i32>,
    /// The file's types that belong to the column: its own first, then its parts.
    pub(super) types: std::ops::Range<usize>,
    pub(super) data_type: DataType,
    /// The type to which the library decodes it.
    pub(super) decoded: DataType,
    /// Why the column cannot be read, as a noun phrase. Its types are null then.
    pub(super) unreadable: Option<String>,
    /// The calendar rule of each of its leaves.
    pub(super) rules: Vec<Rule>,
    /// Which of its values are ambiguous.
    pub(super) watched: Watched,
}

impl OrcColumn {
    /// Returns the column as a field with its name and id in the file.
    pub(super) fn field(&self) -> Field {
        with_field_id(Field::new(&self.name, self.data_type.clone(), true), self.id)
    }
}

/// The attribute with the id of a column or part.
const ICEBERG_ID: &str = "iceberg.id";

/// How the types of a file are read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TypeRules {
    /// The unit of timestamps; `None`: by the file's statistics.
    pub(super) unit: Option<TimestampUnit>,
    /// Whether the attributes that Iceberg adds to types count: ids, and types that ORC does not have.
    pub(super) attributes: bool,
    /// Which columns count in a file with the changes of transactions.
    pub(super) acid: AcidColumns,
}

impl Type {
    /// Whether the column is nested.
    pub(super) fn is_nested(&self) -> bool {
        matches!(self.kind, kind::LIST | kind::MAP | kind::STRUCT | kind::UNION)
    }

    fn attribute(&self, key: &str) -> Option<&str> {
        self.attributes.iter().find(|pair| pair.key == key).map(|pair| pair.value.as_str())
    }

    /// Returns the id by which an Iceberg table finds the column or part.
    pub(super) fn id(&self) -> Option<i32> {
        self.attribute(ICEBERG_ID)?.parse().ok()
    }

    fn malformed_id(&self) -> Option<&str> {
        self.attribute(ICEBERG_ID).filter(|id| id.parse::<i32>().is_err())
    }

    /// Returns the unit that Iceberg records for a timestamp.
    pub(super) fn iceberg_unit(&self) -> Option<TimestampUnit> {
        match self.attribute("iceberg.timestamp-unit")? {
            "MICROS" => Some(TimestampUnit::Microsecond),
            "NANOS" => Some(TimestampUnit::Nanosecond),
            _ => None,
        }
    }

    /// Whether Iceberg stored a time of day in this long integer type, as microseconds.
    fn is_iceberg_time(&self) -> bool {
        self.kind == kind::LONG && self.attribute("iceberg.long-type") == Some("TIME")
    }
}

/// Whether Spark stored timestamps without time zone in this long integer type, as microseconds since 1970.
pub(super) fn is_spark_ntz(found: &Type) -> bool {
    let is_ntz = |pair: &StringPair| pair.key == "spark.sql.catalyst.type" && pair.value == "timestamp_ntz";
    found.kind == kind::LONG && found.attributes.iter().any(is_ntz)
}

/// The columns of a file in which Hive records the changes of transactions. The last one is a struct with the columns of
/// the table.
const ACID_COLUMNS: [(&str, i32); 6] = [
    ("operation", kind::INT),
    ("originalTransaction", kind::LONG),
    ("bucket", kind::INT),
    ("rowId", kind::LONG),
    ("currentTransaction", kind::LONG),
    ("row", kind::STRUCT),
];

/// Returns the type of the column that contains the columns of the table, in a file with the changes of transactions of Hive.
pub(super) fn acid_row(types: &[Type]) -> Option<usize> {
    let root = types.first().filter(|root| root.kind == kind::STRUCT && root.subtypes.len() == ACID_COLUMNS.len())?;
    let mut found = root.field_names.iter().zip(&root.subtypes);
    let is_acid = ACID_COLUMNS
        .iter()
        .all(|(name, kind)| found.next().is_some_and(|(found, id)| found == name && types[*id as usize].kind == *kind));
    root.subtypes.last().filter(|_| is_acid).map(|id| *id as usize)
}

/// Returns the columns of a file whose types were checked to be a tree, and the type of the struct that contains them, if it
/// is not the root.
pub(super) fn columns_of_table(
    types: &[Type],
    is_v2: bool,
    rules: TypeRules,
    unit_of: impl Fn(usize) -> TimestampUnit,
    file: &str,
) -> Result<(Vec<OrcColumn>, Option<usize>)> {
    let row = acid_row(types);
    match (rules.acid, row) {
        (AcidColumns::Row, Some(row)) => {
            Ok((columns(types, row, types.len(), is_v2, rules.attributes, unit_of, file)?, Some(row)))
        }
        (AcidColumns::RowIds, Some(row)) => {
            let mut found = columns(types, 0, types.len(), is_v2, rules.attributes, unit_of, file)?;
            found.pop();
            if let Some(last) = found.last_mut() {
                last.types.end = row;
            }
            Ok((found, None))
        }
        _ => Ok((columns(types, 0, types.len(), is_v2, rules.attributes, unit_of, file)?, None)),
    }
}

/// Returns the fields of the struct `root`, whose types end at `end`.
fn columns(
    types: &[Type],
    root: usize,
    end: usize,
    is_v2: bool,
    attributes: bool,
    unit_of: impl Fn(usize) -> TimestampUnit,
    file: &str,
) -> Result<Vec<OrcColumn>> {
    let root = &types[root];
    if root.kind != kind::STRUCT {
        let format = UnsupportedFormat::Named("ORC files of single values, not of rows,");
        return Err(ErrorKind::UnsupportedFormat { file: file.to_owned(), format }.into());
    }
    if let Some(id) = types.iter().find_map(Type::malformed_id).filter(|_| attributes) {
        let reason = format!("a type in its footer has the id {id:?}, which is not a number of 32 bits");
        return Err(Error::damaged(file, Within::File, &reason));
    }
    let mut names = HashSet::new();
    let mut columns: Vec<OrcColumn> = Vec::with_capacity(root.subtypes.len());
    for (name, id) in root.field_names.iter().zip(&root.subtypes) {
        if !names.insert(name) {
            return Err(ErrorKind::DuplicateColumn { file: file.to_owned(), column: name.clone() }.into());
        }
        let id = *id as usize;
        let part = TypeTree { types, is_v2, attributes, unit_of: &unit_of };
        let found = part.data_types(id);
        let unreadable = found.as_ref().err().cloned();
        let (data_type, decoded) = found.unwrap_or((DataType::Null, DataType::Null));
        if let Some(before) = columns.last_mut() {
            before.types.end = id;
        }
        let watched = Watched { column: name.clone(), leaves: Vec::new() };
        columns.push(OrcColumn {
            name: name.clone(),
            id: part.id(id),
            types: id..end,
            data_type,
            decoded,
            unreadable,
            rules: Vec::new(),
            watched,
        });
    }
    Ok(columns)
}

/// Returns the types with which the library decodes a file.
pub(super) fn decoded_types(types: &[Type], columns: &[OrcColumn]) -> Vec<Type> {
    let mut types = types.to_vec();
    for column in columns {
        mark_integers(&column.decoded, &mut types, column.types.start);
    }
    types
}

/// Changes types to long integers where they are decoded as such.
fn mark_integers(decoded: &DataType, types: &mut [Type], id: usize) {
    if *decoded == DataType::Int64 {
        types[id].kind = kind::LONG;
    }
    let parts = types[id].subtypes.clone();
    let parts_of = |data_type| match key_and_value(data_type) {
        Some((key, value)) => vec![key.data_type(), value.data_type()],
        None => children(data_type),
    };
    for (part, id) in parts_of(decoded).into_iter().zip(parts) {
        mark_integers(part, types, id as usize);
    }
}

struct TypeTree<'a, F> {
    types: &'a [Type],
    is_v2: bool,
    attributes: bool,
    unit_of: &'a F,
}

impl<F: Fn(usize) -> TimestampUnit> TypeTree<'_, F> {
    fn id(&self, id: usize) -> Option<i32> {
        self.types[id].id().filter(|_| self.attributes)
    }

    /// Returns the type in the table, and the type to which the library decodes. The error names the unsupported type.
    fn data_types(&self, id: usize) -> Result<(DataType, DataType), String> {
        let found = &self.types[id];
        let part = |index: usize| self.data_types(found.subtypes[index] as usize);
        let same = |data_type: DataType| Ok((data_type.clone(), data_type));
        match found.kind {
            kind::BOOLEAN => same(DataType::Boolean),
            kind::BYTE => same(DataType::Int8),
            kind::SHORT => Ok((DataType::Int16, DataType::Int64)),
            kind::INT => Ok((DataType::Int32, DataType::Int64)),
            kind::LONG if is_spark_ntz(found) => {
                Ok((DataType::Timestamp(TimeUnit::Microsecond, None), DataType::Int64))
            }
            kind::LONG if self.attributes && found.is_iceberg_time() => {
                Ok((DataType::Time64(TimeUnit::Microsecond), DataType::Int64))
            }
            kind::LONG => same(DataType::Int64),
            kind::FLOAT => same(DataType::Float32),
            kind::DOUBLE => same(DataType::Float64),
            kind::STRING | kind::VARCHAR | kind::CHAR => same(DataType::Utf8),
            kind::BINARY => same(DataType::Binary),
            kind::DATE => Ok((DataType::Date32, DataType::Int64)),
            kind::TIMESTAMP => Ok((DataType::Timestamp((self.unit_of)(id).into(), None), SECONDS)),
            kind::TIMESTAMP_INSTANT => {
                Ok((DataType::Timestamp((self.unit_of)(id).into(), Some(Arc::from("UTC"))), SECONDS))
            }
            kind::DECIMAL => {
                let decimal = decimal(found)?;
                let is_integer = self.is_v2 && found.precision <= MAX_INTEGER_PRECISION;
                Ok((decimal.clone(), if is_integer { DataType::Int64 } else { decimal }))
            }
            kind::LIST => {
                let (item, decoded) = part(0)?;
                Ok((DataType::new_list(item, true), DataType::new_list(decoded, true)))
            }
            kind::MAP => {
                let ((key, decoded_key), (value, decoded_value)) = (part(0)?, part(1)?);
                Ok((map(key, value), map(decoded_key, decoded_value)))
            }
            kind::STRUCT => {
                let mut fields = (Vec::new(), Vec::new());
                for (index, name) in found.field_names.iter().enumerate() {
                    let (field, decoded) = part(index)?;
                    let id = self.id(found.subtypes[index] as usize);
                    fields.0.push(with_field_id(Field::new(name, field, true), id));
                    fields.1.push(Field::new(name, decoded, true));
                }
                Ok((DataType::Struct(fields.0.into()), DataType::Struct(fields.1.into())))
            }
            kind::UNION => Err("a union".to_owned()),
            kind::GEOMETRY => Err("a geometry".to_owned()),
            kind::GEOGRAPHY => Err("a geography".to_owned()),
            other => Err(format!("a value of type {other}, which this version does not support,")),
        }
    }
}

fn map(key: DataType, value: DataType) -> DataType {
    let entries = Fields::from(vec![Field::new("key", key, false), Field::new("value", value, true)]);
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entries), false)), false)
}

fn decimal(found: &Type) -> Result<DataType, String> {
    let (precision, scale) = (found.precision, found.scale);
    let fits = |number: u32| u8::try_from(number).ok().filter(|number| *number <= DECIMAL128_MAX_PRECISION);
    match (fits(precision), fits(scale)) {
        (Some(0), _) => Err("a decimal without precision and scale, as Hive 0.11 wrote them,".to_owned()),
        (Some(digits), Some(places)) if places <= digits => Ok(DataType::Decimal128(digits, places as i8)),
        _ => Err(format!("a decimal of {precision} digits with {scale} places")),
    }
}

/// A value that is out of range for its column.
#[derive(Debug)]
pub(super) struct OutOfRange {
    pub(super) value: String,
    pub(super) expected: DataType,
}

/// Why a decoded array cannot be converted to the column's type.
#[derive(Debug)]
pub(super) enum FinishFailure {
    Mismatch(OutOfRange),
    Arrow(ArrowError),
}

impl From<ArrowError> for FinishFailure {
    fn from(error: ArrowError) -> Self {
        Self::Arrow(error)
    }
}

/// Converts what the library decoded to the column's type.
pub(super) fn finished(
    array: &ArrayRef,
    data_type: &DataType,
    clock: Option<&Clock>,
) -> Result<ArrayRef, FinishFailure> {
    finished_within(array, data_type, clock, None)
}

/// As [`finished`], but cuts timestamps that are finer than their type; also returns their number.
pub(super) fn finished_cut(
    array: &ArrayRef,
    data_type: &DataType,
    clock: Option<&Clock>,
) -> Result<(ArrayRef, u64), FinishFailure> {
    let cut = Cell::new(0);
    let array = finished_within(array, data_type, clock, Some(&cut))?;
    Ok((array, cut.get()))
}

fn finished_within(
    array: &ArrayRef,
    data_type: &DataType,
    clock: Option<&Clock>,
    cut: Option<&Cell<u64>>,
) -> Result<ArrayRef, FinishFailure> {
    match (array.data_type(), data_type) {
        // The library rescales decimals without checking their number of digits.
        (found @ DataType::Decimal128(precision, _), wanted) if found == wanted => {
            array.as_primitive::<Decimal128Type>().validate_decimal_precision(*precision)?;
            Ok(Arc::clone(array))
        }
        (found, wanted) if found == wanted => Ok(Arc::clone(array)),
        (found, DataType::Timestamp(unit, zone)) if *found == SECONDS => {
            // Instants are in UTC, whatever the writer's time zone.
            let clock = clock.filter(|_| zone.is_none());
            match unit {
                TimeUnit::Nanosecond => timestamps::<TimestampNanosecondType>(array, 1, data_type, clock, cut),
                _ => timestamps::<TimestampMicrosecondType>(array, 1_000, data_type, clock, cut),
            }
        }
        // Keep the lowest bits, like all readers: some writers wrap around the range of the type.
        (DataType::Int64, DataType::Int16) => {
            let values: PrimitiveArray<Int16Type> = array.as_primitive::<Int64Type>().unary(|value| value as i16);
            Ok(Arc::new(values))
        }
        (DataType::Int64, DataType::Int32) => {
            let values: PrimitiveArray<Int32Type> = array.as_primitive::<Int64Type>().unary(|value| value as i32);
            Ok(Arc::new(values))
        }
        (DataType::Int64, DataType::Date32) => {
            let values: PrimitiveArray<Date32Type> = array.as_primitive::<Int64Type>().unary(|value| value as i32);
            Ok(Arc::new(values))
        }
        (DataType::Int64, DataType::Timestamp(TimeUnit::Microsecond, None)) => {
            let values: PrimitiveArray<TimestampMicrosecondType> = array.as_primitive::<Int64Type>().reinterpret_cast();
            Ok(Arc::new(values))
        }
        (DataType::Int64, DataType::Time64(TimeUnit::Microsecond)) => {
            let values: PrimitiveArray<Time64MicrosecondType> = array.as_primitive::<Int64Type>().reinterpret_cast();
            Ok(Arc::new(values))
        }
        (DataType::Int64, DataType::Decimal128(precision, scale)) => {
            let values: PrimitiveArray<Decimal128Type> = array.as_primitive::<Int64Type>().unary(i128::from);
            let values = values.with_precision_and_scale(*precision, *scale)?;
            values.validate_decimal_precision(*precision)?;
            Ok(Arc::new(values))
        }
        (found, wanted) if found.is_nested() && wanted.is_nested() => {
            let parts = child_arrays(array).into_iter().zip(children(wanted));
            let parts = parts
                .map(|(part, wanted)| finished_within(&part, wanted, clock, cut))
                .collect::<Result<Vec<_>, _>>()?;
            Ok(with_children(array, wanted, &parts)?)
        }
        _ => Ok(Arc::clone(array)),
    }
}

fn timestamps<T: ArrowTimestampType>(
    array: &ArrayRef,
    nanoseconds: i128,
    data_type: &DataType,
    clock: Option<&Clock>,
    cut: Option<&Cell<u64>>,
) -> Result<ArrayRef, FinishFailure> {
    let seconds = array.as_primitive::<Decimal128Type>();
    let fit = |value: i128| {
        if value % nanoseconds != 0 {
            let cut = cut?;
            cut.set(cut.get() + 1);
        }
        i64::try_from(value.div_euclid(nanoseconds)).ok()
    };
    let shown = |value: i128| clock.map_or(value, |clock| clock.shown(value));
    let fitting = seconds.try_unary::<_, T, i128>(|value| fit(shown(value)).ok_or(value));
    match fitting {
        Ok(timestamps) => Ok(Arc::new(timestamps.with_data_type(data_type.clone()))),
        Err(value) => {
            let value = shown(value);
            let (seconds, nanoseconds) = (value.div_euclid(1_000_000_000), value.rem_euclid(1_000_000_000));
            let moment =
                i64::try_from(seconds).ok().and_then(|seconds| DateTime::from_timestamp(seconds, nanoseconds as u32));
            let value = match moment {
                Some(moment) => moment.naive_utc().format("%FT%T%.f").to_string(),
                None => format!("{seconds}.{nanoseconds:09} seconds since 1970"),
            };
            Err(FinishFailure::Mismatch(OutOfRange { value, expected: data_type.clone() }))
        }
    }
}
