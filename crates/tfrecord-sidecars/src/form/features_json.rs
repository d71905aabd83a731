//! A table as a `FeaturesDict` of TensorFlow Datasets.

use arrow_schema::DataType;
use arrow_tfrecord::{Choice, FeatureKind, Mapping, RecordType};
use serde_json::{Map, Value, json};

use crate::columns::{TableFeature, expect_records, is_text};
use crate::error::Result;

/// Where the classes are.
const CLASSES: &str = "tensorflow_datasets.core.features";

pub(super) fn features(mapping: &Mapping) -> Result<String> {
    expect_records(mapping, &[RecordType::Example])?;
    let features: Map<String, Value> =
        TableFeature::all(mapping).iter().map(|feature| (feature.name().to_owned(), described(feature))).collect();
    let dict = json!({
        "pythonClassName": format!("{CLASSES}.features_dict.FeaturesDict"),
        "featuresDict": { "features": features },
    });
    let mut text = serde_json::to_string_pretty(&dict)?;
    text.push('\n');
    Ok(text)
}

fn described(feature: &TableFeature<'_>) -> Value {
    let optional = feature.may_be_absent();
    // What a missing value is read as is nothing for one that is there without values.
    let own_shape = feature.shape.as_deref().filter(|_| !(optional && feature.may_be_empty()));
    if !optional && feature.shape.as_deref() == Some(&[]) && feature.value_type().is_some_and(is_text) {
        return json!({ "pythonClassName": format!("{CLASSES}.text_feature.Text"), "text": {} });
    }
    // Protobuf's JSON has int64 as strings.
    let shape = match own_shape {
        Some([]) => json!({}),
        Some(shape) => json!({ "dimensions": shape.iter().map(usize::to_string).collect::<Vec<_>>() }),
        None => json!({ "dimensions": ["-1"] }),
    };
    let mut tensor = json!({ "dtype": dtype(feature), "encoding": "none", "shape": shape });
    // A tensor of unknown length is empty where it is missing.
    if let (true, Some(_), Value::Object(tensor)) = (optional, own_shape, &mut tensor) {
        tensor.insert("optional".to_owned(), true.into());
    }
    let class = if own_shape == Some(&[]) { "scalar.Scalar" } else { "tensor_feature.Tensor" };
    json!({ "pythonClassName": format!("{CLASSES}.{class}"), "tensor": tensor })
}

/// The type that the values are given when they are read, by NumPy's name.
fn dtype(feature: &TableFeature<'_>) -> &'static str {
    let as_stored = match feature.kind() {
        FeatureKind::Bytes => "object",
        FeatureKind::Float => "float32",
        FeatureKind::Int64 => "int64",
    };
    let Some(value_type) = feature.value_type() else { return as_stored };
    match (value_type, feature.column.choice) {
        (_, Some(Choice::String | Choice::Tensor | Choice::Index)) => as_stored,
        (DataType::Boolean, _) => "bool",
        (DataType::Int8, _) => "int8",
        (DataType::Int16, _) => "int16",
        (DataType::Int32, _) => "int32",
        (DataType::UInt8, _) => "uint8",
        (DataType::UInt16, _) => "uint16",
        (DataType::UInt32, _) => "uint32",
        (DataType::UInt64, None | Some(Choice::Wrap)) => "uint64",
        (DataType::Float16, _) => "float16",
        (DataType::Float64, None) => "float64",
        _ => as_stored,
    }
}
