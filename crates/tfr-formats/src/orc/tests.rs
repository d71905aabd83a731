//! Files with false metadata. On some of them the library would abort instead of returning an error.

use std::sync::Arc;

use arrow_schema::{DataType, TimeUnit};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use prost::Message;

use super::codec::SectionCodec;
use super::proto::{
    ColumnEncoding, Footer, PostScript, Stream, StringPair, StripeFooter, StripeInformation, Type, calendar_kind,
    encoding, kind, stream,
};
use super::stripe::{Stripe, StripePosition};
use super::tail::Tail;
use super::types::{TimestampUnit, TypeRules};
use crate::calendar::CalendarOption;
use crate::error::Result;

fn part(kind: i32, subtypes: &[u32]) -> Type {
    let names = if kind == kind::STRUCT { subtypes.iter().map(|id| format!("c{id}")).collect() } else { Vec::new() };
    Type { kind, subtypes: subtypes.to_vec(), field_names: names, ..Type::default() }
}

/// Builds a file of one uncompressed stripe, with its footer modified by `change`.
fn file(types: Vec<Type>, rows: u64, streams: &[(i32, u32, &[u8])], change: impl FnOnce(&mut Footer)) -> Vec<u8> {
    let encodings = vec![ColumnEncoding { kind: encoding::DIRECT_V2, dictionary_size: 0 }; types.len()];
    file_of(types, rows, streams, encodings, change)
}

fn file_of(
    types: Vec<Type>,
    rows: u64,
    streams: &[(i32, u32, &[u8])],
    columns: Vec<ColumnEncoding>,
    change: impl FnOnce(&mut Footer),
) -> Vec<u8> {
    let mut bytes = b"ORC".to_vec();
    bytes.extend(streams.iter().flat_map(|(_, _, content)| content.iter()));
    let data_length = bytes.len() as u64 - 3;
    let stripe_footer = StripeFooter {
        streams: streams
            .iter()
            .map(|(kind, column, content)| Stream { kind: *kind, column: *column, length: content.len() as u64 })
            .collect(),
        columns,
        writer_timezone: None,
    };
    let stripe_footer = stripe_footer.encode_to_vec();
    let footer_length = stripe_footer.len() as u64;
    bytes.extend(stripe_footer);
    let stripe = StripeInformation { offset: 3, index_length: 0, data_length, footer_length, number_of_rows: rows };
    let mut footer = Footer { stripes: vec![stripe], types, number_of_rows: Some(rows), ..Footer::default() };
    change(&mut footer);
    bytes.extend(SectionCodec::try_new(&PostScript::default()).map(|codec| codec.tail(&footer)).unwrap_or_default());
    bytes
}

pub(super) async fn stored(file: Vec<u8>) -> Result<(Arc<dyn ObjectStore>, ObjectMeta), object_store::Error> {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let path = Path::from("f.orc");
    store.put(&path, file.into()).await?;
    let meta = store.head(&path).await?;
    Ok((store, meta))
}

/// Opens the file and reads all of it, in batches of at most 4 rows; returns the number of rows of the first.
async fn read(file: Vec<u8>) -> Result<usize, Box<dyn std::error::Error>> {
    let (store, meta) = stored(file).await?;
    let tail = Tail::fetch(&store, &meta, "f.orc", TypeRules::default(), &CalendarOption::default()).await?;
    let columns: Vec<_> = tail.columns.iter().collect();
    let position = StripePosition { file: "f.orc".into(), stripe: 0, offset: 3 };
    let stripe = Stripe::fetch(&store, &meta, &tail, &columns, &position, 4).await?;
    let rows_per_batch = stripe.rows_per_batch();
    for batch in stripe.batches()? {
        batch?;
    }
    Ok(rows_per_batch)
}

async fn refused(file: Vec<u8>) -> String {
    read(file).await.expect_err("refused").to_string()
}

fn long() -> Vec<Type> {
    vec![part(kind::STRUCT, &[1]), part(kind::LONG, &[])]
}

/// Three times the number 1, as a run.
const ONES: &[u8] = &[0x00, 0x02];

#[tokio::test]
async fn orc_reads_a_sound_file() -> Result<(), Box<dyn std::error::Error>> {
    assert_eq!(read(file(long(), 3, &[(stream::DATA, 1, ONES)], |_| {})).await?, 4);
    Ok(())
}

/// Types of later versions of the format: other columns can be read.
#[tokio::test]
async fn types_that_are_unknown_make_a_column_unreadable() -> Result<(), Box<dyn std::error::Error>> {
    let types = vec![part(kind::STRUCT, &[1, 2]), part(kind::LONG, &[]), part(99, &[])];
    let (store, meta) = stored(file(types, 0, &[], |_| {})).await?;
    let tail = Tail::fetch(&store, &meta, "f.orc", TypeRules::default(), &CalendarOption::default()).await?;
    let unreadable: Vec<_> = tail.columns.iter().map(|column| column.unreadable.is_some()).collect();
    assert_eq!(unreadable, [false, true]);
    Ok(())
}

