//! Mistakes of an application's developer, and the messages of the errors to which they lead.
//!
//! The messages are those of `docs/mistakes.md`, which `ONIONSKIN_WRITE=1` writes anew.

#![cfg(feature = "tokio")]

mod strings;

use onionskin_deployment::deployment::{DeploymentOptions, Role, User};
use onionskin_tokio::{
    Client, ClientSession, Collection, IndexModel,
    bson::{Bson, Document, doc, oid::ObjectId},
    error::Error,
    options::{IndexOptions, WriteConcern},
};
use onionskin_worlds::{on_tokio::TokioWorld, world::runtime::member_addresses};
use serde::{Deserialize, Serialize};
use std::{collections::HashMap, env, fmt::Write as _, fs, path::Path, time::Duration};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/mistakes.md");

const HEAD: &str = "\
# Mistakes and their messages

Each row is a mistake that is easily made, and the text of the error that the driver returns for it.
[errors.md](errors.md) explains how a program handles errors. The servers are simulated ones of
release 7.0. A test makes all of these mistakes and compares the messages with this page:

    cargo test -p onionskin-worlds --features tokio --test mistakes
";

const TAIL: &str = "
## Mistakes without a message

- A filter with a text where the documents have an `ObjectId`, or with a number where they have a
  text, finds nothing.
- A read from a secondary can miss a write that was acknowledged, unless both belong to one session
  ([guide.md](guide.md), *Sessions*).
- A call without `.session(&mut session)` is not part of the transaction of that session.
- An option of the connection string that is not known causes a warning, and an error only if
  `strict` is set.
- Two upserts at the same time can insert the same document twice, unless a unique index covers the
  fields of the filter. With the index, one of them can fail because of a duplicate key; repeat it.
";

/// The rows of the page under their headings.
#[derive(Default)]
struct Page(String);

impl Page {
    fn heading(&mut self, text: &str) {
        // Writing to a string cannot fail.
        let _ = write!(self.0, "\n## {text}\n\n| mistake | message |\n|---|---|\n");
    }

    /// Adds the error of a mistake.
    fn row<T, E: ToString>(&mut self, mistake: &str, result: Result<T, E>) {
        let message = match result {
            Ok(_) => panic!("no error: {mistake}"),
            Err(error) => error.to_string(),
        };
        let message = ["Binary(0x4, ", "_data: \""]
            .into_iter()
            .fold(message, masked);
        let message = message.replace('|', "\\|").replace('\n', " ");
        let _ = writeln!(self.0, "| {mistake} | {message} |");
    }
}

/// Replaces the text after `head`, which is another one in each run, by dots.
fn masked(message: String, head: &str) -> String {
    let Some((before, rest)) = message.split_once(head) else {
        return message;
    };
    let end = rest.find(['"', ')']).unwrap_or(rest.len());
    format!("{before}{head}..{}", &rest[end..])
}

#[derive(Debug, Serialize, Deserialize)]
struct Person {
    name: String,
    age: u32,
}

async fn ping(uri: &str) -> Result<Document, Error> {
    let shop = Client::with_uri_str(uri).await?.database("shop");
    shop.run_command(doc! { "ping": 1 }).await
}

async fn count(uri: &str) -> Result<u64, Error> {
    let client = Client::with_uri_str(uri).await?;
    let people = client.database("shop").collection::<Document>("people");
    people.count_documents(doc! {}).await
}

async fn connecting(page: &mut Page) {
    page.heading("Connecting");
    let world = TokioWorld::replica_set(1, 3);
    let brief = "serverSelectionTimeoutMS=2000";
    let with = |option: &str| format!("{}&{brief}&{option}", world.uri());
    page.row("another name of the replica set", {
        ping(&with("").replace("replicaSet=rs0", "replicaSet=rs1")).await
    });
    page.row(
        "a host that does not exist",
        ping(&format!("mongodb://elsewhere/?{brief}")).await,
    );
    let one = format!(
        "mongodb://{}/?{brief}&directConnection=true",
        member_addresses(3)[1]
    );
    let secondary = Client::with_uri_str(&one).await.expect("a client");
    let people = secondary.database("shop").collection::<Document>("people");
    page.row(
        "a write to a secondary",
        people.insert_one(doc! { "_id": 1 }).await,
    );
    world.kill(0);
    world.kill(1);
    world.kill(2);
    page.row("no server is running", ping(&with("")).await);
    drop(world);

    let mut options = DeploymentOptions::standalone(member_addresses(1).remove(0));
    options.users = vec![User::new("ada", "sesame")];
    let mut reader = User::new("bea", "sesame");
    reader.database = "shop".to_owned();
    reader.roles = vec![Role::new("read", "shop")];
    options.users.push(reader);
    let world = TokioWorld::new(2, options);
    let with = |user: &str| world.uri().replacen("://", &format!("://{user}@"), 1);
    page.row("no user", count(world.uri()).await);
    page.row("a wrong password", count(&with("ada:sesam")).await);
    page.row(
        "a user of another database",
        count(&with("bea:sesame")).await,
    );
    let client = Client::with_uri_str(format!("{}?authSource=shop", with("bea:sesame"))).await;
    let people = client
        .expect("a client")
        .database("shop")
        .collection::<Document>("people");
    page.row(
        "a write of a user who may only read",
        people.insert_one(doc! { "_id": 1 }).await,
    );
}

