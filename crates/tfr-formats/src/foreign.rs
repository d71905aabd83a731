//! Formats that are not read: what they are called, how they are recognized, and how a file is converted.

/// A format that is not read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ForeignFormat {
    /// Its name in the plural.
    pub(crate) name: &'static str,
    /// Bytes that its files have, and where.
    magic: &'static [(usize, &'static [u8])],
    /// The endings of its files, which count where there is no magic number.
    endings: &'static [&'static str],
    /// How to convert a file, which is `FILE` in it.
    conversion: &'static str,
}

const fn format(
    name: &'static str,
    magic: &'static [(usize, &'static [u8])],
    endings: &'static [&'static str],
    conversion: &'static str,
) -> ForeignFormat {
    ForeignFormat { name, magic, endings, conversion }
}

/// Those that are of a more general format too come before it.
const FORMATS: &[ForeignFormat] = &[
    // Apache Parquet, Encryption.md: files with an encrypted footer.
    format("encrypted Parquet files", &[(0, b"PARE")], &[], "write it without encryption where the keys are"),
    format(
        "Feather V1 files",
        &[(0, b"FEA1")],
        &[],
        "python3 -c \"import pyarrow.feather as f, pyarrow.parquet as p; p.write_table(f.read_table('FILE'), 'out.parquet')\"",
    ),
    format("Hadoop sequence files", &[(0, b"SEQ\x06")], &[], "have Hive or Spark write the table as Parquet"),
    format("Hive RCFiles", &[(0, b"RCF\x01")], &["rc"], "have Hive or Spark write the table as Parquet"),
    format(
        "NumPy arrays",
        &[(0, b"\x93NUMPY")],
        &["npy"],
        "python3 -c \"import numpy, pandas; pandas.DataFrame({'x': list(numpy.load('FILE'))}).to_parquet('out.parquet')\"",
    ),
    format(
        "NumPy archives",
        &[],
        &["npz"],
        "python3 -c \"import numpy, pandas; pandas.DataFrame({k: list(v) for k, v in numpy.load('FILE').items()})\
         .to_parquet('out.parquet')\"",
    ),
    format(
        "Excel workbooks",
        &[],
        &["xlsx", "xlsm", "xlsb", "xls"],
        "python3 -c \"import pandas; pandas.read_excel('FILE').to_parquet('out.parquet')\", or save the sheet as CSV",
    ),
    format("OpenDocument spreadsheets", &[], &["ods"], "save the sheet as CSV"),
    format(
        "PyTorch files",
        &[],
        &["pt", "pth"],
        "load it with torch.load and write its tensors with pandas.DataFrame(...).to_parquet('out.parquet')",
    ),
    format(
        "text compressed with LZ4",
        &[(0, b"\x04\x22\x4d\x18")],
        &[],
        "lz4 -d FILE, or have it written with gzip or zstd",
    ),
    format(
        "text compressed with snappy",
        &[(0, b"\xff\x06\x00\x00sNaPpY")],
        &[],
        "uncompress it, or have it written with gzip or zstd",
    ),
    format(
        "text compressed with LZO",
        &[(0, b"\x89LZO\0\r\n\x1a\n")],
        &[],
        "lzop -d FILE, or have it written with gzip or zstd",
    ),
    format("text compressed with compress", &[(0, b"\x1f\x9d")], &[], "gunzip FILE"),
    format("zip archives", &[(0, b"PK\x03\x04")], &["zip"], "unzip FILE -d DIR, and query the directory"),
    format("7z archives", &[(0, b"7z\xbc\xaf\x27\x1c")], &["7z"], "7z x FILE -oDIR, and query the directory"),
    format("RAR archives", &[(0, b"Rar!\x1a\x07")], &["rar"], "unrar x FILE DIR/, and query the directory"),
    format(
        "tar archives",
        &[(257, b"ustar")],
        &["tar", "tgz", "tar.gz", "tar.zst", "tar.xz", "tar.bz2"],
        "tar -xf FILE -C DIR, and query the directory, or its files as rows with files('DIR/**')",
    ),
    format(
        "MATLAB files",
        &[(0, b"MATLAB ")],
        &["mat"],
        "python3 -c \"import scipy.io, pandas; pandas.DataFrame({k: list(v) for k, v in scipy.io.loadmat('FILE').items() \
         if k[0] != '_'}).to_parquet('out.parquet')\", or h5py for MATLAB 7.3",
    ),
    format(
        "HDF5 files",
        &[(0, b"\x89HDF\r\n\x1a\n")],
        &["h5", "hdf5", "hdf"],
        "python3 -c \"import h5py, pandas; pandas.DataFrame({k: list(v) for k, v in h5py.File('FILE').items()})\
         .to_parquet('out.parquet')\"",
    ),
    format(
        "NetCDF files",
        &[(0, b"CDF\x01"), (0, b"CDF\x02"), (0, b"CDF\x05")],
        &["nc"],
        "open it with xarray and write Parquet",
    ),
    format(
        "SQLite databases",
        &[(0, b"SQLite format 3\0")],
        &["sqlite", "sqlite3"],
        "sqlite3 -header -csv FILE 'SELECT * FROM name' > out.csv",
    ),
    format(
        "DuckDB databases",
        &[(8, b"DUCK")],
        &["duckdb", "ddb"],
        "duckdb FILE \"COPY (SELECT * FROM name) TO 'out.parquet'\"",
    ),
    format(
        "LMDB databases",
        &[(16, b"\xde\xc0\xef\xbe")],
        &["mdb", "lmdb"],
        "read it with the lmdb library and write Parquet",
    ),
    format(
        "SAS files",
        &[(12, b"\xc2\xea\x81\x60\xb3\x14\x11\xcf\xbd\x92\x08\x00\x09\xc7\x31\x8c")],
        &["sas7bdat", "xpt"],
        "python3 -c \"import pandas; pandas.read_sas('FILE').to_parquet('out.parquet')\"",
    ),
    format(
        "SPSS files",
        &[(0, b"$FL2"), (0, b"$FL3")],
        &["sav", "zsav"],
        "python3 -c \"import pandas; pandas.read_spss('FILE').to_parquet('out.parquet')\"",
    ),
    format(
        "Stata files",
        &[(0, b"<stata_dta>")],
        &["dta"],
        "python3 -c \"import pandas; pandas.read_stata('FILE').to_parquet('out.parquet')\"",
    ),
    format(
        "R data files",
        &[(0, b"RDX2\n"), (0, b"RDX3\n"), (0, b"X\n\0\0\0")],
        &["rds", "rda", "rdata"],
        "Rscript -e \"arrow::write_parquet(readRDS('FILE'), 'out.parquet')\"",
    ),
    format(
        "Lance files",
        &[],
        &["lance"],
        "python3 -c \"import lance, pyarrow.parquet as p; p.write_table(lance.dataset('DIR').to_table(), 'out.parquet')\"",
    ),
    format(
        "Python pickles",
        &[],
        &["pkl", "pickle", "joblib"],
        "python3 -c \"import pandas; pandas.read_pickle('FILE').to_parquet('out.parquet')\", if you trust its origin: a pickle \
         can run any program",
    ),
    format(
        "MessagePack files",
        &[],
        &["msgpack", "mpk"],
        "python3 -c \"import json, msgpack; [print(json.dumps(row)) for row in msgpack.Unpacker(open('FILE', 'rb'))]\" > out.jsonl",
    ),
    format(
        "protocol buffer messages",
        &[],
        &["pb", "protobuf", "binpb"],
        "read them with the classes of their .proto file, and write google.protobuf.json_format.MessageToJson to out.jsonl",
    ),
    format("safetensors files", &[], &["safetensors"], "load it with safetensors.numpy.load_file and write Parquet"),
    format(
        "XML documents",
        &[],
        &["xml"],
        "python3 -c \"import pandas; pandas.read_xml('FILE').to_parquet('out.parquet')\"",
    ),
    format(
        "HTML documents",
        &[],
        &["html", "htm"],
        "python3 -c \"import pandas; pandas.read_html('FILE')[0].to_parquet('out.parquet')\"",
    ),
    format("PNG images as a table", &[(0, b"\x89PNG\r\n\x1a\n")], &[], IMAGES),
    format("JPEG images as a table", &[(0, b"\xff\xd8\xff")], &[], IMAGES),
    format("GIF images as a table", &[(0, b"GIF87a"), (0, b"GIF89a")], &[], IMAGES),
    format("PDF documents", &[(0, b"%PDF-")], &[], "read it as a row with files('FILE'), its bytes as a value"),
];

