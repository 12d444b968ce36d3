//! Features that tests ask for, and that the driver does not have.

use super::file::{Test, UnifiedFile, list};
use bson::{Bson, Document};

const ENCRYPTION: &str = "there is no client-side encryption";
const TRACING: &str = "there is no OpenTelemetry";

/// Operations, entities and options, by the keys and names under which tests mention them.
const OPERATIONS: &[(&str, &str)] = &[
    (
        "mapReduce",
        "the driver has no helper for mapReduce, which servers deprecate",
    ),
    (
        "count",
        "the driver has no helper for count, which drivers deprecate",
    ),
];

/// Entities.
const ENTITIES: &[(&str, &str)] = &[("clientEncryption", ENCRYPTION)];

/// Options of client entities.
const CLIENT_OPTIONS: &[(&str, &str)] = &[
    ("autoEncryptOpts", ENCRYPTION),
    ("observeTracingMessages", TRACING),
];

/// Returns the reason why a test cannot run, or `None`.
pub(crate) fn reason(file: &UnifiedFile, test: &Test) -> Option<&'static str> {
    let entities = file.entities.iter().find_map(of_entity);
    let operations = || test.operations.iter().find_map(of_operation);
    entities
        .or_else(operations)
        .or_else(|| test.tracing.then_some(TRACING))
}

fn found(table: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    table
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, reason)| *reason)
}

fn of_entity(entity: &Document) -> Option<&'static str> {
    let (kind, options) = entity.iter().next()?;
    found(ENTITIES, kind).or_else(|| {
        let options = options.as_document()?;
        options.keys().find_map(|key| found(CLIENT_OPTIONS, key))
    })
}

fn of_operation(operation: &Document) -> Option<&'static str> {
    let name = operation.get_str("name").ok()?;
    found(OPERATIONS, name).or_else(|| {
        let arguments = operation.get_document("arguments").ok()?;
        let inner = arguments.get("operation").and_then(Bson::as_document);
        let operations = list(arguments, "operations").unwrap_or_default();
        let entities = list(arguments, "entities").unwrap_or_default();
        inner
            .and_then(of_operation)
            .or_else(|| operations.iter().find_map(of_operation))
            .or_else(|| entities.iter().find_map(of_entity))
    })
}
