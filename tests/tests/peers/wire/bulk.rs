//! The bulk writes and the unacknowledged writes of the scene `options`.

use super::{
    calls::{Things, calls, filter, set, variables},
    options::{filters, items, none},
};
use bson::{Bson, Document, doc};
use onionskin_tokio::{
    Client, Database,
    error::Result,
    options::{
        Acknowledgment, CollectionOptions, DeleteManyModel, DeleteOneModel, InsertOneModel,
        ReplaceOneModel, UpdateManyModel, UpdateOneModel, WriteConcern, WriteModel,
        builders::DeleteOneModelBuilder,
    },
};

fn models() -> Vec<WriteModel> {
    let folded = || doc! { "locale": "en", "strength": 2 };
    let filters = || filters().map(Bson::from).to_vec();
    let hint = || Bson::from("a_1");
    let update = || UpdateOneModel::builder().filter(none());
    let many = UpdateManyModel::builder().filter(none()).update(items());
    let replace = ReplaceOneModel::builder()
        .filter(none())
        .replacement(filter());
    let delete = DeleteOneModel::builder().filter(none()).hint(hint());
    let delete_many = DeleteManyModel::builder().filter(none()).hint(hint());
    let filtered = update().update(items()).array_filters(filters());
    vec![
        InsertOneModel::builder()
            .document(doc! { "_id": 10 })
            .build()
            .into(),
        filtered.collation(folded()).sort(filter()).build().into(),
        update().update(set()).hint(hint()).build().into(),
        many.array_filters(filters())
            .collation(folded())
            .build()
            .into(),
        replace
            .hint(hint())
            .collation(folded())
            .sort(filter())
            .build()
            .into(),
        delete.collation(folded()).build().into(),
        delete_many.build().into(),
    ]
}

fn models_of_a_client(things: &Things) -> Vec<WriteModel> {
    let folded = || doc! { "locale": "en", "strength": 2 };
    let filters = || filters().map(Bson::from).to_vec();
    let hint = || Bson::from("a_1");
    let place = || things.namespace();
    let insert = InsertOneModel::builder().namespace(place());
    let update = || UpdateOneModel::builder().namespace(place()).filter(none());
    let many = UpdateManyModel::builder().namespace(place()).filter(none());
    let many = many
        .update(items())
        .array_filters(filters())
        .collation(folded());
    let replace = ReplaceOneModel::builder().namespace(place()).filter(none());
    let replace = replace.replacement(filter()).hint(hint());
    let filtered = update().update(items()).array_filters(filters());
    let delete_many = DeleteManyModel::builder().namespace(place()).filter(none());
    vec![
        insert.document(doc! { "_id": 11 }).build().into(),
        filtered.collation(folded()).sort(filter()).build().into(),
        update()
            .update(vec![set()])
            .hint(hint())
            .upsert(false)
            .build()
            .into(),
        many.hint(hint()).build().into(),
        replace.collation(folded()).sort(filter()).build().into(),
        delete_one(things, none())
            .hint(hint())
            .collation(folded())
            .build()
            .into(),
        delete_many.hint(hint()).build().into(),
    ]
}

fn delete_one(things: &Things, filter: Document) -> DeleteOneModelBuilder {
    DeleteOneModel::builder()
        .namespace(things.namespace())
        .filter(filter)
}

pub(super) async fn bulk_writes(client: &Client, things: &Things) -> Result<()> {
    let delete = |id: i32| DeleteOneModel::builder().filter(doc! { "_id": id }).build();
    let insert = InsertOneModel::builder()
        .document(doc! { "_id": 12 })
        .build();
    let unordered: [WriteModel; 3] = [delete(10).into(), insert.into(), delete(12).into()];
    calls! { client,
        "bulk_write in order": things
            .bulk_write(models())
            .bypass_document_validation(true)
            .await?;
        "bulk_write in any order": things.bulk_write(unordered).ordered(false).await?;
        "bulk_write of a client with options": client
            .bulk_write(models_of_a_client(things))
            .bypass_document_validation(true)
            .let_vars(variables())
            .write_concern(WriteConcern::majority())
            .await?;
        "bulk_write of a client in any order": client
            .bulk_write([delete_one(things, doc! { "_id": 11 }).build()])
            .ordered(false)
            .await?;
    }
    Ok(())
}

pub(super) async fn unacknowledged(client: &Client, db: &Database) -> Result<()> {
    let zero = WriteConcern::builder().w(Acknowledgment::Nodes(0)).build();
    let options = CollectionOptions::builder().write_concern(zero.clone());
    let silent: Things = db.collection_with_options("things", options.build());
    let set = || doc! { "$set": { "b": 2 } };
    let delete = DeleteOneModel::builder().filter(none()).build();
    calls! { client,
        "insert_many unacknowledged": silent.insert_many([doc! { "_id": 21 }]).await?;
        "update_one unacknowledged": silent.update_one(none(), set()).await?;
        "replace_one unacknowledged": silent.replace_one(none(), filter()).await?;
        "delete_many unacknowledged": silent.delete_many(none()).await?;
        "bulk_write unacknowledged": silent.bulk_write([delete]).await?;
        "bulk_write of a client unacknowledged": client
            .bulk_write([delete_one(&silent, none()).build()])
            .ordered(false)
            .write_concern(zero)
            .await?;
    }
    Ok(())
}
