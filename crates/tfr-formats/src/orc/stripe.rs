//! [`Stripe`]: fetches and checks the requested columns of one stripe, and passes them to the library.
//!
//! The library trusts a file's contents and reads every stream of a column by a separate request. It aborts the process
//! if a length requires more memory than there is. So it gets a small in-memory file instead: the streams that it
//! needs, unchanged, with footers written from what was checked.

use std::collections::HashSet;
use std::io::{self, BufReader};
use std::ops::Range;
use std::sync::Arc;

use arrow_schema::{Field, Schema};
use bytes::{Buf, Bytes};
use object_store::{ObjectMeta, ObjectStore, coalesce_ranges};
use orc_rust::reader::ChunkReader;
use orc_rust::{ArrowReader, ArrowReaderBuilder};
use prost::Message;

use super::clock::Clock;
use super::lengths::{Lengths, Sums, byte_count};
use super::nanos;
use super::proto::{Footer, Stream, StripeFooter, StripeInformation, Type, encoding, kind, stream};
use super::tail::{Tail, fetch};
use super::types::{OrcColumn, decoded_types};
use crate::error::{Error, Result, Within};

/// Maximum unpacked length of a stripe footer in bytes.
const MAX_FOOTER_LEN: u64 = 64 << 20;

/// Maximum gap between streams in bytes that is fetched along with them.
const MAX_GAP: u64 = 1 << 20;

/// Maximum number of entries of a dictionary. Dictionaries are made for values that repeat; a longer one is invalid and
/// would take gigabytes.
const MAX_DICTIONARY_LEN: u32 = 1 << 24;

/// Maximum number of items (of lists) or bytes (of texts) in a batch; batches get fewer rows if rows are large.
const MAX_ITEMS: u64 = 1 << 25;
const MAX_BYTES: u64 = 256 << 20;

/// Maximum number of items or bytes in one row.
const MAX_ITEMS_OF_ROW: u64 = 1 << 28;
const MAX_BYTES_OF_ROW: u64 = i32::MAX as u64;

/// The position of a stripe, for messages.
#[derive(Debug, Clone)]
pub(super) struct StripePosition {
    pub(super) file: Arc<str>,
    pub(super) stripe: usize,
    pub(super) offset: u64,
}

impl StripePosition {
    pub(super) fn within(&self) -> Within {
        Within::Stripe { stripe: self.stripe, byte: self.offset }
    }

    pub(super) fn damaged(&self, reason: String) -> Error {
        Error::damaged(&self.file, self.within(), &reason)
    }
}

/// The streams of the requested columns of a stripe.
pub(super) struct Stripe {
    reader: StripeReader,
    rows_per_batch: usize,
    schema: Arc<Schema>,
    /// The number of bytes fetched.
    pub(super) bytes: usize,
    /// The clock by which timestamps are read.
    pub(super) clock: Option<Clock>,
}

