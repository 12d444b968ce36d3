//! The options of writes.

use super::{ANY, Calls, MINUTE, collation, is, sends};
use bson::{Document, doc};
use onionskin::{
    Runtime,
    options::{DeleteOneModel, Hint, InsertOneModel, ReturnDocument},
};
use onionskin_core::options::WriteConcern;

pub(super) async fn writes<R: Runtime>(calls: &mut Calls<R>) {
    let things = calls.things.clone();

    sends!(calls, "insert", InsertOne: things.insert_one(doc! {}), {
        bypass_document_validation(true) => "bypassDocumentValidation" = is(true);
        comment("why") => "comment" = is("why");
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
        write_concern(WriteConcern::nodes(1)) => "writeConcern.w" = is(1);
    });
    sends!(calls, "insert", InsertMany: things.insert_many([doc! {}]), {
        bypass_document_validation(true) => "bypassDocumentValidation" = is(true);
        comment("why") => "comment" = is("why");
        ordered(false) => "ordered" = is(false);
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
        write_concern(WriteConcern::majority()) => "writeConcern.w" = is("majority");
    });
    let delete = || DeleteOneModel::builder().build();
    sends!(calls, "delete", CollectionBulkWrite: things.bulk_write([delete()]), {
        comment("why") => "comment" = is("why");
        let_vars(doc! { "a": 1 }) => "let.a" = is(1);
        ordered(false) => "ordered" = is(false);
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
        write_concern(WriteConcern::nodes(1)) => "writeConcern.w" = is(1);
    });
    let insert = || InsertOneModel::builder().build();
    sends!(calls, "insert", CollectionBulkWrite: things.bulk_write([insert()]), {
        bypass_document_validation(true) => "bypassDocumentValidation" = is(true);
    });
    sends!(calls, "update", Update: things.update_one(doc! {}, set()), {
        bypass_document_validation(true) => "bypassDocumentValidation" = is(true);
        collation(collation()) => "updates.0.collation.locale" = is("en");
        comment("why") => "comment" = is("why");
        hint(Hint::Name("a_1".into())) => "updates.0.hint" = is("a_1");
        let_vars(doc! { "a": 1 }) => "let.a" = is(1);
        sort(doc! { "a": -1 }) => "updates.0.sort.a" = is(-1);
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
        upsert(true) => "updates.0.upsert" = is(true);
        write_concern(WriteConcern::nodes(1)) => "writeConcern.w" = is(1);
    });
    let items = || things.update_one(doc! { "c": 1 }, doc! { "$set": { "c.$[x]": 3 } });
    sends!(calls, "update", Update: items(), {
        array_filters([doc! { "x": 1 }]) => "updates.0.arrayFilters.0.x" = is(1);
    });
    sends!(calls, "update", Replace: things.replace_one(doc! {}, doc! {}), {
        bypass_document_validation(true) => "bypassDocumentValidation" = is(true);
        collation(collation()) => "updates.0.collation.locale" = is("en");
        comment("why") => "comment" = is("why");
        hint(Hint::Name("a_1".into())) => "updates.0.hint" = is("a_1");
        let_vars(doc! { "a": 1 }) => "let.a" = is(1);
        sort(doc! { "a": -1 }) => "updates.0.sort.a" = is(-1);
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
        upsert(true) => "updates.0.upsert" = is(true);
        write_concern(WriteConcern::nodes(1)) => "writeConcern.w" = is(1);
    });
    sends!(calls, "delete", Delete: things.delete_one(doc! {}), {
        collation(collation()) => "deletes.0.collation.locale" = is("en");
        comment("why") => "comment" = is("why");
        hint(Hint::Name("a_1".into())) => "deletes.0.hint" = is("a_1");
        let_vars(doc! { "a": 1 }) => "let.a" = is(1);
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
        write_concern(WriteConcern::nodes(1)) => "writeConcern.w" = is(1);
    });
}

pub(super) async fn found_and_changed<R: Runtime>(calls: &mut Calls<R>) {
    let things = calls.things.clone();

    let delete = || things.find_one_and_delete(doc! {});
    sends!(calls, "findAndModify", FindOneAndDelete: delete(), {
        collation(collation()) => "collation.locale" = is("en");
        comment("why") => "comment" = is("why");
        hint(Hint::Name("a_1".into())) => "hint" = is("a_1");
        let_vars(doc! { "a": 1 }) => "let.a" = is(1);
        max_time(MINUTE) => "maxTimeMS" = is(60_000);
        projection(doc! { "a": 1 }) => "fields.a" = is(1);
        sort(doc! { "a": -1 }) => "sort.a" = is(-1);
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
        write_concern(WriteConcern::nodes(1)) => "writeConcern.w" = is(1);
    });
    let replace = || things.find_one_and_replace(doc! {}, doc! { "b": 1 });
    sends!(calls, "findAndModify", FindOneAndReplace: replace(), {
        bypass_document_validation(true) => "bypassDocumentValidation" = is(true);
        collation(collation()) => "collation.locale" = is("en");
        comment("why") => "comment" = is("why");
        hint(Hint::Name("a_1".into())) => "hint" = is("a_1");
        let_vars(doc! { "a": 1 }) => "let.a" = is(1);
        max_time(MINUTE) => "maxTimeMS" = is(60_000);
        projection(doc! { "a": 1 }) => "fields.a" = is(1);
        return_document(ReturnDocument::After) => "new" = is(true);
        sort(doc! { "a": -1 }) => "sort.a" = is(-1);
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
        upsert(true) => "upsert" = is(true);
        write_concern(WriteConcern::nodes(1)) => "writeConcern.w" = is(1);
    });
    let update = || things.find_one_and_update(doc! {}, set());
    sends!(calls, "findAndModify", FindOneAndUpdate: update(), {
        bypass_document_validation(true) => "bypassDocumentValidation" = is(true);
        collation(collation()) => "collation.locale" = is("en");
        comment("why") => "comment" = is("why");
        hint(Hint::Name("a_1".into())) => "hint" = is("a_1");
        let_vars(doc! { "a": 1 }) => "let.a" = is(1);
        max_time(MINUTE) => "maxTimeMS" = is(60_000);
        projection(doc! { "a": 1 }) => "fields.a" = is(1);
        return_document(ReturnDocument::Before) => "new" = is(false);
        sort(doc! { "a": -1 }) => "sort.a" = is(-1);
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
        upsert(true) => "upsert" = is(true);
        write_concern(WriteConcern::nodes(1)) => "writeConcern.w" = is(1);
    });
    let items = doc! { "$set": { "c.$[x]": 3 } };
    let items = || things.find_one_and_update(doc! { "c": 1 }, items.clone());
    sends!(calls, "findAndModify", FindOneAndUpdate: items(), {
        array_filters([doc! { "x": 1 }]) => "arrayFilters.0.x" = is(1);
    });
}

fn set() -> Document {
    doc! { "$set": { "b": 1 } }
}
