//! Tests of servers that violate the protocol.

use super::{
    Host, client,
    dialing::expect_selection_error,
    end, find, impatient,
    server::{Gate, Request, Server, Step, answer, hello},
    together, until, wait_until_idle,
};
use bson::{Document, doc, rawdoc};
use onionskin_core::{
    error::{Error, ErrorKind, IoError, NetworkFault},
    unstable::wire::{Flags, HEADER_BYTES, MessageWriter},
};
use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Makes a wrong answer to a request from the frame of the right answer.
type CorruptReply = fn(&Request, Vec<u8>) -> Vec<Step>;

/// Replaces the four bytes of a frame from position `at` on by a number. Returns the step that
/// sends the frame.
fn patched(mut frame: Vec<u8>, at: usize, value: i32) -> Vec<Step> {
    frame[at..at + 4].copy_from_slice(&value.to_le_bytes());
    vec![Step::Send(frame)]
}

/// Wrong answers, each with its name. The answers violate the protocol, but no frame is cut.
const WRONG_FRAMES: &[(&str, CorruptReply)] = &[
    ("noise", |_, _| vec![Step::Send(vec![0xff; 64])]),
    ("zeros", |_, _| vec![Step::Send(vec![0; 64])]),
    ("length -1", |_, frame| patched(frame, 0, -1)),
    ("length 0", |_, frame| patched(frame, 0, 0)),
    ("length 15", |_, frame| patched(frame, 0, 15)),
    ("length 16", |_, frame| patched(frame, 0, 16)),
    ("length 48000001", |_, frame| patched(frame, 0, 48_000_001)),
    ("length 2^31-1", |_, frame| patched(frame, 0, i32::MAX)),
    ("length -2^31", |_, frame| patched(frame, 0, i32::MIN)),
    ("another request", |request, frame| {
        patched(frame, 8, request.id ^ 1)
    }),
    ("request 0", |_, frame| patched(frame, 8, 0)),
    ("request -1", |_, frame| patched(frame, 8, -1)),
    ("operation 0", |_, frame| patched(frame, 12, 0)),
    ("operation 2012", |_, frame| patched(frame, 12, 2012)),
    ("operation 2004", |_, frame| patched(frame, 12, 2004)),
    ("operation -1", |_, frame| patched(frame, 12, -1)),
    ("an unknown flag", |_, frame| patched(frame, 16, 4)),
    ("a false checksum", |_, frame| patched(frame, 16, 1)),
    ("more to come", |_, frame| patched(frame, 16, 2)),
    ("section kind 9", |_, mut frame| {
        frame[20] = 9;
        vec![Step::Send(frame)]
    }),
    ("a body that is too long", |_, frame| {
        patched(frame, 21, i32::MAX)
    }),
    ("a body of negative length", |_, frame| {
        patched(frame, 21, -5)
    }),
    ("a body without end", |_, mut frame| {
        *frame.last_mut().expect("a frame") = 1;
        vec![Step::Send(frame)]
    }),
    ("no body", |request, _| {
        let mut frame = Vec::new();
        MessageWriter::begin(&mut frame, 1, request.id).end();
        vec![Step::Send(frame)]
    }),
    ("two bodies", |request, _| {
        let mut frame = Vec::new();
        MessageWriter::begin(&mut frame, 1, request.id)
            .body(&rawdoc! { "ok": 1 })
            .body(&rawdoc! { "ok": 1 })
            .end();
        vec![Step::Send(frame)]
    }),
];

/// The lengths in bytes to which a reply is cut. Minus one cuts the last byte.
const CUTS: [isize; 14] = [0, 1, 4, 7, 8, 12, 15, 16, 17, 20, 21, 23, 25, -1];

fn cut(mut frame: Vec<u8>, at: isize, ending: Step) -> Vec<Step> {
    let length = usize::try_from(at).unwrap_or_else(|_| frame.len() - at.unsigned_abs());
    frame.truncate(length);
    vec![Step::Send(frame), ending]
}

/// Returns the frame that `answer` sends.
fn right_frame(request: &Request) -> Vec<u8> {
    match answer(request).pop() {
        Some(Step::Send(frame)) => frame,
        other => panic!("an answer is one frame, not {other:?}"),
    }
}

fn is_protocol(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::InvalidResponse { .. })
}

fn is_broken(error: &Error) -> bool {
    let faults = [NetworkFault::Closed, NetworkFault::Reset];
    matches!(error.kind(), ErrorKind::Io(IoError { fault, .. }) if faults.contains(fault))
}

