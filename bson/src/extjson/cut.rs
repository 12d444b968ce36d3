//! Text of limited length.

use std::fmt;

/// A text that refuses more than `limit` bytes.
pub(super) struct Cut {
    text: String,
    limit: usize,
    is_full: bool,
}

impl Cut {
    pub(super) const fn new(limit: usize) -> Self {
        Self {
            text: String::new(),
            limit,
            is_full: false,
        }
    }

    /// Returns the text, with `mark` at its end if a part of it did not fit.
    pub(super) fn finish(mut self, mark: &str) -> String {
        if self.is_full {
            self.text.push_str(mark);
        }
        self.text
    }
}

impl fmt::Write for Cut {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.is_full {
            return Err(fmt::Error);
        }
        let mut end = text.len().min(self.limit - self.text.len());
        self.is_full = end < text.len();
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.text.push_str(&text[..end]);
        if self.is_full {
            Err(fmt::Error)
        } else {
            Ok(())
        }
    }
}
