//! Days of the hybrid calendar.

/// 1582-10-15, the first day of the Gregorian calendar, in days since 1970.
pub(crate) const GREGORIAN_START: i64 = -141_427;

/// Returns the day with the same year, month and day of month in the proleptic Gregorian calendar, both in days since
/// 1970.
///
/// February 29 of a year that is a leap year only in the Julian calendar becomes March 1, as in Spark.
pub(crate) fn rebased_days(days: i64) -> i64 {
    if days >= GREGORIAN_START {
        return days;
    }
    let (year, month, day) = julian(days);
    gregorian_days(year, month) + day - 1
}

/// Days from 0000-03-01 of the Julian calendar to 1970-01-01.
const JULIAN_EPOCH: i64 = 719_470;

/// Days from 0000-03-01 of the proleptic Gregorian calendar to 1970-01-01.
const GREGORIAN_EPOCH: i64 = 719_468;

/// Returns year, month and day in the Julian calendar. Until the last step, years begin in March, so that leap days
/// come last.
fn julian(days: i64) -> (i64, i64, i64) {
    let days = days + JULIAN_EPOCH;
    let (cycle, day_of_cycle) = (days.div_euclid(1461), days.rem_euclid(1461));
    let year_of_cycle = (day_of_cycle / 365).min(3);
    let day_of_year = day_of_cycle - 365 * year_of_cycle;
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let year = 4 * cycle + year_of_cycle;
    match month < 10 {
        true => (year, month + 3, day),
        false => (year + 1, month - 9, day),
    }
}

/// Returns the first day of a month in the proleptic Gregorian calendar.
fn gregorian_days(year: i64, month: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (cycle, year_of_cycle) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * month + 2) / 5;
    cycle * 146_097 + year_of_cycle * 365 + year_of_cycle / 4 - year_of_cycle / 100 + day_of_year - GREGORIAN_EPOCH
}

#[cfg(test)]
mod tests {
    use chrono::{Datelike, NaiveDate};

    use super::*;

    /// The differences in days between the two calendars equal those in Spark's table
    /// (`RebaseDateTime.julianGregDiffs`, from `julianGregDiffSwitchDay` on).
    #[test]
    fn days_differ_as_in_spark() {
        let switches = [
            (-719_164, 2),
            (-682_945, 1),
            (-646_420, 0),
            (-609_895, -1),
            (-536_845, -2),
            (-500_320, -3),
            (-463_795, -4),
            (-390_745, -5),
            (-354_220, -6),
            (-317_695, -7),
            (-244_645, -8),
            (-208_120, -9),
            (-171_595, -10),
            (-141_427, 0),
        ];
        let mut days = -719_164;
        while days < -141_000 {
            let difference = switches.iter().rev().find(|(first, _)| days >= *first).map(|(_, difference)| difference);
            assert_eq!(Some(rebased_days(days) - days), difference.copied(), "{days}");
            days += 1;
        }
    }

    #[test]
    fn years_before_the_first_keep_their_fields() {
        // 0000-02-29 and -0004-12-31 of the Julian calendar.
        for (days, year, month, day) in [(-719_471, 0, 2, 29), (-720_626, -4, 12, 31)] {
            let rebased = i32::try_from(rebased_days(days)).ok().and_then(NaiveDate::from_epoch_days);
            let found = rebased.map(|date| (date.year(), date.month(), date.day()));
            assert_eq!(found, Some((year, month, day)), "{days}");
        }
    }
}
