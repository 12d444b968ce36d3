//! The search indexes of a collection.

use super::Collection;
use crate::{
    CreateSearchIndex, CreateSearchIndexes, DropSearchIndex, ListSearchIndexes, Runtime,
    SearchIndexModel, UpdateSearchIndex,
};
use bson::Document;

/// Search indexes, which only MongoDB Atlas has. Other servers refuse these calls.
///
/// A server replies before it has made, changed or dropped an index. Call
/// [`list_search_indexes`](Self::list_search_indexes) until the change appears. Neither a read
/// concern nor a write concern is sent. `list_search_indexes` is retried as a read. The other calls
/// are retried only after overload errors.
impl<R: Runtime, T: Send + Sync> Collection<R, T> {
    /// Creates a search index and returns its name.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// use onionskin::SearchIndexModel;
    ///
    /// # async fn example<R: Runtime>(films: Collection<R, Document>) -> Result<(), Error> {
    /// let dynamic = doc! { "mappings": { "dynamic": true } };
    /// let index = SearchIndexModel::builder().name("all".to_owned()).definition(dynamic);
    /// let name = films.create_search_index(index.build()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_search_index(&self, index: SearchIndexModel) -> CreateSearchIndex<'_, R, T> {
        CreateSearchIndex::new(self, index)
    }

    /// Creates search indexes with one command and returns their names. Fails without an index.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// use onionskin::{SearchIndexModel, SearchIndexType};
    ///
    /// # async fn example<R: Runtime>(films: Collection<R, Document>) -> Result<(), Error> {
    /// let text = SearchIndexModel::builder()
    ///     .name("text".to_owned())
    ///     .definition(doc! { "mappings": { "dynamic": true } });
    /// let field =
    ///     doc! { "type": "vector", "path": "plot", "numDimensions": 3, "similarity": "cosine" };
    /// let plot = SearchIndexModel::builder()
    ///     .name("plot".to_owned())
    ///     .definition(doc! { "fields": [field] })
    ///     .index_type(SearchIndexType::VectorSearch);
    /// let names = films.create_search_indexes([text.build(), plot.build()]).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_search_indexes(
        &self,
        indexes: impl IntoIterator<Item = SearchIndexModel>,
    ) -> CreateSearchIndexes<'_, R, T> {
        CreateSearchIndexes::new(self, indexes.into_iter().collect())
    }

    /// Gives the search index of this name another definition.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(films: Collection<R, Document>) -> Result<(), Error> {
    /// let title = doc! { "title": { "type": "string" } };
    /// let definition = doc! { "mappings": { "dynamic": false, "fields": title } };
    /// films.update_search_index("all", definition).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn update_search_index(
        &self,
        name: impl Into<String>,
        definition: Document,
    ) -> UpdateSearchIndex<'_, R, T> {
        UpdateSearchIndex::new(self, name.into(), definition)
    }

    /// Drops the search index of this name. A collection that does not exist is no error (Index
    /// Management, *NamespaceNotFound Errors*).
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(films: Collection<R, Document>) -> Result<(), Error> {
    /// films.drop_search_index("all").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn drop_search_index(&self, name: impl Into<String>) -> DropSearchIndex<'_, R, T> {
        DropSearchIndex::new(self, name.into())
    }

    /// Lists the search indexes, or only the one that [`name`](ListSearchIndexes::name) sets. An
    /// index can be used once its field `queryable` is true.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(films: Collection<R, Document>) -> Result<(), Error> {
    /// let mut cursor = films.list_search_indexes().name("all").await?;
    /// while let Some(index) = cursor.next().await {
    ///     println!("{:?}", index?.get_bool("queryable"));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn list_search_indexes(&self) -> ListSearchIndexes<'_, R, T> {
        ListSearchIndexes::new(self)
    }
}
