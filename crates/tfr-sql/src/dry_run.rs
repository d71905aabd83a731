//! `--dry-run`: prints the planned output, without running the query.
//!
//! Reads only what planning reads (footers, and the head of CSV files), and creates nothing. Sizes are therefore
//! bounds: a number, a date or a flag has a minimum and a maximum encoded length. Columns of unbounded length are
//! listed.

use std::fmt;
use std::time::Duration;

use arrow_tfrecord::{ByteBounds, ColumnMapping, Mapping, NullPolicy, NullRule};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Statistics};
use datafusion_tfrecord::write::{SidecarKind, record_schema};
use datafusion_tfrecord::{SplitOptions, WriteOptions};
use tfrecord_shards::{ObjectNames, ShardName, Sharding, Splits};

use crate::error::Result;
use crate::printer::{bytes, counted, grouped};
use crate::query::Query;
use crate::report::{Outcome, PlanReport, Report};
use crate::session::Limits;

/// The plan of a write. Its `Display` prints it.
pub struct DryRun {
    mapping: Mapping,
    options: WriteOptions,
    rows: Precision<usize>,
    /// Whether the query reads files.
    has_files: bool,
    size: SizeEstimate,
    /// Bytes of memory available for sorting.
    memory: u64,
}

impl DryRun {
    /// Plans to write the rows of `query`.
    pub fn new(options: &WriteOptions, query: &Query, limits: Limits) -> Result<Self> {
        let rows = query.physical.schema();
        let records = record_schema(&rows, options)?;
        let mapping = Mapping::of_writer(&records, &options.mapping)?;
        let mut statistics = Statistics::clone(query.statistics()?.as_ref());
        let mut columns = rows.fields().iter();
        statistics
            .column_statistics
            .retain(|_| columns.next().is_none_or(|field| records.index_of(field.name()).is_ok()));
        if options.rejects.is_some() {
            statistics.num_rows = statistics.num_rows.to_inexact();
        }
        let size = SizeEstimate::of(&mapping, &statistics);
        Ok(Self {
            mapping,
            options: options.clone(),
            rows: statistics.num_rows,
            has_files: !query.inputs.is_empty(),
            size,
            memory: limits.memory,
        })
    }
}

impl fmt::Display for DryRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.mapping)?;
        let from = if self.has_files { " from the files' statistics" } else { "" };
        let comma = if self.has_files { "," } else { "" };
        let rows = match self.rows {
            Precision::Exact(rows) => format!("{} (exact{comma}{from})", grouped(rows as u64)),
            Precision::Inexact(rows) => format!("about {} (estimated{from})", grouped(rows as u64)),
            Precision::Absent => "unknown before the input is read".to_owned(),
        };
        writeln!(f, "rows    {rows}")?;
        writeln!(f, "size    {}", self.size)?;
        let options = &self.options;
        if let Some(rejects) = &options.rejects {
            writeln!(f, "rejects at most {} to {}", counted(rejects.most, "row"), rejects.table.location())?;
        }
        if let Some(seed) = options.shuffle {
            writeln!(f, "order   shuffled with seed {seed}")?;
        }
        match &options.splits {
            Some(SplitOptions::Hash { splits, by }) => {
                let key = if by.is_empty() { "the whole record".to_owned() } else { by.join(", ") };
                writeln!(f, "splits  {}, by hash of {key}", self.splits(splits))?;
            }
            Some(SplitOptions::Rows(splits)) => writeln!(f, "splits  {splits}, cut from the shuffled rows")?,
            Some(SplitOptions::Column(column)) => writeln!(f, "splits  those that the values of {column} name")?,
            None => {}
        }
        if !options.partition_by.is_empty() {
            let paths = options.partition_by.iter().map(|column| format!("{column}=.../"));
            writeln!(f, "paths   {}", paths.collect::<String>())?;
        }
        if self.is_sorted() {
            writeln!(f, "memory  {} for the query and its rows, and files in --temp-dir for more", bytes(self.memory))?;
        }
        for (index, shards) in self.shards().into_iter().enumerate() {
            let label = if index == 0 { "shards" } else { "" };
            writeln!(f, "{label:8}{shards}")?;
        }
        self.sidecars(f)
    }
}

impl DryRun {
    /// Returns the plan for programs.
    pub fn report(&self) -> Report {
        let rows = self.rows.get_value().map(|rows| *rows as u64);
        let plan = PlanReport {
            mapping: self.mapping.clone(),
            rows,
            rows_are_exact: self.rows.is_exact().unwrap_or(false),
            least_bytes: self.size.least,
            most_bytes: self.size.most.filter(|_| self.size.unknown.is_empty()),
            shards: self.shards(),
            text: self.to_string(),
        };
        Report::new(Outcome::Plan(plan), Duration::ZERO)
    }