const IMAGES: &str = "read images as rows with files('DIR/*'), their bytes as a value";

/// Endings of texts, which no binary content contradicts.
const TEXTS: &[&str] = &["XML documents", "HTML documents"];

impl ForeignFormat {
    /// The format of a file that begins with `head`.
    pub(crate) fn of(head: &[u8]) -> Option<&'static Self> {
        if let Some(entry) = first_zip_entry(head) {
            // Office has this one first; NumPy an array for each entry.
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

    /// The format that the ending of a name stands for, unless the content is plain text and that of the format is not.
    pub(crate) fn by_ending(name: &str, head: &[u8]) -> Option<&'static Self> {
        let name = name.rsplit('/').next()?.to_ascii_lowercase();
        let has_ending = |ending: &&str| name.strip_suffix(ending).is_some_and(|stem| stem.ends_with('.'));
        let format = FORMATS.iter().find(|format| format.endings.iter().any(has_ending))?;
        (TEXTS.contains(&format.name) || !is_plain_text(head)).then_some(format)
    }

    /// The format of this name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        FORMATS.iter().find(|format| format.name == name)
    }

    /// How to convert a file.
    pub(crate) fn conversion(&self, file: &str) -> String {
        format!("convert it: {}", self.conversion.replace("FILE", file))
    }
}

