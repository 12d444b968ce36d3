//! Indexes, collections, commands and sessions.

use super::*;
use crate::driver::{
    bson::DateTime,
    options::{TimeseriesGranularity, TimeseriesOptions},
};

pub(super) async fn indexes(db: &Database) -> Result<()> {
    let books = db.collection::<Document>("books");
    let unique = IndexOptions::builder()
        .unique(true)
        .name("by_title".to_string())
        .build();
    let model = IndexModel::builder()
        .keys(doc! { "title": 1 })
        .options(unique)
        .build();
    let result = books.create_index(model).await?;
    println!("{}", result.index_name);
    let ttl = IndexModel::builder()
        .keys(doc! { "expires": 1 })
        .options(
            IndexOptions::builder()
                .expire_after(Duration::from_secs(3600))
                .build(),
        )
        .build();
    let plain = IndexModel::builder()
        .keys(doc! { "author": 1, "year": -1 })
        .build();
    let result = books.create_indexes(vec![ttl, plain]).await?;
    println!("{:?}", result.index_names);
    let mut names = books.list_index_names().await?;
    names.sort();
    println!("{names:?}");
    let mut indexes = books.list_indexes().await?;
    while let Some(index) = indexes.try_next().await? {
        let expires = index
            .options
            .as_ref()
            .and_then(|options| options.expire_after);
        let unique = index.options.as_ref().and_then(|options| options.unique);
        println!("{} {unique:?} {expires:?}", index.keys);
    }
    books.drop_index("author_1_year_-1").await?;
    books.drop_indexes().await?;
    println!("{:?}", books.list_index_names().await?);
    Ok(())
}

pub(super) async fn aggregations(db: &Database) -> Result<()> {
    let books = db.collection::<Document>("books");
    let pipeline = vec![
        doc! { "$match": { "author": { "$exists": true } } },
        doc! { "$group": { "_id": "$author", "books": { "$sum": 1 } } },
        doc! { "$sort": { "_id": 1 } },
    ];
    let mut cursor = books.aggregate(pipeline.clone()).await?;
    while let Some(group) = cursor.try_next().await? {
        println!("{group}");
    }

    #[derive(Debug, Deserialize)]
    struct Group {
        #[serde(rename = "_id")]
        author: String,
        books: usize,
    }
    let groups: Vec<Group> = books
        .aggregate(pipeline.clone())
        .with_type::<Group>()
        .await?
        .try_collect()
        .await?;
    for Group { author, books } in groups {
        println!("{author} {books}");
    }
    let mut cursor = books
        .aggregate(pipeline)
        .with_options(
            AggregateOptions::builder()
                .batch_size(1)
                .allow_disk_use(true)
                .build(),
        )
        .await?
        .with_type::<Group>();
    println!("{:?}", cursor.try_next().await?);
    let numbers = vec![doc! { "$documents": [{ "n": 1 }, { "n": 2 }] }];
    let numbers: Vec<Document> = db.aggregate(numbers).await?.try_collect().await?;
    println!("{numbers:?}");
    Ok(())
}

pub(super) async fn commands(client: &Client, db: &Database) -> Result<()> {
    let reply = client
        .database("admin")
        .run_command(doc! { "ping": 1 })
        .await?;
    println!("{:?}", reply.get("ok"));
    let primary = SelectionCriteria::ReadPreference(ReadPreference::Primary);
    let reply = db
        .run_command(doc! { "count": "books" })
        .selection_criteria(primary)
        .await?;
    println!("{:?}", reply.get("n"));
    let reply = db.run_raw_command(rawdoc! { "ping": 1 }).await?;
    println!("{:?}", reply.get_f64("ok"));
    let mut cursor = db
        .run_cursor_command(doc! { "find": "books", "sort": { "title": 1 }, "limit": 1 })
        .await?;
    while let Some(book) = cursor.try_next().await? {
        println!("{:?}", book.get_str("title"));
    }
    match db.run_command(doc! { "noSuchCommand": 1 }).await {
        Ok(reply) => println!("{reply}"),
        Err(error) => match *error.kind {
            ErrorKind::Command(ref failed) => println!("{} {}", failed.code, failed.code_name),
            ref other => println!("{other:?}"),
        },
    }
    Ok(())
}

pub(super) async fn collections(db: &Database) -> Result<()> {
    db.create_collection("plain").await?;
    db.create_collection("capped")
        .capped(true)
        .size(100_000)
        .max(10)
        .await?;
    let options = CreateCollectionOptions::builder()
        .validator(doc! { "n": { "$type": "int" } })
        .build();
    db.create_collection("checked")
        .with_options(options)
        .await?;
    db.create_collection("orwell")
        .view_on("books".to_string())
        .pipeline(vec![doc! { "$match": { "author": "George Orwell" } }])
        .await?;
    let mut names = db.list_collection_names().await?;
    names.sort();
    println!("{names:?}");
    let mut found = BTreeMap::new();
    let mut all = db
        .list_collections()
        .filter(doc! { "name": { "$regex": "^[^s]" } })
        .await?;
    while let Some(collection) = all.try_next().await? {
        let kind = match collection.collection_type {
            CollectionType::View => "view",
            CollectionType::Collection => "collection",
            _ => "other",
        };
        found.insert(collection.name, (kind, collection.options.capped));
    }
    println!("{found:?}");
    let filter = Some(doc! { "name": "capped" });
    let filtered = db
        .list_collection_names()
        .optional(filter, |call, filter| call.filter(filter))
        .await?;
    println!("{filtered:?}");
    println!(
        "{}",
        db.collection::<Document>("orwell")
            .count_documents(doc! {})
            .await?
    );
    db.collection::<Document>("capped").drop().await
}