    /// Describes the shards of each split.
    fn shards(&self) -> Vec<String> {
        let options = &self.options;
        let order = if options.ordered { ", in the query's order" } else { "" };
        let each = if options.partition_by.is_empty() { "" } else { " in each directory" };
        let describe = |group: Group<'_>| format!("{}{each}{order}: {} ...", group.shards(), group.first_shard());
        let split = |(name, fraction): (&str, Option<f64>)| {
            let sharding = options.split_shards.get(name).map_or(options.sharding, |shards| Sharding::Count(*shards));
            describe(Group { sharding, ..self.group(fraction, name) })
        };
        match &options.splits {
            Some(SplitOptions::Hash { splits, .. }) => {
                splits.iter().map(|(name, fraction)| split((name, Some(fraction)))).collect()
            }
            Some(SplitOptions::Rows(splits)) => {
                let rows = self.rows.get_value().map(|rows| *rows as u64);
                let sizes = rows.and_then(|rows| Some((splits.sizes(rows).ok()?, rows)));
                let fraction = |index: usize| {
                    sizes.as_ref().and_then(|(sizes, rows)| Some(*sizes.get(index)? as f64 / *rows as f64))
                };
                splits.names().enumerate().map(|(index, name)| split((name, fraction(index)))).collect()
            }
            Some(SplitOptions::Column(column)) => vec![describe(self.group(None, &format!("<{column}>")))],
            None => vec![describe(self.group(Some(1.0), &options.prefix))],
        }
    }

    fn group<'a>(&'a self, fraction: Option<f64>, prefix: &'a str) -> Group<'a> {
        Group { plan: self, fraction, sharding: self.options.sharding, prefix }
    }

    /// Lists the sidecar files, if any were requested.
    fn sidecars(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let emit = &self.options.emit;
        let mut files: Vec<_> = emit.kinds().flat_map(|kind| kind.file_names().iter().copied()).collect();
        if emit.has(SidecarKind::Index) {
            files.push("_<shard>.idx");
        }
        if files.is_empty() { Ok(()) } else { writeln!(f, "beside  {}", files.join(", ")) }
    }

    /// Whether all rows are collected before the first is written.
    fn is_sorted(&self) -> bool {
        let WriteOptions { shuffle, splits, partition_by, sharding, .. } = &self.options;
        shuffle.is_some() || splits.is_some() || !partition_by.is_empty() || matches!(sharding, Sharding::Hosts(_))
    }

    fn splits(&self, splits: &Splits) -> String {
        let split = |(name, fraction): (&str, f64)| match self.rows.get_value() {
            Some(rows) => {
                format!("{name} {fraction} (about {})", counted((*rows as f64 * fraction).round() as u64, "row"))
            }
            None => format!("{name} {fraction}"),
        };
        splits.iter().map(split).collect::<Vec<_>>().join(", ")
    }
}

/// Rows with their own shards: all of them, or those of a split.
struct Group<'a> {
    plan: &'a DryRun,
    /// Their approximate fraction of all rows, if it is known.
    fraction: Option<f64>,
    sharding: Sharding,
    prefix: &'a str,
}

impl Group<'_> {
    fn share(&self, of: u64) -> Option<u64> {
        self.fraction.map(|fraction| if fraction == 1.0 { of } else { (of as f64 * fraction).round() as u64 })
    }

    fn shards(&self) -> String {
        // The number of rows in each partition directory is unknown.
        let is_divided = !self.plan.options.partition_by.is_empty();
        let rows = self.plan.rows.get_value().filter(|_| !is_divided).and_then(|rows| self.share(*rows as u64));
        let size = &self.plan.size;
        let least = size.least.filter(|_| !is_divided).and_then(|bytes| self.share(bytes));
        let most = size.most.filter(|_| size.unknown.is_empty() && !is_divided).and_then(|bytes| self.share(bytes));
        match self.sharding {
            Sharding::Count(shards) => match rows {
                Some(rows) => {
                    let each = rows.div_ceil(shards.get() as u64);
                    format!("{}, about {} each", counted(shards.get() as u64, "shard"), counted(each, "row"))
                }
                None => counted(shards.get() as u64, "shard"),
            },
            Sharding::Rows(limit) => {
                let about = rows.map(|rows| rows.div_ceil(limit).max(1));
                format!("{}at most {} each", about_shards(about, about), counted(limit, "row"))
            }
            Sharding::Bytes(limit) => {
                let shards = |bytes: u64| bytes.div_ceil(limit).max(1);
                format!("{}at most {} each", about_shards(least.map(shards), most.map(shards)), bytes(limit))
            }
            Sharding::Hosts(hosts) => {
                let shards = |bytes| match self.sharding.resolve(bytes) {
                    Sharding::Count(shards) => shards.get() as u64,
                    _ => 1,
                };
                let about = about_shards(least.map(shards), most.map(shards));
                let hosts = counted(hosts.get() as u64, "host");
                format!("{about}at most 10 for each of {hosts}, none under 100 MiB")
            }
            _ => String::new(),
        }
    }

    fn first_shard(&self) -> String {
        let WriteOptions { out, partition_by, .. } = &self.plan.options;
        // A conflict was reported when the write was planned.
        let framing = self.plan.options.framing().unwrap_or_default();
        let (prefix, format, compression) = (self.prefix.to_owned(), framing.format(), framing.compression());
        let name = match self.sharding {
            Sharding::Count(total) if partition_by.is_empty() => {
                ShardName { prefix, index: 0, total: total.get(), format, compression }.to_string()
            }
            // In an object store, names are final before the number of shards is known, unless all rows are sorted
            // first.
            _ if out.local().is_none() && !self.plan.is_sorted() => {
                ObjectNames { prefix, total: None, suffix: framing.suffix(), run: None }.name(0, 0)
            }
            _ => format!("{prefix}-00000-of-?????{}", framing.suffix()),
        };
        partition_by.iter().map(|column| format!("{column}=.../")).chain([name]).collect()
    }
}

