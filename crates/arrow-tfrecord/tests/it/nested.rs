//! Nested columns, by a model of the mapping that takes one row after the other.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::{DataType, Field};
use arrow_tfrecord::{
    Encoder, LossClass, Mapping, MappingOptions, NullPolicy, ReaderBuilder, RecordBuffer, RecordType, RowFilter,
};
use proptest::prelude::*;
use prost::Message;
use tfr_proto::tensorflow::feature::Kind;
use tfr_proto::tensorflow::{
    BytesList, Example, Feature, FeatureList, FeatureLists, Features, FloatList, Int64List, SequenceExample,
};

use tfrecord_framing::RecordReader;

use crate::nested_tables::{self, Nulls};

/// What is in one place of a column.
#[derive(Debug, Clone)]
pub enum Cell {
    Null,
    /// An array of one element.
    Value(ArrayRef),
    Struct(Vec<Cell>),
    List(Vec<Cell>),
}

pub fn cell(array: &ArrayRef, at: usize) -> Cell {
    if array.is_null(at) {
        return Cell::Null;
    }
    let all = |items: &ArrayRef| Cell::List((0..items.len()).map(|at| cell(items, at)).collect());
    match array.data_type() {
        DataType::Struct(_) => Cell::Struct(array.as_struct().columns().iter().map(|child| cell(child, at)).collect()),
        DataType::List(_) => all(&array.as_list::<i32>().value(at)),
        DataType::LargeList(_) => all(&array.as_list::<i64>().value(at)),
        DataType::ListView(_) => all(&array.as_list_view::<i32>().value(at)),
        DataType::FixedSizeList(..) => all(&array.as_fixed_size_list().value(at)),
        DataType::Map(..) => all(&(Arc::new(array.as_map().value(at)) as ArrayRef)),
        _ => Cell::Value(array.slice(at, 1)),
    }
}

/// A list of the kind that values of the type have.
fn kind(data_type: &DataType, values: &[Cell]) -> Kind {
    let data_type = match data_type {
        DataType::Dictionary(_, values) => values,
        plain => plain,
    };
    let cast = |value: &ArrayRef, to: &DataType| arrow_cast::cast(value, to).unwrap();
    match data_type {
        DataType::Float32 => {
            let value = values.iter().map(|value| match value {
                Cell::Value(value) => value.as_primitive::<Float32Type>().value(0),
                _ => 0.0,
            });
            Kind::FloatList(FloatList { value: value.collect() })
        }
        // Whole numbers of up to two digits, so the nearest float is the value.
        decimal if decimal.is_decimal() => {
            let value = values.iter().map(|value| match value {
                Cell::Value(value) => cast(value, &DataType::Float32).as_primitive::<Float32Type>().value(0),
                _ => 0.0,
            });
            Kind::FloatList(FloatList { value: value.collect() })
        }
        text if text.is_string() || text.is_binary() => {
            let value = values.iter().map(|value| match value {
                Cell::Value(value) => cast(value, &DataType::LargeBinary).as_binary::<i64>().value(0).to_vec(),
                _ => Vec::new(),
            });
            Kind::BytesList(BytesList { value: value.collect() })
        }
        _ => {
            let value = values.iter().map(|value| match value {
                Cell::Value(value) => cast(value, &DataType::Int64).as_primitive::<Int64Type>().value(0),
                _ => 0,
            });
            Kind::Int64List(Int64List { value: value.collect() })
        }
    }
}

fn int64s(values: Vec<i64>) -> Kind {
    Kind::Int64List(Int64List { value: values })
}

/// The features of one row.
struct Row {
    masks: bool,
    /// Whether this is a step of a feature list: it is always there, and stands in a list.
    step: bool,
    features: BTreeMap<String, Kind>,
}

