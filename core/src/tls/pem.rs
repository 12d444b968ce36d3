//! A reader of PEM text (RFC 7468).
//!
//! The reader of `rustls` refuses a whole file if one block has headers, as keys have in the older
//! form of OpenSSL. This reader keeps the headers, and passes over what it cannot read.

use base64::{Engine, engine::general_purpose::STANDARD};
use zeroize::Zeroizing;

/// The memory that a block gets at first, in bytes. A private key of RSA 4096 fits, so that no copy
/// of it remains in memory that was outgrown.
const USUAL_BYTES: usize = 4096;

/// One block of PEM text.
pub(super) struct Block<'a> {
    pub(super) label: &'a str,
    /// The lines of the form `name: value`.
    pub(super) headers: Vec<(&'a str, &'a str)>,
    /// The decoded bytes; `None` if they are damaged.
    pub(super) der: Option<Zeroizing<Vec<u8>>>,
}

impl Block<'_> {
    pub(super) fn is_private_key(&self) -> bool {
        self.label.ends_with("PRIVATE KEY")
    }
}

/// Returns the blocks of a PEM text. Text outside of blocks is ignored.
pub(super) fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut found = Vec::new();
    let mut lines = text.lines().map(str::trim);
    while let Some(line) = lines.next() {
        let label = line.strip_prefix("-----BEGIN ");
        let Some(label) = label.and_then(|rest| rest.strip_suffix("-----")) else {
            continue;
        };
        let mut headers = Vec::new();
        let mut encoded = Zeroizing::new(String::with_capacity(USUAL_BYTES));
        let mut is_whole = false;
        for line in lines.by_ref() {
            if line.starts_with("-----END ") {
                is_whole = true;
                break;
            }
            match line.split_once(": ") {
                Some(header) => headers.push(header),
                None => encoded.push_str(line),
            }
        }
        let der = STANDARD.decode(encoded.as_bytes()).ok();
        found.push(Block {
            label,
            headers,
            der: der.filter(|_| is_whole).map(Zeroizing::new),
        });
    }
    found
}
