//! The Gregorian calendar, and weeks of ISO 8601.

use crate::store::error::StoreError;

/// The milliseconds of a day.
pub(super) const DAY: i64 = 86_400_000;

/// The number of days from 1970-01-01 to 2000-01-01, from which `$dateTrunc` counts.
const REFERENCE_DAY: i64 = 10_957;

/// A unit of time of `$dateAdd`, `$dateDiff` and `$dateTrunc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// A number of months: 1, 3 or 12.
    Months(i64),
    Week,
    /// A number of milliseconds that is at most a day.
    Millis(i64),
}

impl Unit {
    pub(super) fn parse(name: &str) -> Result<Self, StoreError> {
        Ok(match name {
            "year" => Self::Months(12),
            "quarter" => Self::Months(3),
            "month" => Self::Months(1),
            "week" => Self::Week,
            "day" => Self::Millis(DAY),
            "hour" => Self::Millis(3_600_000),
            "minute" => Self::Millis(60_000),
            "second" => Self::Millis(1000),
            "millisecond" => Self::Millis(1),
            _ => {
                let text = format!("unknown time unit value: {name}");
                return Err(StoreError::failed_to_parse(text));
            }
        })
    }
}

/// Returns the number of a day of the week, from 0 for Sunday.
pub(super) fn day_of_week(name: &str) -> Result<i64, StoreError> {
    const DAYS: [&str; 7] = [
        "sunday",
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
    ];
    let name = name.to_ascii_lowercase();
    let found = (0..)
        .zip(DAYS)
        .find(|(_, day)| *day == name || day[..3] == name);
    found
        .map(|(number, _)| number)
        .ok_or_else(|| StoreError::failed_to_parse(format!("unknown day of week value: {name}")))
}

/// A local time in its parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Local {
    millis: i64,
    days: i64,
    year: i64,
    month: i64,
    day: i64,
}

impl Local {
    /// Returns the parts of a number of milliseconds since 1970 in local time.
    pub(super) fn of(millis: i64) -> Self {
        let days = millis.div_euclid(DAY);
        let (year, month, day) = civil(days);
        Self {
            millis,
            days,
            year,
            month,
            day,
        }
    }

    /// Returns the part that an operator such as `$year` stands for.
    pub(super) fn part(&self, name: &str) -> i64 {
        match name {
            "$year" => self.year,
            "$month" => self.month,
            "$dayOfMonth" => self.day,
            "$dayOfWeek" => (self.days + 4).rem_euclid(7) + 1,
            "$isoDayOfWeek" => self.iso_day(),
            "$dayOfYear" => self.day_of_year(),
            // The first Sunday of a year begins its week 1.
            "$week" => (self.day_of_year() + 6 - (self.days + 4).rem_euclid(7)) / 7,
            "$isoWeek" => self.iso_week().1,
            "$isoWeekYear" => self.iso_week().0,
            "$hour" => self.millis.rem_euclid(DAY) / 3_600_000,
            "$minute" => self.millis.rem_euclid(3_600_000) / 60_000,
            "$second" => self.millis.rem_euclid(60_000) / 1000,
            _ => self.millis.rem_euclid(1000),
        }
    }

    fn day_of_year(&self) -> i64 {
        self.days - days_of_month(self.year, 1) + 1
    }

    /// Returns the number of the day in its week, from 1 for Monday.
    const fn iso_day(&self) -> i64 {
        (self.days + 3).rem_euclid(7) + 1
    }

    /// Returns the year and the number of the week. The year of a week is that of its Thursday.
    fn iso_week(&self) -> (i64, i64) {
        let thursday = self.days - self.iso_day() + 4;
        let (year, ..) = civil(thursday);
        (year, (thursday - days_of_month(year, 1)) / 7 + 1)
    }
}

/// Returns the number of days from 1970-01-01 to the first day of a month. The month can be outside
/// of 1 to 12.
pub(super) const fn days_of_month(year: i64, month: i64) -> i64 {
    // Years begin in March, so that the leap day is the last day of its year.
    let months = year * 12 + month - 3;
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12));
    let day_of_year = (153 * month + 2) / 5;
    let leaps = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leaps + day_of_year - 719_468
}

/// Returns the number of days from 1970-01-01 to a day of a week of ISO 8601.
pub(super) const fn days_of_iso(year: i64, week: i64, day: i64) -> i64 {
    let fourth = days_of_month(year, 1) + 3;
    let monday = fourth - (fourth + 3).rem_euclid(7);
    monday + (week - 1) * 7 + day - 1
}

/// Returns year, month and day for a number of days since 1970-01-01. Takes constant time, because
/// a client can send any date.
const fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    (era * 400 + year_of_era + (month <= 2) as i64, month, day)
}

/// Adds units to a local time. A day that a month does not have becomes the last day of the month.
pub(super) fn add(millis: i64, unit: Unit, amount: i64) -> Option<i64> {
    let months = match unit {
        Unit::Millis(size) => return millis.checked_add(amount.checked_mul(size)?),
        Unit::Week => return millis.checked_add(amount.checked_mul(7 * DAY)?),
        Unit::Months(size) => amount.checked_mul(size)?,
    };
    let local = Local::of(millis);
    let month = local.month.checked_add(months)?;
    // The dates of a server are within these years as well.
    if month.abs() > 12 * 400_000_000 {
        return None;
    }
    let first = days_of_month(local.year, month);
    let last = days_of_month(local.year, month + 1) - 1;
    let day = (first + local.day - 1).min(last);
    day.checked_mul(DAY)?.checked_add(millis.rem_euclid(DAY))
}

/// Returns the number of the bin of `size` units in which a local time is, counted from the year
/// 2000.
pub(super) fn bin(millis: i64, unit: Unit, size: i64, first_day: i64) -> i64 {
    let since = i128::from(millis) - i128::from(reference(unit, first_day));
    let whole = match unit {
        Unit::Millis(length) => since.div_euclid(i128::from(length) * i128::from(size)),
        Unit::Week => since.div_euclid(i128::from(7 * DAY) * i128::from(size)),
        Unit::Months(length) => {
            let local = Local::of(millis);
            let months = (local.year - 2000) * 12 + local.month - 1;
            i128::from(months).div_euclid(i128::from(length) * i128::from(size))
        }
    };
    i64::try_from(whole).unwrap_or(i64::MAX)
}

/// Returns the local time at which a bin starts, or `None` if it is too early for a date.
pub(super) fn start_of(bin: i64, unit: Unit, size: i64, first_day: i64) -> Option<i64> {
    let units = bin.checked_mul(size)?;
    match unit {
        Unit::Months(length) => {
            let months = units.checked_mul(length)?;
            if months.abs() > 12 * 400_000_000 {
                return None;
            }
            days_of_month(2000, months + 1).checked_mul(DAY)
        }
        Unit::Week => units
            .checked_mul(7 * DAY)?
            .checked_add(reference(unit, first_day)),
        Unit::Millis(length) => units.checked_mul(length)?.checked_add(reference(unit, 0)),
    }
}

/// Returns the local time from which bins of a unit are counted.
const fn reference(unit: Unit, first_day: i64) -> i64 {
    let day = match unit {
        // 2000-01-01 was a Saturday.
        Unit::Week => REFERENCE_DAY + (first_day + 1).rem_euclid(7),
        _ => REFERENCE_DAY,
    };
    day * DAY
}
