//! Programs that are not part of the client's API. The tests show that a runner supports operations
//! that consist of several commands.

use crate::{
    event_log::EventLog,
    scene::{Watched, play, replica_set, standalone},
};
use bson::{Document, RawDocumentBuf, doc, rawdoc};
use onionskin::{Error, error::ErrorKind};
use onionskin_core::{
    error::Label,
    event::{CommandEvent, EventKind},
    operation::{
        Abandoned, Command, CommandKind, Exchange, Program, Step,
        crud::{UpdateResult, first_document},
    },
};
use std::time::Duration;

/// Returns the commands with these names that were sent, each with its operation id.
fn sent(events: &EventLog, names: &[&str]) -> Vec<(u64, Document)> {
    events.notes(|event| match &event.kind {
        EventKind::Command(CommandEvent::Started { facts, command, .. })
            if names.contains(&&*facts.name) =>
        {
            let command = Document::try_from(&**command).expect("BSON");
            Some((facts.operation_id, command))
        }
        _ => None,
    })
}

/// Returns a command whose name is the first key of its body.
pub(crate) fn command(name: &'static str, kind: CommandKind, body: &Document) -> Command {
    let mut command = Command::new(name, "app", kind);
    command.body().tree(body).expect("BSON");
    command
}

pub(crate) fn insert(collection: &str, document: &RawDocumentBuf) -> Command {
    let body = doc! { "insert": collection };
    let mut insert = command("insert", CommandKind::RetryableWrite, &body);
    insert.set_sequence("documents", document.as_bytes().to_vec());
    insert
}

/// A program that takes a number from a counter, writes a document with it, and reads the document.
/// Each command depends on the reply before it.
struct Numbered {
    number: Option<i32>,
    is_written: bool,
    timeout: Duration,
}

impl Program for Numbered {
    type Output = (i32, Document);

    fn start(&mut self) -> Step<Self::Output> {
        let body = doc! {
            "findAndModify": "counters", "query": { "_id": 1 }, "update": { "$inc": { "n": 1 } },
            "upsert": true, "new": true,
        };
        let kind = CommandKind::RetryableWrite;
        let mut take = command("findAndModify", kind, &body);
        take.set_timeout(Some(self.timeout));
        Step::Run(take)
    }

    fn handle_reply(&mut self, exchange: &mut Exchange) -> Step<Self::Output> {
        // A program can use a reply in three ways: it reads the first reply in place, ignores the
        // second one, and moves the third one out of the exchange.
        let Some(number) = self.number else {
            let reply = exchange.reply().expect("it came");
            let value = reply.get_document("value").expect("a counter");
            let number = value.get_i32("n").expect("a number");
            self.number = Some(number);
            return Step::Run(insert(
                "numbered",
                &rawdoc! { "_id": number, "text": "new" },
            ));
        };
        if !self.is_written {
            self.is_written = true;
            let body = doc! { "find": "numbered", "filter": { "_id": number } };
            return Step::Run(command("find", CommandKind::Read, &body));
        }
        let reply = exchange.take_reply().expect("it came");
        Step::Done(match first_document(reply.document()) {
            Ok(Some(found)) => Ok((number, Document::try_from(found).expect("BSON"))),
            Ok(None) => Err(Error::argument("it was written")),
            Err(error) => Err(error),
        })
    }
}

#[test]
fn a_program_builds_each_command_from_the_previous_reply() {
    play([standalone(), replica_set()], |scene| async move {
        let watched = scene.client("timeoutMS=10000");
        for round in 1..=2 {
            let numbered = Numbered {
                number: None,
                is_written: false,
                timeout: Duration::from_secs(1),
            };
            let (number, found) = watched
                .client
                .run_program(numbered)
                .await
                .expect("three replies");
            assert_eq!(number, round);
            assert_eq!(found, doc! { "_id": round, "text": "new" });
        }
        let sent = sent(&watched.events, &["findAndModify", "insert", "find"]);
        let names: Vec<_> = sent
            .iter()
            .map(|(_, command)| command.keys().next().expect("a name").as_str())
            .collect();
        let names: Vec<_> = names.chunks(3).collect();
        assert_eq!(names, [["findAndModify", "insert", "find"]; 2]);
        // All attempts of an operation have the same operation id (RW-30), as have all its
        // commands.
        let ids: Vec<u64> = sent.iter().map(|(id, _)| *id).collect();
        assert!(ids[..3].iter().all(|id| *id == ids[0]) && ids[3..].iter().all(|id| *id == ids[3]));
        assert_ne!(ids[0], ids[3]);
        // The time limit of the first command bounds all commands together, instead of the client's
        // `timeoutMS`.
        let limits = sent.iter().map(|(_, command)| command.get_i32("maxTimeMS"));
        assert!(
            limits
                .into_iter()
                .all(|limit| limit.is_ok_and(|ms| ms <= 1_000))
        );
        watched.end().await;
    });
}

