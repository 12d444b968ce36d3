//! The fields of raw documents are those that the crate's iterator returns.

use crate::strategies;
use bson::RawDocument;
use onionskin_bson::{Field, document_from_slice, fields};
use proptest::{prelude::*, test_runner::TestCaseError};

fn compare(document: &RawDocument) -> Result<(), TestCaseError> {
    let ours: Result<Vec<Field<'_>>, _> = fields(document).collect();
    let theirs: Result<Vec<_>, _> = document.iter_elements().collect();
    // The crate checks a little more and a little less: names, and values that it would not return.
    let (Ok(ours), Ok(theirs)) = (ours, theirs) else {
        prop_assert!(document_from_slice(document.as_bytes()).is_err());
        return Ok(());
    };
    prop_assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.into_iter().zip(theirs) {
        prop_assert_eq!(ours.name(), Ok(theirs.key().as_str()));
        match (ours.value(), theirs.value()) {
            (Ok(ours), Ok(theirs)) => {
                prop_assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
            }
            (Err(ours), Err(_)) => prop_assert!(!ours.to_string().is_empty()),
            (ours, theirs) => {
                let is_bson = document_from_slice(document.as_bytes()).is_ok();
                prop_assert!(!is_bson, "{:?} is not {:?}", ours, theirs);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(strategies::cases(1000)))]

    #[test]
    fn fields_are_those_of_the_crate(document in strategies::document()) {
        compare(&document)?;
        let ours: Result<Vec<_>, _> = fields(&document).map(|field| field?.value()).collect();
        prop_assert!(ours.is_ok());
    }

    #[test]
    fn fields_of_changed_documents_are_those_of_the_crate(
        document in strategies::document(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = document.into_bytes();
        // The length and the terminator remain.
        let inside = 4..bytes.len() - 1;
        for (place, byte) in changes {
            if let Some(at) = inside.clone().nth(place.index(inside.len().max(1))) {
                bytes[at] = byte;
            }
        }
        compare(RawDocument::from_bytes(&bytes).expect("its size is right"))?;
    }
}
