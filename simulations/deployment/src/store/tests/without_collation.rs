//! Tests of a build without the feature `collation`.

use super::*;

#[test]
fn collations_are_refused_by_the_name_of_the_missing_feature() {
    let parsed = |collation: Document| Collation::parse(&collation);
    let error = parsed(doc! { "locale": "en" }).expect_err("no collations");
    assert_eq!(error.code, 238);
    assert!(error.message.contains("feature 'collation'"), "{error:?}");
    // Malformed collations have the errors of the server, and `simple` needs no library.
    assert_eq!(
        parsed(doc! { "locle": "en" }).expect_err("a field").code,
        40415
    );
    assert!(
        parsed(doc! { "locale": "simple" })
            .expect("valid")
            .is_none()
    );
}
