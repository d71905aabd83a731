//! [`Clock`]: timestamps in the local time of their writer.
//!
//! ORC stores a timestamp without zone as the seconds since the start of 2015. Both times are in the writer's time
//! zone, which the stripe names. The local time follows from the rules of the zone as Java has them, since Java wrote
//! nearly all such files and defines the format. Java uses only today's standard offset before 1900, and lets summer
//! time continue forever. The library implements neither, and has no summer time after 2099.

use chrono::NaiveDate;

use crate::calendar::JavaZone;

const NANOS: i128 = 1_000_000_000;

/// A stored fraction above this marks a negative timestamp whose seconds were rounded towards zero (ORC-763).
const MAX_FRACTION_KEPT: i128 = 999_999;

/// The local time of a writer.
#[derive(Debug, Clone)]
pub(super) struct Clock {
    zone: JavaZone,
    /// The offset at the start of 2015, in seconds.
    epoch: i128,
}

impl Clock {
    /// Returns the clock of a named time zone.
    pub(super) fn new(zone: &str) -> Option<Self> {
        let zone = JavaZone::by_name(zone)?;
        let start = NaiveDate::from_ymd_opt(2015, 1, 1)?.and_hms_opt(0, 0, 0)?;
        let epoch = zone.offset_of_local(start).into();
        Some(Self { zone, epoch })
    }

    /// Returns the local time in nanoseconds since 1970, given the library's decoded value, which ignores the zone.
    pub(super) fn shown(&self, decoded: i128) -> i128 {
        let (seconds, fraction) = (decoded.div_euclid(NANOS), decoded.rem_euclid(NANOS));
        let was_rounded = fraction > MAX_FRACTION_KEPT;
        // Undo the second that the library subtracted, or not, by a sign that is not the sign of the instant.
        let stored = if seconds < 0 && was_rounded { seconds + 1 } else { seconds };
        let instant = stored - self.epoch;
        let instant = if instant < 0 && was_rounded { instant - 1 } else { instant };
        let offset = self.zone.offset(i64::try_from(instant).unwrap_or(i64::MIN));
        (instant + i128::from(offset)) * NANOS + fraction
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what the library decodes for an instant that Java stored by this clock.
    fn decoded(clock: &Clock, seconds: i128, fraction: i128) -> i128 {
        // Java divides towards zero.
        let stored = if seconds < 0 && fraction > MAX_FRACTION_KEPT { seconds + 1 } else { seconds } + clock.epoch;
        let library = if stored < 0 && fraction > MAX_FRACTION_KEPT { stored - 1 } else { stored };
        library * NANOS + fraction
    }

    #[test]
    fn orc_clock_applies_the_zone_of_the_writer() -> Result<(), Box<dyn std::error::Error>> {
        let clock = Clock::new("America/Los_Angeles").ok_or("no such zone")?;
        let hour = 3600;
        for (instant, offset) in [
            (1_600_000_000, -7 * hour),
            (1_420_070_400, -8 * hour),
            (14, -8 * hour),
            (-14, -8 * hour),
            // In 1700 each place had its own time.
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
}
