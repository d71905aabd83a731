//! Rules for nulls in every part of nested columns, by a model of what they make of a value.
//!
//! Every accepted mapping reads back as the model predicts. A column that is not narrowed is restored exactly, and the
//! losses of a narrowed one are named.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::*;
use arrow_schema::{DataType, Field};
use arrow_tfrecord::{
    Choice, Encoder, Error, ErrorKind, LossClass, Mapping, MappingOptions, NullPolicy, NullRule, ReaderBuilder,
    RecordBuffer, RecordType,
};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::nested::{Cell, cell, of_sequences, steps_of};
use crate::nested_tables::{self, Nulls};

/// The fields of a struct, or the elements of a list; those of a map have their own names.
fn fields_of(data_type: &DataType) -> Option<Vec<Field>> {
    match data_type {
        DataType::Struct(fields) => Some(fields.iter().map(|field| field.as_ref().clone()).collect()),
        _ => None,
    }
}

fn item_of(data_type: &DataType) -> Option<Field> {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::FixedSizeList(item, _) => Some(item.as_ref().clone()),
        DataType::Map(entries, _) => {
            let fields = fields_of(entries.data_type()).unwrap().into_iter().zip(["key", "value"]);
            let fields: Vec<_> = fields.map(|(field, name)| field.with_name(name)).collect();
            Some(Field::new("entries", DataType::Struct(fields.into()), false))
        }
        _ => None,
    }
}

/// Whether something in it may be an empty list, which is not the same as nothing.
fn has_lists(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(fields) => fields.iter().any(|field| has_lists(field.data_type())),
        DataType::FixedSizeList(item, _) => has_lists(item.data_type()),
        list => item_of(list).is_some(),
    }
}

/// Every part that has a name of its own, with its type.
fn parts(path: &str, data_type: &DataType, out: &mut Vec<(String, DataType)>) {
    out.push((path.to_owned(), data_type.clone()));
    let mut within = data_type.clone();
    while let Some(item) = item_of(&within) {
        within = item.data_type().clone();
    }
    for field in fields_of(&within).unwrap_or_default() {
        parts(&format!("{path}/{}", field.name()), field.data_type(), out);
    }
}

/// A text that is a value of the first leaf, and with luck of the others.
fn default_of(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Struct(fields) => default_of(fields[0].data_type()),
        DataType::Dictionary(_, values) => default_of(values),
        DataType::Boolean => "true",
        DataType::Date32 => "1970-01-02",
        DataType::Timestamp(..) => "1970-01-02T00:00:00Z",
        DataType::FixedSizeBinary(_) => "abc",
        list => item_of(list).map_or("7", |item| default_of(item.data_type())),
    }
}

fn rule(choice: Index, data_type: &DataType) -> NullRule {
    match choice.index(NullPolicy::ALL.len() + 1) {
        policy if policy < NullPolicy::ALL.len() => NullPolicy::ALL[policy].into(),
        _ => NullRule::Default(default_of(data_type).to_owned()),
    }
}

/// A form that values may have and come back from.
fn another_form(data_type: &DataType) -> Option<Choice> {
    match data_type {
        DataType::UInt64 => Some(Choice::Wrap),
        DataType::Date32 | DataType::Timestamp(..) => Some(Choice::String),
        list => another_form(item_of(list)?.data_type()),
    }
}

/// What becomes of the values of one column.
struct Model<'a> {
    options: &'a MappingOptions,
    /// The parts that lose something.
    lossy: BTreeSet<String>,
}

/// Around a part.
#[derive(Clone)]
struct Around {
    rule: NullRule,
    in_list: bool,
    in_steps: bool,
}

