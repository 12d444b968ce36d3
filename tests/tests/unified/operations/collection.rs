//! The operations of collections, except those on indexes.

use super::{
    Answer, Arguments, Done, Failure, answer, bulk, call, changes, cursor::drained, indexes, open,
};
use bson::{Bson, Document, doc};
use onionskin::options::{
    AggregateOptions, CountOptions, DeleteOptions, DistinctOptions, EstimatedDocumentCountOptions,
    FindOneAndDeleteOptions, FindOneAndReplaceOptions, FindOneAndUpdateOptions, FindOneOptions,
    FindOptions, InsertManyOptions, InsertOneOptions, ReplaceOptions, UpdateOptions,
};
use onionskin::{Collection, Runtime, options::UpdateModifications, results::UpdateResult};

pub(super) async fn operate<R: Runtime>(
    collection: &Collection<R, Document>,
    name: &str,
    arguments: Arguments<'_, R>,
) -> Done<R> {
    match name {
        "find"
        | "createFindCursor"
        | "findOne"
        | "aggregate"
        | "countDocuments"
        | "estimatedDocumentCount"
        | "distinct" => read(collection, name, arguments).await,
        "findOneAndDelete" | "findOneAndReplace" | "findOneAndUpdate" => {
            find_and_modify(collection, name, arguments).await
        }
        "insertOne" | "insertMany" | "updateOne" | "updateMany" | "replaceOne" | "deleteOne"
        | "deleteMany" => write(collection, name, arguments).await,
        "createChangeStream" => changes::watch(collection.watch(), arguments).await,
        "bulkWrite" => bulk::of_collection(collection, arguments).await,
        _ => indexes::operate(collection, name, arguments).await,
    }
}

async fn read<R: Runtime>(
    collection: &Collection<R, Document>,
    name: &str,
    mut arguments: Arguments<'_, R>,
) -> Done<R> {
    let slot = arguments.slot()?;
    match name {
        "find" | "createFindCursor" => {
            let filter = arguments.document("filter")?;
            let options = arguments.options::<FindOptions>()?;
            let cursor = open!(collection.find(filter).with_options(options), slot);
            match name {
                "find" => drained(cursor).await,
                _ => Ok(Answer::Cursor(Box::new(cursor))),
            }
        }
        "aggregate" => {
            let pipeline = arguments.documents("pipeline")?;
            let options = arguments.options::<AggregateOptions>()?;
            drained(open!(
                collection.aggregate(pipeline).with_options(options),
                slot
            ))
            .await
        }
        _ => {
            let mut session = slot.map(|slot| slot.borrow()).transpose()?;
            match name {
                "findOne" => {
                    let filter = arguments.document("filter")?;
                    let call = collection
                        .find_one(filter)
                        .with_options(arguments.options::<FindOneOptions>()?);
                    Ok(found(call!(call, session)))
                }
                "countDocuments" => {
                    let filter = arguments.document("filter")?;
                    let call = collection.count_documents(filter);
                    answer(&call!(
                        call.with_options(arguments.options::<CountOptions>()?),
                        session
                    ))
                }
                "distinct" => {
                    let field = arguments.text("fieldName")?;
                    let filter = arguments.document("filter")?;
                    let call = collection.distinct(field, filter);
                    let values = call!(
                        call.with_options(arguments.options::<DistinctOptions>()?),
                        session
                    );
                    Ok(Answer::Value(values.into()))
                }
                _ => {
                    let call = collection.estimated_document_count();
                    answer(&call!(
                        call.with_options(arguments.options::<EstimatedDocumentCountOptions>()?),
                        session
                    ))
                }
            }
        }
    }
}

fn found<R: Runtime>(document: Option<Document>) -> Answer<R> {
    Answer::Value(document.map_or(Bson::Null, Bson::Document))
}

async fn find_and_modify<R: Runtime>(
    collection: &Collection<R, Document>,
    name: &str,
    mut arguments: Arguments<'_, R>,
) -> Done<R> {
    let mut session = arguments.session()?;
    let filter = arguments.document("filter")?;
    // The options have the names of the command's fields.
    for (own, field) in [("projection", "fields"), ("returnDocument", "new")] {
        if let Some(value) = arguments.take(own) {
            arguments.left.insert(field, value);
        }
    }
    let document = match name {
        "findOneAndDelete" => {
            let call = collection.find_one_and_delete(filter);
            call!(
                call.with_options(arguments.options::<FindOneAndDeleteOptions>()?),
                session
            )
        }
        "findOneAndReplace" => {
            let replacement = arguments.document("replacement")?;
            let call = collection.find_one_and_replace(filter, replacement);
            call!(
                call.with_options(arguments.options::<FindOneAndReplaceOptions>()?),
                session
            )
        }
        _ => {
            let update: UpdateModifications = arguments.read("update")?;
            let call = collection.find_one_and_update(filter, update);
            call!(
                call.with_options(arguments.options::<FindOneAndUpdateOptions>()?),
                session
            )
        }
    };
    Ok(found(document))
}

async fn write<R: Runtime>(
    collection: &Collection<R, Document>,
    name: &str,
    mut arguments: Arguments<'_, R>,
) -> Done<R> {
    let mut session = arguments.session()?;
    match name {
        "insertOne" => {
            let document = arguments.document("document")?;
            let call = collection
                .insert_one(document)
                .with_options(arguments.options::<InsertOneOptions>()?);
            answer(&call!(call, session))
        }
        "insertMany" => {
            let documents = arguments.documents("documents")?;
            let call = collection
                .insert_many(&documents)
                .with_options(arguments.options::<InsertManyOptions>()?);
            let ids = call!(call, session).inserted_ids;
            let ids = ids.into_iter().map(|(index, id)| (index.to_string(), id));
            Ok(Answer::Value(
                doc! { "insertedIds": ids.collect::<Document>() }.into(),
            ))
        }
        _ => {
            let filter = arguments.document("filter")?;
            match name {
                "deleteOne" => {
                    let call = collection
                        .delete_one(filter)
                        .with_options(arguments.options::<DeleteOptions>()?);
                    answer(&call!(call, session))
                }
                "deleteMany" => {
                    let call = collection
                        .delete_many(filter)
                        .with_options(arguments.options::<DeleteOptions>()?);
                    answer(&call!(call, session))
                }
                "replaceOne" => {
                    let replacement = arguments.document("replacement")?;
                    let call = collection.replace_one(filter, replacement);
                    updated(&call!(
                        call.with_options(arguments.options::<ReplaceOptions>()?),
                        session
                    ))
                }
                _ => {
                    let update: UpdateModifications = arguments.read("update")?;
                    let call = match name {
                        "updateOne" => collection.update_one(filter, update),
                        _ => collection.update_many(filter, update),
                    };
                    updated(&call!(
                        call.with_options(arguments.options::<UpdateOptions>()?),
                        session
                    ))
                }
            }
        }
    }
}

/// Returns the result of an update, with the count that the format has and the driver has not.
fn updated<R: Runtime>(result: &UpdateResult) -> Result<Answer<R>, Failure> {
    Ok(Answer::Value(update_result(result).into()))
}

pub(super) fn update_result(result: &UpdateResult) -> Document {
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let mut fields = doc! {
        "matchedCount": count(result.matched_count),
        "modifiedCount": count(result.modified_count),
        "upsertedCount": i64::from(result.upserted_id.is_some()),
    };
    if let Some(id) = &result.upserted_id {
        fields.insert("upsertedId", id.clone());
    }
    fields
}
