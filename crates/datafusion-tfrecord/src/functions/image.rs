//! `image_info` and `try_image_info`: read the header of an image.

use std::fmt;
use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use arrow_array::builder::{Int64Builder, NullBufferBuilder, StringBuilder};
use arrow_array::{Array, ArrayRef, BinaryViewArray, StructArray};
use arrow_schema::{DataType, Field, FieldRef, Fields};
use datafusion_common::Result;
use datafusion_expr::{
    Coercion, ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature,
    TypeSignatureClass, Volatility,
};
use image::{ColorType, ImageDecoder, ImageFormat, ImageReader, Limits};

use super::argument::bytes;
use super::error::FunctionErrorKind;
use super::{SECTION, result};

/// Maximum bytes that a decoder may allocate to read a header, whatever the header contains: a colour profile, or a
/// row of pixels.
const MAX_ALLOC: u64 = 64 << 20;

/// `image_info(bytes)` and `try_image_info(bytes)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct ImageInfo {
    or_null: bool,
    signature: Signature,
}

impl Default for ImageInfo {
    fn default() -> Self {
        let bytes = Coercion::new_exact(TypeSignatureClass::Binary);
        Self { or_null: false, signature: Signature::coercible(vec![bytes], Volatility::Immutable) }
    }
}

impl ImageInfo {
    /// Creates the function that returns null for invalid images.
    pub(super) fn or_null() -> Self {
        Self { or_null: true, ..Self::default() }
    }

    fn function(&self) -> &'static str {
        if self.or_null { "try_image_info" } else { "image_info" }
    }

    fn rows(&self, images: &BinaryViewArray) -> Result<StructArray> {
        let mut formats = StringBuilder::new();
        let mut sizes = [(); 3].map(|()| Int64Builder::with_capacity(images.len()));
        let mut nulls = NullBufferBuilder::new(images.len());
        for row in 0..images.len() {
            let header = match images.is_valid(row).then(|| header(images.value(row))).transpose() {
                Ok(header) => header,
                Err(_) if self.or_null => None,
                Err(reason) => {
                    return Err(FunctionErrorKind::Image {
                        function: self.function(),
                        row,
                        reason: reason.to_string(),
                    }
                    .into());
                }
            };
            nulls.append(header.is_some());
            formats.append_option(header.as_ref().map(|header| header.format));
            let values = header.map(|header| [header.width, header.height, header.channels]);
            for (column, size) in sizes.iter_mut().enumerate() {
                size.append_option(values.map(|values| values[column].into()));
            }
        }
        let [mut widths, mut heights, mut channels] = sizes;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(formats.finish()),
            Arc::new(widths.finish()),
            Arc::new(heights.finish()),
            Arc::new(channels.finish()),
        ];
        Ok(StructArray::try_new(FIELDS.clone(), columns, nulls.finish())?)
    }
}

static FIELDS: LazyLock<Fields> = LazyLock::new(|| {
    let sizes = ["width", "height", "channels"].map(|name| Field::new(name, DataType::Int64, false));
    std::iter::once(Field::new("format", DataType::Utf8, false)).chain(sizes).collect()
});

/// The contents of an image header.
#[derive(Debug, PartialEq, Eq)]
struct Header {
    format: &'static str,
    width: u32,
    height: u32,
    channels: u32,
}

/// Why bytes are not a valid image.
#[derive(Debug)]
enum Defect {
    Format,
    Empty,
    Damaged(&'static str, image::ImageError),
    Panic(&'static str),
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Format => f.write_str("no JPEG, PNG, GIF, BMP, WebP or TIFF image"),
            Self::Empty => f.write_str("an image without pixels"),
            Self::Damaged(format, error) => write!(f, "a damaged {format} image: {error}"),
            Self::Panic(format) => write!(f, "a damaged {format} image: the reader panicked on its header"),
        }
    }
}

