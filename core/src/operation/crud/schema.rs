//! Commands for indexes, collections and databases.

use super::{
    CreateCollectionOptions, CreateIndexOptions, Defaults, DropCollectionOptions,
    DropDatabaseOptions, DropIndexOptions, IndexOptions, ListCollectionsOptions,
    ListDatabasesOptions, ListIndexesOptions, RenameCollectionOptions, SharedNamespace,
    check_database_name, stored, write_seconds,
};
use crate::{
    error::Error,
    operation::{Command, CommandKind, CursorSettings},
    options::Place,
};
use bson::{Bson, Document};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// An index: its keys and options (Index Management, *Index Model*).
///
/// ```
/// use bson::doc;
/// use onionskin_core::operation::crud::{IndexModel, IndexOptions};
///
/// let unique = IndexOptions::builder().unique(true).build();
/// let index = IndexModel::builder().keys(doc! { "email": 1 }).options(unique).build();
/// assert_eq!(index.name(), "email_1");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct IndexModel {
    /// The keys, for example `{ age: 1, name: -1 }`.
    #[serde(rename = "key")]
    pub keys: Document,
    /// The options; `None` for none.
    #[serde(flatten, deserialize_with = "stored::index")]
    pub options: Option<IndexOptions>,
}

/// A builder of [`IndexModel`].
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing before `build`"]
pub struct IndexModelBuilder(IndexModel);

impl IndexModelBuilder {
    /// Sets the keys.
    ///
    /// ```
    /// use bson::doc;
    /// use onionskin_core::operation::crud::IndexModel;
    ///
    /// let index = IndexModel::builder().keys(doc! { "city": 1, "born": -1 }).build();
    /// assert_eq!(index.name(), "city_1_born_-1");
    /// ```
    pub fn keys(mut self, keys: impl Into<Document>) -> Self {
        self.0.keys = keys.into();
        self
    }

    /// Sets the options.
    ///
    /// ```
    /// use bson::doc;
    /// use onionskin_core::operation::crud::{IndexModel, IndexOptions};
    ///
    /// let unique = IndexOptions::builder().unique(true).build();
    /// let index = IndexModel::builder().keys(doc! { "email": 1 }).options(unique).build();
    /// assert!(index.options.is_some());
    /// ```
    pub fn options(mut self, options: impl Into<Option<IndexOptions>>) -> Self {
        self.0.options = options.into();
        self
    }

    /// Returns the index.
    ///
    /// ```
    /// use bson::doc;
    /// use onionskin_core::operation::crud::IndexModel;
    ///
    /// let index = IndexModel::builder().keys(doc! { "email": 1 }).build();
    /// assert_eq!(index.options, None);
    /// ```
    #[must_use]
    pub fn build(self) -> IndexModel {
        self.0
    }
}

impl IndexModel {
    /// Returns a builder without keys and options.
    ///
    /// ```
    /// use bson::doc;
    /// use onionskin_core::operation::crud::IndexModel;
    ///
    /// let index = IndexModel::builder().keys(doc! { "place": "2dsphere" }).build();
    /// assert_eq!(index.keys, doc! { "place": "2dsphere" });
    /// ```
    pub fn builder() -> IndexModelBuilder {
        IndexModelBuilder::default()
    }

    /// Returns the name of the options, or else the name that drivers make of the keys: `age_1` for
    /// `{ age: 1 }`.
    ///
    /// ```
    /// use bson::doc;
    /// use onionskin_core::operation::crud::IndexModel;
    ///
    /// let index = IndexModel::builder().keys(doc! { "place": "2dsphere" }).build();
    /// assert_eq!(index.name(), "place_2dsphere");
    /// ```
    #[must_use]
    pub fn name(&self) -> String {
        let named = self.options.as_ref().and_then(|o| o.name.clone());
        named.unwrap_or_else(|| {
            let parts = self.keys.iter().map(|(key, value)| match value {
                Bson::String(kind) => format!("{key}_{kind}"),
                Bson::Double(n) if n.fract() == 0.0 => format!("{key}_{n:.0}"),
                other => format!("{key}_{other}"),
            });
            parts.collect::<Vec<_>>().join("_")
        })
    }
}

