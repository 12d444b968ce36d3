//! The collections of the server itself: those that are not in the store, and those that clients
//! cannot write.

use super::{
    Member,
    auth::unauthorized,
    connection::Request,
    dispatch::writes_documents,
    fault::{Fault, fault},
    read::pipeline_writes,
    read_concern::View,
};
use crate::store::{Namespace, SYSTEM_DATABASES};
use bson::{Bson, doc};
use onionskin_core::time::Instant;

/// The collection of the oplog.
const OPLOG: &str = "local.oplog.rs";

/// The collection with the `featureCompatibilityVersion`.
const VERSION: &str = "admin.system.version";

/// The collection with the configuration of a replica set.
const CONFIGURATION: &str = "local.system.replset";

/// The servers that have a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Servers {
    All,
    /// The members of replica sets.
    Members,
    /// The servers behind routers.
    Shards,
}

/// The collections that servers have and the simulated server does not show.
const HIDDEN: [(&str, Servers); 18] = [
    ("admin.system.users", Servers::All),
    ("config.system.sessions", Servers::All),
    ("local.startup_log", Servers::All),
    (OPLOG, Servers::Members),
    ("admin.system.keys", Servers::Members),
    ("config.image_collection", Servers::Members),
    ("config.transactions", Servers::Members),
    ("local.replset.election", Servers::Members),
    ("local.replset.initialSyncId", Servers::Members),
    ("local.replset.minvalid", Servers::Members),
    ("local.replset.oplogTruncateAfterPoint", Servers::Members),
    ("local.system.rollback.id", Servers::Members),
    ("config.changelog", Servers::Shards),
    ("config.chunks", Servers::Shards),
    ("config.collections", Servers::Shards),
    ("config.databases", Servers::Shards),
    ("config.mongos", Servers::Shards),
    ("config.version", Servers::Shards),
];

impl Member {
    /// Returns an error if a command writes documents of a collection that only the server writes,
    /// or uses a collection of the server that is not implemented.
    pub(super) fn check_own(&self, request: &Request) -> Result<(), Fault> {
        let release = self.program.version.release;
        let is_query = match request.name.as_str() {
            "find" | "count" | "distinct" => true,
            "aggregate" => !pipeline_writes(request),
            _ => false,
        };
        for name in named(request) {
            let full = name.to_string();
            let is_closed = match name.collection.as_str() {
                "system.profile" => true,
                "system.views" => release >= [5, 0, 0],
                _ => full == OPLOG && self.is_set(),
            };
            if is_closed && writes_documents(&request.name) {
                let text = match release < [4, 4, 0] {
                    true => format!("cannot write to '{full}'"),
                    false => format!("cannot write to {full}"),
                };
                return Err(fault(73, text));
            }
            if self.hides(&full) || (self.shows(&full) && !is_query) {
                let what = format!("{} on its own collection {full}", request.name);
                return Err(unauthorized(request).not_simulated(&what));
            }
        }
        for name in sources(request) {
            let full = name.to_string();
            if self.hides(&full) || self.shows(&full) {
                let what = format!(
                    "{} with its own collection {full} as a source",
                    request.name
                );
                return Err(unauthorized(request).not_simulated(&what));
            }
        }
        Ok(())
    }

    /// True if this server has a collection that is not implemented.
    fn hides(&self, full: &str) -> bool {
        let is_here = |servers: Servers| match servers {
            Servers::All => true,
            Servers::Members => self.is_set(),
            Servers::Shards => self.shard.is_some(),
        };
        let mut hidden = HIDDEN.iter();
        hidden.any(|(name, servers)| *name == full && is_here(*servers))
    }

    /// True if queries can read a collection of the server that is not in the store.
    fn shows(&self, full: &str) -> bool {
        full == VERSION || (full == CONFIGURATION && self.is_set())
    }

