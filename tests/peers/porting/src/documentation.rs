//! The calls that the documentation of the official driver shows, on tokio.

use crate::driver::{
    Client, ClientSession, Collection, Cursor, Database, IndexModel, Namespace, SessionCursor,
    action::Action,
    bson::{self, Bson, Document, doc, oid::ObjectId, rawdoc},
    error::{Error, ErrorKind, Result},
    event::{EventHandler, cmap::CmapEvent, command::CommandEvent, sdam::SdamEvent},
    options::{
        Acknowledgment, AggregateOptions, ClientOptions, Collation, CollationStrength,
        CollectionOptions, CountOptions, CreateCollectionOptions, CursorType, DatabaseOptions,
        DeleteOptions, FindOneAndUpdateOptions, FindOneOptions, FindOptions, Hint, IndexOptions,
        InsertManyOptions, ReadConcern, ReadPreference, ReadPreferenceOptions, ReturnDocument,
        SelectionCriteria, ServerAddress, ServerApi, ServerApiVersion, SessionOptions, TagSet,
        UpdateModifications, UpdateOptions, WriteConcern,
    },
    results::{CollectionType, DeleteResult, InsertManyResult, InsertOneResult, UpdateResult},
};
use crate::driver::{
    error::{RETRYABLE_WRITE_ERROR, WriteError, WriteFailure},
    event::command::{CommandFailedEvent, CommandStartedEvent, CommandSucceededEvent},
};
use futures::stream::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Book {
    #[serde(rename = "_id", skip_serializing_if = "Option::is_none")]
    id: Option<ObjectId>,
    title: String,
    author: String,
    year: i32,
}

impl Book {
    fn new(title: &str, author: &str, year: i32) -> Self {
        Self {
            id: None,
            title: title.to_owned(),
            author: author.to_owned(),
            year,
        }
    }
}

#[derive(Debug, Deserialize)]
struct Title<'a> {
    #[serde(borrow)]
    title: &'a str,
}

pub async fn run(uri: &str) -> Result<()> {
    client_options(uri).await?;
    let client = Client::with_uri_str(uri).await?;
    let db = client.database("porting_documentation");
    db.drop().await?;
    handles(&client, &db)?;
    inserts(&db).await?;
    finds(&db).await?;
    cursors(&db).await?;
    lending_cursors(&db).await?;
    raw_batches(&db).await?;
    typed_collections(&db).await?;
    updates(&db).await?;
    deletes(&db).await?;
    find_and_modify(&db).await?;
    counts(&db).await?;
    indexes(&db).await?;
    aggregations(&db).await?;
    commands(&client, &db).await?;
    collections(&db).await?;
    let mut session = client.start_session().await?;
    sessions(&client, &db, &mut session).await?;
    // The official driver waits in `shutdown` until no session is left.
    drop(session);
    session_options(&client).await?;
    options_structs(&db).await?;
    errors(&db).await?;
    custom_errors()?;
    no_server().await?;
    command_events(uri).await?;
    event_channels(uri).await?;
    pool_and_server_events(uri).await?;
    tasks(&client).await?;
    db.drop().await?;
    client.shutdown().await;
    Ok(())
}

async fn client_options(uri: &str) -> Result<()> {
    let mut options = ClientOptions::parse(uri).await?;
    options.app_name = Some("porting".to_string());
    options.max_pool_size = Some(7);
    options.min_pool_size = Some(1);
    options.server_selection_timeout = Some(Duration::from_secs(20));
    options.connect_timeout = Some(Duration::from_secs(10));
    options.retry_reads = Some(true);
    options.retry_writes = Some(true);
    options.default_database = Some("porting_default".to_string());
    options.read_concern = Some(ReadConcern::majority());
    options.write_concern = Some(WriteConcern::majority());
    let primary = SelectionCriteria::ReadPreference(ReadPreference::Primary);
    options.selection_criteria = Some(primary);
    println!(
        "options: {:?} {:?} {} hosts, {:?}",
        options.app_name,
        options.repl_set_name,
        options.hosts.len(),
        options.max_pool_size
    );
    let client = Client::with_options(options)?;
    println!(
        "default database: {:?}",
        client.default_database().map(|db| db.name().to_string())
    );
    println!("{:?} {:?}", client.read_concern(), client.write_concern());
    let names = client.list_database_names().await?;
    println!("has admin: {}", names.iter().any(|name| name == "admin"));

    let address = ServerAddress::Tcp {
        host: "localhost".to_string(),
        port: Some(27018),
    };
    let built = ClientOptions::builder()
        .hosts(vec![address])
        .app_name("built".to_string())
        .server_api(ServerApi::builder().version(ServerApiVersion::V1).build())
        .max_idle_time(Duration::from_secs(60))
        .heartbeat_freq(Duration::from_secs(5))
        .direct_connection(true)
        .build();
    println!("built: {:?} {:?}", built.app_name, built.direct_connection);
    println!("{}", built.hosts[0]);
    let address = ServerAddress::parse("example.com:27099")?;
    println!("{address}");
    match ClientOptions::parse("mongodb://").await {
        Ok(_) => println!("an empty host list was accepted"),
        Err(error) => println!(
            "invalid argument: {}",
            matches!(*error.kind, ErrorKind::InvalidArgument { .. })
        ),
    }
    Ok(())
}

