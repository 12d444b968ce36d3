//! The memory of idle connections and of a long upload is limited, and connections that were idle
//! for too long are closed.

use bson::{RawDocument, oid::ObjectId, rawdoc};
use onionskin_core::unstable::wire::{FrameDecoder, Message, MessageWriter};
use onionskin_tests::loads::{
    client::Idle,
    upload::{CHUNK, Upload},
};
use onionskin_tokio::Client;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::{
    alloc::System,
    future::poll_fn,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Mutex,
    thread,
    time::Duration,
};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Each test holds this lock, because the counters include the allocations of all threads.
static ALONE: Mutex<()> = Mutex::new(());

/// The limit of the memory that the core uses for an idle connection, in bytes.
const MOST_BYTES: i64 = 2_048;

/// The limit of the memory that the buffers of an idle connection keep after large messages, in
/// bytes. This memory comes in addition to [`MOST_BYTES`].
const MOST_BUFFERED: i64 = 6_144;

/// The sizes of small and of large requests and replies, in bytes.
const SMALL: usize = 50;
const LARGE: usize = 200_000;

/// The number of idle connections that are closed at the same time.
const MANY: usize = 5_000;

/// The memory of an idle connection is limited, also after a large request and reply. Compressors
/// keep no memory for each connection.
#[test]
fn the_memory_of_an_idle_connection_is_bounded() {
    let _alone = ALONE.lock();
    for options in [
        "",
        "maxIdleTimeMS=86400000",
        "compressors=snappy",
        "compressors=zlib",
        "compressors=zstd",
    ] {
        for (bytes, most) in [(SMALL, MOST_BYTES), (LARGE, MOST_BYTES + MOST_BUFFERED)] {
            let mut idle = Idle::new(options, bytes);
            let region = Region::new(ALLOCATOR);
            idle.connect(499);
            assert_eq!(idle.idle(), 500);
            let change = region.change();
            let live = change.bytes_allocated as i64 - change.bytes_deallocated as i64;
            let each = live / 500;
            assert!(
                (100..most).contains(&each),
                "{each} bytes each, for {bytes}, {options}"
            );
        }
    }
}

/// All connections exceed `maxIdleTimeMS` at the same time.
#[test]
fn all_connections_idle_for_longer_than_max_idle_time_are_closed() {
    let _alone = ALONE.lock();
    let mut idle = Idle::new("maxIdleTimeMS=60000", SMALL);
    idle.connect(MANY - 1);
    idle.pass(Duration::from_secs(30));
    assert_eq!(idle.idle(), MANY);
    idle.pass(Duration::from_secs(60));
    assert_eq!(idle.idle(), 0);
}

/// Starts a server that answers each command and keeps nothing.
fn forgetful_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.expect("a connection");
            thread::spawn(move || answer(stream));
        }
    });
    address
}

fn answer(mut stream: TcpStream) {
    let mut decoder = FrameDecoder::new();
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        decoder.extend(&buffer[..count]);
        while let Some((header, frame)) = decoder.frame().expect("a message") {
            let reply = reply(Message::decode(frame).expect("an OP_MSG").body);
            let length = frame.len();
            let mut bytes = Vec::new();
            MessageWriter::begin(&mut bytes, 1, header.request_id)
                .body(&reply)
                .end();
            decoder.consume(length);
            if stream.write_all(&bytes).is_err() {
                return;
            }
        }
    }
}

fn reply(command: &RawDocument) -> bson::RawDocumentBuf {
    match command.get("insert") {
        Ok(Some(_)) => rawdoc! { "ok": 1, "n": 1 },
        _ => rawdoc! {
            "ok": 1, "isWritablePrimary": true, "msg": "isdbgrid", "maxWireVersion": 21,
            "serviceId": ObjectId::from_bytes([1; 12]),
        },
    }
}

/// The memory of an upload does not grow with its length.
#[test]
fn an_upload_of_100_megabytes_in_pieces_needs_constant_memory() {
    let _alone = ALONE.lock();
    // Behind a load balancer, each request is an `OP_MSG`, and no monitor runs.
    let uri = format!("mongodb://{}/?loadBalanced=true", forgetful_server());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let client = Client::with_uri_str(&uri).await.expect("a client");
        let mut upload = client.run_program(Upload::default());
        let piece = vec![7; 1 << 20];
        let mut most = 0;
        let region = Region::new(ALLOCATOR);
        for _ in 0..100 {
            let over = poll_fn(|context| upload.poll_program(context)).await;
            assert!(over.is_none(), "{over:?}");
            upload
                .supply(|upload| upload.push(&piece))
                .expect("it waits");
            let change = region.change();
            most = most.max(change.bytes_allocated as i64 - change.bytes_deallocated as i64);
        }
        let over = poll_fn(|context| upload.poll_program(context)).await;
        assert!(over.is_none(), "{over:?}");
        upload.supply(Upload::close).expect("it waits");
        let chunks = upload.await.expect("it was written");
        assert_eq!(
            usize::try_from(chunks).expect("a number"),
            (100 << 20) / CHUNK + 1
        );
        // One piece with the rest of the one before, a chunk in a command, and the same in the
        // buffers of both sides. The vectors of these can have twice that capacity.
        assert!(most < 4 << 20, "{most} bytes");
        println!("{most} bytes");
        client.shutdown().await;
    });
}