impl Stripe {
    /// Fetches and checks the streams of a stripe that `columns` need.
    pub(super) async fn fetch(
        store: &Arc<dyn ObjectStore>,
        meta: &ObjectMeta,
        tail: &Tail,
        columns: &[&OrcColumn],
        position: &StripePosition,
        batch_size: usize,
    ) -> Result<Self> {
        let stripe = tail.stripes[position.stripe];
        let damaged = |reason| position.damaged(reason);
        let footer_at = stripe.offset + stripe.index_length + stripe.data_length;
        let packed = fetch(store, meta, &position.file, footer_at..footer_at + stripe.footer_length).await?;
        let footer = tail.codec.unpack(&packed, MAX_FOOTER_LEN).map_err(damaged)?;
        let footer = StripeFooter::decode(footer.as_slice()).map_err(|error| damaged(error.to_string()))?;
        check_encodings(&footer, tail, columns).map_err(damaged)?;
        check_rows(&footer, tail).map_err(damaged)?;
        let (streams, ranges) = wanted(&footer, &stripe, columns).map_err(damaged)?;
        let get = |range| async { fetch(store, meta, &position.file, range).await.map_err(Failed::from) };
        let pieces = coalesce_ranges(&ranges, get, MAX_GAP).await.map_err(|Failed(error)| error)?;
        let bytes = packed.len() + pieces.iter().map(Bytes::len).sum::<usize>();
        let mut held = Vec::with_capacity(streams.len());
        for (stream, piece) in streams.into_iter().zip(pieces) {
            // An empty stream is equivalent to a missing one.
            if tail.codec.expanded_len(&piece).map_err(damaged)? > 0 {
                held.push((stream, piece));
            }
        }
        let (streams, pieces) = held.into_iter().unzip();
        let mut streams = Streams { tail, footer: &footer, streams, pieces, rewritten: HashSet::new() };
        streams.check_nulls(columns, stripe.number_of_rows).map_err(damaged)?;
        let rows_per_batch = streams.rows_per_batch(columns, stripe.number_of_rows, batch_size).map_err(damaged)?;
        let clock = clock(&footer, tail, columns).map_err(damaged)?;
        streams.mend_timestamps(columns, clock.is_some()).map_err(damaged)?;
        let fields = columns.iter().map(|column| Field::new(&column.name, column.decoded.clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let reader = streams.into_file(&stripe, columns);
        Ok(Self { reader, rows_per_batch, schema, bytes, clock })
    }

    /// Returns the number of rows of all batches but the last.
    #[cfg(test)]
    pub(super) fn rows_per_batch(&self) -> usize {
        self.rows_per_batch
    }

    /// Returns batches of all rows, with columns in file order.
    pub(super) fn batches(self) -> Result<ArrowReader<impl ChunkReader + Send>, orc_rust::error::OrcError> {
        let reader = ArrowReaderBuilder::try_new(self.reader)?;
        Ok(reader.with_schema(self.schema).with_batch_size(self.rows_per_batch).build())
    }
}

/// An error for [`coalesce_ranges`], which requires its own error type.
struct Failed(Error);

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl From<object_store::Error> for Failed {
    fn from(error: object_store::Error) -> Self {
        Self(Error::read("", error.into()))
    }
}

/// Requires that the struct with the columns is null in no row: values of a null one are not stored.
fn check_rows(footer: &StripeFooter, tail: &Tail) -> Result<(), String> {
    let is_null_in_some = |found: &&Stream| found.kind == stream::PRESENT && found.length > 0;
    let mut nulls = footer.streams.iter().filter(is_null_in_some);
    match tail.row.filter(|row| nulls.any(|found| found.column as usize == *row)) {
        Some(row) => Err(format!("type {row}, the struct with the columns of the table, is null in some rows")),
        None => Ok(()),
    }
}

/// Requires a valid encoding for every type.
fn check_encodings(footer: &StripeFooter, tail: &Tail, columns: &[&OrcColumn]) -> Result<(), String> {
    let (found, expected) = (footer.columns.len(), tail.types.len());
    if found != expected {
        return Err(format!("its footer has {found} encodings for {expected} types"));
    }
    for id in columns.iter().flat_map(|column| column.types.clone()) {
        let found = &footer.columns[id];
        let is_text = matches!(tail.types[id].kind, kind::STRING | kind::VARCHAR | kind::CHAR);
        match found.kind {
            encoding::DIRECT | encoding::DIRECT_V2 => {}
            // These have only one encoding, and some writers record another.
            _ if matches!(
                tail.types[id].kind,
                kind::STRUCT | kind::BOOLEAN | kind::BYTE | kind::FLOAT | kind::DOUBLE
            ) => {}
            encoding::DICTIONARY | encoding::DICTIONARY_V2 if is_text => {
                if found.dictionary_size > MAX_DICTIONARY_LEN {
                    return Err(format!("the dictionary of type {id} has {} entries", found.dictionary_size));
                }
            }
            other => return Err(format!("type {id} of kind {} has encoding {other}", tail.types[id].kind)),
        }
    }
    Ok(())
}

/// Returns the streams with the columns' values, and their positions.
fn wanted(
    footer: &StripeFooter,
    stripe: &StripeInformation,
    columns: &[&OrcColumn],
) -> Result<(Vec<Stream>, Vec<Range<u64>>), String> {
    const KINDS: [i32; 5] = [stream::PRESENT, stream::DATA, stream::LENGTH, stream::DICTIONARY_DATA, stream::SECONDARY];
    let end = stripe.offset + stripe.index_length + stripe.data_length;
    let mut offset = stripe.offset;
    let mut known = HashSet::new();
    let (mut streams, mut ranges) = (Vec::new(), Vec::new());
    for found in &footer.streams {
        let next = offset.checked_add(found.length).filter(|next| *next <= end);
        let next = next.ok_or("a stream ends behind the stripe")?;
        let id = found.column as usize;
        if found.length > 0 && KINDS.contains(&found.kind) && columns.iter().any(|column| column.types.contains(&id)) {
            if !known.insert((id, found.kind)) {
                return Err(format!("type {id} has two streams of kind {}", found.kind));
            }
            streams.push(*found);
            ranges.push(offset..next);
        }
        offset = next;
    }
    Ok((streams, ranges))
}

/// The streams of a stripe in memory.
struct Streams<'a> {
    tail: &'a Tail,
    footer: &'a StripeFooter,
    streams: Vec<Stream>,
    pieces: Vec<Bytes>,
    /// Types whose integers were rewritten to run lengths of version 2.
    rewritten: HashSet<usize>,
}

impl Streams<'_> {
    fn index(&self, id: usize, kind: i32) -> Option<usize> {
        self.streams.iter().position(|found| found.column as usize == id && found.kind == kind)
    }

