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
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// use onionskin::options::{Collation, Hint, ReadConcern, ReadPreference};
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// // Those after the first page, for a text such as "1,000 or more further results".
    /// let results = people
    ///     .count_documents(doc! { "city": "Berlin" })
    ///     .skip(10)
    ///     .limit(1_000)
    ///     .collation(Collation::builder().locale("de").build())
    ///     .hint(Hint::from("city_1"))
    ///     .comment("search")
    ///     .max_time(Duration::from_secs(1))
    ///     .await?;
    /// let all = people
    ///     .count_documents(doc! {})
    ///     .selection_criteria(ReadPreference::secondary_preferred(None).into())
    ///     .read_concern(ReadConcern::majority())
    ///     .raw_data(false)
    ///     .timeout(Duration::from_secs(10))
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
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
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::Document};
    /// use onionskin::options::{ReadConcern, ReadPreference};
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let about = people
    ///     .estimated_document_count()
    ///     .selection_criteria(ReadPreference::nearest(None).into())
    ///     .read_concern(ReadConcern::local())
    ///     .comment("dashboard")
    ///     .max_time(Duration::from_secs(1))
    ///     .raw_data(false)
    ///     .await?;
    /// let about = people.estimated_document_count().timeout(Duration::from_secs(1)).await?;
    /// # Ok(())
    /// # }
    /// ```
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
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// use onionskin::options::{Collation, CollationStrength, Hint, ReadConcern, ReadPreference};
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// // "Paris" and "PARIS" are one value.
    /// let without_case =
    ///     Collation::builder().locale("fr").strength(CollationStrength::Secondary).build();
    /// let cities = people
    ///     .distinct("city", doc! { "country": "FR" })
    ///     .collation(without_case)
    ///     .hint(Hint::from("country_1_city_1"))
    ///     .comment("list of cities")
    ///     .max_time(Duration::from_secs(1))
    ///     .await?;
    /// let countries = people
    ///     .distinct("country", doc! {})
    ///     .selection_criteria(ReadPreference::secondary_preferred(None).into())
    ///     .read_concern(ReadConcern::majority())
    ///     .raw_data(false)
    ///     .timeout(Duration::from_secs(5))
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
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
