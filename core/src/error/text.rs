//! Texts of a peer, cut where they are too long to be meant for people.

/// Bytes of a server's message that are kept in the error of the operation that met it.
pub const MAX_MESSAGE_TEXT_BYTES: usize = 16 * 1024;

/// Bytes of an error's text that are repeated where the error is told of as the cause of something
/// else: descriptions of servers, errors of other operations, logs.
pub const MAX_CAUSE_TEXT_BYTES: usize = 1024;

/// Bytes of a name that are kept, such as the name of an error code.
pub(super) const MAX_NAME_BYTES: usize = 256;

/// The text, or as much of it as fits into `max` bytes.
pub(crate) fn shortened(text: &str, max: usize) -> &str {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The text of an error that is the cause of something else.
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
