//! The events of change streams, which follow from the changes of the oplog.

mod delta;
mod indexes;
mod scan;
mod split;
mod token;

use bson::{Binary, Bson, DateTime, Document, Timestamp, doc, spec::BinarySubtype};

use super::Answer;
use super::catalog::collection_uuid;
use super::change::{Change, Origin, UpdateStyle};
use super::collection::Collection;
use super::error::StoreError;
use super::types::{Namespace, Shared};
use delta::{Delta, delta};
use indexes::index_change;
pub(crate) use scan::{Record, Room, Watch, change_stream};
pub(crate) use token::Token;

/// The databases whose changes a stream on the whole deployment does not show.
const INTERNAL: [&str; 3] = ["admin", "config", "local"];

/// The part of the data that a change stream watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Collection(Namespace),
    Database(String),
    Deployment,
}

/// The document that an event of an update has besides the description of the update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FullDocument {
    /// No document.
    Default,
    /// The newest document that a majority has.
    UpdateLookup,
    /// The document after the change, or null if the collection does not keep it.
    WhenAvailable,
    /// The document after the change. It is an error if the collection does not keep it.
    Required,
}

/// The document that an event has from before the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BeforeChange {
    Off,
    /// The document, or null if the collection does not keep it.
    WhenAvailable,
    /// The document. It is an error if the collection does not keep it.
    Required,
}

/// The options of a change stream that decide which events it has, and with which fields.
#[derive(Clone, Debug)]
pub(crate) struct Focus {
    pub(crate) scope: Scope,
    pub(crate) full_document: FullDocument,
    pub(crate) before_change: BeforeChange,
    /// True if the stream shows changes of the catalog as well (`showExpandedEvents`).
    pub(crate) is_expanded: bool,
    /// True if the stream shows the changes of system collections (`showSystemEvents`).
    pub(crate) shows_system: bool,
    /// The release that the server claims to be.
    pub(crate) release: [u16; 3],
}

/// The times of an event, and its resume token.
#[derive(Clone, Debug)]
pub(crate) struct Stamp {
    pub(crate) token: Document,
    pub(crate) time: Timestamp,
    pub(crate) wall: DateTime,
    /// The session and the number of the transaction that made the change.
    pub(crate) transaction: Option<([u8; 16], i64)>,
}

/// Finds the newest document that a majority has: in a collection, with the serial number of its
/// creation, the document with the same `_id` as the given one.
pub(crate) type Lookup<'a> = dyn FnMut(&Namespace, u64, &Document) -> Option<Shared> + 'a;

/// The fields of an event whose values differ by the kind of change.
#[derive(Default)]
struct Parts {
    operation: &'static str,
    uuid: Option<Bson>,
    full: Option<Bson>,
    /// The fields after `fullDocument`, in order.
    rest: Document,
}

impl Parts {
    fn new(operation: &'static str, namespace: &Namespace, serial: u64) -> Self {
        Self {
            operation,
            uuid: Some(collection_uuid(namespace, serial)),
            full: None,
            rest: doc! { "ns": name_of(namespace) },
        }
    }

    fn with(mut self, field: &str, value: impl Into<Bson>) -> Self {
        self.rest.insert(field, value);
        self
    }
}

impl Scope {
    /// True if the stream shows the changes of documents of a collection.
    fn covers(&self, namespace: &Namespace, shows_system: bool) -> bool {
        if namespace.collection.starts_with("system.") && !shows_system {
            return false;
        }
        match self {
            Self::Collection(own) => own == namespace,
            Self::Database(own) => *own == namespace.database,
            Self::Deployment => !INTERNAL.contains(&namespace.database.as_str()),
        }
    }
}

impl Focus {
    /// Returns the event of the change at a position among the changes of an oplog entry. Returns
    /// `None` if the stream does not show the change.
    pub(crate) fn event(
        &self,
        changes: &[Change],
        at: usize,
        stamp: &Stamp,
        lookup: &mut Lookup<'_>,
    ) -> Answer<Option<Document>> {
        let Some(change) = changes.get(at).filter(|change| self.covers(change)) else {
            return Ok(None);
        };
        let parts = match change {
            Change::Insert { .. } | Change::Replace { .. } | Change::Delete { .. } => {
                self.write(change, lookup)?
            }
            _ => self.catalog_change(changes, at),
        };
        Ok(parts.map(|parts| self.assemble(parts, stamp)))
    }

    /// Returns the event that ends the stream after the event of a change. Returns `None` if the
    /// stream continues.
    pub(crate) fn invalidation(
        &self,
        changes: &[Change],
        at: usize,
        stamp: &Stamp,
    ) -> Option<Document> {
        let change = changes.get(at).filter(|change| self.covers(change))?;
        let ends = match (&self.scope, change) {
            (Scope::Collection(_), Change::DropCollection { before, .. }) => {
                is_plain(before) && !is_replaced(changes, at)
            }
            (Scope::Collection(_), Change::RenameCollection { .. })
            | (Scope::Database(_), Change::DropDatabase { .. }) => true,
            _ => false,
        };
        let parts = Parts {
            operation: "invalidate",
            ..Parts::default()
        };
        ends.then(|| self.assemble(parts, stamp))
    }