impl Model<'_> {
    fn rule(&self, path: &str, around: &NullRule) -> NullRule {
        self.options.column_nulls.get(path).unwrap_or(around).clone()
    }

    /// All that there is of a part of this type in place of a null.
    fn of_default(data_type: &DataType, text: &str) -> Cell {
        match (fields_of(data_type), item_of(data_type)) {
            (Some(fields), _) => {
                Cell::Struct(fields.iter().map(|field| Self::of_default(field.data_type(), text)).collect())
            }
            (_, Some(item)) => {
                let len = if let DataType::FixedSizeList(_, len) = data_type { *len as usize } else { 1 };
                Cell::List(vec![Self::of_default(item.data_type(), text); len])
            }
            _ => {
                let text: ArrayRef = Arc::new(StringArray::from(vec![text]));
                let plain = match data_type {
                    DataType::Dictionary(_, values) => values,
                    plain => plain,
                };
                let value = arrow_cast::cast(&text, plain).unwrap();
                Cell::Value(arrow_cast::cast(&value, data_type).unwrap())
            }
        }
    }

    /// The part as it is read back, and whether features of it are there, and values in them.
    fn read(&mut self, path: &str, field: &Field, value: &Cell, around: &Around) -> (Cell, bool, bool) {
        let (data_type, rule) = (field.data_type(), &around.rule);
        let is_row = !around.in_list;
        if let Cell::Null = value {
            let is_list = item_of(data_type).is_some() && !matches!(data_type, DataType::FixedSizeList(..));
            return match rule {
                NullRule::Default(text) => {
                    self.lossy.insert(path.to_owned());
                    (Self::of_default(data_type, text), true, true)
                }
                NullRule::Policy(NullPolicy::Empty) if is_list => {
                    self.lossy.insert(path.to_owned());
                    (Cell::List(Vec::new()), true, false)
                }
                NullRule::Policy(NullPolicy::Empty) => (Cell::Null, has_lists(data_type), false),
                _ => (Cell::Null, false, false),
            };
        }
        match (value, item_of(data_type)) {
            (Cell::Struct(values), _) => {
                let (mut children, mut is_present, mut has_values) = (Vec::new(), false, false);
                for (child, value) in fields_of(data_type).unwrap().iter().zip(values) {
                    let path = format!("{path}/{}", child.name());
                    let around = Around { rule: self.rule(&path, rule), ..around.clone() };
                    let (read, here, valued) = self.read(&path, child, value, &around);
                    children.push(read);
                    (is_present, has_values) = (is_present || here, has_values || valued);
                }
                let tells = match rule {
                    _ if !field.is_nullable() || !is_row || around.in_steps => true,
                    NullRule::Default(_) | NullRule::Policy(NullPolicy::Error | NullPolicy::Mask) => true,
                    NullRule::Policy(NullPolicy::Empty) => has_values,
                    _ => is_present,
                };
                if !tells {
                    self.lossy.insert(path.to_owned());
                    return (Cell::Null, is_present, has_values);
                }
                (Cell::Struct(children), is_present, has_values)
            }
            (Cell::List(values), Some(item)) => {
                let is_fixed = matches!(data_type, DataType::FixedSizeList(..));
                let around = Around { in_list: true, ..around.clone() };
                let drops = !is_fixed && *rule == NullPolicy::Drop;
                let kept: Vec<_> = values.iter().filter(|value| !(drops && matches!(value, Cell::Null))).collect();
                if kept.len() < values.len() {
                    self.lossy.insert(path.to_owned());
                }
                let items: Vec<_> = kept.iter().map(|value| self.read(path, &item, value, &around).0).collect();
                let has_values = !items.is_empty();
                (Cell::List(items), true, has_values)
            }
            (value, _) => (value.clone(), true, true),
        }
    }

    fn column(&mut self, field: &Field, value: &Cell) -> Cell {
        let around = NullRule::Policy(self.options.nulls);
        let around = Around { rule: self.rule(field.name(), &around), in_list: false, in_steps: false };
        let steps = match self.options.record_type {
            RecordType::SequenceExample => steps_of(field, self.options),
            _ => None,
        };
        match (steps, value) {
            (Some(item), Cell::List(values)) => {
                let drops = around.rule == NullPolicy::Drop;
                let kept: Vec<_> = values.iter().filter(|value| !(drops && matches!(value, Cell::Null))).collect();
                if kept.len() < values.len() {
                    self.lossy.insert(field.name().clone());
                }
                let around = Around { in_steps: true, ..around };
                let step = |value: &&Cell| self.read(field.name(), &item, value, &around).0;
                Cell::List(kept.iter().map(step).collect())
            }
            _ => self.read(field.name(), field, value, &around).0,
        }
    }
}

fn is_same(one: &Cell, other: &Cell) -> bool {
    let all = |one: &[Cell], other: &[Cell]| {
        one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
    };
    match (one, other) {
        (Cell::Null, Cell::Null) => true,
        (Cell::Value(one), Cell::Value(other)) => one.to_data() == other.to_data(),
        (Cell::Struct(one), Cell::Struct(other)) | (Cell::List(one), Cell::List(other)) => all(one, other),
        _ => false,
    }
}