/// Returns the command that creates indexes. Fails without an index, for an index without keys, and
/// if a document or an option cannot be encoded.
pub fn create_indexes(
    namespace: &SharedNamespace,
    indexes: &[IndexModel],
    options: &CreateIndexOptions,
    defaults: &Defaults,
) -> Result<Command, Error> {
    if indexes.is_empty() {
        return Err(Error::argument("there is no index to create"));
    }
    if indexes.iter().any(|index| index.keys.is_empty()) {
        return Err(Error::argument("an index has no keys"));
    }
    let mut command = write_command("createIndexes", namespace);
    let mut body = command.body();
    let mut result = Ok(());
    body.documents("indexes", indexes, |document, index| {
        let written = write_index(document, index);
        if result.is_ok() {
            result = written;
        }
    });
    result?;
    options.write(Place::Body, &mut body)?;
    defaults.apply_to_write(&mut command, options.write_concern.as_ref())?;
    if options.commit_quorum.is_some() {
        command.need_4_4("commitQuorum");
    }
    defaults.apply_timeout(&mut command, options.timeout);
    command.set_raw_data(options.raw_data);
    command.set_max_time(options.max_time);
    Ok(command)
}

fn write_index(
    document: &mut crate::bson::DocumentWriter<'_>,
    index: &IndexModel,
) -> Result<(), Error> {
    document
        .subtree("key", &index.keys)?
        .str("name", &index.name());
    if let Some(options) = &index.options {
        options.write(Place::Statement, document)?;
        write_seconds(document, "expireAfterSeconds", options.expire_after);
    }
    Ok(())
}

/// Returns the command that drops the index of this name; `None` for all but that of `_id`. Fails
/// for the name `*`, with which a server would drop them all, and if an option cannot be encoded.
pub fn drop_indexes(
    namespace: &SharedNamespace,
    name: Option<&str>,
    options: &DropIndexOptions,
    defaults: &Defaults,
) -> Result<Command, Error> {
    if name == Some("*") {
        let message = "the name * stands for all indexes; use drop_indexes to drop them";
        return Err(Error::argument(message));
    }
    let mut command = write_command("dropIndexes", namespace);
    let mut body = command.body();
    body.str("index", name.unwrap_or("*"));
    options.write(Place::Body, &mut body)?;
    defaults.apply_to_write(&mut command, options.write_concern.as_ref())?;
    defaults.apply_timeout(&mut command, options.timeout);
    command.set_raw_data(options.raw_data);
    command.set_max_time(options.max_time);
    Ok(command)
}

/// Returns the command that lists the indexes of a collection. Its reply has a cursor. Fails if an
/// option cannot be encoded.
pub fn list_indexes(
    namespace: &SharedNamespace,
    options: &ListIndexesOptions,
    defaults: &Defaults,
) -> Result<Command, Error> {
    let kind = CommandKind::Read;
    let mut command = Command::new("listIndexes", namespace.database.clone(), kind);
    let mut body = command.body();
    body.str("listIndexes", &namespace.collection);
    write_cursor(&mut body, |cursor| options.write(Place::Cursor, cursor))?;
    options.write(Place::Body, &mut body)?;
    defaults.apply_timeout(&mut command, options.timeout);
    command.set_cursor(CursorSettings {
        batch_size: options.batch_size,
        comment: options.comment.clone(),
        timeout_mode: options.timeout_mode,
        ..CursorSettings::default()
    });
    command.set_raw_data(options.raw_data);
    command.set_max_time(options.max_time);
    Ok(command)
}

