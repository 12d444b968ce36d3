//! The commands of this driver and of PyMongo for the same calls, field by field.
//!
//! A proxy records what each driver sends. A difference that is not listed fails the test, and so
//! does a listed one that does not occur.

mod bulk;
mod calls;
mod options;
mod own_options;
mod recording;
mod routed;

use bson::{Bson, Document};
use onionskin_deployment::deployment::ServerVersion;
use onionskin_serve::{Embedded, ServeOptions};
use onionskin_tests::peers;
use onionskin_tokio::{
    Client,
    error::Error,
    options::{ClientOptions, ServerApi, ServerApiVersion},
};
use recording::{Call, Recording};
use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
    time::Duration,
};

/// The time limit of PyMongo's calls.
const LIMIT: Duration = Duration::from_secs(60);

/// The differences that are expected: the scenes, what differs, and the reason. `COMMAND.FIELD` is
/// a field that has another value, and `CALL.*` a call that sends other commands.
const DIFFERENCES: &[(&str, &str, &str)] = &[
    (
        "calls",
        "aggregate.collation",
        "PyMongo sends no collation of a change stream",
    ),
    (
        "options",
        "bulkWrite.$clusterTime",
        "PyMongo sends no cluster time with an unacknowledged bulk write",
    ),
    (
        "calls",
        "count.$readPreference",
        "on a direct connection PyMongo replaces also a mode that is not primary (SEL-24)",
    ),
    ("calls", "create_collection with options.*", PROBE),
    ("calls", "create_collection.*", PROBE),
    (
        "options",
        "create.size",
        "PyMongo makes a double of the size",
    ),
    (
        "options",
        "delete.bypassDocumentValidation",
        "a delete validates no document",
    ),
    (
        "options",
        "distinct.$readPreference",
        "PyMongo sends none in a transaction",
    ),
    (
        "calls options declared",
        "distinct.query",
        "the filter of a call in Rust is not optional",
    ),
    (
        "calls options",
        "dropDatabase.$readPreference",
        "here only reads have a read preference",
    ),
    (
        "calls",
        "dropDatabase.comment",
        "PyMongo sends null for a comment that is not there",
    ),
    (
        "calls declared",
        "find.$readPreference",
        "PyMongo replaces also other modes than primary, and sends none in a transaction",
    ),
    (
        "options",
        "find.batchSize",
        "with a negative limit, the only batch has room for all documents here",
    ),
    (
        "calls options routed declared own",
        "findAndModify.new",
        DEFAULT,
    ),
    ("calls options own", "findAndModify.upsert", DEFAULT),
    ("calls options declared", "getMore.$readPreference", CURSOR),
    (
        "calls options",
        "insert.txnNumber",
        "PyMongo retries no command of a bulk write with updates or deletes of many",
    ),
    (
        "calls options declared",
        "killCursors.$readPreference",
        CURSOR,
    ),
    (
        "calls options declared own",
        "killCursors.maxTimeMS",
        "here a cursor is closed with a time limit",
    ),
];

const PROBE: &str = "PyMongo first asks if the collection exists";
const DEFAULT: &str = "PyMongo sends the default, which is false";
const CURSOR: &str = "PyMongo sends no read preference with the id of a cursor";

/// The calls that are compared in one run of both drivers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scene {
    /// Calls without options, and with most of them.
    Calls,
    /// Calls with all other options.
    Options,
    /// Calls with read preferences behind a router, and with a time limit.
    Routed,
    /// Calls of a client that declares its API.
    Declared,
    /// Calls with concerns and read preferences of their own, behind a router.
    Own,
}

impl Scene {
    const ALL: [Self; 5] = [
        Self::Calls,
        Self::Options,
        Self::Routed,
        Self::Declared,
        Self::Own,
    ];

    /// Returns the name by which the script knows the scene.
    const fn name(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Options => "options",
            Self::Routed => "routed",
            Self::Declared => "declared",
            Self::Own => "own",
        }
    }

    /// Starts a deployment and gives `run` a connection string for it. Returns what the driver
    /// sent.
    fn recorded(self, run: impl FnOnce(&str)) -> Vec<Call> {
        let (mut serve, options) = match self {
            Self::Routed => (ServeOptions::sharded(1), "timeoutMS=60000"),
            Self::Own => (ServeOptions::sharded(1), "directConnection=false"),
            _ => (ServeOptions::replica_set("rs", 1), "directConnection=true"),
        };
        serve.version = ServerVersion::named("8.0").expect("a release");
        let deployment = Embedded::start(serve).expect("it starts");
        let recording = Recording::of(deployment.addresses()[0]);
        run(&format!("mongodb://{}/?{options}", recording.address));
        recording.take()
    }

    /// Makes the calls with this driver.
    async fn make(self, uri: &str) -> Result<(), Error> {
        let mut options = ClientOptions::parse(uri).await?;
        if self == Self::Declared {
            let api = ServerApi::builder().version(ServerApiVersion::V1);
            options.server_api = Some(api.strict(true).deprecation_errors(true).build());
        }
        let client = Client::with_options(options)?;
        match self {
            Self::Calls => calls::make(&client).await?,
            Self::Options => options::make(&client).await?,
            Self::Routed => routed::make(&client).await?,
            Self::Declared => routed::declare(&client).await?,
            Self::Own => own_options::make(&client).await?,
        }
        client.shutdown().await;
        Ok(())
    }
}

