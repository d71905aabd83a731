//! [`JavaZone`]: a time zone with Java's two sets of rules.
//!
//! Old writers use `java.util.TimeZone`. It has only today's standard offset before 1900, and lets summer time continue
//! forever. `java.time` also has the earlier local mean times, as in the time zone database.

use arrow_array::timezone::Tz;
use chrono::{DateTime, Datelike, LocalResult, NaiveDate, NaiveDateTime, Offset, TimeDelta, TimeZone};

use super::rebase::rebased_seconds;

/// 1900-01-01, from which the rules of `java.util.TimeZone` apply (`sun.util.calendar.ZoneInfoFile.UTC1900`).
pub(crate) const START_OF_RULES: i64 = -2_208_988_800;

/// 2100-01-01, where the rules of `chrono-tz` end.
const END_OF_RULES: i64 = 4_102_444_800;

/// Seconds in a day.
const DAY: i64 = 86_400;

/// Seconds in 400 years, after which dates fall on the same days of the week.
const CYCLE: i64 = 146_097 * DAY;

/// One of Java's two sets of rules for a time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ZoneRules {
    /// Those of `java.time`, with local mean times.
    JavaTime,
    /// Those of `java.util.TimeZone`, with today's standard offset before 1900. Its dates have the hybrid calendar.
    JavaUtil,
}

/// A time zone of Java.
#[derive(Debug, Clone)]
pub(crate) struct JavaZone {
    zone: Tz,
    /// The offset without summer time, in seconds like all offsets.
    standard: i64,
}

impl JavaZone {
    /// Returns the zone for a name that Java knows, or for an offset: `+08:00`, `GMT+8`, `UTC-03:30`.
    pub(crate) fn new(name: &str) -> Option<Self> {
        let zone: Tz = match name {
            "Z" => "UTC".parse().ok()?,
            _ => match ["GMT", "UTC", "UT", ""].iter().find_map(|prefix| offset_of(name.strip_prefix(prefix)?)) {
                Some(offset) => offset.parse().ok()?,
                None => Self::by_name(name)?.zone,
            },
        };
        Self::of(zone)
    }

    /// Returns the zone for a name, but not for an offset.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        let name = JAVA_ZONES.iter().find(|(short, _)| *short == name).map_or(name, |(_, long)| long);
        // The parser also accepts offsets as names.
        let zone = Some(name).filter(|name| !name.starts_with(['+', '-']))?.parse().ok()?;
        Self::of(zone)
    }

    fn of(zone: Tz) -> Option<Self> {
        let midnight = |month| NaiveDate::from_ymd_opt(2099, month, 1)?.and_hms_opt(0, 0, 0);
        let standard = offset_at(zone, midnight(1)?).min(offset_at(zone, midnight(7)?));
        Some(Self { zone, standard })
    }

    /// Returns the offset of `java.util.TimeZone` at an instant.
    pub(crate) fn offset(&self, instant: i64) -> i64 {
        if instant < START_OF_RULES {
            return self.standard;
        }
        // Distant years repeat those after 2100.
        let ahead = instant.saturating_sub(END_OF_RULES);
        let instant = if ahead < CYCLE { instant } else { END_OF_RULES + ahead.rem_euclid(CYCLE) };
        let Some(moment) = DateTime::from_timestamp(instant, 0).map(|moment| moment.naive_utc()) else {
            return self.standard;
        };
        let known = if instant < END_OF_RULES { Some(moment) } else { like(moment) };
        known.map_or(self.standard, |moment| offset_at(self.zone, moment))
    }

    /// Returns the offset of `java.util.TimeZone` for a local time; the earlier one if the time occurs twice.
    pub(crate) fn offset_of_local(&self, local: NaiveDateTime) -> i64 {
        let offset = self.zone.offset_from_local_datetime(&local).earliest();
        offset.map_or_else(|| offset_at(self.zone, local), |offset| offset.fix().local_minus_utc().into())
    }

    /// Converts an instant of the hybrid calendar to the local date and time of the proleptic Gregorian calendar, in
    /// seconds since 1970, as Hive does (`NanoTimeUtils.getTimestamp`); `None` if out of range. By the older rules, a
    /// February 29 that only the Julian calendar has becomes February 28.
    pub(crate) fn local(&self, instant: i64, rules: ZoneRules) -> Option<i64> {
        match rules {
            ZoneRules::JavaUtil => {
                let local = instant.checked_add(self.offset(instant))?;
                let is_same_day_as_next = rebased_seconds(local)? == rebased_seconds(local.checked_add(DAY)?)?;
                rebased_seconds(if is_same_day_as_next { local - DAY } else { local })
            }
            ZoneRules::JavaTime => {
                let instant = rebased_seconds(instant)?;
                let mean = DateTime::from_timestamp(instant, 0).filter(|_| instant < START_OF_RULES);
                let offset = mean.map_or_else(|| self.offset(instant), |mean| offset_at(self.zone, mean.naive_utc()));
                instant.checked_add(offset)
            }
        }
    }

    /// Converts an instant of the hybrid calendar to the one with the same local date and time; `None` if out of range.
    ///
    /// Local times are those of `java.util.TimeZone` in the hybrid calendar, and of `java.time` in the other. So
    /// instants before 1900 also differ by the local mean time. Later ones do not change.
    pub(crate) fn rebased(&self, instant: i64) -> Option<i64> {
        if instant >= START_OF_RULES {
            return Some(instant);
        }
        let local = rebased_seconds(instant.checked_add(self.standard)?)?;
        // Before the year 1, no zone has rules.
        let shown = DateTime::from_timestamp(local, 0).map(|shown| shown.naive_utc()).filter(|shown| shown.year() > 0);
        let shown = shown.or_else(|| NaiveDate::from_ymd_opt(1, 1, 1)?.and_hms_opt(0, 0, 0))?;
        let offset = match self.zone.offset_from_local_datetime(&shown) {
            LocalResult::Single(offset) => offset.fix().local_minus_utc(),
            // Summer time was not in effect, so the later instant is meant.
            LocalResult::Ambiguous(_, later) => later.fix().local_minus_utc(),
            // A time in a gap moves by the gap's length: use the offset before it.
            LocalResult::None => {
                let before = shown.checked_sub_signed(TimeDelta::days(1))?;
                self.zone.offset_from_local_datetime(&before).earliest()?.fix().local_minus_utc()
            }
        };
        local.checked_sub(offset.into())
    }
}

