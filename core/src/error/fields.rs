//! Lookup of several fields of a reply in one pass over a bounded number of fields. One lookup per
//! key would read the same fields of an untrusted reply several times.

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

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{RawDocumentBuf, cstr, rawdoc};

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