/// Iceberg records ids, times and units as attributes, and stores proleptic days whatever the footer says. Elsewhere its
/// attributes do not count.
#[tokio::test]
async fn orc_attributes_of_iceberg_count_in_tables() -> Result<(), Box<dyn std::error::Error>> {
    let with = |found: Type, attributes: &[(&str, &str)]| {
        let pair = |(key, value): &(&str, &str)| StringPair { key: (*key).to_owned(), value: (*value).to_owned() };
        Type { attributes: attributes.iter().map(pair).collect(), ..found }
    };
    let types = vec![
        part(kind::STRUCT, &[1, 2, 3]),
        with(part(kind::DATE, &[]), &[("iceberg.id", "7")]),
        with(part(kind::LONG, &[]), &[("iceberg.id", "8"), ("iceberg.long-type", "TIME")]),
        with(part(kind::TIMESTAMP, &[]), &[("iceberg.id", "9"), ("iceberg.timestamp-unit", "NANOS")]),
    ];
    let hybrid = |footer: &mut Footer| footer.calendar = Some(calendar_kind::JULIAN_GREGORIAN);
    let (store, meta) = stored(file(types, 0, &[], hybrid)).await?;
    let (micros, nanos) = (TimeUnit::Microsecond, TimeUnit::Nanosecond);
    let in_table = [
        (Some(7), DataType::Date32, "Keep"),
        (Some(8), DataType::Time64(micros), "Keep"),
        (Some(9), DataType::Timestamp(nanos, None), "Keep"),
    ];
    let elsewhere = [
        (None, DataType::Date32, "Local"),
        (None, DataType::Int64, "Keep"),
        (None, DataType::Timestamp(micros, None), "Local"),
    ];
    for (attributes, expected) in [(true, in_table), (false, elsewhere)] {
        let rules = TypeRules { unit: Some(TimestampUnit::Microsecond), attributes, ..TypeRules::default() };
        let tail = Tail::fetch(&store, &meta, "f.orc", rules, &CalendarOption::default()).await?;
        let found: Vec<_> = tail.columns.iter().map(|column| (column.id, column.data_type.clone())).collect();
        assert_eq!(found, expected.clone().map(|(id, data_type, _)| (id, data_type)));
        let rules = tail.columns.iter().map(|column| format!("{:?}", column.rules[0])).collect::<Vec<_>>();
        assert_eq!(rules, expected.map(|(_, _, rule)| rule));
    }
    Ok(())
}

/// An id that is no number would leave the column NULL.
#[tokio::test]
async fn orc_attributes_with_malformed_ids_are_refused() -> Result<(), Box<dyn std::error::Error>> {
    let pair = StringPair { key: "iceberg.id".to_owned(), value: "x7".to_owned() };
    let types = vec![part(kind::STRUCT, &[1]), Type { attributes: vec![pair], ..part(kind::LONG, &[]) }];
    let (store, meta) = stored(file(types, 0, &[], |_| {})).await?;
    let fetch = async |attributes: bool| {
        let rules = TypeRules { unit: None, attributes, acid: tfr_files::AcidColumns::default() };
        Tail::fetch(&store, &meta, "f.orc", rules, &CalendarOption::default()).await
    };
    let error = fetch(true).await.err().ok_or("an error")?;
    assert_eq!(
        error.to_string(),
        "f.orc: the file is damaged: a type in its footer has the id \"x7\", which is not a number of 32 bits"
    );
    assert!(fetch(false).await.is_ok());
    Ok(())
}

#[tokio::test]
async fn footers_that_contradict_themselves_are_refused() {
    type Change = fn(&mut Footer);
    let changes: [(Change, &str); 8] = [
        (|footer| footer.number_of_rows = Some(4), "the footer counts 4 rows, but its stripes contain 3"),
        (|footer| footer.stripes[0].number_of_rows = u64::MAX, "bytes for 18446744073709551615 rows"),
        (|footer| footer.stripes[0].data_length = u64::MAX, "stripe 0 ends behind the"),
        (|footer| footer.stripes.push(footer.stripes[0]), "stripe 1 begins at byte 3, inside the one before"),
        (|footer| footer.types[0].subtypes = vec![0], "type 0 is not where it belongs among 2"),
        (|footer| footer.types[1] = part(kind::LIST, &[1]), "type 1 is not where it belongs among 2"),
        (|footer| footer.types.push(part(kind::LONG, &[])), "it has 3 types, but only 2 are in use"),
        (|footer| footer.types.clear(), "its footer has no types"),
    ];
    for (change, expected) in changes {
        let message = refused(file(long(), 3, &[(stream::DATA, 1, ONES)], change)).await;
        assert!(message.starts_with("f.orc: the file is damaged: ") && message.contains(expected), "{message}");
    }
}