async fn operations(page: &mut Page, people: &Collection<Document>) {
    page.heading("Documents and operations");
    people
        .insert_one(doc! { "_id": 1, "name": "Ada", "tags": [1] })
        .await
        .expect("it is new");
    page.row(
        "an `_id` that exists",
        people.insert_one(doc! { "_id": 1 }).await,
    );
    page.row(
        "an update without operators",
        people.update_one(doc! {}, doc! { "age": 36 }).await,
    );
    page.row("an empty update", people.update_one(doc! {}, doc! {}).await);
    page.row("a replacement with operators", {
        people
            .replace_one(doc! {}, doc! { "$set": { "age": 36 } })
            .await
    });
    page.row("an update of the `_id`", {
        people
            .update_one(doc! { "_id": 1 }, doc! { "$set": { "_id": 2 } })
            .await
    });
    page.row("`$push` on a field that is no array", {
        people
            .update_one(doc! { "_id": 1 }, doc! { "$push": { "name": 1 } })
            .await
    });
    page.row("a name in an update without its array filter", {
        people
            .update_one(doc! {}, doc! { "$set": { "tags.$[old]": 2 } })
            .await
    });
    page.row(
        "no documents",
        people.insert_many(Vec::<Document>::new()).await,
    );
    page.row(
        "a document of 17 MB",
        people
            .insert_one(doc! { "x": "x".repeat(17_000_000) })
            .await,
    );
}

async fn queries(page: &mut Page, people: &Collection<Document>) {
    let database = people.client().database("shop");
    page.row(
        "an operator that does not exist",
        people.find(doc! { "age": { "$over": 9 } }).await,
    );
    page.row(
        "a stage that does not exist",
        people.aggregate([doc! { "$filter": {} }]).await,
    );
    page.row("a hint that is no index", {
        people
            .find(doc! {})
            .hint(onionskin_tokio::options::Hint::Name("age_1".to_owned()))
            .await
    });
    page.row("a direction of a sort that is no number", {
        people.find(doc! {}).sort(doc! { "age": "asc" }).await
    });
    page.row("an empty command", database.run_command(doc! {}).await);
    page.row(
        "a command that does not exist",
        database.run_command(doc! { "pong": 1 }).await,
    );
    page.row("an empty name of a collection", {
        database
            .collection::<Document>("")
            .insert_one(doc! {})
            .await
    });
    page.row("a dot in the name of a database", {
        people
            .client()
            .database("a.b")
            .collection::<Document>("c")
            .insert_one(doc! {})
            .await
    });
    let unique = IndexOptions::builder().unique(true).build();
    let index = |options| {
        IndexModel::builder()
            .keys(doc! { "name": 1 })
            .options(options)
            .build()
    };
    people.create_index(index(None)).await.expect("it is new");
    page.row("an index that exists with other options", {
        people.create_index(index(Some(unique))).await
    });
}

async fn types(page: &mut Page, people: &Collection<Document>) {
    page.heading("Types");
    let typed = people.clone_with_type::<Person>();
    page.row("a stored document without a field of the type", {
        typed.find_one(doc! { "_id": 1 }).await
    });
    people
        .insert_one(doc! { "_id": 2, "name": "Bea", "age": "many" })
        .await
        .expect("it is new");
    page.row(
        "a stored field of another type",
        typed.find_one(doc! { "_id": 2 }).await,
    );
    people
        .insert_one(doc! { "_id": 3, "name": "Cem", "age": -1 })
        .await
        .expect("it is new");
    page.row(
        "a stored number outside of the range",
        typed.find_one(doc! { "_id": 3 }).await,
    );
    people
        .insert_one(doc! { "_id": 4, "name": Bson::Null, "age": 1 })
        .await
        .expect("it is new");
    let texts = people.clone_with_type::<HashMap<String, String>>();
    people
        .insert_one(doc! { "_id": ObjectId::new(), "name": "Dia" })
        .await
        .expect("it is new");
    page.row("a stored `ObjectId` where the type has a `String`", {
        texts.find_one(doc! { "name": "Dia" }).await
    });
    page.row("a stored null where the type has no `Option`", {
        typed.find_one(doc! { "_id": 4 }).await
    });
    let numbers = people.clone_with_type::<HashMap<String, u64>>();
    let large = HashMap::from([("n".to_owned(), u64::MAX)]);
    page.row(
        "a number above that of the largest `i64`",
        numbers.insert_one(large).await,
    );
    let pairs = people.clone_with_type::<HashMap<(i32, i32), i32>>();
    page.row(
        "a map whose keys are no texts",
        pairs.insert_one(HashMap::from([((1, 2), 3)])).await,
    );
    let texts = people.clone_with_type::<Vec<i32>>();
    page.row(
        "a value that is no document",
        texts.insert_one(vec![1]).await,
    );
    page.row(
        "a zero byte in the name of a field",
        people.insert_one(doc! { "a\0b": 1 }).await,
    );
}