impl Row {
    /// Adds the features of a part of a column: `slots` are all of it that is in the row, `lists` tells how many lists
    /// are around it, and `lengths` how long the inner ones are.
    fn add(&mut self, path: &str, field: &Field, slots: &[Cell], lists: usize, lengths: &[Vec<i64>]) {
        let is_null = || int64s(slots.iter().map(|cell| i64::from(matches!(cell, Cell::Null))).collect());
        let masked = self.masks && field.is_nullable();
        match field.data_type() {
            DataType::Struct(fields) => {
                if masked && (self.step || lists > 0 || !fields.iter().any(|field| always_there(field))) {
                    self.features.insert(format!("{path}/is_null"), is_null());
                }
                for (position, child) in fields.iter().enumerate() {
                    let slots: Vec<_> = slots
                        .iter()
                        .map(|cell| match cell {
                            Cell::Struct(children) => children[position].clone(),
                            _ => Cell::Null,
                        })
                        .collect();
                    self.add(&format!("{path}/{}", child.name()), child, &slots, lists, lengths);
                }
            }
            DataType::List(item) | DataType::LargeList(item) | DataType::ListView(item) => {
                self.add_list(path, item, None, masked, slots, lists, lengths);
            }
            DataType::FixedSizeList(item, len) => self.add_list(path, item, Some(*len), masked, slots, lists, lengths),
            DataType::Map(entries, _) => {
                let DataType::Struct(fields) = entries.data_type() else { panic!("entries are structs") };
                let renamed = fields.iter().zip(["key", "value"]);
                let fields: Vec<_> = renamed.map(|(field, name)| field.as_ref().clone().with_name(name)).collect();
                let entries = Field::new("entries", DataType::Struct(fields.into()), false);
                self.add_list(path, &entries, None, masked, slots, lists, lengths);
            }
            value => {
                if masked {
                    self.features.insert(format!("{path}/is_null"), is_null());
                }
                if lists == 0 && !self.step && matches!(slots, [Cell::Null]) {
                    return;
                }
                let name = if lengths.is_empty() { path.to_owned() } else { format!("{path}/ragged_flat_values") };
                self.features.insert(name, kind(value, slots));
                for (level, lengths) in lengths.iter().enumerate() {
                    self.features.insert(format!("{path}/ragged_row_lengths_{level}"), int64s(lengths.clone()));
                }
            }
        }
    }

    #[allow(clippy::too_many_arguments, reason = "a list is all of this")]
    fn add_list(
        &mut self,
        path: &str,
        item: &Field,
        len: Option<i32>,
        masked: bool,
        slots: &[Cell],
        lists: usize,
        lengths: &[Vec<i64>],
    ) {
        if masked && self.step && lists == 0 {
            self.features.insert(format!("{path}/is_null_0"), int64s(vec![matches!(slots, [Cell::Null]).into()]));
        }
        if lists == 0 && self.step && !matches!(slots, [Cell::List(_)]) {
            let nothing = vec![Cell::Null; len.unwrap_or_default() as usize];
            self.add(path, item, &nothing, 1, lengths);
            return;
        }
        if lists == 0 {
            // A list that is null is not there, nor is anything in it but scalars' masks.
            if let [Cell::List(items)] = slots {
                self.add(path, item, items, 1, lengths);
            }
            return;
        }
        if masked {
            let is_null = slots.iter().map(|cell| i64::from(matches!(cell, Cell::Null))).collect();
            self.features.insert(format!("{path}/is_null_{}", lists - usize::from(!self.step)), int64s(is_null));
        }
        let mut items = Vec::new();
        let mut own = Vec::new();
        for cell in slots {
            match (cell, len) {
                (Cell::List(list), _) => {
                    items.extend(list.iter().cloned());
                    own.push(list.len() as i64);
                }
                (_, Some(len)) => items.extend((0..len).map(|_| Cell::Null)),
                (_, None) => own.push(0),
            }
        }
        let mut lengths = lengths.to_vec();
        if len.is_none() {
            lengths.push(own);
        }
        self.add(path, item, &items, lists + 1, &lengths);
    }
}

fn always_there(field: &Field) -> bool {
    !field.is_nullable()
        && match field.data_type() {
            DataType::Struct(fields) => fields.iter().any(|field| always_there(field)),
            _ => true,
        }
}

