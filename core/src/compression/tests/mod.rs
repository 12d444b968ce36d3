//! Tests of compressed messages, without a connection.

use super::*;
use crate::{
    options::{ClientOptions, Compressor},
    wire::{COMPRESSED_START, CompressedHead, HEADER_BYTES, Header, MessageWriter, OpCode},
};
use bson::rawdoc;
use proptest::prelude::*;
use std::sync::Arc;

mod work;

const LIMIT: usize = 48_000_000;

fn plan(compressors: &[Compressor], level: i32) -> Arc<CompressionPlan> {
    let mut options = ClientOptions::default();
    options.compressors = Some(compressors.to_vec());
    options.zlib_compression_level = Some(level);
    CompressionPlan::new(&options).expect("available compressors")
}

/// Returns the state of a connection that has agreed on this compressor.
fn agreed(compressor: Compressor) -> Compression {
    let mut found = Compression::new(plan(&Compressor::ALL, -1));
    found.negotiate(&[compressor.name().to_owned()]);
    assert_eq!(found.chosen(), Some(compressor));
    found
}

/// Returns a message with these bytes after its header.
fn message(body: &[u8]) -> Vec<u8> {
    let header = Header {
        length: HEADER_BYTES + body.len(),
        request_id: 7,
        response_to: 5,
        op_code: OpCode::Msg,
    };
    [&header.to_bytes(), body].concat()
}

/// Returns a compressed message with this head and these compressed bytes.
fn compressed(head: CompressedHead, bytes: &[u8]) -> Vec<u8> {
    let header = Header {
        length: COMPRESSED_START + bytes.len(),
        request_id: 7,
        response_to: 5,
        op_code: OpCode::Compressed,
    };
    let mut frame = header.to_bytes().to_vec();
    head.encode(&mut frame);
    frame.extend_from_slice(bytes);
    frame
}

fn unpack(state: &mut Compression, frame: &[u8]) -> Result<Vec<u8>, String> {
    let header = Header::decode(frame, LIMIT).map_err(|error| error.to_string())?;
    let head = state.head(&header, frame, LIMIT);
    let head = head.map_err(|error| error.to_string())?;
    let head = head.ok_or("the head is not complete")?;
    while !state
        .unpack(&header, &head, frame)
        .map_err(|error| error.to_string())?
    {}
    Ok(state.take_unpacked().expect("a message"))
}

fn packed(state: &mut Compression, message: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    state.pack(message, LIMIT, &mut out);
    out
}

/// The fields of a compressed message have the places and sizes of the specification, and ids are
/// those of the compressed message.
#[test]
fn a_compressed_message_has_the_specified_form() {
    // COMP-11 to COMP-16, COMP-24.
    let body = [b'x'; 1000];
    let plain = message(&body);
    for (compressor, id) in [
        (Compressor::Snappy, 1),
        (Compressor::Zlib, 2),
        (Compressor::Zstd, 3),
    ] {
        let frame = packed(&mut agreed(compressor), &plain);
        let number = |at: usize| {
            let bytes = frame[at..at + 4].try_into().expect("4 bytes");
            i32::from_le_bytes(bytes)
        };
        let length = i32::try_from(frame.len()).expect("small");
        let fields = [0, 4, 8, 12, 16, 20].map(number);
        assert_eq!(fields, [length, 7, 5, 2012, 2013, 1000]);
        assert_eq!(frame[24], id);
        assert!(frame.len() < 100, "{compressor:?}: {length}");
        assert_eq!(unpack(&mut agreed(compressor), &frame), Ok(plain.clone()));
    }
}

/// The bytes are those of other implementations of each format (COMP-31).
#[test]
fn formats_are_blocks_streams_and_frames() {
    let text = b"onionskin onionskin onionskin onionskin ";
    let plain = message(text);
    for (compressor, hex) in [
        // Made with Google's snappy, with zlib of Python, and with the command zstd.
        (Compressor::Snappy, "28246f6e696f6e736b696e20760a00"),
        (
            Compressor::Zlib,
            "789ccbcfcbcccf2bcececc53c8c7cb02004b430fe1",
        ),
        (
            Compressor::Zstd,
            "28b52ffd2028850000506f6e696f6e736b696e200100150b12",
        ),
    ] {
        let head = CompressedHead {
            original: OpCode::Msg,
            uncompressed: text.len(),
            compressor: compressor.id(),
        };
        let frame = compressed(head, &hex::decode(hex));
        let found = unpack(&mut agreed(compressor), &frame);
        assert_eq!(found, Ok(plain.clone()), "{compressor:?}");
    }
}

