//! Record batches of nested columns, made by proptest.

use std::sync::Arc;

use arrow_array::types::UInt8Type;
use arrow_array::*;
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Where there are nulls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nulls {
    /// Everywhere.
    Everywhere,
    /// Only where no list is around.
    OutsideOfLists,
}

/// A batch of up to 3 columns nested to a depth of up to 4, cut out of a longer one.
pub fn batch(nulls: Nulls) -> impl Strategy<Value = RecordBatch> {
    (0..12usize, 0..3usize, 0..3usize).prop_flat_map(move |(rows, before, after)| {
        let len = before + rows + after;
        let column = (0..=4u32).prop_flat_map(move |depth| column(len, depth, nulls, false));
        vec((column, any::<bool>(), "[a-z]{0,5}"), 1..4).prop_map(move |columns| {
            let (fields, arrays): (Vec<_>, Vec<_>) = columns
                .into_iter()
                .enumerate()
                .map(|(position, (array, nullable, name))| {
                    (field(&format!("{name}{position}"), &array, nullable), array)
                })
                .unzip();
            let schema = Arc::new(Schema::new(fields));
            RecordBatch::try_new(schema, arrays).unwrap().slice(before, rows)
        })
    })
}

/// A field that may be null if it has to or if asked for.
fn field(name: &str, array: &ArrayRef, nullable: bool) -> Field {
    let has_nulls = array.logical_nulls().is_some_and(|nulls| nulls.null_count() > 0);
    Field::new(name, array.data_type().clone(), nullable || has_nulls)
}

fn column(rows: usize, depth: u32, nulls: Nulls, in_list: bool) -> BoxedStrategy<ArrayRef> {
    if depth == 0 {
        return leaf(rows, nulls, in_list);
    }
    prop_oneof![
        1 => leaf(rows, nulls, in_list),
        3 => structs(rows, depth, nulls, in_list),
        4 => lists(rows, depth, nulls, in_list),
        2 => fixed(rows, depth, nulls, in_list),
        2 => maps(rows, depth, nulls, in_list),
    ]
    .boxed()
}

fn validity(rows: usize, nulls: Nulls, in_list: bool) -> BoxedStrategy<Option<NullBuffer>> {
    if in_list && nulls == Nulls::OutsideOfLists {
        return Just(None).boxed();
    }
    prop_oneof![Just(None), vec(proptest::bool::weighted(0.6), rows).prop_map(|valid| Some(NullBuffer::from(valid))),]
        .boxed()
}

fn leaf(rows: usize, nulls: Nulls, in_list: bool) -> BoxedStrategy<ArrayRef> {
    fn cast(array: impl Array + 'static, to: &DataType) -> ArrayRef {
        arrow_cast::cast(&(Arc::new(array) as ArrayRef), to).unwrap()
    }
    let numbers = select(vec![
        DataType::Int8,
        DataType::UInt64,
        DataType::Int64,
        DataType::Float32,
        DataType::Date32,
        DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
    ]);
    let numbers = (vec(0..100i32, rows), numbers).prop_map(|(values, to)| cast(Int32Array::from(values), &to));
    let texts = select(vec![DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View, DataType::LargeBinary]);
    let texts = (vec("[a-zß]{0,15}", rows), texts).prop_map(|(values, to)| cast(StringArray::from(values), &to));
    let fixed = vec(any::<[u8; 3]>(), rows).prop_map(|values| {
        let values = values.into_iter().map(Some);
        Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, 3).unwrap()) as ArrayRef
    });
    let bools = vec(any::<bool>(), rows).prop_map(|values| Arc::new(BooleanArray::from(values)) as ArrayRef);
    let dictionary = vec(0..3u8, rows).prop_map(|keys| {
        let values = Arc::new(StringArray::from(vec!["a", "bb", "ccc"]));
        Arc::new(DictionaryArray::<UInt8Type>::new(PrimitiveArray::from(keys), values)) as ArrayRef
    });
    (prop_oneof![3 => numbers, 2 => texts, 1 => fixed, 1 => bools, 1 => dictionary], validity(rows, nulls, in_list))
        .prop_map(|(array, nulls)| make_array(array.to_data().into_builder().nulls(nulls).build().unwrap()))
        .boxed()
}

