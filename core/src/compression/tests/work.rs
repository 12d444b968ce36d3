//! Tests of the work that a compressed message can cause.

use super::*;
use crate::compression::unpacking::{SLICE_INPUT_BYTES, SLICE_OUTPUT_BYTES, max_blocks};

/// Returns a message of this compressor with these bytes, which state this size.
fn stated(compressor: Compressor, size: usize, bytes: &[u8]) -> Vec<u8> {
    let head = CompressedHead {
        original: OpCode::Msg,
        uncompressed: size,
        compressor: compressor.id(),
    };
    compressed(head, bytes)
}

/// Returns a stream of zlib with `empty` blocks of fixed codes without content, then a block that
/// stores `text`.
fn zlib_blocks(empty: usize, text: &[u8]) -> Vec<u8> {
    assert_eq!(empty % 4, 0, "four blocks have 5 bytes");
    // The bits of a block, the lowest first: 0 (not the last), 10 (fixed codes), 0000000 (the end).
    let four = [0, 10, 20, 30].iter().fold(0_u64, |sum, at| sum | 2 << at);
    let length = u16::try_from(text.len()).expect("short");
    let (a, b) = text.iter().fold((1_u32, 0_u32), |(a, b), &byte| {
        let a = (a + u32::from(byte)) % 65521;
        (a, (b + a) % 65521)
    });
    [
        &[0x78, 0x9c][..],
        &four.to_le_bytes()[..5].repeat(empty / 4),
        &[1],
        &length.to_le_bytes(),
        &(!length).to_le_bytes(),
        text,
        &(b << 16 | a).to_be_bytes(),
    ]
    .concat()
}

/// Returns a frame of zstd with `empty` blocks without content, then a block that stores `text`.
fn zstd_blocks(empty: usize, text: &[u8]) -> Vec<u8> {
    let length = u8::try_from(text.len()).expect("short");
    let last = u32::from(length) << 3 | 1;
    [
        // The descriptor of a frame with one segment, whose size has one byte.
        &[0x28, 0xb5, 0x2f, 0xfd, 0x20, length][..],
        &[0, 0, 0].repeat(empty),
        &last.to_le_bytes()[..3],
        text,
    ]
    .concat()
}

/// The blocks of a message are bounded by its size, because each of them can cost much more than
/// its bytes. A few empty blocks are accepted.
#[test]
fn a_message_has_no_more_blocks_than_its_size_permits() {
    let text = b"onionskin";
    for (compressor, blocks) in [
        (Compressor::Zlib, zlib_blocks as fn(usize, &[u8]) -> Vec<u8>),
        (Compressor::Zstd, zstd_blocks),
    ] {
        let accepted = stated(compressor, 9, &blocks(8, text));
        assert_eq!(
            unpack(&mut agreed(compressor), &accepted),
            Ok(message(text))
        );
        for empty in [max_blocks(9), 100_000] {
            let refused = stated(compressor, 9, &blocks(empty, text));
            let error = unpack(&mut agreed(compressor), &refused).expect_err("too many");
            assert!(error.contains("more blocks than its size"), "{error}");
        }
    }
    let frames = zstd_blocks(0, b"").repeat(100);
    let refused = stated(Compressor::Zstd, 0, &frames);
    let error = unpack(&mut agreed(Compressor::Zstd), &refused).expect_err("too many");
    assert!(error.contains("more blocks than its size"), "{error}");
}

/// Encoders of each level stay within the bound of blocks, for content of many kinds.
#[test]
fn encoders_make_fewer_blocks_than_are_permitted() {
    let text: Vec<u8> = (0..15_000_u32)
        .flat_map(|n| {
            format!("{{name:\"{}\",born:{}}}", n.wrapping_mul(n) % 977, n % 89).into_bytes()
        })
        .collect();
    for body in [
        text.clone(),
        noise(400_000),
        [text, noise(50_000)].concat().repeat(3),
    ] {
        for level in 0..=9 {
            let mut state = Compression::new(plan(&[Compressor::Zlib], level));
            state.negotiate(&["zlib".to_owned()]);
            let frame = packed(&mut state, &message(&body));
            assert_eq!(unpack(&mut state, &frame), Ok(message(&body)), "{level}");
        }
        for level in [-7, 1, 3, 9, 15, 19, 22] {
            let bytes = ::zstd::bulk::compress(&body, level).expect("a frame");
            let frame = stated(Compressor::Zstd, body.len(), &bytes);
            let found = unpack(&mut agreed(Compressor::Zstd), &frame);
            assert_eq!(found, Ok(message(&body)), "{level}");
        }
    }
}

/// A large message takes several calls, and is the same as if it took one. A message between two
/// calls does not depend on the workspace.
#[test]
fn a_large_message_is_decompressed_in_slices() {
    let mut other = Workspace::default();
    let large = message(
        &[
            vec![7; 3 * SLICE_OUTPUT_BYTES],
            noise(3 * SLICE_INPUT_BYTES),
        ]
        .concat(),
    );
    for (compressor, slices) in [(Compressor::Zlib, 4), (Compressor::Zstd, 4)] {
        let mut state = agreed(compressor);
        let frame = packed(&mut state, &large);
        let header = Header::decode(&frame, LIMIT).expect("a header");
        let head = state.head(&header, &frame, LIMIT).expect("valid");
        let head = head.expect("complete");
        let mut count = 1;
        while !state.unpack(&header, &head, &frame).expect("valid") {
            assert!(state.is_unpacking() && state.unpacked().is_none());
            state.swap_workspace(&mut other);
            count += 1;
        }
        assert!(!state.is_unpacking());
        assert_eq!(
            state.take_unpacked().as_ref(),
            Some(&large),
            "{compressor:?}"
        );
        assert!(count >= slices, "{compressor:?}: {count}");
    }
}

/// Bytes that are cut, or that have another size than stated, fail also in a later slice.
#[test]
fn a_large_message_with_a_wrong_size_is_refused() {
    let large = message(
        &[
            vec![7; 2 * SLICE_OUTPUT_BYTES],
            noise(3 * SLICE_INPUT_BYTES),
        ]
        .concat(),
    );
    for compressor in [Compressor::Zlib, Compressor::Zstd] {
        let mut state = agreed(compressor);
        let frame = packed(&mut state, &large);
        let bytes = &frame[COMPRESSED_START..];
        let size = large.len() - HEADER_BYTES;
        for (name, size, bytes) in [
            ("cut", size, &bytes[..bytes.len() - 9]),
            ("cut in half", size, &bytes[..bytes.len() / 2]),
            ("larger", size + 1, bytes),
            ("smaller", size - 1, bytes),
            ("a slice smaller", SLICE_OUTPUT_BYTES, bytes),
        ] {
            let result = unpack(&mut state, &stated(compressor, size, bytes));
            assert!(result.is_err(), "{compressor:?}, {name}");
            assert!(!state.is_unpacking(), "{compressor:?}, {name}");
        }
        let longer = [bytes, &[0]].concat();
        assert!(unpack(&mut state, &stated(compressor, size, &longer)).is_err());
        assert_eq!(unpack(&mut state, &frame).as_ref(), Ok(&large));
    }
}
