//! [`ColumnCalendars`]: the calendar of the dates and timestamps in a Parquet file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parquet::basic::{ConvertedType, LogicalType, TimeUnit};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescriptor;

use super::footer::CorrectedFooter;
use super::metadata::key_values;
use super::schema::LeafKind;
use crate::calendar::{Calendar, CalendarOption, Calendars, Reason, Rule, Watch, Watched};

/// A key written by Iceberg, whose specification requires the proleptic Gregorian calendar.
const ICEBERG_SCHEMA: &str = "iceberg.schema";

/// Prefixes, in lower case, of the names of writers that use only the proleptic Gregorian calendar.
const PROLEPTIC_WRITERS: &[&str] = &[
    "arrow2",
    "clickhouse",
    "cudf",
    "duckdb",
    "fastparquet",
    "hyparquet",
    "impala",
    "parquet-cpp",
    "parquet-go",
    "parquet-mr-trino",
    "parquet-presto",
    "parquet-rs",
    "parquet.net",
    "polars",
    "presto",
    "trino",
    "velox",
];

fn calendars(metadata: &ParquetMetaData, option: &CalendarOption) -> Calendars {
    let file = metadata.file_metadata();
    let keys = key_values(metadata);
    let writer = file.created_by().unwrap_or_default().to_ascii_lowercase();
    let is_proleptic =
        keys.contains_key(ICEBERG_SCHEMA) || PROLEPTIC_WRITERS.iter().any(|known| writer.starts_with(known));
    let default = if is_proleptic { Calendar::Proleptic } else { Calendar::of(option) };
    Calendars::of_parquet(|key| keys.get(key).copied(), default, option)
}

/// Returns how values of a column are read, and which of them are ambiguous.
fn of_column(calendars: &Calendars, column: &ColumnDescriptor, leaf: Option<&LeafKind>) -> (Rule, Watch) {
    let is_instant = match (column.logical_type_ref(), column.converted_type()) {
        _ if matches!(leaf, Some(LeafKind::Int96)) => return calendars.int96.of_instants(),
        (Some(LogicalType::Date), _) | (None, ConvertedType::DATE) => return calendars.dates.of_local(),
        (Some(LogicalType::Timestamp(timestamp)), _) => timestamp.is_adjusted_to_u_t_c,
        (None, ConvertedType::TIMESTAMP_MILLIS | ConvertedType::TIMESTAMP_MICROS) => true,
        _ => return (Rule::Keep, Watch::Nothing),
    };
    if is_instant { calendars.instants.of_instants() } else { calendars.locals.of_local() }
}

/// How the columns of a file are read. It omits columns whose row group bounds show that they have no old values.
#[derive(Debug, Default)]
pub(super) struct ColumnCalendars {
    /// The rules for the leaves of a column, by its name in the file.
    pub(super) rules: BTreeMap<String, Arc<[Rule]>>,
    /// The columns that may have ambiguous values, by name in the file.
    pub(super) watched: BTreeMap<String, Arc<Watched>>,
    /// The columns with INT96 timestamps, by name in the file, if these are cut.
    pub(super) cut: Vec<String>,
}

impl ColumnCalendars {
    /// Determines how a file is read; with `cuts`, finer timestamps are cut.
    pub(super) fn of(footer: &CorrectedFooter, option: &CalendarOption, cuts: bool) -> Self {
        let metadata = footer.metadata.as_ref();
        let calendars = calendars(metadata, option);
        let schema = metadata.file_metadata().schema_descr();
        let mut found: BTreeMap<usize, (Vec<Rule>, Vec<Watch>)> = BTreeMap::new();
        for (index, column) in schema.columns().iter().enumerate() {
            let (mut rule, mut watch) = of_column(&calendars, column, footer.leaves.get(index));
            let needs_look = !rule.is_keep() || watch != Watch::Nothing;
            // Instants are rebased up to 1900, other values up to 1582.
            let end = match &rule {
                Rule::LocalOf(..) => i64::MAX,
                Rule::Instant(_) => Watch::Instants(Reason::NoZone).end(),
                _ => Watch::Julian(Reason::NoZone).end().max(watch.end()),
            };
            if needs_look && is_since(metadata, index, end) {
                (rule, watch) = (Rule::Keep, Watch::Nothing);
            }
            let (rules, watches) = found.entry(schema.get_column_root_idx(index)).or_default();
            rules.push(rule);
            watches.push(watch);
        }
        let mut calendar = Self::default();
        for (root, (rules, leaves)) in found {
            let column = schema.root_schema().get_fields()[root].name().to_owned();
            if rules.iter().any(|rule| !rule.is_keep()) {
                calendar.rules.insert(column.clone(), rules.into());
            }
            if leaves.iter().any(|watch| *watch != Watch::Nothing) {
                calendar.watched.insert(column.clone(), Arc::new(Watched { column, leaves }));
            }
        }
        let int96 = footer.leaves.iter().enumerate().filter(|(_, leaf)| cuts && **leaf == LeafKind::Int96);
        let roots: BTreeSet<_> = int96.map(|(index, _)| schema.get_column_root_idx(index)).collect();
        let names = roots.into_iter().map(|root| schema.root_schema().get_fields()[root].name().to_owned());
        calendar.cut = names.collect();
        calendar
    }

    /// Whether all columns are read unchanged.
    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.watched.is_empty() && self.cut.is_empty()
    }
}

/// Whether all values of a column are at or after `seconds` since 1970, by the bounds of its row groups.
fn is_since(metadata: &ParquetMetaData, index: usize, seconds: i64) -> bool {
    metadata.row_groups().iter().all(|group| {
        let column = group.column(index);
        let descriptor = column.column_descr();
        let Some(statistics) = column.statistics() else { return false };
        if column.num_values() == 0 || statistics.null_count_opt() == u64::try_from(column.num_values()).ok() {
            return true;
        }
        match statistics {
            Statistics::Int32(bounds) => {
                bounds.min_opt().is_some_and(|days| i64::from(*days) >= seconds.div_euclid(86_400))
            }
            Statistics::Int64(bounds) => {
                let per_second = match (descriptor.logical_type_ref(), descriptor.converted_type()) {
                    (Some(LogicalType::Timestamp(timestamp)), _) => match timestamp.unit {
                        TimeUnit::MILLIS => 1_000,
                        TimeUnit::MICROS => 1_000_000,
                        TimeUnit::NANOS => 1_000_000_000,
                    },
                    (_, ConvertedType::TIMESTAMP_MILLIS) => 1_000,
                    _ => 1_000_000,
                };
                bounds.min_opt().is_some_and(|min| *min >= seconds.saturating_mul(per_second))
            }
            _ => false,
        }
    })
}
