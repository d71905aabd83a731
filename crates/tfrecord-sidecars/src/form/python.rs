//! Renders a table as a Python module that reads it with TensorFlow.

use std::collections::HashMap;
use std::fmt::Write;

use arrow_schema::DataType;
use arrow_tfrecord::{
    Choice, ColumnMapping, FeatureKind, FeatureRole, FeatureShape, Mapping, NullPolicy, NullRule, ParseSpec, ReadAs,
    RecordType,
};
use tfr_arrow::nested::{element_type, key_and_value};

use tfrecord_framing::{Compression, Container};

use super::TableDescription;
use crate::columns::{TableFeature, column_part_type, expect_records};
use crate::error::Result;
use crate::stats::{Statistics, observed_features};

const NULLS: &str = "\
# What a null is read as. Choose values that cannot be mistaken for others of their column. A column that is taken out
# of this table is read as a tf.SparseTensor, in which a null is a missing value.
";

const SCALAR: &str = "
def _scalar(name, dtype):
    if name in NULLS:
        return tf.io.FixedLenFeature([], dtype, default_value=NULLS[name])
    return tf.io.VarLenFeature(dtype)


";

const MAP_VALUES: &str = "
def _map_values(function, tensor):
    if isinstance(tensor, tf.SparseTensor):
        return tensor.with_values(function(tensor.values))
    if isinstance(tensor, tf.RaggedTensor):
        return tensor.with_flat_values(function(tensor.flat_values))
    return function(tensor)

";

const PARSE: &str = "
def parse(records):
    \"\"\"Reads a vector of serialized Examples: a dict of tensors by column.\"\"\"
    features = tf.io.parse_example(records, FEATURES)
";

const PARSE_SEQUENCES: &str = "
def parse(records):
    \"\"\"Reads a vector of serialized SequenceExamples: a dict of tensors by column, and one of numbers of steps.\"\"\"
    context, sequences, lengths = tf.io.parse_sequence_example(records, CONTEXT, SEQUENCES)
    features = {**context, **sequences}
";

/// The descriptor of the message, with its examples and its context as bytes: `tf.io.parse_example` reads these.
const MESSAGE: &str = r#"
# An ExampleListWithContext, the record of TensorFlow Ranking, for tf.io.decode_proto: its examples and its context.
MESSAGE = (
    b"bytes://\nI\n\nelwc.proto\";\n\x16ExampleListWithContext"
    b"\x12\x10\n\x08examples\x18\x01 \x03(\x0c\x12\x0f\n\x07context\x18\x02 \x03(\x0c"
)
"#;

