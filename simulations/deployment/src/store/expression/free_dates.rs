//! The texts of dates that are parsed without a format: those of ISO 8601, and some that people
//! write.

use super::format::{Read, Reader, Zone};

/// Reads a date, or returns `None` if the text has none of the known forms.
pub(super) fn read(text: &str) -> Option<Read> {
    let mut reader = Reader(text.trim());
    let mut read = Read::default();
    if reader.take('@') {
        read.instant = Some(instant(&mut reader)?);
        return reader.0.is_empty().then_some(read);
    }
    if reader.0.starts_with(|c: char| c.is_ascii_alphabetic()) {
        read.month = Some(month(&mut reader)?);
        read.day = Some(after_separators(&mut reader).number(1, 2)?);
        read.year = Some(after_separators(&mut reader).number(4, 4)?);
    } else {
        date(&mut reader, &mut read)?;
    }
    time(&mut reader, &mut read)?;
    reader.0.is_empty().then_some(read)
}

/// Reads seconds since 1970, with a fraction. Returns milliseconds.
fn instant(reader: &mut Reader<'_>) -> Option<i64> {
    let sign = if reader.take('-') { -1 } else { 1 };
    let seconds = reader.number(1, 15)?;
    let millis = match reader.take('.') {
        true => reader.fraction()?,
        false => 0,
    };
    Some(sign * (seconds * 1000 + millis))
}

/// Reads the long or the short name of a month.
fn month(reader: &mut Reader<'_>) -> Option<i64> {
    reader.month(true).or_else(|| reader.month(false))
}

/// Skips the spaces and the comma between the parts of a date with the name of a month.
fn after_separators<'a, 'b>(reader: &'a mut Reader<'b>) -> &'a mut Reader<'b> {
    reader.0 = reader.0.trim_start_matches([' ', ',', '-', '.']);
    reader
}

/// Reads a date that starts with digits.
fn date(reader: &mut Reader<'_>, read: &mut Read) -> Option<()> {
    let digits = reader.0.bytes().take_while(u8::is_ascii_digit).count();
    if digits < 3 {
        let first = reader.number(1, 2)?;
        if reader.take('/') {
            // A day in front of the month is refused, because it is no month.
            (read.month, read.day) = (Some(first), Some(reader.number(1, 2)?));
            read.year = Some(reader.take('/').then(|| reader.number(4, 4))??);
        } else {
            (read.day, read.month) = (Some(first), Some(month(after_separators(reader))?));
            read.year = Some(after_separators(reader).number(4, 4)?);
        }
        return Some(());
    }
    let year = reader.number(4, 4)?;
    if reader.take('/') {
        (read.year, read.month) = (Some(year), Some(reader.number(1, 2)?));
        read.day = Some(reader.take('/').then(|| reader.number(1, 2))??);
        return Some(());
    }
    let has_dash = reader.take('-');
    if reader.take('W') {
        let week = reader.number(2, 2)?;
        let has_day = reader.take('-') || reader.0.starts_with(|c: char| c.is_ascii_digit());
        let day = if has_day { reader.number(1, 1)? } else { 1 };
        let is_valid = (1..=53).contains(&week) && (1..=7).contains(&day);
        read.iso = [Some(year), Some(week), Some(day)];
        return is_valid.then_some(());
    }
    read.year = Some(year);
    if has_dash {
        read.month = Some(reader.number(1, 2)?);
        read.day = Some(1);
        if reader.take('-') {
            read.day = Some(reader.number(1, 2)?);
        }
    } else {
        (read.month, read.day) = (Some(reader.number(2, 2)?), Some(reader.number(2, 2)?));
    }
    Some(())
}

/// Reads the time and the time zone after a date, if there are any.
fn time(reader: &mut Reader<'_>, read: &mut Read) -> Option<()> {
    let before = reader.0;
    let is_separated = reader.take('T') || reader.take('t') || reader.take(' ');
    reader.0 = reader.0.trim_start_matches(' ');
    if is_separated && reader.0.starts_with(|c: char| c.is_ascii_digit()) {
        read.time[0] = reader.number(1, 2)?;
        let has_colons = reader.take(':');
        if has_colons || reader.0.starts_with(|c: char| c.is_ascii_digit()) {
            read.time[1] = reader.number(2, 2)?;
            if reader.take(':') || reader.0.starts_with(|c: char| c.is_ascii_digit()) {
                read.time[2] = reader.number(2, 2)?;
            }
            if reader.take('.') {
                read.time[3] = reader.fraction()?;
            }
        }
    } else {
        // A `T` without a time behind it is the letter of a time zone.
        reader.0 = before;
    }
    reader.0 = reader.0.trim_start_matches(' ');
    if !reader.0.is_empty() {
        read.zone = Some(zone(reader)?);
    }
    Some(())
}

/// Takes a time zone: an offset, `UTC`, `GMT`, or the letter of a military time zone.
fn zone(reader: &mut Reader<'_>) -> Option<Zone> {
    if reader.0.starts_with(['+', '-']) {
        return reader.zone();
    }
    if matches!(reader.0, "UTC" | "GMT") {
        reader.0 = "";
        return Some(Zone::UTC);
    }
    let mut letters = reader.0.chars();
    let letter = letters.next()?.to_ascii_uppercase();
    reader.0 = letters.as_str();
    let place = i64::from(u32::from(letter)) - i64::from(u32::from('A'));
    Some(Zone::of_hours(match letter {
        'A'..='I' => place + 1,
        'K'..='M' => place,
        'N'..='Y' => 12 - place,
        'Z' => 0,
        _ => return None,
    }))
}
