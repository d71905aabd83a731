//! [`Calendars`]: the calendars that the writer of a file recorded.

use std::sync::Arc;

use super::{CalendarOption, JavaZone, Reason, Rule, Watch, ZoneRules};

/// The key that Spark writes into the metadata of Parquet and Avro files.
const SPARK_VERSION: &str = "org.apache.spark.version";
const SPARK_LEGACY_DATES: &str = "org.apache.spark.legacyDateTime";
const SPARK_LEGACY_INT96: &str = "org.apache.spark.legacyINT96";
const SPARK_ZONE: &str = "org.apache.spark.timeZone";

/// Written by Hive 3.1.3 and later into Parquet files: whether dates are proleptic Gregorian.
const HIVE_PARQUET_PROLEPTIC: &str = "writer.date.proleptic";
/// Written by Hive 3.1.3 and later into Avro files: whether dates and timestamps are proleptic Gregorian.
const HIVE_AVRO_PROLEPTIC: &str = "writer.proleptic";
/// Written by Hive into files of both formats: its time zone.
const HIVE_ZONE: &str = "writer.time.zone";
/// Whether Hive converted timestamps between time zones by `java.util.TimeZone`, not by `java.time`.
const HIVE_LEGACY_ZONE: &str = "writer.zone.conversion.legacy";

/// The calendar of some values of a file.
#[derive(Debug, Clone)]
pub(crate) enum Calendar {
    Proleptic,
    /// With the writer's time zone, if known.
    Hybrid(Option<Arc<JavaZone>>),
    /// Instants of the hybrid calendar that stand for the local time in the writer's zone: INT96 of Hive.
    LocalOf(Arc<JavaZone>, ZoneRules),
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
            Self::Hybrid(_) | Self::LocalOf(..) => (Rule::Local, Watch::Nothing),
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
            Self::LocalOf(zone, rules) => (Rule::LocalOf(Arc::clone(zone), *rules), Watch::Nothing),
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
    /// Returns the calendars that the metadata keys of a Parquet file specify, or else `default`.
    pub(crate) fn of_parquet<'a>(
        value: impl Fn(&str) -> Option<&'a str>,
        default: Calendar,
        option: &CalendarOption,
    ) -> Self {
        if let Some(calendars) = Self::of_spark(&value, option) {
            return calendars;
        }
        let (proleptic, zone) = (value(HIVE_PARQUET_PROLEPTIC), value(HIVE_ZONE));
        let dates = match proleptic.map(is_true) {
            Some(true) => Calendar::Proleptic,
            Some(false) => Calendar::Hybrid(None),
            None => default.clone(),
        };
        let int96 = match zone.and_then(JavaZone::new) {
            Some(zone) => Calendar::LocalOf(Arc::new(zone), zone_rules(&value)),
            None => default.clone(),
        };
        // Hive never rebases the timestamps that it writes as INT64.
        let is_hive = proleptic.or(zone).is_some();
        let locals = if is_hive { Calendar::Proleptic } else { default.clone() };
        Self { dates, instants: default, int96, locals }
    }

    /// Returns the calendars that the metadata keys of an Avro file specify, or else the option.
    ///
    /// Spark before version 2.4.6 and Hive before version 3.1.3 wrote the hybrid calendar without a key, but never
    /// timestamps without time zone.
    pub(crate) fn of_avro<'a>(value: impl Fn(&str) -> Option<&'a str>, option: &CalendarOption) -> Self {
        if let Some(calendars) = Self::of_spark(&value, option) {
            return calendars;
        }
        let given = Calendar::of(option);
        let locals = match given {
            Calendar::Unknown => Calendar::Proleptic,
            _ => given.clone(),
        };
        let (dates, instants) = match value(HIVE_AVRO_PROLEPTIC).map(is_true) {
            Some(true) => (Calendar::Proleptic, Calendar::Proleptic),
            Some(false) => {
                let zone = match zone_rules(&value) {
                    ZoneRules::JavaUtil => value(HIVE_ZONE),
                    // Only the calendar of these instants differs.
                    ZoneRules::JavaTime => Some("UTC"),
                };
                (Calendar::Hybrid(None), Calendar::Hybrid(zone.and_then(JavaZone::new).map(Arc::new)))
            }
            None => (given.clone(), given.clone()),
        };
        Self { dates, instants, int96: given, locals }
    }

    /// Returns the calendars of a file with keys of Spark, interpreted as by Spark
    /// (`DataSourceUtils.datetimeRebaseSpec`).
    ///
    /// It wrote the hybrid calendar before version 3, and for INT96 before version 3.1. Later versions leave a key if
    /// that is requested. Spark never rebases timestamps without time zone.
    fn of_spark<'a>(value: &impl Fn(&str) -> Option<&'a str>, option: &CalendarOption) -> Option<Self> {
        let version = value(SPARK_VERSION)?;
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
        Some(Self { instants: dates.clone(), dates, int96, locals: Calendar::Proleptic })
    }
}

/// Returns the time zone that a file of Hive records, if its name is unknown.
pub(crate) fn unknown_hive_zone<'a>(value: impl Fn(&str) -> Option<&'a str>) -> Option<&'a str> {
    value(HIVE_ZONE).filter(|zone| value(SPARK_VERSION).is_none() && JavaZone::new(zone).is_none())
}

/// Returns the rules by which Hive converted timestamps between time zones. Files without the key are by those of
/// `java.time`, as Hive infers from their time zone (`DataWritableReadSupport.getZoneConversionLegacy`).
fn zone_rules<'a>(value: &impl Fn(&str) -> Option<&'a str>) -> ZoneRules {
    match value(HIVE_LEGACY_ZONE).is_some_and(is_true) {
        true => ZoneRules::JavaUtil,
        false => ZoneRules::JavaTime,
    }
}

/// Parses a truth value like Java.
fn is_true(text: &str) -> bool {
    text.eq_ignore_ascii_case("true")
}

/// Whether a Spark version is earlier than this one.
fn is_before(version: &str, (major, minor): (u32, u32)) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or_default());
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default()) < (major, minor)
}
