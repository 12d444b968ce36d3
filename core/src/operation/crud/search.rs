//! Commands for search indexes (Index Management, *Search Indexes*). Only Atlas has them.

use super::{
    AggregateOptions, CreateSearchIndexOptions, Defaults, DropSearchIndexOptions,
    ListSearchIndexOptions, SharedNamespace, UpdateSearchIndexOptions, aggregate,
};
use crate::{
    bson::DocumentWriter,
    error::Error,
    operation::{Command, CommandKind, ReadConcernUse},
    options::open_names,
};
use bson::{Document, RawDocument, doc};
use serde::{Deserialize, Serialize};

/// A search index: its definition, and optionally its name and type (Index Management, *Common
/// Interfaces*).
///
/// ```
/// use bson::doc;
/// use onionskin_core::operation::crud::{SearchIndexModel, SearchIndexType};
///
/// let field = doc! { "type": "vector", "path": "v", "numDimensions": 3, "similarity": "cosine" };
/// let index = SearchIndexModel::builder()
///     .name("by_vector".to_owned())
///     .definition(doc! { "fields": [field] })
///     .index_type(SearchIndexType::VectorSearch)
///     .build();
/// assert_eq!(index.name.as_deref(), Some("by_vector"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SearchIndexModel {
    /// The definition, for example `{ mappings: { dynamic: true } }`. Its form depends on the type.
    pub definition: Document,
    /// The name. The server names an index without one `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The type. The server makes an index without one for [`SearchIndexType::Search`].
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub index_type: Option<SearchIndexType>,
}

/// A builder of [`SearchIndexModel`].
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing before `build`"]
pub struct SearchIndexModelBuilder(SearchIndexModel);

impl SearchIndexModelBuilder {
    /// Sets the definition. Default: an empty document.
    ///
    /// ```
    /// use bson::doc;
    /// use onionskin_core::operation::crud::SearchIndexModel;
    ///
    /// let dynamic = doc! { "mappings": { "dynamic": true } };
    /// let index = SearchIndexModel::builder().definition(dynamic.clone()).build();
    /// assert_eq!(index.definition, dynamic);
    /// ```
    pub fn definition(mut self, definition: impl Into<Document>) -> Self {
        self.0.definition = definition.into();
        self
    }

    /// Sets the name. Default: that of the server, `default`.
    ///
    /// ```
    /// use onionskin_core::operation::crud::SearchIndexModel;
    ///
    /// let index = SearchIndexModel::builder().name("plot".to_owned()).build();
    /// assert_eq!(index.name.as_deref(), Some("plot"));
    /// ```
    pub fn name(mut self, name: impl Into<Option<String>>) -> Self {
        self.0.name = name.into();
        self
    }

    /// Sets the type. Default: that of the server, [`SearchIndexType::Search`].
    ///
    /// ```
    /// use onionskin_core::operation::crud::{SearchIndexModel, SearchIndexType};
    ///
    /// let index = SearchIndexModel::builder().index_type(SearchIndexType::VectorSearch).build();
    /// assert_eq!(index.index_type, Some(SearchIndexType::VectorSearch));
    /// ```
    pub fn index_type(mut self, index_type: impl Into<Option<SearchIndexType>>) -> Self {
        self.0.index_type = index_type.into();
        self
    }

    /// Returns the index.
    ///
    /// ```
    /// use onionskin_core::operation::crud::SearchIndexModel;
    ///
    /// let index = SearchIndexModel::builder().build();
    /// assert_eq!(index, SearchIndexModel::default());
    /// ```
    #[must_use]
    pub fn build(self) -> SearchIndexModel {
        self.0
    }
}

impl SearchIndexModel {
    /// Returns a builder without a definition, a name and a type.
    ///
    /// ```
    /// use bson::doc;
    /// use onionskin_core::operation::crud::SearchIndexModel;
    ///
    /// let index = SearchIndexModel::builder().definition(doc! { "mappings": {} }).build();
    /// assert_eq!(index.name, None);
    /// ```
    pub fn builder() -> SearchIndexModelBuilder {
        SearchIndexModelBuilder::default()
    }
}

open_names! {
    /// The type of a search index.
    SearchIndexType {
        /// An index for the stage `$search`.
        Search = "search",
        /// An index for the stage `$vectorSearch`.
        VectorSearch = "vectorSearch",
    }
}

/// Returns the command that creates search indexes. Fails without an index, and if a definition
/// cannot be encoded.
pub fn create_search_indexes(
    namespace: &SharedNamespace,
    indexes: &[SearchIndexModel],
    options: &CreateSearchIndexOptions,
    defaults: &Defaults,
) -> Result<Command, Error> {
    let mut command = begin("createSearchIndexes", namespace);
    let mut result = Ok(());
    command
        .body()
        .documents("indexes", indexes, |document, index| {
            let written = write_index(document, index);
            if result.is_ok() {
                result = written;
            }
        });
    result?;
    defaults.apply_timeout(&mut command, options.timeout);
    Ok(command)
}

