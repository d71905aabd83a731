//! `TensorProto`, as `tf.io.serialize_tensor` writes it.
//!
//! Source: `tensorflow/core/framework/{tensor,tensor_shape,types}.proto`. Field 1 is the dtype, field 2 the shape,
//! field 4 the content, little-endian and left out where there is none.

use crate::reader::wire::{FieldValue, field};
use crate::wire::{field_len, put_bytes, put_header, put_varint};

/// `DT_DOUBLE`.
const DOUBLE: u8 = 2;

/// Appends a tensor of doubles: of rank 1 and `values.len()` values, or with `scalar` of rank 0.
pub(crate) fn append_doubles(out: &mut Vec<u8>, values: &[f64], scalar: bool) {
    // A dimension is a message with its size in field 1; protobuf leaves out a size of 0.
    let mut dim = [0; 16];
    let dim_len = if values.is_empty() {
        0
    } else {
        dim[0] = 0x08;
        put_varint(&mut dim, 1, values.len() as u64)
    };
    let shape_len = if scalar { 0 } else { field_len(dim_len) };
    let content_len = size_of_val(values);

    let mut header = [0; 64];
    header[..2].copy_from_slice(&[0x08, DOUBLE]);
    let mut pos = put_header(&mut header, 2, 0x12, shape_len);
    if !scalar {
        pos = put_header(&mut header, pos, 0x12, dim_len);
        pos = put_bytes(&mut header, pos, &dim[..dim_len]);
    }
    if content_len > 0 {
        pos = put_header(&mut header, pos, 0x22, content_len);
    }
    out.extend_from_slice(&header[..pos]);
    out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

/// Appends the values of a serialized tensor of doubles, and returns how many; none if it is no such tensor, or one
/// whose values do not stand in its content. The shape is not looked at.
pub(crate) fn read_doubles(tensor: &[u8], out: &mut Vec<f64>) -> Option<usize> {
    /// `TensorProto.double_val`, where the content may not be.
    const DOUBLE_VAL: u64 = 6;

    let (mut dtype, mut content) = (0, 0..0);
    let mut pos = 0;
    while pos < tensor.len() {
        let field = field(tensor, pos).ok()?;
        pos = field.end;
        match (field.number, field.value) {
            (1, FieldValue::Varint(value)) => dtype = value,
            (4, FieldValue::Delimited(range)) => content = range,
            (DOUBLE_VAL, _) => return None,
            _ => {}
        }
    }
    let (values, rest) = tensor[content].as_chunks();
    if dtype != u64::from(DOUBLE) || !rest.is_empty() {
        return None;
    }
    out.extend(values.iter().map(|value| f64::from_le_bytes(*value)));
    Some(values.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;
    use tfr_proto::tensorflow::{TensorProto, TensorShapeProto, tensor_shape_proto::Dim};

    #[test]
    fn doubles_are_the_message_tensorflow_writes() {
        for (values, scalar) in [(vec![1.5], true), (vec![], false), (vec![1.5, -0.0], false), (vec![0.25; 300], false)]
        {
            let dims = if scalar { vec![] } else { vec![Dim { size: values.len() as i64, ..Default::default() }] };
            let message = TensorProto {
                dtype: i32::from(DOUBLE),
                tensor_shape: Some(TensorShapeProto { dim: dims, ..Default::default() }),
                tensor_content: values.iter().flat_map(|value: &f64| value.to_le_bytes()).collect(),
                ..Default::default()
            };
            let mut ours = Vec::new();
            append_doubles(&mut ours, &values, scalar);
            assert_eq!(ours, message.encode_to_vec(), "{values:?}");
            let mut back = Vec::new();
            assert_eq!(read_doubles(&ours, &mut back), Some(values.len()));
            assert_eq!(back, values);
        }
    }
}
