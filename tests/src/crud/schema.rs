//! Tests of indexes, collections and databases.

use super::{Bench, DATABASE};
use bson::{Document, doc};
use onionskin::{IndexModel, Runtime, options::IndexOptions, results::CollectionType};

pub(super) async fn indexes_are_created_listed_and_dropped<R: Runtime + Default>(b: &Bench<R>) {
    let items = b.empty::<Document>("indexes").await;
    items
        .insert_one(doc! { "_id": 1, "a": 1 })
        .await
        .expect("new");
    let unique = IndexOptions::builder().unique(true).build();
    let index = IndexModel::builder().keys(doc! { "a": 1 }).options(unique);
    let made = items.create_index(index.build()).await.expect("an index");
    assert_eq!(made.index_name, "a_1");
    let again = items.insert_one(doc! { "_id": 2, "a": 1 }).await;
    assert!(again.expect_err("it is unique").is_duplicate_key());
    let by = |keys| IndexModel::builder().keys(keys).build();
    let more = [by(doc! { "b": -1 }), by(doc! { "b": 1, "c": -1 })];
    let made = items.create_indexes(more).await.expect("indexes");
    assert_eq!(made.index_names, ["b_-1", "b_1_c_-1"]);
    let listed = items.list_indexes().await.expect("a cursor");
    let listed = listed.into_vec().await.expect("indexes");
    assert_eq!(listed.len(), 4);
    let of_a = listed.iter().find(|index| index.keys == doc! { "a": 1 });
    let options = of_a.expect("it was made").options.clone();
    assert_eq!(options.expect("it has some").unique, Some(true));
    items.drop_index("b_-1").await.expect("it is there");
    let mut names = items.list_index_names().await.expect("names");
    names.sort();
    assert_eq!(names, ["_id_", "a_1", "b_1_c_-1"]);
    items.drop_indexes().await.expect("they are there");
    assert_eq!(items.list_index_names().await.expect("names"), ["_id_"]);
    let nowhere = b
        .client
        .database(DATABASE)
        .collection::<Document>("nowhere");
    let names = nowhere.list_index_names().await.expect("no error");
    assert!(names.is_empty(), "{names:?}");
}

pub(super) async fn collections_come_and_go<R: Runtime + Default>(b: &Bench<R>) {
    let database = b.client.database("onionskin_schema");
    database.drop().await.expect("also if there is none");
    database.create_collection("made").await.expect("it is new");
    // A server accepts a second collection of the same name if its options are the same.
    let other = database.create_collection("made").capped(true).size(4096);
    let twice = other.await.expect_err("another one is there");
    twice.code().expect("the error is of the server");
    let made = database.collection::<Document>("made");
    made.insert_one(doc! { "_id": 1 }).await.expect("a reply");
    made.rename("renamed").await.expect("it is there");
    let names = database.list_collection_names().await.expect("names");
    assert_eq!(names, ["renamed"]);
    let listed = database.list_collections().await.expect("a cursor");
    let listed = listed.into_vec().await.expect("collections");
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].name, "renamed");
    assert_eq!(listed[0].collection_type, CollectionType::Collection);
    let databases = b.client.list_database_names().await.expect("names");
    assert!(
        databases.contains(&"onionskin_schema".to_owned()),
        "{databases:?}"
    );
    let all = b.client.list_databases().await.expect("databases");
    let ours = all.iter().find(|d| d.name == "onionskin_schema");
    assert!(!ours.expect("it is there").empty);
    for _ in 0..2 {
        let renamed = database.collection::<Document>("renamed");
        renamed.drop().await.expect("also if there is none");
    }
    database.drop().await.expect("also if there is none");
    let databases = b.client.list_database_names().await.expect("names");
    assert!(
        !databases.contains(&"onionskin_schema".to_owned()),
        "{databases:?}"
    );
}

pub(super) async fn many_collections_are_listed_batch_by_batch<R: Runtime + Default>(b: &Bench<R>) {
    let database = b.client.database("onionskin_many");
    database.drop().await.expect("also if there is none");
    for number in 0..7 {
        let name = format!("c{number}");
        database.create_collection(name).await.expect("it is new");
    }
    let names = database.list_collection_names().batch_size(2).await;
    let mut names = names.expect("names");
    names.sort();
    let expected: Vec<_> = (0..7).map(|number| format!("c{number}")).collect();
    assert_eq!(names, expected);
    database.drop().await.expect("a reply");
}
