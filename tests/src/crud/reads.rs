//! Tests of queries, pipelines and counts.

use super::{Bench, DATABASE};
use bson::{Bson, DateTime, Document, Timestamp, doc, oid::ObjectId};
use onionskin::{Collection, Runtime, error::ErrorKind};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Person {
    #[serde(rename = "_id")]
    id: ObjectId,
    name: String,
    born: i32,
    height_metres: f64,
    nickname: Option<String>,
    addresses: Vec<Address>,
    seen: DateTime,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Address {
    street: String,
    number: i64,
}

pub(super) async fn find_one_gives_the_document_or_none<R: Runtime + Default>(b: &Bench<R>) {
    let items = b.empty::<Document>("find_one").await;
    assert_eq!(items.find_one(doc! {}).await, Ok(None));
    let document = doc! {
        "_id": 1, "nested": { "list": [1, "two", 3.5, Bson::Null, true] }, "long": i64::MAX,
        "when": DateTime::from_millis(1_700_000_000_123), "id": ObjectId::new(),
    };
    items.insert_one(&document).await.expect("inserts");
    let found = items.find_one(doc! { "nested.list": "two" }).await;
    assert_eq!(found, Ok(Some(document)));
    assert_eq!(items.find_one(doc! { "_id": 2 }).await, Ok(None));
}

pub(super) async fn pipelines_are_run_and_read_as_any_type<R: Runtime + Default>(b: &Bench<R>) {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Group {
        #[serde(rename = "_id")]
        tens: i32,
        count: i32,
    }

    let items = numbered(b, "pipelines", 35).await;
    let pipeline = || {
        [
            doc! { "$match": { "_id": { "$gte": 5 } } },
            doc! { "$group": { "_id": "$tens", "count": { "$sum": 1 } } },
            doc! { "$sort": { "_id": 1 } },
        ]
    };
    let found = items.aggregate(pipeline()).batch_size(3);
    let found = found.await.expect("runs").into_vec().await;
    let expected = (0..).zip([5, 10, 10, 5]);
    let documents = expected.clone();
    let documents = documents.map(|(tens, count)| doc! { "_id": tens, "count": count });
    assert_eq!(found, Ok(documents.collect()));
    let typed = items.aggregate(pipeline()).with_type::<Group>();
    let found = typed.await.expect("runs").into_vec().await;
    let groups = expected.map(|(tens, count)| Group { tens, count });
    assert_eq!(found, Ok(groups.collect()));
    let wrong = items.aggregate([doc! { "$nonsense": 1 }]).await;
    assert!(wrong.is_err(), "the server refuses it");
}

async fn numbered<R: Runtime + Default>(b: &Bench<R>, case: &str, count: i32) -> Numbered<R> {
    let items = b.empty::<Document>(case).await;
    let documents = (0..count).map(|n| doc! { "_id": n, "tens": n / 10, "text": format!("t{n}") });
    items.insert_many(documents).await.expect("inserts");
    items
}

type Numbered<R> = Collection<R, Document>;

pub(super) async fn results_are_sorted_skipped_limited_and_projected<R>(b: &Bench<R>)
where
    R: Runtime + Default,
{
    let items = numbered(b, "shaped", 40).await;
    let found = items
        .find(doc! { "tens": { "$lt": 3 } })
        .sort(doc! { "tens": 1, "_id": -1 })
        .skip(8)
        .limit(4)
        .projection(doc! { "tens": 1 });
    let found = found.await.expect("finds").into_vec().await;
    let expected = [(1, 0), (0, 0), (19, 1), (18, 1)];
    let expected = expected.map(|(id, tens)| doc! { "_id": id, "tens": tens });
    assert_eq!(found, Ok(expected.to_vec()));

    let without = items
        .find(doc! { "_id": 7 })
        .projection(doc! { "_id": 0, "text": 1 });
    let without = without.await.expect("finds").into_vec().await;
    assert_eq!(without, Ok(vec![doc! { "text": "t7" }]));
}

pub(super) async fn documents_are_counted<R: Runtime + Default>(b: &Bench<R>) {
    let items = numbered(b, "counted", 25).await;
    assert_eq!(items.count_documents(doc! {}).await, Ok(25));
    assert_eq!(items.count_documents(doc! { "tens": 2 }).await, Ok(5));
    assert_eq!(items.count_documents(doc! { "tens": 9 }).await, Ok(0));
    let absent = b.empty::<Document>("never_written").await;
    assert_eq!(absent.count_documents(doc! {}).await, Ok(0));
}

pub(super) async fn typed_documents_keep_their_shape<R: Runtime + Default>(b: &Bench<R>) {
    let people = b.empty::<Person>("people").await;
    let person = |name: &str, born| Person {
        id: ObjectId::new(),
        name: name.to_owned(),
        born,
        height_metres: 1.625,
        nickname: (born % 2 == 0).then(|| name.to_lowercase()),
        addresses: vec![Address {
            street: "Rue d’Été".to_owned(),
            number: i64::from(born),
        }],
        seen: DateTime::from_millis(1_700_000_000_001),
    };
    let (ada, grace) = (person("Ada", 1815), person("Grace", 1906));
    let result = people.insert_many([&ada, &grace]).await.expect("inserts");
    assert_eq!(result.inserted_ids[&1], Bson::from(grace.id));
    let found = people.find_one(doc! { "name": "Ada" }).await;
    assert_eq!(found, Ok(Some(ada.clone())));
    let all = people.find(doc! {}).sort(doc! { "born": 1 }).await;
    let all = all.expect("finds").into_vec().await;
    assert_eq!(all, Ok(vec![ada, grace]));
    let names = people.clone_with_type::<Document>();
    let nickname = names.find_one(doc! { "nickname": "grace" }).await;
    assert!(nickname.expect("finds").is_some());
}

pub(super) async fn a_document_of_another_type_is_an_error_of_its_own<R>(b: &Bench<R>)
where
    R: Runtime + Default,
{
    let items = b.empty::<Document>("mixed").await;
    let stamp = Timestamp {
        time: 1,
        increment: 2,
    };
    items
        .insert_one(doc! { "_id": 1, "other": stamp })
        .await
        .expect("inserts");
    let people = items.clone_with_type::<Person>();
    let mut cursor = people.find(doc! {}).await.expect("finds");
    let of_cursor = cursor.next().await.expect("one");
    let of_find_one = people.find_one(doc! {}).await.map(|_| ());
    let namespace = format!("{DATABASE}.{}", items.name());
    for result in [of_cursor.map(|_| ()), of_find_one] {
        let error = result.expect_err("is no person");
        assert!(matches!(error.kind(), ErrorKind::Bson(_)), "{error:?}");
        assert_eq!(error.namespace(), Some(&*namespace));
        assert!(error.to_string().contains(&namespace), "{error}");
    }
    assert!(cursor.next().await.is_none());
    // The error concerns the document alone, so the connection still works.
    assert_eq!(items.count_documents(doc! { "_id": 1 }).await, Ok(1));
}
