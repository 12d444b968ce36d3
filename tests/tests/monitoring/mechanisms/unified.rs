//! The features of the unified test format that the runner of `official` knows. A file with another
//! feature is an error, so that no part of it is passed over.

use crate::scene::Scene;
use bson::{Bson, Document, doc};
use onionskin::Client;
use onionskin_core::{
    error::Error,
    event::{CommandEvent, CommandFacts, Event, EventKind},
    unstable::hello::Environment,
};
use onionskin_simulations::{deployment::ServerVersion, world::SimRuntime};
use onionskin_tests::matching::{match_root, match_value};
use serde_json::{Map, Value, json};

/// Fails if an object has a key that is not one of these.
pub(super) fn known(value: &Value, keys: &[&str]) -> Result<(), String> {
    let mut found = value.as_object().into_iter().flat_map(Map::keys);
    match found.find(|key| !keys.contains(&key.as_str())) {
        Some(key) => Err(format!("{key} is not known here: {value}")),
        None => Ok(()),
    }
}

pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

pub(super) fn text(value: &Value) -> Result<&str, String> {
    value.as_str().ok_or_else(|| format!("{value} is no text"))
}

/// Converts an object to a document.
pub(super) fn document(value: &Value) -> Result<Document, String> {
    match Bson::try_from(value.clone()) {
        Ok(Bson::Document(document)) => Ok(document),
        other => Err(format!("{other:?} is no document")),
    }
}

/// The names that the entities of a file stand for.
pub(super) struct Entities<'a>(&'a [Value]);

impl<'a> Entities<'a> {
    pub(super) fn of(file: &'a Value) -> Result<Self, String> {
        let entities = list(&file["createEntities"]);
        for entity in entities {
            known(entity, &["client", "database", "collection"])?;
            known(&entity["database"], &["id", "client", "databaseName"])?;
            known(&entity["collection"], &["id", "database", "collectionName"])?;
            let client = [
                "id",
                "uriOptions",
                "useMultipleMongoses",
                "observeEvents",
                "ignoreCommandMonitoringEvents",
            ];
            known(&entity["client"], &client)?;
        }
        Ok(Self(entities))
    }

    /// Returns the entity of this kind with this id.
    pub(super) fn find(&self, kind: &str, id: &Value) -> Result<&'a Value, String> {
        let mut found = self.0.iter().map(|entity| &entity[kind]);
        found
            .find(|entity| entity["id"] == *id && id.is_string())
            .ok_or_else(|| format!("the file has no {kind} {id}"))
    }

    /// Returns the client, the database and the name of a collection.
    pub(super) fn collection(&self, id: &Value) -> Result<(&'a Value, &'a str, &'a str), String> {
        let collection = self.find("collection", id)?;
        let database = self.find("database", &collection["database"])?;
        Ok((
            &database["client"],
            text(&database["databaseName"])?,
            text(&collection["collectionName"])?,
        ))
    }
}

/// True if a replica set with authentication by MONGODB-OIDC and this version of the server meets
/// the `runOnRequirements` of a file or a test: one of them, if there are any.
pub(super) fn is_met(requirements: &Value, version: ServerVersion) -> Result<bool, String> {
    let list = list(requirements);
    let mut is_any_met = list.is_empty();
    for requirement in list {
        let mut is_met = true;
        for (name, value) in requirement.as_object().into_iter().flatten() {
            is_met &= is_one_met(name, value, version)?;
        }
        is_any_met |= is_met;
    }
    Ok(is_any_met)
}

fn is_one_met(name: &str, value: &Value, version: ServerVersion) -> Result<bool, String> {
    Ok(match (name, value) {
        ("minServerVersion", value) => release(text(value)?)? <= version.release,
        // A bound such as `7.0` includes all patch versions.
        ("maxServerVersion", value) => {
            let bound = text(value)?;
            let parts = bound.split('.').count();
            version.release[..parts.min(3)] <= release(bound)?[..parts.min(3)]
        }
        ("topologies", value) => list(value).iter().any(|topology| topology == "replicaset"),
        ("auth", Value::Bool(is_wanted)) => *is_wanted,
        ("authMechanism", value) => value == "MONGODB-OIDC",
        ("serverless", value) => value == "forbid" || value == "allow",
        ("csfle", Value::Bool(is_wanted)) => !is_wanted,
        _ => return Err(format!("the requirement {name}: {value} is not known here")),
    })
}

fn release(text: &str) -> Result<[u16; 3], String> {
    let mut release = [0; 3];
    for (place, part) in text.split('.').enumerate() {
        let number = part.parse();
        let slot = release.get_mut(place);
        match (slot, number) {
            (Some(slot), Ok(number)) => *slot = number,
            _ => return Err(format!("{text} is no version")),
        }
    }
    Ok(release)
}