fn handles(client: &Client, db: &Database) -> Result<()> {
    let books: Collection<Document> = db.collection("books");
    println!("{} {} {}", db.name(), books.name(), books.namespace());
    let namespace: Namespace = "library.books".parse()?;
    println!("{} {}", namespace.db, namespace.coll);
    let options = DatabaseOptions::builder()
        .write_concern(WriteConcern::builder().w(Acknowledgment::Majority).build())
        .build();
    let other = client.database_with_options("other", options);
    println!(
        "{:?}",
        other.write_concern().and_then(|concern| concern.w.clone())
    );
    let mut tags = TagSet::new();
    tags.insert("region".to_string(), "east".to_string());
    let preference = ReadPreference::SecondaryPreferred {
        options: Some(
            ReadPreferenceOptions::builder()
                .tag_sets(vec![tags, TagSet::new()])
                .max_staleness(Duration::from_secs(120))
                .build(),
        ),
    };
    let options = CollectionOptions::builder()
        .selection_criteria(SelectionCriteria::ReadPreference(preference))
        .read_concern(ReadConcern::local())
        .build();
    let reads = other.collection_with_options::<Document>("reads", options);
    println!("{:?}", reads.read_concern());
    println!("{:?}", reads.selection_criteria().is_some());
    let again = reads.clone_with_type::<Book>();
    println!("{}", again.name());
    Ok(())
}

async fn inserts(db: &Database) -> Result<()> {
    let books = db.collection::<Document>("books");
    let docs = vec![
        doc! { "_id": 1, "title": "1984", "author": "George Orwell" },
        doc! { "_id": 2, "title": "Animal Farm", "author": "George Orwell" },
        doc! { "_id": 3, "title": "The Great Gatsby", "author": "F. Scott Fitzgerald" },
    ];
    let result: InsertManyResult = books.insert_many(docs).await?;
    let mut ids: Vec<_> = result.inserted_ids.into_iter().collect();
    ids.sort_by_key(|(index, _)| *index);
    println!("insert_many: {ids:?}");

    let result: InsertOneResult = books
        .insert_one(doc! { "_id": "four", "title": "Emma", "author": "Jane Austen" })
        .await?;
    println!("insert_one: {}", result.inserted_id);
    let result = books.insert_one(doc! { "title": "Persuasion" }).await?;
    println!("generated: {}", result.inserted_id.as_object_id().is_some());
    books
        .insert_one(doc! { "_id": 6, "title": "Ulysses", "author": "James Joyce" })
        .write_concern(WriteConcern::majority())
        .bypass_document_validation(true)
        .comment(Bson::String("by hand".to_string()))
        .await?;
    // A list of references.
    let more = [doc! { "_id": 7, "title": "Dubliners", "author": "James Joyce" }];
    let result = books.insert_many(&more).ordered(false).await?;
    println!("{:?}", result.inserted_ids.get(&0));
    println!("{}", books.count_documents(doc! {}).await?);
    Ok(())
}

