//! [`Tail`]: the metadata at the end of a file, checked before use.

use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use bytes::Bytes;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use prost::Message;

use super::calendar::FileCalendar;
use super::codec::SectionCodec;
use super::proto::{ColumnStatistics, Footer, Metadata, PostScript, StripeInformation, StripeStatistics, Type, kind};
use super::types::{OrcColumn, TimestampUnit, TypeRules, acid_row, columns_of_table};
use crate::calendar::CalendarOption;
use crate::content::other_format;
use crate::error::{Error, Result, Within};
use crate::input_format::InputFormat;

/// Number of bytes at the end of a file fetched first; most tails fit.
const FIRST_LEN: u64 = 64 << 10;

/// Maximum unpacked length of a footer in bytes.
const MAX_FOOTER_LEN: u64 = 256 << 20;

/// The first writer version that merges the bounds of texts correctly (HIVE-8732).
const MERGES_TEXT_BOUNDS: u32 = 1;

/// Maximum nesting depth of types; deeper ones would overflow a reader's stack.
const MAX_DEPTH: usize = 64;

/// Maximum rows per byte of a stripe, well above what is possible. Run lengths pack 520 values into a byte, and
/// Zstandard packs 2^14 bytes into one. Stripes that claim more would keep a reader busy forever.
const MAX_ROWS_PER_BYTE: u64 = 1 << 24;

/// The metadata at the end of a file.
#[derive(Debug)]
pub(super) struct Tail {
    pub(super) codec: SectionCodec,
    /// Types in pre-order; the root comes first.
    pub(super) types: Vec<Type>,
    /// The columns of the table in the file.
    pub(super) columns: Vec<OrcColumn>,
    /// In file order, without overlap.
    pub(super) stripes: Vec<StripeInformation>,
    pub(super) rows: u64,
    /// The type of the struct that contains the columns, if it is not the root.
    pub(super) row: Option<usize>,
    /// The bounds of the columns that identify rows, in a file with the changes of transactions of Hive: `None` in other
    /// files.
    pub(super) row_ids: Option<Vec<Bounds>>,
    /// The statistics of the stripes, compressed as in the file.
    metadata: Bytes,
    /// Whether the bounds of texts are reliable.
    has_text_bounds: bool,
}

/// The smallest and the largest value of a column, if the file records them.
pub(super) type Bounds = Option<(i64, i64)>;

/// Returns the bounds of the columns that identify rows.
fn row_ids(footer: &Footer) -> Option<Vec<Bounds>> {
    let row = acid_row(&footer.types)?;
    let bounds = |id: usize| {
        let found = footer.statistics.get(id).and_then(|statistics| statistics.integers);
        found.and_then(|found| found.minimum.zip(found.maximum))
    };
    // They have no parts, and are before the last one.
    Some((1..row).map(bounds).collect())
}

