//! Bulk writes of clients and of collections.

use super::{Answer, Arguments, Done, Failure, call, collection::update_result};
use bson::{Bson, Document, doc};
use onionskin::{
    Client, Collection, Namespace, Runtime,
    options::{
        BulkWriteOptions, DeleteManyModel, DeleteOneModel, InsertOneModel, ReplaceOneModel,
        UpdateManyModel, UpdateOneModel, WriteModel,
    },
    results::{BulkWriteResult, SummaryBulkWriteResult, VerboseBulkWriteResult},
};

pub(super) async fn of_client<R: Runtime>(
    client: &Client<R>,
    mut arguments: Arguments<'_, R>,
) -> Done<R> {
    let mut session = arguments.session()?;
    let models = models(&arguments.documents("models")?, None)?;
    let is_verbose = arguments.take("verboseResults") == Some(Bson::Boolean(true));
    let options: BulkWriteOptions = arguments.options()?;
    let call = client.bulk_write(models).with_options(options);
    let result = if is_verbose {
        verbose(&call!(call.verbose_results(), session))
    } else {
        summary(&call!(call, session))
    };
    Ok(Answer::Value(result.into()))
}

pub(super) async fn of_collection<R: Runtime>(
    collection: &Collection<R, Document>,
    mut arguments: Arguments<'_, R>,
) -> Done<R> {
    let mut session = arguments.session()?;
    let models = models(
        &arguments.documents("requests")?,
        Some(collection.namespace()),
    )?;
    let options: BulkWriteOptions = arguments.options()?;
    let call = collection.bulk_write(models).with_options(options);
    Ok(Answer::Value(
        of_collection_result(&call!(call, session)).into(),
    ))
}

/// Returns the operations of a bulk write. Those of a client have a namespace each.
fn models(operations: &[Document], of: Option<Namespace>) -> Result<Vec<WriteModel>, Failure> {
    let models = operations.iter().map(|operation| {
        let (kind, fields) = operation.iter().next().ok_or("an operation is empty")?;
        let mut fields = fields
            .as_document()
            .ok_or("an operation is no document")?
            .clone();
        let namespace = match (&of, fields.remove("namespace")) {
            (Some(namespace), None) => namespace.clone(),
            (None, Some(Bson::String(text))) => {
                let (database, name) = text.split_once('.').ok_or("a namespace without a dot")?;
                Namespace::new(database, name)
            }
            (_, other) => return Err(format!("the namespace is {other:?}")),
        };
        model(kind, namespace, fields)
    });
    Ok(models.collect::<Result<_, String>>()?)
}

fn model(kind: &str, namespace: Namespace, mut fields: Document) -> Result<WriteModel, String> {
    macro_rules! options {
        ($model:expr; $($key:literal $option:ident $read:ident,)*) => {{
            let mut model = $model;
            model.namespace = namespace;
            $(model.$option = fields.remove($key).map($read).transpose()?;)*
            if let Some(key) = fields.keys().next() {
                return Err(format!("{kind} has no field {key}"));
            }
            Ok::<_, String>(WriteModel::from(model))
        }};
    }
    let mut filter = || document(fields.remove("filter").unwrap_or(Bson::Null));
    match kind {
        "insertOne" => {
            let document = document(fields.remove("document").unwrap_or(Bson::Null))?;
            options!(InsertOneModel::builder().document(document).build();)
        }
        "updateOne" => {
            let model = UpdateOneModel::builder().filter(filter()?);
            let update = fields.remove("update").unwrap_or(Bson::Null);
            let update =
                bson::deserialize_from_bson::<onionskin::options::UpdateModifications>(update);
            let model = model
                .update(update.map_err(|error| error.to_string())?)
                .build();
            options!(model; "arrayFilters" array_filters array, "collation" collation document,
                "hint" hint any, "upsert" upsert boolean, "sort" sort document,)
        }
        "updateMany" => {
            let model = UpdateManyModel::builder().filter(filter()?);
            let update = fields.remove("update").unwrap_or(Bson::Null);
            let update =
                bson::deserialize_from_bson::<onionskin::options::UpdateModifications>(update);
            let model = model
                .update(update.map_err(|error| error.to_string())?)
                .build();
            options!(model; "arrayFilters" array_filters array, "collation" collation document,
                "hint" hint any, "upsert" upsert boolean,)
        }
        "replaceOne" => {
            let model = ReplaceOneModel::builder().filter(filter()?);
            let replacement = document(fields.remove("replacement").unwrap_or(Bson::Null))?;
            options!(model.replacement(replacement).build(); "collation" collation document,
                "hint" hint any, "upsert" upsert boolean, "sort" sort document,)
        }
        "deleteOne" => options!(DeleteOneModel::builder().filter(filter()?).build();
            "collation" collation document, "hint" hint any,),
        "deleteMany" => options!(DeleteManyModel::builder().filter(filter()?).build();
            "collation" collation document, "hint" hint any,),
        other => Err(format!("there is no operation {other} in a bulk write")),
    }
}

fn document(value: Bson) -> Result<Document, String> {
    match value {
        Bson::Document(document) => Ok(document),
        other => Err(format!("{other} is no document")),
    }
}

fn any(value: Bson) -> Result<Bson, String> {
    Ok(value)
}

fn array(value: Bson) -> Result<bson::Array, String> {
    match value {
        Bson::Array(array) => Ok(array),
        other => Err(format!("{other} is no array")),
    }
}

fn boolean(value: Bson) -> Result<bool, String> {
    value
        .as_bool()
        .ok_or_else(|| format!("{value} is no boolean"))
}

/// Returns the counts of a client's bulk write in the form of the tests.
pub(crate) fn summary(result: &SummaryBulkWriteResult) -> Document {
    doc! {
        "insertedCount": result.inserted_count,
        "upsertedCount": result.upserted_count,
        "matchedCount": result.matched_count,
        "modifiedCount": result.modified_count,
        "deletedCount": result.deleted_count,
    }
}

/// Returns the results of a client's bulk write in the form of the tests.
pub(crate) fn verbose(result: &VerboseBulkWriteResult) -> Document {
    let mut fields = summary(&result.summary);
    let inserts = result.insert_results.iter();
    let inserts =
        inserts.map(|(i, r)| (i.to_string(), doc! { "insertedId": &r.inserted_id }.into()));
    fields.insert("insertResults", inserts.collect::<Document>());
    let updates = result.update_results.iter().map(|(index, result)| {
        let mut fields = update_result(result);
        fields.remove("upsertedCount");
        (index.to_string(), fields.into())
    });
    fields.insert("updateResults", updates.collect::<Document>());
    let deletes = result.delete_results.iter().map(|(index, result)| {
        let count = i64::try_from(result.deleted_count).unwrap_or(i64::MAX);
        (index.to_string(), doc! { "deletedCount": count }.into())
    });
    fields.insert("deleteResults", deletes.collect::<Document>());
    fields
}

/// Returns the results of a collection's bulk write in the form of the tests.
pub(crate) fn of_collection_result(result: &BulkWriteResult) -> Document {
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let ids = |ids: &std::collections::BTreeMap<usize, Bson>| -> Document {
        ids.iter()
            .map(|(index, id)| (index.to_string(), id.clone()))
            .collect()
    };
    doc! {
        "insertedCount": count(result.inserted_count),
        "insertedIds": ids(&result.inserted_ids),
        "matchedCount": count(result.matched_count),
        "modifiedCount": count(result.modified_count),
        "deletedCount": count(result.deleted_count),
        "upsertedCount": count(result.upserted_count),
        "upsertedIds": ids(&result.upserted_ids),
    }
}
