//! Lookup of several fields of a reply in one pass over a bounded number of fields. One lookup per
//! key would read the same fields of an untrusted reply several times.

use super::Error;
use bson::{RawBsonRef, RawDocument};

/// The maximum number of fields of a reply that [`pick`] and the parser of `hello` replies read.
pub(crate) const MAX_FIELDS: usize = 128;

/// Returns the values of these keys among the first [`MAX_FIELDS`] fields of a document.
///
/// If a key occurs twice, the first value is returned. A value that cannot be read counts as
/// absent. Reading ends at the first element that is not valid BSON.
pub(crate) fn pick<'a, const N: usize>(
    document: &'a RawDocument,
    keys: [&str; N],
) -> [Option<RawBsonRef<'a>>; N] {
    let mut found = [None; N];
    let fields = onionskin_bson::fields(document).map_while(Result::ok);
    for field in fields.take(MAX_FIELDS) {
        let name = field.name_bytes();
        if let Some(at) = keys.iter().position(|wanted| wanted.as_bytes() == name)
            && found[at].is_none()
        {
            found[at] = field.value().ok();
        }
    }
    found
}

/// Returns an integer that a server sent as int32, int64 or double. Returns `None` for other types,
/// for a fraction, and for a double of 9e15 or more in absolute value.
pub(crate) fn integer(value: RawBsonRef<'_>) -> Option<i64> {
    if let Some(n) = value.as_i32() {
        return Some(n.into());
    }
    if let Some(n) = value.as_i64() {
        return Some(n);
    }
    let n = value.as_f64()?;
    (n.fract() == 0.0 && n.abs() < 9e15).then_some(n as i64)
}

/// Returns the counts in the reply to a write, such as `n`. An absent count is zero. If a key
/// occurs twice, the first value counts.
///
/// Fails if a count is no integer or is negative. As a zero, it would tell the application that a
/// write has changed nothing.
pub(crate) fn counts<const K: usize>(
    reply: &RawDocument,
    keys: [&str; K],
) -> Result<[u64; K], Error> {
    let mut found = [None; K];
    for field in onionskin_bson::fields(reply) {
        let field = field.map_err(|_| Error::protocol("the counts of the reply are not BSON"))?;
        let name = field.name_bytes();
        if let Some(at) = keys.iter().position(|key| key.as_bytes() == name)
            && found[at].is_none()
        {
            let count = field.value().ok().and_then(integer);
            let count = count.and_then(|count| u64::try_from(count).ok());
            let invalid = || Error::protocol(format!("the reply has no count in `{}`", keys[at]));
            found[at] = Some(count.ok_or_else(invalid)?);
        }
    }
    Ok(found.map(Option::unwrap_or_default))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{RawBson, RawDocumentBuf, cstr, rawdoc};

    #[test]
    fn a_count_is_absent_or_an_integer_that_is_not_negative() {
        let read = |document: &RawDocument| counts(document, ["n", "nModified"]);
        assert_eq!(read(&rawdoc! { "ok": 1 }), Ok([0, 0]));
        let large = i64::from(i32::MAX) + 1;
        for number in [RawBson::Int64(large), RawBson::Double(large as f64)] {
            let reply = rawdoc! { "nModified": 2, "n": number };
            assert_eq!(read(&reply), Ok([large.unsigned_abs(), 2]));
        }
        for wrong in [
            RawBson::Int32(-1),
            RawBson::Double(0.5),
            RawBson::Double(f64::NAN),
            RawBson::String("2".to_owned()),
            RawBson::Boolean(true),
            RawBson::Null,
        ] {
            let reply = rawdoc! { "n": 1, "nModified": wrong.clone() };
            let error = read(&reply).expect_err("it is no count").to_string();
            assert!(error.contains("nModified"), "{wrong:?}: {error}");
        }
    }

    #[test]
    fn fields_are_found_in_any_order_and_the_first_duplicate_is_used() {
        let mut document = rawdoc! { "b": 1, "x": 2, "a": 3 };
        document.append(cstr!("a"), 4);
        let [a, b, c] = pick(&document, ["a", "b", "c"]);
        let numbers = [a, b, c].map(|value| value.and_then(|v| v.as_i32()));
        assert_eq!(numbers, [Some(3), Some(1), None]);
    }

    #[test]
    fn a_field_after_the_maximum_number_of_fields_is_not_found() {
        let mut document = RawDocumentBuf::new();
        for _ in 0..MAX_FIELDS {
            document.append(cstr!(""), RawBsonRef::Null);
        }
        document.append(cstr!("ok"), 1);
        assert_eq!(pick(&document, ["ok"]), [None]);
    }
}
