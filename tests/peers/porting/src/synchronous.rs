//! The calls that the documentation of the official driver shows for its synchronous API.

#[cfg(feature = "ours")]
use crate::driver::sync::Run;
use crate::driver::{
    IndexModel,
    bson::{Document, doc},
    error::{ErrorKind, Result},
    event::{EventHandler, command::CommandEvent},
    options::{
        ClientOptions, FindOptions, FullDocumentType, IndexOptions, ReturnDocument, WriteConcern,
    },
    sync::{Client, ClientSession, Collection, Cursor, Database, SessionCursor},
};
use serde::{Deserialize, Serialize};
use std::{
    io::{Read, Write},
    sync::{Arc, Mutex},
    time::Duration,
};

#[derive(Debug, Serialize, Deserialize)]
struct Book {
    title: String,
    author: String,
}

pub fn run(uri: &str) -> Result<()> {
    let client = Client::with_uri_str(uri)?;
    let database = client.database("porting_synchronous");
    database.drop().run()?;
    let collection: Collection<Book> = database.collection("books");
    let docs = vec![
        Book {
            title: "1984".to_string(),
            author: "George Orwell".to_string(),
        },
        Book {
            title: "Animal Farm".to_string(),
            author: "George Orwell".to_string(),
        },
        Book {
            title: "The Great Gatsby".to_string(),
            author: "F. Scott Fitzgerald".to_string(),
        },
    ];
    let result = collection.insert_many(docs).run()?;
    println!("{}", result.inserted_ids.len());
    let cursor: Cursor<Book> = collection
        .find(doc! { "author": "George Orwell" })
        .sort(doc! { "title": 1 })
        .run()?;
    for result in cursor {
        println!("title: {}", result?.title);
    }
    cursors(&database)?;
    writes(&database)?;
    indexes_and_commands(&client, &database)?;
    let mut session = client.start_session().run()?;
    sessions(&database, &mut session)?;
    transactions(&database, &mut session)?;
    // The official driver waits in `shutdown` until no session is left.
    drop(session);
    change_streams(&database)?;
    files(&database)?;
    options(uri)?;
    client.warm_connection_pool().run();
    threads(&client)?;
    errors(&database)?;
    database.drop().run()?;
    client.shutdown().run();
    Ok(())
}

fn cursors(database: &Database) -> Result<()> {
    let collection = database.collection::<Document>("books");
    let options = FindOptions::builder()
        .sort(doc! { "title": 1 })
        .projection(doc! { "_id": 0, "title": 1 })
        .batch_size(2)
        .build();
    let cursor = collection
        .find(doc! {})
        .with_options(options.clone())
        .run()?;
    let results: Vec<Result<Document>> = cursor.collect();
    println!("{}", results.len());
    let results: Result<Vec<Document>> = collection
        .find(doc! {})
        .with_options(options.clone())
        .run()?
        .collect();
    println!("{:?}", results?);
    let mut cursor = collection.find(doc! {}).with_options(options).run()?;
    while cursor.advance()? {
        let book: Document = cursor.deserialize_current()?;
        println!("{:?} {}", cursor.current(), book);
    }
    let mut cursor = collection.aggregate([doc! { "$count": "n" }]).run()?;
    println!("{:?}", cursor.next().transpose()?);
    Ok(())
}

fn writes(database: &Database) -> Result<()> {
    let collection = database.collection::<Document>("writes");
    collection.insert_one(doc! { "_id": 1 }).run()?;
    let result = collection
        .update_one(doc! { "_id": 1 }, doc! { "$set": { "x": 2 } })
        .run()?;
    println!("{} {}", result.matched_count, result.modified_count);
    let result = collection
        .replace_one(doc! { "_id": 2 }, doc! { "x": 3 })
        .upsert(true)
        .run()?;
    println!("{:?}", result.upserted_id);
    let after = collection
        .find_one_and_update(doc! { "_id": 1 }, doc! { "$inc": { "x": 1 } })
        .return_document(ReturnDocument::After)
        .run()?;
    println!("{after:?}");
    println!("{:?}", collection.find_one(doc! { "_id": 2 }).run()?);
    println!("{}", collection.count_documents(doc! {}).run()?);
    println!("{:?}", collection.distinct("x", doc! {}).run()?);
    println!("{}", collection.delete_many(doc! {}).run()?.deleted_count);
    Ok(())
}

fn indexes_and_commands(client: &Client, database: &Database) -> Result<()> {
    let collection = database.collection::<Document>("books");
    let options = IndexOptions::builder().unique(true).build();
    let model = IndexModel::builder()
        .keys(doc! { "title": 1 })
        .options(options)
        .build();
    println!("{}", collection.create_index(model).run()?.index_name);
    println!("{:?}", collection.list_index_names().run()?);
    let reply = database.run_command(doc! { "ping": 1 }).run()?;
    println!("{:?}", reply.get("ok"));
    println!(
        "{}",
        client
            .list_database_names()
            .run()?
            .contains(&"porting_synchronous".to_string())
    );
    println!(
        "{:?}",
        database
            .list_collection_names()
            .filter(doc! { "name": "books" })
            .run()?
    );
    for collection in database
        .list_collections()
        .filter(doc! { "name": "books" })
        .run()?
    {
        println!("{}", collection?.name);
    }
    Ok(())
}

