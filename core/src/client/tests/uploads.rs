//! Tests of uploads to GridFS: what they leave if they are dropped or fail.

use super::*;
use crate::operation::{
    Abandoned, Program, Step,
    crud::Defaults,
    gridfs::{Bucket, GridFsUploadOptions, StreamLimit, Upload},
};
use bson::oid::ObjectId;

const URI: &str = "mongodb://a/?replicaSet=rs";

/// Returns an upload of three chunks, whose holder has given the input to send two of them.
fn sending(has_indexes: bool) -> Upload {
    let bucket = Bucket::new(&"db".into(), &Default::default(), &Defaults::default());
    let options = GridFsUploadOptions::builder().chunk_size_bytes(4).build();
    let (name, limit) = ("name".to_owned(), StreamLimit::default());
    let upload = Upload::new(bucket, "id".into(), name, options, limit, has_indexes);
    let mut upload = upload.expect("the options are valid");
    let new_id = || ObjectId::from_bytes([7; 12]);
    assert_eq!(upload.write(&[1; 9], new_id), Ok(9));
    upload.send();
    upload
}

/// Returns an upload that lists the indexes of the files collection, and this command.
fn listing(world: &mut World) -> (Upload, Command) {
    let mut upload = sending(false);
    let find = next(upload.handle_input(), "find");
    let step = reply(world, &mut upload, find, 0);
    let list = next(step, "listIndexes");
    (upload, list)
}

/// Runs a command of the upload, whose reply is an empty batch of the cursor with this id.
fn reply(world: &mut World, upload: &mut Upload, command: Command, id: i64) -> Step<()> {
    let mut exchange = world.begin_exchange(command);
    let reply = rawdoc! {
        "ok": 1, "cursor": { "id": id, "ns": "db.fs.files", "firstBatch": [] },
    };
    World::answer(&mut exchange, &reply);
    let step = upload.handle_reply(&mut exchange);
    world.check_in(exchange, Outcome::Completed);
    step
}

/// Returns the error of a command that a server refuses with this code.
fn refusal(world: &mut World, command: Command, code: i32) -> Error {
    match world.perform(command, &rawdoc! { "ok": 0, "code": code }) {
        AfterExchange::Done(Err(error)) => error,
        other => panic!("it is not refused: {other:?}"),
    }
}

/// Returns the command with this name that the upload runs next.
fn next(step: Step<()>, name: &str) -> Command {
    match step {
        Step::Run(command) if command.name() == name => command,
        other => panic!("no {name}: {other:?}"),
    }
}

#[test]
fn an_upload_that_is_dropped_during_its_index_check_creates_nothing() {
    let mut world = World::new(URI, primary());
    // Code 26 says that the collection does not exist, after which it is created with its index.
    for is_dropped in [false, true] {
        let (mut upload, list) = listing(&mut world);
        if is_dropped {
            upload.stop();
        }
        let error = refusal(&mut world, list, 26);
        let step = upload.handle_error(error);
        match is_dropped {
            false => drop(next(step, "createIndexes")),
            true => assert!(matches!(step, Step::Wait), "{step:?}"),
        }
        assert!(matches!(upload.abandon(), Abandoned::Nothing));
    }
}

#[test]
fn the_cursor_of_an_index_check_is_closed_if_the_check_is_dropped_or_fails() {
    let mut world = World::new(URI, primary());
    for is_dropped in [false, true] {
        let (mut upload, list) = listing(&mut world);
        if is_dropped {
            upload.stop();
        }
        let step = reply(&mut world, &mut upload, list, 7);
        match is_dropped {
            true => assert!(matches!(step, Step::Wait), "{step:?}"),
            false => {
                let error = refusal(&mut world, next(step, "getMore"), 1);
                assert!(matches!(upload.handle_error(error), Step::Done(Err(_))));
            }
        }
        let Abandoned::Run(kill) = upload.abandon() else {
            panic!("the server has a cursor");
        };
        assert_eq!(kill.name(), "killCursors");
    }
}

/// True if the command deletes single chunks, and not all with the id of the file.
fn deletes_single_chunks(world: &mut World, command: Command) -> bool {
    assert_eq!(command.name(), "delete");
    let mut exchange = world.begin_exchange(command);
    let is_single = exchange.output().windows(3).any(|part| part == b"$in");
    World::answer(&mut exchange, &rawdoc! { "ok": 1, "n": 0 });
    world.check_in(exchange, Outcome::Completed);
    is_single
}

#[test]
fn a_stopped_upload_deletes_no_chunks_of_another_file_with_its_id() {
    let mut world = World::new(&format!("{URI}&retryWrites=false"), primary());
    let duplicate = bson::doc! { "ok": 1, "n": 0, "writeErrors": [{ "index": 0, "code": 11000 }] };
    let partial = bson::doc! { "ok": 1, "n": 1, "writeErrors": [{ "index": 1, "code": 11000 }] };
    // The number of inserts that succeed before, the reply to the last one (`None` for a lost
    // connection), and whether single chunks, all of the file or none are deleted.
    for (before, last, deletes) in [
        (0, None, Some(true)),
        (0, Some(&duplicate), None),
        (0, Some(&partial), Some(false)),
        (1, None, Some(false)),
        (1, Some(&duplicate), Some(false)),
    ] {
        for waits in [false, true] {
            let mut upload = sending(true);
            let mut step = upload.handle_input();
            for _ in 0..before {
                let mut exchange = world.begin_exchange(next(step, "insert"));
                upload.handle_begun(&mut exchange);
                World::answer(&mut exchange, &rawdoc! { "ok": 1, "n": 2 });
                assert!(matches!(upload.handle_reply(&mut exchange), Step::Wait));
                world.check_in(exchange, Outcome::Completed);
                let new_id = || ObjectId::from_bytes([8; 12]);
                assert_eq!(upload.write(&[1; 4], new_id), Ok(4));
                upload.send();
                step = upload.handle_input();
            }
            let mut exchange = world.begin_exchange(next(step, "insert"));
            upload.handle_begun(&mut exchange);
            upload.stop();
            let outcome = match last {
                None => reset(),
                Some(reply) => {
                    let reply = RawDocumentBuf::try_from(reply).expect("BSON");
                    World::answer(&mut exchange, &reply);
                    Outcome::Completed
                }
            };
            let AfterExchange::Done(Err(error)) = world.check_in(exchange, outcome) else {
                panic!("the insert fails");
            };
            assert!(matches!(upload.handle_error(error), Step::Wait));
            // The holder waits for the deletion, or leaves it to the background.
            let command = if waits {
                upload.abort();
                match upload.handle_input() {
                    Step::Run(command) => Some(command),
                    Step::Done(Ok(())) => None,
                    other => panic!("{other:?}"),
                }
            } else {
                match upload.abandon() {
                    Abandoned::Run(command) => Some(command),
                    _ => None,
                }
            };
            let is_single = command.map(|command| deletes_single_chunks(&mut world, command));
            assert_eq!(is_single, deletes, "{before} {last:?} {waits}");
        }
    }
}