fn encoded(mapping: Mapping, batch: &RecordBatch) -> Result<RecordBuffer, Error> {
    let mut records = RecordBuffer::default();
    Encoder::new(Arc::new(mapping)).encode(batch, &mut records)?;
    Ok(records)
}

fn check(batch: &RecordBatch, mut options: MappingOptions) -> Result<(), TestCaseError> {
    let schema = batch.schema();
    // If a null is rejected, retry with a policy for it.
    let (records, mapping) = loop {
        let mapping = match Mapping::try_new(&schema, &options) {
            Ok(mapping) => mapping,
            Err(error) if matches!(error.kind(), ErrorKind::InvalidDefault { .. }) => return Ok(()),
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        };
        match encoded(mapping.clone(), batch) {
            Ok(records) => break (records, mapping),
            Err(error) => {
                let (column, policy) = match error.kind() {
                    ErrorKind::NullElement { column, can_be_dropped: true, .. } if column.len() % 2 == 0 => {
                        (column, NullPolicy::Drop)
                    }
                    ErrorKind::NullElement { column, .. } => (column, NullPolicy::Mask),
                    ErrorKind::Null { column, .. } => (column, NullPolicy::Absent),
                    _ => return Err(TestCaseError::fail(error.to_string())),
                };
                let before = options.column_nulls.insert(column.clone(), policy.into());
                prop_assert_ne!(before, Some(policy.into()), "{}", &error);
            }
        }
    };
    let reader = ReaderBuilder::new(batch.schema()).with_mapping(options.clone()).build(records.bytes()).unwrap();
    let batches: Vec<_> = match reader.collect() {
        Ok(batches) => batches,
        Err(error) => return Err(TestCaseError::fail(format!("{error} by {options:?}\n{mapping}"))),
    };
    let back = arrow_select::concat::concat_batches(&batch.schema(), &batches).unwrap();
    for (column, mapped) in mapping.columns().iter().enumerate() {
        let shown = || format!("{options:?}\n{mapping}{:?}\n{:?}", batch.column(column), back.column(column));
        let mut model = Model { options: &options, lossy: BTreeSet::new() };
        for row in 0..batch.num_rows() {
            let expected = model.column(schema.field(column), &cell(batch.column(column), row));
            prop_assert!(is_same(&expected, &cell(back.column(column), row)), "row {row}\n{}", shown());
        }
        if mapped.class != LossClass::Narrowed {
            prop_assert_eq!(back.column(column).to_data(), batch.column(column).to_data(), "{}", shown());
        }
        let warnings = mapping.warnings();
        for part in model.lossy {
            let named = match part.strip_prefix(&format!("{}/", mapped.column)) {
                Some(part) => format!("{part}: "),
                None => format!("column {:?} loses", mapped.column),
            };
            prop_assert!(warnings.iter().any(|line| line.contains(&named)), "{part} is not named\n{}", shown());
        }
    }
    Ok(())
}

fn case() -> impl Strategy<Value = (RecordBatch, MappingOptions)> {
    let rules = proptest::collection::vec((any::<Index>(), any::<Index>()), 0..8);
    let batch = nested_tables::batch(Nulls::Everywhere);
    (batch, any::<Index>(), rules, any::<Option<bool>>()).prop_map(|(batch, global, rules, sequences)| {
        let nulls = *global.get(NullPolicy::ALL);
        let mut options = match sequences {
            Some(named) => of_sequences(&batch, nulls, named),
            None => MappingOptions::default().with_nulls(nulls),
        };
        let mut all = Vec::new();
        for field in batch.schema().fields() {
            parts(field.name(), field.data_type(), &mut all);
        }
        for (part, choice) in rules {
            let (path, data_type) = part.get(&all);
            options = options.with_column_nulls(path, rule(choice, data_type));
            options = match another_form(data_type).filter(|_| choice.index(2) == 0) {
                Some(form) => options.with_choice(path, form),
                None => options,
            };
        }
        (batch, options)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn mapping_options_round_trip_or_report_loss((batch, options) in case()) {
        check(&batch, options)?;
    }
}
