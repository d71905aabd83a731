//! Formats that are recognized but not supported: their names and how they are detected.

use std::fmt;

/// Content that is recognized but not supported. Its text is what it is called in messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UnsupportedFormat {
    /// Text in a compression that is not supported, by the name of the compression.
    CompressedText(&'static str),
    /// TFRecord in a compression that is not one of TFRecord, by the name of the compression.
    CompressedRecords(&'static str),
    /// Bytes with a zero among them, where UTF-8 is expected.
    Binary,
    /// Any other format, by its name in the plural.
    Named(&'static str),
}

impl fmt::Display for UnsupportedFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CompressedText(compression) => write!(f, "text compressed with {compression}"),
            Self::CompressedRecords(compression) => write!(f, "TFRecord compressed with {compression}"),
            Self::Binary => f.write_str("bytes that are not text, with a zero among them,"),
            Self::Named(name) => f.write_str(name),
        }
    }
}

/// How to detect a format that is not supported.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ForeignFormat {
    pub(crate) format: UnsupportedFormat,
    /// Magic numbers, each with its offset.
    magic: &'static [(usize, &'static [u8])],
    /// File extensions, used if there is no magic number.
    endings: &'static [&'static str],
}

const fn format(
    name: &'static str,
    magic: &'static [(usize, &'static [u8])],
    endings: &'static [&'static str],
) -> ForeignFormat {
    ForeignFormat { format: UnsupportedFormat::Named(name), magic, endings }
}