const PARSE_EXAMPLES: &str = "
def parse(records):
    \"\"\"Reads a vector of serialized ExampleListWithContexts: a dict of tensors by column, and by field of the examples.

    Those of the examples are ragged: a row has as many values as examples.
    \"\"\"
    names, types = [\"examples\", \"context\"], [tf.string, tf.string]
    sizes, (examples, contexts) = tf.io.decode_proto(records, \"ExampleListWithContext\", names, types, MESSAGE)
    examples = tf.RaggedTensor.from_tensor(examples, sizes[:, 0])
    # The parts of a message are one message if they are joined.
    contexts = tf.strings.reduce_join(tf.RaggedTensor.from_tensor(contexts, sizes[:, 1]), axis=1)
    features = tf.io.parse_example(contexts, CONTEXT) if CONTEXT else {}
    for name, tensor in tf.io.parse_example(examples.values, EXAMPLES).items():
        if isinstance(tensor, tf.SparseTensor):
            tensor = tf.RaggedTensor.from_sparse(tensor)
        if isinstance(tensor, tf.RaggedTensor):
            tensor = tensor.with_row_splits_dtype(tf.int64)
        features[name] = examples.with_values(tensor)
";

const RAGGED: &str = "    \
    # TensorFlow pads steps of one shape to the most of any record. As many as there are make a ragged tensor, which
    # to_tensor() pads again.
";

/// The templates of the function that reads files. The text between two `@` depends on the return value of `parse`.
const DATASET: &str = include_str!("dataset.py.txt");
const DATASET_OF_ARRAY_RECORD: &str = include_str!("dataset_of_array_record.py.txt");

const LABEL_DOC: &str = "    \
    label: a column, if elements are to be pairs of the other columns and this one: what `fit` of Keras takes.
";

const LABEL_MAP: &str = "    \
    if label is not None:
        batches = batches.map(lambda features: (features, features.pop(label)))
";

pub(super) fn module(table: &TableDescription<'_>) -> Result<String> {
    let known = [RecordType::Example, RecordType::SequenceExample, RecordType::ExampleListWithContext];
    expect_records(table.mapping, &known)?;
    let entries = entries(table.mapping, table.statistics);
    let mut text = header(table);

    let nulls: Vec<String> = entries.iter().filter_map(Entry::null).collect();
    if !nulls.is_empty() {
        text += &format!("{NULLS}NULLS = {{\n{}}}\n\n{SCALAR}", nulls.concat());
    }
    let in_sequences = table.mapping.record_type() == RecordType::SequenceExample;
    let in_lists = table.mapping.record_type() == RecordType::ExampleListWithContext;
    if in_lists {
        let (examples, context): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| entry.in_examples);
        text += &dict("CONTEXT", "The features of the context of a record, for tf.io.parse_example.", &context);
        text += &dict("EXAMPLES", "The features of each example of a record, for tf.io.parse_example.", &examples);
        text += MESSAGE;
    } else if in_sequences {
        let (sequences, context): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| entry.in_steps);
        text += &dict("CONTEXT", "The features of a record, for tf.io.parse_sequence_example.", &context);
        text += &dict("SEQUENCES", "The feature lists of a record, step by step.", &sequences);
    } else {
        let all: Vec<_> = entries.iter().collect();
        text += &dict("FEATURES", "The features of a record, for tf.io.parse_example.", &all);
    }

    let casts: Vec<(&Entry<'_>, Cast)> = entries.iter().filter_map(|entry| Some((entry, entry.cast()?))).collect();
    text += "\n";
    if casts.iter().any(|(_, cast)| !matches!(cast, Cast::To(_))) {
        text += MAP_VALUES;
    }
    text += match () {
        () if in_lists => PARSE_EXAMPLES,
        () if in_sequences => PARSE_SEQUENCES,
        () => PARSE,
    };
    let padded: Vec<_> = entries.iter().filter(|entry| entry.is_padded()).map(Entry::literal).collect();
    if !padded.is_empty() {
        text += RAGGED;
    }
    for key in padded {
        let _ = writeln!(text, "    features[{key}] = tf.RaggedTensor.from_tensor(features[{key}], lengths[{key}])");
    }
    if !casts.is_empty() {
        text += "    # What records have no room for: the types of the columns.\n";
    }
    for (entry, cast) in casts {
        let tensor = format!("features[{}]", entry.literal());
        // Writing to a string cannot fail.
        let _ = writeln!(text, "    {tensor} = {}", cast.of(&tensor));
    }
    text += if in_sequences { "    return features, lengths\n" } else { "    return features\n" };
    text += &dataset(table.container, in_sequences);
    Ok(text)
}

fn dataset(container: Option<Container>, in_sequences: bool) -> String {
    let compressed = |compression| ("\n\n# How the files are compressed.\nCOMPRESSION = ", compression, "\n", DATASET);
    let (comment, compression, end, function) = match container {
        None => compressed("None  # by the names of files"),
        Some(Container::TfRecord(Compression::None)) => compressed("\"\""),
        Some(Container::TfRecord(Compression::Gzip)) => compressed("\"GZIP\""),
        Some(Container::TfRecord(Compression::Zlib)) => compressed("\"ZLIB\""),
        Some(Container::ArrayRecord) => ("", "", "", DATASET_OF_ARRAY_RECORD),
    };
    let (parameter, doc, map) = if in_sequences { ("", "", "") } else { ("label=None,\n    ", LABEL_DOC, LABEL_MAP) };
    let function = function.replace("@LABEL_PARAMETER@", parameter).replace("@LABEL_DOC@", doc);
    let function = function.replace("@LABEL_MAP@", map);
    format!("{comment}{compression}{end}{function}")
}

fn dict(name: &str, comment: &str, entries: &[&Entry<'_>]) -> String {
    let nulls = match entries.iter().any(|entry| entry.is_nullable_list()) {
        true => "# A list that is null is read as an empty one.\n",
        false => "",
    };
    let specs: String = entries.iter().map(|entry| entry.spec()).collect();
    format!("# {comment}\n{nulls}{name} = {{\n{specs}}}\n")
}

fn header(table: &TableDescription<'_>) -> String {
    // A location may contain quotes that would end the docstring.
    let location = table.location.replace('\\', "\\\\").replace("\"\"\"", "\\\"\\\"\\\"");
    let note = table.note.as_ref().map(|note| format!("\n{note}\n")).unwrap_or_default();
    let (needs, shuffle, import) = match table.container {
        Some(Container::ArrayRecord) => (
            "TensorFlow and the package array_record",
            "True",
            "from array_record.python.array_record_data_source import ArrayRecordDataSource\n",
        ),
        _ => ("TensorFlow, and needs nothing else", "10_000", ""),
    };
    format!(
        "\
\"\"\"Reads the records of {location} with {needs}.
{note}
    for batch in dataset(\"shards/train-*\", batch_size=64, shuffle={shuffle}):
        ...
\"\"\"

import os

import tensorflow as tf
{import}
"
    )
}

/// An entry of the spec.
struct Entry<'a> {
    record_type: RecordType,
    column: &'a ColumnMapping,
    key: String,
    /// The spec by which TensorFlow reads it.
    spec: ParseSpec,
    /// The type of its values, if it contains those of the column or of a part.
    value_type: Option<&'a DataType>,
    /// The encoding of its values, if it is the column's.
    choice: Option<Choice>,
    /// Whether it is a feature list.
    in_steps: bool,
    /// Whether it is a feature of examples.
    in_examples: bool,
}

/// Every entry, in the order of columns.
fn entries<'a>(mapping: &'a Mapping, statistics: Option<&Statistics>) -> Vec<Entry<'a>> {
    let mut shapes: HashMap<_, _> =
        observed_features(mapping, statistics).into_iter().map(|feature| (feature.name(), feature)).collect();
    let mut entries = Vec::new();
    let record_type = mapping.record_type();
    for column in mapping.columns() {
        let in_steps = column.features.iter().any(|feature| feature.in_steps);
        for (key, spec) in column.parse_specs() {
            // Parts of lists of lists have other names than the entry.
            let feature = column.features.iter().find(|feature| feature.name == key).or(column.features.first());
            let in_examples = feature.is_some_and(|feature| feature.in_examples);
            let entry = match shapes.remove(key.as_str()) {
                Some(feature) => Entry {
                    record_type,
                    column,
                    spec: dense(&feature).unwrap_or(spec),
                    value_type: feature.value_type(),
                    choice: feature.choice,
                    in_steps,
                    in_examples,
                    key,
                },
                None => {
                    let value_type = column_part_type(column, &key, &mapping.options().separator);
                    Entry { record_type, column, spec, value_type, choice: None, in_steps, in_examples, key }
                }
            };
            entries.push(entry);
        }
    }
    entries
}