fn framed(batch: &RecordBatch, masks: bool) -> Vec<u8> {
    let mut file = Vec::new();
    for row in 0..batch.num_rows() {
        let mut features = Row { masks, step: false, features: BTreeMap::new() };
        for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
            features.add(field.name(), field, &[cell(array, row)], 0, &[]);
        }
        let feature = features.features.into_iter().map(|(name, kind)| (name, Feature { kind: Some(kind) })).collect();
        let example = Example { features: Some(Features { feature }) };
        tfrecord_framing::append_record(&mut file, |out| example.encode(out)).unwrap();
    }
    file
}

/// The item of a list that is feature lists: of lists or structs, or named.
pub fn steps_of(field: &Field, options: &MappingOptions) -> Option<Field> {
    let (item, is_fixed) = match field.data_type() {
        DataType::List(item) | DataType::LargeList(item) | DataType::ListView(item) => (item, false),
        DataType::Map(entries, _) => {
            let DataType::Struct(fields) = entries.data_type() else { panic!("entries are structs") };
            let renamed = fields.iter().zip(["key", "value"]);
            let fields: Vec<_> = renamed.map(|(field, name)| field.as_ref().clone().with_name(name)).collect();
            let is_named = options.sequences.contains(field.name());
            return is_named.then(|| Field::new("entries", DataType::Struct(fields.into()), false));
        }
        DataType::FixedSizeList(item, _) => (item, true),
        _ => return None,
    };
    let is_nested = item.data_type().is_nested();
    (!is_fixed && (is_nested || options.sequences.contains(field.name()))).then(|| item.as_ref().clone())
}

/// Messages, not bytes: prost leaves out values of map entries that are empty, which TensorFlow's parser does not like.
fn expected_sequences(batch: &RecordBatch, options: &MappingOptions) -> Vec<SequenceExample> {
    let masks = options.nulls == NullPolicy::Mask;
    let mut sequences = Vec::new();
    for row in 0..batch.num_rows() {
        let mut context = Row { masks, step: false, features: BTreeMap::new() };
        let mut lists = BTreeMap::new();
        for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
            let cell = cell(array, row);
            let Some(item) = steps_of(field, options) else {
                context.add(field.name(), field, &[cell], 0, &[]);
                continue;
            };
            let Cell::List(steps) = cell else { continue };
            let step = |cell: Cell| {
                let mut step = Row { masks, step: true, features: BTreeMap::new() };
                step.add(field.name(), &item, &[cell], 0, &[]);
                step.features
            };
            // A step has all features, whatever is in it.
            for name in step(Cell::Null).into_keys() {
                lists.insert(name, FeatureList::default());
            }
            for cell in steps {
                for (name, kind) in step(cell) {
                    lists.get_mut(&name).unwrap().feature.push(Feature { kind: Some(kind) });
                }
            }
        }
        let feature = context.features.into_iter().map(|(name, kind)| (name, Feature { kind: Some(kind) })).collect();
        sequences.push(SequenceExample {
            context: Some(Features { feature }),
            feature_lists: Some(FeatureLists { feature_list: lists }),
        });
    }
    sequences
}

fn sequences(file: &[u8]) -> Vec<SequenceExample> {
    let (mut sequences, mut record, mut reader) = (Vec::new(), Vec::new(), RecordReader::new(file));
    while reader.read_record(&mut record).unwrap() {
        sequences.push(SequenceExample::decode(record.as_slice()).unwrap());
    }
    sequences
}

fn encoded(batch: &RecordBatch, options: &MappingOptions) -> Vec<u8> {
    let mapping = Mapping::try_new(&batch.schema(), options).unwrap();
    let mut records = RecordBuffer::default();
    Encoder::new(Arc::new(mapping)).encode(batch, &mut records).unwrap();
    records.bytes().to_vec()
}

fn decoded(batch: &RecordBatch, options: &MappingOptions, file: &[u8]) -> RecordBatch {
    let reader = ReaderBuilder::new(batch.schema()).with_mapping(options.clone()).build(file).unwrap();
    let batches: Vec<_> = reader.collect::<Result<_, _>>().unwrap();
    arrow_select::concat::concat_batches(&batch.schema(), &batches).unwrap()
}

