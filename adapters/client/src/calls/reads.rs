//! `count_documents`, `estimated_document_count` and `distinct`.

use super::{collection_call, read_preference, setters, single};
use crate::{
    Collection, Runtime,
    decode::{Counted, DistinctValues, Estimated},
    futures::{CountDocumentsFuture, DistinctFuture, EstimatedDocumentCountFuture},
    options::*,
};
use bson::{Bson, Document};
use onionskin_core::{error::Error, operation::crud};
use std::{future::IntoFuture, time::Duration};

collection_call! {
    /// A `count_documents` that runs when it is awaited.
    CountDocuments { filter: Document, } with CountOptions listed by count_options
}

read_preference!([R: Runtime, T] CountDocuments<'_, R, T>);

impl<R: Runtime, T: Send + Sync> IntoFuture for CountDocuments<'_, R, T> {
    type Output = Result<u64, Error>;
    type IntoFuture = CountDocumentsFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let options = CountOptions::or_unset(self.options.as_deref());
        let namespace = self.collection.checked_namespace();
        let command = namespace.and_then(|namespace| {
            crud::count_documents(namespace, &self.filter, options, self.collection.defaults())
        });
        CountDocumentsFuture(single(
            self.collection.client(),
            self.session,
            command,
            Counted,
        ))
    }
}

collection_call! {
    /// An `estimated_document_count` that runs when it is awaited.
    EstimatedDocumentCount {}
    with EstimatedDocumentCountOptions listed by estimated_document_count_options
}

read_preference!([R: Runtime, T] EstimatedDocumentCount<'_, R, T>);

impl<R: Runtime, T: Send + Sync> IntoFuture for EstimatedDocumentCount<'_, R, T> {
    type Output = Result<u64, Error>;
    type IntoFuture = EstimatedDocumentCountFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let options = EstimatedDocumentCountOptions::or_unset(self.options.as_deref());
        let namespace = self.collection.checked_namespace();
        let command = namespace.and_then(|namespace| {
            crud::estimated_document_count(namespace, options, self.collection.defaults())
        });
        EstimatedDocumentCountFuture(single(
            self.collection.client(),
            self.session,
            command,
            Estimated,
        ))
    }
}

collection_call! {
    /// A `distinct` that runs when it is awaited.
    Distinct { field: String, filter: Document, } with DistinctOptions listed by distinct_options
}

read_preference!([R: Runtime, T] Distinct<'_, R, T>);

impl<R: Runtime, T: Send + Sync> IntoFuture for Distinct<'_, R, T> {
    type Output = Result<Vec<Bson>, Error>;
    type IntoFuture = DistinctFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let options = DistinctOptions::or_unset(self.options.as_deref());
        let namespace = self.collection.checked_namespace();
        let command = namespace.and_then(|namespace| {
            let defaults = self.collection.defaults();
            crud::distinct(namespace, &self.field, &self.filter, options, defaults)
        });
        DistinctFuture(single(
            self.collection.client(),
            self.session,
            command,
            DistinctValues,
        ))
    }
}
