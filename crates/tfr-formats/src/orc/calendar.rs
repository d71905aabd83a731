//! [`FileCalendar`]: the calendar of a file's dates.

use super::proto::{ColumnStatistics, Footer, Type, calendar_kind, kind, writer};
use super::types::is_spark_ntz;
use crate::calendar::{CalendarOption, Reason, Rule, Watch};

/// The key under which Spark records its version; it always writes the hybrid calendar.
const SPARK_VERSION: &str = "org.apache.spark.version";

/// A day in milliseconds.
const DAY: i64 = 86_400_000;

/// The calendar of the dates and timestamps of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileCalendar {
    Proleptic,
    Hybrid,
    /// Not recorded. The Java library assumes the hybrid calendar (`orc.proleptic.gregorian.default`). That is correct
    /// for files of Hive before version 3.1 and Spark before version 3, but not for those of Hive 3.1.
    Unknown,
}

impl FileCalendar {
    /// Returns the calendar that the file records or that its writer implies.
    pub(super) fn of(footer: &Footer, option: &CalendarOption) -> Self {
        match footer.calendar {
            Some(calendar_kind::JULIAN_GREGORIAN) => return Self::Hybrid,
            Some(calendar_kind::PROLEPTIC_GREGORIAN) => return Self::Proleptic,
            _ => {}
        }
        if footer.metadata.iter().any(|item| item.name == SPARK_VERSION) {
            return Self::Hybrid;
        }
        let proleptic_writers = [writer::CPP, writer::PRESTO, writer::SCRITCHLEY_GO, writer::TRINO, writer::CUDF];
        match option {
            _ if footer.writer.is_some_and(|writer| proleptic_writers.contains(&writer)) => Self::Proleptic,
            CalendarOption::Unknown => Self::Unknown,
            CalendarOption::Proleptic => Self::Proleptic,
            CalendarOption::Hybrid(_) => Self::Hybrid,
        }
    }

    /// Returns how values of a type are read, and which of them are ambiguous. Timestamps are in the writer's local
    /// time, and instants are in UTC.
    pub(super) fn of_type(self, found: &Type, statistics: Option<&ColumnStatistics>) -> (Rule, Watch) {
        let is_dated = matches!(found.kind, kind::DATE | kind::TIMESTAMP | kind::TIMESTAMP_INSTANT);
        match self {
            _ if !is_dated || is_spark_ntz(found) || statistics.is_some_and(is_since_1582) => {
                (Rule::Keep, Watch::Nothing)
            }
            Self::Proleptic => (Rule::Keep, Watch::Nothing),
            Self::Hybrid => (Rule::Local, Watch::Nothing),
            Self::Unknown => (Rule::Local, Watch::Julian(Reason::TakenForHybrid)),
        }
    }
}

/// Whether the bounds of a column show that all values are in the Gregorian calendar.
fn is_since_1582(statistics: &ColumnStatistics) -> bool {
    let start = Watch::Julian(Reason::TakenForHybrid).end() * 1000;
    if let Some(dates) = statistics.dates {
        return dates.minimum.is_some_and(|days| i64::from(days) * DAY >= start);
    }
    let Some(timestamps) = statistics.timestamps else { return false };
    // One day of margin for time zones.
    let minimums = [timestamps.minimum, timestamps.minimum_utc];
    minimums.iter().any(Option::is_some) && minimums.into_iter().flatten().all(|minimum| minimum >= start + DAY)
}