/// Whatever is not narrowed comes back, and what is becomes the same again.
fn comes_back(batch: &RecordBatch, options: &MappingOptions) {
    let file = encoded(batch, options);
    let back = decoded(batch, options, &file);
    assert_eq!(encoded(&back, options), file);
    let mapping = Mapping::try_new(&batch.schema(), options).unwrap();
    for (column, mapped) in mapping.columns().iter().enumerate() {
        if mapped.class != LossClass::Narrowed {
            assert_eq!(back.column(column).to_data(), batch.column(column).to_data());
        }
    }
}

/// Records of sequences, with every list among them if they are to be named.
pub fn of_sequences(batch: &RecordBatch, nulls: NullPolicy, named: bool) -> MappingOptions {
    let options = MappingOptions::default().with_record_type(RecordType::SequenceExample).with_nulls(nulls);
    let schema = batch.schema();
    let lists = schema.fields().iter().filter(|field| {
        let list = field.data_type();
        named && (list.is_list() || matches!(list, DataType::Map(..))) && !matches!(list, DataType::FixedSizeList(..))
    });
    lists.fold(options, |options, field| options.with_sequence(field.name()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn nested_columns_are_their_leaves(batch in nested_tables::batch(Nulls::OutsideOfLists)) {
        prop_assert_eq!(encoded(&batch, &MappingOptions::default()), framed(&batch, false));
        comes_back(&batch, &MappingOptions::default());
    }

    #[test]
    fn sequence_examples_store_nested_lists_as_feature_lists(
        batch in nested_tables::batch(Nulls::OutsideOfLists),
        masks in any::<bool>(),
        named in any::<bool>(),
    ) {
        let policy = if masks { NullPolicy::Mask } else { NullPolicy::Absent };
        let options = of_sequences(&batch, policy, named);
        prop_assert_eq!(sequences(&encoded(&batch, &options)), expected_sequences(&batch, &options));
        comes_back(&batch, &options);
    }

    #[test]
    fn steps_can_hold_nulls(batch in nested_tables::batch(Nulls::Everywhere), named in any::<bool>()) {
        let options = of_sequences(&batch, NullPolicy::Mask, named);
        prop_assert_eq!(sequences(&encoded(&batch, &options)), expected_sequences(&batch, &options));
        comes_back(&batch, &options);
    }

    /// A filter reads a nested column, and takes every other row of it and of the others.
    #[test]
    fn filters_read_nested_columns(batch in nested_tables::batch(Nulls::Everywhere), sequences in any::<bool>()) {
        let options = match sequences {
            true => of_sequences(&batch, NullPolicy::Mask, false),
            false => MappingOptions::default().with_nulls(NullPolicy::Mask),
        };
        let file = encoded(&batch, &options);
        let every_other = |rows: usize| (0..rows).map(|row| Some(row % 2 == 0)).collect::<BooleanArray>();
        let filter = RowFilter::new(vec![0], move |batch| Ok(every_other(batch.num_rows())));
        let builder = ReaderBuilder::new(batch.schema()).with_mapping(options).with_row_filter(filter);
        let rows: Vec<_> = builder.build(file.as_slice()).unwrap().map(|batch| batch.unwrap()).collect();
        let expected = arrow_select::filter::filter_record_batch(&batch, &every_other(batch.num_rows())).unwrap();
        let found = arrow_select::concat::concat_batches(&batch.schema(), &rows).unwrap();
        for (found, expected) in found.columns().iter().zip(expected.columns()) {
            prop_assert_eq!(found.to_data(), expected.to_data());
        }
    }

    #[test]
    fn null_masks_round_trip_nested_columns(batch in nested_tables::batch(Nulls::Everywhere)) {
        let options = MappingOptions::default().with_nulls(NullPolicy::Mask);
        prop_assert_eq!(encoded(&batch, &options), framed(&batch, true));
        comes_back(&batch, &options);
    }
}
