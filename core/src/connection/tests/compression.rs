//! Tests of compressed messages on a connection: replies in pieces, wrong ones, dropped ones.

use super::*;
use crate::{
    compression::{Compression, CompressionPlan},
    connection::{Arrival, Awaited, Transport},
    options::{ClientOptions, Compressor},
    wire::{COMPRESSED_START, CompressedHead, Flags, HEADER_BYTES, Header, MessageWriter, OpCode},
};
use bson::{RawDocumentBuf, rawdoc};

fn plan() -> Arc<CompressionPlan> {
    let mut options = ClientOptions::default();
    options.compressors = Some(Compressor::ALL.to_vec());
    CompressionPlan::new(&options).expect("available compressors")
}

/// Returns the transport of a connection whose handshake has chosen zstd.
fn transport() -> Transport {
    let mut transport = Transport::for_handshake(Vec::new(), Some(plan()));
    transport.set_max_bytes(MAX_MESSAGE_BYTES);
    transport.negotiate_compression(&["zstd".to_owned()]);
    assert_eq!(transport.compressor(), Some(Compressor::Zstd));
    transport
}

fn document(n: i32) -> RawDocumentBuf {
    let text = "onion ".repeat(usize::try_from(n).expect("a number") * 50);
    rawdoc! { "ok": 1, "n": n, "text": text }
}

/// Returns the reply to the request with this id, compressed by the compressor with this number;
/// uncompressed for `None`.
fn reply(id: i32, compressor: Option<u8>, flags: Flags) -> Vec<u8> {
    let mut plain = Vec::new();
    MessageWriter::begin(&mut plain, id + 100, id)
        .flags(flags)
        .body(&document(id))
        .end();
    let Some(number) = compressor else {
        return plain;
    };
    match Compressor::ALL.into_iter().find(|c| c.id() == number) {
        Some(compressor) => {
            let mut state = Compression::new(plan());
            state.negotiate(&[compressor.name().to_owned()]);
            let mut out = Vec::new();
            state.pack(&plain, MAX_MESSAGE_BYTES, &mut out);
            out
        }
        None => with_head(&plain, OpCode::Msg, plain.len() - HEADER_BYTES, number),
    }
}

/// Wraps a message, without compressing it, in an OP_COMPRESSED message with this head.
fn with_head(plain: &[u8], original: OpCode, uncompressed: usize, compressor: u8) -> Vec<u8> {
    let header = Header::decode(plain, MAX_MESSAGE_BYTES).expect("a message");
    let outer = Header {
        length: COMPRESSED_START + plain.len() - HEADER_BYTES,
        op_code: OpCode::Compressed,
        ..header
    };
    let mut bytes = outer.to_bytes().to_vec();
    let head = CompressedHead {
        original,
        uncompressed,
        compressor,
    };
    head.encode(&mut bytes);
    bytes.extend_from_slice(&plain[HEADER_BYTES..]);
    bytes
}

/// The replies to the requests 1 to 8, in each form.
fn replies() -> Vec<u8> {
    let forms = [
        Some(3),
        None,
        Some(0),
        Some(1),
        Some(2),
        None,
        Some(3),
        Some(1),
    ];
    let all = forms.iter().zip(1..);
    all.flat_map(|(form, id)| reply(id, *form, Flags::default()))
        .collect()
}

/// The connection has negotiated zstd, and accepts each announced compressor (COMP-6).
#[test]
fn replies_of_each_form_arrive_in_pieces_of_any_size() {
    let bytes = replies();
    for step in (1..40).chain([100, 1000, bytes.len()]) {
        let mut transport = transport();
        let mut id = 1;
        for piece in bytes.chunks(step) {
            transport.receive(piece).expect("no layer fails");
            while id <= 8 {
                let mut awaited = Awaited::Reply(id);
                let arrival = transport.next(&mut awaited).expect("valid replies");
                let Arrival::Whole(message) = arrival else {
                    break;
                };
                assert_eq!(message.body, &*document(id), "step {step}");
                let place = message.place;
                let body = transport.body(&place);
                assert_eq!(body, Some(document(id).as_bytes()));
                // A reply is consumed, or moved out with its buffer.
                if id % 2 == 0 {
                    transport.consume(place.length);
                } else {
                    let (buffer, frame) = transport.take_frame(place.length);
                    let body = &buffer[frame][place.body];
                    assert_eq!(body, document(id).as_bytes());
                }
                id += 1;
            }
        }
        assert_eq!(id, 9, "step {step}");
        assert!(!transport.has_input() && transport.ended().is_ok());
    }
}