/// The name of the first file in a zip archive.
fn first_zip_entry(head: &[u8]) -> Option<&[u8]> {
    let header = head.strip_prefix(b"PK\x03\x04")?;
    let len = u16::from_le_bytes(header.get(22..24)?.try_into().ok()?);
    header.get(26..26 + usize::from(len))
}

/// Whether this is a pickle of protocol 2 to 5. A record of TFRecord may begin like it, but has a zero then.
fn is_pickle(head: &[u8]) -> bool {
    matches!(head, [0x80, 2..=5, opcode, ..] if *opcode != 0)
}

fn is_plain_text(head: &[u8]) -> bool {
    let is_utf8 = match std::str::from_utf8(head) {
        Ok(_) => true,
        // Cut within a character.
        Err(error) => error.error_len().is_none(),
    };
    is_utf8 && !head.contains(&0)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn name_of(head: &[u8]) -> Option<&'static str> {
        ForeignFormat::of(head).map(|format| format.name)
    }

    #[test]
    fn content_tells_before_the_ending() {
        let zip = |entry: &str| {
            let mut zip = b"PK\x03\x04".to_vec();
            zip.extend([0; 22]);
            zip.extend((entry.len() as u16).to_le_bytes());
            zip.extend([0; 2]);
            zip.extend(entry.as_bytes());
            zip
        };
        assert_eq!(name_of(&zip("[Content_Types].xml")), Some("Excel workbooks"));
        assert_eq!(name_of(&zip("x.npy")), Some("NumPy archives"));
        assert_eq!(name_of(&zip("data.csv")), Some("zip archives"));
        assert_eq!(name_of(b"\x93NUMPY\x01\0v\0"), Some("NumPy arrays"));
        assert_eq!(name_of(b"\x80\x04\x95\x10\0"), Some("Python pickles"));
        assert_eq!(name_of(b"\0\0\0\0\0\0\0\0DUCK@\0"), Some("DuckDB databases"));
        assert_eq!(name_of(b"SQLite format 3\0\x10"), Some("SQLite databases"));
        assert_eq!(name_of(b"\x89HDF\r\n\x1a\n\0"), Some("HDF5 files"));
        // A damaged record of 640 bytes.
        assert_eq!(name_of(b"\x80\x02\0\0\0\0\0\0"), None);
        assert_eq!(name_of(b"a,b\n1,2\n"), None);
    }

    #[test]
    fn endings_count_where_the_content_is_no_text() {
        let name_of = |name, head| ForeignFormat::by_ending(name, head).map(|format| format.name);
        assert_eq!(name_of("d/a.msgpack", b"\x82\xa1a\x01"), Some("MessagePack files"));
        assert_eq!(name_of("a.tar.gz", b"\x1f\x8b\x08"), Some("tar archives"));
        assert_eq!(name_of("a.pb", b"\x0a\x03abc\0"), Some("protocol buffer messages"));
        assert_eq!(name_of("a.pb", b"a,b\n1,2\n"), None);
        assert_eq!(name_of("a.xml", b"<a/>"), Some("XML documents"));
        assert_eq!(name_of("msgpack", b"\x82"), None);
    }

    #[test]
    fn every_format_is_listed_once_with_a_way_out() {
        let mut names = HashSet::new();
        let mut endings = HashSet::new();
        for format in FORMATS {
            assert!(names.insert(format.name), "{}", format.name);
            assert!(format.endings.iter().all(|ending| endings.insert(ending)), "{}", format.name);
            assert!(!format.conversion.is_empty());
        }
    }
}