pub(super) async fn time_series(db: &Database) -> Result<()> {
    let options = TimeseriesOptions::builder()
        .time_field("at")
        .meta_field("place".to_string())
        .granularity(TimeseriesGranularity::Hours)
        .build();
    println!("{:?}", options.meta_field);
    db.create_collection("weather").timeseries(options).await?;
    let weather = db.collection::<Document>("weather");
    let day = 24 * 60 * 60 * 1000;
    let at = |number: i64| DateTime::from_millis(1_700_000_000_000 + number * day);
    weather
        .insert_many([
            doc! { "at": at(0), "place": "Oslo", "degrees": 3 },
            doc! { "at": at(1), "place": "Rome", "degrees": 19 },
            doc! { "at": at(2), "place": "Oslo", "degrees": 4 },
        ])
        .await?;
    let mut cold = weather
        .find(doc! { "place": "Oslo" })
        .projection(doc! { "_id": 0 })
        .sort(doc! { "at": 1 })
        .await?;
    while let Some(measurement) = cold.try_next().await? {
        println!("{measurement}");
    }
    let filter = doc! { "name": "weather" };
    let mut series = db.list_collections().filter(filter).await?;
    while let Some(collection) = series.try_next().await? {
        println!(
            "{}",
            collection.collection_type == CollectionType::Timeseries
        );
        let options = collection.options.timeseries;
        println!("{:?}", options.map(|options| options.meta_field));
    }
    weather.drop().await
}

pub(super) async fn sessions(
    client: &Client,
    db: &Database,
    session: &mut ClientSession,
) -> Result<()> {
    let numbers = db.collection::<Document>("numbers");
    let insert: Vec<Document> = (1..=5).map(|n| doc! { "_id": n }).collect();
    numbers.insert_many(insert).session(&mut *session).await?;
    let mut cursor: SessionCursor<Document> = numbers
        .find(doc! {})
        .sort(doc! { "_id": 1 })
        .batch_size(2)
        .session(&mut *session)
        .await?;
    while let Some(number) = cursor.next(session).await.transpose()? {
        println!("{number}");
    }
    let mut cursor = numbers.find(doc! {}).session(&mut *session).await?;
    let all: Vec<Document> = cursor.stream(session).try_collect().await?;
    println!("{}", all.len());
    let copies = db.collection::<Document>("copies");
    let mut cursor = numbers
        .find(doc! { "_id": { "$lt": 3 } })
        .session(&mut *session)
        .await?;
    // The session is used between two documents.
    loop {
        let Some(number) = cursor.stream(session).try_next().await? else {
            break;
        };
        copies.insert_one(number).session(&mut *session).await?;
    }
    let mut cursor = copies
        .find(doc! {})
        .sort(doc! { "_id": 1 })
        .session(&mut *session)
        .await?;
    while cursor.advance(session).await? {
        println!("{:?}", cursor.current());
        let copy: Document = cursor.deserialize_current()?;
        println!("{copy}");
    }
    println!("{}", session.operation_time().is_some());
    println!("{}", session.cluster_time().is_some());
    println!("{}", session.id().contains_key("id"));
    let mut other = client.start_session().causal_consistency(true).await?;
    if let Some(time) = session.cluster_time() {
        other.advance_cluster_time(time);
    }
    if let Some(time) = session.operation_time() {
        other.advance_operation_time(time);
    }
    println!(
        "{}",
        numbers.count_documents(doc! {}).session(&mut other).await?
    );
    Ok(())
}

pub(super) async fn session_options(client: &Client) -> Result<()> {
    let options = SessionOptions::builder().causal_consistency(false).build();
    let session = client.start_session().with_options(options).await?;
    println!("{}", session.operation_time().is_none());
    let both = SessionOptions::builder()
        .causal_consistency(true)
        .snapshot(true)
        .build();
    match client.start_session().with_options(both).await {
        Ok(_) => println!("both options were accepted"),
        Err(error) => println!(
            "invalid argument: {}",
            matches!(*error.kind, ErrorKind::InvalidArgument { .. })
        ),
    }
    Ok(())
}

/// Fields of options can be set one by one, and options can be absent.
pub(super) async fn options_structs(db: &Database) -> Result<()> {
    let books = db.collection::<Document>("books");
    let mut options = FindOptions::default();
    options.limit = Some(1);
    options.sort = Some(doc! { "title": 1 });
    options.max_time = Some(Duration::from_secs(10));
    let found: Vec<Document> = books
        .find(doc! {})
        .with_options(options)
        .await?
        .try_collect()
        .await?;
    println!("{}", found.len());
    let absent: Option<FindOptions> = None;
    let found: Vec<Document> = books
        .find(doc! {})
        .with_options(absent)
        .await?
        .try_collect()
        .await?;
    println!("{}", found.len() > 1);
    let options = InsertManyOptions::builder().ordered(false).build();
    let result = books
        .insert_many([doc! { "_id": 60, "title": "sixty" }])
        .with_options(options)
        .await?;
    println!("{}", result.inserted_ids[&0]);
    Ok(())
}
