//! OP_MSG: flags, one body, document sequences and an optional checksum (MSG-2 to MSG-17).

use super::{HEADER_BYTES, Header, OpCode, WireError, take, take_document};
use crate::bson::DocumentWriter;
use bson::RawDocument;

/// The required bits, 0 to 15. A reader refuses a message with an unknown required bit (MSG-15).
const REQUIRED_BITS: u32 = 0xffff;

/// The maximum number of document sequences in a message. A message with more is refused. The
/// command `bulkWrite`, for example, has the two sequences `ops` and `nsInfo` ([MSG-12]).
///
/// [MSG-12]: crate::requirements::messages#MSG-12
pub const MAX_SEQUENCES: usize = 8;

/// The flags of an OP_MSG ([MSG-14]).
///
/// [MSG-14]: crate::requirements::messages#MSG-14
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u32);

impl Flags {
    /// The message ends with a CRC-32C checksum of all bytes before it.
    pub const CHECKSUM_PRESENT: Self = Self(1);
    /// In a request: no reply follows. In a reply: another reply follows ([MSG-18], [MSG-20]).
    ///
    /// [MSG-18]: crate::requirements::messages#MSG-18
    /// [MSG-20]: crate::requirements::messages#MSG-20
    pub const MORE_TO_COME: Self = Self(1 << 1);
    /// In a request: the client accepts several replies ([MSG-23]).
    ///
    /// [MSG-23]: crate::requirements::messages#MSG-23
    pub const EXHAUST_ALLOWED: Self = Self(1 << 16);

    /// Creates flags from the bits of a message, without a check.
    #[cfg(any(test, feature = "unstable-machines"))]
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Creates flags from the bits of a received message. Fails for an unknown required bit
    /// ([MSG-15]).
    ///
    /// [MSG-15]: crate::requirements::messages#MSG-15
    #[inline]
    pub const fn decode(bits: u32) -> Result<Self, WireError> {
        let known = Self::CHECKSUM_PRESENT.0 | Self::MORE_TO_COME.0;
        let unknown = bits & REQUIRED_BITS & !known;
        if unknown != 0 {
            return Err(WireError::UnknownFlags(unknown));
        }
        Ok(Self(bits))
    }

    /// Returns the union of both sets of flags.
    #[cfg(any(test, feature = "unstable-machines"))]
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True if all flags of `other` are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the bits as they are sent in a message.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }
}

/// A section of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Section<'a> {
    /// Kind 0: the command or the reply.
    Body(&'a RawDocument),
    /// Kind 1: a document sequence, which replaces an argument of the command.
    Sequence {
        /// The name of the argument, for example `documents`.
        identifier: &'a str,
        /// The documents, without separators.
        documents: &'a [u8],
    },
}

/// A message whose structure was checked. The elements of its documents were not checked.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The flags of the message.
    pub flags: Flags,
    /// The command or the reply: the section of kind 0.
    pub body: &'a RawDocument,
    #[cfg_attr(
        not(any(test, feature = "unstable-machines")),
        allow(dead_code, reason = "for the module `unstable`")
    )]
    sections: &'a [u8],
    #[cfg_attr(
        not(any(test, feature = "unstable-machines")),
        allow(dead_code, reason = "for the module `unstable`")
    )]
    steps: usize,
}