/// Replaces the values that differ from run to run, and forms that servers take for the same.
fn steady(name: &str, field: &str, value: &Bson) -> Bson {
    match (name, field) {
        (_, "lsid" | "$clusterTime" | "txnNumber") | ("getMore", "getMore") => {
            Bson::from("any value")
        }
        ("killCursors", "cursors") => Bson::from("any cursor"),
        (_, "maxTimeMS") => match uniform(value, false) {
            Bson::Int64(50_000..=60_000) => Bson::from("the rest of a minute"),
            other => other,
        },
        (_, "writeConcern") => match uniform(value, false) {
            // The order of its fields is free.
            Bson::Document(fields) => {
                let sorted: BTreeMap<_, _> = fields.into_iter().collect();
                Bson::Document(sorted.into_iter().collect())
            }
            other => other,
        },
        (_, "readConcern") => without(value, &["afterClusterTime", "atClusterTime"]),
        ("aggregate", "pipeline") => match value {
            Bson::Array(stages) => stages.iter().map(without_token).collect(),
            other => other.clone(),
        },
        ("update", "updates") => match value {
            Bson::Array(updates) => updates.iter().map(|update| uniform(update, true)).collect(),
            other => other.clone(),
        },
        _ => uniform(value, false),
    }
}

/// Returns a document in which fields have any value.
fn without(value: &Bson, fields: &[&str]) -> Bson {
    let mut value = uniform(value, false);
    if let Bson::Document(document) = &mut value {
        for field in fields {
            if let Some(found) = document.get_mut(field) {
                *found = Bson::from("any value");
            }
        }
    }
    value
}

/// Returns a stage in which a change stream has any token.
fn without_token(stage: &Bson) -> Bson {
    let mut stage = uniform(stage, false);
    let watch = stage
        .as_document_mut()
        .and_then(|stage| stage.get_mut("$changeStream"));
    if let Some(watch) = watch {
        *watch = without(watch, &["resumeAfter", "startAfter"]);
    }
    stage
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
    let mut differences: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut compared = 0;
    for scene in Scene::ALL {
        let theirs = scene.recorded(|uri| {
            let mut command = Command::new(&interpreter);
            command.args([script, uri, scene.name()]);
            let output = peers::run(command, LIMIT).expect("it runs");
            assert!(output.stdout.contains("done"), "{output:?}");
        });
        let ours = scene.recorded(|uri| {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            let made = runtime.block_on(scene.make(uri));
            made.unwrap_or_else(|error| panic!("{scene:?}: {error}"));
        });
        compared += compare_calls(scene.name(), &ours, &theirs, &mut differences);
    }
    let listed = DIFFERENCES.iter().flat_map(|(scenes, field, reason)| {
        println!("  differs: {field} in {scenes}, because {reason}");
        let scenes = scenes.split(' ');
        scenes.map(move |scene| format!("{scene}: {field}"))
    });
    let listed: BTreeSet<String> = listed.collect();
    let found: BTreeSet<String> = differences.keys().cloned().collect();
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
        Vec::<&String>::new()
    );
}

/// Compares the commands of calls, and adds the differences. Returns the number of commands.
fn compare_calls(
    scene: &str,
    ours: &[Call],
    theirs: &[Call],
    differences: &mut BTreeMap<String, Vec<String>>,
) -> usize {
    let names = |calls: &[Call]| {
        let names = calls.iter().map(|call| call.name.clone());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(ours), names(theirs));
    let mut compared = 0;
    let mut add = |field: String, found: String| {
        let key = format!("{scene}: {field}");
        differences.entry(key).or_default().push(found);
    };
    for (ours, theirs) in ours.iter().zip(theirs) {
        let (a, b) = (&ours.commands, &theirs.commands);
        let kinds = |all: &[Document]| {
            let names = all.iter().filter_map(|c| c.keys().next().cloned());
            names.collect::<Vec<_>>()
        };
        if kinds(a) != kinds(b) {
            let found = format!("{}: {:?}, in PyMongo {:?}", ours.name, kinds(a), kinds(b));
            add(format!("{}.*", ours.name), found);
            continue;
        }
        for (field, found) in a.iter().zip(b).flat_map(|(a, b)| compare(a, b)) {
            add(field, format!("{}: {found}", ours.name));
        }
        compared += a.len();
    }
    compared
}