#[test]
fn each_connection_has_its_own_compressor() {
    // COMP-22.
    let plan = plan();
    let [mut one, mut other] =
        [(); 2].map(|()| Transport::for_handshake(Vec::new(), Some(plan.clone())));
    one.negotiate_compression(&["zlib".to_owned()]);
    other.negotiate_compression(&["snappy".to_owned(), "zlib".to_owned()]);
    assert_eq!(one.compressor(), Some(Compressor::Zlib));
    assert_eq!(other.compressor(), Some(Compressor::Snappy));
}

/// A fault at each byte of a compressed reply is a typed error, or changes its content only.
#[test]
fn a_fault_at_each_byte_of_a_compressed_reply_is_found_or_changes_its_content() {
    for compressor in Compressor::ALL {
        let whole = reply(1, Some(compressor.id()), Flags::default());
        for offset in 0..whole.len() {
            let mut cut = transport();
            cut.receive(&whole[..offset]).expect("no layer fails");
            let arrival = cut.next(&mut Awaited::Reply(1));
            assert!(matches!(arrival, Ok(Arrival::Pending)), "{offset}");
            for change in [0x01, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[offset] ^= change;
                let mut transport = transport();
                transport.receive(&bytes).expect("no layer fails");
                match transport.next(&mut Awaited::Reply(1)) {
                    // A length that is too large needs more bytes.
                    Ok(Arrival::Pending) => assert!(offset < 4, "{compressor:?} {offset}"),
                    // The request id of the reply, or bytes without a checksum.
                    Ok(_) => assert!(
                        (4..8).contains(&offset) || offset >= COMPRESSED_START,
                        "{compressor:?} {offset}"
                    ),
                    Err(error) => assert!(
                        matches!(error.kind(), ErrorKind::InvalidResponse { .. }),
                        "{compressor:?} {offset}: {error}"
                    ),
                }
            }
        }
    }
}

/// A reply in the buffer is input, whether it was decompressed or not.
#[test]
fn a_reply_that_was_not_consumed_is_input() {
    let mut transport = transport();
    transport
        .receive(&reply(1, Some(1), Flags::default()))
        .expect("no layer fails");
    for _ in 0..2 {
        assert!(transport.has_input());
        let arrival = transport.next(&mut Awaited::Reply(1)).expect("valid");
        assert!(matches!(arrival, Arrival::Whole(_)));
    }
    assert!(transport.has_input());
}

/// A wrong message is refused once its head has arrived, for example one that is no OP_MSG once it
/// is decompressed (COMP-17). The fault of the flags is found when the
/// message was decompressed.
#[test]
fn wrong_compressed_messages_are_refused() {
    let flags = Flags::default();
    let plain = reply(1, None, flags);
    let size = plain.len() - HEADER_BYTES;
    let more = reply(1, Some(2), Flags::MORE_TO_COME);
    let whole = more.len();
    for (name, bytes, needed, awaited) in [
        (
            "another request",
            reply(2, Some(1), flags),
            25,
            Awaited::Reply(1),
        ),
        ("no request", reply(2, Some(1), flags), 16, Awaited::Nothing),
        (
            "unknown",
            with_head(&plain, OpCode::Msg, size, 9),
            25,
            Awaited::Reply(1),
        ),
        (
            "nested",
            with_head(&plain, OpCode::Compressed, size, 0),
            25,
            Awaited::Reply(1),
        ),
        (
            "too large",
            with_head(&plain, OpCode::Msg, 48_000_000, 1),
            25,
            Awaited::Reply(1),
        ),
        (
            "another kind",
            with_head(&plain, OpCode::Reply, size, 0),
            25 + size,
            Awaited::Reply(1),
        ),
        (
            "another size",
            with_head(&plain, OpCode::Msg, size + 1, 0),
            25 + size,
            Awaited::Reply(1),
        ),
        ("more to come", more, whole, Awaited::Reply(1)),
    ] {
        let mut transport = transport();
        transport.receive(&bytes[..needed]).expect("no layer fails");
        let error = transport.next(&mut awaited.clone()).expect_err(name);
        assert!(
            matches!(error.kind(), ErrorKind::InvalidResponse { .. }),
            "{name}: {error}"
        );
    }
}

