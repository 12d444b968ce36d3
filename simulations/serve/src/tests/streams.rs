//! Tests of streams of replies on real sockets.

use super::*;
use onionskin_core::unstable::wire::Flags;

#[test]
fn a_stream_waits_for_its_client_and_then_sends_the_whole_cursor() {
    let deployment = Embedded::start(ServeOptions::standalone()).expect("starts");
    let address = addresses(deployment.uri()).remove(0);
    let mut stream = connect(&address).expect("a connection");
    let text = "x".repeat(1_000_000);
    for id in 0..40 {
        let insert = rawdoc! {
            "insert": "c", "documents": [{ "_id": id, "s": text.as_str() }], "$db": "d",
        };
        send_command(&mut stream, &insert).expect("a reply");
    }
    let find = rawdoc! { "find": "c", "batchSize": 0, "$db": "d" };
    let opened = send_command(&mut stream, &find).expect("a reply");
    let cursor = opened.get_document("cursor").expect("a cursor");
    let id = cursor.get_i64("id").expect("an id");
    let get_more = rawdoc! { "getMore": id, "collection": "c", "batchSize": 1, "$db": "d" };
    let mut bytes = Vec::new();
    MessageWriter::begin(&mut bytes, 7, 0)
        .flags(Flags::EXHAUST_ALLOWED)
        .body(&get_more)
        .end();
    stream.write_all(&bytes).expect("sent");
    let (mut decoder, mut answers, mut count) = (FrameDecoder::new(), 7, 0);
    loop {
        if let Some((header, frame)) = decoder.frame().expect("a frame") {
            let message = Message::decode(frame).expect("a message");
            assert_eq!(header.response_to, answers);
            answers = header.request_id;
            count += 1;
            let more = message.flags.contains(Flags::MORE_TO_COME);
            let length = header.length;
            decoder.consume(length);
            if !more {
                break;
            }
            continue;
        }
        let read = stream.read(decoder.spare().expect("room")).expect("bytes");
        assert_ne!(read, 0, "the connection is closed");
        decoder.filled(read);
    }
    assert_eq!(count, 41);
    let most = deployment.status().expect("it runs").most_unsent_bytes;
    // A reply is still added when 1 MiB is unsent.
    assert!(most <= 1_000_000 + 1024 * 1024 + 1000, "{most}");
    let ping = send_command(&mut stream, &rawdoc! { "ping": 1, "$db": "d" });
    assert_eq!(ping.expect("a reply").get_f64("ok").ok(), Some(1.0));
}