fn write_index(document: &mut DocumentWriter<'_>, index: &SearchIndexModel) -> Result<(), Error> {
    document.subtree("definition", &index.definition)?;
    if let Some(name) = &index.name {
        document.str("name", name);
    }
    if let Some(index_type) = &index.index_type {
        document.str("type", index_type.as_str());
    }
    Ok(())
}

/// Reads the names in the reply to `createSearchIndexes`. Fails unless there are `count` of them.
pub fn created_search_indexes(reply: &RawDocument, count: usize) -> Result<Vec<String>, Error> {
    let created = reply.get_array("indexesCreated").into_iter().flatten();
    let names = created.map(|index| {
        let index = index.ok()?.as_document()?;
        index.get_str("name").ok().map(str::to_owned)
    });
    let names: Option<Vec<_>> = names.take(count.saturating_add(1)).collect();
    names.filter(|names| names.len() == count).ok_or_else(|| {
        Error::protocol("the reply does not have the name of each search index that was created")
    })
}

/// Returns the command that gives a search index another definition. Fails if the definition cannot
/// be encoded.
pub fn update_search_index(
    namespace: &SharedNamespace,
    name: &str,
    definition: &Document,
    options: &UpdateSearchIndexOptions,
    defaults: &Defaults,
) -> Result<Command, Error> {
    let mut command = begin("updateSearchIndex", namespace);
    command
        .body()
        .str("name", name)
        .subtree("definition", definition)?;
    defaults.apply_timeout(&mut command, options.timeout);
    Ok(command)
}

/// Returns the command that drops a search index. An error of a missing collection means that there
/// is nothing to drop ([`is_missing_namespace`](super::is_missing_namespace)).
#[must_use]
pub fn drop_search_index(
    namespace: &SharedNamespace,
    name: &str,
    options: &DropSearchIndexOptions,
    defaults: &Defaults,
) -> Command {
    let mut command = begin("dropSearchIndex", namespace);
    command.body().str("name", name);
    defaults.apply_timeout(&mut command, options.timeout);
    command
}

/// Returns the aggregation that lists the search indexes of a collection, or only the one of this
/// name. Fails if an option cannot be encoded.
///
/// Neither the read concern nor the write concern of `aggregate_options` is sent (Index Management,
/// *Where are read concern and write concern?*).
pub fn list_search_indexes(
    namespace: &SharedNamespace,
    name: Option<&str>,
    options: &ListSearchIndexOptions,
    aggregate_options: &AggregateOptions,
    defaults: &Defaults,
) -> Result<Command, Error> {
    let mut stage = Document::new();
    if let Some(name) = name {
        stage.insert("name", name);
    }
    let aggregate_options = AggregateOptions {
        read_concern: None,
        write_concern: None,
        timeout: options.timeout.or(aggregate_options.timeout),
        ..aggregate_options.clone()
    };
    let defaults = defaults.without_concerns();
    let pipeline = [doc! { "$listSearchIndexes": stage }];
    let mut command = aggregate(namespace, &pipeline, &aggregate_options, &defaults)?;
    // Otherwise a causally consistent session would add `afterClusterTime`.
    command.0.request.read_concern = ReadConcernUse::None;
    Ok(command)
}

/// Returns the empty command for a collection. A read concern or write concern is never added,
/// because servers refuse it, and the command is not retried (RW-10).
fn begin(name: &'static str, namespace: &SharedNamespace) -> Command {
    let mut command = Command::new(name, namespace.database.clone(), CommandKind::Write);
    command.body().str(name, &namespace.collection);
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn the_reply_has_the_name_of_each_created_search_index() {
        let reply = rawdoc! { "indexesCreated": [{ "id": "1", "name": "a" }, { "name": "b" }] };
        let names = created_search_indexes(&reply, 2).expect("two names");
        assert_eq!(names, ["a", "b"]);
        for (reply, count) in [
            (reply.clone(), 1),
            (reply, 3),
            (rawdoc! {}, 1),
            (rawdoc! { "indexesCreated": [{ "id": "1" }] }, 1),
            (rawdoc! { "indexesCreated": ["a"] }, 1),
        ] {
            created_search_indexes(&reply, count).expect_err("a name is missing");
        }
    }

    #[test]
    fn a_search_index_has_the_form_of_the_command() {
        let index = SearchIndexModel::builder()
            .definition(doc! { "fields": [] })
            .name("v".to_owned())
            .index_type(SearchIndexType::VectorSearch)
            .build();
        let expected = doc! { "definition": { "fields": [] }, "name": "v", "type": "vectorSearch" };
        let document = bson::serialize_to_document(&index).expect("BSON");
        assert_eq!(document, expected);
        let read: SearchIndexModel = bson::deserialize_from_document(document).expect("an index");
        assert_eq!(read, index);
        let other = SearchIndexType::from("later".to_owned());
        assert_eq!(other, SearchIndexType::Other("later".into()));
    }
}
