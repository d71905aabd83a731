//! Converts the features of `features.json` to an Arrow schema.
//!
//! Source of the classes and their fields: `tensorflow_datasets/core/proto/feature.proto`; of how their values are in
//! records: `tensorflow_datasets/core/example_serializer.py`.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema};
use serde_json::Value;

use super::DIGITS;
use crate::error::{ErrorKind, Result};
use crate::tfmd::ReadableSchema;

/// The names of shards where `dataset_info.json` does not state them. Source: `tensorflow_datasets/core/naming.py`.
const DEFAULT_TEMPLATE: &str = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}";

/// Reads the supported features of a `features.json` of TensorFlow Datasets as columns, sorted by name, and reports
/// the others.
///
/// | feature | column |
/// |---|---|
/// | `Scalar`, `Tensor` without dimensions | a value of its `dtype`; bytes for texts |
/// | `Tensor` | fixed-size lists; of an unknown first dimension, a list |
/// | `Text` | `Utf8` |
/// | `ClassLabel` | the number of the label, `Int64` |
/// | `Image`, `Video` | the encoded images, `Binary` and a list of it |
/// | `Audio` | its samples; with `lazyDecode`, the encoded file |
/// | `BBoxFeature` | four `Float32` |
/// | `FeaturesDict`, `Translation` | a struct |
/// | `Sequence`, `Dataset` | a list; of a dict, a list of structs |
///
/// `bfloat16` is read as `Float32`, as it is stored. Values are nullable if they are `optional`, and lists always are.
///
/// ```
/// use tfrecord_sidecars::tfds;
///
/// let classes = "tensorflow_datasets.core.features";
/// let text = format!(r#"{{
///     "pythonClassName": "{classes}.features_dict.FeaturesDict",
///     "featuresDict": {{ "features": {{
///         "title": {{ "pythonClassName": "{classes}.text_feature.Text", "text": {{}} }},
///         "label": {{ "pythonClassName": "{classes}.class_label_feature.ClassLabel", "classLabel": {{ "numClasses": "3" }} }}
///     }} }}
/// }}"#);
/// let read = tfds::readable_from_features(&text)?;
/// let columns: Vec<_> = read.schema.fields().iter().map(|field| format!("{} {}", field.name(), field.data_type())).collect();
/// assert_eq!(columns, ["label Int64", "title Utf8"]);
/// # Ok::<(), tfrecord_sidecars::Error>(())
/// ```
///
/// # Errors
/// Fails on text that is not JSON, with line and column, or whose root is not a dict of features.
pub fn readable_from_features(text: &str) -> Result<ReadableSchema> {
    let root: Value = serde_json::from_str(text).map_err(|source| ErrorKind::FeaturesJson { source })?;
    let Some(features) = root.pointer("/featuresDict/features").and_then(Value::as_object) else {
        let problem = match root.get("content").is_some() || root.get("type").is_some() {
            true => "its form is that of TensorFlow Datasets before 4.4",
            false => "its root is not a FeaturesDict",
        };
        return Err(ErrorKind::NotFeatures { problem }.into());
    };
    let mut fields = Vec::with_capacity(features.len());
    let (mut unread, mut labelled) = (Vec::new(), Vec::new());
    let mut features: Vec<_> = features.iter().collect();
    features.sort_by_key(|(name, _)| *name);
    for (name, feature) in features {
        match field(name, name, feature, 0) {
            Ok((read, _)) => {
                let element = feature.pointer("/sequence/feature").unwrap_or(feature);
                labelled.extend(element.get("classLabel").map(|_| name.clone()));
                fields.push(Arc::new(read));
            }
            Err(error) => unread.push((name.clone(), error)),
        }
    }
    Ok(ReadableSchema { schema: Schema::new(fields), refused: unread, labelled })
}

/// The file next to `features.json` with the names of the labels of a feature, one a line.
pub fn label_file(feature: &str) -> String {
    format!("{}.labels.txt", feature.replace('/', "."))
}

