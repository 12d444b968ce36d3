//! The bulk write of a collection, and its operations made of documents of any type.

use super::Collection;
use crate::{
    CollectionBulkWrite, Runtime,
    options::{InsertOneModel, ReplaceOneModel, WriteModel},
};
use bson::Document;
use onionskin_core::{bson::decode_document, error::Error, operation::crud::encode_replacement};
use serde::Serialize;
use std::borrow::Borrow;

impl<R: Runtime, T: Send + Sync> Collection<R, T> {
    /// Runs inserts, updates and deletes in this collection, on any server.
    ///
    /// The operations are sent with the commands `insert`, `update` and `delete`, as many
    /// operations in one command as the limits of the server allow. An ordered bulk write (the
    /// default) sends consecutive operations of one kind together, and ends with the first
    /// operation that fails. With [`ordered(false)`](CollectionBulkWrite::ordered), all inserts are
    /// sent first, then all updates and replacements, then all deletes, and a failure ends nothing.
    ///
    /// With an unacknowledged write concern (`w: 0`) all counts of the result are zero. A command
    /// is retried as a write unless it has an operation that can affect several documents ([RW-8]).
    ///
    /// Fails before anything is sent: without an operation, for an operation of another collection,
    /// and for one that is not valid or cannot be encoded. An operation without a namespace is one
    /// of this collection. All other failures have the kind
    /// [`ErrorKind::BulkWrite`](crate::error::ErrorKind::BulkWrite), which has the errors by the
    /// index of the operation and the results so far. An error that ended the bulk write before
    /// anything was written is raised as it is (CRUD, *Insert, Update, Replace, Delete, and Bulk
    /// Writes*).
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// use onionskin::options::{InsertOneModel, UpdateManyModel, WriteModel};
    ///
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let ada = InsertOneModel::builder().document(doc! { "name": "Ada" }).build();
    /// let all = UpdateManyModel::builder().filter(doc! {}).update(doc! { "$inc": { "age": 1 } });
    /// let operations: [WriteModel; 2] = [ada.into(), all.build().into()];
    /// let result = people.bulk_write(operations).await?;
    /// println!("{:?} inserted, {} changed", result.inserted_ids, result.modified_count);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [RW-8]: onionskin_core::requirements::retries#RW-8
    pub fn bulk_write(
        &self,
        models: impl IntoIterator<Item = impl Into<WriteModel>>,
    ) -> CollectionBulkWrite<'_, R, T> {
        CollectionBulkWrite::new(self, models.into_iter().map(Into::into).collect())
    }

    /// Returns the insert of a document into this collection, for a bulk write.
    ///
    /// Fails if the value cannot be represented in BSON.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime};
    /// #[derive(serde::Serialize)]
    /// struct Person { name: String }
    ///
    /// # async fn example<R: Runtime>(people: Collection<R, Person>) -> Result<(), Error> {
    /// let names = ["Ada", "Grace"].map(|name| Person { name: name.to_owned() });
    /// let inserts = names.iter().map(|person| people.insert_one_model(person));
    /// people.bulk_write(inserts.collect::<Result<Vec<_>, _>>()?).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn insert_one_model(&self, document: impl Borrow<T>) -> Result<InsertOneModel, Error>
    where
        T: Serialize,
    {
        let model = InsertOneModel::builder().namespace(self.namespace());
        Ok(model.document(to_document(document.borrow())?).build())
    }

    /// Returns the replacement of the first document of this collection that matches `filter`, for
    /// a bulk write.
    ///
    /// Fails if the value cannot be represented in BSON, and if it begins with an update operator.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::doc};
    /// #[derive(serde::Serialize)]
    /// struct Person { name: String }
    ///
    /// # async fn example<R: Runtime>(people: Collection<R, Person>) -> Result<(), Error> {
    /// let ada = Person { name: "Ada".to_owned() };
    /// people.bulk_write([people.replace_one_model(doc! { "_id": 1 }, ada)?]).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn replace_one_model(
        &self,
        filter: Document,
        replacement: impl Borrow<T>,
    ) -> Result<ReplaceOneModel, Error>
    where
        T: Serialize,
    {
        let model = ReplaceOneModel::builder()
            .namespace(self.namespace())
            .filter(filter);
        let replacement = decode_document(&encode_replacement(replacement.borrow())?)?;
        Ok(model.replacement(replacement).build())
    }
}

fn to_document<T: Serialize + ?Sized>(value: &T) -> Result<Document, Error> {
    Ok(onionskin_bson::document_from_slice(
        &onionskin_bson::serialize_to_vec(value)?,
    )?)
}
