//! The options of regular expressions.

use std::borrow::Cow;

/// Returns the options of a regular expression in alphabetical order, in which BSON stores them
/// ([BSON type regular expression](https://bsonspec.org/spec.html)).
///
/// ```
/// assert_eq!(onionskin_bson::sorted_options("xsi"), "isx");
/// ```
#[must_use]
pub fn sorted_options(options: &str) -> Cow<'_, str> {
    if options.as_bytes().is_sorted() {
        return Cow::Borrowed(options);
    }
    let mut sorted: Vec<char> = options.chars().collect();
    sorted.sort_unstable();
    sorted.into_iter().collect()
}
