//! Time zones, and dates as text.

use super::calendar::{self, DAY, Local};
use super::free_dates;
use crate::store::error::StoreError;

type Answer<T> = Result<T, StoreError>;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// A time zone: a fixed offset to UTC in minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Zone {
    minutes: i64,
}

impl Zone {
    pub(super) const UTC: Self = Self { minutes: 0 };

    /// Parses `UTC`, `GMT` or an offset such as `+02`, `+0200` or `+02:00`. The names of regions
    /// are refused, because their offsets change.
    pub(super) fn parse(name: &str) -> Answer<Self> {
        if matches!(name, "UTC" | "GMT" | "Z" | "Etc/UTC" | "Etc/GMT") {
            return Ok(Self::UTC);
        }
        if let Some(zone) = Self::of_offset(name) {
            return Ok(zone);
        }
        let is_region = name.split_once('/').is_some_and(|(area, place)| {
            area.starts_with(|c: char| c.is_ascii_uppercase()) && !place.is_empty()
        });
        let text = format!("unrecognized time zone identifier: \"{name}\"");
        let error = StoreError::new(40485, text);
        Err(match is_region {
            true => error.not_simulated(&format!("the time zone {name}")),
            false => error,
        })
    }

    fn of_offset(text: &str) -> Option<Self> {
        let (sign, rest) = match text.strip_prefix('+') {
            Some(rest) => (1, rest),
            None => (-1, text.strip_prefix('-')?),
        };
        let digits = match rest.split_once(':') {
            Some((hours, minutes)) if hours.len() == 2 && minutes.len() == 2 => {
                format!("{hours}{minutes}")
            }
            Some(_) => return None,
            None => rest.to_owned(),
        };
        if !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let number: i64 = digits.parse().ok()?;
        let minutes = match digits.len() {
            2 => number * 60,
            4 => number / 100 * 60 + number % 100,
            _ => return None,
        };
        Some(Self {
            minutes: sign * minutes,
        })
    }

    /// Returns the zone that is this number of hours before UTC.
    pub(super) const fn of_hours(hours: i64) -> Self {
        Self {
            minutes: hours * 60,
        }
    }

    pub(super) const fn is_offset(self) -> bool {
        self.minutes != 0
    }

    pub(super) const fn to_local(self, millis: i64) -> i64 {
        millis.saturating_add(self.minutes * 60_000)
    }

    pub(super) const fn to_utc(self, millis: i64) -> i64 {
        millis.saturating_sub(self.minutes * 60_000)
    }
}

/// The default format of a date in UTC.
pub(super) const ISO_FORMAT: &str = "%Y-%m-%dT%H:%M:%S.%LZ";

/// Returns a local time in the format of `$dateToString`.
pub(super) fn print(format: &str, local: &Local, zone: Zone) -> Answer<String> {
    let mut text = String::with_capacity(format.len());
    let mut rest = format.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        let part = |name: &str| local.part(name);
        let month = || usize::try_from(part("$month") - 1).unwrap_or(0);
        let printed = match specifier(rest.next())? {
            '%' => "%".to_owned(),
            'Y' | 'G' if !(0..=9999).contains(&part("$year")) => {
                let year = part("$year");
                let text = format!(
                    "$dateToString is only defined on year 0-9999, tried to use year {year}"
                );
                return Err(StoreError::new(18537, text));
            }
            'Y' => format!("{:04}", part("$year")),
            'G' => format!("{:04}", part("$isoWeekYear")),
            'm' => format!("{:02}", part("$month")),
            'd' => format!("{:02}", part("$dayOfMonth")),
            'H' => format!("{:02}", part("$hour")),
            'M' => format!("{:02}", part("$minute")),
            'S' => format!("{:02}", part("$second")),
            'L' => format!("{:03}", part("$millisecond")),
            'j' => format!("{:03}", part("$dayOfYear")),
            'w' => part("$dayOfWeek").to_string(),
            'u' => part("$isoDayOfWeek").to_string(),
            'U' => format!("{:02}", part("$week")),
            'V' => format!("{:02}", part("$isoWeek")),
            'B' => MONTHS[month()].to_owned(),
            'b' => MONTHS[month()][..3].to_owned(),
            'z' => {
                let (sign, minutes) =
                    (if zone.minutes < 0 { '-' } else { '+' }, zone.minutes.abs());
                format!("{sign}{:02}{:02}", minutes / 60, minutes % 60)
            }
            _ => zone.minutes.to_string(),
        };
        text.push_str(&printed);
    }
    Ok(text)
}

/// Returns the character after a `%`, if it is known.
fn specifier(c: Option<char>) -> Answer<char> {
    match c {
        Some(c) if "%YGmdHMSLjwuUVBbzZ".contains(c) => Ok(c),
        Some(c) => {
            let text = format!("Invalid format character '%{c}' in format string");
            Err(StoreError::new(18536, text))
        }
        None => Err(StoreError::new(
            18535,
            "Unmatched '%' at end of format string",
        )),
    }
}

/// The parts of a date that a text names.
#[derive(Default)]
pub(super) struct Read {
    /// The milliseconds since 1970, if the text is such a number instead of a date.
    pub(super) instant: Option<i64>,
    pub(super) year: Option<i64>,
    pub(super) month: Option<i64>,
    pub(super) day: Option<i64>,
    day_of_year: Option<i64>,
    /// The year, the week and the day of the ISO calendar.
    pub(super) iso: [Option<i64>; 3],
    /// The hours, minutes, seconds and milliseconds.
    pub(super) time: [i64; 4],
    pub(super) zone: Option<Zone>,
}

