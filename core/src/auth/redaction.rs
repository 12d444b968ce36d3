//! Recognizes secrets in the texts of a peer that knows them.
//!
//! A server or an endpoint can repeat the secrets that it was sent, in any form and in part. So its
//! text is not searched for one form of the secret. Both are reduced to letters and digits in lower
//! case, and compared by short windows, in the usual encodings of the secret. A text that shares a
//! window with a secret is not shown at all.

use crate::options::{REDACTED, Secret};
use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD as BASE64};
use std::fmt::Write;
use zeroize::Zeroizing;

/// The longest window in bytes. Longer windows would let parts of a token pass.
const MAX_WINDOW: usize = 8;

/// The shortest window in bytes, unless the whole secret is shorter. Shorter windows occur in
/// words.
const MIN_WINDOW: usize = 4;

/// Returns the text, or [`REDACTED`] if it contains a part of one of the secrets.
///
/// The time is linear in the lengths of the text and of the secrets.
pub(super) fn redacted<'a>(text: &str, secrets: impl IntoIterator<Item = &'a Secret>) -> String {
    let mut secrets = secrets.into_iter();
    let reduced = Windows::new(text);
    let is_in = |secret: &Secret| {
        let secret = secret.expose();
        !secret.is_empty()
            && (text.contains(secret) || forms(secret).iter().any(|form| reduced.shares(form)))
    };
    match secrets.any(is_in) {
        true => REDACTED.to_owned(),
        false => text.to_owned(),
    }
}

/// Returns the secret in its usual encodings, reduced: as it is, with percent-encoded delimiters,
/// in hexadecimal (also percent-encoded throughout), and in base64 at each of the three places
/// within a group.
fn forms(secret: &str) -> [Zeroizing<Vec<u8>>; 6] {
    let (mut percent, mut hex) = (
        Zeroizing::<String>::default(),
        Zeroizing::<String>::default(),
    );
    for byte in secret.bytes() {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        let _ = match byte.is_ascii_alphanumeric() {
            true => write!(percent, "{}", char::from(byte)),
            false => write!(percent, "{byte:02x}"),
        };
    }
    let base64 = |before: usize| {
        let bytes = Zeroizing::new([&[0; 2][..before], secret.as_bytes()].concat());
        let text = Zeroizing::new(BASE64.encode(&bytes));
        // The first and last characters depend on the bytes around the secret.
        let begin = [0, 2, 3][before];
        let end = text.len() - usize::from(bytes.len() % 3 != 0);
        Zeroizing::new(reduce(text.get(begin..end).unwrap_or_default()))
    };
    let reduced = |text: &Zeroizing<String>| Zeroizing::new(reduce(text));
    [
        Zeroizing::new(reduce(secret)),
        reduced(&percent),
        reduced(&hex),
        base64(0),
        base64(1),
        base64(2),
    ]
}

/// Returns the letters and digits of a text in lower case, and its bytes outside of ASCII.
fn reduce(text: &str) -> Vec<u8> {
    let kept = |byte: &u8| byte.is_ascii_alphanumeric() || !byte.is_ascii();
    let bytes = text.bytes().filter(kept);
    bytes.map(|byte| byte.to_ascii_lowercase()).collect()
}

/// The windows of a reduced text, sorted, for each length from [`MIN_WINDOW`] to [`MAX_WINDOW`].
struct Windows {
    text: Vec<u8>,
    sorted: [Vec<u64>; MAX_WINDOW - MIN_WINDOW + 1],
}

impl Windows {
    fn new(text: &str) -> Self {
        let text = reduce(text);
        let sorted = std::array::from_fn(|more| {
            let windows = text.windows(MIN_WINDOW + more);
            let mut numbers: Vec<u64> = windows.map(number).collect();
            numbers.sort_unstable();
            numbers
        });
        Self { text, sorted }
    }

    /// True if the text has a part of this form of a secret, which is half of the form or a window.
    fn shares(&self, form: &[u8]) -> bool {
        if form.len() < MIN_WINDOW {
            return !form.is_empty() && self.text.windows(form.len()).any(|part| part == form);
        }
        let length = (form.len() / 2).clamp(MIN_WINDOW, MAX_WINDOW);
        let sorted = &self.sorted[length - MIN_WINDOW];
        let mut windows = form.windows(length).map(number);
        windows.any(|window| sorted.binary_search(&window).is_ok())
    }
}

/// Returns a window as a number.
fn number(window: &[u8]) -> u64 {
    window
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

    const PASSWORD: &str = "p@ss w0rd/\u{e4}!";
    const TOKEN: &str = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJl";

    fn percent(text: &str, is_kept: impl Fn(u8) -> bool) -> String {
        let encoded = text.bytes().map(|byte| match is_kept(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        });
        encoded.collect()
    }

    #[test]
    fn a_secret_is_found_in_each_usual_encoding_and_in_parts() {
        for secret in [PASSWORD, TOKEN, "pencil", "x!"] {
            let hex: String = secret.bytes().map(|byte| format!("{byte:02X}")).collect();
            let payload = format!("\0alice\0{secret}");
            let half = secret.chars().take(secret.chars().count().div_ceil(2) + 2);
            let forms = [
                secret.to_owned(),
                secret.to_uppercase(),
                secret.to_lowercase(),
                half.collect(),
                percent(secret, |byte| byte.is_ascii_alphanumeric()),
                percent(secret, |_| false),
                percent(secret, |_| false).to_lowercase(),
                hex,
                STANDARD.encode(secret),
                STANDARD.encode(&payload),
                STANDARD.encode(&payload[1..]).to_lowercase(),
                URL_SAFE_NO_PAD.encode(format!("{payload}xy")),
                format!("{secret:?}"),
            ];
            let secrets = [Secret::new("other"), Secret::new(secret)];
            for form in forms {
                let text = format!("could not log in: [{form}]");
                assert_eq!(redacted(&text, &secrets), REDACTED, "{secret} {text}");
            }
        }
        let secrets = [PASSWORD, TOKEN, "pencil"].map(Secret::new);
        for cut in [&TOKEN[5..17], &TOKEN[30..40]] {
            assert_eq!(redacted(cut, &secrets), REDACTED, "{cut}");
        }
    }

    #[test]
    fn other_texts_stay() {
        let secrets = [PASSWORD, TOKEN, "pencil", ""].map(Secret::new);
        for text in [
            "",
            "Authentication failed.",
            "Could not find user \"alice\" for db \"admin\"",
            "not authorized on admin to execute command { find: \"t\" }",
        ] {
            assert_eq!(redacted(text, &secrets), text);
        }
    }
}
