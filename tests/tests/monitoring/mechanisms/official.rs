//! The official test files of `auth/tests/unified`, run with the simulated deployment.

use super::{
    Calls, issue,
    unified::{
        Entities, compare_error, compare_event, compare_outcome, compare_result, document, fill,
        is_met, known, list, observed, text,
    },
    with_issuer,
};
use crate::scene::{Scene, Watched, play};
use bson::{Bson, Document, doc};
use onionskin_core::{
    error::Error,
    options::{OidcFlow, OidcTokens},
};
use onionskin_simulations::{deployment::ServerVersion, identity::TokenIssuer};
use onionskin_tests::{report::Suite, specifications};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// Runs all files of the suite.
#[test]
fn unified_authentication_files() {
    let path = "auth/tests/unified";
    let Some(files) = specifications::files(path) else {
        return;
    };
    let mut suite = Suite::new(path, &[]);
    for file in &files {
        let content = match &file.content {
            Ok(content) => content,
            Err(reason) => {
                suite.case(&file.name, "", || Err(reason.clone()));
                continue;
            }
        };
        for test in list(&content["tests"]) {
            let case = test["description"].as_str().unwrap_or_default();
            match is_required(content, test) {
                Ok(true) => suite.case(&file.name, case, || run(content, test)),
                Ok(false) => {
                    suite.not_attempted(format!("{}: {case}: runOnRequirements", file.name));
                }
                Err(reason) => suite.case(&file.name, case, || Err(reason.clone())),
            }
        }
    }
    suite.finish();
}

/// True if the simulated deployment meets the requirements of a test. Fails for a file or a test
/// with a field that this runner does not know.
fn is_required(file: &Value, test: &Value) -> Result<bool, String> {
    let of_file = [
        "description",
        "schemaVersion",
        "runOnRequirements",
        "createEntities",
        "initialData",
        "tests",
        "_yamlAnchors",
    ];
    known(file, &of_file)?;
    let of_test = [
        "description",
        "runOnRequirements",
        "operations",
        "expectEvents",
        "outcome",
    ];
    known(test, &of_test)?;
    let version = ServerVersion::default();
    Ok(
        is_met(&file["runOnRequirements"], version)?
            && is_met(&test["runOnRequirements"], version)?,
    )
}

/// Runs one test of a file with each seed.
fn run(file: &Value, test: &Value) -> Result<(), String> {
    let (options, issuer) = with_issuer();
    let result = Arc::new(Mutex::new(Ok(())));
    play([options], |scene| {
        let (issuer, result) = (issuer.clone(), result.clone());
        async move {
            let outcome = run_once(&scene, &issuer, file, test).await;
            let mut result = result.lock().expect("no panic before");
            if result.is_ok() {
                *result = outcome;
            }
        }
    });
    let result = result.lock().expect("no panic before");
    result.clone()
}

async fn run_once(
    scene: &Scene,
    issuer: &TokenIssuer,
    file: &Value,
    test: &Value,
) -> Result<(), String> {
    let entities = Entities::of(file)?;
    let entity = entities.find("client", &json!("client0"))?;
    fill(scene, file).await?;
    let watched = create_client(scene, issuer, entity)?;
    for operation in list(&test["operations"]) {
        perform(scene, &watched, &entities, operation).await?;
    }
    for expected in list(&test["expectEvents"]) {
        compare_events(&watched, entity, expected)?;
    }
    watched.end().await;
    compare_outcome(scene, test).await
}