mod hex {
    pub(super) fn decode(text: &str) -> Vec<u8> {
        let digits = text.as_bytes().chunks(2);
        let byte = |pair: &[u8]| {
            let pair = std::str::from_utf8(pair).expect("ASCII");
            u8::from_str_radix(pair, 16).expect("digits")
        };
        digits.map(byte).collect()
    }
}

#[test]
fn the_first_compressor_of_the_client_that_the_server_has_is_chosen() {
    // COMP-3 to COMP-5: the order is that of the client.
    use Compressor::{Snappy, Zlib, Zstd};
    let names = |names: &[&str]| names.iter().map(|&n| n.to_owned()).collect::<Vec<_>>();
    for (server, chosen) in [
        (&["snappy", "zlib", "zstd"][..], Some(Zlib)),
        (&["snappy"], Some(Snappy)),
        (&["zstd", "snappy"], Some(Zstd)),
        (&["Zlib", "lz4"], None),
        (&[], None),
    ] {
        let plan = plan(&[Zlib, Zstd, Snappy], -1);
        assert_eq!(plan.names(), ["zlib", "zstd", "snappy"]);
        assert_eq!(plan.choose(&names(server)), chosen, "{server:?}");
    }
    let mut none = ClientOptions::default();
    assert_eq!(CompressionPlan::new(&none), None);
    none.compressors = Some(vec![]);
    assert_eq!(CompressionPlan::new(&none), None);
}

/// Before the hello is answered, and later, a peer uses only compressors that were announced. After
/// a hello without a common compressor, it uses none.
#[test]
fn only_announced_compressors_are_accepted() {
    // COMP-6, COMP-15, COMP-21, COMP-26.
    let plain = message(b"body");
    let of = |compressor, bytes: &[u8]| {
        let head = CompressedHead {
            original: OpCode::Msg,
            uncompressed: 4,
            compressor,
        };
        compressed(head, bytes)
    };
    let mut state = Compression::new(plan(&[Compressor::Snappy], -1));
    assert_eq!(state.chosen(), None, "no request is compressed yet");
    assert_eq!(packed(&mut state, &plain), plain);
    for _ in 0..2 {
        assert_eq!(unpack(&mut state, &of(0, b"body")), Ok(plain.clone()));
        for id in [2, 3, 4, 255] {
            let error = unpack(&mut state, &of(id, b"body")).expect_err("not announced");
            assert!(error.contains("which was not announced"), "{error}");
        }
        state.negotiate(&["snappy".to_owned()]);
    }
    state.negotiate(&[]);
    assert_eq!(packed(&mut state, &plain), plain);
    assert!(unpack(&mut state, &of(0, b"body")).is_err());
}

#[test]
fn malformed_messages_are_refused_before_memory_is_allocated() {
    // COMP-26, COMP-27.
    let text = [b'y'; 300];
    for compressor in Compressor::ALL {
        let mut state = agreed(compressor);
        let whole = packed(&mut state, &message(&text));
        let with = |at: usize, number: i32| {
            let mut frame = whole.clone();
            frame[at..at + 4].copy_from_slice(&number.to_le_bytes());
            frame
        };
        let cut = |count: usize| {
            let mut frame = whole[..whole.len() - count].to_vec();
            let length = i32::try_from(frame.len()).expect("small");
            frame[..4].copy_from_slice(&length.to_le_bytes());
            frame
        };
        let mut longer = whole.clone();
        longer.push(0);
        longer[0] += 1;
        let mut noise = whole.clone();
        noise[COMPRESSED_START..].fill(0xf9);
        for (name, frame, expected) in [
            ("larger", with(20, 301), ""),
            ("smaller", with(20, 299), ""),
            ("empty", with(20, 0), ""),
            ("negative", with(20, -1), "its size is negative"),
            ("huge", with(20, i32::MAX), "over the limit"),
            ("over the limit", with(20, 47_999_985), "over the limit"),
            ("large", with(20, 47_000_000), ""),
            ("nested", with(16, 2012), "a compressed message in a"),
            ("another kind", with(16, 99), "operation code 99"),
            ("cut", cut(1), ""),
            ("cut more", cut(8), ""),
            ("only a head", cut(whole.len() - COMPRESSED_START), ""),
            (
                "no head",
                cut(whole.len() - COMPRESSED_START + 1),
                "ends within",
            ),
            ("longer", longer, ""),
            ("noise", noise, ""),
        ] {
            let error = unpack(&mut state, &frame).expect_err(name);
            assert!(error.contains(expected), "{compressor:?}, {name}: {error}");
        }
        // The state is usable after each error.
        assert_eq!(unpack(&mut state, &whole), Ok(message(&text)));
    }
}

