//! [`differences`]: a table that went through shards, against what it was.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait, RecordBatch,
    StringArray, StructArray, make_array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Float16Type, Float32Type, Float64Type, Int64Type, TimeUnit};
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// What was said of the columns when they were written.
#[derive(Default, Clone)]
pub struct Rules<'a> {
    /// The form of a column, or of a part of one: `point/x`.
    pub choices: BTreeMap<&'a str, &'a str>,
    /// Whether masks say where nulls are.
    pub masks: bool,
    /// Of SequenceExamples: the lists of scalars that are feature lists too.
    pub sequences: Option<&'a [&'a str]>,
}

impl Rules<'_> {
    /// The arguments that say it.
    pub fn arguments(&self) -> Vec<String> {
        let nulls = if self.masks { "mask" } else { "absent" };
        let mut arguments = vec!["--null".to_owned(), nulls.to_owned()];
        for (column, choice) in &self.choices {
            arguments.extend(["--map".to_owned(), format!("{column}: {choice}")]);
        }
        if let Some(sequences) = self.sequences {
            arguments.extend(["--record-type", "sequence-example", "--sequence"].map(str::to_owned));
            arguments.push(sequences.join(","));
        }
        arguments
    }

    /// What is said of a part, or else of what it is in.
    fn choice(&self, path: &str) -> Option<&str> {
        let choice = self.choices.get(path).copied();
        choice.or_else(|| path.rsplit_once('/').and_then(|(around, _)| self.choice(around)))
    }
}

/// What differs, a line each, of a table and the same table read from its shards. Types must be equal, and values too,
/// but for what mapping them loses:
///
/// * a Float64 is the double of the nearest float32, unless a form was chosen for its column
/// * so is a decimal, up to the digits that a float32 has; of six digits or less it is the same
/// * a time in a coarser unit is rounded down
/// * one NaN is as good as another
/// * without masks, a struct of nothing but nulls that stands in no list is null
pub fn differences(source: &RecordBatch, found: &RecordBatch, rules: &Rules) -> Vec<String> {
    let fields = |batch: &RecordBatch| -> Vec<String> {
        let schema = batch.schema();
        schema.fields().iter().map(|field| format!("{:?}: {}", field.name(), field.data_type())).collect()
    };
    if fields(source) != fields(found) {
        return vec![format!("columns {:?}\n   instead of {:?}", fields(found), fields(source))];
    }
    if source.num_rows() != found.num_rows() {
        return vec![format!("{} rows instead of {}", found.num_rows(), source.num_rows())];
    }
    let schema = source.schema();
    let columns = schema.fields().iter().zip(source.columns().iter().zip(found.columns()));
    let differs = columns.filter_map(|(field, (source, found))| {
        let mut source = each_leaf(source, field.name(), &|leaf, path| written(leaf, rules.choice(path)));
        if !rules.masks {
            source = without_structs_of_nulls(&source, field);
        }
        let found = each_leaf(found, field.name(), &|leaf, path| read(leaf, rules.choice(path)));
        if source.to_data() == found.to_data() {
            return None;
        }
        let row = (0..source.len()).find(|row| source.slice(*row, 1).to_data() != found.slice(*row, 1).to_data());
        let cell = |array: &ArrayRef| {
            let shown = row.map(|row| {
                ArrayFormatter::try_new(array, &FormatOptions::new().with_null("null"))
                    .map(|shown| shown.value(row).to_string())
            });
            format!("{shown:.200?}")
        };
        Some(format!("{:?}, row {row:?}: {} instead of {}", field.name(), cell(&found), cell(&source)))
    });
    differs.collect()
}

/// What is in a leaf, given also the path of the part that it is.
type Change<'a> = &'a dyn Fn(ArrayRef, &str) -> ArrayRef;