    /// Lets a query of a collection of the server read the document of that collection.
    pub(super) fn show_own(&mut self, now: Instant, request: &Request) -> Result<(), Fault> {
        let mut names = named(request).into_iter();
        let Some(name) = names.find(|name| self.shows(&name.to_string())) else {
            return Ok(());
        };
        let document = match name.database.as_str() {
            "admin" => {
                let compatible = self.options.oldest_version().series();
                doc! { "_id": "featureCompatibilityVersion", "version": compatible }
            }
            _ => {
                let reply = self.replica_config().unwrap_or_default();
                reply.get_document("config").cloned().unwrap_or_default()
            }
        };
        let view = self.view.take().unwrap_or_else(|| View {
            store: self.replica.store().clone(),
            at: None,
        });
        self.view = Some(view);
        let shown = self.with_store(now, None, |store, environment| {
            store.insert(&name, vec![document], true, environment)
        });
        if shown.is_err() {
            self.view = None;
        }
        Ok(shown.map(drop)?)
    }
}

/// Returns the names of the collections that a command names and that can be those of the server.
fn named(request: &Request) -> Vec<Namespace> {
    let command = &request.command;
    let value = command.get(&request.name);
    let of_database = |collection: &str| {
        let is_own = collection.starts_with("system.")
            || SYSTEM_DATABASES.contains(&request.database.as_str());
        is_own.then(|| Namespace::new(request.database.as_str(), collection))
    };
    match request.name.as_str() {
        "bulkWrite" => {
            let infos = command.get_array("nsInfo").map(Vec::as_slice);
            let infos = infos.unwrap_or_default().iter();
            let names = infos.filter_map(|info| info.as_document()?.get_str("ns").ok());
            names.filter_map(Namespace::parse).collect()
        }
        "dataSize" | "renameCollection" => {
            let names = [value, command.get("to")].into_iter().flatten();
            let names = names.filter_map(Bson::as_str);
            names.filter_map(Namespace::parse).collect()
        }
        "explain" => {
            let explained = value.and_then(Bson::as_document);
            let first = explained.and_then(|explained| explained.values().next());
            let collection = first.and_then(Bson::as_str);
            collection.and_then(of_database).into_iter().collect()
        }
        "dropDatabase" | "listCollections" | "listDatabases" | "getMore" => Vec::new(),
        _ => {
            let collection = value.and_then(Bson::as_str);
            collection.and_then(of_database).into_iter().collect()
        }
    }
}

/// Returns the collections of which a command makes a view, and those that the stages of its
/// pipeline read besides the one that it names.
fn sources(request: &Request) -> Vec<Namespace> {
    let (command, database) = (&request.command, request.database.as_str());
    let explained = command.get_document("explain").ok();
    let command = explained
        .filter(|_| request.name == "explain")
        .unwrap_or(command);
    let on = command.get("viewOn");
    let on = on.filter(|_| matches!(request.name.as_str(), "create" | "collMod"));
    let mut names: Vec<Namespace> = on.and_then(|on| source(database, on)).into_iter().collect();
    if let Some(stages) = command.get("pipeline") {
        add_sources(database, stages, &mut names);
    }
    names
}

/// Adds the collections that the stages of a pipeline read, also those of pipelines inside it.
fn add_sources(database: &str, stages: &Bson, names: &mut Vec<Namespace>) {
    let stages = stages.as_array().into_iter().flatten();
    for (stage, value) in stages.filter_map(Bson::as_document).flatten() {
        let inner = value.as_document();
        let from = match stage.as_str() {
            "$lookup" | "$graphLookup" => inner.and_then(|inner| inner.get("from")),
            "$unionWith" => inner.map_or(Some(value), |inner| inner.get("coll")),
            "$facet" => {
                let pipelines = inner.into_iter().flat_map(|inner| inner.values());
                pipelines.for_each(|stages| add_sources(database, stages, names));
                continue;
            }
            _ => continue,
        };
        names.extend(from.and_then(|from| source(database, from)));
        if let Some(stages) = inner.and_then(|inner| inner.get("pipeline")) {
            add_sources(database, stages, names);
        }
    }
}

/// Returns the collection that a value names: by its name, or with its database.
fn source(database: &str, value: &Bson) -> Option<Namespace> {
    match value {
        Bson::String(collection) => Some(Namespace::new(database, collection.as_str())),
        Bson::Document(full) => {
            let (database, collection) = (full.get_str("db").ok()?, full.get_str("coll").ok()?);
            Some(Namespace::new(database, collection))
        }
        _ => None,
    }
}
