//! [`Clock`]: timestamps as the clock of their writer showed them.
//!
//! ORC stores a timestamp without zone as the seconds between it and the start of 2015, both by the clock of the writer,
//! whose time zone the stripe names. What the clock showed follows from the zone's rules, and from those that Java has
//! for them, which wrote nearly all such files and defines the format: before 1900 there is but the standard offset
//! of today, and summer time never ends. The library knows neither, nor summers after 2099.

use arrow_array::timezone::Tz;
use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, Offset, TimeZone};

const NANOS: i128 = 1_000_000_000;

/// 1900-01-01, where Java's rules begin (`sun.util.calendar.ZoneInfoFile.UTC1900`).
const START_OF_RULES: i128 = -2_208_988_800;

/// 2100-01-01, where the rules of `chrono-tz` end.
const END_OF_RULES: i128 = 4_102_444_800;

/// After 400 years dates fall on the same days of the week.
const CYCLE: i128 = 146_097 * 86_400;

/// A stored fraction above this tells a negative timestamp that was rounded towards zero (ORC-763).
const MAX_FRACTION_KEPT: i128 = 999_999;

/// The clock of a writer.
#[derive(Debug, Clone)]
pub(super) struct Clock {
    zone: Tz,
    /// In seconds, as all offsets: the one without summer time.
    standard: i128,
    /// At the start of 2015.
    epoch: i128,
}

impl Clock {
    /// The clock of a time zone, by its name.
    pub(super) fn new(zone: &str) -> Option<Self> {
        let name = JAVA_ZONES.iter().find(|(short, _)| *short == zone).map_or(zone, |(_, long)| long);
        // The parser takes offsets for names, too.
        let zone: Tz = Some(name).filter(|name| !name.starts_with(['+', '-']))?.parse().ok()?;
        let midnight = |year, month| NaiveDate::from_ymd_opt(year, month, 1)?.and_hms_opt(0, 0, 0);
        let standard = offset_at(zone, midnight(2099, 1)?).min(offset_at(zone, midnight(2099, 7)?));
        let start = midnight(2015, 1)?;
        let epoch = zone.offset_from_local_datetime(&start).earliest();
        let epoch = epoch.map_or(offset_at(zone, start), |offset| offset.fix().local_minus_utc().into());
        Some(Self { zone, standard, epoch })
    }

    /// What the clock showed, in nanoseconds since 1970, given what the library takes it for that knows of no zone.
    pub(super) fn shown(&self, decoded: i128) -> i128 {
        let (seconds, fraction) = (decoded.div_euclid(NANOS), decoded.rem_euclid(NANOS));
        let was_rounded = fraction > MAX_FRACTION_KEPT;
        // The second that the library took off, or left, by a sign that is not that of the instant.
        let stored = if seconds < 0 && was_rounded { seconds + 1 } else { seconds };
        let instant = stored - self.epoch;
        let instant = if instant < 0 && was_rounded { instant - 1 } else { instant };
        (instant + self.offset(instant)) * NANOS + fraction
    }

    fn offset(&self, instant: i128) -> i128 {
        if instant < START_OF_RULES {
            return self.standard;
        }
        // Far years repeat those after 2100.
        let ahead = instant - END_OF_RULES;
        let instant = if ahead < CYCLE { instant } else { END_OF_RULES + ahead.rem_euclid(CYCLE) };
        let Some(moment) = DateTime::from_timestamp(instant as i64, 0).map(|moment| moment.naive_utc()) else {
            return self.standard;
        };
        let known = if instant < END_OF_RULES { Some(moment) } else { like(moment) };
        known.map_or(self.standard, |moment| offset_at(self.zone, moment))
    }
}

/// The same day of a year within the rules that begins on the same day of the week and is as long.
fn like(moment: NaiveDateTime) -> Option<NaiveDateTime> {
    let shape = |date: NaiveDate| Some((date.with_ordinal(1)?.weekday(), date.leap_year()));
    let wanted = shape(moment.date())?;
    let mut years = (2072..=2099).filter(|year| NaiveDate::from_ymd_opt(*year, 1, 1).and_then(shape) == Some(wanted));
    moment.with_year(years.next()?)
}

fn offset_at(zone: Tz, moment: NaiveDateTime) -> i128 {
    zone.offset_from_utc_datetime(&moment).fix().local_minus_utc().into()
}

/// Names of time zones that Java has and the time zone database has not (`java.time.ZoneId.SHORT_IDS`).
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

    /// What the library decodes of an instant that Java stored by this clock.
    fn decoded(clock: &Clock, seconds: i128, fraction: i128) -> i128 {
        // Java divides towards zero.
        let stored = if seconds < 0 && fraction > MAX_FRACTION_KEPT { seconds + 1 } else { seconds } + clock.epoch;
        let library = if stored < 0 && fraction > MAX_FRACTION_KEPT { stored - 1 } else { stored };
        library * NANOS + fraction
    }

    #[test]
    fn the_clock_of_a_writer_shows() -> Result<(), Box<dyn std::error::Error>> {
        let clock = Clock::new("America/Los_Angeles").ok_or("no such zone")?;
        let hour = 3600;
        for (instant, offset) in [
            (1_600_000_000, -7 * hour),
            (1_420_070_400, -8 * hour),
            (14, -8 * hour),
            (-14, -8 * hour),
            // 1700, when each place had its own time.
            (-8_520_336_000, -8 * hour),
            // July and January of 2150 and of 9999.
            (5_696_006_400, -7 * hour),
            (5_680_368_000, -8 * hour),
            (253_386_662_400, -7 * hour),
            (253_370_764_800, -8 * hour),
        ] {
            for fraction in [0, 7_000, 7_000_000] {
                let shown = clock.shown(decoded(&clock, instant, fraction));
                assert_eq!(shown, (instant + offset) * NANOS + fraction, "{instant}");
            }
        }
        Ok(())
    }

    #[test]
    fn zones_have_names() {
        for name in ["Asia/Shanghai", "PST", "US/Pacific", "EST", "GMT"] {
            assert!(Clock::new(name).is_some(), "{name}");
        }
        for name in ["+08:00", "Mars/Olympus", ""] {
            assert!(Clock::new(name).is_none(), "{name}");
        }
    }
}
