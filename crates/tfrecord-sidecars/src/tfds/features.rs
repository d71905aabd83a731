//! A table as a `FeaturesDict`.

use std::collections::BTreeMap;

use arrow_schema::{DataType, FieldRef, Fields};
use arrow_tfrecord::{Choice, ColumnMapping, FeatureKind, FeatureRole, Mapping, RecordType};
use serde_json::{Value, json};
use tfr_arrow::nested::{item, key_and_value, value_type};

use super::Object;
use crate::columns::{TableFeature, expect_records, is_text};
use crate::error::{Result, TfdsProblem};
use crate::images::{ImageFormat, ImageHeader};
use crate::stats::{Statistics, observed_features};

/// The Python module of the feature classes.
const CLASSES: &str = "tensorflow_datasets.core.features";

/// TensorFlow Datasets' separator between the names of parts.
const SEPARATOR: &str = "/";

/// The column of an episode's steps, and the flags of a step, by the conventions of RLDS, the format of TensorFlow
/// Datasets for reinforcement learning.
const STEPS: &str = "steps";
const STEP_FLAGS: [&str; 2] = ["steps/is_first", "steps/is_last"];

/// The features of the table, and the label files by name.
#[derive(Debug)]
struct Table<'a> {
    mapping: &'a Mapping,
    features: BTreeMap<&'a str, TableFeature<'a>>,
    images: &'a BTreeMap<String, ImageFormat>,
    label_files: Vec<(String, String)>,
    /// Whether the part is of a step, each of which is decoded by itself.
    is_step: bool,
}

pub(super) fn features(
    mapping: &Mapping,
    statistics: Option<&Statistics>,
    images: &BTreeMap<String, ImageFormat>,
) -> Result<Value> {
    let mut table = Table::new(mapping, statistics, images)?;
    let features = table.columns();
    if let Some(name) = images.keys().find(|name| !table.is_image(name)) {
        return Err(TfdsProblem::NotImages { column: name.clone() }.into());
    }
    Ok(dict(features))
}

pub(super) fn label_files(mapping: &Mapping, statistics: Option<&Statistics>) -> Result<Vec<(String, String)>> {
    let images = BTreeMap::new();
    let mut table = Table::new(mapping, statistics, &images)?;
    table.columns();
    Ok(table.label_files)
}

impl<'a> Table<'a> {
    fn new(
        mapping: &'a Mapping,
        statistics: Option<&Statistics>,
        images: &'a BTreeMap<String, ImageFormat>,
    ) -> Result<Self> {
        expect_records(mapping, &[RecordType::Example])?;
        let all = observed_features(mapping, statistics);
        let features = all.into_iter().map(|feature| (feature.name(), feature)).collect();
        Ok(Self { mapping, features, images, label_files: Vec::new(), is_step: false })
    }

    fn columns(&mut self) -> Object {
        let mut features = Object::new();
        for column in self.mapping.columns() {
            let before = self.label_files.len();
            let nested = self.nested(column);
            let is_nested = nested.is_some();
            match nested {
                Some(feature) => drop(features.insert(column.column.clone(), feature)),
                None => self.label_files.truncate(before),
            }
            for feature in &column.features {
                if is_nested && feature.role != FeatureRole::Mask {
                    continue;
                }
                if let Some(feature) = self.features.get(feature.name.as_str()).cloned() {
                    let name = feature.name().to_owned();
                    let labels = file_name(&name, None);
                    features.insert(name, self.leaf(&feature, labels, None, &[]));
                }
            }
        }
        features
    }

    /// The column without its masks as one nested feature. `None` if TensorFlow Datasets expects other names of its
    /// features.
    fn nested(&mut self, column: &'a ColumnMapping) -> Option<Value> {
        let values: Vec<_> = column.features.iter().filter(|feature| feature.role != FeatureRole::Mask).collect();
        let is_plain = |role| matches!(role, FeatureRole::Values | FeatureRole::RowLengths);
        if values.is_empty() || !values.iter().all(|feature| is_plain(feature.role)) {
            return None;
        }
        let labels = file_name(&column.column, None);
        if let [feature] = values.as_slice()
            && feature.name == column.column
        {
            let feature = self.features.get(feature.name.as_str())?.clone();
            let fixed = match lists_around(&column.data_type) {
                // A list of fixed-size lists is a sequence of tensors.
                Some(sizes) if feature.shape.is_none() => sizes,
                _ => Vec::new(),
            };
            return Some(self.leaf(&feature, labels, None, &fixed));
        }
        if self.mapping.options().separator != SEPARATOR {
            return None;
        }
        self.part(&column.data_type, &column.column, labels, 0)
    }