/// Reads the names of the shards in a `dataset_info.json` of TensorFlow Datasets, each with its number of records. Names
/// of a template with other parts than TensorFlow Datasets' own are left out.
///
/// # Errors
/// Fails on text that is not JSON, with line and column.
pub fn shard_lengths(text: &str) -> Result<BTreeMap<String, u64>> {
    let info: Value = serde_json::from_str(text).map_err(|source| ErrorKind::FeaturesJson { source })?;
    let word = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let dataset = word(&info, "name").unwrap_or_default();
    let format = word(&info, "fileFormat").unwrap_or_else(|| "tfrecord".to_owned());
    let mut lengths = BTreeMap::new();
    for split in info.get("splits").and_then(Value::as_array).into_iter().flatten() {
        let template = word(split, "filepathTemplate").filter(|template| !template.is_empty());
        let template = template.unwrap_or_else(|| DEFAULT_TEMPLATE.to_owned());
        let template = template
            .replace("{DATASET}", &dataset)
            .replace("{SPLIT}", &word(split, "name").unwrap_or_default())
            .replace("{FILEFORMAT}", &format);
        let shards = split.get("shardLengths").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let total = shards.len();
        let digits = DIGITS.max(total.to_string().len());
        for (index, length) in shards.iter().enumerate() {
            let (index, total) = (format!("{index:0digits$}"), format!("{total:0digits$}"));
            let name = template
                .replace("{SHARD_X_OF_Y}", &format!("{index}-of-{total}"))
                .replace("{SHARD_INDEX}", &index)
                .replace("{NUM_SHARDS}", &total);
            if let (Some(length), false) = (number(Some(length)), name.contains(['{', '}'])) {
                lengths.extend(u64::try_from(length).map(|length| (name, length)));
            }
        }
    }
    Ok(lengths)
}

fn refused(feature: &str, problem: impl Into<String>) -> crate::Error {
    let hint = "format=tfrecord reads the features as they are in the records".to_owned();
    ErrorKind::Feature { feature: feature.to_owned(), problem: problem.into(), hint }.into()
}

/// The type of a feature.
struct Part {
    data_type: DataType,
    /// Whether it is a list of no fixed length.
    is_list: bool,
    /// Whether it is or contains one.
    has_list: bool,
}

impl From<DataType> for Part {
    fn from(data_type: DataType) -> Self {
        Self { data_type, is_list: false, has_list: false }
    }
}

impl Part {
    fn in_list(self) -> Self {
        Self { data_type: DataType::new_list(self.data_type, false), is_list: true, has_list: true }
    }

    fn in_fixed(self, path: &str, size: usize) -> Result<Self> {
        let size = i32::try_from(size).map_err(|_| refused(path, format!("its dimension of {size} is too long")))?;
        let data_type = DataType::new_fixed_size_list(self.data_type, size, false);
        Ok(Self { data_type, is_list: false, has_list: self.has_list })
    }

    fn in_struct(fields: Vec<(Field, bool)>) -> Self {
        let has_list = fields.iter().any(|(_, has_list)| *has_list);
        let fields: Fields = fields.into_iter().map(|(field, _)| field).collect();
        Self { data_type: Field::new_struct("", fields, false).data_type().clone(), is_list: false, has_list }
    }
}

/// A feature in `sequences` sequences as a column or a field, and whether it has a list of no fixed length. `path` is its
/// name in messages.
fn field(name: &str, path: &str, feature: &Value, sequences: usize) -> Result<(Field, bool)> {
    let Part { data_type, is_list, has_list } = part(path, feature, sequences)?;
    let is_optional = feature.pointer("/tensor/optional").and_then(Value::as_bool) == Some(true);
    Ok((Field::new(name, data_type, is_optional || is_list), has_list))
}

fn part(path: &str, feature: &Value, sequences: usize) -> Result<Part> {
    let class = feature.get("pythonClassName").and_then(Value::as_str).unwrap_or_default();
    let of_class = |name: &str| class.rsplit('.').next() == Some(name);
    let mut contents = feature.as_object().into_iter().flatten();
    let content = contents.find(|(key, _)| !matches!(key.as_str(), "pythonClassName" | "description"));
    let Some((kind, content)) = content else {
        return Err(refused(path, format!("features.json does not describe its class {class}")));
    };
    match kind.as_str() {
        "featuresDict" => dict(path, content.get("features").unwrap_or(&Value::Null), sequences),
        "tensor" if of_class("Scalar") || of_class("Tensor") => tensor(path, content, sequences),
        "text" => Ok(DataType::Utf8.into()),
        "classLabel" => Ok(DataType::Int64.into()),
        "image" => Ok(DataType::Binary.into()),
        "video" if sequences == 0 => Ok(Part::from(DataType::Binary).in_list()),
        "boundingBox" if of_class("BBoxFeature") => tensor(path, content, sequences),
        "audio" => match content.get("lazyDecode").and_then(Value::as_bool) {
            Some(true) => Ok(DataType::Binary.into()),
            _ => tensor(path, content, sequences),
        },
        "translation" => translation(path, content),
        "sequence" if of_class("Sequence") || of_class("Dataset") => sequence(path, content, sequences),
        _ => Err(refused(path, format!("its class {class} is not supported"))),
    }
}