/// Converts an offset in one of Java's forms (`+8`, `+08`, `+0800`, `+8:00`) to the form of the parser, `+08:00`.
fn offset_of(text: &str) -> Option<String> {
    let (sign, digits) = (text.get(..1)?, text.get(1..)?);
    if !matches!(sign, "+" | "-") || !digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b':') {
        return None;
    }
    let (hours, minutes) = match digits.split_once(':') {
        Some((hours, minutes)) => (hours, minutes.get(..2)?),
        None if digits.len() == 4 => digits.split_at(2),
        None => (digits, "00"),
    };
    (1..=2).contains(&hours.len()).then(|| format!("{sign}{hours:0>2}:{minutes}"))
}

/// Returns the same day in a year covered by the rules that begins on the same weekday and has the same length.
fn like(moment: NaiveDateTime) -> Option<NaiveDateTime> {
    let shape = |date: NaiveDate| Some((date.with_ordinal(1)?.weekday(), date.leap_year()));
    let wanted = shape(moment.date())?;
    let mut years = (2072..=2099).filter(|year| NaiveDate::from_ymd_opt(*year, 1, 1).and_then(shape) == Some(wanted));
    moment.with_year(years.next()?)
}

fn offset_at(zone: Tz, moment: NaiveDateTime) -> i64 {
    zone.offset_from_utc_datetime(&moment).fix().local_minus_utc().into()
}

/// Zone names that Java has but the time zone database lacks (`java.time.ZoneId.SHORT_IDS`).
const JAVA_ZONES: &[(&str, &str)] = &[
    ("ACT", "Australia/Darwin"),
    ("AET", "Australia/Sydney"),
    ("AGT", "America/Argentina/Buenos_Aires"),
    ("ART", "Africa/Cairo"),
    ("AST", "America/Anchorage"),
    ("BET", "America/Sao_Paulo"),
    ("BST", "Asia/Dhaka"),
    ("CAT", "Africa/Harare"),
    ("CNT", "America/St_Johns"),
    ("CST", "America/Chicago"),
    ("CTT", "Asia/Shanghai"),
    ("EAT", "Africa/Addis_Ababa"),
    ("ECT", "Europe/Paris"),
    ("IET", "America/Indiana/Indianapolis"),
    ("IST", "Asia/Kolkata"),
    ("JST", "Asia/Tokyo"),
    ("MIT", "Pacific/Apia"),
    ("NET", "Asia/Yerevan"),
    ("NST", "Pacific/Auckland"),
    ("PLT", "Asia/Karachi"),
    ("PNT", "America/Phoenix"),
    ("PRT", "America/Puerto_Rico"),
    ("PST", "America/Los_Angeles"),
    ("SST", "Pacific/Guadalcanal"),
    ("VST", "Asia/Ho_Chi_Minh"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn java_zone_is_found_by_name_or_offset() {
        for name in ["Asia/Shanghai", "PST", "US/Pacific", "EST", "GMT"] {
            assert!(JavaZone::by_name(name).is_some(), "{name}");
        }
        for name in ["+08:00", "Mars/Olympus", ""] {
            assert!(JavaZone::by_name(name).is_none(), "{name}");
        }
        for (name, hours) in [("+08:00", 8), ("GMT+8", 8), ("UTC-03:00", -3), ("-0500", -5), ("Z", 0), ("UTC", 0)] {
            assert_eq!(JavaZone::new(name).map(|zone| zone.standard), Some(hours * 3600), "{name}");
        }
        assert!(JavaZone::new("GMT+x").is_none());
    }
}
