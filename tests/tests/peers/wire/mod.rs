//! The commands of this driver and of PyMongo for the same calls, field by field.
//!
//! A proxy records what each driver sends. A difference that is not listed fails the test, and so
//! does a listed one that does not occur.

mod calls;
mod recording;

use bson::{Bson, Document};
use onionskin_deployment::deployment::ServerVersion;
use onionskin_simulations::serve::{Embedded, ServeOptions};
use onionskin_tests::peers;
use onionskin_tokio::Client;
use recording::{Call, Recording};
use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
    time::Duration,
};

/// The time limit of PyMongo's calls.
const LIMIT: Duration = Duration::from_secs(60);

/// The differences that are expected, each with its reason: `COMMAND.FIELD` for a field that has
/// another value, and `CALL.*` for a call that sends other commands.
const DIFFERENCES: &[(&str, &str)] = &[
    (
        "aggregate.collation",
        "PyMongo sends no collation of a change stream",
    ),
    (
        "count.$readPreference",
        "on a direct connection PyMongo replaces also a mode that is not primary (SEL-24)",
    ),
    ("create_collection with options.*", PROBE),
    ("create_collection.*", PROBE),
    (
        "distinct.query",
        "the filter of a call in Rust is not optional",
    ),
    (
        "dropDatabase.$readPreference",
        "here only reads have a read preference",
    ),
    (
        "dropDatabase.comment",
        "PyMongo sends null for a comment that is not there",
    ),
    (
        "find.$readPreference",
        "PyMongo replaces also other modes than primary, and sends none in a transaction",
    ),
    ("findAndModify.new", DEFAULT),
    ("findAndModify.upsert", DEFAULT),
    ("getMore.$readPreference", CURSOR),
    (
        "insert.txnNumber",
        "PyMongo retries no command of a bulk write with updates or deletes of many",
    ),
    ("killCursors.$readPreference", CURSOR),
    (
        "killCursors.maxTimeMS",
        "here a cursor is closed with a time limit",
    ),
];

const PROBE: &str = "PyMongo first asks if the collection exists";
const DEFAULT: &str = "PyMongo sends the default, which is false";
const CURSOR: &str = "PyMongo sends no read preference with the id of a cursor";

fn deployment() -> Embedded {
    let mut options = ServeOptions::replica_set("rs", 1);
    options.version = ServerVersion::named("8.0").expect("a release");
    Embedded::start(options).expect("it starts")
}

/// Starts a deployment and gives `run` a connection string for it. Returns what the driver sent.
fn recorded(run: impl FnOnce(&str)) -> Vec<Call> {
    let deployment = deployment();
    let recording = Recording::of(deployment.addresses()[0]);
    run(&format!(
        "mongodb://{}/?directConnection=true",
        recording.address
    ));
    recording.take()
}

/// Replaces the values that differ from run to run, and forms that servers take for the same.
fn steady(name: &str, field: &str, value: &Bson) -> Bson {
    match (name, field) {
        (_, "lsid" | "$clusterTime" | "txnNumber") | ("getMore", "getMore") => {
            Bson::from("any value")
        }
        ("killCursors", "cursors") => Bson::from("any cursor"),
        (_, "writeConcern") => uniform(value, true),
        ("update", "updates") => match value {
            Bson::Array(updates) => updates.iter().map(|update| uniform(update, true)).collect(),
            other => other.clone(),
        },
        _ => uniform(value, false),
    }
}

/// Returns a value in which all integers have 64 bits. If the order of fields is free, they are
/// sorted, and `false`, the default of each option of an update, is left out.
fn uniform(value: &Bson, is_free: bool) -> Bson {
    match value {
        Bson::Int32(number) => Bson::Int64((*number).into()),
        Bson::Array(values) => values.iter().map(|value| uniform(value, false)).collect(),
        Bson::Document(document) => {
            let fields = document
                .iter()
                .map(|(key, value)| (key.clone(), uniform(value, false)));
            match is_free {
                false => Bson::Document(fields.collect()),
                true => {
                    let told = fields.filter(|(_, value)| *value != Bson::Boolean(false));
                    Bson::Document(told.collect::<BTreeMap<_, _>>().into_iter().collect())
                }
            }
        }
        other => other.clone(),
    }
}

/// Returns each field in which two commands differ, with a text that has both values.
fn compare(ours: &Document, theirs: &Document) -> Vec<(String, String)> {
    let name = ours.keys().next().cloned().unwrap_or_default();
    let fields: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    let both = fields.into_iter().filter_map(|field| {
        let [a, b] = [ours, theirs].map(|c| c.get(field).map(|v| steady(&name, field, v)));
        (a != b).then(|| {
            (
                format!("{name}.{field}"),
                format!("{a:?}, in PyMongo {b:?}"),
            )
        })
    });
    both.collect()
}

#[test]
fn pymongo_sends_the_same_commands() {
    let Some(interpreter) = peers::python_with_pymongo() else {
        return;
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/pymongo/calls.py");
    let theirs = recorded(|uri| {
        let mut command = Command::new(&interpreter);
        command.args([script, uri]);
        let output = peers::run(command, LIMIT).expect("it runs");
        assert!(output.stdout.contains("done"), "{output:?}");
    });
    let ours = recorded(|uri| {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let client = Client::with_uri_str(uri).await.expect("a client");
            calls::make(&client).await.expect("all calls succeed");
            client.shutdown().await;
        });
    });
    let names = |calls: &[Call]| {
        calls
            .iter()
            .map(|call| call.name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&ours), names(&theirs));
    let mut differences: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut compared = 0;
    for (ours, theirs) in ours.iter().zip(&theirs) {
        let (a, b) = (&ours.commands, &theirs.commands);
        let kinds = |all: &[Document]| {
            all.iter()
                .filter_map(|c| c.keys().next().cloned())
                .collect::<Vec<_>>()
        };
        if kinds(a) != kinds(b) {
            let found = format!("{}: {:?}, in PyMongo {:?}", ours.name, kinds(a), kinds(b));
            differences
                .entry(format!("{}.*", ours.name))
                .or_default()
                .push(found);
            continue;
        }
        for (field, found) in a.iter().zip(b).flat_map(|(a, b)| compare(a, b)) {
            let found = format!("{}: {found}", ours.name);
            differences.entry(field).or_default().push(found);
        }
        compared += a.len();
    }
    let listed: BTreeSet<&str> = DIFFERENCES.iter().map(|(field, _)| *field).collect();
    let found: BTreeSet<&str> = differences.keys().map(String::as_str).collect();
    for (field, reason) in DIFFERENCES {
        println!("  differs: {field}, because {reason}");
    }
    println!(
        "SUITE: commands on the wire: {compared} compared, {} differences",
        found.len()
    );
    let unknown: Vec<_> = differences
        .iter()
        .filter(|(f, _)| !listed.contains(f.as_str()))
        .collect();
    assert!(unknown.is_empty(), "{unknown:#?}");
    assert_eq!(
        listed.difference(&found).collect::<Vec<_>>(),
        Vec::<&&str>::new()
    );
}
