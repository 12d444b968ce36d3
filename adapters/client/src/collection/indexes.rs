//! The indexes of a collection.

use super::Collection;
use crate::{
    CreateIndex, CreateIndexes, DropIndex, ListIndexNames, ListIndexes, Runtime,
    options::IndexModel,
};

impl<R: Runtime, T: Send + Sync> Collection<R, T> {
    /// Creates an index.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// use onionskin::{IndexModel, options::IndexOptions};
    ///
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let unique = IndexOptions::builder().unique(true).build();
    /// let index = IndexModel::builder().keys(doc! { "email": 1 }).options(unique).build();
    /// people.create_index(index).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_index(&self, index: IndexModel) -> CreateIndex<'_, R, T> {
        CreateIndex::new(self, index)
    }

    /// Creates indexes with one command.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, IndexModel, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let by = |keys: Document| IndexModel::builder().keys(keys).build();
    /// people.create_indexes([by(doc! { "born": 1 }), by(doc! { "name": 1 })]).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_indexes(
        &self,
        indexes: impl IntoIterator<Item = IndexModel>,
    ) -> CreateIndexes<'_, R, T> {
        CreateIndexes::new(self, indexes.into_iter().collect())
    }

    /// Drops the index of this name. Fails for the name `*`, which stands for all indexes but that
    /// of `_id`: [`drop_indexes`](Self::drop_indexes) drops them.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// people.drop_index("born_1").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn drop_index(&self, name: impl AsRef<str>) -> DropIndex<'_, R, T> {
        DropIndex::new(self, Some(name.as_ref().to_owned()))
    }

    /// Drops all indexes but that of `_id`.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// people.drop_indexes().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn drop_indexes(&self) -> DropIndex<'_, R, T> {
        DropIndex::new(self, None)
    }

    /// Lists the indexes.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// for index in people.list_indexes().await?.into_vec().await? {
    ///     println!("{}", index.keys);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn list_indexes(&self) -> ListIndexes<'_, R, T> {
        ListIndexes::new(self)
    }

    /// Lists the names of the indexes. A collection that does not exist has none.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let names = people.list_index_names().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn list_index_names(&self) -> ListIndexNames<'_, R, T> {
        ListIndexNames::new(self)
    }
}