    fn get(&self, id: usize, kind: i32) -> Option<&Bytes> {
        self.index(id, kind).map(|index| &self.pieces[index])
    }

    /// Whether the integers of a type are run lengths of version 2.
    fn is_v2(&self, id: usize) -> bool {
        matches!(self.footer.columns[id].kind, encoding::DIRECT_V2 | encoding::DICTIONARY_V2)
    }

    /// Rewrites columns of timestamps that the library would decode incorrectly.
    fn mend_timestamps(&mut self, columns: &[&OrcColumn], has_zone: bool) -> Result<(), String> {
        for id in columns.iter().flat_map(|column| column.types.clone()) {
            if !matches!(self.tail.types[id].kind, kind::TIMESTAMP | kind::TIMESTAMP_INSTANT) {
                continue;
            }
            let (data, nanos) = (self.index(id, stream::DATA), self.index(id, stream::SECONDARY));
            let (Some(data), Some(nanos)) = (data, nanos) else { continue };
            let is_v2 = self.is_v2(id);
            let reader = |index: usize| BufReader::new(self.tail.codec.reader(self.pieces[index].clone()));
            if !nanos::has_negative(Lengths::new(reader(nanos), is_v2))? {
                continue;
            }
            // No known writer produces these, so their meaning is unknown.
            if has_zone && self.tail.types[id].kind == kind::TIMESTAMP {
                return Err(format!("type {id} has timestamps with a fraction below zero, and a time zone"));
            }
            let rewritten = nanos::rewritten(Lengths::signed(reader(data), is_v2), Lengths::new(reader(nanos), is_v2))?;
            for (index, bytes) in [(data, rewritten.seconds), (nanos, rewritten.nanos)] {
                self.pieces[index] = self.tail.codec.stored(&bytes).into();
                self.streams[index].length = self.pieces[index].len() as u64;
            }
            self.rewritten.insert(id);
        }
        Ok(())
    }

    /// Requires that each column has null flags for all rows or for none.
    fn check_nulls(&self, columns: &[&OrcColumn], rows: u64) -> Result<(), String> {
        for id in columns.iter().map(|column| column.types.start) {
            let Some(nulls) = self.get(id, stream::PRESENT) else { continue };
            let bytes = byte_count(BufReader::new(self.tail.codec.reader(nulls.clone())), rows.div_ceil(8));
            if bytes < rows.div_ceil(8) {
                return Err(format!("type {id} has null flags for {} rows, expected {rows}", bytes * 8));
            }
        }
        Ok(())
    }

    /// Returns the requested number of rows, or fewer if rows are large.
    fn rows_per_batch(&self, columns: &[&OrcColumn], rows: u64, batch_size: usize) -> Result<usize, String> {
        let mut rows_per_batch = batch_size.max(1);
        loop {
            let mut fits = true;
            for column in columns {
                fits &= self.fits(column.types.start, rows, rows_per_batch as u64, rows_per_batch == 1)?;
            }
            match fits || rows_per_batch == 1 {
                true => return Ok(rows_per_batch),
                false => rows_per_batch /= 2,
            }
        }
    }

    /// Whether the values of `id` fit a batch with `window` of them, of `count` in all.
    fn fits(&self, id: usize, count: u64, window: u64, is_last_try: bool) -> Result<bool, String> {
        let found = &self.tail.types[id];
        let is_list = matches!(found.kind, kind::LIST | kind::MAP);
        let (most, most_of_row, what) = match is_list {
            true => (MAX_ITEMS, MAX_ITEMS_OF_ROW, "items"),
            false => (MAX_BYTES, MAX_BYTES_OF_ROW, "bytes"),
        };
        let is_text = matches!(found.kind, kind::STRING | kind::VARCHAR | kind::CHAR | kind::BINARY);
        let is_direct = matches!(self.footer.columns[id].kind, encoding::DIRECT | encoding::DIRECT_V2);
        let mut sums = Sums { most: window, total: count };
        if is_list || is_text && is_direct && self.could_exceed(id, most)? {
            sums = self.sums(id, count, window);
            if sums.most > most {
                return match is_last_try && sums.most > most_of_row {
                    true => Err(format!("a value of type {id} has {} {what}", sums.most)),
                    false => Ok(is_last_try && self.parts_fit(found, sums, is_last_try)?),
                };
            }
        }
        self.parts_fit(found, sums, is_last_try)
    }