/// The spec of a tensor whose shape follows from the column's type.
fn dense(feature: &TableFeature<'_>) -> Option<ParseSpec> {
    let shape = feature.shape.clone().filter(|_| !feature.may_be_absent() && !feature.feature.is_repeated())?;
    Some(ParseSpec { kind: feature.kind(), read_as: ReadAs::FixedLen { shape } })
}

/// The conversion of a feature's tensor to the column's tensor.
enum Cast {
    /// To another type of number.
    To(&'static str),
    /// The same bits as another type.
    Bits(&'static str),
    /// Numbers as text.
    Text(&'static str),
}

impl Cast {
    fn of(&self, tensor: &str) -> String {
        match self {
            Self::To(dtype) => format!("tf.cast({tensor}, {dtype})"),
            Self::Bits(dtype) => format!("_map_values(lambda values: tf.bitcast(values, {dtype}), {tensor})"),
            Self::Text(dtype) => format!("_map_values(lambda values: tf.strings.to_number(values, {dtype}), {tensor})"),
        }
    }
}

impl Entry<'_> {
    fn literal(&self) -> String {
        literal(&self.key)
    }

    /// Whether a null can be read as a default value. TensorFlow rejects a default for features without values: in an
    /// Example only for empty lists, in the context of a SequenceExample for all of them.
    fn is_nullable_scalar(&self) -> bool {
        let nulls = self.column.nulls_of(&self.key);
        let is_minded = |nulls: &NullRule| {
            *nulls == NullPolicy::Empty
                || *nulls == NullPolicy::Unset && self.record_type == RecordType::SequenceExample
        };
        self.spec.read_as == ReadAs::VarLen && !nulls.into_iter().any(is_minded)
    }

    fn is_nullable_list(&self) -> bool {
        self.column.nullable && (self.in_steps || matches!(self.spec.read_as, ReadAs::Ragged { .. }))
    }

    /// Whether it has a varying number of steps of equal shape.
    fn is_padded(&self) -> bool {
        matches!(self.spec.read_as, ReadAs::FixedLenSequence { .. })
    }

    /// Whether its steps would have equal shapes if none were null.
    fn has_null_steps(&self) -> bool {
        let feature = self.column.features.iter().find(|feature| feature.name == self.key);
        self.in_steps && !self.is_padded() && feature.is_some_and(|feature| feature.shape != FeatureShape::List)
    }

    /// The comment on reading a map from positions to values as sparse tensors, for the entry with the values.
    fn sparse(&self) -> Option<String> {
        let (keys, values) = key_and_value(&self.column.data_type)?;
        let keys_are_positions = element_type(keys.data_type()).is_integer() && !keys.data_type().is_nested();
        let names = || self.column.features.iter().filter(|feature| feature.role == FeatureRole::Values);
        let [keys_name, values_name] =
            names().map(|feature| literal(&feature.name)).collect::<Vec<_>>().try_into().ok()?;
        let is_values = self.literal() == values_name && !values.is_nullable() && !values.data_type().is_nested();
        (keys_are_positions && is_values && !self.in_steps).then(|| {
            format!(
                "    # As sparse vectors, of length SIZE: {}: tf.io.SparseFeature({keys_name}, {values_name}, {}, SIZE),\n",
                literal(&self.column.column),
                self.spec.kind.dtype()
            )
        })
    }

    /// The entry's line in the table of nulls.
    fn null(&self) -> Option<String> {
        if !self.is_nullable_scalar() {
            return None;
        }
        let value = match (self.cast(), self.spec.kind) {
            (Some(Cast::Text(_)), _) => "b\"nan\",",
            (Some(Cast::Bits(_)), _) => "0x7FF8000000000000,  # NaN",
            (_, FeatureKind::Bytes) => "b\"\",",
            (_, FeatureKind::Float) => "float(\"nan\"),",
            (_, FeatureKind::Int64) => "0,",
        };
        Some(format!("    {}: {value}\n", self.literal()))
    }

    /// The lines of the entry in the spec.
    fn spec(&self) -> String {
        let (key, column) = (self.literal(), self.column);
        let spec = match self.is_nullable_scalar() {
            true => format!("_scalar({key}, {})", self.spec.kind.dtype()),
            false => self.spec.to_string(),
        };
        let mut comment = column.data_type.to_string();
        if !column.nullable {
            comment += " not null";
        }
        if let Some(form) = &column.form {
            comment += ": ";
            comment += form;
        }
        if self.key != column.column {
            comment = format!("of {:?}, {comment}", column.column);
        }
        if self.has_null_steps() {
            comment += "; a step that is null is read as an empty list, any other as a list of its own";
        }
        // A type contains field names, which may have any characters.
        let comment = comment.replace(char::is_control, " ");
        format!("    # {comment}\n{}    {key}: {spec},\n", self.sparse().unwrap_or_default())
    }

    fn cast(&self) -> Option<Cast> {
        use DataType as T;
        use FeatureKind::{Bytes, Float, Int64};

        Some(match (self.spec.kind, self.value_type?, self.choice) {
            (_, _, Some(Choice::Tensor | Choice::Index)) => return None,
            (Int64, T::Float64, Some(Choice::Bits)) => Cast::Bits("tf.float64"),
            (Bytes, T::Float64, Some(Choice::String)) => Cast::Text("tf.float64"),
            (Int64, T::Boolean, _) => Cast::To("tf.bool"),
            (Int64, T::Int8, _) => Cast::To("tf.int8"),
            (Int64, T::Int16, _) => Cast::To("tf.int16"),
            (Int64, T::Int32, _) => Cast::To("tf.int32"),
            (Int64, T::UInt8, _) => Cast::To("tf.uint8"),
            (Int64, T::UInt16, _) => Cast::To("tf.uint16"),
            (Int64, T::UInt32, _) => Cast::To("tf.uint32"),
            (Int64, T::UInt64, _) => Cast::To("tf.uint64"),
            (Float, T::Float16, _) => Cast::To("tf.float16"),
            (Float, T::Float64, _) => Cast::To("tf.float64"),
            _ => return None,
        })
    }
}

/// A Python string literal.
fn literal(text: &str) -> String {
    let mut literal = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => literal.extend(['\\', letter]),
            '\n' => literal += "\\n",
            '\r' => literal += "\\r",
            '\t' => literal += "\\t",
            letter if letter.is_control() => literal += &format!("\\u{:04x}", u32::from(letter)),
            letter => literal.push(letter),
        }
    }
    literal.push('"');
    literal
}