impl<'a> Message<'a> {
    /// Decodes a whole message. The header is skipped: [`Header::decode`] checks it.
    ///
    /// Lengths, kinds and identifiers are checked here, and a checksum is verified. A message with
    /// more than [`MAX_SEQUENCES`] document sequences is refused. The sections can have any order
    /// ([MSG-9]).
    ///
    /// [MSG-9]: crate::requirements::messages#MSG-9
    pub fn decode(frame: &'a [u8]) -> Result<Self, WireError> {
        let Some(mut bytes) = frame.get(HEADER_BYTES..) else {
            return Err(WireError::Truncated("the header"));
        };
        let flags = Flags::decode(u32::from_le_bytes(take(&mut bytes, "the flags")?))?;
        if flags.contains(Flags::CHECKSUM_PRESENT) {
            // The four bytes of the checksum are not a part of the sections (MSG-17).
            let Some((sections, expected)) = bytes.split_last_chunk::<4>() else {
                return Err(WireError::Truncated("the checksum"));
            };
            let expected = u32::from_le_bytes(*expected);
            let actual = crc32c::crc32c(&frame[..frame.len() - 4]);
            if expected != actual {
                return Err(WireError::Checksum { expected, actual });
            }
            bytes = sections;
        }
        // Almost every reply consists of one body. The loop says what is wrong with another one.
        if let [0, document @ ..] = bytes
            && let Ok(body) = RawDocument::from_bytes(document)
        {
            return Ok(Self {
                flags,
                body,
                sections: bytes,
                steps: 1,
            });
        }
        let mut body = None;
        let mut bodies = 0;
        let mut identifiers: Vec<&str> = Vec::new();
        let mut steps = 0;
        let mut rest = Sections { bytes };
        while let Some(section) = rest.step()? {
            steps += 1 + identifiers.len();
            match section {
                Section::Body(document) => {
                    bodies += 1;
                    body = Some(document);
                }
                Section::Sequence {
                    identifier,
                    documents,
                } => {
                    if identifiers.len() == MAX_SEQUENCES {
                        return Err(WireError::TooManySequences);
                    }
                    if identifiers.contains(&identifier) {
                        return Err(WireError::DuplicateIdentifier);
                    }
                    identifiers.push(identifier);
                    let mut documents = documents;
                    while !documents.is_empty() {
                        take_document(&mut documents, "a document sequence")?;
                        steps += 1;
                    }
                }
            }
        }
        match body {
            Some(body) if bodies == 1 => Ok(Self {
                flags,
                body,
                sections: bytes,
                steps,
            }),
            _ => Err(WireError::BodySections(bodies)),
        }
    }

    /// Returns the number of steps that [`decode`](Self::decode) made: visited sections, visited
    /// documents and compared identifiers. The number shows how much work decoding takes.
    #[cfg(any(test, feature = "unstable-machines"))]
    #[must_use]
    pub const fn steps(&self) -> usize {
        self.steps
    }

    /// Returns the sections in the order in which they were sent.
    #[cfg(any(test, feature = "unstable-machines"))]
    #[must_use]
    pub const fn sections(&self) -> Sections<'a> {
        Sections {
            bytes: self.sections,
        }
    }
}

/// An iterator over the sections of a message.
#[derive(Clone, Debug)]
pub struct Sections<'a> {
    bytes: &'a [u8],
}

impl<'a> Sections<'a> {
    fn step(&mut self) -> Result<Option<Section<'a>>, WireError> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        let [kind] = take(&mut self.bytes, "a section's kind")?;
        match kind {
            0 => take_document(&mut self.bytes, "the body").map(|d| Some(Section::Body(d))),
            1 => {
                let what = "a document sequence";
                let whole = self.bytes;
                let size = i32::from_le_bytes(take(&mut self.bytes, what)?);
                let size = usize::try_from(size).map_err(|_| WireError::Truncated(what))?;
                let Some((section, rest)) = whole.split_at_checked(size) else {
                    return Err(WireError::Truncated(what));
                };
                // The size includes its own four bytes, so a size below 4 is invalid.
                let content = section.get(4..).ok_or(WireError::Truncated(what))?;
                let Some(end) = content.iter().position(|&b| b == 0) else {
                    return Err(WireError::Truncated("a section's identifier"));
                };
                let identifier = std::str::from_utf8(&content[..end])
                    .map_err(|_| WireError::Document("an identifier is not UTF-8"))?;
                self.bytes = rest;
                Ok(Some(Section::Sequence {
                    identifier,
                    documents: &content[end + 1..],
                }))
            }
            other => Err(WireError::UnknownSectionKind(other)),
        }
    }
}

impl<'a> Iterator for Sections<'a> {
    type Item = Section<'a>;

