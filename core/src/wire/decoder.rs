//! Decoding of frames, that is of whole messages, from a stream of bytes.

use super::{HEADER_BYTES, Header, MAX_MESSAGE_BYTES, WireError};

/// The size in bytes of the largest buffer that is kept when all its frames were consumed. A larger
/// buffer is freed, so that an idle connection holds little memory.
pub const MAX_IDLE_BUFFER_BYTES: usize = 2048;

/// The minimum room in bytes that is offered for a read when the size of the next frame is unknown.
const READ_BYTES: usize = 1024;

/// The maximum room in bytes that is made for the rest of a frame at once. So a peer cannot make
/// the decoder allocate much memory by announcing a large message without sending it. And the bytes
/// that are cleared for a read are still in the cache of the processor when the read fills them.
const MAX_ROOM_BYTES: usize = 256 * 1024;

/// A decoder that collects bytes until a whole message has arrived.
///
/// Bytes are read directly into the buffer of the decoder: get room by [`spare`](Self::spare), read
/// into it, report the number of bytes by [`filled`](Self::filled), then get a message by
/// [`frame`](Self::frame). The length of a message is checked before room for it is made.
///
/// ```
/// use onionskin_core::unstable::wire::{FrameDecoder, MessageWriter};
///
/// let mut bytes = Vec::new();
/// MessageWriter::begin(&mut bytes, 7, 0).body(&bson::rawdoc! { "ping": 1 }).end();
///
/// let mut decoder = FrameDecoder::new();
/// for byte in &bytes {
///     assert!(decoder.frame()?.is_none());
///     decoder.extend(&[*byte]);
/// }
/// assert_eq!(decoder.frame()?.map(|(header, _)| header.request_id), Some(7));
/// # Ok::<(), onionskin_core::unstable::wire::WireError>(())
/// ```
#[derive(Debug)]
pub struct FrameDecoder {
    /// The buffer, all of which is initialised. `start..end` holds the bytes that were not consumed
    /// yet.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    max_bytes: usize,
    /// The number of bytes still to arrive that are dropped on arrival.
    skip: usize,
    moved: u64,
}