/// Creates the client that the operations of the file use. Its tokens come from a callback.
fn create_client(scene: &Scene, issuer: &TokenIssuer, entity: &Value) -> Result<Watched, String> {
    let mut options = String::new();
    for (name, value) in entity["uriOptions"].as_object().into_iter().flatten() {
        match (name.as_str(), value) {
            ("authMechanism", value) if value == "MONGODB-OIDC" => {}
            ("authMechanismProperties", value) if value["$$placeholder"] == 1 => {}
            ("authMechanism" | "authMechanismProperties", _) => {
                return Err(format!("the option {name}: {value} is not known here"));
            }
            (_, Value::String(value)) => options += &format!("{name}={value}&"),
            (_, Value::Bool(_) | Value::Number(_)) => options += &format!("{name}={value}&"),
            _ => return Err(format!("the option {name}: {value} is not known here")),
        }
    }
    let (issuer, runtime) = (issuer.clone(), scene.runtime.clone());
    let (_, provider) = Calls::of(OidcFlow::Machine, move |_, _| {
        Ok::<_, Error>(OidcTokens::new(issue(&issuer, &runtime)))
    });
    Ok(scene.client_by(&options, provider))
}

async fn perform(
    scene: &Scene,
    watched: &Watched,
    entities: &Entities<'_>,
    operation: &Value,
) -> Result<(), String> {
    let fields = ["name", "object", "arguments", "expectError", "expectResult"];
    known(operation, &fields)?;
    let arguments = &operation["arguments"];
    let name = text(&operation["name"])?;
    if operation["object"] == "testRunner" {
        return set_fail_point(scene, entities, operation).await;
    }
    let (client, database, collection) = entities.collection(&operation["object"])?;
    if client != "client0" {
        return Err(format!("{name} uses another client, {client}"));
    }
    let collection = watched
        .client
        .database(database)
        .collection::<Document>(collection);
    let result = match name {
        "find" => {
            known(arguments, &["filter"])?;
            let filter = document(&arguments["filter"])?;
            let cursor = collection.find(filter).await;
            let found = match cursor {
                Ok(cursor) => cursor.into_vec().await,
                Err(error) => Err(error),
            };
            found.map(|found: Vec<Document>| Bson::from(found).into_relaxed_extjson())
        }
        "insertOne" => {
            known(arguments, &["document"])?;
            let inserted = collection.insert_one(document(&arguments["document"])?);
            let inserted = inserted.await;
            inserted.map(|inserted| {
                let id = inserted.inserted_id.into_relaxed_extjson();
                json!({ "insertedId": id })
            })
        }
        _ => return Err(format!("the operation {name} is not known here")),
    };
    compare(operation, result).map_err(|reason| format!("{name}: {reason}"))
}

/// Compares the result or the error of an operation with the expected one.
fn compare(operation: &Value, result: Result<Value, Error>) -> Result<(), String> {
    match (
        result,
        &operation["expectError"],
        &operation["expectResult"],
    ) {
        (Ok(_), Value::Null, Value::Null) => Ok(()),
        (Ok(found), Value::Null, expected) => compare_result(expected, &found),
        (Ok(_), expected, _) => Err(format!("no error, but {expected} was expected")),
        (Err(error), Value::Null, _) => Err(error.to_string()),
        (Err(error), expected, _) => compare_error(expected, &error),
    }
}

async fn set_fail_point(
    scene: &Scene,
    entities: &Entities<'_>,
    operation: &Value,
) -> Result<(), String> {
    let arguments = &operation["arguments"];
    known(arguments, &["client", "failPoint"])?;
    if operation["name"] != "failPoint" {
        return Err(format!("{} is not known here", operation["name"]));
    }
    entities.find("client", &arguments["client"])?;
    let mut command = document(&arguments["failPoint"])?;
    // The fields of a parsed document are sorted, but the server takes the first one for the
    // command.
    let data = command.remove("data").unwrap_or(Bson::Null);
    let mode = command.remove("mode").unwrap_or(Bson::Null);
    command.extend(doc! { "mode": mode, "data": data });
    scene.tell(0, command).await;
    Ok(())
}

