//! ArrayRecord files: records that are read by number.
//!
//! An ArrayRecord file is a Riegeli/records file whose last record chunks are an index. Sources: `doc/riegeli_records_file_format.md`
//! of google/riegeli for chunks and blocks, `cpp/layout.proto` of google/array_record for the index.
//!
//! ```text
//! signature | chunk of records | ... | footer | padding | postscript | padding
//!           0 64                                        n * 64 KiB   (n + 1) * 64 KiB
//! ```
//!
//! A chunk is a [`ChunkHeader`] and its data. At each multiple of [`BLOCK_LEN`] a [`BlockHeader`] interrupts the chunk
//! that is there. The footer is a chunk of records too: a [`FooterMetadata`], then a [`ChunkEntry`] for each chunk of
//! records. The postscript has three copies of a [`Postscript`], the position of the footer.
//!
//! All lengths and positions are those of the file unless a name ends in `decoded_len`.
//!
//! | part | where |
//! |---|---|
//! | constants, hash, headers, positions, varints, messages | `layout` |
//! | chunks in the bytes of a file | `chunk` |
//! | decompression of a chunk to records | `records` |
//! | the index, without reading the records | `footer` |
//! | reading a file in pieces, to records | `reader` |
//! | [`ArrayRecordWriter`], and [`ChunkEncoder`] for chunks that are compressed on other threads | `writer` |
//!
//! [`RecordDecoder`](crate::RecordDecoder), [`RecordReader`](crate::RecordReader) and
//! [`RecordScanner`](crate::RecordScanner) read the records of both formats.

mod chunk;
mod error;
mod footer;
mod layout;
mod reader;
mod records;
mod writer;

pub use error::{Defect, Error};
pub use footer::Footer;
pub use layout::{
    BLOCK_HEADER_LEN, BLOCK_LEN, BlockHeader, CHUNK_HEADER_LEN, ChunkEntry, ChunkHeader, ChunkKind, CodecMark,
    FooterMetadata, LayoutError, MAGIC, Postscript, SIGNATURE, add_block_headers, chunk_end, hash, is_chunk_boundary,
    push_varint, split_varint,
};
pub(crate) use reader::ChunkReader;
pub use writer::{ArrayRecordWriter, ChunkCodec, ChunkEncoder, ChunkOptions, EncodedChunk, UnknownChunkCodec};
