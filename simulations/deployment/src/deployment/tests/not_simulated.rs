//! The errors of what servers have and the simulated server does not.

use super::{
    fidelity::fill,
    world::{World, of_release, send, standalone},
};
use crate::deployment::ConnId;
use bson::{Bson, Document, doc};

fn aggregate(stages: &[Document]) -> Document {
    doc! { "aggregate": "c", "pipeline": stages.to_vec(), "cursor": {} }
}

fn find(filter: Document) -> Document {
    doc! { "find": "c", "filter": filter }
}

fn project(operator: &str) -> Document {
    aggregate(&[doc! { "$project": { "x": { operator: {} } } }])
}

fn add(operator: &str) -> Document {
    aggregate(&[doc! { "$set": { "x": { operator: {} } } }])
}

fn group(operator: &str) -> Document {
    let group = doc! { "_id": null, "x": { operator: { "input": "$n" } } };
    aggregate(&[doc! { "$group": group }])
}

/// The name of something that is not simulated, a command with it, and the code and a part of the
/// message of the error.
type Case = (&'static str, Document, i32, &'static str);

fn check(world: &mut World, conn: ConnId, cases: impl IntoIterator<Item = Case>) {
    for (what, command, code, text) in cases {
        let reply = send(world, conn, command);
        assert_eq!(reply.get_i32("code").ok(), Some(code), "{reply}");
        let message = reply.get_str("errmsg").unwrap_or_default();
        assert!(message.contains(text), "{reply}");
        let information = reply.get_document("errInfo").ok();
        assert_eq!(information, Some(&doc! { "notSimulated": what }), "{reply}");
    }
}

#[test]
fn queries_fail_as_on_a_server_without_the_operator_its_index_or_javascript() {
    let (mut world, conn) = standalone();
    fill(&mut world, conn, 1);
    let text = doc! { "$text": { "$search": "a" } };
    let near = doc! { "n": { "$near": [0, 0] } };
    let within = doc! { "n": { "$geoWithin": { "$box": [[0, 0], [1, 1]] } } };
    let rate = doc! { "$sampleRate": 0.5 };
    let cases = [
        (
            "$where",
            find(doc! { "$where": "true" }),
            6_108_304,
            "no globalScriptEngine in $where parsing",
        ),
        (
            "$text",
            find(text),
            27,
            "text index required for $text query",
        ),
        (
            "$near",
            find(near),
            291,
            "unable to find index for $geoNear query",
        ),
        (
            "$geoWithin",
            find(within),
            2,
            "unknown operator: $geoWithin",
        ),
        (
            "$sampleRate",
            find(rate),
            2,
            "unknown top level operator: $sampleRate",
        ),
        (
            "$meta",
            doc! { "find": "c", "sort": { "n": { "$meta": "textScore" } } },
            15974,
            "Illegal key in $sort specification: n: {",
        ),
        (
            "FindCommandRequest.$_requestResumeToken",
            doc! { "find": "c", "$_requestResumeToken": true },
            40415,
            "BSON field 'FindCommandRequest.$_requestResumeToken' is an unknown field.",
        ),
    ];
    check(&mut world, conn, cases);
}

#[test]
fn pipelines_and_commands_fail_as_on_a_server_that_does_not_know_them() {
    const NO_JAVASCRIPT: &str =
        "Cannot run server-side javascript without the javascript engine enabled";
    let (mut world, conn) = standalone();
    fill(&mut world, conn, 1);
    let lookup = aggregate(&[doc! { "$graphLookup": {} }]);
    let cases = [
        (
            "$median",
            group("$median"),
            15952,
            "unknown group operator '$median'",
        ),
        ("$accumulator", group("$accumulator"), 31264, NO_JAVASCRIPT),
        ("$function", project("$function"), 31264, NO_JAVASCRIPT),
        ("$function", add("$function"), 31264, NO_JAVASCRIPT),
        (
            "$bitAnd",
            project("$bitAnd"),
            168,
            "Unrecognized expression '$bitAnd'",
        ),
        (
            "$graphLookup",
            lookup,
            40324,
            "Unrecognized pipeline stage name: '$graphLookup'",
        ),
        ("mapReduce", doc! { "mapReduce": "c" }, 31264, NO_JAVASCRIPT),
        (
            "rolesInfo",
            doc! { "rolesInfo": 1 },
            59,
            "no such command: 'rolesInfo'",
        ),
    ];
    check(&mut world, conn, cases);
}

