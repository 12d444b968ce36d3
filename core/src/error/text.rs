//! Limits of the texts that a peer sends. Longer texts are cut.

/// The maximum size in bytes of a server's error message that is kept.
pub const MAX_MESSAGE_TEXT_BYTES: usize = 16 * 1024;

/// The maximum size in bytes of the text of an error that is quoted elsewhere, for example in a
/// server description or in the message of another error.
pub const MAX_CAUSE_TEXT_BYTES: usize = 1024;

/// The maximum size in bytes of a name that is kept, such as the name of an error code.
pub(super) const MAX_NAME_BYTES: usize = 256;

/// Returns the longest prefix of `text` that has at most `max` bytes.
pub(crate) fn shortened(text: &str, max: usize) -> &str {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Returns the text of `cause`, cut to [`MAX_CAUSE_TEXT_BYTES`].
pub(crate) fn cause_text(cause: &impl ToString) -> String {
    let mut text = cause.to_string();
    text.truncate(shortened(&text, MAX_CAUSE_TEXT_BYTES).len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(shortened("abc", 3), "abc");
        assert_eq!(shortened("a\u{e4}b", 2), "a");
        assert_eq!(shortened("\u{e4}", 0), "");
        let endless = "\u{e4}".repeat(MAX_CAUSE_TEXT_BYTES);
        assert_eq!(cause_text(&endless).len(), MAX_CAUSE_TEXT_BYTES);
    }
}