/// Returns the command that creates a collection or a view. Fails if an option cannot be encoded.
pub fn create_collection(
    namespace: &SharedNamespace,
    options: &CreateCollectionOptions,
    defaults: &Defaults,
) -> Result<Command, Error> {
    let mut command = write_command("create", namespace);
    let mut body = command.body();
    options.write(Place::Body, &mut body)?;
    write_seconds(
        &mut body,
        "expireAfterSeconds",
        options.expire_after_seconds,
    );
    defaults.apply_to_write(&mut command, options.write_concern.as_ref())?;
    defaults.apply_timeout(&mut command, options.timeout);
    Ok(command)
}

/// Returns the command that drops a collection. Fails if an option cannot be encoded.
pub fn drop_collection(
    namespace: &SharedNamespace,
    options: &DropCollectionOptions,
    defaults: &Defaults,
) -> Result<Command, Error> {
    let mut command = write_command("drop", namespace);
    options.write(Place::Body, &mut command.body())?;
    defaults.apply_to_write(&mut command, options.write_concern.as_ref())?;
    defaults.apply_timeout(&mut command, options.timeout);
    Ok(command)
}

/// Returns the command that gives a collection another name, also in another database. Fails if an
/// option cannot be encoded.
pub fn rename_collection(
    namespace: &SharedNamespace,
    to: &SharedNamespace,
    options: &RenameCollectionOptions,
    defaults: &Defaults,
) -> Result<Command, Error> {
    let mut command = Command::new("renameCollection", "admin", CommandKind::Write);
    let mut body = command.body();
    body.str("renameCollection", &namespace.to_string())
        .str("to", &to.to_string());
    options.write(Place::Body, &mut body)?;
    defaults.apply_write_concern(&mut command, options.write_concern.as_ref())?;
    defaults.apply_timeout(&mut command, options.timeout);
    Ok(command)
}

/// Returns the command that drops a database. Fails if the name of the database is not valid, and
/// if an option cannot be encoded.
pub fn drop_database(
    database: &Arc<str>,
    options: &DropDatabaseOptions,
    defaults: &Defaults,
) -> Result<Command, Error> {
    check_database_name(database)?;
    let mut command = Command::new("dropDatabase", database.clone(), CommandKind::Write);
    let mut body = command.body();
    body.i32("dropDatabase", 1);
    options.write(Place::Body, &mut body)?;
    defaults.apply_to_write(&mut command, options.write_concern.as_ref())?;
    defaults.apply_timeout(&mut command, options.timeout);
    Ok(command)
}

/// The contents of a list of collections or databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// All facts about each.
    Everything,
    /// Only the names.
    Names,
}

/// Returns the command that lists the collections of a database. Its reply has a cursor. Fails if
/// the name of the database is not valid, and if the filter or an option cannot be encoded.
pub fn list_collections(
    database: &Arc<str>,
    listed: Listed,
    options: &ListCollectionsOptions,
    defaults: &Defaults,
) -> Result<Command, Error> {
    check_database_name(database)?;
    let kind = CommandKind::Read;
    let mut command = Command::new("listCollections", database.clone(), kind);
    let mut body = command.body();
    body.i32("listCollections", 1);
    if let Some(filter) = &options.filter {
        body.subtree("filter", filter)?;
    }
    // A filter by another field than the name needs the rest of each collection.
    let filter = options.filter.iter().flat_map(Document::keys);
    if listed == Listed::Names && filter.into_iter().all(|key| key == "name") {
        body.bool("nameOnly", true);
    }
    write_cursor(&mut body, |cursor| options.write(Place::Cursor, cursor))?;
    options.write(Place::Body, &mut body)?;
    command.set_raw_data(options.raw_data);
    defaults.apply_timeout(&mut command, options.timeout);
    // A `getMore` has no comment (Enumerating Collections, *listCollections Database Command*).
    command.set_cursor(CursorSettings {
        batch_size: options.batch_size,
        timeout_mode: options.timeout_mode,
        ..CursorSettings::default()
    });
    Ok(command)
}