#[test]
fn a_field_fails_as_an_unknown_one_of_its_release() {
    let find = doc! { "find": "c" };
    let cases = [
        (find, "$_resumeAfter", "FindCommandRequest.$_resumeAfter"),
        (aggregate(&[]), "exchange", "aggregate.exchange"),
    ];
    for (release, code) in [([4, 4, 29], 9), ([5, 0, 31], 40415)] {
        let (mut world, conn) = of_release(release);
        for (command, field, path) in &cases {
            let mut with = |field: &str| {
                let mut command = command.clone();
                command.insert(field, doc! { "a": 1 });
                send(&mut world, conn, command)
            };
            let (refused, unknown) = (with(field), with("bogus"));
            for reply in [&refused, &unknown] {
                assert_eq!(reply.get_i32("code").ok(), Some(code), "{reply}");
            }
            let information = refused.get_document("errInfo").ok();
            assert_eq!(
                information,
                Some(&doc! { "notSimulated": *path }),
                "{refused}"
            );
            assert!(!unknown.contains_key("errInfo"), "{unknown}");
        }
    }
}

#[test]
fn what_match_does_not_permit_fails_as_on_every_server() {
    let (mut world, conn) = standalone();
    fill(&mut world, conn, 1);
    for (filter, code) in [
        (doc! { "$where": "true" }, 2),
        (doc! { "$or": [{ "n": { "$near": [0, 0] } }] }, 5_626_500),
    ] {
        for before in [vec![], vec![doc! { "$limit": 1 }]] {
            let stages = [before, vec![doc! { "$match": filter.clone() }]].concat();
            let reply = send(&mut world, conn, aggregate(&stages));
            assert_eq!(reply.get_i32("code").ok(), Some(code), "{reply}");
            let message = reply.get_str("errmsg").unwrap_or_default();
            assert!(message.contains("not allowed in this context"), "{reply}");
            assert!(!reply.contains_key("errInfo"), "{reply}");
        }
    }
}

#[test]
fn what_no_server_has_fails_without_an_explanation() {
    let (mut world, conn) = standalone();
    fill(&mut world, conn, 1);
    for command in [
        find(doc! { "n": { "$bogus": 1 } }),
        aggregate(&[doc! { "$bogus": {} }]),
        project("$accumulator"),
        group("$bogus"),
        doc! { "bogus": 1 },
        doc! { "find": "c", "bogus": 1 },
    ] {
        let reply = send(&mut world, conn, command);
        assert_eq!(reply.get_f64("ok").ok(), Some(0.0), "{reply}");
        assert!(!reply.contains_key("errInfo"), "{reply}");
    }
}

#[test]
fn an_entry_of_write_errors_tells_what_is_not_simulated() {
    let (mut world, conn) = standalone();
    let delete = doc! { "q": { "$where": "true" }, "limit": 0 };
    let reply = send(
        &mut world,
        conn,
        doc! { "delete": "c", "deletes": [delete], "$db": "d" },
    );
    let errors = reply.get_array("writeErrors").expect("it fails");
    let error = errors[0].as_document().expect("an error");
    let information = error.get_document("errInfo").ok();
    assert_eq!(
        information,
        Some(&doc! { "notSimulated": "$where" }),
        "{reply}"
    );
}

#[test]
fn the_errors_of_a_write_have_messages_of_a_bounded_size() {
    let (mut world, conn) = standalone();
    let unknown = format!("${}", "x".repeat(4000));
    let delete = |operator: &str| doc! { "q": { operator: 1 }, "limit": 0 };
    let mut deletes = vec![delete("$where")];
    deletes.extend(vec![delete(&unknown); 300]);
    deletes.push(delete("$where"));
    let command = doc! { "delete": "c", "deletes": deletes, "ordered": false };
    let reply = send(&mut world, conn, command);
    let errors = reply.get_array("writeErrors").expect("all fail");
    assert_eq!(errors.len(), 302);
    for (error, has_message) in [(errors.first(), true), (errors.last(), false)] {
        let error = error.and_then(Bson::as_document).expect("an error");
        assert_eq!(error.get_i32("code").ok(), Some(6_108_304), "{error}");
        let message = error.get_str("errmsg").expect("a text");
        assert_eq!(!message.is_empty(), has_message, "{error}");
        assert_eq!(error.contains_key("errInfo"), has_message, "{error}");
    }
}

#[test]
fn the_errors_of_a_write_have_keys_of_a_bounded_size() {
    let (mut world, conn) = standalone();
    let large = "x".repeat(1024 * 1024);
    let insert = |copies: usize| {
        doc! { "insert": "c", "documents": vec![doc! { "_id": &large }; copies], "ordered": false }
    };
    let first = send(&mut world, conn, insert(1));
    assert_eq!(first.get_i32("n").ok(), Some(1), "{first}");
    let reply = send(&mut world, conn, insert(20));
    let errors = reply.get_array("writeErrors").expect("all fail");
    assert_eq!(errors.len(), 20);
    for (error, has_key) in [(errors.first(), true), (errors.last(), false)] {
        let error = error.and_then(Bson::as_document).expect("an error");
        assert_eq!(error.get_i32("code").ok(), Some(11000));
        assert_eq!(error.contains_key("keyValue"), has_key);
        assert!(error.get_str("errmsg").is_ok_and(|text| !text.is_empty()));
    }
}