async fn finds(db: &Database) -> Result<()> {
    let books = db.collection::<Document>("books");
    let filter = doc! { "author": "George Orwell" };
    let find_options = FindOptions::builder().sort(doc! { "title": 1 }).build();
    let mut cursor = books
        .find(filter.clone())
        .with_options(find_options)
        .await?;
    while let Some(book) = cursor.try_next().await? {
        println!("title: {}", book.get_str("title").unwrap_or("?"));
    }

    let mut cursor: Cursor<Document> = books
        .find(filter)
        .sort(doc! { "title": -1 })
        .projection(doc! { "title": 1, "_id": 0 })
        .limit(1)
        .skip(0)
        .batch_size(1)
        .max_time(Duration::from_secs(30))
        .allow_disk_use(true)
        .hint(Hint::Name("_id_".to_string()))
        .comment("a comment")
        .cursor_type(CursorType::NonTailable)
        .await?;
    while let Some(book) = cursor.next().await {
        println!("{}", book?);
    }

    let one = books.find_one(doc! { "_id": 3 }).await?;
    println!("{:?}", one);
    let none = books.find_one(doc! { "_id": 99 }).await?;
    println!("{:?}", none);
    let one = books
        .find_one(doc! {})
        .with_options(
            FindOneOptions::builder()
                .sort(doc! { "title": 1 })
                .skip(1)
                .build(),
        )
        .await?;
    println!(
        "{:?}",
        one.map(|book| book.get_str("title").map(str::to_string))
    );
    let collation = Collation::builder()
        .locale("en")
        .strength(CollationStrength::Secondary)
        .build();
    let emma = books
        .find_one(doc! { "title": "EMMA" })
        .collation(collation)
        .await?;
    println!("{}", emma.is_some());
    Ok(())
}

async fn cursors(db: &Database) -> Result<()> {
    let books = db.collection::<Document>("books");
    let by_title = || {
        books
            .find(doc! { "_id": { "$type": "int" } })
            .sort(doc! { "_id": 1 })
    };
    // A `Stream` has `next`, and `collect` gives a list of results.
    let cursor = by_title().await?;
    let all: Vec<Result<Document>> = cursor.collect().await;
    println!("collect: {}", all.len());
    // A `TryStream` has `try_next` and `try_collect`.
    let cursor = by_title().await?;
    let all: Vec<Document> = cursor.try_collect().await?;
    println!("try_collect: {}", all.len());
    let titles: Vec<String> = by_title()
        .batch_size(2)
        .await?
        .map_ok(|book| book.get_str("title").unwrap_or_default().to_string())
        .try_collect()
        .await?;
    println!("{titles:?}");
    let first: Vec<_> = by_title().await?.take(2).try_collect().await?;
    println!("take: {}", first.len());
    let typed = by_title().await?.with_type::<bson::RawDocumentBuf>();
    let sizes: Vec<bool> = typed
        .map_ok(|raw| raw.as_bytes().len() > 5)
        .try_collect()
        .await?;
    println!("{sizes:?}");
    let mut sum = 0;
    by_title()
        .await?
        .try_for_each(|book| {
            sum += book.get_i32("_id").unwrap_or(0);
            futures::future::ok(())
        })
        .await?;
    println!("sum: {sum}");
    Ok(())
}

async fn lending_cursors(db: &Database) -> Result<()> {
    let books = db.collection::<Title<'_>>("books");
    let mut cursor = books
        .find(doc! { "_id": { "$in": [1, 2] } })
        .sort(doc! { "_id": 1 })
        .await?;
    while cursor.advance().await? {
        println!("{:?}", cursor.deserialize_current()?);
        println!("{:?}", cursor.current());
    }
    Ok(())
}

async fn raw_batches(db: &Database) -> Result<()> {
    let books = db.collection::<Document>("books");
    let mut cursor = books
        .find(doc! { "_id": { "$type": "int" } })
        .batch_size(2)
        .batch()
        .await?;
    let mut number = 0;
    while let Some(batch) = cursor.next().await {
        let batch = batch?;
        for raw in batch.doc_slices()? {
            let raw = raw?;
            number += usize::from(raw.as_document().is_some());
        }
    }
    println!("raw batches: {number} documents");
    Ok(())
}

async fn typed_collections(db: &Database) -> Result<()> {
    let books = db.collection::<Book>("typed");
    books
        .insert_many(vec![
            Book::new("The Grapes of Wrath", "John Steinbeck", 1939),
            Book::new("To Kill a Mockingbird", "Harper Lee", 1960),
        ])
        .await?;
    books
        .insert_one(Book::new("East of Eden", "John Steinbeck", 1952))
        .await?;
    let mut cursor = books
        .find(doc! { "author": "John Steinbeck" })
        .sort(doc! { "year": 1 })
        .await?;
    while let Some(book) = cursor.try_next().await? {
        println!("{} ({}), {}", book.title, book.year, book.id.is_some());
    }
    let replaced = books
        .replace_one(
            doc! { "title": "East of Eden" },
            Book::new("East of Eden", "J. Steinbeck", 1952),
        )
        .await?;
    println!("{} {}", replaced.matched_count, replaced.modified_count);
    let found = books.find_one(doc! { "year": 1952 }).await?;
    println!("{:?}", found.map(|book| book.author));
    // A document that does not have the form of the type.
    books
        .clone_with_type::<Document>()
        .insert_one(doc! { "title": 3 })
        .await?;
    match books.find_one(doc! { "title": 3 }).await {
        Ok(book) => println!("{book:?}"),
        Err(error) => println!("bson: {}", matches!(*error.kind, ErrorKind::Bson(_))),
    }
    books.drop().await
}

