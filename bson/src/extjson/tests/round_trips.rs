//! Properties of the writer and the parser: round trips, and no panic on any input.

use super::*;
use crate::validate;
use bson::{
    Binary, DateTime, Decimal128, JavaScriptCodeWithScope, Timestamp, oid::ObjectId,
    spec::BinarySubtype,
};
use proptest::{collection::vec, prelude::*};

/// Names that are not those of representations.
fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z0-9.]{0,3}", "\\$x[a-z]{0,2}", "[^\\x00$]{0,12}"]
}

fn scalar() -> impl Strategy<Value = Bson> {
    let text = || "\\PC{0,20}|[\\x00-\\x7f]{0,12}";
    prop_oneof![
        any::<f64>().prop_map(Bson::Double),
        text().prop_map(Bson::String),
        any::<bool>().prop_map(Bson::Boolean),
        Just(Bson::Null),
        Just(Bson::Undefined),
        Just(Bson::MinKey),
        Just(Bson::MaxKey),
        any::<i32>().prop_map(Bson::Int32),
        any::<i64>().prop_map(Bson::Int64),
        any::<i64>().prop_map(|millis| Bson::DateTime(DateTime::from_millis(millis))),
        (0..=date::LAST_MILLIS).prop_map(|millis| Bson::DateTime(DateTime::from_millis(millis))),
        any::<[u8; 12]>().prop_map(|id| Bson::ObjectId(ObjectId::from_bytes(id))),
        (any::<u32>(), any::<u32>())
            .prop_map(|(time, increment)| Bson::Timestamp(Timestamp { time, increment })),
        (any::<u8>(), vec(any::<u8>(), 0..40)).prop_map(|(subtype, bytes)| {
            let subtype = BinarySubtype::from(subtype);
            Bson::Binary(Binary { subtype, bytes })
        }),
        text().prop_map(Bson::JavaScriptCode),
        text().prop_map(Bson::Symbol),
        ("[^\\x00]{0,9}", "[imsxu]{0,5}").prop_map(|(pattern, options)| {
            let mut sorted: Vec<char> = options.chars().collect();
            sorted.sort_unstable();
            let options: String = sorted.into_iter().collect();
            regex(&pattern, &options)
        }),
        // All coefficients of 64 bits and all exponents are valid.
        (any::<u64>(), 0_u64..12_288, any::<bool>()).prop_map(|(low, exponent, sign)| {
            let high = (exponent << 49) | (u64::from(sign) << 63);
            let bits = (u128::from(high) << 64) | u128::from(low);
            Bson::Decimal128(Decimal128::from_bytes(bits.to_le_bytes()))
        }),
    ]
}

fn value() -> impl Strategy<Value = Bson> {
    scalar().prop_recursive(5, 40, 6, |inner| {
        let document = vec((name(), inner.clone()), 0..6)
            .prop_map(|fields| fields.into_iter().collect::<Document>())
            .boxed();
        prop_oneof![
            vec(inner, 0..6).prop_map(Bson::Array),
            document.clone().prop_map(Bson::Document),
            ("[a-z]{0,4}", document).prop_map(|(code, scope)| {
                Bson::JavaScriptCodeWithScope(JavaScriptCodeWithScope { code, scope })
            }),
        ]
    })
}

fn document() -> impl Strategy<Value = RawDocumentBuf> {
    vec((name(), value()), 0..6).prop_map(|fields| {
        let document: Document = fields.into_iter().collect();
        let bytes = document.to_vec().expect("it can be encoded");
        RawDocumentBuf::from_bytes(bytes).expect("valid")
    })
}

/// Tokens of JSON and of representations, so that random texts get past their first byte.
fn token() -> impl Strategy<Value = String> {
    let fixed = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        " ",
        "\"",
        "\\u0000",
        "null",
        "1",
        "-0.5e1",
        "\"a\":",
        "\"a\"",
        "\"$oid\":",
        "\"$date\":",
        "\"$code\":",
        "\"$scope\":",
        "\"$binary\":{",
        "\"base64\":\"\"",
        "\"subType\":\"00\"",
        "\"$numberLong\":\"1\"",
        "\"$timestamp\":{",
        "\"t\":1",
        "\"i\":2",
        "\"$regex\":\"a\"",
        "\"$options\":\"i\"",
        "\"$uuid\":",
        "\\ud800",
        "\"$dbPointer\":{",
        "\"$ref\":\"a\"",
        "\"$id\":",
        "\"$type\":\"00\"",
        "{\"$minKey\":1}",
    ];
    prop_oneof![
        proptest::sample::select(fixed.to_vec()).prop_map(str::to_owned),
        "\\PC{0,3}",
    ]
}