/// Runs three finds on one client. The first waits for its reply, and the second gets the answer of
/// `corrupt_reply` and fails. Then the first gets its reply, and the third uses another connection
/// than the second.
async fn check_corrupt_reply<H: Host>(
    name: String,
    corrupt_reply: impl Fn(&Request) -> Vec<Step> + Send + Sync + 'static,
    is_expected: fn(&Error) -> bool,
) {
    let gate = Gate::new();
    let server_gate = gate.clone();
    let server = Server::scripted::<H>(move |request| match request.n() {
        Some(1) => [vec![Step::Hold(server_gate.clone())], answer(request)].concat(),
        Some(2) => corrupt_reply(request),
        _ => answer(request),
    });
    let client = client::<H>(&server.uri("retryReads=false"));
    let waiting = client.clone();
    let is_answered = Arc::new(AtomicBool::new(false));
    let answered = is_answered.clone();
    let first = async move {
        find(&waiting, 1).await.expect("the right reply");
        answered.store(true, Ordering::SeqCst);
    };
    onionskin::Runtime::spawn(&H::runtime(), first);
    until::<H>("the first find", || server.seen("find").len() == 1).await;

    let error = find(&client, 2).await.expect_err("no reply");
    assert!(is_expected(&error), "{name}: {error:?}");
    let address = error.server().map(ToString::to_string);
    assert_eq!(address, Some(server.address()), "{name}: {error:?}");
    gate.open();
    until::<H>("the first reply", || is_answered.load(Ordering::SeqCst)).await;
    find(&client, 3).await.expect("the right reply");
    wait_until_idle::<H>(&client).await;
    let bad = server.seen("find")[1].connection;
    let last = server.seen("find")[2].connection;
    assert_ne!(bad, last, "{name}: the connection was used again");
    end::<H>(client, &server).await;
}

/// A wrong frame fails its operation and closes its connection, and disturbs no other operation.
pub async fn an_invalid_reply_closes_only_its_connection<H: Host>() {
    together::<H, _>(WRONG_FRAMES.iter().map(|&(name, corrupt_reply)| {
        let bad = move |request: &Request| corrupt_reply(request, right_frame(request));
        check_corrupt_reply::<H>(name.to_owned(), bad, is_protocol)
    }))
    .await;
}

/// An incomplete reply fails its operation and closes its connection, and disturbs no other
/// operation.
pub async fn a_truncated_reply_closes_only_its_connection<H: Host>() {
    let endings = [Step::Close, Step::HalfClose, Step::Reset];
    let cases = CUTS
        .iter()
        .flat_map(|&at| endings.iter().map(move |ending| (at, ending.clone())));
    together::<H, _>(cases.map(|(at, ending)| {
        let name = format!("cut at {at}, {ending:?}");
        let bad = move |request: &Request| cut(right_frame(request), at, ending.clone());
        check_corrupt_reply::<H>(name, bad, is_broken)
    }))
    .await;
}

/// A wrong or incomplete reply to `hello` makes server selection fail, with the reason.
pub async fn an_invalid_hello_reply_fails_server_selection<H: Host>() {
    let wrong = WRONG_FRAMES.iter().map(|&(name, corrupt_reply)| {
        let bad = move |request: &Request| corrupt_reply(request, right_frame(request));
        (
            name.to_owned(),
            Box::new(bad) as Box<dyn Fn(&Request) -> Vec<Step> + Send + Sync>,
        )
    });
    let cuts = CUTS.iter().flat_map(|&at| {
        [Step::Close, Step::HalfClose, Step::Reset].map(|ending| {
            let name = format!("cut at {at}, {ending:?}");
            let bad = move |request: &Request| cut(right_frame(request), at, ending.clone());
            (
                name,
                Box::new(bad) as Box<dyn Fn(&Request) -> Vec<Step> + Send + Sync>,
            )
        })
    });
    together::<H, _>(wrong.chain(cuts).map(|(name, bad)| async move {
        let server = Server::scripted::<H>(bad);
        let client = client::<H>(&server.uri(&impatient::<H>("")));
        let cause = expect_selection_error::<H>(&client, &server.address()).await;
        assert!(
            is_protocol(&cause) || is_broken(&cause),
            "{name}: {cause:?}"
        );
        end::<H>(client, &server).await;
    }))
    .await;
}

/// If the server uses another protocol, server selection fails, with the reason. The server sends
/// its first bytes at once, or after it has received bytes of the client.
pub async fn a_server_of_another_protocol_fails_server_selection<H: Host>() {
    const BANNERS: [&[u8]; 4] = [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        b"220 mail.example.net ESMTP ready\r\n",
        b"\x15\x03\x01\x00\x02\x02\x16",
    ];
    together::<H, _>(
        BANNERS
            .into_iter()
            .flat_map(|banner| [(banner, true), (banner, false)])
            .map(|(banner, at_once)| async move {
                let server = Server::raw(move |mut stream: TcpStream| {
                    if !at_once {
                        let _ = stream.read(&mut [0; HEADER_BYTES]);
                    }
                    let _ = stream.write_all(banner);
                    // Ends the stream and waits until the client closes the connection.
                    let _ = stream.shutdown(std::net::Shutdown::Write);
                    let _ = stream.read_to_end(&mut Vec::new());
                });
                let client = client::<H>(&server.uri(&impatient::<H>("")));
                let cause = expect_selection_error::<H>(&client, &server.address()).await;
                assert!(is_protocol(&cause) || is_broken(&cause), "{cause:?}");
                end::<H>(client, &server).await;
            }),
    )
    .await;
}