async fn updates(db: &Database) -> Result<()> {
    let books = db.collection::<Document>("books");
    let result: UpdateResult = books
        .update_one(doc! { "_id": 1 }, doc! { "$set": { "year": 1949 } })
        .await?;
    println!(
        "{} {} {:?}",
        result.matched_count, result.modified_count, result.upserted_id
    );
    let result = books
        .update_many(
            doc! { "author": "George Orwell" },
            doc! { "$inc": { "copies": 2 } },
        )
        .await?;
    println!("{result:?}");
    let result = books
        .update_one(doc! { "_id": 50 }, doc! { "$set": { "title": "New" } })
        .upsert(true)
        .await?;
    println!("{:?}", result.upserted_id);
    // A pipeline.
    let pipeline = vec![doc! { "$set": { "label": { "$concat": ["$title", "!"] } } }];
    let result = books
        .update_one(doc! { "_id": 2 }, pipeline.clone())
        .await?;
    println!("{}", result.modified_count);
    let update = UpdateModifications::Pipeline(pipeline);
    books.update_one(doc! { "_id": 3 }, update).await?;
    let options = UpdateOptions::builder()
        .array_filters(vec![doc! { "price": { "$gt": 10 } }])
        .build();
    books
        .update_one(doc! { "_id": 1 }, doc! { "$set": { "prices": [5, 15] } })
        .await?;
    books
        .update_one(
            doc! { "_id": 1 },
            doc! { "$set": { "prices.$[price]": 10 } },
        )
        .with_options(options)
        .await?;
    println!("{:?}", books.find_one(doc! { "_id": 1 }).await?);
    let replaced = books
        .replace_one(doc! { "_id": 51 }, doc! { "title": "Replaced" })
        .upsert(true)
        .await?;
    println!("{replaced:?}");
    // An update without an operator.
    match books.update_one(doc! {}, doc! { "title": "wrong" }).await {
        Ok(result) => println!("{result:?}"),
        Err(error) => println!(
            "invalid argument: {}",
            matches!(*error.kind, ErrorKind::InvalidArgument { .. })
        ),
    }
    Ok(())
}

async fn deletes(db: &Database) -> Result<()> {
    let books = db.collection::<Document>("books");
    let result: DeleteResult = books.delete_one(doc! { "_id": 50 }).await?;
    println!("{}", result.deleted_count);
    let result = books
        .delete_many(doc! { "title": "Replaced" })
        .with_options(
            DeleteOptions::builder()
                .hint(Hint::Keys(doc! { "_id": 1 }))
                .build(),
        )
        .await?;
    println!("{result:?}");
    Ok(())
}

async fn find_and_modify(db: &Database) -> Result<()> {
    let books = db.collection::<Document>("books");
    let before = books
        .find_one_and_update(doc! { "_id": 7 }, doc! { "$set": { "year": 1914 } })
        .await?;
    println!("{:?}", before);
    let options = FindOneAndUpdateOptions::builder()
        .return_document(ReturnDocument::After)
        .projection(doc! { "_id": 0, "year": 1 })
        .build();
    let after = books
        .find_one_and_update(doc! { "_id": 7 }, doc! { "$inc": { "year": 1 } })
        .with_options(options)
        .await?;
    println!("{:?}", after);
    let replaced = books
        .find_one_and_replace(doc! { "_id": 7 }, doc! { "title": "The Dead" })
        .return_document(ReturnDocument::After)
        .await?;
    println!("{:?}", replaced);
    let deleted = books
        .find_one_and_delete(doc! { "_id": 7 })
        .sort(doc! { "_id": 1 })
        .await?;
    println!(
        "{:?} {:?}",
        deleted,
        books.find_one_and_delete(doc! { "_id": 7 }).await?
    );
    Ok(())
}