#[tokio::test]
async fn orc_rejects_deeply_nested_types() {
    let lists = (1..200).map(|id| part(kind::LIST, &[id + 1]));
    let types = [part(kind::STRUCT, &[1])].into_iter().chain(lists).chain([part(kind::LONG, &[])]).collect();
    let message = refused(file(types, 0, &[], |_| {})).await;
    assert_eq!(message, "f.orc: the file is damaged: its types are nested more than 64 deep");
}

/// The library would take the rows without flags for values.
#[tokio::test]
async fn orc_rejects_null_flags_that_do_not_cover_every_row() -> Result<(), Box<dyn std::error::Error>> {
    // The number 1 for every other of 20 rows, with null flags: for 24 rows, then for 16.
    let data = [0x07, 0x02];
    let (whole, cut) = ([0x00, 0xaa], [0xfe, 0xaa, 0xaa]);
    let streams = |nulls| [(stream::PRESENT, 1, nulls), (stream::DATA, 1, &data[..])];
    let _ = read(file(long(), 20, &streams(&whole), |_| {})).await?;
    let message = refused(file(long(), 20, &streams(&cut), |_| {})).await;
    assert!(message.ends_with("the file is damaged: type 1 has null flags for 16 rows, expected 20"), "{message}");
    Ok(())
}

#[tokio::test]
async fn orc_rejects_list_lengths_beyond_memory() -> Result<(), Box<dyn std::error::Error>> {
    let types = || vec![part(kind::STRUCT, &[1]), part(kind::LIST, &[2]), part(kind::LONG, &[])];
    // One length of 2^40, then three of 2^24, as runs of eight and four bytes.
    let endless = [0x7e, 0x00, 0, 0, 1, 0, 0, 0, 0, 0];
    let message = refused(file(types(), 1, &[(stream::LENGTH, 1, &endless)], |_| {})).await;
    assert!(message.ends_with("the file is damaged: a value of type 1 has 1099511627776 items"), "{message}");
    let long = [0x18, 1, 0, 0, 0];
    let (store, meta) = stored(file(types(), 3, &[(stream::LENGTH, 1, &long)], |_| {})).await?;
    let tail = Tail::fetch(&store, &meta, "f.orc", TypeRules::default(), &CalendarOption::default()).await?;
    let position = StripePosition { file: "f.orc".into(), stripe: 0, offset: 3 };
    let stripe = Stripe::fetch(&store, &meta, &tail, &[&tail.columns[0]], &position, 8192).await?;
    assert_eq!(stripe.rows_per_batch(), 1, "two would be 2^25 items");
    Ok(())
}

#[tokio::test]
async fn orc_rejects_dictionary_sizes_beyond_memory() {
    let types = vec![part(kind::STRUCT, &[1]), part(kind::STRING, &[])];
    let encodings = [(encoding::DIRECT, 0), (encoding::DICTIONARY_V2, u32::MAX)];
    let encodings = encodings.map(|(kind, dictionary_size)| ColumnEncoding { kind, dictionary_size });
    let message = refused(file_of(types, 3, &[(stream::DATA, 1, ONES)], encodings.to_vec(), |_| {})).await;
    assert!(message.ends_with("the file is damaged: the dictionary of type 1 has 4294967295 entries"), "{message}");
}

#[test]
fn orc_checks_blocks_before_decompression() {
    let codec = |compression| {
        let postscript = PostScript { compression, ..PostScript::default() };
        SectionCodec::try_new(&postscript).expect("a codec")
    };
    let block = |content: &[u8]| {
        let header = (content.len() as u32) << 1;
        bytes::Bytes::from([&header.to_le_bytes()[..3], content].concat())
    };
    // Snappy of 4 GiB; Zstandard with blocks of 2 MiB, each packed into 4 bytes.
    let snappy = block(&[0xff, 0xff, 0xff, 0xff, 0x0f]);
    let frame = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58];
    let blocks = (0..200).flat_map(|index| [u8::from(index == 199) | 2, 0, 0xff, 0]);
    let zstd = block(&frame.into_iter().chain(blocks).collect::<Vec<_>>());
    for (codec, block) in [(codec(2), &snappy), (codec(5), &zstd)] {
        let message = codec.expanded_len(block).expect_err("too long");
        assert_eq!(message, "a compression block expands to more than 268435456 bytes");
    }
    assert_eq!(codec(1).expanded_len(&block(&[])), Err("a compression block has no content".to_owned()));
    assert_eq!(
        codec(1).expanded_len(&bytes::Bytes::from_static(&[9, 9])),
        Err("a compression block has no header".to_owned())
    );
    let cut = bytes::Bytes::from_static(&[200, 0, 0, 1]);
    assert_eq!(codec(1).expanded_len(&cut), Err("a compression block ends behind its stream".to_owned()));
    let stored = bytes::Bytes::from(codec(5).stored(b"as it is"));
    assert_eq!(codec(5).unpack(&stored, 8), Ok(b"as it is".to_vec()));
    assert!(codec(5).unpack(&stored, 7).is_err());
    let huge = PostScript { compression: 4, compression_block_size: Some(1 << 40), ..PostScript::default() };
    assert!(SectionCodec::try_new(&huge).is_err());
}