fn compare_events(watched: &Watched, entity: &Value, expected: &Value) -> Result<(), String> {
    known(expected, &["client", "events", "eventType"])?;
    if expected["client"] != entity["id"] {
        return Err(format!("events of another client, {}", expected["client"]));
    }
    if !expected["eventType"].is_null() && expected["eventType"] != "command" {
        return Err(format!("{} is not known here", expected["eventType"]));
    }
    let wanted = list(&expected["events"]);
    let found = watched.events.notes(|event| observed(entity, event));
    if wanted.len() != found.len() {
        return Err(format!("{found:?} instead of {wanted:?}"));
    }
    let mut pairs = wanted.iter().zip(&found);
    pairs.try_for_each(|(wanted, found)| {
        let compared = compare_event(wanted, found);
        compared.map_err(|why| format!("{why}: {found:?} instead of {wanted}"))
    })
}

/// Returns a file with one test, which inserts a document and finds it.
fn example() -> Value {
    let stored = json!([{ "_id": 1, "x": "one" }]);
    json!({
        "createEntities": [
            { "client": { "id": "client0", "observeEvents": ["commandStartedEvent"] } },
            { "database": { "id": "database0", "client": "client0", "databaseName": "test" } },
            { "collection": {
                "id": "collection0", "database": "database0", "collectionName": "things",
            } },
        ],
        "initialData": [
            { "databaseName": "test", "collectionName": "things", "documents": stored },
        ],
        "tests": [{
            "operations": [
                {
                    "name": "insertOne", "object": "collection0",
                    "arguments": { "document": { "_id": 2 } },
                    "expectResult": { "insertedId": { "$$unsetOrMatches": 2 } },
                },
                {
                    "name": "find", "object": "collection0",
                    "arguments": { "filter": { "_id": 1 } }, "expectResult": stored,
                },
            ],
            "expectEvents": [{ "client": "client0", "events": [
                { "commandStartedEvent": {
                    "command": { "insert": "things", "documents": [{ "_id": 2 }] },
                } },
                { "commandStartedEvent": {
                    "databaseName": "test",
                    "command": { "find": "things", "filter": { "_id": 1 } },
                } },
            ] }],
            "outcome": [{
                "databaseName": "test", "collectionName": "things",
                "documents": [{ "_id": 1, "x": "one" }, { "_id": 2 }],
            }],
        }],
    })
}

/// The runner notices each expectation that is not met, and each feature that it does not know.
#[test]
fn the_runner_passes_over_no_part_of_a_file() {
    let outcome = |file: &Value| match is_required(file, &file["tests"][0]) {
        Ok(true) => run(file, &file["tests"][0]),
        Ok(false) => Err("not required".to_owned()),
        Err(reason) => Err(reason),
    };
    assert_eq!(outcome(&example()), Ok(()));
    let events = "/tests/0/expectEvents/0/events";
    for (place, value) in [
        ("/tests/0/operations/1/expectResult/0/x", json!("two")),
        (
            "/tests/0/operations/0/expectResult/insertedId",
            json!({ "$$matchesEntity": 2 }),
        ),
        ("/tests/0/operations/0/arguments/session", json!("session0")),
        ("/tests/0/operations/0/saveResultAsEntity", json!("x")),
        (
            &format!("{events}/0/commandStartedEvent/command/documents/0/_id"),
            json!(3),
        ),
        (
            &format!("{events}/1/commandStartedEvent/databaseName"),
            json!("other"),
        ),
        (
            &format!("{events}/1/commandStartedEvent/hasServiceId"),
            json!(true),
        ),
        ("/tests/0/outcome/0/documents/1/_id", json!(3)),
        ("/initialData/0/documents/0/x", json!("two")),
        (
            "/tests/0/runOnRequirements",
            json!([{ "minServerVersion": "99.0" }]),
        ),
        (
            "/runOnRequirements",
            json!([{ "auth": true, "topologies": ["sharded"] }]),
        ),
        ("/runOnRequirements", json!([{ "moon": "full" }])),
        ("/tests/0/skipReason", json!("none")),
        ("/createEntities/0/client/serverApi", json!({})),
    ] {
        let mut file = example();
        let (parent, key) = place.rsplit_once('/').expect("a place");
        let parent = file.pointer_mut(parent).expect("a place of the file");
        parent[key] = value;
        assert!(outcome(&file).is_err(), "{place}");
    }
}