    /// A part of a column, inside `depth` variable-length lists.
    fn part(&mut self, data_type: &DataType, path: &str, labels: String, depth: usize) -> Option<Value> {
        match data_type {
            DataType::Struct(fields) => self.fields(fields, path, &labels, depth).map(dict),
            map if let Some((key, value)) = key_and_value(map) => {
                let mut features = Object::new();
                for (field, name) in [(key, "key"), (value, "value")] {
                    let labels = file_name(name, Some(&labels));
                    let part = self.part(field.data_type(), &format!("{path}/{name}"), labels, depth + 1)?;
                    features.insert(name.to_owned(), part);
                }
                Some(sequence(dict(features)))
            }
            list if depth == 0 && path == STEPS && self.is_episode() => {
                let item = variable_item(list)?;
                self.is_step = true;
                let step = self.part(item.data_type(), path, labels, depth + 1);
                self.is_step = false;
                Some(dataset(step?))
            }
            list if let Some(item) = variable_item(list) => {
                Some(sequence(self.part(item.data_type(), path, labels, depth + 1)?))
            }
            encoded if value_type(encoded) != encoded && is_nested(value_type(encoded)) => None,
            _ => {
                let name = if depth > 1 { format!("{path}/ragged_flat_values") } else { path.to_owned() };
                // For a struct in a list, only that list determines the lengths.
                let feature = self.features.get(name.as_str()).or_else(|| self.features.get(path))?.clone();
                let fixed = fixed_sizes(data_type)?;
                // Images of different sizes are decoded one by one only in steps.
                if depth == 1
                    && self.is_step
                    && fixed.is_empty()
                    && let Some(header) = feature.image()
                {
                    return Some(image(header));
                }
                Some(match depth {
                    0 => self.leaf(&feature, labels, None, &[]),
                    _ => self.leaf(&feature, labels, Some(fixed), &[]),
                })
            }
        }
    }

    /// Whether the column of steps has the flags that RLDS requires of each.
    fn is_episode(&self) -> bool {
        STEP_FLAGS.iter().all(|flag| {
            let flag = self.features.get(flag);
            flag.is_some_and(|flag| flag.value_type() == Some(&DataType::Boolean))
        })
    }

    fn fields(&mut self, fields: &Fields, path: &str, labels: &str, depth: usize) -> Option<Object> {
        let mut features = Object::new();
        for field in fields {
            // A name with a slash would be read as that of a part.
            if field.name().contains('/') {
                return None;
            }
            let labels = file_name(field.name(), Some(labels));
            let part = self.part(field.data_type(), &format!("{path}/{}", field.name()), labels, depth)?;
            features.insert(field.name().clone(), part);
        }
        Some(features)
    }

    /// A feature by itself or, with the shape of one of its elements, in a list. `beyond` contains the sizes of a
    /// list's elements.
    fn leaf(
        &mut self,
        feature: &TableFeature<'a>,
        labels: String,
        in_list: Option<Vec<usize>>,
        beyond: &[usize],
    ) -> Value {
        let is_element = in_list.is_some();
        let optional = !is_element && feature.may_be_absent();
        // The default of a missing value does not apply to a feature that is present without values.
        let own_shape = match (in_list, &feature.shape) {
            (Some(shape), _) => Some(shape),
            (None, Some(shape)) if !(optional && feature.may_be_empty()) => Some(shape.clone()),
            _ => None,
        };
        let is_scalar = own_shape.as_deref() == Some(&[]);
        if let Some(vocabulary) = feature.vocabulary().filter(|_| !optional && (is_scalar || own_shape.is_none())) {
            let label = json!({
                "pythonClassName": format!("{CLASSES}.class_label_feature.ClassLabel"),
                "classLabel": { "numClasses": vocabulary.len().to_string() },
            });
            if vocabulary.iter().all(|word| fits_a_line(word)) {
                let lines = vocabulary.iter().map(|word| format!("{word}\n"));
                self.label_files.push((format!("{labels}.labels.txt"), lines.collect()));
            }
            return if is_scalar { label } else { sequence(label) };
        }
        if !is_element && self.is_image(feature.name()) {
            let requested = self.images.get(feature.name());
            let requested = requested.map(|format| ImageHeader { format: *format, channels: 3, is_deep: false });
            if let Some(header) = requested.or_else(|| feature.image()) {
                return image(header);
            }
        }
        let text = feature.kind() == FeatureKind::Bytes && feature.value_type().is_some_and(is_text);
        if !optional && is_scalar && text && feature.column.choice.is_none() {
            return json!({ "pythonClassName": format!("{CLASSES}.text_feature.Text"), "text": {} });
        }
        // Protobuf's JSON represents int64 as strings.
        let sizes = |sizes: &[usize]| sizes.iter().map(usize::to_string).collect::<Vec<_>>();
        let shape = match &own_shape {
            Some(shape) if shape.is_empty() => json!({}),
            Some(shape) => json!({ "dimensions": sizes(shape) }),
            None => {
                let dimensions = [vec!["-1".to_owned()], sizes(beyond)].concat();
                json!({ "dimensions": dimensions })
            }
        };
        let mut tensor = json!({ "dtype": dtype(feature), "encoding": "none", "shape": shape });
        // A tensor of unknown length is read as empty if it is missing.
        if let (true, true, Value::Object(tensor)) = (optional, own_shape.is_some(), &mut tensor) {
            tensor.insert("optional".to_owned(), true.into());
        }
        let class = if is_scalar { "scalar.Scalar" } else { "tensor_feature.Tensor" };
        json!({ "pythonClassName": format!("{CLASSES}.{class}"), "tensor": tensor })
    }