    /// True if the change concerns the part of the data that the stream watches.
    pub(crate) fn covers(&self, change: &Change) -> bool {
        let covers = |namespace: &Namespace| self.scope.covers(namespace, self.shows_system);
        match change {
            Change::RenameCollection { from, to, .. } => covers(from) || covers(to),
            Change::DropDatabase { database } => match &self.scope {
                Scope::Collection(_) => false,
                Scope::Database(own) => own == database,
                Scope::Deployment => !INTERNAL.contains(&database.as_str()),
            },
            _ => change.namespace().is_some_and(covers),
        }
    }

    fn write(&self, change: &Change, lookup: &mut Lookup<'_>) -> Answer<Option<Parts>> {
        let (operation, namespace, key_of, origin, before) = match change {
            Change::Insert {
                namespace,
                document,
                origin,
                ..
            } => ("insert", namespace, document, origin, None),
            Change::Delete {
                namespace,
                document,
                origin,
                ..
            } => ("delete", namespace, document, origin, Some(document)),
            Change::Replace {
                namespace,
                before,
                origin,
                ..
            } => ("replace", namespace, before, origin, Some(before)),
            _ => return Ok(None),
        };
        if origin.is_series {
            return Ok(None);
        }
        let mut parts = Parts::new(operation, namespace, origin.serial);
        let key = key_of.get("_id").cloned().unwrap_or(Bson::Null);
        parts.rest.insert("documentKey", doc! { "_id": key });
        match change {
            Change::Insert { document, .. } => parts.full = Some(Document::clone(document).into()),
            Change::Replace {
                before,
                after,
                style,
                ..
            } => match self.delta(before, after, style) {
                None => parts.full = Some(Document::clone(after).into()),
                Some(delta) => {
                    parts.operation = "update";
                    parts.full = self.full_of_update(namespace, after, origin, lookup)?;
                    let description = self.description(delta);
                    parts.rest.insert("updateDescription", description);
                }
            },
            _ => {}
        }
        if let Some(before) = before
            && let Some(image) = self.before_change(before, *origin)?
        {
            parts.rest.insert("fullDocumentBeforeChange", image);
        }
        Ok(Some(parts))
    }

    /// Returns the differences of an update; `None` for a replacement. Before 5.0, a pipeline
    /// always replaces the document.
    fn delta(&self, before: &Document, after: &Document, style: &UpdateStyle) -> Option<Delta> {
        match style {
            UpdateStyle::Pipeline if self.release < [5, 0, 0] => None,
            style => delta(before, after, style),
        }
    }

    fn description(&self, delta: Delta) -> Document {
        let mut description =
            doc! { "updatedFields": delta.updated, "removedFields": delta.removed };
        if self.release >= [5, 0, 0] {
            let truncated = delta.truncated.into_iter().map(|(field, size)| {
                doc! { "field": field, "newSize": i32::try_from(size).unwrap_or(i32::MAX) }
            });
            let truncated: Vec<Document> = truncated.collect();
            description.insert("truncatedArrays", truncated);
        }
        if self.is_expanded && self.release >= [6, 1, 0] {
            description.insert("disambiguatedPaths", delta.ambiguous);
        }
        description
    }

    fn full_of_update(
        &self,
        namespace: &Namespace,
        after: &Shared,
        origin: &Origin,
        lookup: &mut Lookup<'_>,
    ) -> Answer<Option<Bson>> {
        let shown = |document: &Shared| Bson::from(Document::clone(document));
        Ok(match self.full_document {
            FullDocument::Default => None,
            FullDocument::UpdateLookup => {
                let found = lookup(namespace, origin.serial, after);
                Some(found.as_ref().map_or(Bson::Null, shown))
            }
            _ if origin.keeps_images => Some(shown(after)),
            FullDocument::WhenAvailable => Some(Bson::Null),
            FullDocument::Required => return Err(missing_image("a post-image", "update")),
        })
    }

    fn before_change(&self, before: &Shared, origin: Origin) -> Answer<Option<Bson>> {
        Ok(match self.before_change {
            BeforeChange::Off => None,
            _ if origin.keeps_images => Some(Document::clone(before).into()),
            BeforeChange::WhenAvailable => Some(Bson::Null),
            BeforeChange::Required => {
                return Err(missing_image("a pre-image", "update, delete and replace"));
            }
        })
    }