/// The head of a message is checked as soon as it has arrived.
#[test]
fn a_head_that_has_not_arrived_is_awaited() {
    let mut state = agreed(Compressor::Zlib);
    let frame = packed(&mut state, &message(&[0; 100]));
    let header = Header::decode(&frame, LIMIT).expect("a header");
    for count in HEADER_BYTES..frame.len() {
        let head = state.head(&header, &frame[..count], LIMIT).expect("valid");
        assert_eq!(head.is_some(), count >= COMPRESSED_START, "{count}");
    }
}

#[test]
fn a_message_that_would_exceed_the_limit_is_sent_uncompressed() {
    // Random bytes grow a little when they are compressed.
    let plain = message(&noise(5000));
    for compressor in Compressor::ALL {
        let mut state = agreed(compressor);
        let mut out = b"before".to_vec();
        state.pack(&plain, plain.len(), &mut out);
        assert_eq!(out, [b"before", &*plain].concat(), "{compressor:?}");
        let frame = packed(&mut state, &plain);
        assert!(frame.len() > plain.len(), "{compressor:?}");
        assert_eq!(unpack(&mut state, &frame), Ok(plain.clone()));
    }
}

#[test]
fn secret_commands_and_hellos_are_never_compressed() {
    // COMP-18, and the traps about letter case.
    for name in [
        "hello",
        "isMaster",
        "ismaster",
        "saslStart",
        "saslContinue",
        "getnonce",
        "authenticate",
        "createUser",
        "updateUser",
        "copydbSaslStart",
        "copydbgetnonce",
        "copydb",
        "HELLO",
    ] {
        assert!(!is_compressible(name), "{name}");
    }
    for name in [
        "ping",
        "find",
        "insert",
        "getMore",
        "serverStatus",
        "hellos",
        "",
    ] {
        assert!(is_compressible(name), "{name}");
    }
}

#[test]
fn levels_are_those_of_zlib() {
    // COMP-9, COMP-10: level 0 stores, 9 compresses best, and other compressors ignore the level.
    let text: Vec<u8> = (0..20_000_u32)
        .flat_map(|n| format!("{{ name: {}, born: {} }}", n.pow(2) % 977, n % 89).into_bytes())
        .collect();
    let size = |compressor: Compressor, level| {
        let mut state = Compression::new(plan(&[compressor], level));
        state.negotiate(&[compressor.name().to_owned()]);
        let frame = packed(&mut state, &message(&text));
        assert_eq!(unpack(&mut state, &frame), Ok(message(&text)), "{level}");
        frame.len()
    };
    let sizes = [0, 1, 6, 9].map(|level| size(Compressor::Zlib, level));
    assert!(sizes[0] > text.len(), "stored");
    assert!(sizes[1] > sizes[2] && sizes[2] >= sizes[3], "{sizes:?}");
    assert_eq!(size(Compressor::Zlib, -1), sizes[2], "the default is 6");
    for compressor in [Compressor::Snappy, Compressor::Zstd] {
        assert_eq!(size(compressor, 0), size(compressor, 9), "{compressor:?}");
    }
}

/// A workspace can serve connections of different clients.
#[test]
fn the_workspace_has_no_influence_on_the_bytes() {
    let mut lent = Workspace::default();
    let body: Vec<u8> = (0..3000_u32).flat_map(|n| (n % 97).to_le_bytes()).collect();
    let plain = message(&body);
    for level in [-1, 1, 9, 1] {
        for compressor in Compressor::ALL {
            let state = || {
                let mut state = Compression::new(plan(&[compressor], level));
                state.negotiate(&[compressor.name().to_owned()]);
                state
            };
            let (mut with, mut without) = (state(), state());
            with.swap_workspace(&mut lent);
            let frame = packed(&mut with, &plain);
            assert_eq!(frame, packed(&mut without, &plain), "{compressor:?}");
            assert_eq!(unpack(&mut with, &frame), Ok(plain.clone()));
            with.swap_workspace(&mut lent);
        }
    }
}