#[test]
fn one_time_limit_covers_all_commands_of_a_program() {
    play([standalone()], |scene| async move {
        let watched = scene.client("");
        watched.find().await.expect("a reply");
        let data = doc! {
            "failCommands": ["findAndModify", "insert"], "blockConnection": true,
            "blockTimeMS": 300,
        };
        scene.fail(0, "alwaysOn", data).await;
        let numbered = Numbered {
            number: None,
            is_written: false,
            timeout: Duration::from_millis(500),
        };
        let began = scene.now();
        let error = watched
            .client
            .run_program(numbered)
            .await
            .expect_err("too slow");
        assert!(error.is_timeout(), "{error:?}");
        let took = scene.now().saturating_since(began);
        assert!(took <= Duration::from_millis(500), "{took:?}");
        scene.clear_fail_point(0).await;
        watched.end().await;
    });
}

/// A program like the commit of a transaction. After a network error the effect of the command is
/// unknown, so the program repeats the command with the write concern `majority`. The error gets
/// the label `UnknownTransactionCommitResult` if it is the third network error.
struct Commit {
    attempts: u32,
}

impl Commit {
    fn command(&self) -> Step<UpdateResult> {
        let mut body = doc! {
            "update": "ledger",
            "updates": [{ "q": { "_id": 1 }, "u": { "$set": { "is": true } }, "upsert": true }],
        };
        if self.attempts > 1 {
            body.insert("writeConcern", doc! { "w": "majority", "wtimeout": 10_000 });
        }
        // The client does not retry a command of this kind.
        Step::Run(command("update", CommandKind::Write, &body))
    }
}

impl Program for Commit {
    type Output = UpdateResult;

    fn start(&mut self) -> Step<UpdateResult> {
        self.attempts = 1;
        self.command()
    }

    fn handle_reply(&mut self, exchange: &mut Exchange) -> Step<UpdateResult> {
        Step::Done(UpdateResult::from_exchange(exchange))
    }

    fn handle_error(&mut self, error: Error) -> Step<UpdateResult> {
        if !error.is_network() {
            return Step::Done(Err(error));
        }
        if self.attempts == 3 {
            let error = error.with_label(Label::UnknownTransactionCommitResult);
            return Step::Done(Err(error));
        }
        self.attempts += 1;
        self.command()
    }
}

#[test]
fn a_program_can_retry_its_command_with_another_write_concern() {
    play([replica_set()], |scene| async move {
        for (failures, is_committed) in [(1, true), (3, false)] {
            let watched = scene.client("");
            watched.find().await.expect("a reply");
            let data = doc! { "failCommands": ["update"], "closeConnection": true };
            let times = doc! { "times": failures };
            scene.fail(scene.primary(), times, data).await;
            let result = watched.client.run_program(Commit { attempts: 0 }).await;
            let label = Label::UnknownTransactionCommitResult;
            match &result {
                Ok(result) => assert!(is_committed && result.upserted_id.is_some()),
                Err(error) => assert!(!is_committed && error.has_label(&label), "{error:?}"),
            }
            let sent = sent(&watched.events, &["update"]);
            let concerns: Vec<bool> = sent
                .iter()
                .map(|(_, command)| command.contains_key("writeConcern"))
                .collect();
            let attempts = if is_committed { 2 } else { 3 };
            assert_eq!(concerns, [false, true, true][..attempts]);
            assert!(sent.iter().all(|(id, _)| *id == sent[0].0));
            watched.end().await;
        }
    });
}

