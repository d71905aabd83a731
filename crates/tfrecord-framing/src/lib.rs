//! Reads and writes TFRecord files, and writes ArrayRecord files.
//!
//! A TFRecord file is a sequence of frames, with nothing before, between or after them. A frame is a record (any
//! bytes; usually a serialized `tf.train.Example`) with 16 bytes around it. All integers are little-endian:
//!
//! ```text
//!  0        8        12                    12+n      16+n
//!  +--------+--------+---------------------+---------+
//!  | n: u64 | CRC(n) | payload, n bytes    | CRC     |   CRC: masked CRC-32C, u32
//!  +--------+--------+---------------------+---------+
//!   header (HEADER_LEN)                     footer (FOOTER_LEN)
//! ```
//!
//! The file may be compressed as a whole, with gzip or zlib. It does not record its [`Compression`], but
//! [`Compression::detect`] detects it, and [`Container::detect`] also detects ArrayRecord files, which are read as well.
//!
//! | task | use |
//! |---|---|
//! | write records to any [`Write`](std::io::Write) | [`RecordWriter`] |
//! | read records from any [`Read`](std::io::Read) | [`RecordReader`] |
//! | decode bytes that arrive in pieces | [`RecordDecoder`], [`Records`], [`Frames`] |
//! | find damage, and the intact records around it | [`RecordScanner`], [`Damage`] |
//! | skip from one record to the next without reading it | [`frame_len`] |
//! | frame a record in a buffer, its payload written in place | [`append_record`], [`seal_record`] |
//! | compress framed records on another thread | [`gzip_member`] |
//! | checksum a file | [`crc32c()`], [`crc32c_append`] |
//! | choose between TFRecord and ArrayRecord | [`Framing`], [`RecordFormat`] |
//! | write records to an ArrayRecord file | [`ArrayRecordWriter`](array_record::ArrayRecordWriter) |
//!
//! This crate does not interpret records, starts no thread and opens no file.
//!
//! # Example
//!
//! ```
//! use tfrecord_framing::{Compression, Level, RecordReader, RecordWriter};
//!
//! # fn main() -> tfrecord_framing::Result<()> {
//! let mut writer = RecordWriter::with_compression(Vec::new(), Compression::Gzip, Level::default());
//! writer.write_record(b"first")?;
//! writer.write_record(b"second")?;
//! let file = writer.finish()?;
//!
//! let mut reader = RecordReader::with_compression(file.as_slice(), Compression::Gzip);
//! let mut record = Vec::new();
//! let mut lengths = Vec::new();
//! while reader.read_record(&mut record)? {
//!     lengths.push(record.len());
//! }
//! assert_eq!(lengths, [5, 6]);
//! # Ok(())
//! # }
//! ```

pub mod array_record;
mod boxed_error;
mod compression;
mod container;
mod crc;
mod decoder;
mod error;
mod frame;
mod framing;
mod inflate;
mod reader;
mod records;
mod scanner;
mod unpack;
mod writer;

pub use compression::{Compression, GZIP_BLOCK_LEN, InvalidLevel, Level, UnknownCompression, gzip_member};
pub use container::Container;
pub use crc::{CrcPolicy, UnknownCrcPolicy, crc32c, crc32c_append, mask_crc, masked_crc32c, unmask_crc};
pub use decoder::RecordDecoder;
pub use error::{Error, ErrorKind, Position, Result};
pub use frame::{FOOTER_LEN, HEADER_LEN, MAX_RECORD_LEN, append_record, frame_header, frame_len, seal_record};
pub use framing::{Framing, FramingConflict, RecordFormat, UnknownRecordFormat};
pub use reader::RecordReader;
pub use records::{Frames, Records};
pub use scanner::{Damage, DamageKind, RecordScanner};
pub use writer::RecordWriter;
