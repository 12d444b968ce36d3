//! The commands on collections, indexes and databases.

use super::{
    Member,
    commands::{self, type_name},
    connection::Request,
    dispatch::{Answer, Outcome, namespace},
    document::{integer, truth},
    fault::{Fault, bad_value, fault},
    operations::CREATE_SHARDED,
    reply::Reply,
};
use crate::store::{Namespace, SYSTEM_DATABASES, Store, StoreError, display, in_specification};
use bson::{Bson, Document, doc};
use onionskin_core::time::Instant;

impl Member {
    pub(super) fn change_catalog(&mut self, request: &Request) -> Answer {
        let reply = self.catalog_change(request)?;
        Ok(Outcome::Written(reply.into()))
    }

    fn catalog_change(&mut self, request: &Request) -> Result<Document, Fault> {
        let command = &request.command;
        match request.name.as_str() {
            "renameCollection" => return self.rename_collection(request),
            "dropDatabase" => return self.drop_database(request),
            _ => {}
        }
        let store = self.replica.store_mut();
        match request.name.as_str() {
            "create" => {
                let name = namespace(request)?;
                // Since 7.0, a collection with the same options is no error; for routers never.
                let is_error = self.program.version.release < [7, 0, 0] && self.shard.is_none();
                if is_error && store.contains(&name) {
                    let text = match self.program.version.release < [4, 4, 0] {
                        true => format!("a collection '{name}' already exists"),
                        false => format!("Collection already exists. NS: {name}"),
                    };
                    return Err(fault(48, text));
                }
                store.create_collection(&name, options(request))?;
                if matches!(command.get("autoIndexId"), Some(id) if *id != Bson::Null) {
                    let text = "The autoIndexId option is deprecated and will be removed in a \
                                future release";
                    return Ok(doc! { "note": text });
                }
            }
            CREATE_SHARDED => {
                let key = command
                    .get_document("shardKey")
                    .cloned()
                    .unwrap_or_default();
                store.shard_collection(&namespace(request)?, &key)?;
            }
            "collMod" => {
                let name = namespace(request)?;
                let start = store.pending_changes();
                store.modify_collection(&name, &options(request))?;
                if let Ok(index) = command.get_document("index") {
                    let modified = store.modify_index(&name, index);
                    if modified.is_err() {
                        store.undo_to(start);
                    }
                    return Ok(modified?);
                }
            }
            "drop" => {
                let is_old = self.program.version.release < [7, 0, 0];
                return drop_collection(store, &namespace(request)?, is_old);
            }
            _ => {
                let name = namespace(request)?;
                store.refuse_view(&name)?;
                let index = command.get("index").cloned().unwrap_or(Bson::Null);
                let n = i32::try_from(store.drop_indexes(&name, &index)?).unwrap_or(i32::MAX);
                return Ok(doc! { "nIndexesWas": n });
            }
        }
        Ok(Document::new())
    }

    fn drop_database(&mut self, request: &Request) -> Result<Document, Fault> {
        let database = request.database.as_str();
        if SYSTEM_DATABASES.contains(&database) {
            let text = format!("Dropping the '{database}' database is prohibited.");
            return Err(fault(20, text));
        }
        if request.command.get(&request.name).and_then(integer) != Some(1) {
            let is_old = self.program.version.release < [5, 0, 0];
            return Err(match (self.shard.is_some(), is_old) {
                (true, _) => bad_value("have to pass 1 as db parameter"),
                (false, true) => fault(20, "have to pass 1 as db parameter"),
                (false, false) => fault(5_255_100, "Have to pass 1 as 'drop' parameter"),
            });
        }
        match self.replica.store_mut().drop_database(database)? {
            true => Ok(doc! { "dropped": database }),
            false => Ok(Document::new()),
        }
    }

    fn rename_collection(&mut self, request: &Request) -> Result<Document, Fault> {
        let command = &request.command;
        let from = Self::full_name(command.get_str(&request.name).unwrap_or_default())?;
        let to = Self::full_name(command.get_str("to").unwrap_or_default())?;
        let is_replicated = |name: &Namespace| name.database != "local";
        if self.is_set() && is_replicated(&from) != is_replicated(&to) {
            let text =
                "Cannot rename collections between a replicated and an unreplicated database";
            return Err(fault(20, text));
        }
        let drop_target = truth(command.get("dropTarget"));
        let store = self.replica.store_mut();
        store.rename_collection(&from, &to, drop_target)?;
        Ok(Document::new())
    }

    pub(super) fn list_collections(&mut self, now: Instant, request: &Request) -> Answer {
        let command = &request.command;
        let filter = command.get_document("filter").cloned().unwrap_or_default();
        let names = truth(command.get("nameOnly"));
        let store = self.replica.store();
        let entries = store.list_collections(&request.database, &filter, names)?;
        let namespace = format!("{}.$cmd.listCollections", request.database);
        self.listing(now, request, namespace, entries)
    }

    pub(super) fn list_indexes(&mut self, now: Instant, request: &Request) -> Answer {
        let name = namespace(request)?;
        self.replica.store().refuse_view(&name)?;
        let entries = self.replica.store().list_indexes(&name)?;
        self.listing(now, request, name.to_string(), entries)
    }