fn sessions(database: &Database, session: &mut ClientSession) -> Result<()> {
    let collection = database.collection::<Document>("numbers");
    let numbers: Vec<_> = (1..=4).map(|n| doc! { "_id": n }).collect();
    collection
        .insert_many(numbers)
        .session(&mut *session)
        .run()?;
    let mut cursor: SessionCursor<Document> = collection
        .find(doc! {})
        .sort(doc! { "_id": 1 })
        .session(&mut *session)
        .run()?;
    for number in cursor.iter(session) {
        println!("{}", number?);
    }
    let other = database.collection::<Document>("copies");
    let mut cursor = collection
        .find(doc! { "_id": 1 })
        .session(&mut *session)
        .run()?;
    while let Some(number) = cursor.next(session).transpose()? {
        other.insert_one(number).session(&mut *session).run()?;
    }
    let mut cursor = other.find(doc! {}).session(&mut *session).run()?;
    while cursor.advance(session)? {
        println!("{:?}", cursor.current());
    }
    Ok(())
}

fn transactions(database: &Database, session: &mut ClientSession) -> Result<()> {
    let accounts = database.collection::<Document>("accounts");
    accounts
        .insert_one(doc! { "_id": 1, "balance": 10 })
        .run()?;
    session
        .start_transaction()
        .write_concern(WriteConcern::majority())
        .run()?;
    accounts
        .update_one(doc! { "_id": 1 }, doc! { "$inc": { "balance": 5 } })
        .session(&mut *session)
        .run()?;
    session.commit_transaction().run()?;
    session.start_transaction().run()?;
    accounts
        .delete_one(doc! { "_id": 1 })
        .session(&mut *session)
        .run()?;
    session.abort_transaction().run()?;
    println!("{:?}", accounts.find_one(doc! { "_id": 1 }).run()?);
    Ok(())
}

fn change_streams(database: &Database) -> Result<()> {
    database.create_collection("watched").run()?;
    let watched = database.collection::<Document>("watched");
    let mut stream = watched
        .watch()
        .full_document(FullDocumentType::UpdateLookup)
        .max_await_time(Duration::from_millis(20))
        .run()?;
    watched.insert_one(doc! { "_id": 1 }).run()?;
    if let Some(event) = stream.next().transpose()? {
        println!("{:?} {:?}", event.document_key, event.full_document);
    }
    println!("{}", stream.next_if_any()?.is_none());
    let token = stream.resume_token().expect("the stream has read an event");
    watched.delete_one(doc! { "_id": 1 }).run()?;
    let mut resumed = watched.watch().resume_after(token).run()?;
    if let Some(event) = resumed.next().transpose()? {
        println!("{:?}", event.document_key);
    }
    Ok(())
}

fn files(database: &Database) -> Result<()> {
    let bucket = database.gridfs_bucket(None);
    let mut upload = bucket.open_upload_stream("sun.txt").run()?;
    upload.write_all(b"it shines")?;
    upload.close()?;
    let id = upload.id().clone();
    let mut text = String::new();
    let mut download = bucket.open_download_stream(id.clone()).run()?;
    download.read_to_string(&mut text)?;
    println!("{text}");
    bucket.rename(id.clone(), "star.txt").run()?;
    for file in bucket.find(doc! {}).run()? {
        println!("{:?}", file?.filename);
    }
    bucket.delete(id).run()
}

fn options(uri: &str) -> Result<()> {
    let mut options = ClientOptions::parse(uri).run()?;
    options.app_name = Some("porting".to_string());
    let names = Arc::new(Mutex::new(Vec::new()));
    let to = names.clone();
    options.command_event_handler = Some(EventHandler::callback(move |event| {
        if let CommandEvent::Started(event) = event {
            to.lock().unwrap().push(event.command_name);
        }
    }));
    let client = Client::with_options(options)?;
    client
        .database("admin")
        .run_command(doc! { "ping": 1 })
        .run()?;
    client.shutdown().immediate(true).run();
    let mut names = names.lock().unwrap();
    names.retain(|name| name != "endSessions");
    println!("{names:?}");
    Ok(())
}

fn threads(client: &Client) -> Result<()> {
    let running: Vec<_> = (0..3)
        .map(|number| {
            let client = client.clone();
            std::thread::spawn(move || {
                let database = client.database("porting_synchronous");
                let collection = database.collection::<Document>(&format!("thread{number}"));
                collection.insert_one(doc! { "x": number }).run()?;
                collection.count_documents(doc! {}).run()
            })
        })
        .collect();
    let mut sum = 0;
    for thread in running {
        sum += thread.join().unwrap()?;
    }
    println!("threads: {sum}");
    Ok(())
}

fn errors(database: &Database) -> Result<()> {
    let collection = database.collection::<Document>("numbers");
    let error = collection.insert_one(doc! { "_id": 1 }).run().unwrap_err();
    println!("{}", matches!(*error.kind, ErrorKind::Write(_)));
    let error = database
        .run_command(doc! { "noSuchCommand": 1 })
        .run()
        .unwrap_err();
    if let ErrorKind::Command(command) = *error.kind {
        println!("{} {}", command.code, command.code_name);
    }
    Ok(())
}
