//! Calendars of dates and timestamps before 1582-10-15.
//!
//! Spark before version 3, Hive before version 3.1 and the Java writer of ORC count days in the calendar of
//! `java.util.GregorianCalendar`: Julian until 1582-10-04, Gregorian from 1582-10-15. The day that they store for
//! 0001-01-01 is 0000-12-30 in the proleptic Gregorian calendar of SQL, Arrow and other readers of TFRecord files.
//! Files that record the hybrid calendar are *rebased*: year, month, day and time of day stay the same. The rules are
//! those of Spark's `RebaseDateTime`.

mod days;
mod doubts;
mod rebase;
mod writers;
mod zone;

pub(crate) use days::{GREGORIAN_START, rebased_days};
pub(crate) use doubts::{Reason, Watch, Watched, count, has_doubts, note};
pub(crate) use rebase::{Rule, rebased};
pub(crate) use writers::{Calendar, Calendars, unknown_hive_zone};
pub(crate) use zone::{JavaZone, START_OF_RULES, ZoneRules};

use std::sync::Arc;

use arrow_schema::DataType;
use tfr_arrow::nested::children;

/// Returns the result of `of` for each leaf of a type, in order.
pub(crate) fn leaves<T>(data_type: &DataType, of: impl Fn(&DataType) -> T + Copy) -> Vec<T> {
    match data_type.is_nested() {
        true => children(data_type).into_iter().flat_map(|child| leaves(child, of)).collect(),
        false => vec![of(data_type)],
    }
}

/// The calendar of dates and timestamps in files that do not record it: the option `calendar`.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum CalendarOption {
    /// Ambiguous values are read as by the format's own reader, and reported.
    #[default]
    Unknown,
    /// The proleptic Gregorian calendar: values are read unchanged.
    Proleptic,
    /// The hybrid calendar, with the time zone of the writer.
    Hybrid(WriterZone),
}

/// The time zone of a writer.
#[derive(Debug, Clone)]
pub struct WriterZone {
    name: String,
    zone: Arc<JavaZone>,
}

impl WriterZone {
    /// Parses the name of a zone: `America/Los_Angeles`, `UTC`, `GMT+8`, `-03:00`.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(Self { name: name.to_owned(), zone: Arc::new(JavaZone::new(name)?) })
    }

    pub(crate) fn zone(&self) -> &Arc<JavaZone> {
        &self.zone
    }
}

impl PartialEq for WriterZone {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}
