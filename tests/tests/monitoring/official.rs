//! The official tests of `client-backpressure/tests`, each with a replica set, a sharded cluster
//! and a load balancer. Tests with operations that the client does not offer are left out.

use crate::{
    event_log::{command_name, pool_name},
    scene::{Scene, Watched, balanced_alone, play, replica_set_of, sharded_alone},
};
use bson::{Bson, Document, doc};
use onionskin::{Collection, Error, options::InsertOneModel};
use onionskin_core::event::{Event, EventKind};
use onionskin_simulations::world::SimRuntime;
use onionskin_tests::specifications::{self, TestFile};
use serde_json::Value;
use std::{collections::BTreeSet, sync::Arc};

/// Operations of the official files that the client does not offer yet. An operation of a whole
/// database or client has a prefix.
const MISSING: [&str; 20] = [
    "client.clientBulkWrite",
    "client.createChangeStream",
    "client.listDatabaseNames",
    "client.listDatabases",
    "createChangeStream",
    "createIndex",
    "database.aggregate",
    "database.createChangeStream",
    "database.listCollectionNames",
    "database.listCollections",
    "distinct",
    "dropIndex",
    "dropIndexes",
    "estimatedDocumentCount",
    "findOneAndDelete",
    "findOneAndReplace",
    "findOneAndUpdate",
    "listIndexNames",
    "listIndexes",
    "replaceOne",
];

#[test]
fn client_backpressure() {
    let Some(files) = specifications::files("client-backpressure/tests") else {
        return;
    };
    let mut missing = BTreeSet::new();
    for TestFile { name, content } in files {
        let file = content.unwrap_or_else(|reason| panic!("{name}: {reason}"));
        let mut tests = Vec::new();
        for test in list(&file["tests"]) {
            let called = operations(test).map(called);
            let lacks: Vec<String> = called.filter(|name| is_missing(name)).collect();
            match lacks.is_empty() {
                true => tests.push(test.clone()),
                false => missing.extend(lacks),
            }
        }
        assert!(!tests.is_empty(), "{name}: none of its tests is run");
        let (file, tests) = (Arc::new(file), Arc::new(tests));
        let deployments = [replica_set_of(1), sharded_alone(), balanced_alone()];
        play(deployments, |scene| run(scene, file.clone(), tests.clone()));
    }
    let listed: BTreeSet<String> = MISSING.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(
        missing, listed,
        "an operation that no test has is not listed"
    );
}

/// Runs these tests of a file in one deployment.
async fn run(scene: Scene, file: Arc<Value>, tests: Arc<Vec<Value>>) {
    for test in tests.iter() {
        let case = text(&test["description"]);
        for data in list(&file["initialData"]) {
            fill(&scene, data).await;
        }
        let mut clients = Vec::new();
        for entity in list(&file["createEntities"]) {
            let entity = &entity["client"];
            let observed = list(&test["expectEvents"]);
            // A client without expected events is not created, because `Watched::end` of the other
            // client asserts that the servers have no connections.
            if observed
                .iter()
                .any(|expected| expected["client"] == entity["id"])
            {
                clients.push((entity, scene.client(&options(entity))));
            }
        }
        for operation in operations(test) {
            let result = perform(&scene, &file, &clients, operation).await;
            let expected = &operation["expectError"];
            match &result {
                Ok(_) => assert!(expected.is_null(), "{case}: it does not fail"),
                Err(error) => {
                    assert!(!expected.is_null(), "{case}: {error:?}");
                    let is_of_server = error.code().is_some();
                    assert_eq!(expected["isClientError"] == true, !is_of_server, "{case}");
                }
            }
            if let (Ok(found), Some(expected)) = (result, operation.get("expectResult"))
                && let Some(expected) = expected.as_array()
            {
                let key = |document: &Document| document.get_i32("a").ok().map(i64::from);
                let found: Vec<_> = found.iter().map(key).collect();
                let expected: Vec<_> = expected.iter().map(|d| d["a"].as_i64()).collect();
                assert_eq!(found, expected, "{case}");
            }
        }
        scene.clear_fail_point(scene.primary()).await;
        for expected in list(&test["expectEvents"]) {
            let of_it = |(entity, _): &&(&Value, Watched)| entity["id"] == expected["client"];
            let (entity, watched) = clients.iter().find(of_it).expect("a client");
            let reported = || watched.events.notes(|event| observed(entity, event));
            // A cursor sends its `killCursors` command in the background.
            let count = list(&expected["events"]).len();
            scene.until(case, || reported().len() >= count).await;
            let (reported, wanted) = (reported(), list(&expected["events"]).iter().map(wanted));
            let wanted: Vec<String> = wanted.collect();
            assert_eq!(reported, wanted, "{case}");
        }
        for (_, watched) in clients {
            watched.end().await;
        }
    }
}