    fn catalog_change(&self, changes: &[Change], at: usize) -> Option<Parts> {
        let is_single = matches!(self.scope, Scope::Collection(_));
        match changes.get(at)? {
            Change::DropCollection { namespace, before } => {
                let is_shown = is_plain(before) || self.is_expanded && !is_single;
                let parts = Parts::new("drop", namespace, before.serial);
                (is_shown && !is_replaced(changes, at)).then_some(parts)
            }
            Change::DropDatabase { database } => Some(Parts {
                operation: "dropDatabase",
                rest: doc! { "ns": { "db": database.as_str() } },
                ..Parts::default()
            }),
            Change::RenameCollection { from, to, serial } => {
                let parts = Parts::new("rename", from, *serial).with("to", name_of(to));
                let before = at.checked_sub(1).and_then(|at| changes.get(at));
                Some(self.described(parts, || {
                    let mut description = doc! { "to": name_of(to) };
                    if let Some(Change::DropCollection { namespace, before }) = before
                        && namespace == to
                    {
                        let target = collection_uuid(namespace, before.serial);
                        description.insert("dropTarget", target);
                    }
                    description
                }))
            }
            _ if !self.is_expanded => None,
            Change::CreateCollection {
                namespace,
                options,
                serial,
            } => self.creation(namespace, options, *serial),
            Change::ShardCollection {
                namespace,
                key,
                serial,
            } => {
                let parts = Parts::new("shardCollection", namespace, *serial);
                let description = doc! {
                    "shardKey": Document::clone(key), "unique": false, "numInitialChunks": 0_i64,
                };
                Some(parts.with("operationDescription", description))
            }
            Change::ModifyCollection {
                namespace,
                before,
                after,
                serial,
            } => {
                let is_changed =
                    |(name, value): &(&String, &Bson)| before.get(*name) != Some(*value);
                let changed = after.iter().filter(is_changed);
                let changed: Document = changed.map(|(n, v)| (n.clone(), v.clone())).collect();
                let state = doc! { "collectionOptions": Document::clone(before) };
                let parts = Parts::new("modify", namespace, *serial);
                let parts = parts.with("operationDescription", changed);
                Some(parts.with("stateBeforeChange", state))
            }
            Change::CreateIndex { .. } | Change::DropIndex { .. } => index_change(changes, at),
            _ => None,
        }
    }

    /// Adds `operationDescription` if the stream has expanded events.
    fn described(&self, parts: Parts, description: impl FnOnce() -> Document) -> Parts {
        match self.is_expanded {
            true => parts.with("operationDescription", description()),
            false => parts,
        }
    }

    fn creation(&self, namespace: &Namespace, options: &Document, serial: u64) -> Option<Parts> {
        let is_view = options.contains_key("viewOn");
        let is_series = options.contains_key("timeseries");
        if is_view && matches!(self.scope, Scope::Collection(_)) {
            return None;
        }
        let mut description = options.clone();
        let mut parts = Parts::new("create", namespace, serial);
        let kind = match (is_view, is_series) {
            (true, _) => "view",
            (_, true) => "timeseries",
            _ => "collection",
        };
        if self.release >= [8, 1, 0] {
            parts = parts.with("nsType", kind);
        }
        match is_view {
            true => parts.uuid = None,
            false => {
                let index = doc! { "v": 2, "key": { "_id": 1 }, "name": "_id_" };
                description.insert("idIndex", index);
            }
        }
        Some(parts.with("operationDescription", description))
    }

    fn assemble(&self, parts: Parts, stamp: &Stamp) -> Document {
        let mut event = doc! {
            "_id": stamp.token.clone(),
            "operationType": parts.operation,
            "clusterTime": stamp.time,
        };
        if let Some(uuid) = parts.uuid.filter(|_| self.is_expanded) {
            event.insert("collectionUUID", uuid);
        }
        if self.release >= [6, 0, 0] {
            event.insert("wallTime", stamp.wall);
        }
        if let Some((session, number)) = stamp.transaction {
            let id = Binary {
                subtype: BinarySubtype::Uuid,
                bytes: session.to_vec(),
            };
            event.insert("lsid", doc! { "id": id });
            event.insert("txnNumber", number);
        }
        if let Some(full) = parts.full {
            event.insert("fullDocument", full);
        }
        event.extend(parts.rest);
        event
    }
}

/// True for the drop of a collection whose name the next change gives to another one.
fn is_replaced(changes: &[Change], at: usize) -> bool {
    match (changes.get(at), changes.get(at + 1)) {
        (
            Some(Change::DropCollection { namespace, .. }),
            Some(Change::RenameCollection { to, .. }),
        ) => to == namespace,
        _ => false,
    }
}

/// True for a collection that is neither a view nor a time series collection.
fn is_plain(collection: &Collection) -> bool {
    collection.view().is_none() && collection.time_series().is_none()
}

fn name_of(namespace: &Namespace) -> Document {
    doc! { "db": namespace.database.as_str(), "coll": namespace.collection.as_str() }
}

fn missing_image(image: &str, events: &str) -> StoreError {
    let text = format!(
        "Change stream was configured to require {image} for all {events} events, but the image \
         was not found"
    );
    StoreError::new(47, text)
}