/// Compressed messages are refused on a connection of a client without compressors, and after a
/// hello reply without a common one (COMP-21).
#[test]
fn a_compressed_reply_needs_negotiation() {
    let bytes = reply(1, Some(1), Flags::default());
    let mut none = Transport::new(Vec::new());
    let mut off = transport();
    off.negotiate_compression(&["lz4".to_owned()]);
    for transport in [&mut none, &mut off] {
        transport.receive(&bytes).expect("no layer fails");
        let error = transport
            .next(&mut Awaited::Reply(1))
            .expect_err("it is refused");
        assert!(
            matches!(error.kind(), ErrorKind::InvalidResponse { .. }),
            "{error}"
        );
    }
}

/// A compressed reply that nobody reads is dropped as it arrives.
#[test]
fn a_discarded_reply_is_not_decompressed() {
    let mut bytes = reply(90, Some(0), Flags::default());
    let length = bytes.len();
    // The compressed bytes are no valid message.
    bytes[COMPRESSED_START..].fill(0xff);
    bytes.extend(reply(91, Some(3), Flags::default()));
    for step in [1, 24, 25, 26, 1000] {
        let mut transport = transport();
        let mut awaited = Awaited::Discarded(90);
        for piece in bytes[..length].chunks(step) {
            transport.receive(piece).expect("no layer fails");
            match transport.next(&mut awaited).expect("valid") {
                Arrival::Pending => assert!(transport.buffered_bytes() < COMPRESSED_START),
                Arrival::Dropped => assert!(!transport.has_input()),
                Arrival::Whole(_) | Arrival::Unpacking => panic!("nobody reads it"),
            }
        }
        transport.receive(&bytes[length..]).expect("no layer fails");
        let arrival = transport.next(&mut Awaited::Reply(91)).expect("valid");
        assert!(matches!(arrival, Arrival::Whole(message) if message.body == &*document(91)));
    }
}

/// The reply of an operation that ends while the reply is decompressed is dropped, and the
/// connection stays usable.
#[test]
fn a_reply_that_was_decompressed_in_part_is_discarded() {
    let mut plain = Vec::new();
    MessageWriter::begin(&mut plain, 1, 5)
        .body(&rawdoc! { "ok": 1, "x": "x".repeat(3_000_000) })
        .end();
    for compressor in ["zlib", "zstd"] {
        let mut state = Compression::new(plan());
        state.negotiate(&[compressor.to_owned()]);
        let mut bytes = Vec::new();
        state.pack(&plain, MAX_MESSAGE_BYTES, &mut bytes);
        let mut transport = transport();
        transport.receive(&bytes).expect("no layer fails");
        let arrival = transport.next(&mut Awaited::Reply(5)).expect("valid");
        assert!(matches!(arrival, Arrival::Unpacking), "{compressor}");
        assert!(transport.is_unpacking() && transport.has_input());
        let arrival = transport.next(&mut Awaited::Discarded(5)).expect("valid");
        assert!(matches!(arrival, Arrival::Dropped), "{compressor}");
        assert!(!transport.is_unpacking() && !transport.has_input());
        let next = reply(6, Some(3), Flags::default());
        transport.receive(&next).expect("no layer fails");
        let arrival = transport.next(&mut Awaited::Reply(6)).expect("valid");
        assert!(matches!(arrival, Arrival::Whole(message) if message.body == &*document(6)));
    }
}

