//! The characters of JSON strings.

/// Returns the number of bytes before the first quotation mark, backslash or control character
/// (also DEL, which JSON permits in strings).
#[inline]
pub(super) fn plain_length(bytes: &[u8]) -> usize {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    // Each term has the highest bit of a byte set if the byte is less than a number. The lowest of
    // these bits is right; bits above it can be wrong.
    let less = |word: u64, than: u64| word.wrapping_sub(LOW * than) & !word & HIGH;
    let mut at = 0;
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*chunk);
        let equal = |byte: u8| less(word ^ (LOW * u64::from(byte)), 1);
        let found = less(word, 0x20) | equal(b'"') | equal(b'\\') | equal(0x7f);
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    let special = rest.iter().position(|&byte| !is_plain(byte));
    at + special.unwrap_or(rest.len())
}

const fn is_plain(byte: u8) -> bool {
    !matches!(byte, 0..0x20 | b'"' | b'\\' | 0x7f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_special_byte_is_found() {
        for length in 0..20 {
            for byte in 0..=u8::MAX {
                for at in 0..length {
                    for around in [b'a', 0x80, 0xff] {
                        let mut bytes = vec![around; length];
                        bytes[at] = byte;
                        let expected = bytes.iter().position(|&b| !is_plain(b));
                        assert_eq!(plain_length(&bytes), expected.unwrap_or(length));
                    }
                }
            }
        }
    }
}