/// Returns the command that lists the databases of a deployment. Fails if the filter or an option
/// cannot be encoded.
pub fn list_databases(
    listed: Listed,
    options: &ListDatabasesOptions,
    defaults: &Defaults,
) -> Result<Command, Error> {
    let mut command = Command::new("listDatabases", "admin", CommandKind::Read);
    let mut body = command.body();
    body.i32("listDatabases", 1);
    if listed == Listed::Names {
        body.bool("nameOnly", true);
    }
    options.write(Place::Body, &mut body)?;
    defaults.apply_timeout(&mut command, options.timeout);
    Ok(command)
}

/// Returns the empty command for a collection. The write is not retried (RW-10).
fn write_command(name: &'static str, namespace: &SharedNamespace) -> Command {
    let mut command = Command::new(name, namespace.database.clone(), CommandKind::Write);
    command.body().str(name, &namespace.collection);
    command
}

/// Appends the document `cursor`.
fn write_cursor(
    body: &mut crate::bson::DocumentWriter<'_>,
    fill: impl FnOnce(&mut crate::bson::DocumentWriter<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut result = Ok(());
    body.nested("cursor", |cursor| result = fill(cursor));
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{ReadPreferenceOptions, WriteConcern};
    use bson::{RawDocumentBuf, doc};
    use std::time::Duration;

    fn body(command: &Command) -> RawDocumentBuf {
        let elements = &command.0.request.elements;
        let length = i32::try_from(elements.len() + 5).expect("it is short");
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend_from_slice(elements);
        bytes.push(0);
        RawDocumentBuf::from_bytes(bytes).expect("a document")
    }

    #[test]
    fn all_indexes_are_dropped_only_if_no_name_is_given() {
        let namespace = SharedNamespace::unchecked("d".into(), "c".into());
        let (options, defaults) = (DropIndexOptions::default(), Defaults::default());
        let drop = |name| drop_indexes(&namespace, name, &options, &defaults);
        let sent = |name| {
            let command = drop(name).expect("a command");
            body(&command)
                .get_str("index")
                .expect("it is sent")
                .to_owned()
        };
        assert_eq!((sent(Some("a_1")), sent(None)), ("a_1".into(), "*".into()));
        let error = drop(Some("*")).expect_err("it is refused").to_string();
        assert!(error.contains("drop_indexes"), "{error}");
    }

    #[test]
    fn a_time_shorter_than_its_unit_is_not_sent_as_zero() {
        // Zero would mean that documents expire at once, or that there is no limit.
        let short = Duration::from_micros(500);
        let namespace = SharedNamespace::unchecked("d".into(), "c".into());
        let expiring = IndexOptions::builder().expire_after(short).build();
        let index = IndexModel::builder()
            .keys(doc! { "at": 1 })
            .options(expiring);
        let mut concern = WriteConcern::nodes(2);
        concern.w_timeout = Some(short);
        let options = CreateIndexOptions::builder()
            .max_time(short)
            .write_concern(concern)
            .build();
        let indexes = [index.build()];
        let command = create_indexes(&namespace, &indexes, &options, &Defaults::default());
        let command = command.expect("a command");
        assert_eq!(command.0.request.max_time_ms, Some(1));
        let sent: Document = (&*body(&command)).try_into().expect("a document");
        let concern = sent.get_document("writeConcern").expect("it is sent");
        assert_eq!(concern.get_i64("wtimeout").ok(), Some(1));
        let index = sent.get_array("indexes").expect("a list")[0].as_document();
        let seconds = index.expect("an index").get_i32("expireAfterSeconds");
        assert_eq!(seconds.ok(), Some(1));

        let stored = bson::serialize_to_document(&options).expect("a document");
        assert_eq!(stored.get_i64("maxTimeMS").ok(), Some(1));
        let options = ReadPreferenceOptions::builder().max_staleness(short);
        let stored = bson::serialize_to_document(&options.build()).expect("a document");
        assert_eq!(stored.get_i64("maxStalenessSeconds").ok(), Some(1));
    }
}
