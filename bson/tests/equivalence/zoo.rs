//! The types, with samples of their documents.

mod containers;
mod enums;
mod structs;
mod values;

use crate::{Difference, compare};
use bson::{Bson, Document, RawBson, RawDocumentBuf};
use proptest::test_runner::TestCaseError;
use std::collections::BTreeMap;

/// Compares types that any document can be decoded as.
pub(crate) fn compare_generic(bytes: &[u8]) -> Result<(), TestCaseError> {
    compare::<Bson>(bytes, Difference::None)?;
    compare::<Document>(bytes, Difference::None)?;
    compare::<RawBson>(bytes, Difference::None)?;
    compare::<RawDocumentBuf>(bytes, Difference::None)?;
    compare::<BTreeMap<String, Bson>>(bytes, Difference::None)?;
    compare::<BTreeMap<String, RawBson>>(bytes, Difference::None)?;
    compare::<BTreeMap<&str, bson::RawBsonRef<'_>>>(bytes, Difference::None)?;
    compare::<serde_json::Value>(bytes, Difference::None)?;
    compare::<bson::Utf8Lossy<BTreeMap<String, RawBson>>>(bytes, Difference::None)?;
    compare::<bson::serde_helpers::HumanReadable<BTreeMap<String, Bson>>>(bytes, Difference::None)?;
    Ok(())
}

/// Defines a test for each type, with documents of which at least one can be decoded as this type.
macro_rules! zoo {
    ($($test:ident: $type:ty, $difference:ident, [$($sample:expr),* $(,)?];)*) => {
        $(
            #[test]
            fn $test() {
                crate::compare_type::<$type>(
                    vec![$($sample),*],
                    crate::Difference::$difference,
                );
            }
        )*
    };
}

use zoo;