fn structs(rows: usize, depth: u32, nulls: Nulls, in_list: bool) -> BoxedStrategy<ArrayRef> {
    let child = column(rows, depth - 1, nulls, in_list);
    (vec((child, any::<bool>()), 1..4), validity(rows, nulls, in_list))
        .prop_map(|(children, nulls)| {
            let fields = children
                .iter()
                .enumerate()
                .map(|(position, (child, nullable))| field(&format!("f{position}"), child, *nullable));
            let fields: Fields = fields.collect();
            let children = children.into_iter().map(|(child, _)| child).collect();
            Arc::new(StructArray::try_new(fields, children, nulls).unwrap()) as ArrayRef
        })
        .boxed()
}

fn lengths(rows: usize) -> impl Strategy<Value = Vec<usize>> {
    vec(select(vec![0usize, 1, 1, 2, 3]), rows)
}

fn lists(rows: usize, depth: u32, nulls: Nulls, in_list: bool) -> BoxedStrategy<ArrayRef> {
    (lengths(rows), 0..4)
        .prop_flat_map(move |(lengths, layout)| {
            let items = column(lengths.iter().sum(), depth - 1, nulls, true);
            (Just(lengths), Just(layout), items, any::<bool>(), validity(rows, nulls, in_list))
        })
        .prop_map(|(lengths, layout, items, nullable, nulls)| {
            let item = Arc::new(field("item", &items, nullable));
            let offsets = |lengths: &[usize]| OffsetBuffer::<i32>::from_lengths(lengths.iter().copied());
            match layout {
                0 => Arc::new(ListArray::new(item, offsets(&lengths), items, nulls)) as ArrayRef,
                1 => {
                    let offsets = OffsetBuffer::<i64>::from_lengths(lengths.iter().copied());
                    Arc::new(LargeListArray::new(item, offsets, items, nulls))
                }
                _ => {
                    // Rows stand in reverse.
                    let mut end: usize = lengths.iter().sum();
                    let starts = lengths.iter().map(|length| {
                        end -= length;
                        end as i32
                    });
                    let starts: ScalarBuffer<i32> = starts.collect();
                    let sizes = lengths.iter().map(|length| *length as i32).collect();
                    Arc::new(ListViewArray::new(item, starts, sizes, items, nulls))
                }
            }
        })
        .boxed()
}

fn fixed(rows: usize, depth: u32, nulls: Nulls, in_list: bool) -> BoxedStrategy<ArrayRef> {
    (1..3usize)
        .prop_flat_map(move |width| {
            let items = column(rows * width, depth - 1, nulls, true);
            (Just(width), items, any::<bool>(), validity(rows, nulls, in_list))
        })
        .prop_map(move |(width, items, nullable, nulls)| {
            let item = Arc::new(field("item", &items, nullable));
            Arc::new(FixedSizeListArray::try_new_with_length(item, width as i32, items, nulls, rows).unwrap())
                as ArrayRef
        })
        .boxed()
}

fn maps(rows: usize, depth: u32, nulls: Nulls, in_list: bool) -> BoxedStrategy<ArrayRef> {
    lengths(rows)
        .prop_flat_map(move |lengths| {
            let total = lengths.iter().sum();
            let values = column(total, depth - 1, nulls, true);
            (
                Just(lengths),
                leaf(total, Nulls::OutsideOfLists, true),
                values,
                any::<bool>(),
                validity(rows, nulls, in_list),
            )
        })
        .prop_map(|(lengths, keys, values, nullable, nulls)| {
            let fields: Fields = vec![field("keys", &keys, false), field("values", &values, nullable)].into();
            let entries = StructArray::new(fields, vec![keys, values], None);
            let entry = Arc::new(Field::new("entries", entries.data_type().clone(), false));
            Arc::new(MapArray::new(entry, OffsetBuffer::from_lengths(lengths), entries, nulls, false)) as ArrayRef
        })
        .boxed()
}
