//! Tests of a build without the feature `collation`.

use super::*;

#[test]
fn collations_are_refused_by_the_name_of_the_missing_feature() {
    let parsed = |collation: Document| Collation::parse(&collation);
    let error = parsed(doc! { "locale": "en" }).expect_err("no collations");
    assert_eq!(error.code, 2);
    assert_eq!(
        error.message,
        "Field 'locale' is invalid in: { locale: \"en\" }"
    );
    let information = error.details.get_document("errInfo");
    let what = information.and_then(|information| information.get_str("notSimulated"));
    assert!(
        what.is_ok_and(|what| what.contains("feature 'collation'")),
        "{error:?}"
    );
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