/// Parses the text of a date, by default in the format of ISO 8601. Returns its milliseconds since
/// 1970. `zone` applies to a text without a time zone.
pub(super) fn parse(
    text: &str,
    format: Option<&str>,
    zone: Zone,
    is_zone_given: bool,
) -> Answer<i64> {
    let failed =
        |why: &str| StoreError::new(241, format!("Error parsing date string '{text}'; {why}"));
    let read = match format {
        Some(format) => by_format(text, format)?,
        None => free_dates::read(text),
    };
    let read = read.ok_or_else(|| failed("it has not the expected format"))?;
    if is_zone_given && read.zone.is_some() {
        let text = "you cannot pass in a date/time string with time zone information together \
                    with a timezone argument";
        return Err(failed(text));
    }
    if let Some(instant) = read.instant {
        return Ok(instant);
    }
    let days = read
        .days()
        .ok_or_else(|| failed("the parsed date was invalid"))?;
    let [hour, minute, second, milli] = read.time;
    if hour > 24 || minute > 59 || second > 59 {
        return Err(failed("the parsed time was invalid"));
    }
    let local = days * DAY + ((hour * 60 + minute) * 60 + second) * 1000 + milli;
    Ok(read.zone.unwrap_or(zone).to_utc(local))
}

impl Read {
    fn days(&self) -> Option<i64> {
        if let [Some(year), week, day] = self.iso {
            return Some(calendar::days_of_iso(
                year,
                week.unwrap_or(1),
                day.unwrap_or(1),
            ));
        }
        let year = self.year?;
        if let Some(day) = self.day_of_year {
            return (1..=366)
                .contains(&day)
                .then(|| calendar::days_of_month(year, 1) + day - 1);
        }
        let (month, day) = (self.month?, self.day?);
        let length =
            calendar::days_of_month(year, month + 1) - calendar::days_of_month(year, month);
        let is_valid = (1..=12).contains(&month) && (1..=length).contains(&day);
        is_valid.then(|| calendar::days_of_month(year, month) + day - 1)
    }
}

/// A text of which parts are taken from the front.
pub(super) struct Reader<'a>(pub(super) &'a str);

impl Reader<'_> {
    /// Takes `least` to `most` digits.
    pub(super) fn number(&mut self, least: usize, most: usize) -> Option<i64> {
        let digits = self
            .0
            .bytes()
            .take(most)
            .take_while(u8::is_ascii_digit)
            .count();
        let (digits, rest) = self.0.split_at(digits);
        self.0 = rest;
        (digits.len() >= least).then(|| digits.parse().ok())?
    }

    pub(super) fn take(&mut self, c: char) -> bool {
        let rest = self.0.strip_prefix(c);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// Takes a time zone: `Z` or an offset.
    pub(super) fn zone(&mut self) -> Option<Zone> {
        if self.take('Z') {
            return Some(Zone::UTC);
        }
        let is_part = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | ':');
        let end = self.0.find(|c| !is_part(c)).unwrap_or(self.0.len());
        let (offset, rest) = self.0.split_at(end);
        self.0 = rest;
        Zone::of_offset(offset)
    }

    /// Takes the name of a month, or its first three letters.
    pub(super) fn month(&mut self, is_long: bool) -> Option<i64> {
        let name = |month: &'static str| if is_long { month } else { &month[..3] };
        let starts = |name: &str| {
            let start = self.0.get(..name.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(name))
        };
        let mut months = (1..).zip(MONTHS.map(name));
        let (month, name) = months.find(|(_, name)| starts(name))?;
        self.0 = &self.0[name.len()..];
        Some(month)
    }

    /// Takes up to three digits of a fraction, and skips the others. Returns milliseconds.
    pub(super) fn fraction(&mut self) -> Option<i64> {
        let before = self.0.len();
        let mut millis = self.number(1, 3)?;
        for _ in before - self.0.len()..3 {
            millis *= 10;
        }
        let rest = self.0.trim_start_matches(|c: char| c.is_ascii_digit());
        self.0 = rest;
        Some(millis)
    }
}

fn by_format(text: &str, format: &str) -> Answer<Option<Read>> {
    let mut read = Read::default();
    let mut reader = Reader(text);
    let mut rest = format.chars();
    while let Some(c) = rest.next() {
        let has_read = match c {
            '%' => read_part(specifier(rest.next())?, &mut reader, &mut read).is_some(),
            c => reader.take(c),
        };
        if !has_read {
            return Ok(None);
        }
    }
    Ok(reader.0.is_empty().then_some(read))
}

fn read_part(specifier: char, reader: &mut Reader<'_>, read: &mut Read) -> Option<()> {
    match specifier {
        'Y' => read.year = Some(reader.number(4, 4)?),
        'm' => read.month = Some(reader.number(1, 2)?),
        'd' => read.day = Some(reader.number(1, 2)?),
        'j' => read.day_of_year = Some(reader.number(1, 3)?),
        'G' => read.iso[0] = Some(reader.number(4, 4)?),
        'V' => read.iso[1] = Some(reader.number(1, 2)?),
        'u' => read.iso[2] = Some(reader.number(1, 1)?),
        'H' => read.time[0] = reader.number(1, 2)?,
        'M' => read.time[1] = reader.number(1, 2)?,
        'S' => read.time[2] = reader.number(1, 2)?,
        'L' => read.time[3] = reader.fraction()?,
        'B' | 'b' => {
            read.month = Some(reader.month(specifier == 'B')?);
        }
        'z' => read.zone = Some(reader.zone()?),
        'Z' => {
            let sign = if reader.take('-') { -1 } else { 1 };
            reader.take('+');
            let minutes = sign * reader.number(1, 4)?;
            read.zone = Some(Zone { minutes });
        }
        '%' => return reader.take('%').then_some(()),
        _ => return None,
    }
    Some(())
}
