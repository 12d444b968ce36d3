//! Tests of requests that must not end the process or the connection of another client.

use super::{addresses, connect, send_command};
use crate::{Embedded, ServeOptions};
use bson::{RawArrayBuf, RawDocumentBuf, doc, rawdoc};

/// Sends a request, checks that another client still gets replies, and returns the reply.
fn request(options: ServeOptions, command: &RawDocumentBuf) -> Option<RawDocumentBuf> {
    let deployment = Embedded::start(options).expect("starts");
    let address = addresses(deployment.uri()).remove(0);
    let mut other = connect(&address).expect("a connection");
    let ping = rawdoc! { "ping": 1, "$db": "admin" };
    send_command(&mut other, &ping).expect("a reply");
    let mut stream = connect(&address).expect("a connection");
    let insert = rawdoc! { "insert": "c", "documents": [{ "s": "x".repeat(1000) }], "$db": "d" };
    send_command(&mut stream, &insert).expect("a reply");
    let reply = send_command(&mut stream, command);
    send_command(&mut other, &ping).expect("another client is still answered");
    reply
}

fn code(options: ServeOptions, command: &RawDocumentBuf) -> i32 {
    let reply = request(options, command).expect("a reply");
    reply.get_i32("code").expect("an error")
}

#[test]
fn a_panic_in_a_request_closes_only_its_connection() {
    let command = rawdoc! { "panicForTest": 1, "$db": "d" };
    for options in [ServeOptions::standalone(), ServeOptions::sharded(1)] {
        assert_eq!(request(options, &command), None, "the connection ends");
    }
}

#[test]
fn a_panic_in_a_delayed_request_closes_its_connection() {
    let deployment = Embedded::start(ServeOptions::standalone()).expect("starts");
    let address = addresses(deployment.uri()).remove(0);
    let mut stream = connect(&address).expect("a connection");
    let block = rawdoc! {
        "configureFailPoint": "failCommand", "mode": { "times": 1 }, "$db": "admin",
        "data": {
            "failCommands": ["panicForTest"], "blockConnection": true, "blockTimeMS": 1,
        },
    };
    send_command(&mut stream, &block).expect("a reply");
    let command = rawdoc! { "panicForTest": 1, "$db": "d" };
    assert_eq!(
        send_command(&mut stream, &command),
        None,
        "the connection ends"
    );
    let mut other = connect(&address).expect("a connection");
    send_command(&mut other, &rawdoc! { "ping": 1, "$db": "admin" }).expect("a reply");
}

#[test]
fn a_pipeline_that_doubles_a_string_repeatedly_is_refused() {
    let mut pipeline = RawArrayBuf::new();
    for _ in 0..34 {
        pipeline.push(rawdoc! { "$set": { "s": { "$concat": ["$s", "$s"] } } });
    }
    let command = rawdoc! { "aggregate": "c", "pipeline": pipeline, "cursor": {}, "$db": "d" };
    assert_eq!(code(ServeOptions::standalone(), &command), 10334);
}

#[test]
fn views_in_a_circle_are_refused() {
    let deployment = Embedded::start(ServeOptions::standalone()).expect("starts");
    let address = addresses(deployment.uri()).remove(0);
    let mut stream = connect(&address).expect("a connection");
    for (view, on, code) in [("a", "b", None), ("b", "a", Some(5))] {
        let create = rawdoc! { "create": view, "viewOn": on, "pipeline": [], "$db": "d" };
        let reply = send_command(&mut stream, &create).expect("a reply");
        assert_eq!(reply.get_i32("code").ok(), code);
    }
}

#[test]
fn an_update_path_of_many_parts_is_refused() {
    let path = vec!["x"; 200_000].join(".");
    let set = doc! { "q": {}, "u": { "$set": { &path: 1 } }, "upsert": true };
    let equal = doc! { "q": { &path: 1 }, "u": { "$set": { "a": 1 } }, "upsert": true };
    for statement in [set, equal] {
        let statement = RawDocumentBuf::try_from(&statement).expect("BSON");
        let command = rawdoc! { "update": "c", "updates": [statement], "$db": "d" };
        let reply = request(ServeOptions::standalone(), &command).expect("a reply");
        let errors = reply.get_array("writeErrors").expect("errors");
        let error = errors.get_document(0).expect("an error");
        assert_eq!(error.get_i32("code").ok(), Some(15), "{error:?}");
    }
}