/// Replies of a stream are compressed as other replies are, and each answers the one before it
/// (COMP-25).
#[test]
fn a_stream_of_compressed_replies_is_followed() {
    let mut transport = transport();
    let mut id = 1;
    for form in [Some(1), None, Some(3), Some(2), Some(0)] {
        transport
            .receive(&reply(id, form, Flags::MORE_TO_COME))
            .expect("no layer fails");
        let Ok(Arrival::Whole(message)) = transport.next(&mut Awaited::Stream(id)) else {
            panic!("a reply");
        };
        assert!(message.more_to_come);
        id = message.request_id;
        let length = message.place.length;
        transport.consume(length);
    }
}

/// A request is sent as it is if it must not be compressed, or if its compressed form exceeds the
/// limit of the server.
#[test]
fn requests_are_compressed_only_if_they_may_be() {
    let mut transport = transport();
    let write = |buffer: &mut Vec<u8>| {
        MessageWriter::begin(buffer, 1, 0).body(&document(9)).end();
    };
    transport.send(write);
    let plain = transport.output().len();
    transport.sent(plain);
    transport.send_compressed(MAX_MESSAGE_BYTES, write);
    let packed = transport.output().len();
    assert!(packed < plain / 2, "{packed} of {plain}");
    assert!(transport.retract_request(), "nothing was written");
    transport.send_compressed(50, write);
    assert_eq!(
        transport.output().len(),
        plain,
        "the server accepts 50 bytes"
    );
}

/// Compressed replies of a few bytes can have 128 KiB each. A monitor's connection does not
/// decompress all of an input at once, because it is read under the client's lock.
#[test]
fn the_size_of_the_replies_in_one_input_is_limited() {
    let send = |count: usize, bytes: usize| {
        let padding = "x".repeat(bytes);
        let mut options = options();
        options.compression = Some(plan());
        let mut connection = dialled(ConnectionPurpose::Monitor, options);
        let mut auth = auth();
        connection.handle_connected(Instant::ZERO, &mut auth);
        let mut reply_to = |connection: &mut Connection, bodies: &[RawDocumentBuf]| {
            let mut request = Vec::new();
            assert!(connection.poll_transmit(&mut request));
            let header = Header::decode(&request, MAX_MESSAGE_BYTES).expect("a request");
            let mut state = Compression::new(plan());
            state.negotiate(&["zstd".to_owned()]);
            let mut input = Vec::new();
            let mut response_to = header.request_id;
            for (id, body) in (100..).zip(bodies) {
                let mut plain = Vec::new();
                MessageWriter::begin(&mut plain, id, response_to)
                    .flags(if bodies.len() > 1 {
                        Flags::MORE_TO_COME
                    } else {
                        Flags::default()
                    })
                    .body(body)
                    .end();
                response_to = id;
                state.pack(&plain, MAX_MESSAGE_BYTES, &mut input);
            }
            connection.handle_received(Instant::ZERO, &input, &mut auth);
            input.len()
        };
        let hello = rawdoc! { "ok": 1, "isWritablePrimary": true, "compression": ["zstd"] };
        reply_to(&mut connection, &[hello]);
        let version = crate::error::TopologyVersion {
            process_id: bson::oid::ObjectId::from_bytes([1; 12]),
            counter: 1,
        };
        let awaitable = Some((version, Duration::from_secs(10)));
        connection.check(Instant::ZERO, false, awaitable);
        let check = rawdoc! { "ok": 1, "isWritablePrimary": true, "padding": padding.as_str() };
        let bytes = reply_to(&mut connection, &vec![check; count]);
        assert!(bytes < 200 * count, "{bytes}");
        let (mut checked, mut failed) = (0, false);
        while let Some(output) = connection.poll_output() {
            match output {
                Output::Checked { .. } => checked += 1,
                Output::Failed { error, .. } => {
                    assert!(matches!(error.kind(), ErrorKind::InvalidResponse { .. }));
                    failed = true;
                }
                _ => {}
            }
        }
        (checked, failed)
    };
    assert_eq!(send(1, 100_000), (1, false));
    assert_eq!(send(75, 100_000), (2, true));
    assert_eq!(send(1, 140_000), (0, true), "over the limit of one message");
}
