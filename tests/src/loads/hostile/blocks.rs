//! Compressed messages whose blocks cost much for their bytes. Their content is no message.

use onionskin_core::{
    options::{ClientOptions, Compressor},
    unstable::{
        compression::{Compression, CompressionPlan},
        wire::{COMPRESSED_START, CompressedHead, HEADER_BYTES, Header, OpCode},
    },
};

/// The size in bytes of the content that the client requires for each block on average.
const BLOCK_CONTENT: usize = 2048;

/// The size in bytes of the largest content: that of the longest message that is accepted in a
/// handshake once it is decompressed.
const MAX_HANDSHAKE_CONTENT: usize = 128 * 1024 - HEADER_BYTES;

/// Returns a message with empty blocks of fixed codes, which is refused.
pub(super) fn empty_zlib(bytes: usize) -> Vec<u8> {
    let mut bits = Bits::zlib();
    while bits.bytes.len() < bytes - COMPRESSED_START {
        bits.put(0b010, 3);
        bits.put(0, 7);
    }
    message(Compressor::Zlib, MAX_HANDSHAKE_CONTENT, &bits.bytes)
}

/// Returns a message in which each block has tables and no content, which is refused.
pub(super) fn zlib_tables(bytes: usize) -> Vec<u8> {
    let mut bits = Bits::zlib();
    while bits.bytes.len() < bytes - COMPRESSED_START - 64 {
        bits.block(0);
    }
    message(Compressor::Zlib, MAX_HANDSHAKE_CONTENT, &bits.bytes)
}

/// Returns a message of a handshake with the most blocks that are accepted.
pub(super) fn most_zlib_handshake(bytes: usize) -> Vec<u8> {
    most_zlib(bytes, MAX_HANDSHAKE_CONTENT)
}

/// Returns a reply with the most blocks that are accepted.
pub(super) fn most_zlib_reply(bytes: usize) -> Vec<u8> {
    most_zlib(bytes, bytes)
}

/// Returns a message with `bytes` bytes of content at most, in blocks with tables.
fn most_zlib(bytes: usize, limit: usize) -> Vec<u8> {
    let blocks = bytes.min(limit) / BLOCK_CONTENT;
    let mut bits = Bits::zlib();
    for _ in 0..blocks {
        bits.block(BLOCK_CONTENT / MATCH + 1);
    }
    let content = blocks * (1 + (BLOCK_CONTENT / MATCH + 1) * MATCH);
    message(Compressor::Zlib, content.min(limit), &bits.bytes)
}

/// Returns a message with the most blocks of zstd that are accepted: short ones with tables.
pub(super) fn most_zstd_handshake(bytes: usize) -> Vec<u8> {
    most_zstd(bytes, MAX_HANDSHAKE_CONTENT)
}

/// Returns a reply with the most blocks of zstd that are accepted.
pub(super) fn most_zstd_reply(bytes: usize) -> Vec<u8> {
    most_zstd(bytes, bytes)
}

fn most_zstd(bytes: usize, limit: usize) -> Vec<u8> {
    let limit = bytes.min(limit);
    let words = ["name", "value", "born", "primary", "host", "zone", "true"];
    let text: String = (0..BLOCK_CONTENT as u32)
        .map(|n| words[(n.wrapping_mul(2_654_435_761) >> 16) as usize % words.len()])
        .collect();
    let text = &text.as_bytes()[..BLOCK_CONTENT];
    let block = zstd_block(text);
    let count = limit / BLOCK_CONTENT;
    // The descriptor of a frame of unknown size, and a window of 4 MiB.
    let mut bytes = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0x60];
    for number in 1..=count {
        let last = u8::from(number == count);
        bytes.push(block[0] & !1 | last);
        bytes.extend_from_slice(&block[1..]);
    }
    message(Compressor::Zstd, count * BLOCK_CONTENT, &bytes)
}

/// Returns the only block of a frame of zstd with this content.
fn zstd_block(content: &[u8]) -> Vec<u8> {
    let mut options = ClientOptions::default();
    options.compressors = Some(vec![Compressor::Zstd]);
    let plan = CompressionPlan::new(&options).expect("zstd is enabled");
    let mut compression = Compression::new(plan);
    compression.negotiate(&["zstd".to_owned()]);
    let header = Header {
        length: HEADER_BYTES + content.len(),
        request_id: 1,
        response_to: 0,
        op_code: OpCode::Msg,
    };
    let mut packed = Vec::new();
    let plain = [&header.to_bytes(), content].concat();
    compression.pack(&plain, usize::MAX, &mut packed);
    // Before the block are the number of frames, a descriptor, and a size of two bytes.
    packed[COMPRESSED_START + 4 + 1 + 2..].to_vec()
}

