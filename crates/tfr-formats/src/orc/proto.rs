//! The messages of ORC's metadata with the fields that this reader uses: `orc_proto.proto` of orc-format 1.1.
//!
//! Enumerations are kept as numbers, so that an unknown value is not replaced by the default.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(super) struct PostScript {
    #[prost(uint64, optional, tag = "1")]
    pub(super) footer_length: Option<u64>,
    #[prost(int32, tag = "2")]
    pub(super) compression: i32,
    #[prost(uint64, optional, tag = "3")]
    pub(super) compression_block_size: Option<u64>,
    #[prost(uint32, repeated, tag = "4")]
    pub(super) version: Vec<u32>,
    #[prost(uint64, optional, tag = "5")]
    pub(super) metadata_length: Option<u64>,
    #[prost(uint32, optional, tag = "6")]
    pub(super) writer_version: Option<u32>,
    #[prost(uint64, optional, tag = "7")]
    pub(super) stripe_statistics_length: Option<u64>,
    #[prost(string, optional, tag = "8000")]
    pub(super) magic: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Footer {
    #[prost(message, repeated, tag = "3")]
    pub(super) stripes: Vec<StripeInformation>,
    #[prost(message, repeated, tag = "4")]
    pub(super) types: Vec<Type>,
    #[prost(uint64, optional, tag = "6")]
    pub(super) number_of_rows: Option<u64>,
    #[prost(message, repeated, tag = "7")]
    pub(super) statistics: Vec<ColumnStatistics>,
    #[prost(message, repeated, tag = "5")]
    pub(super) metadata: Vec<UserMetadataItem>,
    #[prost(uint32, optional, tag = "9")]
    pub(super) writer: Option<u32>,
    #[prost(int32, optional, tag = "11")]
    pub(super) calendar: Option<i32>,
}

/// Metadata written by the user of the writer.
#[derive(Clone, PartialEq, Message)]
pub(super) struct UserMetadataItem {
    #[prost(string, tag = "1")]
    pub(super) name: String,
}

/// `CalendarKind`.
pub(super) mod calendar_kind {
    pub(in super::super) const JULIAN_GREGORIAN: i32 = 1;
    pub(in super::super) const PROLEPTIC_GREGORIAN: i32 = 2;
}

