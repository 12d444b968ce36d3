//! Documents as relaxed extended JSON of limited length.

use crate::bson::MAX_DEPTH;
use base64::{Engine, engine::general_purpose::STANDARD};
use bson::{RawBsonRef, RawDocument, RawDocumentBuf, cstr, raw::RawIter};
use std::fmt::{self, Write};

/// The mark at the end of a text that was cut, and in place of a value that cannot be shown.
const ELLIPSIS: &str = "...";

/// The last millisecond of the year 9999. Later dates, and dates before 1970, are written as
/// numbers.
const LAST_DATE_MILLIS: i64 = 253_402_300_799_999;

/// Returns a document as relaxed extended JSON, cut to `limit` bytes.
///
/// A text longer than `limit` is cut between two characters, and `...` follows. The document is not
/// read beyond the value in which the limit is reached. A value that cannot be read is shown as
/// `...`, and so is a document or array that is nested too deeply.
///
/// ```
/// use onionskin_core::log::extended_json;
///
/// let document = bson::rawdoc! { "n": 1_i64, "when": bson::DateTime::from_millis(0) };
/// let text = extended_json(&document, 1000);
/// assert_eq!(text, r#"{"n":1,"when":{"$date":"1970-01-01T00:00:00Z"}}"#);
/// assert_eq!(extended_json(&document, 6), r#"{"n":1..."#);
/// ```
#[must_use]
pub fn extended_json(document: &RawDocument, limit: usize) -> String {
    let mut json = Json {
        text: String::new(),
        limit,
        is_full: false,
    };
    json.document(document, 1);
    if json.is_full {
        json.text.push_str(ELLIPSIS);
    }
    json.text
}

struct Json {
    text: String,
    limit: usize,
    /// True if a part of the text did not fit. Nothing is written after that.
    is_full: bool,
}

impl Write for Json {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.is_full {
            return Err(fmt::Error);
        }
        let mut end = text.len();
        let room = self.limit - self.text.len();
        if end > room {
            self.is_full = true;
            end = room;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
        }
        self.text.push_str(&text[..end]);
        Ok(())
    }
}

impl Json {
    fn put(&mut self, text: &str) {
        // Text beyond the limit is dropped.
        let _ = self.write_str(text);
    }

    fn format(&mut self, arguments: fmt::Arguments<'_>) {
        let _ = self.write_fmt(arguments);
    }

    fn document(&mut self, document: &RawDocument, depth: usize) {
        self.put("{");
        self.elements(document.iter_elements(), depth, true);
        self.put("}");
    }

    fn elements(&mut self, elements: RawIter<'_>, depth: usize, with_keys: bool) {
        for (number, element) in elements.enumerate() {
            if self.is_full {
                return;
            }
            if number > 0 {
                self.put(",");
            }
            let Ok(element) = element else {
                // Elements after an unreadable one cannot be located.
                return self.unreadable(with_keys);
            };
            if with_keys {
                self.string(element.key().as_str());
                self.put(":");
            }
            match element.value() {
                Ok(value) => self.value(value, depth),
                Err(_) => self.string(ELLIPSIS),
            }
        }
    }

    fn unreadable(&mut self, with_keys: bool) {
        self.string(ELLIPSIS);
        if with_keys {
            self.put(":null");
        }
    }