proptest! {
    // BSON-19, and EJSON-23 for names that begin with `$`.
    #[test]
    fn canonical_texts_give_the_same_bytes(document in document()) {
        let text = canonical(&document);
        let read = parse_raw(&text).expect("it is Extended JSON");
        prop_assert!(validate(read.as_bytes()).is_ok());
        // A NaN loses its sign and its payload.
        if text.contains("NaN") {
            prop_assert_eq!(canonical(&read), text);
        } else {
            prop_assert_eq!(&read, &document);
            let value = parse(&text).expect("it is Extended JSON");
            prop_assert_eq!(document_to_string(&value, Mode::Canonical), Ok(text));
        }
    }

    #[test]
    fn relaxed_texts_give_the_same_text(document in document()) {
        let text = relaxed(&document);
        let read = parse_raw(&text).expect("it is Extended JSON");
        prop_assert_eq!(relaxed(&read), text.as_str());
        let checked: std::result::Result<serde_json::Value, _> = serde_json::from_str(&text);
        prop_assert!(checked.is_ok());
    }

    #[test]
    fn single_values_come_back(value in value()) {
        let text = bson_to_string(&value, Mode::Canonical).expect("it can be encoded");
        let read = parse_value(&text).expect("it is Extended JSON");
        prop_assert_eq!(bson_to_string(&read, Mode::Canonical), Ok(text));
    }

    #[test]
    fn cut_texts_are_prefixes(document in document(), limit in 0..300_usize) {
        for mode in [Mode::Canonical, Mode::Relaxed] {
            let all = to_string(&document, mode).expect("valid");
            let cut = to_string_lossy(&document, mode, limit);
            match cut.strip_suffix(ELLIPSIS).filter(|_| all.len() > limit) {
                Some(kept) => prop_assert!(all.starts_with(kept) && kept.len() <= limit),
                None => prop_assert_eq!(cut, all),
            }
        }
    }

    #[test]
    fn random_document_bytes_cause_no_panic(
        elements in vec(any::<u8>(), 0..60),
        kind in 1..=0x13_u8,
        limit in 0..200_usize,
    ) {
        // A type byte and a key come first, so that reading gets past the first byte.
        let document = raw(&[&[kind, b'k', 0][..], &elements].concat());
        let all = to_string_lossy(&document, Mode::Relaxed, usize::MAX);
        let cut = to_string_lossy(&document, Mode::Relaxed, limit);
        match cut.strip_suffix(ELLIPSIS).filter(|_| all.len() > limit) {
            Some(kept) => prop_assert!(all.starts_with(kept)),
            None => prop_assert_eq!(&cut, &all),
        }
        // The strict writer fails exactly if the bytes are malformed, except for the names of
        // array elements, which it does not read.
        let strict = to_string(&document, Mode::Relaxed);
        if validate(document.as_bytes()).is_ok() {
            prop_assert_eq!(strict, Ok(all));
        }
    }

    #[test]
    fn random_texts_cause_no_panic(tokens in vec(token(), 0..20), is_legacy in any::<bool>()) {
        let options = ParseOptions::default().legacy(is_legacy);
        let text = tokens.concat();
        for text in [text.clone(), format!("{{\"k\":{text}"), format!("{{\"k\":{text}}}")] {
            let _ = options.parse_value(&text);
            if let Ok(document) = options.parse_raw(&text) {
                prop_assert!(validate(document.as_bytes()).is_ok());
                prop_assert!(options.parse(&text).is_ok());
            }
        }
    }

    #[test]
    fn random_input_bytes_cause_no_panic(bytes in vec(any::<u8>(), 0..60)) {
        let _ = parse_raw(&bytes);
        let _ = parse_value(&bytes);
    }

    // Exactly the texts of an ordinary parser are accepted, if no name begins with `$`.
    #[test]
    fn plain_json_is_read_like_an_ordinary_parser(text in "[\\[\\]{}:,0-9eE.+\\-\" a\\\\u]{0,12}") {
        let ordinary = serde_json::from_str::<serde_json::Value>(&text);
        prop_assert_eq!(parse_value(&text).is_ok(), ordinary.is_ok(), "{}", text);
    }
}