/// Returns a reply of snappy in which each byte is an element of its own.
pub(super) fn snappy_literals(bytes: usize) -> Vec<u8> {
    let count = bytes / 2 - 16;
    let mut packed = Vec::new();
    let mut rest = count;
    while rest >= 128 {
        packed.push((rest % 128) as u8 | 128);
        rest /= 128;
    }
    packed.push(rest as u8);
    packed.extend([0, b'x'].repeat(count));
    message(Compressor::Snappy, count, &packed)
}

/// Returns a compressed message that states this size.
fn message(compressor: Compressor, size: usize, bytes: &[u8]) -> Vec<u8> {
    let header = Header {
        length: COMPRESSED_START + bytes.len(),
        request_id: 1,
        response_to: 0,
        op_code: OpCode::Compressed,
    };
    let mut frame = header.to_bytes().to_vec();
    let head = CompressedHead {
        original: OpCode::Msg,
        uncompressed: size,
        compressor: compressor.id(),
    };
    head.encode(&mut frame);
    frame.extend_from_slice(bytes);
    frame
}

/// The length of the longest match of deflate.
const MATCH: usize = 258;

/// A stream of bits, the lowest first (RFC 1951 section 3.1.1).
struct Bits {
    bytes: Vec<u8>,
    rest: u64,
    count: u32,
}

impl Bits {
    /// Returns the start of a stream of zlib.
    fn zlib() -> Self {
        Self {
            bytes: vec![0x78, 0x9c],
            rest: 0,
            count: 0,
        }
    }

    fn put(&mut self, bits: u64, count: u32) {
        self.rest |= bits << self.count;
        self.count += count;
        while self.count >= 8 {
            self.bytes.push(self.rest.to_le_bytes()[0]);
            self.rest >>= 8;
            self.count -= 8;
        }
    }

    /// Writes a code of Huffman, whose highest bit comes first.
    fn code(&mut self, code: u64, count: u32) {
        for at in (0..count).rev() {
            self.put(code >> at & 1, 1);
        }
    }

    /// Writes a block with tables for 256 symbols of nine bits and two of two bits, with this
    /// number of matches after a literal.
    ///
    /// Lengths of codes: 9 for the literals 0 to 254 and the literal 255, 2 for the end (256) and
    /// for the longest match (285); distances have two codes of one bit.
    fn block(&mut self, matches: usize) {
        // Not the last block, and dynamic codes.
        self.put(0b100, 3);
        // 286 symbols, 2 distances, and 19 lengths of codes of lengths.
        self.put(286 - 257, 5);
        self.put(2 - 1, 5);
        self.put(19 - 4, 4);
        // In the order of the format, the lengths of the codes for: 16 (one bit), 18, 0, 9, 2 and 1
        // (four bits or less, so that the code is complete).
        const ORDER: [usize; 19] = [
            16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15,
        ];
        for symbol in ORDER {
            let length = match symbol {
                16 => 1,
                18 => 2,
                9 => 3,
                1 | 2 => 4,
                _ => 0,
            };
            self.put(length, 3);
        }
        // Codes by length and then by symbol: 16 is 0, 18 is 10, 9 is 110, 1 is 1110, 2 is 1111.
        let (repeat, zeros, nine, one, two) = ((0, 1), (2, 2), (6, 3), (14, 4), (15, 4));
        let put = |bits: &mut Self, (code, count): (u64, u32)| bits.code(code, count);
        // 256 times 9: once, then 42 times six, then three.
        put(self, nine);
        for _ in 0..42 {
            put(self, repeat);
            self.put(3, 2);
        }
        put(self, repeat);
        self.put(0, 2);
        // The end, 28 symbols without a code, and the longest match.
        put(self, two);
        put(self, zeros);
        self.put(28 - 11, 7);
        put(self, two);
        put(self, one);
        put(self, one);
        // Codes of symbols: 256 is 00, 285 is 01, and literals begin with 1.
        if matches > 0 {
            self.code(0b1_0000_0000, 9);
        }
        for _ in 0..matches {
            self.code(0b01, 2);
            self.code(0, 1);
        }
        self.code(0b00, 2);
    }
}