const fn compressed_text(compression: &'static str, magic: &'static [(usize, &'static [u8])]) -> ForeignFormat {
    ForeignFormat { format: UnsupportedFormat::CompressedText(compression), magic, endings: &[] }
}

/// A more specific format comes before a more general one.
const FORMATS: &[ForeignFormat] = &[
    // Apache Parquet, Encryption.md: files with an encrypted footer.
    format("encrypted Parquet files", &[(0, b"PARE")], &[]),
    format("Feather V1 files", &[(0, b"FEA1")], &[]),
    format("Hadoop sequence files", &[(0, b"SEQ\x06")], &[]),
    format("Hive RCFiles", &[(0, b"RCF\x01")], &["rc"]),
    format("NumPy arrays", &[(0, b"\x93NUMPY")], &["npy"]),
    format("NumPy archives", &[], &["npz"]),
    format("Excel workbooks", &[], &["xlsx", "xlsm", "xlsb", "xls"]),
    format("OpenDocument spreadsheets", &[], &["ods"]),
    format("PyTorch files", &[], &["pt", "pth"]),
    compressed_text("LZ4", &[(0, b"\x04\x22\x4d\x18")]),
    compressed_text("snappy", &[(0, b"\xff\x06\x00\x00sNaPpY")]),
    compressed_text("LZO", &[(0, b"\x89LZO\0\r\n\x1a\n")]),
    compressed_text("compress", &[(0, b"\x1f\x9d")]),
    format("zip archives", &[(0, b"PK\x03\x04")], &["zip"]),
    format("7z archives", &[(0, b"7z\xbc\xaf\x27\x1c")], &["7z"]),
    format("RAR archives", &[(0, b"Rar!\x1a\x07")], &["rar"]),
    format("tar archives", &[(257, b"ustar")], &["tar", "tgz", "tar.gz", "tar.zst", "tar.xz", "tar.bz2"]),
    format("MATLAB files", &[(0, b"MATLAB ")], &["mat"]),
    format("HDF5 files", &[(0, b"\x89HDF\r\n\x1a\n")], &["h5", "hdf5", "hdf"]),
    format("NetCDF files", &[(0, b"CDF\x01"), (0, b"CDF\x02"), (0, b"CDF\x05")], &["nc"]),
    format("SQLite databases", &[(0, b"SQLite format 3\0")], &["sqlite", "sqlite3"]),
    format("DuckDB databases", &[(8, b"DUCK")], &["duckdb", "ddb"]),
    format("LMDB databases", &[(16, b"\xde\xc0\xef\xbe")], &["mdb", "lmdb"]),
    format(
        "SAS files",
        &[(12, b"\xc2\xea\x81\x60\xb3\x14\x11\xcf\xbd\x92\x08\x00\x09\xc7\x31\x8c")],
        &["sas7bdat", "xpt"],
    ),
    format("SPSS files", &[(0, b"$FL2"), (0, b"$FL3")], &["sav", "zsav"]),
    format("Stata files", &[(0, b"<stata_dta>")], &["dta"]),
    format("R data files", &[(0, b"RDX2\n"), (0, b"RDX3\n"), (0, b"X\n\0\0\0")], &["rds", "rda", "rdata"]),
    format("Lance files", &[], &["lance"]),
    format("Python pickles", &[], &["pkl", "pickle", "joblib"]),
    format("MessagePack files", &[], &["msgpack", "mpk"]),
    format("protocol buffer messages", &[], &["pb", "protobuf", "binpb"]),
    format("safetensors files", &[], &["safetensors"]),
    format("XML documents", &[], &["xml"]),
    format("HTML documents", &[], &["html", "htm"]),
    format("PNG images as a table", &[(0, b"\x89PNG\r\n\x1a\n")], &[]),
    format("JPEG images as a table", &[(0, b"\xff\xd8\xff")], &[]),
    format("GIF images as a table", &[(0, b"GIF87a"), (0, b"GIF89a")], &[]),
    format("PDF documents", &[(0, b"%PDF-")], &[]),
];

/// Text formats: their extensions count even if the content is plain text.
const TEXTS: &[UnsupportedFormat] =
    &[UnsupportedFormat::Named("XML documents"), UnsupportedFormat::Named("HTML documents")];

/// Lists the formats that are recognized but not supported.
pub fn foreign_formats() -> impl Iterator<Item = UnsupportedFormat> {
    FORMATS.iter().map(|foreign| foreign.format)
}

impl ForeignFormat {
    /// Detects the format of a file that begins with `head`.
    pub(crate) fn of(head: &[u8]) -> Option<&'static Self> {
        if let Some(entry) = first_zip_entry(head) {
            // Office writes this entry first; NumPy writes an entry for each array.
            let name = match entry {
                b"[Content_Types].xml" | b"_rels/.rels" => "Excel workbooks",
                b"mimetype" => "OpenDocument spreadsheets",
                _ if entry.ends_with(b".npy") => "NumPy archives",
                _ if entry.ends_with(b"data.pkl") => "PyTorch files",
                _ => "zip archives",
            };
            return Self::named(name);
        }
        if is_pickle(head) {
            return Self::named("Python pickles");
        }
        let has = |(at, magic): &(usize, &[u8])| head.get(*at..).is_some_and(|rest| rest.starts_with(magic));
        FORMATS.iter().find(|format| format.magic.iter().any(has))
    }

    /// Detects the format by the extension of a name, unless the content is plain text and the format is binary.
    pub(crate) fn by_ending(name: &str, head: &[u8]) -> Option<&'static Self> {
        let name = name.rsplit('/').next()?.to_ascii_lowercase();
        let has_ending = |ending: &&str| name.strip_suffix(ending).is_some_and(|stem| stem.ends_with('.'));
        let foreign = FORMATS.iter().find(|foreign| foreign.endings.iter().any(has_ending))?;
        (TEXTS.contains(&foreign.format) || !is_plain_text(head)).then_some(foreign)
    }

    fn named(name: &'static str) -> Option<&'static Self> {
        FORMATS.iter().find(|foreign| foreign.format == UnsupportedFormat::Named(name))
    }
}

/// Returns the name of the first file in a zip archive.
fn first_zip_entry(head: &[u8]) -> Option<&[u8]> {
    let header = head.strip_prefix(b"PK\x03\x04")?;
    let len = u16::from_le_bytes(header.get(22..24)?.try_into().ok()?);
    header.get(26..26 + usize::from(len))
}

/// Whether this is a pickle of protocol 2 to 5. A TFRecord file may begin with the same two bytes, but then a zero
/// follows.
fn is_pickle(head: &[u8]) -> bool {
    matches!(head, [0x80, 2..=5, opcode, ..] if *opcode != 0)
}

fn is_plain_text(head: &[u8]) -> bool {
    let is_utf8 = match std::str::from_utf8(head) {
        Ok(_) => true,
        // Cut off within a character.
        Err(error) => error.error_len().is_none(),
    };
    is_utf8 && !head.contains(&0)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn name(foreign: &ForeignFormat) -> String {
        foreign.format.to_string()
    }

    #[test]
    fn foreign_format_prefers_content_to_extension() {
        let zip = |entry: &str| {
            let mut zip = b"PK\x03\x04".to_vec();
            zip.extend([0; 22]);
            zip.extend((entry.len() as u16).to_le_bytes());
            zip.extend([0; 2]);
            zip.extend(entry.as_bytes());
            zip
        };
        let name_of = |head: &[u8]| ForeignFormat::of(head).map(name);
        assert_eq!(name_of(&zip("[Content_Types].xml")).as_deref(), Some("Excel workbooks"));
        assert_eq!(name_of(&zip("x.npy")).as_deref(), Some("NumPy archives"));
        assert_eq!(name_of(&zip("data.csv")).as_deref(), Some("zip archives"));
        assert_eq!(name_of(b"\x93NUMPY\x01\0v\0").as_deref(), Some("NumPy arrays"));
        assert_eq!(name_of(b"\x80\x04\x95\x10\0").as_deref(), Some("Python pickles"));
        assert_eq!(name_of(b"\0\0\0\0\0\0\0\0DUCK@\0").as_deref(), Some("DuckDB databases"));
        assert_eq!(name_of(b"SQLite format 3\0\x10").as_deref(), Some("SQLite databases"));
        assert_eq!(name_of(b"\x89HDF\r\n\x1a\n\0").as_deref(), Some("HDF5 files"));
        // A damaged record of 640 bytes.
        assert_eq!(name_of(b"\x80\x02\0\0\0\0\0\0").as_deref(), None);
        assert_eq!(name_of(b"a,b\n1,2\n").as_deref(), None);
    }

    #[test]
    fn foreign_format_uses_extensions_of_binary_files() {
        let name_of = |file, head| ForeignFormat::by_ending(file, head).map(name);
        assert_eq!(name_of("d/a.msgpack", b"\x82\xa1a\x01").as_deref(), Some("MessagePack files"));
        assert_eq!(name_of("a.tar.gz", b"\x1f\x8b\x08").as_deref(), Some("tar archives"));
        assert_eq!(name_of("a.pb", b"\x0a\x03abc\0").as_deref(), Some("protocol buffer messages"));
        assert_eq!(name_of("a.pb", b"a,b\n1,2\n").as_deref(), None);
        assert_eq!(name_of("a.xml", b"<a/>").as_deref(), Some("XML documents"));
        assert_eq!(name_of("msgpack", b"\x82").as_deref(), None);
    }

    #[test]
    fn every_format_is_listed_once() {
        let mut names = HashSet::new();
        let mut endings = HashSet::new();
        for foreign in FORMATS {
            assert!(names.insert(foreign.format), "{}", foreign.format);
            assert!(foreign.endings.iter().all(|ending| endings.insert(ending)), "{}", foreign.format);
        }
    }
}
