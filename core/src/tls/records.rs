//! Tracks the boundaries of TLS records in a stream of bytes.

/// The size of a record's header in bytes: type, version and length.
const HEADER_BYTES: usize = 5;

/// The position in a stream of records. Reads the headers of records, but not their content.
#[derive(Debug, Default)]
pub(super) struct Records {
    header: [u8; HEADER_BYTES],
    /// The number of bytes of the record's header that were received; zero once the header is
    /// complete.
    filled: usize,
    /// The number of bytes of the record's content that are still to come.
    due: usize,
}

impl Records {
    /// Advances the position over received bytes.
    pub(super) fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.due == 0 {
                let count = bytes.len().min(HEADER_BYTES - self.filled);
                self.header[self.filled..self.filled + count].copy_from_slice(&bytes[..count]);
                self.filled += count;
                bytes = &bytes[count..];
                if self.filled < HEADER_BYTES {
                    return;
                }
                self.filled = 0;
                self.due = usize::from(u16::from_be_bytes([self.header[3], self.header[4]]));
            }
            let count = bytes.len().min(self.due);
            self.due -= count;
            bytes = &bytes[count..];
        }
    }

    /// True if part of a record was received and the rest is still to come.
    pub(super) const fn is_mid_record(&self) -> bool {
        self.filled > 0 || self.due > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_boundaries_are_found_in_a_stream_split_into_any_pieces() {
        let stream = [
            &[23, 3, 3, 0, 3, 1, 2, 3][..],
            &[23, 3, 3, 0, 0],
            &[21, 3, 3, 1, 1],
            &[9; 257],
        ]
        .concat();
        let ends = [0, 8, 13, stream.len()];
        for piece in 1..=stream.len() {
            let (mut records, mut position) = (Records::default(), 0);
            for bytes in stream.chunks(piece) {
                records.pass(bytes);
                position += bytes.len();
                assert_eq!(
                    records.is_mid_record(),
                    !ends.contains(&position),
                    "{piece}"
                );
            }
        }
    }
}
