//! Texts that a peer chose, in a form for messages, logs and terminals.

use std::{
    borrow::Cow,
    fmt::{self, Write},
};

/// True for a character that a terminal does not show as it is: a control character, the end of a
/// line or paragraph, and a character that is invisible or changes the direction of other text.
///
/// These are the general categories `Cc`, `Cf`, `Zl` and `Zp` of Unicode.
///
/// ```
/// use onionskin_core::text::is_unprintable;
///
/// assert!(['\n', '\x1b', '\u{9b}', '\u{202e}', '\u{200b}'].into_iter().all(is_unprintable));
/// assert!(!['a', ' ', '\u{e4}', '\u{4e2d}'].into_iter().any(is_unprintable));
/// ```
#[must_use]
pub fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{600}'..='\u{605}'
                | '\u{61c}'
                | '\u{6dd}'
                | '\u{70f}'
                | '\u{890}'..='\u{891}'
                | '\u{8e2}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{110bd}'
                | '\u{110cd}'
                | '\u{13430}'..='\u{1343f}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// Returns the text with each [unprintable](is_unprintable) character replaced by its escape
/// sequence, such as `\n` or `\u{202e}`.
///
/// ```
/// use onionskin_core::text::printable;
///
/// assert_eq!(printable("two\nlines \u{202e}"), "two\\nlines \\u{202e}");
/// assert_eq!(printable("gr\u{fc}n"), "gr\u{fc}n");
/// ```
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unprintable) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    // Writing to a string cannot fail.
    let _ = Escaping(&mut shown).write_str(text);
    Cow::Owned(shown)
}

/// Returns a JSON document with each [unprintable](is_unprintable) character outside of ASCII,
/// which can only be within a string, replaced by its escape sequence in JSON, such as `\u202e`.
///
/// ```
/// use onionskin_core::text::printable_json;
///
/// assert_eq!(printable_json("[\"\u{202e}\"]"), r#"["\u202e"]"#);
/// ```
#[must_use]
pub fn printable_json(json: &str) -> Cow<'_, str> {
    let is_wrong = |c: char| c >= '\x7f' && is_unprintable(c);
    if !json.contains(is_wrong) {
        return Cow::Borrowed(json);
    }
    let mut shown = String::with_capacity(json.len() + 16);
    for character in json.chars() {
        match is_wrong(character) {
            // Writing to a string cannot fail.
            true => character.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
                let _ = write!(shown, "\\u{unit:04x}");
            }),
            false => shown.push(character),
        }
    }
    Cow::Owned(shown)
}

/// A writer that passes texts on with their unprintable characters escaped.
pub(crate) struct Escaping<'a, W>(pub(crate) &'a mut W);

impl<W: Write> Write for Escaping<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some((at, character)) = rest.char_indices().find(|(_, c)| is_unprintable(*c)) {
            write!(self.0, "{}{}", &rest[..at], character.escape_default())?;
            rest = &rest[at + character.len_utf8()..];
        }
        self.0.write_str(rest)
    }
}
