//! Nulls under every policy: the contents of the records, and the values read from them.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow_array::builder::{Int64Builder, ListBuilder, MapBuilder};
use arrow_array::types::Int64Type;
use arrow_array::*;
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_cast::display::array_value_to_string;
use arrow_schema::{DataType, Field};
use arrow_tfrecord::{
    Choice, Encoder, Error, ErrorKind, LossClass, Mapping, MappingOptions, NullPolicy, NullRule, ReaderBuilder,
    RecordBuffer,
};
use insta::assert_snapshot;
use prost::Message;
use tfr_proto::tensorflow::Example;
use tfr_proto::tensorflow::feature::Kind;
use tfrecord_framing::RecordReader;

/// The features of every record, a line each.
fn records(file: &[u8]) -> String {
    let mut reader = RecordReader::new(file);
    let (mut record, mut lines) = (Vec::new(), String::new());
    while reader.read_record(&mut record).unwrap() {
        let features = Example::decode(record.as_slice()).unwrap().features.unwrap_or_default();
        let features: Vec<_> = features
            .feature
            .iter()
            .map(|(name, feature)| match &feature.kind {
                None => format!("{name}: unset"),
                Some(Kind::Int64List(list)) => format!("{name}: {:?}", list.value),
                Some(Kind::FloatList(list)) => format!("{name}: {:?}", list.value),
                Some(Kind::BytesList(list)) => {
                    let texts: Vec<_> = list.value.iter().map(|value| String::from_utf8_lossy(value)).collect();
                    format!("{name}: {texts:?}")
                }
            })
            .collect();
        writeln!(lines, "  {{{}}}", features.join(", ")).unwrap();
    }
    lines
}

fn batch(array: &ArrayRef) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([("c", ArrayRef::clone(array), true)]).unwrap()
}

fn encoded(batch: &RecordBatch, options: &MappingOptions) -> Result<Vec<u8>, Error> {
    let mapping = Mapping::try_new(&batch.schema(), options)?;
    let mut records = RecordBuffer::default();
    Encoder::new(Arc::new(mapping)).encode(batch, &mut records)?;
    Ok(records.bytes().to_vec())
}

fn decoded(batch: &RecordBatch, options: &MappingOptions, file: &[u8]) -> ArrayRef {
    let mut reader = ReaderBuilder::new(batch.schema()).with_mapping(options.clone()).build(file).unwrap();
    ArrayRef::clone(reader.next().unwrap().unwrap().column(0))
}

/// All that happens to a column.
fn story(array: &ArrayRef, options: &MappingOptions) -> String {
    let batch = batch(array);
    let mapping = match Mapping::try_new(&batch.schema(), options) {
        Ok(mapping) => mapping,
        Err(error) => return format!("  {error}\n"),
    };
    let column = &mapping.columns()[0];
    let mut story = format!("  {}\n", column.class);
    for loss in mapping.warnings() {
        writeln!(story, "  {loss}").unwrap();
    }
    let file = match encoded(&batch, options) {
        Ok(file) => file,
        Err(error) => return format!("{story}  {error}\n"),
    };
    story += &records(&file);
    let back = decoded(&batch, options, &file);
    let texts: Vec<_> = (0..back.len())
        .map(|row| if back.is_null(row) { "null".into() } else { array_value_to_string(&back, row).unwrap() })
        .collect();
    writeln!(story, "  -> {}", texts.join(" | ")).unwrap();
    let is_same = back.to_data() == array.to_data();
    assert!(is_same || column.class == LossClass::Narrowed, "{story}");
    story
}

fn rules() -> Vec<NullRule> {
    let policies = NullPolicy::ALL.iter().map(|policy| NullRule::from(*policy));
    policies.chain([NullRule::Default("7".to_owned())]).collect()
}

fn stories(array: &ArrayRef) -> String {
    let story = |rule: NullRule| {
        let options = MappingOptions::default().with_column_nulls("c", rule.clone());
        format!("{rule}:\n{}", story(array, &options))
    };
    rules().into_iter().map(story).collect()
}

fn ints(values: Vec<Option<i64>>) -> ArrayRef {
    Arc::new(Int64Array::from(values))
}

fn lists() -> ListArray {
    let mut lists = ListBuilder::new(Int64Builder::new());
    lists.append_value([Some(1), Some(2)]);
    lists.append(false);
    lists.append_value([]);
    lists.finish()
}

fn with_nulls_inside() -> ListArray {
    ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1), None]), None, Some(vec![None]), Some(vec![])])
}

fn item(array: &impl Array) -> Arc<Field> {
    Arc::new(Field::new_list_field(array.data_type().clone(), true))
}

fn point(x: Vec<Option<i64>>, y: Vec<Option<&str>>, valid: Option<Vec<bool>>) -> StructArray {
    let fields = vec![Field::new("x", DataType::Int64, true), Field::new("y", DataType::Utf8, true)];
    StructArray::new(fields.into(), vec![ints(x), Arc::new(StringArray::from(y))], valid.map(NullBuffer::from))
}

#[test]
fn scalars() {
    assert_snapshot!(stories(&ints(vec![Some(1), None])));
}