fn about_shards(least: Option<u64>, most: Option<u64>) -> String {
    match (least, most) {
        (Some(least), Some(most)) if least == most => format!("about {}, ", counted(most, "shard")),
        (Some(least), Some(most)) => format!("{} to {}, ", grouped(least), counted(most, "shard")),
        (Some(least), None) => format!("{} or more, ", counted(least, "shard")),
        _ => String::new(),
    }
}

/// Bounds on the bytes of framed records.
#[derive(Debug, Default, PartialEq)]
struct SizeEstimate {
    /// The minimum, if the number of rows is known.
    least: Option<u64>,
    /// The maximum, if the number of rows is known, without the columns in `unknown`.
    most: Option<u64>,
    /// Whether the number of rows is exact.
    exact_rows: bool,
    /// Columns whose values have no maximum length.
    unknown: Vec<String>,
}

impl SizeEstimate {
    fn of(mapping: &Mapping, statistics: &Statistics) -> Self {
        let rows = statistics.num_rows.get_value().map(|rows| *rows as u64);
        let mut estimate = Self { exact_rows: statistics.num_rows.is_exact().unwrap_or(false), ..Self::default() };
        let record = mapping.byte_bounds();
        let times = |bytes: u64| bytes.saturating_mul(rows.unwrap_or_default());
        let mut sum = ByteBounds { least: times(record.least), most: times(record.most), is_open: false };
        for (i, column) in mapping.columns().iter().enumerate() {
            let bounds = column_bounds(column, statistics.column_statistics.get(i), rows.unwrap_or_default());
            sum = sum + bounds;
            if bounds.is_open {
                estimate.unknown.push(column.column.clone());
            }
        }
        Self { least: rows.map(|_| sum.least), most: rows.map(|_| sum.most), ..estimate }
    }
}

impl fmt::Display for SizeEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.least, self.most) {
            (Some(least), Some(most)) => {
                let about = if self.exact_rows { "" } else { "about " };
                write!(f, "{about}{} to {} of records before compression", bytes(least), bytes(most))?;
            }
            _ => return f.write_str("unknown before the input is read"),
        }
        match self.unknown.as_slice() {
            [] => Ok(()),
            names => write!(f, ", and the values of {}", names.join(", ")),
        }
    }
}

/// Returns bounds on one column's features over all rows.
fn column_bounds(column: &ColumnMapping, statistics: Option<&ColumnStatistics>, rows: u64) -> ByteBounds {
    let nulls = statistics.map_or(Precision::Absent, |statistics| statistics.null_count);
    // Some rules write a value for a null, too.
    let leaves_out =
        matches!(column.nulls, NullRule::Policy(NullPolicy::Absent | NullPolicy::Error | NullPolicy::Drop));
    let present_most = match (column.nullable, nulls) {
        (true, Precision::Exact(nulls)) if leaves_out => rows.saturating_sub(nulls as u64),
        _ => rows,
    };
    let present_least = match (column.nullable, nulls) {
        (false, _) => rows,
        (true, Precision::Exact(nulls)) => rows.saturating_sub(nulls as u64),
        _ => 0,
    };
    let ByteBounds { least, most, is_open } = column.byte_bounds();
    ByteBounds { least: present_least.saturating_mul(least), most: present_most.saturating_mul(most), is_open }
}

#[cfg(test)]
mod tests;
