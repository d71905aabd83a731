//! [`ImageHeader`]: what the header of a PNG or JPEG file determines about its pixels, and [`Images`], whether all values
//! of a feature are such files.

use serde::{Deserialize, Serialize};

/// The first bytes of a PNG file. Source: section 5.2 of the PNG specification.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

/// The marker at the start of a JPEG file. Source: table B.1 of ITU-T T.81.
const JPEG: &[u8] = b"\xff\xd8";

/// The image formats that TensorFlow Datasets distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ImageFormat {
    /// `jpeg`
    Jpeg,
    /// `png`
    Png,
}

impl ImageFormat {
    /// Its name in features.json.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Jpeg => "jpeg",
            Self::Png => "png",
        }
    }
}

/// How the pixels of an image are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ImageHeader {
    pub(crate) format: ImageFormat,
    /// 1 for gray, 3 for colors, 4 for colors with transparency.
    pub(crate) channels: u8,
    /// Whether a channel has 16 bits, not 8.
    pub(crate) is_deep: bool,
}

/// Whether all values of a feature are images of one format and depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) enum Images {
    /// There were no values.
    #[default]
    Unseen,
    /// All are images. They decode without loss to as many channels as the one with the most.
    All(ImageHeader),
    /// At least one value is anything else, or their formats or depths differ.
    Other,
}

impl Images {
    /// Adds a value.
    pub(crate) fn add(&mut self, value: &[u8]) {
        self.merge(ImageHeader::of(value).map_or(Self::Other, Self::All));
    }

    /// Merges other values.
    pub(crate) fn merge(&mut self, other: Self) {
        *self = match (*self, other) {
            (Self::Unseen, one) | (one, Self::Unseen) => one,
            (Self::All(one), Self::All(other)) if one.format == other.format && one.is_deep == other.is_deep => {
                Self::All(ImageHeader { channels: one.channels.max(other.channels), ..one })
            }
            _ => Self::Other,
        };
    }
}

impl ImageHeader {
    /// Reads the header of an image. `None` for other bytes, and for images that a decoder to gray, RGB or RGBA would
    /// change: CMYK, gray or indexed colors with transparency, and JPEG of more than 8 bits.
    pub(crate) fn of(value: &[u8]) -> Option<Self> {
        match value.strip_prefix(PNG) {
            Some(chunks) => Self::of_png(chunks),
            None => Self::of_jpeg(value.strip_prefix(JPEG)?),
        }
    }

    fn of_png(chunks: &[u8]) -> Option<Self> {
        // The length and name of the first chunk, then width and height.
        let header = chunks.strip_prefix(b"\0\0\0\x0dIHDR")?.get(8..)?;
        let (depth, color) = (*header.first()?, *header.get(1)?);
        let channels = match color {
            0 => 1,
            2 | 3 => 3,
            6 => 4,
            _ => return None,
        };
        let image = Self { format: ImageFormat::Png, channels, is_deep: depth == 16 };
        let mut rest = chunks;
        // A color that stands for transparency precedes the pixels.
        while let Some((length, chunk)) = rest.split_first_chunk::<4>() {
            let after = usize::try_from(u32::from_be_bytes(*length)).ok()?.checked_add(8)?;
            match chunk.get(..4)? {
                b"tRNS" => return None,
                b"IDAT" => return Some(image),
                _ => rest = chunk.get(after..)?,
            }
        }
        None
    }

    fn of_jpeg(mut segments: &[u8]) -> Option<Self> {
        while let [0xff, marker, rest @ ..] = segments {
            // Fill bytes.
            if *marker == 0xff {
                segments = segments.get(1..)?;
                continue;
            }
            let (length, segment) = rest.split_first_chunk::<2>()?;
            match marker {
                // A frame header, other than tables and arithmetic coding: bits, height, width, components.
                0xc0..=0xc2 => {
                    let [8, _, _, _, _, channels @ (1 | 3), ..] = segment else { return None };
                    return Some(Self { format: ImageFormat::Jpeg, channels: *channels, is_deep: false });
                }
                0xc4 | 0xdb | 0xdd | 0xe0..=0xef | 0xfe => {
                    segments = rest.get(usize::from(u16::from_be_bytes(*length))..)?;
                }
                _ => return None,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(name: &[u8; 4], data: &[u8]) -> Vec<u8> {
        let length = u32::try_from(data.len()).unwrap().to_be_bytes();
        [length.as_slice(), name, data, b"crc."].concat()
    }

    fn png(depth: u8, color: u8, more: &[u8]) -> Vec<u8> {
        let header = [b"\0\0\0\x02\0\0\0\x03".as_slice(), &[depth, color, 0, 0, 0]].concat();
        [PNG, &chunk(b"IHDR", &header), more, &chunk(b"IDAT", b"pixels")].concat()
    }

    fn jpeg(marker: u8, bits: u8, components: u8) -> Vec<u8> {
        let frame = [0xff, marker, 0, 11, bits, 0, 2, 0, 3, components, 1, 0x11, 0];
        [JPEG, b"\xff\xe0\0\x05JFI", b"\xff", &frame].concat()
    }

    fn all(values: &[Vec<u8>]) -> Images {
        let mut images = Images::default();
        values.iter().for_each(|value| images.add(value));
        images
    }

    #[test]
    fn images_have_the_channels_and_depth_of_their_headers() {
        let image = |format, channels, is_deep| Some(ImageHeader { format, channels, is_deep });
        let comment = chunk(b"tEXt", b"a comment");
        for (value, expected) in [
            (png(8, 0, &[]), image(ImageFormat::Png, 1, false)),
            (png(16, 2, &comment), image(ImageFormat::Png, 3, true)),
            (png(4, 3, &[]), image(ImageFormat::Png, 3, false)),
            (png(8, 6, &[]), image(ImageFormat::Png, 4, false)),
            (jpeg(0xc0, 8, 3), image(ImageFormat::Jpeg, 3, false)),
            (jpeg(0xc2, 8, 1), image(ImageFormat::Jpeg, 1, false)),
            // A decoder would change these.
            (png(8, 4, &[]), None),
            (png(8, 3, &chunk(b"tRNS", b"\0")), None),
            (jpeg(0xc0, 8, 4), None),
            (jpeg(0xc1, 12, 3), None),
            (b"GIF89a".to_vec(), None),
            (Vec::new(), None),
        ] {
            assert_eq!(ImageHeader::of(&value), expected, "{value:?}");
        }
        for whole in [png(8, 2, &comment), jpeg(0xc0, 8, 3)] {
            for length in 0..20 {
                assert_eq!(ImageHeader::of(&whole[..length]), None, "{length}");
            }
        }
    }

    #[test]
    fn images_of_a_feature_share_format_and_depth() {
        let channels = |images: Images| match images {
            Images::All(header) => header.channels,
            Images::Unseen | Images::Other => 0,
        };
        assert_eq!(channels(all(&[png(8, 0, &[]), png(8, 6, &[]), png(8, 2, &[])])), 4);
        assert_eq!(all(&[]), Images::Unseen);
        for mixed in
            [[png(8, 2, &[]), png(16, 2, &[])], [png(8, 2, &[]), jpeg(0xc0, 8, 3)], [Vec::new(), png(8, 2, &[])]]
        {
            assert_eq!(all(&mixed), Images::Other);
        }
    }
}
