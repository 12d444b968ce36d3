//! Programs that do more than send commands: they ask questions, replace replies, take input piece
//! by piece, and continue where a cursor stopped. GridFS, change streams and encryption need these
//! abilities.

use crate::{
    programs::{command, count},
    scene::{Watched, balanced_alone, play, replica_set, standalone},
};
use bson::{Document, RawDocument, RawDocumentBuf, doc};
use onionskin::{Error, error::ErrorKind};
use onionskin_core::{
    client::{Finding, Inquiry},
    event::{CommandEvent, EventKind, PoolEvent},
    operation::{
        Abandoned, Ask, CommandKind, Cursor, CursorSettings, Exchange, Program, Step,
        crud::first_document,
    },
    options::ProviderCall,
};
use onionskin_tests::loads::upload::Upload;
use std::{
    future::{pending, poll_fn},
    time::Duration,
};

/// A program that gives the documents of a collection one by one, and remembers what it gave. If
/// its cursor is gone from the server, it opens another one behind the last document.
struct Tail {
    cursor: Cursor,
    /// The `_id` of the last document that it gave.
    last: i32,
    /// The number of cursors that it has opened.
    opened: u32,
    is_opening: bool,
}

impl Tail {
    fn find(&mut self) -> Step<()> {
        self.is_opening = true;
        self.opened += 1;
        let body = doc! {
            "find": "log", "filter": { "_id": { "$gt": self.last } }, "sort": { "_id": 1 },
            "batchSize": 2,
        };
        let mut find = command("find", CommandKind::Read, &body);
        find.set_cursor(CursorSettings {
            batch_size: Some(2),
            ..CursorSettings::default()
        });
        if let Err(held) = self.cursor.end() {
            find.set_released(held);
        }
        Step::Run(find)
    }

    fn next(&mut self) -> Step<()> {
        if self.cursor.advance().is_some() {
            let document = self.cursor.decode::<Document>().expect("a document");
            self.last = document.get_i32("_id").expect("a number");
            return Step::Wait;
        }
        match self.cursor.start() {
            Step::Done(_) => Step::Done(Ok(())),
            Step::Run(more) => Step::Run(more),
            other => panic!("a cursor asks nothing: {other:?}"),
        }
    }
}

impl Program for Tail {
    type Output = ();

    fn start(&mut self) -> Step<()> {
        self.find()
    }

    fn handle_input(&mut self) -> Step<()> {
        self.next()
    }

    fn handle_reply(&mut self, exchange: &mut Exchange) -> Step<()> {
        if std::mem::take(&mut self.is_opening) {
            self.cursor = Cursor::from_exchange(exchange, "app".into()).expect("a cursor");
        } else {
            let step = self.cursor.handle_reply(exchange);
            assert!(matches!(step, Step::Done(Ok(_))), "{step:?}");
        }
        self.next()
    }

    fn handle_error(&mut self, error: Error) -> Step<()> {
        if self.is_opening {
            return Step::Done(Err(error));
        }
        let _ = self.cursor.handle_error(error);
        self.find()
    }

    fn abandon(&mut self) -> Abandoned {
        self.cursor.abandon()
    }
}

/// Kills the open cursors of a client.
async fn kill_cursors(watched: &Watched, other: &Watched) -> usize {
    let ids = watched.events.notes(|event| match &event.kind {
        EventKind::Command(CommandEvent::Succeeded { reply, .. }) => {
            let cursor = reply.get_document("cursor").ok()?;
            cursor.get_i64("id").ok().filter(|id| *id != 0)
        }
        _ => None,
    });
    let kill = doc! { "killCursors": "log", "cursors": ids };
    let reply = other.client.database("app").run_command(kill).await;
    let reply = reply.expect("a reply");
    reply.get_array("cursorsKilled").map_or(0, Vec::len)
}

#[test]
fn a_program_resumes_behind_the_last_document_when_its_cursor_is_killed() {
    let topologies = [standalone(), replica_set(), balanced_alone()];
    play(topologies, |scene| async move {
        // Behind a load balancer, the old cursor must give its connection back before the new one
        // is opened, because the pool has no other one.
        let watched = scene.client("maxPoolSize=1&timeoutMS=10000");
        let other = scene.client("");
        let log = other.client.database("app").collection::<Document>("log");
        let documents: Vec<Document> = (1..=9).map(|id| doc! { "_id": id }).collect();
        log.insert_many(&documents).await.expect("they are new");
        let mut tail = watched.client.run_program(Tail {
            cursor: Cursor::exhausted(),
            last: 0,
            opened: 0,
            is_opening: false,
        });
        let mut seen = Vec::new();
        let mut opened = 0;
        loop {
            if let Some(result) = poll_fn(|context| tail.poll_program(context)).await {
                result.expect("it ends");
                break;
            }
            let (id, cursors) = tail
                .supply(|tail| (tail.last, tail.opened))
                .expect("it waits");
            seen.push(id);
            opened = cursors;
            if [4, 6].contains(&id) {
                assert_eq!(kill_cursors(&watched, &other).await, 1, "at {id}");
            }
        }
        assert_eq!((seen, opened), ((1..=9).collect::<Vec<_>>(), 3));
        drop(tail);
        other.client.shutdown().await;
        watched.end().await;
    });
}

