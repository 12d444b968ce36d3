//! Messages whose bytes were created by PyMongo 4.20.0, with `_op_msg_no_header` of its module
//! `message` and the header packed as `<iiii`. The checksum was computed with the Python package
//! `crc32c`.

use super::{Flags, Header, Message, MessageWriter, OpCode, Section, WireError};
use bson::rawdoc;

/// The bytes of an OP_MSG with the command `ping`, in hexadecimal: `requestID` 7, `responseTo` 5.
const PING: &str = "330000000700000005000000dd07000000000000001e0000001070696e670001000000\
                    02246462000600000061646d696e0000";

/// The same `ping` with a checksum.
const PING_WITH_CHECKSUM: &str = "370000000700000005000000dd07000001000000001e0000001070696e\
                                  67000100000002246462000600000061646d696e00003c735adf";

/// An `insert` of two documents with the request id -2, to which no reply follows.
const INSERT: &str = "5e000000feffffff00000000dd07000002000000001e00000002696e73657274000200\
                      00006300022464620002000000640000012a000000646f63756d656e7473000e000000\
                      105f69640001000000000e000000105f6964000200000000";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().collect();
    let pairs = digits
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).expect("digits"));
    pairs
        .map(|pair| u8::from_str_radix(pair, 16).expect("digits"))
        .collect()
}

#[test]
fn encoded_messages_equal_those_of_pymongo() {
    // Header (MSG-1, MSG-3), flags (MSG-2), sections (MSG-5, MSG-6) and checksum (MSG-16) are
    // encoded as in another driver.
    let ping = rawdoc! { "ping": 1, "$db": "admin" };
    for (flags, expected) in [
        (Flags::default(), PING),
        (Flags::CHECKSUM_PRESENT, PING_WITH_CHECKSUM),
    ] {
        let mut written = Vec::new();
        let message = MessageWriter::begin(&mut written, 7, 5).flags(flags);
        message.body(&ping).end();
        assert_eq!(written, bytes(expected), "{flags:?}");
    }
    let mut written = Vec::new();
    let documents = [rawdoc! { "_id": 1 }, rawdoc! { "_id": 2 }].map(|d| d.into_bytes());
    MessageWriter::begin(&mut written, -2, 0)
        .flags(Flags::MORE_TO_COME)
        .body(&rawdoc! { "insert": "c", "$db": "d" })
        .sequence("documents", &documents.concat())
        .end();
    assert_eq!(written, bytes(INSERT));
}

#[test]
fn messages_of_pymongo_are_decoded() {
    // Messages of another driver are decoded: header (MSG-1, MSG-3), flags (MSG-2), sections
    // (MSG-6) and checksum (MSG-16). The checksum is not a part of the sections (MSG-17).
    for hex in [PING, PING_WITH_CHECKSUM] {
        let frame = bytes(hex);
        let header = Header {
            length: frame.len(),
            request_id: 7,
            response_to: 5,
            op_code: OpCode::Msg,
        };
        assert_eq!(Header::decode(&frame, 100), Ok(header));
        let message = Message::decode(&frame).expect("a message");
        assert_eq!(message.body, &*rawdoc! { "ping": 1, "$db": "admin" });
        assert_eq!(message.sections().count(), 1);
    }
    let frame = bytes(INSERT);
    let header = Header::decode(&frame, 100).expect("a header");
    assert_eq!((header.request_id, header.response_to), (-2, 0));
    let message = Message::decode(&frame).expect("a message");
    assert_eq!(message.flags, Flags::MORE_TO_COME);
    let documents = [rawdoc! { "_id": 1 }, rawdoc! { "_id": 2 }].map(|d| d.into_bytes());
    let sections: Vec<_> = message.sections().collect();
    let sequence = Section::Sequence {
        identifier: "documents",
        documents: &documents.concat(),
    };
    assert_eq!(sections, [Section::Body(message.body), sequence]);
}

#[test]
fn a_wrong_checksum_is_refused() {
    // The flag `checksumPresent` is set, so the last four bytes are a checksum (MSG-16).
    let mut frame = bytes(PING_WITH_CHECKSUM);
    *frame.last_mut().expect("bytes") ^= 1;
    let error = Message::decode(&frame).err();
    assert!(
        matches!(error, Some(WireError::Checksum { .. })),
        "{error:?}"
    );
}