impl Tail {
    /// Fetches and checks the tail of a file.
    pub(super) async fn fetch(
        store: &Arc<dyn ObjectStore>,
        meta: &ObjectMeta,
        name: &str,
        rules: TypeRules,
        calendar: &CalendarOption,
    ) -> Result<Self> {
        if meta.size == 0 {
            return Err(Error::empty_file(name));
        }
        let end = fetch(store, meta, name, meta.size.saturating_sub(FIRST_LEN)..meta.size).await?;
        let damaged = |reason: String| Error::damaged(name, Within::File, &reason);
        let (postscript, tail_len) = match postscript(&end, meta.size) {
            Ok(found) => found,
            Err(reason) => {
                return Err(other_format(store, meta, name, InputFormat::Orc).await.unwrap_or_else(|| damaged(reason)));
            }
        };
        if postscript.magic.is_none()
            && let Some(error) = other_format(store, meta, name, InputFormat::Orc).await
        {
            return Err(error);
        }
        let end = match tail_len <= end.len() as u64 {
            true => end,
            false => fetch(store, meta, name, meta.size - tail_len..meta.size).await?,
        };
        let body_len = meta.size - tail_len;
        let codec = SectionCodec::try_new(&postscript).map_err(damaged)?;
        // In a tail, the footer precedes the postscript and its length.
        let footer_end = end.len() - 1 - usize::from(end[end.len() - 1]);
        let footer_len = postscript.footer_length.unwrap_or_default() as usize;
        let footer = codec.unpack(&end.slice(footer_end - footer_len..footer_end), MAX_FOOTER_LEN);
        let footer = Footer::decode(footer.map_err(damaged)?.as_slice()).map_err(|error| damaged(error.to_string()))?;
        check_types(&footer.types).map_err(damaged)?;
        check_stripes(&footer.stripes, body_len).map_err(damaged)?;
        let rows = footer.stripes.iter().fold(0_u64, |rows, stripe| rows.saturating_add(stripe.number_of_rows));
        let counted = footer.number_of_rows.unwrap_or_default();
        if counted != rows {
            return Err(damaged(format!("the footer counts {counted} rows, but its stripes contain {rows}")));
        }
        let unit_of = |id: usize| {
            let recorded = footer.types[id].iceberg_unit().filter(|_| rules.attributes);
            recorded.or(rules.unit).unwrap_or_else(|| timestamp_unit(footer.statistics.get(id)))
        };
        let is_v2 = postscript.version.first().is_some_and(|major| *major >= 1);
        let (mut columns, row) = columns_of_table(&footer.types, is_v2, rules, unit_of, name)?;
        let calendar = match rules.attributes && footer.types.iter().any(|found| found.id().is_some()) {
            // Iceberg stores the days of the proleptic calendar, while its library records the hybrid one in all files.
            true => FileCalendar::Proleptic,
            false => FileCalendar::of(&footer, calendar),
        };
        for column in &mut columns {
            let types = column.types.clone().filter(|id| !footer.types[*id].is_nested());
            let of_type = |id: usize| calendar.of_type(&footer.types[id], footer.statistics.get(id));
            (column.rules, column.watched.leaves) = types.map(of_type).unzip();
        }
        let metadata_end = footer_end - footer_len;
        // If stripe statistics have a section of their own, as in ORC 2, there are none here.
        let metadata_len = match postscript.stripe_statistics_length {
            None | Some(0) => postscript.metadata_length.unwrap_or_default() as usize,
            Some(_) => 0,
        };
        Ok(Self {
            codec,
            row_ids: row_ids(&footer),
            types: footer.types,
            columns,
            row,
            stripes: footer.stripes,
            rows,
            // A copy, so that a retained tail does not retain the end of the file.
            metadata: Bytes::copy_from_slice(&end[metadata_end - metadata_len..metadata_end]),
            has_text_bounds: postscript.writer_version.unwrap_or_default() >= MERGES_TEXT_BOUNDS,
        })
    }

    /// Returns the columns with their names and ids in the file.
    pub(super) fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(self.columns.iter().map(OrcColumn::field).collect::<Vec<_>>()))
    }

    /// Returns the statistics of each stripe; `None` if they cannot be read, since they are optional.
    pub(super) fn stripe_statistics(&self) -> Option<Vec<StripeStatistics>> {
        let metadata = self.codec.unpack(&self.metadata, MAX_FOOTER_LEN).ok()?;
        let mut stripes = Metadata::decode(metadata.as_slice()).ok()?.stripes;
        let is_complete = |stripe: &StripeStatistics| stripe.columns.len() == self.types.len();
        if !self.has_text_bounds {
            stripes.iter_mut().flat_map(|stripe| &mut stripe.columns).for_each(|column| column.strings = None);
        }
        (stripes.len() == self.stripes.len() && stripes.iter().all(is_complete)).then_some(stripes)
    }
}

/// Fetches a complete byte range of a file.
pub(super) async fn fetch(
    store: &Arc<dyn ObjectStore>,
    meta: &ObjectMeta,
    name: &str,
    range: std::ops::Range<u64>,
) -> Result<Bytes> {
    let len = range.end - range.start;
    let bytes = store.get_range(&meta.location, range).await.map_err(|error| Error::read(name, error.into()))?;
    match bytes.len() as u64 == len {
        true => Ok(bytes),
        false => Err(Error::read(name, std::io::ErrorKind::UnexpectedEof.into())),
    }
}