#[test]
fn lists_that_are_null() {
    assert_snapshot!(stories(&(Arc::new(lists()) as ArrayRef)));
}

#[test]
fn nulls_in_lists() {
    assert_snapshot!(stories(&(Arc::new(with_nulls_inside()) as ArrayRef)));
}

#[test]
fn lists_of_a_fixed_size() {
    let pairs = FixedSizeListArray::from_iter_primitive::<Int64Type, _, _>(
        [Some(vec![Some(1), Some(2)]), None, Some(vec![Some(3), None])],
        2,
    );
    assert_snapshot!(stories(&(Arc::new(pairs) as ArrayRef)));
}

#[test]
fn lists_in_lists() {
    let inner = with_nulls_inside();
    let lists = ListArray::new(
        item(&inner),
        OffsetBuffer::from_lengths([1, 0, 3, 0]),
        Arc::new(inner),
        Some(NullBuffer::from(vec![true, true, true, false])),
    );
    assert_snapshot!(stories(&(Arc::new(lists) as ArrayRef)));
}

#[test]
fn structs() {
    let structs = point(
        vec![Some(1), Some(2), None, None],
        vec![Some("a"), None, None, None],
        Some(vec![true, true, true, false]),
    );
    assert_snapshot!(stories(&(Arc::new(structs) as ArrayRef)));
}

/// A field that is never null determines whether the struct is null.
#[test]
fn struct_nulls_are_detected_by_a_required_field() {
    let fields = vec![Field::new("x", DataType::Int64, false), Field::new("y", DataType::Utf8, true)];
    let columns = vec![ints(vec![Some(1), Some(2)]), Arc::new(StringArray::from(vec![None, Some("b")])) as ArrayRef];
    let structs = StructArray::new(fields.into(), columns, Some(NullBuffer::from(vec![true, false])));
    assert_snapshot!(stories(&(Arc::new(structs) as ArrayRef)));
}

#[test]
fn structs_in_lists() {
    let points = point(vec![Some(1), None, None], vec![None, Some("b"), None], Some(vec![true, true, false]));
    let lists = ListArray::new(
        item(&points),
        OffsetBuffer::from_lengths([2, 1, 0]),
        Arc::new(points),
        Some(NullBuffer::from(vec![true, true, false])),
    );
    assert_snapshot!(stories(&(Arc::new(lists) as ArrayRef)));
}

#[test]
fn null_rule_of_a_part_overrides_the_column() {
    let structs: ArrayRef = Arc::new(point(vec![Some(1), None], vec![None, None], Some(vec![true, false])));
    let options = MappingOptions::default()
        .with_nulls(NullPolicy::Error)
        .with_column_nulls("c", NullPolicy::Absent)
        .with_column_nulls("c/y", NullRule::Default("none".to_owned()));
    assert_snapshot!(story(&structs, &options));
}

/// The rules of children do not apply to a null parent: it is not lost, and all children agree on it.
#[test]
fn null_parent_is_written_by_its_own_rule() {
    let valid = Some(NullBuffer::from(vec![true, false]));
    let of_lists = StructArray::new(
        vec![Field::new("l", lists().data_type().clone(), false)].into(),
        vec![Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>([Some([]), Some([])]))],
        valid.clone(),
    );
    let of_numbers = StructArray::new(
        vec![Field::new("x", DataType::Int64, false)].into(),
        vec![ints(vec![Some(1), Some(2)])],
        valid.clone(),
    );
    let keys = StructArray::new(vec![Field::new("k", DataType::Int64, false)].into(), vec![ints(vec![Some(1)])], None);
    let of_structs = ListArray::new(item(&keys), OffsetBuffer::from_lengths([1, 0]), Arc::new(keys), valid.clone());
    let mut maps = MapBuilder::new(None, Int64Builder::new(), Int64Builder::new());
    maps.keys().append_value(1);
    maps.values().append_null();
    maps.append(true).unwrap();
    maps.append(false).unwrap();
    let shown = |array: ArrayRef, rules: &[(&str, &str)]| {
        let options = rules.iter().fold(MappingOptions::default(), |options, (part, rule)| {
            options.with_column_nulls(*part, rule.parse::<NullRule>().unwrap())
        });
        let strict = Mapping::try_new(&batch(&array).schema(), &options.clone().with_strict(true)).is_ok();
        format!("{rules:?}{}:\n{}", if strict { "" } else { ", refused where strict" }, story(&array, &options))
    };
    let (of_lists, of_numbers, of_structs) = (Arc::new(of_lists), Arc::new(of_numbers), Arc::new(of_structs));
    let maps: ArrayRef = Arc::new(maps.finish());
    let stories = [
        shown(of_lists.clone(), &[("c", "empty")]),
        shown(of_lists.clone(), &[("c/l", "empty")]),
        shown(of_lists, &[("c", "unset"), ("c/l", "empty")]),
        shown(of_numbers.clone(), &[("c/x", "default=7")]),
        shown(of_numbers.clone(), &[("c", "empty"), ("c/x", "unset")]),
        shown(of_numbers.clone(), &[("c", "default=8"), ("c/x", "default=7")]),
        shown(of_numbers, &[("c/x", "default=foo")]),
        shown(of_structs, &[("c/k", "empty")]),
        shown(maps.clone(), &[("c/value", "mask"), ("c/key", "empty")]),
        shown(maps.clone(), &[("c", "empty"), ("c/value", "mask")]),
        shown(maps, &[("c", "unset"), ("c/value", "default=5")]),
    ];
    assert_snapshot!(stories.concat());
}

