//! The details of write errors and write concern errors, and generated ids.

use super::{COLLECTION, collection, insert, reply, sent, small};
use crate::scene::{any_topology, play};
use bson::{Bson, Document, doc};
use onionskin::{
    error::{ErrorKind, WriteFailure},
    options::{InsertOneModel, WriteModel},
};

/// CRUD prose 1: the details of a write concern error are its field `errInfo`.
#[test]
fn the_details_of_a_write_concern_error_are_its_err_info() {
    play(any_topology(), |scene| async move {
        let watched = scene.client("");
        let info = doc! {
            "writeConcern": { "w": 2, "wtimeout": 0, "provenance": "clientSupplied" },
        };
        let data = doc! {
            "failCommands": ["insert"],
            "writeConcernError": {
                "code": 100, "codeName": "UnsatisfiableWriteConcern",
                "errmsg": "Not enough data-bearing nodes", "errInfo": info.clone(),
            },
        };
        scene.fail(scene.primary(), doc! { "times": 1 }, data).await;
        let error = watched.things().insert_one(doc! { "x": 1 }).await;
        let error = error.expect_err("it is not confirmed");
        let ErrorKind::Write(WriteFailure::WriteConcernError(concern)) = error.kind() else {
            panic!("{error:?}");
        };
        assert_eq!(concern.code, 100);
        let details = concern.details.clone().expect("it has details");
        assert_eq!(Document::try_from(details).expect("BSON"), info);
        watched.end().await;
    });
}

/// CRUD prose 2: the details of a write error are its field `errInfo`.
#[test]
fn the_details_of_a_write_error_are_its_err_info() {
    play(any_topology(), |scene| async move {
        let watched = scene.client("");
        let database = watched.client.database("db");
        let create = database.create_collection("test");
        let create = create.validator(doc! { "x": { "$type": "string" } });
        create.await.expect("it is new");
        let test = database.collection::<Document>("test");
        let error = test.insert_one(doc! { "x": 1 }).await;
        let error = error.expect_err("it is not valid");
        let ErrorKind::Write(WriteFailure::WriteError(write)) = error.kind() else {
            panic!("{error:?}");
        };
        assert_eq!(write.code, 121);
        let details = write.details.clone().expect("it has details");
        let replies = watched.events.notes(|event| reply(event, "insert"));
        let errors = replies[0].get_array("writeErrors").expect("one error");
        let first = errors[0].as_document().expect("a document");
        let info = first.get_document("errInfo").expect("details");
        assert!(!info.is_empty());
        assert_eq!(Document::try_from(details).as_ref().ok(), Some(info));
        watched.end().await;
    });
}

/// CRUD prose 16: a generated `_id` is the first field of its document. The events have the command
/// in the form in which it is sent.
#[test]
fn a_generated_id_is_the_first_field_of_its_document() {
    play(small(), |scene| async move {
        let watched = scene.client("");
        let things = collection(&watched);
        let document = || doc! { "x": 1 };
        let model = || -> WriteModel {
            let model = InsertOneModel::builder().document(document());
            model.build().into()
        };
        things.insert_one(document()).await.expect("a reply");
        let insert_many = things.insert_many([document(), document()]);
        insert_many.await.expect("a reply");
        let bulk_write = things.bulk_write([model(), model()]);
        bulk_write.await.expect("a reply");
        let all = [
            insert(COLLECTION, document()),
            insert(COLLECTION, document()),
        ];
        watched.client.bulk_write(all).await.expect("a reply");

        let mut firsts = Vec::new();
        for insert in sent(&watched, "insert") {
            let documents = insert.command.get_array("documents").expect("documents");
            firsts.extend(documents.iter().map(first_field));
        }
        for bulk_write in sent(&watched, "bulkWrite") {
            let operations = bulk_write.command.get_array("ops").expect("operations");
            for operation in operations {
                let operation = operation.as_document().expect("a document");
                firsts.push(first_field(operation.get("document").expect("a document")));
            }
        }
        assert_eq!(firsts, ["_id"; 7]);
        watched.end().await;
    });
}

fn first_field(document: &Bson) -> String {
    let document = document.as_document().expect("a document");
    document.keys().next().expect("a field").clone()
}