    fn next(&mut self) -> Option<Section<'a>> {
        // `Message::decode` checked these bytes already, so that no error occurs here.
        self.step().ok().flatten()
    }
}

/// A writer that appends an OP_MSG to a buffer.
#[derive(Debug)]
#[must_use = "a message is complete only after `end`"]
pub struct MessageWriter<'a> {
    buffer: &'a mut Vec<u8>,
    start: usize,
    /// The number of bytes that follow the buffer.
    apart: usize,
}

impl<'a> MessageWriter<'a> {
    /// Starts a message without flags.
    pub fn begin(buffer: &'a mut Vec<u8>, request_id: i32, response_to: i32) -> Self {
        let start = buffer.len();
        let header = Header {
            length: 0,
            request_id,
            response_to,
            op_code: OpCode::Msg,
        };
        let mut head = [0; HEADER_BYTES + 4];
        head[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        buffer.extend_from_slice(&head);
        Self {
            buffer,
            start,
            apart: 0,
        }
    }

    /// Sets the flags, in place of those set before. By default no flag is set.
    pub fn flags(self, flags: Flags) -> Self {
        let at = self.start + HEADER_BYTES;
        self.buffer[at..at + 4].copy_from_slice(&flags.bits().to_le_bytes());
        self
    }

    /// Appends the section of kind 0.
    pub fn body(self, document: &RawDocument) -> Self {
        self.buffer.push(0);
        self.buffer.extend_from_slice(document.as_bytes());
        self
    }

    /// Appends the section of kind 0, which `fill` writes.
    pub fn body_with(self, fill: impl FnOnce(&mut DocumentWriter<'_>)) -> Self {
        self.buffer.push(0);
        let mut document = DocumentWriter::begin(self.buffer);
        fill(&mut document);
        document.end();
        self
    }

    /// Appends a document sequence. `documents` contains the documents without separators
    /// ([MSG-6]).
    ///
    /// [MSG-6]: crate::requirements::messages#MSG-6
    pub fn sequence(self, identifier: &str, documents: &[u8]) -> Self {
        let begun = self.begin_sequence(identifier, documents.len());
        begun.buffer.extend_from_slice(documents);
        begun
    }

    /// Appends a document sequence as the last section, but without its documents: the caller sends
    /// them itself, after the bytes of the buffer. The message must not have a checksum.
    pub fn sequence_apart(self, identifier: &str, documents: usize) -> Self {
        let mut begun = self.begin_sequence(identifier, documents);
        begun.apart = documents;
        begun
    }

    fn begin_sequence(self, identifier: &str, documents: usize) -> Self {
        debug_assert_eq!(self.apart, 0, "the last section was written");
        let size = 4 + identifier.len() + 1 + documents;
        let size = i32::try_from(size).expect("messages are bounded by 48 MB");
        self.buffer.push(1);
        self.buffer.extend_from_slice(&size.to_le_bytes());
        self.buffer.extend_from_slice(identifier.as_bytes());
        self.buffer.push(0);
        self
    }

    /// Returns the number of bytes of the message so far.
    #[must_use]
    pub fn size(&self) -> usize {
        self.buffer.len() - self.start + self.apart
    }

    /// Ends the message: sets its length, and appends the checksum if its flag is set. Returns the
    /// size of the message in bytes.
    pub fn end(self) -> usize {
        let flags = self.start + HEADER_BYTES;
        let checksum = self.buffer[flags] & 1 == 1;
        debug_assert!(!checksum || self.apart == 0, "all bytes are there");
        let size = self.size() + if checksum { 4 } else { 0 };
        let length = i32::try_from(size).expect("messages are bounded by 48 MB");
        self.buffer[self.start..self.start + 4].copy_from_slice(&length.to_le_bytes());
        if checksum {
            let sum = crc32c::crc32c(&self.buffer[self.start..]);
            self.buffer.extend_from_slice(&sum.to_le_bytes());
        }
        size
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    fn sample(flags: Flags) -> Vec<u8> {
        let mut bytes = Vec::new();
        let documents: Vec<u8> = [rawdoc! { "_id": 1 }, rawdoc! { "_id": 2 }]
            .iter()
            .flat_map(|d| d.as_bytes().to_vec())
            .collect();
        MessageWriter::begin(&mut bytes, 3, 4)
            .flags(flags)
            .body(&rawdoc! { "insert": "c", "$db": "d" })
            .sequence("documents", &documents)
            .end();
        bytes
    }

    #[test]
    fn a_message_reads_back_as_written() {
        for flags in [
            Flags::default(),
            Flags::CHECKSUM_PRESENT,
            Flags::MORE_TO_COME,
        ] {
            let bytes = sample(flags);
            let header = Header::decode(&bytes, 1000).expect("a header");
            assert_eq!(
                (header.length, header.request_id, header.response_to),
                (bytes.len(), 3, 4)
            );
            let message = Message::decode(&bytes).expect("a message");
            assert_eq!(message.flags, flags);
            assert_eq!(message.body.get_str("insert").ok(), Some("c"));
            assert_eq!(message.sections().count(), 2);
        }
    }

    #[test]
    fn sections_are_decoded_in_any_order() {
        // A section of kind 1 can come before the section of kind 0 (MSG-9).
        let mut bytes = Vec::new();
        MessageWriter::begin(&mut bytes, 1, 0)
            .sequence("documents", &[])
            .body(&rawdoc! {})
            .end();
        assert!(Message::decode(&bytes).is_ok());
    }

    #[test]
    fn a_truncated_message_is_refused() {
        let bytes = sample(Flags::CHECKSUM_PRESENT);
        for end in 0..bytes.len() {
            assert!(Message::decode(&bytes[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn any_changed_byte_of_a_message_with_checksum_is_refused() {
        let bytes = sample(Flags::CHECKSUM_PRESENT);
        for at in HEADER_BYTES + 4..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x55;
            assert!(Message::decode(&changed).is_err(), "changed at {at}");
        }
    }

    #[test]
    fn a_message_with_too_many_sequences_is_refused() {
        let mut bytes = Vec::new();
        let mut message = MessageWriter::begin(&mut bytes, 1, 0).body(&rawdoc! { "ok": 1 });
        for number in 0..=MAX_SEQUENCES {
            message = message.sequence(&number.to_string(), &[]);
        }
        message.end();
        let error = Message::decode(&bytes).err();
        assert_eq!(error, Some(WireError::TooManySequences));
    }

    #[test]
    fn unknown_required_flags_and_invalid_sections_are_refused() {
        let mut bytes = sample(Flags::default());
        bytes[HEADER_BYTES] = 0x04;
        // Bit 2 is a required bit that this driver does not know (MSG-15).
        assert_eq!(
            Message::decode(&bytes).err(),
            Some(WireError::UnknownFlags(4))
        );
        bytes[HEADER_BYTES] = 0;
        bytes[HEADER_BYTES + 3] = 0x80;
        assert!(Message::decode(&bytes).is_ok(), "optional bits are ignored");
        // Section kind 9 does not exist (MSG-10).
        bytes[HEADER_BYTES + 4] = 9;
        assert_eq!(
            Message::decode(&bytes).err(),
            Some(WireError::UnknownSectionKind(9))
        );
        // Two bodies (MSG-5) and two sequences of the same name (MSG-7) are refused.
        let mut two = Vec::new();
        MessageWriter::begin(&mut two, 1, 0)
            .body(&rawdoc! {})
            .body(&rawdoc! {})
            .end();
        assert_eq!(
            Message::decode(&two).err(),
            Some(WireError::BodySections(2))
        );
        let mut twice = Vec::new();
        MessageWriter::begin(&mut twice, 1, 0)
            .body(&rawdoc! {})
            .sequence("a", &[])
            .sequence("a", &[])
            .end();
        assert_eq!(
            Message::decode(&twice).err(),
            Some(WireError::DuplicateIdentifier)
        );
    }
}
