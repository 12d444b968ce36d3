//! The deserializer and the serializer give what those of the crate `bson` give, for many types and
//! documents.

mod fields;
mod inserts;
mod lenient;
mod limits;
mod references;
mod strategies;
mod zoo;

use bson::{Document, RawDocument, RawDocumentBuf};
use onionskin_bson::{deserialize_from_slice, document_from_slice, serialize_to_vec};
use proptest::{prelude::*, test_runner::TestCaseError};
use serde::{Serialize, de::Deserialize};
use std::{fmt::Debug, panic::catch_unwind};

/// A difference from the crate `bson` that is intended.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Difference {
    /// Both must agree.
    None,
    /// Documents that the crate refuses can be decoded, because keys and parts of values can be
    /// newtypes and options.
    AcceptsMore,
}

/// Compares what both deserializers make of a document, and what both serializers make of the
/// value. True if both have decoded the document.
///
/// One of them may refuse a document that is not BSON, and the other not. Ours does not read the
/// content of fields that the type ignores, and the names in arrays. The crate takes the terminator
/// of a document for the end of a name or of a value.
fn compare<'de, T>(bytes: &'de [u8], difference: Difference) -> Result<bool, TestCaseError>
where
    T: Deserialize<'de> + Serialize + Debug,
{
    let ours = deserialize_from_slice::<T>(bytes);
    // The crate panics on a few documents that are not BSON.
    let Ok(theirs) = catch_unwind(|| bson::deserialize_from_slice::<T>(bytes)) else {
        prop_assert!(document_from_slice(bytes).is_err());
        return Ok(false);
    };
    let is_bson = || document_from_slice(bytes).is_ok();
    let (ours, theirs) = match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => (ours, theirs),
        (Err(error), Ok(theirs)) => {
            prop_assert!(!is_bson(), "{error}, but {theirs:?}");
            return Ok(false);
        }
        (Ok(ours), Err(error)) => {
            let is_intended = difference == Difference::AcceptsMore || !is_bson();
            prop_assert!(is_intended, "{ours:?}, but {error}");
            return Ok(false);
        }
        (Err(error), Err(_)) => {
            prop_assert!(!error.to_string().is_empty());
            return Ok(false);
        }
    };
    prop_assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
    if let Ok(bytes) = bson::serialize_to_vec(&theirs) {
        let encoded = serialize_to_vec(&ours).map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert_eq!(encoded, bytes);
    }
    Ok(true)
}

/// Compares the ways to decode a document that is BSON, or not.
fn compare_documents(bytes: &[u8]) -> Result<(), TestCaseError> {
    let ours = document_from_slice(bytes);
    let theirs = catch_unwind(|| {
        let document = RawDocument::from_bytes(bytes)?;
        Document::try_from(document)
    });
    match (ours, theirs) {
        // The crate reads beyond the elements of a document.
        (Err(error), Ok(Ok(theirs))) => {
            let bytes_again = theirs.to_vec();
            prop_assert!(bytes_again.is_ok_and(|again| again != bytes), "{error}");
        }
        (Ok(ours), Ok(Err(error))) => prop_assert!(false, "{ours:?}, but {error}"),
        (Ok(ours), Ok(Ok(theirs))) => prop_assert_eq!(
            serialize_to_vec(&ours).expect("it was BSON"),
            serialize_to_vec(&theirs).expect("it was BSON")
        ),
        _ => {}
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(strategies::cases(300)))]

    #[test]
    fn any_document_is_decoded_alike(document in strategies::document()) {
        compare_documents(document.as_bytes())?;
        zoo::compare_generic(document.as_bytes())?;
    }

    #[test]
    fn any_bytes_are_decoded_alike(bytes in strategies::hostile()) {
        compare_documents(&bytes)?;
        zoo::compare_generic(&bytes)?;
    }
}

/// Compares what both make of samples, of their changed forms, and of arbitrary documents. At least
/// one sample must be decoded.
fn compare_type<T>(samples: Vec<Document>, difference: Difference)
where
    T: for<'de> Deserialize<'de> + Serialize + Debug,
{
    let mut is_decoded = false;
    let samples: Vec<RawDocumentBuf> = samples
        .iter()
        .map(|sample| RawDocumentBuf::try_from(sample).expect("BSON"))
        .collect();
    for sample in &samples {
        let found = compare::<T>(sample.as_bytes(), difference);
        is_decoded |= found.unwrap_or_else(|error| panic!("{sample:?}: {error}"));
    }
    let name = std::any::type_name::<T>();
    assert!(is_decoded, "no sample of {name} is decoded by both");
    let config = ProptestConfig::with_cases(strategies::cases(60));
    let changed = strategies::changed(samples);
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let result = runner.run(&changed, |bytes| {
        compare::<T>(&bytes, difference).map(|_| ())
    });
    result.unwrap_or_else(|error| panic!("{name}: {error}"));
}
