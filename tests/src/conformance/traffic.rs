//! Tests of messages of all sizes, and of messages that arrive in pieces.

use super::{
    Host, client, end, find,
    server::{Server, Step, answer},
    things, until, wait_until_idle,
};
use bson::{Binary, Bson, Document, doc, spec::BinarySubtype};
use onionskin_core::error::ErrorKind;

/// The size in bytes of the largest document that servers accept.
const MAX_DOCUMENT_BYTES: usize = 16 * 1024 * 1024;

/// Returns a binary value of `size` bytes, all equal to `byte`.
fn blob(size: usize, byte: u8) -> Bson {
    Bson::Binary(Binary {
        subtype: BinarySubtype::Generic,
        bytes: vec![byte; size],
    })
}

/// Splits everything that the steps send into pieces of `size` bytes.
fn in_pieces(steps: Vec<Step>, size: usize) -> Vec<Step> {
    let cut = |step| match step {
        Step::Send(bytes) => Step::Trickle(bytes, size),
        other => other,
    };
    steps.into_iter().map(cut).collect()
}

/// Replies that arrive in small pieces are accepted, also the reply to the first `hello`.
pub async fn replies_are_accepted_in_pieces_of_any_size<H: Host>() {
    for size in [1, 3, 16, 17] {
        let server = Server::scripted::<H>(move |request| in_pieces(answer(request), size));
        let client = client::<H>(&server.uri(""));
        for n in 0..4 {
            find(&client, n).await.expect("a reply");
        }
        end::<H>(client, &server).await;
    }
}

/// A reply of nearly 48 MB arrives complete, and so does the next one.
pub async fn the_largest_reply_is_received_completely<H: Host>() {
    const PART: usize = 15_990_000;
    let server = Server::scripted::<H>(|request| {
        if request.name != "find" || request.n() != Some(1) {
            return answer(request);
        }
        let documents: Vec<Bson> = (0..3)
            .map(|place| Bson::from(doc! { "place": place, "blob": blob(PART, place as u8) }))
            .collect();
        let cursor = doc! { "id": 0_i64, "ns": "app.things", "firstBatch": documents };
        request.reply(&doc! { "ok": 1, "cursor": cursor })
    });
    let client = client::<H>(&server.uri("maxPoolSize=1"));
    let cursor = things(&client)
        .find(doc! { "n": 1 })
        .await
        .expect("a reply");
    let documents = cursor.into_vec().await.expect("documents");
    assert_eq!(documents.len(), 3);
    for (place, document) in documents.iter().enumerate() {
        let bytes = document.get_binary_generic("blob").expect("a blob");
        assert_eq!(bytes.len(), PART);
        assert!(bytes.iter().all(|&b| usize::from(b) == place));
    }
    find(&client, 2).await.expect("a reply");
    end::<H>(client, &server).await;
}

/// The largest document and the largest message are sent completely, although no socket takes them
/// in one write. A longer list of documents is sent in two messages, and a larger document is
/// refused.
pub async fn the_largest_request_is_sent_completely<H: Host>() {
    send_the_largest::<H>(Server::plain::<H>()).await;
}

/// The largest document and the largest message are sent completely over a Unix domain socket.
pub async fn the_largest_request_is_sent_completely_over_a_unix_socket<H: Host>() {
    send_the_largest::<H>(Server::unix(answer)).await;
}

async fn send_the_largest<H: Host>(server: Server) {
    let client = client::<H>(&server.uri("maxPoolSize=1"));
    let things = things(&client);
    let overhead = bson::serialize_to_vec(&doc! { "_id": 1, "blob": blob(0, 0) });
    let room = MAX_DOCUMENT_BYTES - overhead.expect("a document").len();
    let largest = doc! { "_id": 1, "blob": blob(room, 1) };
    things.insert_one(&largest).await.expect("a reply");
    let many: Vec<Document> = (0..3)
        .map(|id| doc! { "_id": id, "blob": blob(15_990_000, 2) })
        .collect();
    let inserted = things.insert_many(&many).await.expect("a reply");
    assert_eq!(inserted.inserted_ids.len(), 3);
    // A message is never larger than `maxMessageSizeBytes`, so these documents take two (MSG-4).
    let seen = server.seen("insert").len();
    let twice: Vec<&Document> = many.iter().chain(&many).collect();
    let inserted = things.insert_many(twice).await.expect("two replies");
    assert_eq!(inserted.inserted_ids.len(), 6);
    assert_eq!(server.seen("insert").len(), seen + 2);
    // A document larger than `maxBsonObjectSize` is refused, and nothing is sent (MSG-8).
    let too_large = doc! { "_id": 2, "blob": blob(room + 1, 1) };
    let error = things.insert_one(&too_large).await;
    let error = error.expect_err("one byte more than a document has");
    assert!(matches!(error.kind(), ErrorKind::Limit { .. }), "{error}");
    assert_eq!(server.seen("insert").len(), seen + 2, "something was sent");
    find(&client, 3)
        .await
        .expect("the connection is as good as before");
    assert_eq!(server.most_operating(), 1);
    end::<H>(client, &server).await;
}

/// A second reply to one request reaches no operation. The first reply is delivered, the connection
/// is closed, and the next operation gets its own reply.
pub async fn a_second_reply_to_a_request_reaches_no_operation<H: Host>() {
    let server = Server::scripted::<H>(|request| {
        let Some(1) = request.n() else {
            return answer(request);
        };
        let mut both = Vec::new();
        for n in [1, 99] {
            let documents = vec![Bson::from(doc! { "n": n })];
            let cursor = doc! { "id": 0_i64, "ns": "app.things", "firstBatch": documents };
            both.extend(request.frame(&doc! { "ok": 1, "cursor": cursor }));
        }
        vec![Step::Send(both)]
    });
    let client = client::<H>(&server.uri("maxPoolSize=1"));
    for n in [1, 2, 1, 3] {
        find(&client, n).await.expect("a reply");
    }
    wait_until_idle::<H>(&client).await;
    end::<H>(client, &server).await;
}

/// If the server closes an idle connection, the next read succeeds on another connection.
pub async fn a_connection_closed_while_idle_is_replaced<H: Host>() {
    for last in [Step::Close, Step::HalfClose] {
        let ending = last.clone();
        let server = Server::scripted::<H>(move |request| {
            let mut steps = answer(request);
            if request.n() == Some(1) {
                steps.push(ending.clone());
            }
            steps
        });
        let client = client::<H>(&server.uri("maxPoolSize=1"));
        find(&client, 1).await.expect("a reply");
        find(&client, 2)
            .await
            .expect("a reply on another connection");
        until::<H>("the second connection", || server.most_operating() > 0).await;
        let finds = server.seen("find");
        let (first, last) = (finds.first(), finds.last());
        assert_ne!(first.map(|s| s.connection), last.map(|s| s.connection));
        end::<H>(client, &server).await;
    }
}