async fn counts(db: &Database) -> Result<()> {
    let books = db.collection::<Document>("books");
    println!(
        "{}",
        books
            .count_documents(doc! { "author": "George Orwell" })
            .await?
    );
    println!("{}", books.estimated_document_count().await?);
    let options = CountOptions::builder().limit(2).skip(1).build();
    println!(
        "{}",
        books.count_documents(doc! {}).with_options(options).await?
    );
    let authors = books
        .distinct("author", doc! { "_id": { "$lt": 5 } })
        .await?;
    println!("{authors:?}");
    Ok(())
}

async fn indexes(db: &Database) -> Result<()> {
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

async fn aggregations(db: &Database) -> Result<()> {
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

async fn commands(client: &Client, db: &Database) -> Result<()> {
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

async fn collections(db: &Database) -> Result<()> {
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

async fn sessions(client: &Client, db: &Database, session: &mut ClientSession) -> Result<()> {
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

async fn session_options(client: &Client) -> Result<()> {
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
async fn options_structs(db: &Database) -> Result<()> {
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

fn is_duplicate(error: &Error) -> bool {
    match error.kind.as_ref() {
        ErrorKind::Write(WriteFailure::WriteError(WriteError { code: 11000, .. })) => true,
        _ => false,
    }
}

async fn errors(db: &Database) -> Result<()> {
    let books = db.collection::<Document>("books");
    let error = books.insert_one(doc! { "_id": 1 }).await.unwrap_err();
    println!("duplicate: {}", is_duplicate(&error));
    println!("retryable: {}", error.contains_label(RETRYABLE_WRITE_ERROR));
    let mut labels: Vec<_> = error.labels().iter().cloned().collect();
    labels.sort();
    println!("{labels:?}");
    if let ErrorKind::Write(WriteFailure::WriteError(write)) = *error.kind {
        println!("{} {}", write.code, write.message.contains("E11000"));
        println!("{:?}", write.code_name);
        println!("{:?}", write.details.is_some());
    }

    let many = [
        doc! { "_id": 1 },
        doc! { "_id": 70, "title": "70" },
        doc! { "_id": 2 },
    ];
    let error = books.insert_many(many).ordered(false).await.unwrap_err();
    match *error.kind {
        ErrorKind::InsertMany(failed) => {
            for write in failed.write_errors.unwrap_or_default() {
                println!("{} {}", write.index, write.code);
            }
            println!(
                "{:?}",
                failed.write_concern_error.map(|concern| concern.code)
            );
        }
        other => println!("{other:?}"),
    }

    let checked = db.collection::<Document>("checked");
    let error = checked.insert_one(doc! { "n": "text" }).await.unwrap_err();
    match *error.kind {
        ErrorKind::Write(WriteFailure::WriteError(write)) => {
            println!("{} {}", write.code, write.details.is_some());
        }
        ErrorKind::Write(WriteFailure::WriteConcernError(concern)) => println!("{concern:?}"),
        other => println!("{other:?}"),
    }

    let error = books.find(doc! { "$noSuchOperator": 1 }).await.unwrap_err();
    match &*error.kind {
        ErrorKind::Command(command) => {
            let code = command.code;
            println!(
                "{code} {} {}",
                command.code_name,
                !command.message.is_empty()
            );
        }
        other => println!("{other:?}"),
    }
    let reply = error.server_response();
    println!("reply: {}", reply.is_some());
    Ok(())
}

fn custom_errors() -> Result<()> {
    let error = Error::custom("mine".to_string());
    println!("{:?}", error.get_custom::<String>());
    println!("custom: {}", matches!(*error.kind, ErrorKind::Custom(_)));
    let io: Error = std::io::Error::from(std::io::ErrorKind::NotFound).into();
    println!("io: {}", matches!(*io.kind, ErrorKind::Io(_)));
    Ok(())
}

async fn no_server() -> Result<()> {
    let uri = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=200";
    let client = Client::with_uri_str(uri).await?;
    let error = client.list_database_names().await.unwrap_err();
    match *error.kind {
        ErrorKind::ServerSelection { ref message, .. } => {
            println!("{}", message.contains("127.0.0.1"))
        }
        ref other => println!("{other:?}"),
    }
    client.clone().shutdown().immediate(true).await;
    let error = client.list_database_names().await.unwrap_err();
    println!("closed: {}", matches!(*error.kind, ErrorKind::Shutdown));
    Ok(())
}

fn describe(event: &CommandEvent) -> String {
    match event {
        CommandEvent::Started(CommandStartedEvent {
            command_name,
            db,
            command,
            ..
        }) => {
            format!(
                "{command_name} on {db} started, {} fields",
                command.len() > 1
            )
        }
        CommandEvent::Succeeded(CommandSucceededEvent {
            command_name,
            reply,
            ..
        }) => {
            format!("{command_name} succeeded, {:?}", reply.get("ok"))
        }
        CommandEvent::Failed(CommandFailedEvent {
            command_name,
            failure,
            ..
        }) => {
            format!(
                "{command_name} failed, {}",
                matches!(*failure.kind, ErrorKind::Command(_))
            )
        }
        _ => "another event".to_string(),
    }
}

async fn command_events(uri: &str) -> Result<()> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let to = seen.clone();
    let mut options = ClientOptions::parse(uri).await?;
    options.command_event_handler = Some(EventHandler::callback(move |event| {
        to.lock().unwrap().push(describe(&event));
    }));
    let client = Client::with_options(options)?;
    let db = client.database("porting_documentation");
    db.run_command(doc! { "ping": 1 }).await?;
    let books = db.collection::<Document>("books");
    books.find_one(doc! { "_id": 1 }).await?;
    books.find_one(doc! { "$wrong": 1 }).await.unwrap_err();
    books.insert_one(doc! { "title": "seen" }).await?;
    client.shutdown().await;
    let seen = seen.lock().unwrap();
    for line in seen.iter().filter(|line| !line.starts_with("endSessions")) {
        println!("{line}");
    }
    Ok(())
}

async fn event_channels(uri: &str) -> Result<()> {
    let (to, mut from) = tokio::sync::mpsc::channel::<CommandEvent>(100);
    let mut options = ClientOptions::parse(uri).await?;
    #[cfg(feature = "official")]
    let handler = to.into();
    #[cfg(feature = "ours")]
    let handler = EventHandler::callback(move |event| drop(to.try_send(event)));
    options.command_event_handler = Some(handler);
    let client = Client::with_options(options)?;
    client
        .database("admin")
        .run_command(doc! { "ping": 1 })
        .await?;
    let names = tokio::spawn(async move {
        let mut names = Vec::new();
        while let Some(event) = from.recv().await {
            names.push(describe(&event));
            if names.len() == 2 {
                break;
            }
        }
        names
    });
    println!("{:?}", names.await.unwrap());
    let built = ClientOptions::builder()
        .command_event_handler(EventHandler::callback(|event: CommandEvent| drop(event)))
        .build();
    println!("{}", built.command_event_handler.is_some());
    Ok(())
}

async fn pool_and_server_events(uri: &str) -> Result<()> {
    let created = Arc::new(Mutex::new(0));
    let described = Arc::new(Mutex::new(0));
    let mut options = ClientOptions::parse(uri).await?;
    let to = created.clone();
    options.cmap_event_handler = Some(EventHandler::callback(move |event| match event {
        CmapEvent::ConnectionCreated(event) => {
            assert!(event.connection_id > 0);
            *to.lock().unwrap() += 1;
        }
        CmapEvent::ConnectionClosed(event) => assert!(event.connection_id > 0),
        _ => {}
    }));
    let to = described.clone();
    options.sdam_event_handler = Some(EventHandler::callback(move |event| match event {
        SdamEvent::ServerDescriptionChanged(event) => {
            let _ = event.new_description.server_type();
            *to.lock().unwrap() += 1;
        }
        SdamEvent::ServerHeartbeatFailed(event) => assert!(!event.failure.to_string().is_empty()),
        _ => {}
    }));
    let client = Client::with_options(options)?;
    client
        .database("admin")
        .run_command(doc! { "ping": 1 })
        .await?;
    client.shutdown().await;
    println!("{}", *created.lock().unwrap() > 0);
    println!("{}", *described.lock().unwrap() > 0);
    Ok(())
}

/// Handles are cheap to clone, and go to other tasks.
async fn tasks(client: &Client) -> Result<()> {
    let mut running = Vec::new();
    for number in 0..5 {
        let client = client.clone();
        running.push(tokio::task::spawn(async move {
            let collection = client
                .database("porting_documentation")
                .collection::<Document>(&format!("task{number}"));
            collection.insert_one(doc! { "x": number }).await?;
            collection.count_documents(doc! {}).await
        }));
    }
    let mut sum = 0;
    for task in running {
        sum += task.await.unwrap()?;
    }
    println!("tasks: {sum}");
    Ok(())
}