async fn perform(
    scene: &Scene,
    file: &Value,
    clients: &[(&Value, Watched)],
    operation: &Value,
) -> Result<Vec<Document>, Error> {
    let arguments = &operation["arguments"];
    if operation["name"] == "failPoint" {
        scene
            .tell(
                scene.primary(),
                command("configureFailPoint", &arguments["failPoint"]),
            )
            .await;
        return Ok(Vec::new());
    }
    let named = |kind: &str, id: &Value| {
        let entities = list(&file["createEntities"]).iter();
        let mut found = entities.map(|entity| &entity[kind]);
        found.find(|entity| entity["id"] == *id).cloned()
    };
    let collection = named("collection", &operation["object"]);
    let database = match &collection {
        Some(collection) => named("database", &collection["database"]),
        None => named("database", &operation["object"]),
    };
    let database = database.expect("a database");
    let (_, watched) = clients
        .iter()
        .find(|(entity, _)| entity["id"] == database["client"])
        .expect("a client");
    let name = text(&operation["name"]);
    let database = watched.client.database(text(&database["databaseName"]));
    let Some(collection) = collection else {
        assert_eq!(name, "runCommand");
        let command = command(text(&arguments["commandName"]), &arguments["command"]);
        return database.run_command(command).await.map(|_| Vec::new());
    };
    let collection = database.collection(text(&collection["collectionName"]));
    perform_on(&collection, name, arguments).await
}

async fn perform_on(
    collection: &Collection<SimRuntime, Document>,
    name: &str,
    arguments: &Value,
) -> Result<Vec<Document>, Error> {
    let filter = || document(&arguments["filter"]);
    let mut cursor = match name {
        "find" => {
            let mut find = collection.find(filter());
            if let Some(size) = arguments["batchSize"].as_u64() {
                find = find.batch_size(u32::try_from(size).expect("a size"));
            }
            if arguments["sort"].is_object() {
                find = find.sort(document(&arguments["sort"]));
            }
            find.await?
        }
        "aggregate" => {
            let pipeline = list(&arguments["pipeline"]).iter().map(document);
            collection.aggregate(pipeline).await?
        }
        _ => return perform_without_cursor(collection, name, arguments).await,
    };
    let mut found = Vec::new();
    while let Some(document) = cursor.next().await {
        found.push(document?);
    }
    Ok(found)
}

async fn perform_without_cursor(
    collection: &Collection<SimRuntime, Document>,
    name: &str,
    arguments: &Value,
) -> Result<Vec<Document>, Error> {
    let filter = document(&arguments["filter"]);
    let update = || document(&arguments["update"]);
    match name {
        "findOne" => return Ok(collection.find_one(filter).await?.into_iter().collect()),
        "countDocuments" => collection.count_documents(filter).await.map(|_| ()),
        "insertOne" => {
            let document = document(&arguments["document"]);
            collection.insert_one(document).await.map(|_| ())
        }
        "insertMany" => {
            let documents = list(&arguments["documents"]).iter().map(document);
            collection.insert_many(documents).await.map(|_| ())
        }
        "bulkWrite" => {
            let inserts = list(&arguments["requests"]).iter().map(|request| {
                let document = document(&request["insertOne"]["document"]);
                InsertOneModel::builder().document(document).build()
            });
            collection.bulk_write(inserts).await.map(|_| ())
        }
        "updateOne" => collection.update_one(filter, update()).await.map(|_| ()),
        "updateMany" => collection.update_many(filter, update()).await.map(|_| ()),
        "deleteOne" => collection.delete_one(filter).await.map(|_| ()),
        "deleteMany" => collection.delete_many(filter).await.map(|_| ()),
        other => panic!("{other} is neither known nor listed as missing"),
    }?;
    Ok(Vec::new())
}