/// Reads the header of an image, but no pixels.
fn header(bytes: &[u8]) -> Result<Header, Defect> {
    let format = image::guess_format(bytes).map_err(|_| Defect::Format)?;
    let name = match format {
        ImageFormat::Jpeg => "JPEG",
        ImageFormat::Png => "PNG",
        ImageFormat::Gif => "GIF",
        ImageFormat::Bmp => "BMP",
        ImageFormat::WebP => "WEBP",
        ImageFormat::Tiff => "TIFF",
        _ => return Err(Defect::Format),
    };
    let read = || {
        let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
        let mut limits = Limits::no_limits();
        limits.max_alloc = Some(MAX_ALLOC);
        reader.limits(limits);
        reader.into_decoder().map(|decoder| (decoder.dimensions(), decoder.color_type()))
    };
    let read = catch_unwind(AssertUnwindSafe(read)).map_err(|_| Defect::Panic(name))?;
    let ((width, height), color) = read.map_err(|error| Defect::Damaged(name, error))?;
    if width == 0 || height == 0 {
        return Err(Defect::Empty);
    }
    Ok(Header { format: name, width, height, channels: channels(format, bytes, color) })
}

/// Offset of a PNG image's colour type: after the signature, the length and name of the first chunk, width, height
/// and bits per sample (PNG specification, 11.2.1).
const PNG_COLOR_TYPE: usize = 25;

/// Offset of a BMP image's bits per pixel: after a header of 14 bytes, length, width, height and planes.
const BMP_BITS: usize = 28;

/// Returns the number of values per pixel that `tf.io.decode_image` returns. The decoder sometimes returns more.
fn channels(format: ImageFormat, bytes: &[u8], decoded: ColorType) -> u32 {
    let decoded = decoded.channel_count().into();
    match (format, bytes.get(PNG_COLOR_TYPE), bytes.get(BMP_BITS)) {
        (ImageFormat::Gif, ..) => 3,
        // A single transparent colour adds no alpha channel, except in palettes.
        (ImageFormat::Png, Some(0), _) => 1,
        (ImageFormat::Png, Some(2), _) => 3,
        // Palettes are not looked up, and an alpha channel counts even if it is unused.
        (ImageFormat::Bmp, _, Some(8)) => 1,
        (ImageFormat::Bmp, _, Some(32)) => 4,
        _ => decoded,
    }
}

impl ScalarUDFImpl for ImageInfo {
    fn name(&self) -> &str {
        self.function()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Struct(FIELDS.clone()))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let is_nullable = self.or_null || args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), DataType::Struct(FIELDS.clone()), is_nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (images, is_scalar) = bytes(&args)?;
        result(Arc::new(self.rows(&images)?), is_scalar)
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(if self.or_null { &TRY_IMAGE_INFO } else { &IMAGE_INFO })
    }
}

const IMAGE: &str = "The bytes of a JPEG, PNG, GIF, BMP, WebP or TIFF image.";

static IMAGE_INFO: LazyLock<Documentation> = LazyLock::new(|| {
    let description = "What the header of an image says, without a look at its pixels: `format` (JPEG, PNG, GIF, BMP, \
                       WEBP or TIFF), `width` and `height` as they are stored, whatever the orientation in EXIF, and \
                       `channels`, as many as `tf.io.decode_image` gives. Bytes that are no image are an error.";
    Documentation::builder(SECTION, description, "image_info(image)")
        .with_sql_example("```sql\nSELECT path, image_info(content)['width'] FROM files('images/**/*.jpg')\n```")
        .with_argument("image", IMAGE)
        .with_related_udf("try_image_info")
        .build()
});

static TRY_IMAGE_INFO: LazyLock<Documentation> = LazyLock::new(|| {
    let description = "As `image_info`, but null for bytes that are not an image.";
    Documentation::builder(SECTION, description, "try_image_info(image)")
        .with_sql_example("```sql\nSELECT path FROM files('images/**') WHERE try_image_info(content) IS NULL\n```")
        .with_argument("image", IMAGE)
        .with_related_udf("image_info")
        .build()
});