    fn value(&mut self, value: RawBsonRef<'_>, depth: usize) {
        match value {
            RawBsonRef::Double(number) => self.double(number),
            RawBsonRef::String(text) => self.string(text),
            RawBsonRef::Document(_) | RawBsonRef::Array(_) if depth >= MAX_DEPTH => {
                self.string(ELLIPSIS);
            }
            RawBsonRef::Document(document) => self.document(document, depth + 1),
            RawBsonRef::Array(array) => {
                self.put("[");
                self.elements(array.iter_elements(), depth + 1, false);
                self.put("]");
            }
            RawBsonRef::Boolean(value) => self.put(if value { "true" } else { "false" }),
            RawBsonRef::Null => self.put("null"),
            RawBsonRef::Int32(number) => self.format(format_args!("{number}")),
            RawBsonRef::Int64(number) => self.format(format_args!("{number}")),
            RawBsonRef::Binary(binary) => {
                // Four characters of base64 encode three bytes, so the bytes after these are beyond
                // the limit.
                let shown = (self.limit / 4 + 1)
                    .saturating_mul(3)
                    .min(binary.bytes.len());
                let text = STANDARD.encode(&binary.bytes[..shown]);
                let subtype = u8::from(binary.subtype);
                self.format(format_args!(
                    r#"{{"$binary":{{"base64":"{text}","subType":"{subtype:02x}"}}}}"#
                ));
            }
            RawBsonRef::ObjectId(id) => self.format(format_args!(r#"{{"$oid":"{id}"}}"#)),
            RawBsonRef::DateTime(date) => self.date(date.timestamp_millis()),
            RawBsonRef::RegularExpression(regex) => {
                self.tagged(
                    r#"{"$regularExpression":{"pattern":"#,
                    regex.pattern.as_str(),
                );
                self.tagged(r#","options":"#, regex.options.as_str());
                self.put("}}");
            }
            RawBsonRef::JavaScriptCode(code) => {
                self.tagged(r#"{"$code":"#, code);
                self.put("}");
            }
            RawBsonRef::JavaScriptCodeWithScope(_) if depth >= MAX_DEPTH => self.string(ELLIPSIS),
            RawBsonRef::JavaScriptCodeWithScope(code) => {
                self.tagged(r#"{"$code":"#, code.code);
                self.put(r#","$scope":"#);
                self.document(code.scope, depth + 1);
                self.put("}");
            }
            RawBsonRef::Symbol(name) => {
                self.tagged(r#"{"$symbol":"#, name);
                self.put("}");
            }
            RawBsonRef::Timestamp(at) => self.format(format_args!(
                r#"{{"$timestamp":{{"t":{},"i":{}}}}}"#,
                at.time, at.increment
            )),
            RawBsonRef::Decimal128(number) => {
                self.format(format_args!(r#"{{"$numberDecimal":"{number}"}}"#));
            }
            RawBsonRef::Undefined => self.put(r#"{"$undefined":true}"#),
            RawBsonRef::MinKey => self.put(r#"{"$minKey":1}"#),
            RawBsonRef::MaxKey => self.put(r#"{"$maxKey":1}"#),
            RawBsonRef::DbPointer(_) => self.pointer(value),
        }
    }

    fn tagged(&mut self, before: &str, text: &str) {
        self.put(before);
        self.string(text);
    }

    fn double(&mut self, number: f64) {
        if number.is_finite() {
            // Debug output writes `1.0` and not `1`, so that a reader recognizes a double.
            self.format(format_args!("{number:?}"));
        } else {
            let name = match number {
                _ if number.is_nan() => "NaN",
                _ if number > 0.0 => "Infinity",
                _ => "-Infinity",
            };
            self.format(format_args!(r#"{{"$numberDouble":"{name}"}}"#));
        }
    }

    fn date(&mut self, millis: i64) {
        if !(0..=LAST_DATE_MILLIS).contains(&millis) {
            return self.format(format_args!(r#"{{"$date":{{"$numberLong":"{millis}"}}}}"#));
        }
        let (days, in_day) = (millis / 86_400_000, millis % 86_400_000);
        let (year, month, day) = civil(days);
        let (hour, minute) = (in_day / 3_600_000, in_day / 60_000 % 60);
        let second = in_day / 1000 % 60;
        self.format(format_args!(
            r#"{{"$date":"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"#
        ));
        let fraction = in_day % 1000;
        if fraction > 0 {
            self.format(format_args!(".{fraction:03}"));
        }
        self.put(r#"Z"}"#);
    }

    /// Writes a `DBPointer`. The name and the id are read from the bytes of `value`, because the
    /// `bson` crate gives no access to them.
    fn pointer(&mut self, value: RawBsonRef<'_>) {
        let mut alone = RawDocumentBuf::new();
        alone.append(cstr!(""), value);
        // Skips length, type, empty key and the length of the name; drops the terminator of the
        // document.
        let bytes = alone.as_bytes();
        let parts = bytes.get(10..bytes.len() - 1).and_then(|rest| {
            let (name, id) = rest.split_at_checked(rest.len().checked_sub(12)?)?;
            let name = std::str::from_utf8(name.strip_suffix(&[0])?).ok()?;
            Some((name, bson::oid::ObjectId::from_bytes(id.try_into().ok()?)))
        });
        let Some((name, id)) = parts else {
            return self.string(ELLIPSIS);
        };
        self.tagged(r#"{"$dbPointer":{"$ref":"#, name);
        self.format(format_args!(r#","$id":{{"$oid":"{id}"}}}}}}"#));
    }

    fn string(&mut self, text: &str) {
        self.put("\"");
        let mut plain = 0;
        for (at, byte) in text.bytes().enumerate() {
            // All characters with an escape have one byte, so that slicing after them is valid.
            let escape = match byte {
                b'"' => "\\\"",
                b'\\' => "\\\\",
                b'\n' => "\\n",
                b'\r' => "\\r",
                b'\t' => "\\t",
                0..0x20 | 0x7f => "",
                _ => continue,
            };
            self.put(&text[plain..at]);
            if escape.is_empty() {
                self.format(format_args!("\\u{byte:04x}"));
            } else {
                self.put(escape);
            }
            plain = at + 1;
            if self.is_full {
                return;
            }
        }
        self.put(&text[plain..]);
        self.put("\"");
    }
}

/// Returns year, month and day in the Gregorian calendar for a number of days since 1970-01-01.
fn civil(days: i64) -> (i64, i64, i64) {
    // Days are counted from March 1 of a year that 400 divides, so that a leap day is the last day
    // of a year.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
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

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{DateTime, rawdoc};

    fn whole(document: &RawDocument) -> String {
        extended_json(document, usize::MAX)
    }

    #[test]
    fn dates_are_iso_8601_or_numbers_if_out_of_range() {
        for (millis, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (951_868_800_000, "2000-03-01T00:00:00Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00Z"),
            (1_735_603_200_120, "2024-12-31T00:00:00.120Z"),
            (LAST_DATE_MILLIS, "9999-12-31T23:59:59.999Z"),
        ] {
            let text = whole(&rawdoc! { "d": DateTime::from_millis(millis) });
            assert_eq!(text, format!(r#"{{"d":{{"$date":"{expected}"}}}}"#));
        }
        for millis in [-1, LAST_DATE_MILLIS + 1, i64::MIN, i64::MAX] {
            let text = whole(&rawdoc! { "d": DateTime::from_millis(millis) });
            assert!(
                text.contains(&format!(r#"{{"$numberLong":"{millis}"}}"#)),
                "{text}"
            );
        }
    }

    #[test]
    fn a_long_document_is_cut_between_characters() {
        let document = rawdoc! { "a": "ä\u{1f600}\n", "b": [1, { "c": true }] };
        let text = whole(&document);
        assert_eq!(text, "{\"a\":\"ä\u{1f600}\\n\",\"b\":[1,{\"c\":true}]}");
        for limit in 0..text.len() {
            let cut = extended_json(&document, limit);
            let kept = cut.strip_suffix(ELLIPSIS).expect("it is marked");
            assert!(
                text.starts_with(kept) && kept.len() <= limit,
                "{limit}: {cut}"
            );
            assert!(limit - kept.len() < 6, "{limit}: {cut}");
        }
        assert_eq!(extended_json(&document, text.len()), text);
    }

    #[test]
    fn a_large_document_allocates_only_the_part_that_is_shown() {
        let bytes = vec![7; 1 << 20];
        let subtype = bson::spec::BinarySubtype::Generic;
        let binary = bson::Binary { subtype, bytes };
        let document = rawdoc! { "a": binary, "b": "x".repeat(1 << 20) };
        let text = extended_json(&document, 100);
        assert_eq!(text.len(), 100 + ELLIPSIS.len());
        assert!(text.capacity() < 1000);
    }

    #[test]
    fn deeply_nested_and_malformed_documents_cause_no_panic() {
        // The headers of all levels come first, and then their terminators, so that the test needs
        // no recursion.
        let levels = 100_000;
        let mut bytes = Vec::new();
        for level in 0..levels {
            let length = i32::try_from(5 + 7 * (levels - 1 - level)).expect("small");
            bytes.extend_from_slice(&length.to_le_bytes());
            if level + 1 < levels {
                bytes.extend_from_slice(&[4, 0]);
            }
        }
        bytes.resize(bytes.len() + levels, 0);
        let deep = RawDocumentBuf::from_bytes(bytes).expect("its frame is right");
        let text = whole(&deep);
        assert!(text.len() < 4 * MAX_DEPTH, "{text}");
        assert!(text.contains("[\"...\"]"), "{text}");

        // The string claims to be longer than its document.
        let mut bytes = rawdoc! { "a": 1, "b": "text" }.into_bytes();
        let at = bytes.len() - 10;
        bytes[at] = 0x7f;
        let broken = RawDocumentBuf::from_bytes(bytes).expect("its frame is right");
        assert_eq!(whole(&broken), r#"{"a":1,"...":null}"#);
        let unreadable = RawDocumentBuf::from_bytes(b"\x0d\0\0\0\x02a\0\x01\0\0\0\xff\0".to_vec());
        assert!(unreadable.is_ok_and(|document| whole(&document).len() < 20));
    }

    proptest::proptest! {
        #[test]
        fn random_document_bytes_cause_no_panic(
            elements in proptest::collection::vec(proptest::num::u8::ANY, 0..60),
            kind in 1..=0x13_u8,
            limit in 0..200_usize,
        ) {
            // A type byte and a key come first, so that reading gets past the first byte.
            let body = [&[kind, b'k', 0][..], &elements].concat();
            let length = i32::try_from(body.len() + 5).expect("small").to_le_bytes();
            let bytes = [&length[..], &body, &[0]].concat();
            let document = RawDocumentBuf::from_bytes(bytes).expect("its frame is right");
            let all = whole(&document);
            let cut = extended_json(&document, limit);
            match cut.strip_suffix(ELLIPSIS).filter(|_| all.len() > limit) {
                Some(kept) => proptest::prop_assert!(all.starts_with(kept)),
                None => proptest::prop_assert_eq!(cut, all),
            }
        }
    }
}