/// Compares the result of an operation. The documents of a cursor are root documents.
pub(super) fn compare_result(expected: &Value, found: &Value) -> Result<(), String> {
    let compared = match (expected, found) {
        (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => {
            let mut pairs = expected.iter().zip(found);
            pairs.try_for_each(|(expected, found)| compare_root(expected, found))
        }
        _ => compare_root(expected, found),
    };
    compared.map_err(|why| format!("{why}: {found} instead of {expected}"))
}

fn compare_root(expected: &Value, found: &Value) -> Result<(), String> {
    let is_operator = |key: &String| key.starts_with("$$");
    match (expected, found) {
        (Value::Object(wanted), Value::Object(found)) if !wanted.keys().any(is_operator) => {
            match_root(expected, found)
        }
        _ => match_value(expected, Some(found)),
    }
}

/// Compares the error of an operation with `expectError`.
pub(super) fn compare_error(expected: &Value, error: &Error) -> Result<(), String> {
    for (name, value) in expected.as_object().into_iter().flatten() {
        let is_met = match name.as_str() {
            "isError" => *value == true,
            // An error that is no reply of the server.
            "isClientError" => value.as_bool() == Some(error.code().is_none()),
            "errorCode" => value.as_i64() == error.code().map(i64::from),
            "errorContains" => error.to_string().contains(text(value)?),
            _ => return Err(format!("the expectation {name} is not known here")),
        };
        if !is_met {
            return Err(format!("{error}, but {name}: {value} was expected"));
        }
    }
    Ok(())
}

/// Returns the kind of a command event with its fields, if a client entity observes this event.
pub(super) fn observed(
    client: &Value,
    event: &Event,
) -> Option<(&'static str, Map<String, Value>)> {
    let EventKind::Command(event) = &event.kind else {
        return None;
    };
    let (kind, facts, body): (_, &CommandFacts, _) = match event {
        CommandEvent::Started { facts, command, .. } => {
            ("commandStartedEvent", facts, Some(("command", command)))
        }
        CommandEvent::Succeeded { facts, reply, .. } => {
            ("commandSucceededEvent", facts, Some(("reply", reply)))
        }
        CommandEvent::Failed { facts, .. } => ("commandFailedEvent", facts, None),
        _ => return None,
    };
    let has = |key: &str, name: &str| list(&client[key]).iter().any(|other| *other == name);
    if !has("observeEvents", kind) || has("ignoreCommandMonitoringEvents", &facts.name) {
        return None;
    }
    let mut fields = Map::new();
    fields.insert("commandName".to_owned(), json!(&*facts.name));
    fields.insert("databaseName".to_owned(), json!(&*facts.database));
    if let Some((name, body)) = body {
        let body = Document::try_from(body.clone()).expect("a valid document");
        let body = Bson::Document(body).into_relaxed_extjson();
        fields.insert(name.to_owned(), body);
    }
    Some((kind, fields))
}

/// Compares an event with the expected one. Its command and its reply are root documents.
pub(super) fn compare_event(
    expected: &Value,
    (kind, fields): &(&'static str, Map<String, Value>),
) -> Result<(), String> {
    known(expected, &[kind])?;
    for (name, expected) in expected[*kind].as_object().into_iter().flatten() {
        let found = fields
            .get(name)
            .ok_or_else(|| format!("{name} is missing"))?;
        compare_root(expected, found).map_err(|why| format!("{name}: {why}"))?;
    }
    Ok(())
}

/// Creates a client of the operator, which has the user of the deployment.
fn operator(scene: &Scene) -> Client<SimRuntime> {
    let address = scene.options.addresses[0].to_string();
    let uri = scene.uri(&address, "directConnection=true");
    let builder = Client::builder_from_uri(scene.operator.clone(), &uri);
    let builder = builder.expect("a connection string");
    let client = builder.environment(Environment::default()).build();
    client.expect("a client")
}

/// Replaces the content of the collections of `initialData`.
pub(super) async fn fill(scene: &Scene, file: &Value) -> Result<(), String> {
    let client = operator(scene);
    for data in list(&file["initialData"]) {
        known(data, &["databaseName", "collectionName", "documents"])?;
        let database = client.database(text(&data["databaseName"])?);
        let collection = database.collection::<Document>(text(&data["collectionName"])?);
        let documents: Result<Vec<_>, _> = list(&data["documents"]).iter().map(document).collect();
        let (documents, text) = (documents?, |error: Error| error.to_string());
        collection.delete_many(doc! {}).await.map_err(text)?;
        if !documents.is_empty() {
            collection.insert_many(documents).await.map_err(text)?;
        }
    }
    client.shutdown().await;
    Ok(())
}

/// Compares the content of the collections of `outcome`, in the order of `_id`.
pub(super) async fn compare_outcome(scene: &Scene, test: &Value) -> Result<(), String> {
    let client = operator(scene);
    for data in list(&test["outcome"]) {
        known(data, &["databaseName", "collectionName", "documents"])?;
        let database = client.database(text(&data["databaseName"])?);
        let collection = database.collection::<Document>(text(&data["collectionName"])?);
        let text = |error: Error| error.to_string();
        let cursor = collection.find(doc! {}).sort(doc! { "_id": 1 }).await;
        let found: Vec<Document> = cursor.map_err(text)?.into_vec().await.map_err(text)?;
        let wanted: Result<Vec<_>, _> = list(&data["documents"]).iter().map(document).collect();
        let relaxed = |documents: Vec<Document>| -> Vec<Value> {
            let documents = documents.into_iter().map(Bson::Document);
            documents.map(Bson::into_relaxed_extjson).collect()
        };
        let (found, wanted) = (relaxed(found), relaxed(wanted?));
        if found != wanted {
            return Err(format!("the outcome is {found:?} instead of {wanted:?}"));
        }
    }
    client.shutdown().await;
    Ok(())
}