/// Returns `count` bytes that repeat, depending on the step.
fn pattern(count: usize, step: u16) -> Vec<u8> {
    let bytes = (0..).step_by(usize::from(step) + 1);
    bytes
        .take(count)
        .map(|n: usize| n.to_le_bytes()[0])
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn decompression_reverses_compression(
        body in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..2000),
            (any::<u8>(), 0_usize..300_000).prop_map(|(byte, count)| vec![byte; count]),
            // Around the sizes of blocks: 64 KiB of snappy, 128 KiB of zstd.
            (65_000_usize..66_000, any::<u16>()).prop_map(|(n, step)| pattern(n, step)),
            (131_000_usize..132_000, any::<u16>()).prop_map(|(n, step)| pattern(n, step)),
        ],
        which in 0_usize..3,
    ) {
        let compressor = Compressor::ALL[which];
        let mut state = agreed(compressor);
        let plain = message(&body);
        let frame = packed(&mut state, &plain);
        prop_assert_eq!(unpack(&mut state, &frame), Ok(plain));
    }

    #[test]
    fn noise_is_an_error_or_a_message_of_the_stated_size(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        size in 0_usize..100_000,
        id in 0_u8..5,
    ) {
        let head = CompressedHead { original: OpCode::Msg, uncompressed: size, compressor: id };
        let mut state = agreed(Compressor::Zstd);
        if let Ok(message) = unpack(&mut state, &compressed(head, &bytes)) {
            prop_assert_eq!(message.len(), HEADER_BYTES + size);
        }
    }
}

/// Returns random bytes, which no compressor can shorten.
fn noise(count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    crate::random::Seed::new([3; 32]).random().fill(&mut bytes);
    bytes
}

/// Sizes of messages without their header: small ones, and those around the blocks of snappy and
/// zstd.
#[test]
fn decompression_reverses_compression_for_each_size() {
    let sizes = (0..300).chain(65_520..65_560).chain(131_056..131_096);
    for (size, compressor) in sizes.flat_map(|size| Compressor::ALL.map(|c| (size, c))) {
        let mut state = agreed(compressor);
        for body in [vec![0; size], noise(size)] {
            let plain = message(&body);
            let frame = packed(&mut state, &plain);
            assert_eq!(
                unpack(&mut state, &frame),
                Ok(plain),
                "{compressor:?} {size}"
            );
        }
    }
}

#[test]
fn no_frame_exceeds_the_limit_for_each_size_around_it() {
    // COMP-26. The head of a compressed message has 9 bytes more than that of a plain one.
    const MAX: usize = 4096;
    for (size, compressor) in
        (MAX - 40..MAX + 40).flat_map(|size| Compressor::ALL.map(|c| (size, c)))
    {
        for body in [vec![0; size - HEADER_BYTES], noise(size - HEADER_BYTES)] {
            let plain = message(&body);
            let (mut state, mut frame) = (agreed(compressor), Vec::new());
            state.pack(&plain, MAX, &mut frame);
            let is_compressed = frame[12..16] == OpCode::Compressed.code().to_le_bytes();
            assert!(
                frame.len() <= MAX || !is_compressed,
                "{compressor:?} {size}"
            );
            if !is_compressed {
                assert_eq!(frame, plain);
                continue;
            }
            let header = Header::decode(&frame, MAX).expect("a short frame");
            // The limit holds for the decompressed message also.
            let head = state.head(&header, &frame, MAX);
            assert_eq!(head.is_ok(), size <= MAX, "{compressor:?} {size}");
            if let Ok(head) = head {
                let head = head.expect("a whole head");
                assert!(state.unpack(&header, &head, &frame).expect("a message"));
                assert_eq!(state.take_unpacked(), Some(plain));
            }
        }
    }
}

/// A message of the largest size passes through each compressor.
#[test]
fn a_message_of_the_largest_size_is_compressed() {
    let mut plain = Vec::new();
    let large = rawdoc! { "x": "x".repeat(16_000_000) };
    MessageWriter::begin(&mut plain, 1, 0)
        .body(&rawdoc! { "insert": "c" })
        .sequence("documents", [large.as_bytes(); 2].concat().as_slice())
        .end();
    for compressor in Compressor::ALL {
        let mut state = agreed(compressor);
        let frame = packed(&mut state, &plain);
        assert!(frame.len() < 2_000_000);
        assert_eq!(unpack(&mut state, &frame).as_ref(), Ok(&plain));
    }
}
