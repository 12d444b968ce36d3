//! The operations of collections on indexes, and on themselves.

use super::{Answer, Arguments, Done, Failure, answer, call, cursor::drained, open, unknown};
use bson::{Bson, Document};
use onionskin::options::{
    AggregateOptions, CreateSearchIndexOptions, DropCollectionOptions, DropIndexOptions,
    DropSearchIndexOptions, ListIndexesOptions, RenameCollectionOptions, UpdateSearchIndexOptions,
};
use onionskin::{
    Collection, IndexModel, Runtime, SearchIndexModel,
    options::{CreateIndexOptions, IndexOptions},
};

pub(super) async fn operate<R: Runtime>(
    collection: &Collection<R, Document>,
    name: &str,
    mut arguments: Arguments<'_, R>,
) -> Done<R> {
    match name {
        "createIndex" => {
            let mut session = arguments.session()?;
            let keys = arguments.document("keys")?;
            let (options, own) = split(arguments.left)?;
            let index = IndexModel::builder().keys(keys).options(options).build();
            let call = collection.create_index(index).with_options(own);
            Ok(Answer::Value(call!(call, session).index_name.into()))
        }
        "dropIndex" => {
            let mut session = arguments.session()?;
            let index = arguments.text("name")?;
            let call = collection
                .drop_index(index)
                .with_options(arguments.options::<DropIndexOptions>()?);
            call!(call, session);
            Ok(Answer::Nothing)
        }
        "dropIndexes" => {
            let mut session = arguments.session()?;
            let call = collection
                .drop_indexes()
                .with_options(arguments.options::<DropIndexOptions>()?);
            call!(call, session);
            Ok(Answer::Nothing)
        }
        "listIndexes" => {
            let slot = arguments.slot()?;
            let call = collection
                .list_indexes()
                .with_options(arguments.options::<ListIndexesOptions>()?);
            let found: Vec<IndexModel> = match slot {
                None => call.await?.into_vec().await?,
                Some(slot) => {
                    let mut borrowed = slot.borrow()?;
                    let mut cursor = call.session(borrowed.session()).await?;
                    let mut found = Vec::new();
                    while let Some(one) = cursor.next(borrowed.session()).await {
                        found.push(one?);
                    }
                    found
                }
            };
            answer(&found)
        }
        "listIndexNames" => {
            let mut session = arguments.session()?;
            let call = collection
                .list_index_names()
                .with_options(arguments.options::<ListIndexesOptions>()?);
            answer(&call!(call, session))
        }
        _ => whole(collection, name, arguments).await,
    }
}

/// Renames or drops the collection.
async fn whole<R: Runtime>(
    collection: &Collection<R, Document>,
    name: &str,
    mut arguments: Arguments<'_, R>,
) -> Done<R> {
    match name {
        "rename" => {
            let mut session = arguments.session()?;
            let to = arguments.text("to")?;
            let call = collection
                .rename(to)
                .with_options(arguments.options::<RenameCollectionOptions>()?);
            call!(call, session);
            Ok(Answer::Nothing)
        }
        "drop" => {
            let mut session = arguments.session()?;
            call!(
                collection
                    .drop()
                    .with_options(arguments.options::<DropCollectionOptions>()?),
                session
            );
            Ok(Answer::Nothing)
        }
        _ => search(collection, name, arguments).await,
    }
}

/// Returns options of an index and those of the call that creates it.
fn split(options: Document) -> Result<(IndexOptions, CreateIndexOptions), Failure> {
    let text = |error: bson::error::Error| error.to_string();
    let of_index: IndexOptions = bson::deserialize_from_document(options.clone()).map_err(text)?;
    let own: CreateIndexOptions = bson::deserialize_from_document(options.clone()).map_err(text)?;
    let mut known = bson::serialize_to_document(&of_index).map_err(text)?;
    known.extend(bson::serialize_to_document(&own).map_err(text)?);
    match options.keys().find(|key| !known.contains_key(key)) {
        None => Ok((of_index, own)),
        Some(key) => Err(Failure::Runner(format!("there is no option {key}"))),
    }
}

async fn search<R: Runtime>(
    collection: &Collection<R, Document>,
    name: &str,
    mut arguments: Arguments<'_, R>,
) -> Done<R> {
    match name {
        "createSearchIndex" => {
            let model: SearchIndexModel = arguments.read("model")?;
            let call = collection
                .create_search_index(model)
                .with_options(arguments.options::<CreateSearchIndexOptions>()?);
            Ok(Answer::Value(call.await?.into()))
        }
        "createSearchIndexes" => {
            let models: Vec<SearchIndexModel> = arguments.read("models")?;
            let call = collection.create_search_indexes(models);
            answer(
                &call
                    .with_options(arguments.options::<CreateSearchIndexOptions>()?)
                    .await?,
            )
        }
        "updateSearchIndex" => {
            let index = arguments.text("name")?;
            let definition = arguments.document("definition")?;
            let call = collection.update_search_index(index, definition);
            call.with_options(arguments.options::<UpdateSearchIndexOptions>()?)
                .await?;
            Ok(Answer::Nothing)
        }
        "dropSearchIndex" => {
            let index = arguments.text("name")?;
            let call = collection
                .drop_search_index(index)
                .with_options(arguments.options::<DropSearchIndexOptions>()?);
            call.await?;
            Ok(Answer::Nothing)
        }
        "listSearchIndexes" => {
            let slot = arguments.slot()?;
            let mut call = collection.list_search_indexes();
            if let Some(Bson::String(name)) = arguments.take("name") {
                call = call.name(name);
            }
            if let Some(options) = arguments.take("aggregationOptions") {
                let options = bson::deserialize_from_bson::<AggregateOptions>(options);
                call = call.aggregate_options(options.map_err(|error| error.to_string())?);
            }
            arguments.end()?;
            drained(open!(call, slot)).await
        }
        _ => unknown("a collection", name),
    }
}