/// The file's writer, other than the Java writer, which is 0 or omitted.
pub(super) mod writer {
    pub(in super::super) const CPP: u32 = 1;
    pub(in super::super) const PRESTO: u32 = 2;
    pub(in super::super) const SCRITCHLEY_GO: u32 = 3;
    pub(in super::super) const TRINO: u32 = 4;
    pub(in super::super) const CUDF: u32 = 5;
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct StripeInformation {
    #[prost(uint64, tag = "1")]
    pub(super) offset: u64,
    #[prost(uint64, tag = "2")]
    pub(super) index_length: u64,
    #[prost(uint64, tag = "3")]
    pub(super) data_length: u64,
    #[prost(uint64, tag = "4")]
    pub(super) footer_length: u64,
    #[prost(uint64, tag = "5")]
    pub(super) number_of_rows: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Type {
    #[prost(int32, tag = "1")]
    pub(super) kind: i32,
    #[prost(uint32, repeated, tag = "2")]
    pub(super) subtypes: Vec<u32>,
    #[prost(string, repeated, tag = "3")]
    pub(super) field_names: Vec<String>,
    #[prost(uint32, tag = "5")]
    pub(super) precision: u32,
    #[prost(uint32, tag = "6")]
    pub(super) scale: u32,
    #[prost(message, repeated, tag = "7")]
    pub(super) attributes: Vec<StringPair>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StringPair {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(string, tag = "2")]
    pub(super) value: String,
}

/// `Type.Kind`.
pub(super) mod kind {
    pub(in super::super) const BOOLEAN: i32 = 0;
    pub(in super::super) const BYTE: i32 = 1;
    pub(in super::super) const SHORT: i32 = 2;
    pub(in super::super) const INT: i32 = 3;
    pub(in super::super) const LONG: i32 = 4;
    pub(in super::super) const FLOAT: i32 = 5;
    pub(in super::super) const DOUBLE: i32 = 6;
    pub(in super::super) const STRING: i32 = 7;
    pub(in super::super) const BINARY: i32 = 8;
    pub(in super::super) const TIMESTAMP: i32 = 9;
    pub(in super::super) const LIST: i32 = 10;
    pub(in super::super) const MAP: i32 = 11;
    pub(in super::super) const STRUCT: i32 = 12;
    pub(in super::super) const UNION: i32 = 13;
    pub(in super::super) const DECIMAL: i32 = 14;
    pub(in super::super) const DATE: i32 = 15;
    pub(in super::super) const VARCHAR: i32 = 16;
    pub(in super::super) const CHAR: i32 = 17;
    pub(in super::super) const TIMESTAMP_INSTANT: i32 = 18;
    pub(in super::super) const GEOMETRY: i32 = 19;
    pub(in super::super) const GEOGRAPHY: i32 = 20;
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct ColumnStatistics {
    #[prost(message, optional, tag = "2")]
    pub(super) integers: Option<IntegerStatistics>,
    #[prost(message, optional, tag = "7")]
    pub(super) dates: Option<DateStatistics>,
    #[prost(message, optional, tag = "9")]
    pub(super) timestamps: Option<TimestampStatistics>,
}

/// The section before the footer.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Metadata {
    #[prost(message, repeated, tag = "1")]
    pub(super) stripes: Vec<StripeStatistics>,
}

/// One statistic per type of the file.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StripeStatistics {
    #[prost(message, repeated, tag = "1")]
    pub(super) columns: Vec<ValueStatistics>,
}

/// The fields of `ColumnStatistics` that bound values.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ValueStatistics {
    #[prost(message, optional, tag = "2")]
    pub(super) integers: Option<IntegerStatistics>,
    #[prost(message, optional, tag = "4")]
    pub(super) strings: Option<StringStatistics>,
    #[prost(message, optional, tag = "7")]
    pub(super) dates: Option<DateStatistics>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct IntegerStatistics {
    #[prost(sint64, optional, tag = "1")]
    pub(super) minimum: Option<i64>,
    #[prost(sint64, optional, tag = "2")]
    pub(super) maximum: Option<i64>,
}

/// Omitted for long texts, whose truncated bounds are in other fields.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StringStatistics {
    #[prost(bytes = "vec", optional, tag = "1")]
    pub(super) minimum: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub(super) maximum: Option<Vec<u8>>,
}

/// Days since 1970.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct DateStatistics {
    #[prost(sint32, optional, tag = "1")]
    pub(super) minimum: Option<i32>,
    #[prost(sint32, optional, tag = "2")]
    pub(super) maximum: Option<i32>,
}

/// Milliseconds since 1970, in the writer's local time and in UTC.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct TimestampStatistics {
    #[prost(sint64, optional, tag = "1")]
    pub(super) minimum: Option<i64>,
    #[prost(sint64, optional, tag = "2")]
    pub(super) maximum: Option<i64>,
    #[prost(sint64, optional, tag = "3")]
    pub(super) minimum_utc: Option<i64>,
    #[prost(sint64, optional, tag = "4")]
    pub(super) maximum_utc: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StripeFooter {
    #[prost(message, repeated, tag = "1")]
    pub(super) streams: Vec<Stream>,
    #[prost(message, repeated, tag = "2")]
    pub(super) columns: Vec<ColumnEncoding>,
    #[prost(string, optional, tag = "3")]
    pub(super) writer_timezone: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Stream {
    #[prost(int32, tag = "1")]
    pub(super) kind: i32,
    #[prost(uint32, tag = "2")]
    pub(super) column: u32,
    #[prost(uint64, tag = "3")]
    pub(super) length: u64,
}

/// `Stream.Kind`: only kinds that contain values.
pub(super) mod stream {
    pub(in super::super) const PRESENT: i32 = 0;
    pub(in super::super) const DATA: i32 = 1;
    pub(in super::super) const LENGTH: i32 = 2;
    pub(in super::super) const DICTIONARY_DATA: i32 = 3;
    pub(in super::super) const SECONDARY: i32 = 5;
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct ColumnEncoding {
    #[prost(int32, tag = "1")]
    pub(super) kind: i32,
    #[prost(uint32, tag = "2")]
    pub(super) dictionary_size: u32,
}

/// `ColumnEncoding.Kind`.
pub(super) mod encoding {
    pub(in super::super) const DIRECT: i32 = 0;
    pub(in super::super) const DICTIONARY: i32 = 1;
    pub(in super::super) const DIRECT_V2: i32 = 2;
    pub(in super::super) const DICTIONARY_V2: i32 = 3;
}