/// If the server resets each accepted connection, server selection fails, with the reason.
pub async fn an_immediate_reset_fails_server_selection<H: Host>() {
    let server = Server::raw(|stream: TcpStream| {
        // Closing a socket with unread bytes resets it.
        let _ = stream.peek(&mut [0]);
    });
    let client = client::<H>(&server.uri(&impatient::<H>("")));
    let cause = expect_selection_error::<H>(&client, &server.address()).await;
    assert!(is_broken(&cause), "{cause:?}");
    end::<H>(client, &server).await;
}

/// If the monitor's connection works and every connection of the pool fails, an operation fails
/// within `WAIT_LIMIT`. The error names the server.
pub async fn an_operation_fails_if_only_the_monitor_can_connect<H: Host>() {
    let refusal = doc! { "ok": 0, "code": 11600, "errmsg": "shutting down" };
    for ending in [None, Some(Step::Reset), Some(Step::Close)] {
        let refusal = refusal.clone();
        let script = move |request: &Request| match (&ending, request.connection) {
            (_, 0) => answer(request),
            (None, _) => request.reply(&refusal),
            (Some(ending), _) => vec![ending.clone()],
        };
        let server = Server::scripted::<H>(script);
        let uri = server.uri(&impatient::<H>("retryReads=false"));
        let client = client::<H>(&uri);
        let error = super::within::<H, _>(H::WAIT_LIMIT, "the failure", find(&client, 1)).await;
        let error = error.expect_err("there is no connection");
        let text = error.to_string();
        let is_reported = error.server().is_some() || text.contains(&server.address());
        assert!(is_reported, "{error:?}");
        wait_until_idle::<H>(&client).await;
        end::<H>(client, &server).await;
    }
}

/// A server that sends many replies to one `hello` does not become known. Once the server sends a
/// single reply, it is found.
pub async fn a_server_that_sends_many_replies_to_one_hello_stays_unknown<H: Host>() {
    let flood = Arc::new(AtomicBool::new(true));
    let script_flood = flood.clone();
    let server = Server::scripted::<H>(move |request| {
        if request.is_hello() && script_flood.load(Ordering::SeqCst) {
            let hello_reply: Document = hello(request.connection);
            let frame = request.frame(&hello_reply);
            return vec![Step::Send(frame.repeat(2000))];
        }
        answer(request)
    });
    let options = format!("serverSelectionTimeoutMS={}", 4 * H::LIMIT.as_millis());
    let flooded = client::<H>(&server.uri(&options));
    assert!(
        find(&flooded, 1).await.is_err(),
        "nothing of this is a server"
    );
    flood.store(false, Ordering::SeqCst);
    find(&flooded, 2).await.expect("it has come to its senses");
    end::<H>(flooded, &server).await;
}

/// A server that streams replies to a monitor as fast as it can does not keep operations from
/// running.
pub async fn a_flood_of_streamed_hello_replies_does_not_block_operations<H: Host>() {
    let server = Server::scripted::<H>(|request| {
        if !request.is_hello() {
            return answer(request);
        }
        let process = bson::oid::ObjectId::from_bytes([7; 12]);
        let mut hello_reply = hello(request.connection);
        hello_reply.insert(
            "topologyVersion",
            doc! { "processId": process, "counter": 0_i64 },
        );
        if !request.body.contains_key("maxAwaitTimeMS") {
            return request.reply(&hello_reply);
        }
        // Each streamed reply announces the next one, whose `responseTo` is the id of the one
        // before it.
        let streamed = |answered: i32| {
            let raw = bson::RawDocumentBuf::try_from(&hello_reply).expect("a document");
            let mut frame = Vec::new();
            MessageWriter::begin(&mut frame, 1, answered)
                .flags(Flags::MORE_TO_COME)
                .body(&raw)
                .end();
            frame
        };
        vec![
            Step::Send(streamed(request.id)),
            Step::Flood(streamed(1).repeat(100)),
        ]
    });
    let client = client::<H>(&server.uri(""));
    for n in 0..10 {
        find(&client, n).await.expect("a reply");
    }
    end::<H>(client, &server).await;
}
