//! The options of the operations of bulk writes.

use super::{Calls, is, sends, sessions::set};
use bson::{Bson, doc};
use onionskin::{
    Runtime,
    options::{DeleteManyModel, DeleteOneModel, ReplaceOneModel, UpdateManyModel, UpdateOneModel},
};
use onionskin_core::operation::crud::{
    DeleteManyModelBuilder, DeleteOneModelBuilder, ReplaceOneModelBuilder, UpdateManyModelBuilder,
    UpdateOneModelBuilder,
};

/// Makes a bulk write of a collection with each option. That of a client writes the options with
/// the same code.
pub(super) async fn models<R: Runtime>(calls: &mut Calls<R>) {
    let things = calls.things.clone();
    let collation = || doc! { "locale": "en" };
    let hint = || Bson::from("a_1");
    let filters = || vec![Bson::from(doc! { "x": 1 })];
    let lists = || doc! { "c": [1, 2] };
    let items = || doc! { "$set": { "c.$[x]": 3 } };
    let new = UpdateOneModel::builder;
    let write = async |model: UpdateOneModelBuilder| things.bulk_write([model.build()]).await;
    sends!(calls, "update", UpdateOneModel: new().update(set()), with write, {
        collation(collation()) => "updates.0.collation.locale" = is("en");
        hint(hint()) => "updates.0.hint" = is("a_1");
        sort(doc! { "a": -1 }) => "updates.0.sort.a" = is(-1);
        upsert(true) => "updates.0.upsert" = is(true);
    });
    sends!(calls, "update", UpdateOneModel: new().filter(lists()).update(items()), with write, {
        array_filters(filters()) => "updates.0.arrayFilters.0.x" = is(1);
    });
    let new = UpdateManyModel::builder;
    let write = async |model: UpdateManyModelBuilder| things.bulk_write([model.build()]).await;
    sends!(calls, "update", UpdateManyModel: new().update(set()), with write, {
        collation(collation()) => "updates.0.collation.locale" = is("en");
        hint(hint()) => "updates.0.hint" = is("a_1");
        upsert(true) => "updates.0.upsert" = is(true);
    });
    sends!(calls, "update", UpdateManyModel: new().filter(lists()).update(items()), with write, {
        array_filters(filters()) => "updates.0.arrayFilters.0.x" = is(1);
    });
    let write = async |model: ReplaceOneModelBuilder| things.bulk_write([model.build()]).await;
    sends!(calls, "update", ReplaceOneModel: ReplaceOneModel::builder(), with write, {
        collation(collation()) => "updates.0.collation.locale" = is("en");
        hint(hint()) => "updates.0.hint" = is("a_1");
        sort(doc! { "a": -1 }) => "updates.0.sort.a" = is(-1);
        upsert(true) => "updates.0.upsert" = is(true);
    });
    let write = async |model: DeleteOneModelBuilder| things.bulk_write([model.build()]).await;
    sends!(calls, "delete", DeleteOneModel: DeleteOneModel::builder(), with write, {
        collation(collation()) => "deletes.0.collation.locale" = is("en");
        hint(hint()) => "deletes.0.hint" = is("a_1");
    });
    let write = async |model: DeleteManyModelBuilder| things.bulk_write([model.build()]).await;
    sends!(calls, "delete", DeleteManyModel: DeleteManyModel::builder(), with write, {
        collation(collation()) => "deletes.0.collation.locale" = is("en");
        hint(hint()) => "deletes.0.hint" = is("a_1");
    });
}