#[cfg(test)]
mod tests {
    use image::DynamicImage;

    use super::*;

    fn encoded(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        image.write_to(&mut bytes, format).unwrap();
        bytes.into_inner()
    }

    #[test]
    fn headers_of_every_format() {
        let grey = DynamicImage::new_luma8(5, 3);
        let with_alpha = DynamicImage::new_luma_a16(5, 3);
        let rgb = DynamicImage::new_rgb8(5, 3);
        let rgba = DynamicImage::new_rgba8(5, 3);
        for (image, format, name, channels) in [
            (&grey, ImageFormat::Jpeg, "JPEG", 1),
            (&rgb, ImageFormat::Jpeg, "JPEG", 3),
            (&grey, ImageFormat::Png, "PNG", 1),
            (&with_alpha, ImageFormat::Png, "PNG", 2),
            (&rgb, ImageFormat::Png, "PNG", 3),
            (&rgba, ImageFormat::Png, "PNG", 4),
            (&rgba, ImageFormat::Gif, "GIF", 3),
            (&grey, ImageFormat::Bmp, "BMP", 1),
            (&rgb, ImageFormat::Bmp, "BMP", 3),
            (&rgba, ImageFormat::Bmp, "BMP", 4),
            (&rgb, ImageFormat::WebP, "WEBP", 3),
            (&rgba, ImageFormat::WebP, "WEBP", 4),
            (&grey, ImageFormat::Tiff, "TIFF", 1),
            (&rgba, ImageFormat::Tiff, "TIFF", 4),
        ] {
            let found = header(&encoded(image, format)).unwrap();
            assert_eq!(found, Header { format: name, width: 5, height: 3, channels });
        }
    }

    /// A header may contain any size. It must not allocate memory: the pixels would be 2^64 bytes.
    #[test]
    fn sizes_beyond_all_memory() {
        let most = i32::MAX.to_le_bytes();
        let mut bmp = encoded(&DynamicImage::new_rgba8(1, 1), ImageFormat::Bmp);
        bmp[18..22].copy_from_slice(&most);
        bmp[22..26].copy_from_slice(&most);
        assert!(header(&bmp).is_err_and(|defect| defect.to_string().contains("damaged BMP image")));
        let mut gif = encoded(&DynamicImage::new_rgba8(1, 1), ImageFormat::Gif);
        gif[6..10].fill(0xff);
        assert_eq!(header(&gif).unwrap().width, 0xffff);
        // 2147483647 x 2147483647 of RGBA, 16 bits per sample; the last four bytes are the checksum.
        let ihdr = b"\x00\x00\x00\x0dIHDR\x7f\xff\xff\xff\x7f\xff\xff\xff\x10\x06\x00\x00\x00\x44\x59\xd7\x25";
        let png = [b"\x89PNG\r\n\x1a\n", ihdr.as_slice(), b"\x00\x00\x00\x00IDAT\x35\xaf\x06\x1e"].concat();
        assert!(header(&png).is_err_and(|defect| defect.to_string().contains("damaged PNG image")));
    }

    #[test]
    fn image_header_rejects_other_bytes() {
        let png = encoded(&DynamicImage::new_rgb8(2, 2), ImageFormat::Png);
        for (bytes, reason) in [
            (&b""[..], "no JPEG, PNG, GIF, BMP, WebP or TIFF image"),
            (b"<svg/>", "no JPEG, PNG, GIF, BMP, WebP or TIFF image"),
            (b"\0\0\x01\0\x01\0", "no JPEG, PNG, GIF, BMP, WebP or TIFF image"),
            (b"GIF89a\0\0", "a damaged GIF image"),
            (&png[..30], "a damaged PNG image"),
        ] {
            let defect = header(bytes).unwrap_err().to_string();
            assert!(defect.starts_with(reason), "{defect}");
        }
    }
}