/// Returns the postscript, and the length of everything after the stripes.
fn postscript(end: &Bytes, file_len: u64) -> Result<(PostScript, u64), String> {
    let (len, before) = end.split_last().ok_or("it is empty")?;
    let start = before.len().checked_sub(usize::from(*len)).ok_or("it is shorter than its postscript")?;
    let postscript = PostScript::decode(&before[start..]).map_err(|error| format!("its postscript: {error}"))?;
    // Early writers omitted it.
    if postscript.magic.as_deref().is_some_and(|magic| magic != "ORC") {
        return Err("it does not end with a postscript of ORC".to_owned());
    }
    let footer_len = postscript.footer_length.ok_or("its postscript does not contain the length of the footer")?;
    let lengths = [
        footer_len,
        postscript.metadata_length.unwrap_or_default(),
        postscript.stripe_statistics_length.unwrap_or_default(),
        u64::from(*len) + 1,
    ];
    let tail_len = lengths.iter().try_fold(0_u64, |sum, len| sum.checked_add(*len));
    match tail_len {
        Some(tail_len) if tail_len <= file_len => Ok((postscript, tail_len)),
        _ => Err("its footer is longer than the file".to_owned()),
    }
}

/// Requires that types are numbered in pre-order, so that each but the root is part of exactly one earlier type.
/// Otherwise a reader could loop forever.
fn check_types(types: &[Type]) -> Result<(), String> {
    let mut next = 1;
    // The subtypes still to be visited of the types on the current path.
    let mut open: Vec<std::slice::Iter<'_, u32>> = types.first().map(|root| root.subtypes.iter()).into_iter().collect();
    if open.is_empty() {
        return Err("its footer has no types".to_owned());
    }
    while let Some(subtypes) = open.last_mut() {
        let Some(id) = subtypes.next() else {
            open.pop();
            continue;
        };
        let subtype = types.get(next).filter(|_| *id as usize == next);
        let subtype = subtype.ok_or_else(|| format!("type {id} is not where it belongs among {}", types.len()))?;
        if open.len() == MAX_DEPTH {
            return Err(format!("its types are nested more than {MAX_DEPTH} deep"));
        }
        next += 1;
        open.push(subtype.subtypes.iter());
    }
    for (id, found) in types.iter().enumerate() {
        let (names, parts) = (found.field_names.len(), found.subtypes.len());
        let is_sound = match found.kind {
            kind::STRUCT => names == parts,
            kind::LIST => parts == 1,
            kind::MAP => parts == 2,
            kind::UNION => true,
            kind::BOOLEAN..=kind::TIMESTAMP_INSTANT => parts == 0,
            // From a later version of the format: its subtypes are unknown.
            _ => true,
        };
        if !is_sound {
            return Err(format!("type {id} of kind {} has {parts} parts with {names} names", found.kind));
        }
    }
    match next == types.len() {
        true => Ok(()),
        false => Err(format!("it has {} types, but only {next} are in use", types.len())),
    }
}

/// Requires that stripes follow each other in the file, and have no more rows than their lengths allow.
fn check_stripes(stripes: &[StripeInformation], body_len: u64) -> Result<(), String> {
    let mut end = 0;
    for (index, stripe) in stripes.iter().enumerate() {
        let lengths = [stripe.index_length, stripe.data_length, stripe.footer_length];
        let len = lengths.iter().try_fold(0_u64, |sum, len| sum.checked_add(*len));
        let stripe_end = len.and_then(|len| stripe.offset.checked_add(len));
        let (Some(len), Some(stripe_end)) = (len, stripe_end.filter(|stripe_end| *stripe_end <= body_len)) else {
            return Err(format!("stripe {index} ends behind the {body_len} bytes of stripes"));
        };
        if stripe.offset < end {
            return Err(format!("stripe {index} begins at byte {}, inside the one before", stripe.offset));
        }
        if stripe.number_of_rows / MAX_ROWS_PER_BYTE > len {
            return Err(format!("stripe {index} has {len} bytes for {} rows", stripe.number_of_rows));
        }
        end = stripe_end;
    }
    Ok(())
}

/// Returns nanoseconds, unless the file's statistics show that some values do not fit. The reader would report these,
/// but the table should not fail.
fn timestamp_unit(statistics: Option<&ColumnStatistics>) -> TimestampUnit {
    // One day of margin on either side, for time zones.
    const RANGE: std::ops::Range<i64> = (i64::MIN / 1_000_000 + 86_400_000)..(i64::MAX / 1_000_000 - 86_400_000);
    let Some(found) = statistics.and_then(|statistics| statistics.timestamps) else { return TimestampUnit::Nanosecond };
    let mut bounds = [found.minimum, found.maximum, found.minimum_utc, found.maximum_utc].into_iter().flatten();
    match bounds.all(|bound| RANGE.contains(&bound)) {
        true => TimestampUnit::Nanosecond,
        false => TimestampUnit::Microsecond,
    }
}
