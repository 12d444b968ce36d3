//! Dates in the format of RFC 3339.

use std::fmt;

/// The last millisecond of the year 9999. Later dates, and dates before 1970, are written as
/// numbers.
pub(super) const LAST_MILLIS: i64 = 253_402_300_799_999;

const DAY_MILLIS: i64 = 86_400_000;

/// Writes a date between 1970 and 9999, with three decimals if its milliseconds are not zero.
pub(super) fn write(out: &mut (impl fmt::Write + ?Sized), millis: i64) -> fmt::Result {
    let (days, in_day) = (millis.div_euclid(DAY_MILLIS), millis.rem_euclid(DAY_MILLIS));
    let (year, month, day) = civil(days);
    let (hour, minute) = (in_day / 3_600_000, in_day / 60_000 % 60);
    let second = in_day / 1000 % 60;
    write!(
        out,
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"
    )?;
    let fraction = in_day % 1000;
    if fraction > 0 {
        write!(out, ".{fraction:03}")?;
    }
    out.write_str("Z")
}

/// Parses a date of the years 0 to 9999. Digits after the milliseconds must be zero. With
/// `any_offset`, the offset can be without colon.
pub(super) fn parse(text: &str, any_offset: bool) -> Option<i64> {
    let mut rest = Rest(text.as_bytes());
    let year = rest.number(4)?;
    rest.literal(b"-")?;
    let month = rest.number(2)?;
    rest.literal(b"-")?;
    let day = rest.number(2)?;
    rest.literal(b"Tt")?;
    let hour = rest.number(2)?;
    rest.literal(b":")?;
    let minute = rest.number(2)?;
    rest.literal(b":")?;
    let second = rest.number(2)?;
    let fraction = rest.fraction()?;
    let offset_minutes = rest.offset(any_offset)?;
    let is_date = (1..=12).contains(&month) && (1..=days_of(year, month)).contains(&day);
    if !is_date || hour > 23 || minute > 59 || second > 59 || !rest.0.is_empty() {
        return None;
    }
    let minutes = hour * 60 + minute - offset_minutes;
    let days = days_since_epoch(year, month, day);
    Some(days * DAY_MILLIS + minutes * 60_000 + second * 1000 + fraction)
}

/// The bytes of a date that were not read yet.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    /// Reads a number with a fixed count of digits.
    fn number(&mut self, digits: usize) -> Option<i64> {
        let (number, rest) = self.0.split_at_checked(digits)?;
        self.0 = rest;
        number.iter().try_fold(0, |sum, byte| {
            let digit = byte.is_ascii_digit().then(|| i64::from(byte - b'0'))?;
            Some(sum * 10 + digit)
        })
    }

    /// Reads one of several characters.
    fn literal(&mut self, choices: &[u8]) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        choices.contains(&byte).then_some(byte)
    }

    /// Reads the milliseconds.
    fn fraction(&mut self) -> Option<i64> {
        let Some(digits) = self.0.strip_prefix(b".") else {
            return Some(0);
        };
        let end = digits.iter().position(|byte| !byte.is_ascii_digit())?;
        let (digits, rest) = digits.split_at(end);
        self.0 = rest;
        let beyond = digits.get(3..).unwrap_or_default();
        if digits.is_empty() || beyond.iter().any(|&digit| digit != b'0') {
            return None;
        }
        let padded = digits.iter().chain(b"00").take(3);
        Some(padded.fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')))
    }

    /// Reads the offset from UTC in minutes.
    fn offset(&mut self, without_colon: bool) -> Option<i64> {
        let sign = match self.literal(b"Zz+-")? {
            b'+' => 1,
            b'-' => -1,
            _ => return Some(0),
        };
        let hours = self.number(2)?;
        if !without_colon || self.0.starts_with(b":") {
            self.literal(b":")?;
        }
        let minutes = self.number(2)?;
        (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes))
    }
}

/// Returns year, month and day in the Gregorian calendar for a number of days since 1970-01-01.
fn civil(days: i64) -> (i64, i64, i64) {
    // Days are counted from March 1 of a year that 400 divides, so that a leap day is the last day
    // of a year.
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = 400 * era + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

/// Returns the number of days from 1970-01-01 to a date.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    // The inverse of `civil`.
    let (year, from_march) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * from_march + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year - 719_468
}

fn days_of(year: i64, month: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(millis: i64) -> String {
        let mut text = String::new();
        write(&mut text, millis).expect("a String accepts all text");
        text
    }

    #[test]
    fn dates_are_written_with_three_decimals_or_none() {
        for (millis, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (951_868_800_000, "2000-03-01T00:00:00Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00Z"),
            (1_735_603_200_120, "2024-12-31T00:00:00.120Z"),
            (LAST_MILLIS, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(written(millis), expected);
            assert_eq!(parse(expected, false), Some(millis));
        }
    }

    #[test]
    fn all_forms_of_rfc_3339_are_read() {
        let expected = Some(1_356_351_330_501);
        for text in [
            "2012-12-24T12:15:30.501Z",
            "2012-12-24t12:15:30.501z",
            "2012-12-24T12:15:30.501000Z",
            "2012-12-24T13:15:30.501+01:00",
            "2012-12-23T22:45:30.501-13:30",
            "2012-12-25T00:14:30.501+11:59",
        ] {
            assert_eq!(parse(text, false), expected, "{text}");
        }
        assert_eq!(parse("2012-12-24T11:15:30.501-0100", true), expected);
        assert_eq!(parse("2012-12-24T11:15:30.501-0100", false), None);
        assert_eq!(parse("1970-01-01T00:00:00.5Z", false), Some(500));
        assert_eq!(parse("1969-12-31T23:59:59.999Z", false), Some(-1));
        assert_eq!(
            parse("0000-01-01T00:00:00Z", false),
            Some(-62_167_219_200_000)
        );
    }

    #[test]
    fn other_texts_are_not_dates() {
        for text in [
            "",
            "2012",
            "2012-12-24",
            "2012-12-24T12:15:30",
            "2012-12-24 12:15:30Z",
            "2012-12-24T12:15Z",
            "2012-12-24T12:15:30.Z",
            "2012-12-24T12:15:30.5015Z",
            "2012-12-24T24:00:00Z",
            "2012-12-24T12:60:00Z",
            "2012-12-24T12:15:60Z",
            "2012-13-24T12:15:30Z",
            "2012-00-24T12:15:30Z",
            "2012-02-30T12:15:30Z",
            "2011-02-29T12:15:30Z",
            "1900-02-29T12:15:30Z",
            "2012-12-24T12:15:30Zx",
            "2012-12-24T12:15:30+24:00",
            "2012-12-24T12:15:30+1:00",
            "2012-12-24T12:15:30+01",
            "+012-12-24T12:15:30Z",
            "12012-12-24T12:15:30Z",
            "2012-12-24T12:15:30.5",
            "2012-12-24T12:15:30\u{e9}",
            "2012-1\u{e9}24T12:15:30Z",
        ] {
            assert_eq!(parse(text, false), None, "{text}");
            assert_eq!(parse(text, true), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn written_dates_are_read(millis in 0..=LAST_MILLIS) {
            proptest::prop_assert_eq!(parse(&written(millis), false), Some(millis));
        }

        #[test]
        fn random_texts_cause_no_panic(text in "[-0-9TZ:.+é]{0,30}") {
            let _ = parse(&text, true);
        }
    }
}
