//! [`Calendars`]: the calendars that the writer of a file recorded.

use std::sync::Arc;

use super::{CalendarOption, JavaZone, Reason, Rule, Watch};

/// The key that Spark writes into the metadata of Parquet and Avro files.
const SPARK_VERSION: &str = "org.apache.spark.version";
const SPARK_LEGACY_DATES: &str = "org.apache.spark.legacyDateTime";
const SPARK_LEGACY_INT96: &str = "org.apache.spark.legacyINT96";
const SPARK_ZONE: &str = "org.apache.spark.timeZone";

/// Written by Hive 3.1.3 and later: whether dates are proleptic Gregorian.
const HIVE_PROLEPTIC: &str = "writer.date.proleptic";

/// The calendar of some values of a file.
#[derive(Debug, Clone)]
pub(crate) enum Calendar {
    Proleptic,
    /// With the writer's time zone, if known.
    Hybrid(Option<Arc<JavaZone>>),
    Unknown,
}

impl Calendar {
    /// Returns the calendar for files that do not record one.
    pub(crate) fn of(option: &CalendarOption) -> Self {
        match option {
            CalendarOption::Unknown => Self::Unknown,
            CalendarOption::Proleptic => Self::Proleptic,
            CalendarOption::Hybrid(zone) => Self::Hybrid(Some(Arc::clone(zone.zone()))),
        }
    }

    /// Returns the rule for dates and timestamps without time zone, and which of them are ambiguous.
    pub(crate) fn of_local(&self) -> (Rule, Watch) {
        match self {
            Self::Proleptic => (Rule::Keep, Watch::Nothing),
            Self::Hybrid(_) => (Rule::Local, Watch::Nothing),
            Self::Unknown => (Rule::Keep, Watch::Julian(Reason::NoCalendar)),
        }
    }

    /// Returns the rule for instants, and which of them are ambiguous.
    pub(crate) fn of_instants(&self) -> (Rule, Watch) {
        match self {
            Self::Proleptic => (Rule::Keep, Watch::Nothing),
            Self::Hybrid(Some(zone)) => (Rule::Instant(Arc::clone(zone)), Watch::Nothing),
            // Read as written in UTC.
            Self::Hybrid(None) => (Rule::Local, Watch::Instants(Reason::NoZone)),
            Self::Unknown => (Rule::Keep, Watch::Instants(Reason::NoCalendar)),
        }
    }
}

/// The calendars of a file's values.
#[derive(Debug, Clone)]
pub(crate) struct Calendars {
    pub(crate) dates: Calendar,
    pub(crate) instants: Calendar,
    pub(crate) int96: Calendar,
    /// For timestamps without time zone.
    pub(crate) locals: Calendar,
}

impl Calendars {
    /// Returns the calendars that a file's metadata keys specify, or else `default`.
    ///
    /// Spark's keys are interpreted as by Spark (`DataSourceUtils.datetimeRebaseSpec`). It wrote the hybrid calendar
    /// before version 3, and for INT96 before version 3.1. Later versions leave a key if that is requested. Spark never
    /// rebases timestamps without time zone.
    pub(crate) fn of_keys<'a>(
        value: impl Fn(&str) -> Option<&'a str>,
        default: Calendar,
        option: &CalendarOption,
    ) -> Self {
        if let Some(version) = value(SPARK_VERSION) {
            let given = match option {
                CalendarOption::Hybrid(zone) => Some(Arc::clone(zone.zone())),
                _ => None,
            };
            let zone = value(SPARK_ZONE).and_then(JavaZone::new).map(Arc::new).or(given);
            let calendar = |since: (u32, u32), key: &str| match is_before(version, since) || value(key).is_some() {
                true => Calendar::Hybrid(zone.clone()),
                false => Calendar::Proleptic,
            };
            let dates = calendar((3, 0), SPARK_LEGACY_DATES);
            let int96 = calendar((3, 1), SPARK_LEGACY_INT96);
            return Self { instants: dates.clone(), dates, int96, locals: Calendar::Proleptic };
        }
        let dates = match value(HIVE_PROLEPTIC) {
            Some(text) if text.eq_ignore_ascii_case("true") => Calendar::Proleptic,
            Some(_) => Calendar::Hybrid(None),
            None => default.clone(),
        };
        Self { dates, instants: default.clone(), int96: default.clone(), locals: default }
    }
}

/// Whether a Spark version is earlier than this one.
fn is_before(version: &str, (major, minor): (u32, u32)) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or_default());
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default()) < (major, minor)
}