/// Replaces the content of a collection by these documents.
async fn fill(scene: &Scene, data: &Value) {
    let client = scene.client("");
    let database = client.client.database(text(&data["databaseName"]));
    let collection = database.collection::<Document>(text(&data["collectionName"]));
    collection.delete_many(doc! {}).await.expect("it is empty");
    let documents: Vec<Document> = list(&data["documents"]).iter().map(document).collect();
    if !documents.is_empty() {
        collection
            .insert_many(documents)
            .await
            .expect("they are new");
    }
    drop((collection, database));
    client.end().await;
}

/// Returns the `uriOptions` of a client entity as the options of a connection string: `name=value`
/// pairs, joined by `&`. The values must be numbers or booleans.
fn options(entity: &Value) -> String {
    let options = entity["uriOptions"].as_object().into_iter().flatten();
    let pairs = options.map(|(name, value)| format!("{name}={value}"));
    pairs.collect::<Vec<_>>().join("&")
}

/// Returns the name of an event, as in the module `event_log`, if the client entity observes this
/// event.
fn observed(entity: &Value, event: &Event) -> Option<String> {
    let observes = |name: &str| list(&entity["observeEvents"]).iter().any(|e| e == name);
    match &event.kind {
        EventKind::Command(_) => {
            let reported = command_name(event)?;
            let (command, _) = reported.split_once(' ')?;
            let ignored = list(&entity["ignoreCommandMonitoringEvents"]);
            let is_observed = observes("commandStartedEvent");
            // The official files do not mention `endSessions`, which belongs to no operation.
            let is_ignored = ignored.iter().any(|name| name == command) || command == "endSessions";
            (is_observed && !is_ignored).then_some(reported)
        }
        _ => match pool_name(event)? {
            name @ "checked out" if observes("connectionCheckedOutEvent") => Some(name.to_owned()),
            name @ "checked in" if observes("connectionCheckedInEvent") => Some(name.to_owned()),
            _ => None,
        },
    }
}

/// Returns the name of an expected event, as in the module `event_log`.
fn wanted(event: &Value) -> String {
    let (kind, details) = event
        .as_object()
        .and_then(|e| e.iter().next())
        .expect("an event");
    let command = details["commandName"].as_str().unwrap_or_default();
    match kind.as_str() {
        "commandStartedEvent" => format!("{command} started"),
        "commandSucceededEvent" => format!("{command} succeeded"),
        "commandFailedEvent" => format!("{command} failed"),
        "connectionCheckedOutEvent" => "checked out".to_owned(),
        "connectionCheckedInEvent" => "checked in".to_owned(),
        other => panic!("{other} is not known"),
    }
}

fn operations(test: &Value) -> impl Iterator<Item = &Value> {
    list(&test["operations"]).iter()
}

/// Returns the name of an operation, with a prefix as in [`MISSING`].
fn called(operation: &Value) -> String {
    let (name, object) = (text(&operation["name"]), text(&operation["object"]));
    let on = ["client", "database"]
        .into_iter()
        .find(|kind| object.starts_with(kind));
    match on {
        Some(kind) if name != "runCommand" => format!("{kind}.{name}"),
        _ => name.to_owned(),
    }
}

fn is_missing(name: &str) -> bool {
    MISSING.contains(&name)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value
        .as_str()
        .unwrap_or_else(|| panic!("{value} is no text"))
}

/// Converts a JSON document to BSON. A missing document gives an empty one.
fn document(value: &Value) -> Document {
    match Bson::try_from(value.clone()) {
        Ok(Bson::Document(document)) => document,
        Ok(Bson::Null) => Document::new(),
        other => panic!("{other:?} is no document"),
    }
}

/// Converts a JSON document to a command. The name of a command must be its first key, but the JSON
/// parser does not keep the order of keys.
fn command(name: &str, value: &Value) -> Document {
    let mut rest = document(value);
    let mut command = doc! { name: rest.remove(name).expect("its name") };
    command.extend(rest);
    command
}