/// The array with what it is made of changed: elements of lists, fields of structs, values of dictionaries and runs.
/// The last two are plain then.
fn each_leaf(array: &ArrayRef, path: &str, change: Change) -> ArrayRef {
    fn list<O: OffsetSizeTrait>(array: &ArrayRef, path: &str, change: Change) -> ArrayRef {
        let (field, offsets, values, nulls) = array.as_list::<O>().clone().into_parts();
        let values = each_leaf(&values, path, change);
        Arc::new(GenericListArray::<O>::new(retype(&field, &values), offsets, values, nulls))
    }
    let recast = |data_type: &DataType| each_leaf(&cast(array, data_type).unwrap(), path, change);
    match array.data_type() {
        DataType::Dictionary(_, values) => recast(values),
        DataType::RunEndEncoded(_, values) => recast(values.data_type()),
        DataType::ListView(item) => recast(&DataType::List(Arc::clone(item))),
        DataType::LargeListView(item) => recast(&DataType::LargeList(Arc::clone(item))),
        DataType::List(_) => list::<i32>(array, path, change),
        DataType::LargeList(_) => list::<i64>(array, path, change),
        DataType::FixedSizeList(field, len) => {
            let values = each_leaf(array.as_fixed_size_list().values(), path, change);
            let (field, nulls, rows) = (retype(field, &values), array.nulls().cloned(), array.len());
            Arc::new(FixedSizeListArray::try_new_with_length(field, *len, values, nulls, rows).unwrap())
        }
        DataType::Struct(fields) => {
            let names: Vec<_> = fields.iter().map(|field| field.name().as_str()).collect();
            Arc::new(each_field(array.as_struct(), &names, path, change))
        }
        DataType::Map(..) => {
            let (field, offsets, entries, nulls, ordered) = array.as_map().clone().into_parts();
            let entries = each_field(&entries, &["key", "value"], path, change);
            let field = Arc::new(field.as_ref().clone().with_data_type(entries.data_type().clone()));
            Arc::new(MapArray::new(field, offsets, entries, nulls, ordered))
        }
        _ => change(ArrayRef::clone(array), path),
    }
}

fn each_field(structs: &StructArray, names: &[&str], path: &str, change: Change) -> StructArray {
    let named = structs.columns().iter().zip(names);
    let children: Vec<_> = named.map(|(child, name)| each_leaf(child, &format!("{path}/{name}"), change)).collect();
    let fields: Vec<_> = structs.fields().iter().zip(&children).map(|(field, child)| retype(field, child)).collect();
    with_fields(fields, children, structs)
}

fn with_fields(fields: Vec<FieldRef>, children: Vec<ArrayRef>, structs: &StructArray) -> StructArray {
    StructArray::try_new_with_length(fields.into(), children, structs.nulls().cloned(), structs.len()).unwrap()
}

fn retype(field: &FieldRef, values: &ArrayRef) -> FieldRef {
    Arc::new(field.as_ref().clone().with_data_type(values.data_type().clone()))
}

/// A struct of which no field is in a record is not told from null, unless it has a field that always is.
fn without_structs_of_nulls(array: &ArrayRef, field: &Field) -> ArrayRef {
    let DataType::Struct(fields) = array.data_type() else { return ArrayRef::clone(array) };
    let children = array.as_struct().columns().iter().zip(fields);
    let children = children.map(|(child, field)| without_structs_of_nulls(child, field)).collect();
    let structs = with_fields(fields.to_vec(), children, array.as_struct());
    if !field.is_nullable() || fields.iter().any(|field| is_always_there(field)) {
        return Arc::new(structs);
    }
    let (fields, children, nulls) = structs.clone().into_parts();
    let there: NullBuffer = (0..array.len()).map(|row| is_present(&structs, row)).collect();
    let nulls = NullBuffer::union(nulls.as_ref(), Some(&there));
    Arc::new(StructArray::try_new_with_length(fields, children, nulls, array.len()).unwrap())
}

fn is_always_there(field: &Field) -> bool {
    !field.is_nullable()
        && match field.data_type() {
            DataType::Struct(fields) => fields.iter().any(|field| is_always_there(field)),
            leaf => *leaf != DataType::Null,
        }
}