impl Default for FrameDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl FrameDecoder {
    /// Creates an empty decoder with the limit [`MAX_MESSAGE_BYTES`].
    #[must_use]
    pub const fn new() -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            end: 0,
            max_bytes: MAX_MESSAGE_BYTES,
            skip: 0,
            moved: 0,
        }
    }

    /// Sets the maximum size of a message in bytes, including the header.
    pub fn set_max_bytes(&mut self, max_bytes: usize) {
        self.max_bytes = max_bytes;
    }

    /// Returns the maximum size of a message in bytes, including the header.
    #[must_use]
    pub const fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// True if the decoder has no bytes that were not consumed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Returns room for the next read, which is never empty. If the header of an incomplete frame
    /// has arrived, the room is large enough for the rest of the frame, or is at least 256 KiB.
    /// Fails if the header is not valid.
    #[inline]
    pub fn spare(&mut self) -> Result<&mut [u8], WireError> {
        if self.is_empty() && self.buffer.len() >= READ_BYTES {
            (self.start, self.end) = (0, 0);
            return Ok(&mut self.buffer);
        }
        self.spare_after_bytes()
    }

    fn spare_after_bytes(&mut self) -> Result<&mut [u8], WireError> {
        let buffered = self.end - self.start;
        let wanted = match self.header()? {
            Some(header) if header.length > buffered => {
                (header.length - buffered).min(MAX_ROOM_BYTES)
            }
            // The bytes of the next read belong to a frame of unknown size.
            Some(_) | None => READ_BYTES,
        };
        self.make_room(wanted);
        Ok(&mut self.buffer[self.end..])
    }

    /// Reports that the first `count` bytes of [`spare`](Self::spare) were filled.
    #[inline]
    pub fn filled(&mut self, count: usize) {
        self.end += count;
        assert!(
            self.end <= self.buffer.len(),
            "more bytes were filled than there was room"
        );
        self.drop_skipped();
    }

    /// Adds received bytes by copying them, for callers that read into a buffer of their own.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.make_room(bytes.len());
        self.buffer[self.end..self.end + bytes.len()].copy_from_slice(bytes);
        self.end += bytes.len();
        self.drop_skipped();
    }

    /// Returns the bytes that were received and not consumed.
    #[must_use]
    #[inline]
    pub fn buffered(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Drops the next `length` bytes: those that have arrived now, and the others on arrival.
    pub fn skip(&mut self, length: usize) {
        self.skip += length;
        self.drop_skipped();
    }

    /// True while bytes to be dropped are still to arrive.
    #[must_use]
    pub const fn is_skipping(&self) -> bool {
        self.skip > 0
    }

    /// Returns the next message with its header and all its bytes, or `None` until it has arrived
    /// completely. The same message is returned until it is [consumed](Self::consume).
    #[cfg(any(test, feature = "unstable-machines"))]
    #[inline]
    pub fn frame(&self) -> Result<Option<(Header, &[u8])>, WireError> {
        let Some(header) = self.header()? else {
            return Ok(None);
        };
        let bytes = &self.buffer[self.start..self.end];
        Ok(bytes.get(..header.length).map(|frame| (header, frame)))
    }

    /// Removes the first `length` bytes, which are a processed message.
    #[inline]
    pub fn consume(&mut self, length: usize) {
        self.start += length;
        assert!(
            self.start <= self.end,
            "only what was received can be consumed"
        );
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
            if self.buffer.len() > MAX_IDLE_BUFFER_BYTES {
                self.buffer = Vec::new();
            }
        }
    }

    /// Frees the buffer if the decoder is empty.
    pub fn free(&mut self) {
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
            self.buffer = Vec::new();
        }
    }

    /// Removes a whole message and returns it as a buffer with the range of the message. If no
    /// bytes follow the message, the decoder's own buffer is returned; otherwise the message is
    /// copied.
    pub fn take_frame(&mut self, length: usize) -> (Vec<u8>, std::ops::Range<usize>) {
        let range = self.start..self.start + length;
        assert!(range.end <= self.end, "the message is not complete");
        if range.end == self.end {
            self.start = 0;
            self.end = 0;
            return (std::mem::take(&mut self.buffer), range);
        }
        let copy = self.buffer[range].to_vec();
        self.consume(length);
        (copy, 0..length)
    }

    /// Returns the number of bytes that were moved within the decoder, or cleared to make room,
    /// since its creation. The number shows how much work the decoder does.
    #[cfg(any(test, feature = "unstable-machines"))]
    #[must_use]
    pub const fn moved(&self) -> u64 {
        self.moved
    }

    /// Returns the header of the next message, or `None` until it has arrived.
    pub fn header(&self) -> Result<Option<Header>, WireError> {
        let bytes = &self.buffer[self.start..self.end];
        if bytes.len() < HEADER_BYTES {
            return Ok(None);
        }
        Header::decode(bytes, self.max_bytes).map(Some)
    }

    #[inline]
    fn drop_skipped(&mut self) {
        if self.skip > 0 {
            let count = self.skip.min(self.end - self.start);
            self.skip -= count;
            self.consume(count);
        }
    }

    fn make_room(&mut self, wanted: usize) {
        if self.buffer.len() - self.end >= wanted {
            return;
        }
        if self.start > 0 {
            self.moved += (self.end - self.start) as u64;
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.buffer.len() - self.end < wanted {
            let size = self.end + wanted;
            if size > self.buffer.capacity() {
                self.moved += self.end as u64;
            }
            self.moved += (size - self.buffer.len()) as u64;
            self.buffer.resize(size, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::MessageWriter;
    use bson::rawdoc;

    fn message(id: i32) -> Vec<u8> {
        let mut bytes = Vec::new();
        MessageWriter::begin(&mut bytes, id, 0)
            .body(&rawdoc! { "n": id })
            .end();
        bytes
    }

    #[test]
    fn frames_are_reassembled_from_pieces_of_any_size() {
        let stream: Vec<u8> = (0..5).flat_map(message).collect();
        for step in 1..stream.len() {
            let mut decoder = FrameDecoder::new();
            let mut ids = Vec::new();
            for chunk in stream.chunks(step) {
                let mut chunk = chunk;
                while !chunk.is_empty() {
                    let spare = decoder.spare().expect("valid");
                    let count = spare.len().min(chunk.len());
                    spare[..count].copy_from_slice(&chunk[..count]);
                    decoder.filled(count);
                    chunk = &chunk[count..];
                    while let Some((header, frame)) = decoder.frame().expect("valid") {
                        assert_eq!(frame.len(), header.length);
                        ids.push(header.request_id);
                        decoder.consume(header.length);
                    }
                }
            }
            assert_eq!(ids, [0, 1, 2, 3, 4], "step {step}");
        }
    }

    #[test]
    fn an_invalid_length_is_refused_before_allocation() {
        for (length, error) in [
            (-1, WireError::LengthTooSmall(-1)),
            (15, WireError::LengthTooSmall(15)),
            (
                i32::MAX,
                WireError::LengthTooLarge {
                    length: i32::MAX as u64,
                    limit: MAX_MESSAGE_BYTES as u64,
                },
            ),
        ] {
            let mut bytes = message(1);
            bytes[..4].copy_from_slice(&i32::to_le_bytes(length));
            let mut decoder = FrameDecoder::new();
            decoder.extend(&bytes);
            assert_eq!(decoder.frame().err(), Some(error));
            assert_eq!(decoder.spare().err(), Some(error));
            assert!(decoder.buffer.len() < 4096);
        }
    }

    #[test]
    fn read_space_is_available_after_complete_frames() {
        // One TLS record can contain several frames.
        let frames: Vec<u8> = (0..3).flat_map(message).collect();
        let mut decoder = FrameDecoder::new();
        decoder.extend(&frames);
        assert!(decoder.spare().expect("valid").len() >= READ_BYTES);
        assert_eq!(decoder.buffered(), frames);
    }

    #[test]
    fn the_buffer_grows_with_the_received_bytes_not_with_the_announced_length() {
        let mut bytes = message(1);
        bytes[..4].copy_from_slice(&i32::to_le_bytes(48_000_000));
        let mut decoder = FrameDecoder::new();
        decoder.extend(&bytes);
        assert!(decoder.spare().expect("valid").len() <= MAX_ROOM_BYTES);
        let mut received = bytes.len();
        while received < 8 << 20 {
            let count = decoder.spare().expect("valid").len();
            decoder.filled(count);
            received += count;
            let room = decoder.buffer.len();
            assert!(room <= 4 * received, "{room} bytes for {received}");
        }
    }

    #[test]
    fn a_large_buffer_is_freed_after_its_frame() {
        let mut decoder = FrameDecoder::new();
        let mut bytes = Vec::new();
        let big = rawdoc! { "x": "x".repeat(100_000) };
        MessageWriter::begin(&mut bytes, 1, 0).body(&big).end();
        decoder.extend(&bytes);
        let (header, _) = decoder.frame().expect("valid").expect("whole");
        decoder.consume(header.length);
        assert_eq!(decoder.buffer.capacity(), 0);
    }

    #[test]
    fn skipped_bytes_are_not_buffered_and_the_next_frame_is_complete() {
        let mut bytes = Vec::new();
        let big = rawdoc! { "x": "x".repeat(100_000) };
        MessageWriter::begin(&mut bytes, 1, 0).body(&big).end();
        let length = bytes.len();
        bytes.extend(message(2));
        for step in [1, 7, 1000, 65_536] {
            let mut decoder = FrameDecoder::new();
            decoder.extend(&bytes[..20]);
            let header = decoder.header().expect("valid").expect("there");
            decoder.skip(header.length);
            for chunk in bytes[20..].chunks(step) {
                assert!(decoder.buffered().len() < 100, "bytes are kept");
                decoder.extend(chunk);
            }
            assert!(!decoder.is_skipping());
            let (header, _) = decoder.frame().expect("valid").expect("whole");
            assert_eq!(header.request_id, 2);
        }
        let mut decoder = FrameDecoder::new();
        decoder.extend(&bytes[..length - 1]);
        decoder.skip(length);
        assert!(decoder.is_skipping() && decoder.is_empty());
        assert!(!decoder.spare().expect("valid").is_empty());
    }

    #[test]
    fn a_frame_can_be_moved_out() {
        let mut decoder = FrameDecoder::new();
        let (one, two) = (message(1), message(2));
        decoder.extend(&one);
        decoder.extend(&two);
        let (copied, range) = decoder.take_frame(one.len());
        assert_eq!(&copied[range], one);
        let (moved, range) = decoder.take_frame(two.len());
        assert_eq!(&moved[range], two);
        assert!(decoder.is_empty());
    }
}