fn dict(path: &str, features: &Value, sequences: usize) -> Result<Part> {
    let features = features.as_object().filter(|features| !features.is_empty());
    let features = features.ok_or_else(|| refused(path, "it is a dict without features"))?;
    let fields = features.iter().map(|(name, part)| {
        // In records a slash separates the names of parts.
        match name.contains('/') {
            true => Err(refused(path, format!("the name {name:?} of its part contains a slash"))),
            false => field(name, &format!("{path}/{name}"), part, sequences),
        }
    });
    Ok(Part::in_struct(fields.collect::<Result<_>>()?))
}

/// Texts by language.
fn translation(path: &str, content: &Value) -> Result<Part> {
    if content.get("variableLanguages").is_some_and(|value| !matches!(value, Value::Bool(false) | Value::Null)) {
        return Err(refused(path, "translations into languages that differ are not supported"));
    }
    let languages = content.get("languages").and_then(Value::as_array).into_iter().flatten();
    let fields: Vec<_> = languages
        .filter_map(Value::as_str)
        .map(|language| (Field::new(language, DataType::Utf8, false), false))
        .collect();
    match fields.is_empty() {
        true => Err(refused(path, "it is a translation without languages")),
        false => Ok(Part::in_struct(fields)),
    }
}

fn sequence(path: &str, content: &Value, sequences: usize) -> Result<Part> {
    let element =
        content.get("feature").ok_or_else(|| refused(path, "features.json does not describe its elements"))?;
    let length = number(content.get("length")).unwrap_or(-1);
    let element = part(path, element, sequences + 1)?;
    match usize::try_from(length) {
        Err(_) => Ok(element.in_list()),
        Ok(_) if sequences > 0 || element.has_list => {
            Err(refused(path, "a sequence of a fixed length with or within other sequences is not supported"))
        }
        Ok(length) => element.in_fixed(path, length),
    }
}

fn tensor(path: &str, content: &Value, sequences: usize) -> Result<Part> {
    // Audio has the name of the enumeration.
    let encoding = content.get("encoding").and_then(Value::as_str);
    if let Some(encoding) = encoding.filter(|name| !name.eq_ignore_ascii_case("none")) {
        return Err(refused(path, format!("its tensors are encoded as {encoding}")));
    }
    let dimensions = content.pointer("/shape/dimensions").and_then(Value::as_array);
    let sizes = dimensions.into_iter().flatten().map(|size| number(Some(size)).unwrap_or(-1));
    let sizes: Vec<i64> = sizes.collect();
    if sizes.iter().filter(|size| **size < 0).count() > 1 {
        return Err(refused(path, "more than one of its dimensions is unknown"));
    }
    let mut found = Part::from(value_type(path, content)?);
    for (position, size) in sizes.iter().enumerate().rev() {
        found = match usize::try_from(*size) {
            Ok(size) => found.in_fixed(path, size)?,
            Err(_) if position == 0 && sequences == 0 => found.in_list(),
            Err(_) => return Err(refused(path, "an unknown dimension within others is not supported")),
        };
    }
    Ok(found)
}

fn value_type(path: &str, content: &Value) -> Result<DataType> {
    let dtype = content.get("dtype").and_then(Value::as_str).unwrap_or_default();
    Ok(match dtype {
        "bool" => DataType::Boolean,
        "int8" => DataType::Int8,
        "int16" => DataType::Int16,
        "int32" => DataType::Int32,
        "int64" => DataType::Int64,
        "uint8" => DataType::UInt8,
        "uint16" => DataType::UInt16,
        "uint32" => DataType::UInt32,
        "uint64" => DataType::UInt64,
        "float16" => DataType::Float16,
        "float32" | "bfloat16" => DataType::Float32,
        "float64" => DataType::Float64,
        "string" | "object" => DataType::Binary,
        other => return Err(refused(path, format!("its dtype {other:?} is not supported"))),
    })
}

/// A number of protobuf's JSON, which represents int64 as text.
fn number(value: Option<&Value>) -> Option<i64> {
    match value? {
        Value::String(text) => text.parse().ok(),
        value => value.as_i64(),
    }
}
