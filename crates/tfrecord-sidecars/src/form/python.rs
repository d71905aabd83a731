//! A table as a Python module that reads it with TensorFlow.

use std::fmt::Write;

use arrow_schema::DataType;
use arrow_tfrecord::{Choice, FeatureKind};

use super::TableDescription;
use crate::columns::TableFeature;
use crate::error::Result;

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

pub(super) fn module(table: &TableDescription<'_>) -> Result<String> {
    let features: Vec<Feature<'_>> =
        TableFeature::all(table.mapping)?.into_iter().map(|feature| Feature { feature }).collect();
    let mut text = header(&table.location);

    let nulls: Vec<String> = features.iter().filter_map(Feature::null).collect();
    if !nulls.is_empty() {
        text += &format!("{NULLS}NULLS = {{\n{}}}\n\n{SCALAR}", nulls.concat());
    }
    text += "# The features of a record, for tf.io.parse_example.\n";
    if features.iter().any(Feature::is_nullable_list) {
        text += "# A list that is null is read as an empty one.\n";
    }
    text += &format!("FEATURES = {{\n{}}}\n", features.iter().map(Feature::spec).collect::<String>());

    let casts: Vec<(&Feature<'_>, Cast)> =
        features.iter().filter_map(|feature| Some((feature, feature.cast()?))).collect();
    text += "\n";
    if casts.iter().any(|(_, cast)| !matches!(cast, Cast::To(_))) {
        text += MAP_VALUES;
    }
    text += "
def parse(records):
    \"\"\"Reads a vector of serialized Examples: a dict of tensors by column.\"\"\"
";
    if casts.is_empty() {
        text += "    return tf.io.parse_example(records, FEATURES)\n";
    } else {
        text += "    features = tf.io.parse_example(records, FEATURES)\n";
        text += "    # What records have no room for: the types of the columns.\n";
        for (feature, cast) in casts {
            let tensor = format!("features[{}]", feature.literal());
            // Writing to a string cannot fail.
            let _ = writeln!(text, "    {tensor} = {}", cast.of(&tensor));
        }
        text += "    return features\n";
    }
    Ok(text)
}

fn header(location: &str) -> String {
    // A location may end as a docstring does.
    let location = location.replace('\\', "\\\\").replace("\"\"\"", "\\\"\\\"\\\"");
    format!(
        "\
\"\"\"Reads the records of {location} with TensorFlow, and needs nothing else.

    files = tf.io.gfile.glob(...)
    dataset = tf.data.TFRecordDataset(files, compression_type=\"\")  # or \"GZIP\", \"ZLIB\"
    dataset = dataset.batch(64).map(parse)
\"\"\"

import tensorflow as tf

"
    )
}

struct Feature<'a> {
    feature: TableFeature<'a>,
}

/// How the tensor of a column is made of the tensor of its feature.
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

impl Feature<'_> {
    fn literal(&self) -> String {
        literal(self.feature.name())
    }

    /// The type that TensorFlow parses the feature as.
    fn dtype(&self) -> &'static str {
        match self.feature.kind() {
            FeatureKind::Bytes => "tf.string",
            FeatureKind::Float => "tf.float32",
            FeatureKind::Int64 => "tf.int64",
        }
    }

    fn is_nullable_scalar(&self) -> bool {
        self.feature.may_be_absent() && self.feature.shape.as_deref() == Some(&[])
    }

    fn is_nullable_list(&self) -> bool {
        self.feature.may_be_absent() && !self.is_nullable_scalar()
    }

    /// The column's line in the table of nulls.
    fn null(&self) -> Option<String> {
        if !self.is_nullable_scalar() {
            return None;
        }
        let value = match (self.cast(), self.feature.kind()) {
            (Some(Cast::Text(_)), _) => "b\"nan\"",
            (Some(Cast::Bits(_)), _) => "0x7FF8000000000000,  # NaN",
            (_, FeatureKind::Bytes) => "b\"\"",
            (_, FeatureKind::Float) => "float(\"nan\")",
            (_, FeatureKind::Int64) => "0",
        };
        let comma = if value.contains(',') { "" } else { "," };
        Some(format!("    {}: {value}{comma}\n", self.literal()))
    }

    /// The feature's lines in the spec.
    fn spec(&self) -> String {
        let (name, dtype) = (self.literal(), self.dtype());
        let may_be_absent = self.feature.may_be_absent();
        let spec = match &self.feature.shape {
            Some(shape) if !may_be_absent => format!("tf.io.FixedLenFeature({shape:?}, {dtype})"),
            Some(shape) if shape.is_empty() => format!("_scalar({name}, {dtype})"),
            _ => format!("tf.io.RaggedFeature({dtype})"),
        };
        let column = self.feature.column;
        let mut comment = column.data_type.to_string();
        if !column.nullable {
            comment += " not null";
        }
        if let Some(form) = &column.form {
            comment += ": ";
            comment += form;
        }
        if !self.feature.is_whole() {
            comment = format!("of {:?}, {comment}", column.column);
        }
        // A type has names of fields, which may have anything in them.
        let comment = comment.replace(|letter: char| letter.is_control(), " ");
        format!("    # {comment}\n    {name}: {spec},\n")
    }

    fn cast(&self) -> Option<Cast> {
        let dtype = match (self.feature.value_type()?, self.feature.column.choice) {
            (DataType::Float64, Some(Choice::Bits)) => return Some(Cast::Bits("tf.float64")),
            (DataType::Float64, Some(Choice::String)) => return Some(Cast::Text("tf.float64")),
            (_, Some(Choice::String | Choice::Tensor)) => return None,
            (DataType::Boolean, _) => "tf.bool",
            (DataType::Int8, _) => "tf.int8",
            (DataType::Int16, _) => "tf.int16",
            (DataType::Int32, _) => "tf.int32",
            (DataType::UInt8, _) => "tf.uint8",
            (DataType::UInt16, _) => "tf.uint16",
            (DataType::UInt32, _) => "tf.uint32",
            (DataType::UInt64, _) => "tf.uint64",
            (DataType::Float16, _) => "tf.float16",
            (DataType::Float64, _) => "tf.float64",
            _ => return None,
        };
        Some(Cast::To(dtype))
    }
}

/// A string of Python.
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
