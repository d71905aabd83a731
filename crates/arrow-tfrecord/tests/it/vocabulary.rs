//! Strings as ranks in a vocabulary.

use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::types::Int8Type;
use arrow_array::*;
use arrow_tfrecord::{
    Choice, Encoder, Error, LossClass, Mapping, MappingOptions, ReaderBuilder, RecordBuffer, Vocabulary,
};
use insta::assert_snapshot;

fn batch(array: ArrayRef) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([("c", array, true)]).unwrap()
}

fn encoded(batch: &RecordBatch, options: &MappingOptions) -> Result<Vec<u8>, Error> {
    let mapping = Mapping::try_new(&batch.schema(), options)?;
    let mut records = RecordBuffer::default();
    Encoder::new(Arc::new(mapping)).encode(batch, &mut records)?;
    Ok(records.bytes().to_vec())
}

fn of(array: &ArrayRef) -> MappingOptions {
    let mut vocabulary = Vocabulary::new(100);
    vocabulary.observe(array).unwrap();
    MappingOptions::default().with_vocabulary("c", vocabulary.finish())
}

#[test]
fn vocabulary_round_trips_strings() {
    let keys = Int8Array::from(vec![Some(1), None, Some(1), Some(0)]);
    let dictionary: ArrayRef =
        Arc::new(DictionaryArray::<Int8Type>::new(keys, Arc::new(StringArray::from(vec!["b", "a", "unused"]))));
    let mut lists = ListBuilder::new(StringBuilder::new());
    lists.append_value([Some("x"), Some("y"), Some("x")]);
    lists.append(false);
    lists.append_value([Some("w")]);
    let lists: ArrayRef = Arc::new(lists.finish());
    let views: ArrayRef = Arc::new(StringViewArray::from(vec![Some("long enough to be elsewhere"), None, Some("")]));
    for (array, values) in [(&dictionary, 2), (&lists, 3), (&views, 2), (&lists.slice(0, 1), 2)] {
        let (batch, options) = (batch(ArrayRef::clone(array)), of(array));
        assert_eq!(options.vocabularies["c"].len(), values);
        assert_eq!(Mapping::try_new(&batch.schema(), &options).unwrap().columns()[0].class, LossClass::Encoded);
        let file = encoded(&batch, &options).unwrap();
        let from_manifest: MappingOptions = serde_json::from_value(serde_json::to_value(&options).unwrap()).unwrap();
        let mut reader = ReaderBuilder::new(batch.schema()).with_mapping(from_manifest).build(file.as_slice()).unwrap();
        assert_eq!(reader.next().unwrap().unwrap().column(0).to_data(), array.to_data());
    }
}

#[test]
fn vocabulary_ranks_are_whole_numbers() {
    let array: ArrayRef = Arc::new(StringArray::from(vec!["dog", "cat"]));
    let batch = batch(array);
    let options = MappingOptions::default().with_vocabulary("c", vec!["cat".to_owned(), "dog".to_owned()]);
    let file = encoded(&batch, &options).unwrap();
    let schema = arrow_tfrecord::infer_schema(file.as_slice(), None).unwrap().0;
    let ranks = ReaderBuilder::new(Arc::new(schema)).build(file.as_slice()).unwrap().next().unwrap().unwrap();
    assert_eq!(ranks.column(0).as_ref(), &Int64Array::from(vec![1, 0]) as &dyn Array);
}

#[test]
fn vocabulary_rejects_unknown_values_and_ranks() {
    let array: ArrayRef = Arc::new(StringArray::from(vec!["cat", "emu"]));
    let batch = batch(ArrayRef::clone(&array));
    let shown = |error: &Error| error.to_string();
    let cats = MappingOptions::default().with_vocabulary("c", vec!["cat".to_owned()]);
    let unknown = encoded(&batch, &cats).unwrap_err();
    let without = encoded(&batch, &MappingOptions::default().with_choice("c", Choice::Index)).unwrap_err();
    let twice = MappingOptions::default().with_vocabulary("c", vec!["cat".to_owned(); 2]);
    let twice = encoded(&batch, &twice).unwrap_err();
    let file = encoded(&batch, &of(&array)).unwrap();
    let mut decoder = ReaderBuilder::new(batch.schema()).with_mapping(cats).build_decoder().unwrap();
    decoder.decode(&file).unwrap();
    let beyond = decoder.flush().unwrap_err();
    let many = Vocabulary::new(1).observe(&array).unwrap_err();
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let numbers = Vocabulary::new(1).observe(&numbers).unwrap_err();
    let refusals = [&unknown, &without, &twice, &beyond, &many, &numbers].map(shown);
    assert_snapshot!(refusals.join("\n\n"));
}