/// A program like the upload of a file: it inserts chunks one after another, and then a document
/// about them. If the upload is abandoned before it sends that document, it deletes its chunks.
struct Upload {
    bytes: Vec<u8>,
    /// The number of chunks that were sent.
    chunks: i32,
    is_named: bool,
}

const CHUNK: usize = 4;

impl Upload {
    fn next_step(&mut self) -> Step<i32> {
        let chunks = self.bytes.chunks(CHUNK);
        let rest = usize::try_from(self.chunks).expect("small");
        if let Some(chunk) = chunks.into_iter().nth(rest) {
            let text = std::str::from_utf8(chunk).expect("text");
            let chunk = rawdoc! { "_id": self.chunks, "text": text };
            self.chunks += 1;
            return Step::Run(insert("chunks", &chunk));
        }
        if self.is_named {
            return Step::Done(Ok(self.chunks));
        }
        self.is_named = true;
        Step::Run(insert(
            "files",
            &rawdoc! { "_id": 1, "chunks": self.chunks },
        ))
    }
}

impl Program for Upload {
    type Output = i32;

    fn start(&mut self) -> Step<i32> {
        self.next_step()
    }

    fn handle_reply(&mut self, _: &mut Exchange) -> Step<i32> {
        self.next_step()
    }

    fn abandon(&mut self) -> Abandoned {
        if self.is_named || self.chunks == 0 {
            return Abandoned::Nothing;
        }
        let body = doc! { "delete": "chunks", "deletes": [{ "q": {}, "limit": 0 }] };
        Abandoned::Run(command("delete", CommandKind::Write, &body))
    }
}

pub(crate) async fn count(watched: &Watched, collection: &str) -> u64 {
    let database = watched.client.database("app");
    let collection = database.collection::<Document>(collection);
    collection.count_documents(doc! {}).await.expect("a reply")
}

#[test]
fn a_dropped_program_runs_its_cleanup_command_in_the_background() {
    play([replica_set()], |scene| async move {
        let upload = || Upload {
            bytes: b"what a program sends".to_vec(),
            chunks: 0,
            is_named: false,
        };
        let watched = scene.client("");
        watched.find().await.expect("a reply");
        let data = doc! {
            "failCommands": ["insert"], "blockConnection": true, "blockTimeMS": 100,
        };
        scene.fail(scene.primary(), "alwaysOn", data).await;
        let left = Duration::from_millis(250);
        let left = scene
            .drop_after(left, watched.client.run_program(upload()))
            .await;
        assert!(left.is_none());
        scene.pause(500).await;
        assert_eq!(sent(&watched.events, &["insert"]).len(), 3);
        assert_eq!(sent(&watched.events, &["delete"]).len(), 1);
        // The fail point blocked the third chunk until the other chunks were deleted.
        let chunks = watched.client.database("app");
        let chunks = chunks.collection::<Document>("chunks");
        let rest = chunks.delete_many(doc! {}).await.expect("a reply");
        assert_eq!(rest.deleted_count, 1);
        assert_eq!(count(&watched, "files").await, 0);
        // A program that completes keeps its chunks.
        let chunks = watched
            .client
            .run_program(upload())
            .await
            .expect("all are sent");
        assert_eq!(
            count(&watched, "chunks").await,
            u64::from(chunks.unsigned_abs())
        );
        assert_eq!((chunks, count(&watched, "files").await), (5, 1));
        assert_eq!(sent(&watched.events, &["delete"]).len(), 2);
        watched.end().await;
    });
}

/// After an error that a program does not handle itself, the program sends none of its other
/// commands.
#[test]
fn a_program_ends_with_an_error_that_it_does_not_handle() {
    play([standalone()], |scene| async move {
        let watched = scene.client("");
        let data = doc! { "failCommands": ["insert"], "errorCode": 8000 };
        scene.fail(0, "alwaysOn", data).await;
        let numbered = Numbered {
            number: None,
            is_written: false,
            timeout: Duration::from_secs(1),
        };
        let error = watched
            .client
            .run_program(numbered)
            .await
            .expect_err("refused");
        assert!(matches!(error.kind(), ErrorKind::Command(_)), "{error:?}");
        assert_eq!(error.code(), Some(8000));
        assert_eq!(sent(&watched.events, &["find"]), []);
        scene.clear_fail_point(0).await;
        watched.end().await;
    });
}