/// An upload holds one connection only while it sends a chunk, and takes no input meanwhile.
#[test]
fn a_program_takes_input_piece_by_piece() {
    play([replica_set()], |scene| async move {
        let watched = scene.client("maxPoolSize=1");
        let other = scene.client("");
        let mut upload = watched.client.run_program(Upload::default());
        let piece = [7; 100_000];
        let pieces = 20;
        for number in 0..pieces {
            let wants = poll_fn(|context| upload.poll_program(context)).await;
            assert!(wants.is_none());
            // The pool has one connection, which another operation can use.
            watched.find().await.expect("a reply");
            upload
                .supply(|upload| upload.push(&piece))
                .expect("it waits");
            assert!(
                upload.supply(|_| ()).is_none(),
                "piece {number} is not taken"
            );
        }
        assert!(
            poll_fn(|context| upload.poll_program(context))
                .await
                .is_none()
        );
        upload.supply(Upload::close).expect("it waits");
        let chunks = upload.await.expect("it was written");
        assert_eq!(chunks, 8);
        assert_eq!(count(&other, "chunks").await, 8);
        // A program that needs input cannot be awaited.
        let waiting = watched.client.run_program(Upload::default()).await;
        let error = waiting.expect_err("it waits for input");
        assert!(
            matches!(error.kind(), ErrorKind::InvalidArgument { .. }),
            "{error:?}"
        );
        other.client.shutdown().await;
        watched.end().await;
    });
}

/// A program that reads a secret number. The variable `KEY` tells what to add to it.
struct Secret {
    /// True to ask a callback that never ends instead.
    is_endless: bool,
}

impl Program for Secret {
    type Output = i32;

    fn start(&mut self) -> Step<i32> {
        let body = doc! { "find": "things", "filter": { "_id": 1 } };
        Step::Run(command("find", CommandKind::Read, &body))
    }

    fn handle_reply(&mut self, _: &mut Exchange) -> Step<i32> {
        let inquiry = match self.is_endless {
            false => Inquiry::Environment(&["KEY"]),
            true => {
                let call = || Box::pin(pending()) as _;
                Inquiry::Call(ProviderCall::Future(Box::new(call)))
            }
        };
        Step::Ask(Box::new(Ask {
            inquiry,
            timeout: None,
        }))
    }

    fn handle_answer(
        &mut self,
        answer: Result<Finding, String>,
        exchange: Option<&mut Exchange>,
    ) -> Step<i32> {
        let Ok(Finding::Environment(values)) = answer else {
            return Step::Done(Err(Error::argument("there is no key")));
        };
        let exchange = exchange.expect("it asked while it read a reply");
        let key = values[0].as_ref().expect("it is set").expose();
        let key: i32 = key.parse().expect("a number");
        let reply = exchange.reply().expect("a reply");
        let plain = decrypted(reply, key);
        exchange.replace_reply(plain);
        let reply = exchange.reply().expect("a reply");
        let found = first_document(reply)
            .expect("a cursor")
            .expect("a document");
        Step::Done(Ok(found.get_i32("secret").expect("a number")))
    }
}

/// Returns the reply to a `find` with `key` added to the number of its document.
fn decrypted(reply: &RawDocument, key: i32) -> RawDocumentBuf {
    let mut reply = Document::try_from(reply).expect("BSON");
    let cursor = reply.get_document_mut("cursor").expect("a cursor");
    let batch = cursor.get_array_mut("firstBatch").expect("a batch");
    let found = batch[0].as_document_mut().expect("a document");
    let secret = found.get_i32("secret").expect("a number");
    found.insert("secret", secret + key);
    RawDocumentBuf::try_from(&reply).expect("BSON")
}

/// A program keeps its connection while it asks during a reply, so every end must give it back.
#[test]
fn a_reply_is_rewritten_with_the_answer_to_a_question() {
    play([standalone(), balanced_alone()], |scene| async move {
        scene.runtime.set_variable("KEY", Some("40"));
        let watched = scene.client("maxPoolSize=1");
        let things = watched.client.database("app").collection("things");
        let secret = doc! { "_id": 1, "secret": 2 };
        things.insert_one(secret).await.expect("it is new");
        let secret = |is_endless| watched.client.run_program(Secret { is_endless });
        assert_eq!(secret(false).await.expect("an answer"), 42);
        // The caller leaves while the program asks.
        let left = scene.drop_after(Duration::from_millis(50), secret(true));
        assert!(left.await.is_none());
        assert_eq!(secret(false).await.expect("an answer"), 42);
        let sockets = watched.events.notes(|event| match &event.kind {
            EventKind::Pool(PoolEvent::ConnectionCreated { .. }) => Some(()),
            _ => None,
        });
        assert_eq!(sockets.len(), 1);
        watched.end().await;
        // The time limit of the operation passes while the program asks.
        let watched = scene.client("maxPoolSize=1&timeoutMS=500");
        let secret = |is_endless| watched.client.run_program(Secret { is_endless });
        let began = scene.now();
        let error = secret(true).await.expect_err("there is no answer");
        assert!(error.is_timeout(), "{error:?}");
        let took = scene.now().saturating_since(began);
        assert!(took <= Duration::from_millis(501), "{took:?}");
        assert_eq!(secret(false).await.expect("an answer"), 42);
        watched.end().await;
    });
}