#[test]
fn rules_that_do_not_fit() {
    let refused = |array: &ArrayRef, rule: &str| {
        let options = MappingOptions::default().with_column_nulls("c", rule.parse::<NullRule>().unwrap());
        Mapping::try_new(&batch(array).schema(), &options).unwrap_err().to_string()
    };
    let structs: ArrayRef = Arc::new(point(vec![], vec![], None));
    let unknown = MappingOptions::default().with_column_nulls("c/z", NullPolicy::Mask);
    let strict = |array: &ArrayRef, rule: NullRule| {
        let options = MappingOptions::default().with_strict(true).with_column_nulls("c", rule);
        Mapping::try_new(&batch(array).schema(), &options).map_err(|error| error.to_string())
    };
    let refusals = [
        refused(&ints(vec![]), "default=seven"),
        refused(&ints(vec![]), "default="),
        refused(&structs, "default=none"),
        Mapping::try_new(&batch(&structs).schema(), &unknown).unwrap_err().to_string(),
        strict(&structs, NullPolicy::Absent.into()).unwrap_err(),
        strict(&(Arc::new(with_nulls_inside()) as ArrayRef), NullPolicy::Drop.into()).unwrap_err(),
        strict(&ints(vec![]), NullRule::Default("1".to_owned())).unwrap_err(),
    ];
    assert!(strict(&structs, NullPolicy::Mask.into()).is_ok());
    assert!(strict(&structs, NullPolicy::Error.into()).is_ok());
    assert_snapshot!(refusals.join("\n\n"));
}

/// A list of a length of 0 has no values either, null or not.
#[test]
fn null_lists_of_length_zero_have_no_values() {
    let none: ArrayRef = Arc::new(Int64Array::from(Vec::<i64>::new()));
    let valid = Some(NullBuffer::from(vec![true, false]));
    let lists = FixedSizeListArray::try_new_with_length(item(&none), 0, none, valid, 2).unwrap();
    let array: ArrayRef = Arc::new(lists);
    let shown = |policy: NullPolicy| story(&array, &MappingOptions::default().with_nulls(policy));
    assert_eq!(shown(NullPolicy::Absent), "  exact\n  {c: []}\n  {}\n  -> [] | null\n");
    assert_eq!(
        shown(NullPolicy::Empty),
        "  narrowed\n  column \"c\" loses information: null becomes an empty list\n  {c: []}\n  {c: []}\n  -> [] | []\n"
    );
}

/// Only elements of lists of any length can be left out.
#[test]
fn null_element_error_reports_whether_drop_applies() {
    let pairs = FixedSizeListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1), None])], 2);
    let lists_of_pairs = ListArray::new(item(&pairs), OffsetBuffer::from_lengths([1]), Arc::new(pairs.clone()), None);
    let points = point(vec![None], vec![None], None);
    let lists_of_points = ListArray::new(item(&points), OffsetBuffer::from_lengths([1]), Arc::new(points), None);
    let lists = with_nulls_inside();
    let lists_of_lists = ListArray::new(item(&lists), OffsetBuffer::from_lengths([4]), Arc::new(lists.clone()), None);
    let can_be_dropped = |array: ArrayRef| {
        let error = encoded(&batch(&array), &MappingOptions::default()).unwrap_err();
        matches!(error.kind(), ErrorKind::NullElement { can_be_dropped: true, .. })
    };
    assert!(can_be_dropped(Arc::new(lists)) && can_be_dropped(Arc::new(lists_of_lists)));
    let cannot: [ArrayRef; 3] = [Arc::new(pairs), Arc::new(lists_of_pairs), Arc::new(lists_of_points)];
    assert!(cannot.into_iter().all(|array| !can_be_dropped(array)));
}

/// A default is a value of the column's type like any other: in the form that was chosen, and in range.
#[test]
fn null_default_uses_the_chosen_encoding() {
    let prices = Decimal128Array::from(vec![Some(150), None]).with_precision_and_scale(9, 2).unwrap();
    let options = MappingOptions::default()
        .with_choice("c", Choice::Unscaled)
        .with_column_nulls("c", NullRule::Default("0.25".to_owned()));
    let days: ArrayRef = Arc::new(Date32Array::from(vec![Some(1), None]));
    let day = MappingOptions::default().with_column_nulls("c", NullRule::Default("1970-01-03".to_owned()));
    let large: ArrayRef = Arc::new(UInt64Array::from(vec![Some(1), None]));
    let too_large = MappingOptions::default().with_column_nulls("c", NullRule::Default(u64::MAX.to_string()));
    let stories = [story(&(Arc::new(prices) as ArrayRef), &options), story(&days, &day), story(&large, &too_large)];
    assert_snapshot!(stories.concat());
}