    fn is_image(&self, name: &str) -> bool {
        self.features.get(name).is_some_and(|feature| {
            feature.kind() == FeatureKind::Bytes && feature.shape.as_deref() == Some(&[]) && !feature.may_be_absent()
        })
    }
}

fn dict(features: Object) -> Value {
    json!({
        "pythonClassName": format!("{CLASSES}.features_dict.FeaturesDict"),
        "featuresDict": { "features": features },
    })
}

fn sequence(feature: Value) -> Value {
    json!({
        "pythonClassName": format!("{CLASSES}.sequence_feature.Sequence"),
        "sequence": { "feature": feature, "length": "-1" },
    })
}

fn image(header: ImageHeader) -> Value {
    let ImageHeader { format, channels, is_deep } = header;
    json!({
        "pythonClassName": format!("{CLASSES}.image_feature.Image"),
        "image": {
            "shape": { "dimensions": ["-1", "-1", channels.to_string()] },
            "dtype": if is_deep { "uint16" } else { "uint8" },
            "encodingFormat": format.word(),
        },
    })
}

/// A sequence that is read as a nested `tf.data.Dataset`.
fn dataset(feature: Value) -> Value {
    json!({
        "pythonClassName": format!("{CLASSES}.dataset_feature.Dataset"),
        "sequence": { "feature": feature, "length": "-1" },
    })
}

/// The name of a feature as used in file names. Source: `convert_feature_name_to_filename` in
/// `tensorflow_datasets/core/features/feature.py`.
fn file_name(name: &str, parent: Option<&str>) -> String {
    let name = name.replace('/', ".");
    match parent {
        Some(parent) => format!("{}-{name}", parent.replace('/', "-")),
        None => name,
    }
}

/// Whether a label survives a line of a label file: Python strips surrounding whitespace.
fn fits_a_line(label: &str) -> bool {
    !label.is_empty() && label.trim() == label && !label.contains(|letter: char| letter.is_control())
}

fn is_nested(data_type: &DataType) -> bool {
    data_type.is_nested()
}

/// The sizes of a list's elements, if these are nested fixed-size lists.
fn lists_around(data_type: &DataType) -> Option<Vec<usize>> {
    variable_item(data_type).and_then(|item| fixed_sizes(item.data_type()))
}

/// The field of a list's elements, if the lists differ in length.
fn variable_item(data_type: &DataType) -> Option<&FieldRef> {
    item(data_type).filter(|_| !matches!(data_type, DataType::FixedSizeList(..)))
}

/// The sizes of fixed-size lists of single values, outermost first.
fn fixed_sizes(mut data_type: &DataType) -> Option<Vec<usize>> {
    let mut sizes = Vec::new();
    while let DataType::FixedSizeList(item, size) = data_type {
        sizes.push(usize::try_from(*size).ok()?);
        data_type = item.data_type();
    }
    (!value_type(data_type).is_nested()).then_some(sizes)
}

/// The NumPy name of the type that the values are read as.
fn dtype(feature: &TableFeature<'_>) -> &'static str {
    let as_stored = match feature.kind() {
        FeatureKind::Bytes => return "object",
        FeatureKind::Float => "float32",
        FeatureKind::Int64 => "int64",
    };
    let Some(value_type) = feature.value_type() else { return as_stored };
    match (feature.kind(), value_type) {
        (FeatureKind::Int64, DataType::Boolean) => "bool",
        (FeatureKind::Int64, DataType::Int8) => "int8",
        (FeatureKind::Int64, DataType::Int16) => "int16",
        (FeatureKind::Int64, DataType::Int32) => "int32",
        (FeatureKind::Int64, DataType::UInt8) => "uint8",
        (FeatureKind::Int64, DataType::UInt16) => "uint16",
        (FeatureKind::Int64, DataType::UInt32) => "uint32",
        (FeatureKind::Int64, DataType::UInt64) => "uint64",
        (FeatureKind::Float, DataType::Float16) => "float16",
        // A float stored as text or as a tensor does not have this type.
        (FeatureKind::Float, DataType::Float64) if feature.column.choice != Some(Choice::Tensor) => "float64",
        _ => as_stored,
    }
}