    fn parts_fit(&self, found: &Type, sums: Sums, is_last_try: bool) -> Result<bool, String> {
        for part in &found.subtypes {
            if !self.fits(*part as usize, sums.total, sums.most, is_last_try)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a text column is so long that a batch of it could be too long.
    fn could_exceed(&self, id: usize, most: u64) -> Result<bool, String> {
        let data = self.get(id, stream::DATA).map(|data| self.tail.codec.expanded_len(data)).transpose()?;
        Ok(data.is_some_and(|len| len > most))
    }

    fn sums(&self, id: usize, count: u64, window: u64) -> Sums {
        let Some(lengths) = self.get(id, stream::LENGTH) else { return Sums::default() };
        let is_v2 = self.is_v2(id);
        let reader = BufReader::new(self.tail.codec.reader(lengths.clone()));
        Lengths::new(reader, is_v2).sums(count, window)
    }

    /// Creates a file of only this stripe and the requested columns.
    fn into_file(self, stripe: &StripeInformation, columns: &[&OrcColumn]) -> StripeReader {
        let mut types = decoded_types(&self.tail.types, &self.tail.columns);
        let mut encodings = self.footer.columns.clone();
        let kinds = self.tail.types.iter().zip(&types);
        for (id, (encoding, (found, decoded))) in encodings.iter_mut().zip(kinds).enumerate() {
            // Integers that represent decimals are run lengths of version 2, whatever the footer specifies.
            if found.kind == kind::DECIMAL && decoded.kind == kind::LONG || self.rewritten.contains(&id) {
                encoding.kind = encoding::DIRECT_V2;
            }
        }
        let data_length = self.pieces.iter().map(|piece| piece.len() as u64).sum();
        let footer = StripeFooter { streams: self.streams, columns: encodings, writer_timezone: None };
        let mut end = self.tail.codec.stored(&footer.encode_to_vec());
        let stripe = StripeInformation {
            offset: 0,
            index_length: 0,
            data_length,
            footer_length: end.len() as u64,
            number_of_rows: stripe.number_of_rows,
        };
        let root = &mut types[0];
        root.subtypes = columns.iter().map(|column| column.types.start as u32).collect();
        root.field_names = columns.iter().map(|column| column.name.clone()).collect();
        let number_of_rows = Some(stripe.number_of_rows);
        let footer = Footer { stripes: vec![stripe], types, number_of_rows, ..Footer::default() };
        end.extend(self.tail.codec.tail(&footer));
        let mut pieces = Vec::with_capacity(self.pieces.len() + 1);
        let mut offset = 0;
        for piece in self.pieces.into_iter().chain([Bytes::from(end)]) {
            let len = piece.len() as u64;
            pieces.push((offset, piece));
            offset += len;
        }
        StripeReader { pieces, len: offset }
    }
}

/// Returns the clock by which timestamps were written, unless it is UTC.
fn clock(footer: &StripeFooter, tail: &Tail, columns: &[&OrcColumn]) -> Result<Option<Clock>, String> {
    let mut types = columns.iter().flat_map(|column| column.types.clone());
    if !types.any(|id| tail.types[id].kind == kind::TIMESTAMP) {
        return Ok(None);
    }
    match footer.writer_timezone.as_deref().unwrap_or_default() {
        "" | "GMT" | "UTC" | "Z" | "Etc/UTC" | "Etc/GMT" => Ok(None),
        name => match Clock::new(name) {
            Some(clock) => Ok(Some(clock)),
            None => Err(format!("it was written in time zone {name:?}, which is unknown")),
        },
    }
}

/// Pieces of bytes as one file.
struct StripeReader {
    /// The pieces with their offsets.
    pieces: Vec<(u64, Bytes)>,
    len: u64,
}

impl ChunkReader for StripeReader {
    type T = bytes::buf::Reader<Bytes>;

    fn len(&self) -> u64 {
        self.len
    }

    fn get_read(&self, offset_from_start: u64) -> io::Result<Self::T> {
        Ok(self.get_bytes(offset_from_start, self.len.saturating_sub(offset_from_start))?.reader())
    }

    /// Returns a stream, or any range near the end, without a copy.
    fn get_bytes(&self, offset_from_start: u64, length: u64) -> io::Result<Bytes> {
        let out_of_file = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let end = offset_from_start.checked_add(length).filter(|end| *end <= self.len).ok_or_else(out_of_file)?;
        if length == 0 {
            return Ok(Bytes::new());
        }
        let first = self.pieces.partition_point(|(offset, _)| *offset <= offset_from_start) - 1;
        let (offset, piece) = &self.pieces[first];
        let start = (offset_from_start - offset) as usize;
        if end <= offset + piece.len() as u64 {
            return Ok(piece.slice(start..start + length as usize));
        }
        // The tail is requested along with the bytes before it.
        let mut bytes = piece.slice(start..).to_vec();
        for (offset, piece) in &self.pieces[first + 1..] {
            let left = end.saturating_sub(*offset).min(piece.len() as u64);
            bytes.extend_from_slice(&piece[..left as usize]);
        }
        Ok(bytes.into())
    }
}