async fn sessions(page: &mut Page, world: &TokioWorld, people: &Collection<Document>) {
    page.heading("Sessions, transactions and streams");
    let client = people.client().clone();
    let mut session = client.start_session().await.expect("a session");
    page.row(
        "a commit without a transaction",
        session.commit_transaction().await,
    );
    session.start_transaction().await.expect("there is none");
    page.row(
        "a second transaction of a session",
        session.start_transaction().await,
    );
    page.row("`w: 0` in a transaction", {
        let concern = WriteConcern::nodes(0);
        people
            .insert_one(doc! {})
            .write_concern(concern)
            .session(&mut session)
            .await
    });
    people
        .insert_one(doc! { "_id": 7 })
        .session(&mut session)
        .await
        .expect("it is new");
    people
        .insert_one(doc! { "_id": 7 })
        .session(&mut session)
        .await
        .expect_err("it exists");
    page.row("another operation after one that failed", {
        people
            .insert_one(doc! { "_id": 8 })
            .session(&mut session)
            .await
    });
    session.abort_transaction().await.expect("it ends");
    page.row(
        "an abort of an aborted transaction",
        session.abort_transaction().await,
    );
    others(page, world, people, session).await;
}

/// Uses a session with another client, streams and files, and shuts the client down.
async fn others(
    page: &mut Page,
    world: &TokioWorld,
    people: &Collection<Document>,
    mut session: ClientSession,
) {
    let client = people.client().clone();
    let other = Client::with_uri_str(world.uri()).await.expect("a client");
    let others = other.database("shop").collection::<Document>("people");
    page.row(
        "a session of another client",
        others.insert_one(doc! {}).session(&mut session).await,
    );
    let removes_id = [doc! { "$project": { "_id": 0 } }];
    let mut stream = people
        .watch()
        .pipeline(removes_id)
        .await
        .expect("it is open");
    people
        .insert_one(doc! { "_id": 9 })
        .await
        .expect("it is new");
    page.row(
        "a change stream without its `_id`",
        stream.next_if_any().await,
    );
    let bucket = client.database("shop").gridfs_bucket(None);
    page.row(
        "a file that does not exist",
        bucket.open_download_stream_by_name("none").await,
    );
    page.row("a time limit that is too short", {
        people
            .find_one(doc! {})
            .timeout(Duration::from_micros(1))
            .await
    });
    client.clone().shutdown().await;
    page.row(
        "a client that was shut down",
        people.find_one(doc! {}).await,
    );
    drop(other);
}

async fn alone(page: &mut Page) {
    let world = TokioWorld::standalone(4);
    let client = Client::with_uri_str(world.uri()).await.expect("a client");
    let people = client.database("shop").collection::<Document>("people");
    page.row(
        "a change stream of a standalone server",
        people.watch().await,
    );
    let mut session = client.start_session().await.expect("a session");
    let result = match session.start_transaction().await {
        Ok(()) => people
            .insert_one(doc! {})
            .session(&mut session)
            .await
            .map(drop),
        Err(error) => Err(error),
    };
    page.row("a transaction of a standalone server", result);
    let pool = format!("{}?maxPoolSize=1&waitQueueTimeoutMS=100", world.uri());
    let client = Client::with_uri_str(pool).await.expect("a client");
    let people = client.database("shop").collection::<Document>("people");
    world.set_latency(Duration::from_millis(200), Duration::from_millis(200));
    let (first, second) = tokio::join!(people.find_one(doc! {}), people.find_one(doc! {}));
    page.row(
        "more operations than connections, and no time to wait",
        first.and(second),
    );
}

#[tokio::test(start_paused = true)]
async fn each_mistake_has_the_message_of_the_page() {
    let mut page = Page(HEAD.to_owned());
    strings::strings(&mut page);
    connecting(&mut page).await;
    let world = TokioWorld::replica_set(3, 3);
    let client = Client::with_uri_str(world.uri()).await.expect("a client");
    let people = client.database("shop").collection::<Document>("people");
    operations(&mut page, &people).await;
    queries(&mut page, &people).await;
    types(&mut page, &people).await;
    sessions(&mut page, &world, &people).await;
    drop(world);
    alone(&mut page).await;
    page.0.push_str(TAIL);
    if env::var_os("ONIONSKIN_WRITE").is_some() {
        fs::write(Path::new(PAGE), &page.0).expect("the page can be written");
    }
    let written = fs::read_to_string(PAGE).expect("there is a page");
    assert_eq!(page.0, written, "write the page anew: ONIONSKIN_WRITE=1");
}