/// Whether a row has something in a record.
fn is_present(array: &dyn Array, row: usize) -> bool {
    array.is_valid(row)
        && match array.data_type() {
            DataType::Struct(_) => array.as_struct().columns().iter().any(|child| is_present(child, row)),
            leaf => *leaf != DataType::Null,
        }
}

/// What is expected to come back of a value.
fn written(leaf: ArrayRef, choice: Option<&str>) -> ArrayRef {
    let leaf = match (leaf.data_type(), choice) {
        (DataType::Float64, None) => {
            Arc::new(leaf.as_primitive::<Float64Type>().unary::<_, Float64Type>(|value| f64::from(value as f32)))
        }
        (data_type, Some(unit @ ("seconds" | "millis" | "micros"))) if data_type.is_temporal() => {
            let step = nanoseconds(unit) / nanoseconds(unit_of(data_type)).max(1);
            let data_type = data_type.clone();
            let integers = retyped(&leaf, DataType::Int64);
            let rounded = integers
                .as_primitive::<Int64Type>()
                .unary::<_, Int64Type>(|value| if step > 1 { value - value.rem_euclid(step) } else { value });
            retyped(&(Arc::new(rounded) as ArrayRef), data_type)
        }
        _ => leaf,
    };
    read(leaf, choice)
}

/// What is compared of a value that came back.
fn read(leaf: ArrayRef, choice: Option<&str>) -> ArrayRef {
    match leaf.data_type() {
        DataType::Float16 => Arc::new(leaf.as_primitive::<Float16Type>().unary::<_, Float32Type>(|value| {
            let value = value.to_f32();
            if value.is_nan() { f32::NAN } else { value }
        })),
        DataType::Float32 => Arc::new(
            leaf.as_primitive::<Float32Type>()
                .unary::<_, Float32Type>(|value| if value.is_nan() { f32::NAN } else { value }),
        ),
        DataType::Float64 => Arc::new(
            leaf.as_primitive::<Float64Type>()
                .unary::<_, Float64Type>(|value| if value.is_nan() { f64::NAN } else { value }),
        ),
        decimal if choice.is_none() && decimal.is_decimal() => {
            let text = cast(&leaf, &DataType::Utf8).unwrap();
            Arc::new(text.as_string::<i32>().iter().map(|text| text.map(significant)).collect::<StringArray>())
        }
        _ => leaf,
    }
}

/// A decimal, or, if it has more digits than every float32 holds, its float32. The standard library rounds it.
fn significant(decimal: &str) -> String {
    let digits = decimal.trim_start_matches(['-', '0', '.']).chars().filter(char::is_ascii_digit).count();
    if digits <= 6 { decimal.to_owned() } else { format!("{:?}", decimal.parse::<f32>().unwrap()) }
}

fn unit_of(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Date32 => "days",
        DataType::Date64 => "millis",
        DataType::Time32(unit) | DataType::Time64(unit) | DataType::Timestamp(unit, _) | DataType::Duration(unit) => {
            match unit {
                TimeUnit::Second => "seconds",
                TimeUnit::Millisecond => "millis",
                TimeUnit::Microsecond => "micros",
                TimeUnit::Nanosecond => "nanos",
            }
        }
        other => panic!("{other} has no unit"),
    }
}

fn nanoseconds(unit: &str) -> i64 {
    match unit {
        "days" => 86_400_000_000_000,
        "seconds" => 1_000_000_000,
        "millis" => 1_000_000,
        "micros" => 1_000,
        _ => 1,
    }
}

/// The same integers under another type.
fn retyped(array: &ArrayRef, data_type: DataType) -> ArrayRef {
    match (array.data_type().primitive_width(), data_type.primitive_width()) {
        (Some(8), Some(8)) => make_array(array.to_data().into_builder().data_type(data_type).build().unwrap()),
        (Some(4), _) => cast(
            &make_array(array.to_data().into_builder().data_type(DataType::Int32).build().unwrap()),
            &DataType::Int64,
        )
        .unwrap(),
        _ => {
            let narrow = cast(array, &DataType::Int32).unwrap();
            make_array(narrow.to_data().into_builder().data_type(data_type).build().unwrap())
        }
    }
}
