//! Dates in the forms of AWS, in UTC.

use onionskin_core::time::WallTime;

const SECONDS_PER_DAY: u64 = 86_400;

/// Returns a time as `YYYYMMDDTHHMMSSZ`, the form of the header `X-Amz-Date`.
pub(crate) fn compact(time: WallTime) -> String {
    let [year, month, day, hour, minute, second] = fields(time);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// Returns a time as `YYYY-MM-DDTHH:MM:SSZ`, the form of the field `Expiration`.
pub(crate) fn extended(time: WallTime) -> String {
    let [year, month, day, hour, minute, second] = fields(time);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Parses a time of the form `YYYYMMDDTHHMMSSZ`.
pub(crate) fn parse_compact(text: &str) -> Option<WallTime> {
    let bytes = text.as_bytes();
    if bytes.len() != 16 || bytes[8] != b'T' || bytes[15] != b'Z' {
        return None;
    }
    let number = |from: usize, to: usize| -> Option<u64> {
        let digits = bytes.get(from..to)?;
        digits.iter().try_fold(0, |sum, digit| {
            digit
                .is_ascii_digit()
                .then(|| sum * 10 + u64::from(digit - b'0'))
        })
    };
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    let (hour, minute, second) = (number(9, 11)?, number(11, 13)?, number(13, 15)?);
    let is_valid = year >= 1970
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !is_valid {
        return None;
    }
    let days = days_before(year, month) + day - 1;
    let seconds = days * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second;
    Some(WallTime::from_unix_millis(seconds * 1000))
}

/// Returns year, month, day, hour, minute and second of a time.
fn fields(time: WallTime) -> [u64; 6] {
    let seconds = time.as_unix_millis() / 1000;
    let (mut days, rest) = (seconds / SECONDS_PER_DAY, seconds % SECONDS_PER_DAY);
    // 400 years have 146,097 days.
    let mut year = 1970 + days / 146_097 * 400;
    days %= 146_097;
    while days >= days_of_year(year) {
        days -= days_of_year(year);
        year += 1;
    }
    let mut month = 1;
    while days >= days_of_month(year, month) {
        days -= days_of_month(year, month);
        month += 1;
    }
    [
        year,
        month,
        days + 1,
        rest / 3600,
        rest / 60 % 60,
        rest % 60,
    ]
}

const fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400)
}

const fn days_of_year(year: u64) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

const fn days_of_month(year: u64, month: u64) -> u64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap(year) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Returns the number of days from 1970 to the start of a month.
fn days_before(year: u64, month: u64) -> u64 {
    let years: u64 = (1970..year).map(days_of_year).sum();
    let months: u64 = (1..month).map(|month| days_of_month(year, month)).sum();
    years + months
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_and_parsed() {
        for (seconds, text) in [
            (0, "19700101T000000Z"),
            (1_573_086_367, "20191107T002607Z"),
            (951_782_400, "20000229T000000Z"),
            (4_107_542_399, "21000228T235959Z"),
        ] {
            let time = WallTime::from_unix_millis(seconds * 1000);
            assert_eq!(compact(time), text);
            assert_eq!(parse_compact(text), Some(time));
        }
        let time = WallTime::from_unix_millis(1_573_086_367_000);
        assert_eq!(extended(time), "2019-11-07T00:26:07Z");
        for wrong in [
            "",
            "20191107T002607",
            "2019110700T2607Z",
            "20191307T002607Z",
            "é",
        ] {
            assert_eq!(parse_compact(wrong), None, "{wrong}");
        }
    }
}
