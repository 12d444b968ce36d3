//! Values that the driver's types convert, take apart and write as JSON.

use super::*;
use crate::driver::options::{ConnectionString, DriverInfo};
use futures::io::{AsyncReadExt, AsyncWriteExt};

/// Parses a connection string that the application has composed.
async fn connection_strings(uri: &str) -> Result<()> {
    let text = format!("{uri}&appName=composed&maxPoolSize=3");
    let string = ConnectionString::parse(text.clone())?;
    let options = ClientOptions::parse(string).await?;
    println!("{:?} {:?}", options.app_name, options.max_pool_size);
    let options = ClientOptions::parse(&text).await?;
    println!("{:?}", options.app_name);
    let string = ConnectionString::try_from(text)?;
    println!("{}", ClientOptions::parse(string).await?.hosts.len());
    Ok(())
}

fn namespaces() {
    let namespace = Namespace {
        db: "library".to_string(),
        coll: "books".to_string(),
    };
    println!("{namespace}");
    let Namespace { db, coll } = namespace;
    println!("{db} {coll}");
}

async fn preferences(db: &Database) -> Result<()> {
    let books = db.collection::<Document>("conversions");
    books.insert_one(doc! { "_id": 1 }).await?;
    let found = books
        .find_one(doc! {})
        .selection_criteria(ReadPreference::Primary.into())
        .await?;
    println!("{found:?}");
    let preferred = ReadPreference::PrimaryPreferred { options: None };
    let found: Vec<Document> = books
        .find(doc! {})
        .selection_criteria(preferred.into())
        .await?
        .try_collect()
        .await?;
    println!("{found:?}");
    let reply = db
        .run_command(doc! { "ping": 1 })
        .selection_criteria(ReadPreference::Nearest { options: None }.into())
        .await?;
    println!("{:?}", reply.get("ok"));
    Ok(())
}

async fn tokens(db: &Database) -> Result<()> {
    let books = db.collection::<Document>("conversions");
    let mut stream = books.watch().await?;
    books.insert_one(doc! { "_id": 2 }).await?;
    println!("{}", stream.next().await.transpose()?.is_some());
    books.insert_one(doc! { "_id": 3 }).await?;
    let mut resumed = books.watch().resume_after(stream.resume_token()).await?;
    drop(stream);
    let event = resumed.next().await.transpose()?;
    println!("{:?}", event.and_then(|event| event.document_key));
    Ok(())
}

async fn ids_of_files(db: &Database) -> Result<()> {
    let bucket = db.gridfs_bucket(None);
    let id = ObjectId::new();
    let mut upload = bucket.open_upload_stream("sun.txt").id(id.into()).await?;
    upload.write_all(b"it shines").await?;
    upload.close().await?;
    drop(upload);
    let mut text = String::new();
    let mut download = bucket.open_download_stream(id.into()).await?;
    download.read_to_string(&mut text).await?;
    println!("{text}");
    bucket.rename(id.into(), "star.txt").await?;
    bucket.delete(id.into()).await?;
    bucket.drop().await
}

/// Prints a value as JSON, without the fields whose values differ from run to run.
fn print_json<T: Serialize>(value: &T, fields: &[&str]) {
    let json = serde_json::to_string(value).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    for field in fields {
        println!("{field}: {:?}", json.get(field));
    }
}

async fn errors_as_json(db: &Database) -> Result<()> {
    let books = db.collection::<Document>("conversions");
    let error = books.insert_one(doc! { "_id": 1 }).await.unwrap_err();
    if let ErrorKind::Write(WriteFailure::WriteError(write)) = error.kind.as_ref() {
        print_json(write, &["code", "codeName", "errmsg", "errInfo"]);
    }
    let error = books.insert_many([doc! { "_id": 1 }]).await.unwrap_err();
    if let ErrorKind::InsertMany(failed) = error.kind.as_ref() {
        print_json(failed, &["writeConcernError"]);
        let json = serde_json::to_value(failed).unwrap();
        println!("{:?}", json["writeErrors"][0]["code"]);
        for write in failed.write_errors.iter().flatten() {
            print_json(write, &["index", "code", "errmsg"]);
        }
    }
    let error = db
        .run_command(doc! { "noSuchCommand": 1 })
        .await
        .unwrap_err();
    if let ErrorKind::Command(command) = error.kind.as_ref() {
        print_json(command, &["code", "codeName", "errmsg"]);
    }
    Ok(())
}

async fn events_as_json(uri: &str) -> Result<()> {
    let mut options = ClientOptions::parse(uri).await?;
    options.command_event_handler = Some(EventHandler::callback(|event| {
        let json = serde_json::to_value(&event).unwrap();
        if json["commandName"] == "ping" {
            print_json(&event, &["commandName", "serviceId"]);
        }
        match event {
            CommandEvent::Started(event) if event.command_name == "ping" => {
                print_json(&event, &["commandName", "db", "serviceId"]);
                print_json(&event.command, &["ping"]);
            }
            CommandEvent::Succeeded(event) if event.command_name == "ping" => {
                print_json(&event, &["commandName"]);
                print_json(&event.reply, &["ok"]);
            }
            _ => {}
        }
    }));
    let client = Client::with_options(options)?;
    let library = DriverInfo::builder()
        .name("mapper".to_string())
        .version("2".to_string())
        .build();
    client.append_metadata(library)?;
    let db = client.database("admin");
    db.run_command(doc! { "ping": 1 }).await?;
    client.shutdown().await;
    Ok(())
}

pub(super) async fn conversions(uri: &str, db: &Database) -> Result<()> {
    connection_strings(uri).await?;
    namespaces();
    preferences(db).await?;
    tokens(db).await?;
    ids_of_files(db).await?;
    errors_as_json(db).await?;
    events_as_json(uri).await
}
