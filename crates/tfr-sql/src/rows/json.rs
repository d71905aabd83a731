//! Formats rows as JSON objects. Numbers that JSON cannot represent are strings, as in protobuf's JSON: `"NaN"`,
//! `"Infinity"`, `"-Infinity"`. A union is written as its value, without its type. A key of a map is the text of its JSON.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrowPrimitiveType, AsArray as _, MapArray, PrimitiveArray, UnionArray};
use arrow::datatypes::{DataType, FieldRef, Float16Type, Float32Type, Float64Type, UnionFields};
use arrow::error::ArrowError;
use arrow::json::writer::{
    Encoder, EncoderFactory, EncoderOptions, LineDelimited, NullableEncoder, WriterBuilder, make_encoder,
};
use arrow::record_batch::RecordBatch;

/// Appends an object for each row of `batch`, each on its own line.
pub fn write_lines(batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError> {
    let builder = WriterBuilder::new().with_explicit_nulls(true).with_encoder_factory(Arc::new(OwnTypes));
    let mut writer = builder.build::<_, LineDelimited>(out);
    writer.write(batch)?;
    writer.finish()
}

/// Encodes floats and unions at any depth. Other types use Arrow's encoders.
#[derive(Debug)]
struct OwnTypes;

impl EncoderFactory for OwnTypes {
    fn make_default_encoder<'a>(
        &self,
        field: &'a FieldRef,
        array: &'a dyn Array,
        options: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        match array.data_type() {
            DataType::Float16 => floats::<Float16Type>(field, array).map(Some),
            DataType::Float32 => floats::<Float32Type>(field, array).map(Some),
            DataType::Float64 => floats::<Float64Type>(field, array).map(Some),
            DataType::Union(fields, _) => union(fields, array, options).map(Some),
            DataType::Map(entries, _) => map(entries, array, options),
            _ => Ok(None),
        }
    }
}

fn floats<'a, T>(field: &'a FieldRef, array: &'a dyn Array) -> Result<NullableEncoder<'a>, ArrowError>
where
    T: ArrowPrimitiveType,
    T::Native: Into<f64>,
{
    // Options without this factory, to avoid infinite recursion.
    static USUAL: LazyLock<EncoderOptions> = LazyLock::new(EncoderOptions::default);
    let values = array.as_primitive::<T>();
    let encoder = FloatEncoder { values, finite: make_encoder(field, array, &USUAL)? };
    Ok(NullableEncoder::new(Box::new(encoder), values.nulls().cloned()))
}

struct FloatEncoder<'a, T: ArrowPrimitiveType> {
    values: &'a PrimitiveArray<T>,
    /// The encoder for finite numbers.
    finite: NullableEncoder<'a>,
}

impl<T> Encoder for FloatEncoder<'_, T>
where
    T: ArrowPrimitiveType,
    T::Native: Into<f64>,
{
    fn encode(&mut self, idx: usize, out: &mut Vec<u8>) {
        let value: f64 = self.values.value(idx).into();
        if value.is_finite() {
            self.finite.encode(idx, out);
        } else {
            let text: &[u8] = match value {
                f64::INFINITY => b"\"Infinity\"",
                f64::NEG_INFINITY => b"\"-Infinity\"",
                _ => b"\"NaN\"",
            };
            out.extend_from_slice(text);
        }
    }
}

/// Encodes a map whose keys are not text, which Arrow's encoder refuses.
fn map<'a>(
    entries: &'a FieldRef,
    array: &'a dyn Array,
    options: &'a EncoderOptions,
) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
    let DataType::Struct(fields) = entries.data_type() else { return Ok(None) };
    let [key, value] = fields.as_ref() else { return Ok(None) };
    if key.data_type().is_string() {
        return Ok(None);
    }
    let maps = array.as_map();
    let keys = make_encoder(key, maps.keys().as_ref(), options)?;
    let values = make_encoder(value, maps.values().as_ref(), options)?;
    Ok(Some(NullableEncoder::new(Box::new(MapEncoder { maps, keys, values }), maps.nulls().cloned())))
}

struct MapEncoder<'a> {
    maps: &'a MapArray,
    keys: NullableEncoder<'a>,
    values: NullableEncoder<'a>,
}

impl Encoder for MapEncoder<'_> {
    fn encode(&mut self, idx: usize, out: &mut Vec<u8>) {
        let offsets = self.maps.value_offsets();
        // Offsets are not negative.
        let (start, end) = (offsets[idx] as usize, offsets[idx + 1] as usize);
        out.push(b'{');
        for entry in start..end {
            if entry > start {
                out.push(b',');
            }
            let key = out.len();
            self.keys.encode(entry, out);
            if out.get(key) != Some(&b'"') {
                let text = String::from_utf8_lossy(&out.split_off(key)).into_owned();
                out.extend_from_slice(serde_json::Value::String(text).to_string().as_bytes());
            }
            out.push(b':');
            match self.values.is_null(entry) {
                true => out.extend_from_slice(b"null"),
                false => self.values.encode(entry, out),
            }
        }
        out.push(b'}');
    }
}

fn union<'a>(
    fields: &'a UnionFields,
    array: &'a dyn Array,
    options: &'a EncoderOptions,
) -> Result<NullableEncoder<'a>, ArrowError> {
    let values = array.as_union();
    let mut members: Vec<Option<NullableEncoder<'a>>> = Vec::new();
    for (id, field) in fields.iter() {
        let index = usize::try_from(id).map_err(|_| ArrowError::SchemaError(format!("type {id} of a union")))?;
        members.resize_with(members.len().max(index + 1), || None);
        members[index] = Some(make_encoder(field, values.child(id).as_ref(), options)?);
    }
    Ok(NullableEncoder::new(Box::new(UnionEncoder { values, members }), None))
}

struct UnionEncoder<'a> {
    values: &'a UnionArray,
    /// By type id.
    members: Vec<Option<NullableEncoder<'a>>>,
}

impl Encoder for UnionEncoder<'_> {
    fn encode(&mut self, idx: usize, out: &mut Vec<u8>) {
        let (id, at) = (self.values.type_id(idx), self.values.value_offset(idx));
        let member = usize::try_from(id).ok().and_then(|id| self.members.get_mut(id)?.as_mut());
        match member {
            Some(member) if !member.is_null(at) => member.encode(at, out),
            _ => out.extend_from_slice(b"null"),
        }
    }
}