    pub(super) fn list_databases(&self, request: &Request) -> Answer {
        if request.database != "admin" {
            return Err(fault(
                13,
                "listDatabases may only be run against the admin database.",
            ));
        }
        let command = &request.command;
        let filter = command.get_document("filter").cloned().unwrap_or_default();
        let names = truth(command.get("nameOnly"));
        let mut entries = self.replica.store().list_databases(&filter, names)?;
        if let Some(login) = self.limited_login(request)? {
            entries.retain(|entry| entry.get_str("name").is_ok_and(|name| login.may_use(name)));
        }
        let total: i64 = entries
            .iter()
            .filter_map(|e| super::document::integer_field(e, "sizeOnDisk"))
            .sum();
        let mut reply = doc! { "databases": entries };
        if !names {
            reply.insert("totalSize", total);
            reply.insert("totalSizeMb", total / (1024 * 1024));
        }
        Ok(Reply::from(reply).into())
    }

    pub(super) fn collection_statistics(&self, request: &Request) -> Answer {
        let name = namespace(request)?;
        self.replica.store().refuse_view(&name)?;
        let found = self.replica.store().statistics(&name);
        let scale = request.command.get("scale").and_then(integer).unwrap_or(1);
        let mut reply = doc! { "ns": name.to_string() };
        if !self.replica.store().contains(&name) {
            reply.extend(doc! { "size": 0, "count": 0 });
            if self.program.version.release >= [6, 0, 0] {
                reply.insert("numOrphanDocs", 0);
            }
            reply.extend(doc! {
                "storageSize": 0, "totalSize": 0, "nindexes": 0, "totalIndexSize": 0,
                "indexDetails": {}, "indexSizes": {},
                "scaleFactor": i32::try_from(scale).unwrap_or(i32::MAX),
            });
            return Ok(Reply::from(reply).into());
        }
        if let Some(average) = found.size_bytes.checked_div(found.count) {
            reply.insert("avgObjSize", i64::try_from(average).unwrap_or(i64::MAX));
        }
        reply.extend(found.scaled(scale));
        Ok(Reply::from(reply).into())
    }

    pub(super) fn database_statistics(&self, request: &Request) -> Answer {
        let scale = request.command.get("scale").and_then(integer).unwrap_or(1);
        if scale < 1 {
            return Err(bad_value("Scale factor must be greater than zero"));
        }
        let store = self.replica.store();
        let entries = store.list_collections(&request.database, &Document::new(), true)?;
        let is_view = |entry: &&Document| entry.get_str("type").ok() == Some("view");
        let views = entries.iter().filter(is_view).count();
        let (mut objects, mut bytes, mut indexes) = (0, 0, 0);
        for name in entries.iter().filter_map(|e| e.get_str("name").ok()) {
            let name = Namespace::new(request.database.clone(), name);
            let found = store.statistics(&name);
            objects += found.count;
            bytes += found.size_bytes;
            indexes += i64::from(found.indexes);
        }
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let scaled = bytes as f64 / scale as f64;
        let reply = doc! {
            "db": request.database.as_str(),
            "collections": number((entries.len() - views) as u64), "views": number(views as u64),
            "objects": number(objects), "dataSize": scaled, "storageSize": scaled,
            "indexes": indexes, "indexSize": 0.0, "scaleFactor": scale,
        };
        Ok(Reply::from(reply).into())
    }
}

/// Drops a collection or a view, and returns the reply. Before 7.0, a missing one is an error.
fn drop_collection(store: &mut Store, name: &Namespace, is_old: bool) -> Result<Document, Fault> {
    let dropped = store.collection(name);
    let is_view = dropped.is_some_and(|dropped| dropped.view_on().is_some());
    match store.drop_collection(name)? {
        Some(_) if is_view => Ok(doc! { "ns": name.to_string() }),
        Some(indexes) => {
            let n = i32::try_from(indexes).unwrap_or(i32::MAX);
            Ok(doc! { "nIndexesWas": n, "ns": name.to_string() })
        }
        None if is_old => Err(fault(26, "ns not found")),
        None => Ok(Document::new()),
    }
}

/// Returns an error if there is no index, or if one has no valid name.
pub(super) fn check_index_names(indexes: &[Document]) -> Result<(), Fault> {
    if indexes.is_empty() {
        return Err(fault(2, "Must specify at least one index to create"));
    }
    for index in indexes {
        let malformed = |code: i32, text: &str| {
            let error = StoreError::new(code, text);
            Err(Fault::from(in_specification(index, &error)))
        };
        let name = match index.get("name") {
            Some(Bson::String(name)) => name.as_str(),
            None => {
                let text = "The 'name' field is a required property of an index specification";
                return malformed(9, text);
            }
            Some(other) => {
                let kind = type_name(other);
                let text = format!("The field 'name' must be a string, but got {kind}");
                return malformed(14, &text);
            }
        };
        match name {
            "" => return malformed(67, "index name cannot be empty"),
            "*" => return Err(fault(2, "The index name '*' is not valid.")),
            name if name.contains('\0') => {
                return malformed(67, "index name cannot contain NUL bytes");
            }
            "_id_" if index.get_document("key").is_ok_and(|key| !is_id_key(key)) => {
                let key = index.get_document("key").map(display).unwrap_or_default();
                let text = format!(
                    "The index name '_id_' is reserved for the _id index, which must have key \
                     pattern {{_id: 1}}, found key: {key}"
                );
                return Err(fault(2, text));
            }
            _ => {}
        }
    }
    Ok(())
}

fn is_id_key(key: &Document) -> bool {
    let one = |value: &Bson| {
        matches!(value, Bson::Int32(1) | Bson::Int64(1)) || *value == Bson::Double(1.0)
    };
    key.len() == 1 && key.get("_id").is_some_and(one)
}

/// Returns the fields of a command without its name and without those that every command has.
fn options(request: &Request) -> Document {
    let is_option = |name: &String| {
        *name != request.name && name != "collectionUUID" && !commands::is_generic(name)
    };
    let fields = request.command.iter().filter(|(name, _)| is_option(name));
    fields
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}
