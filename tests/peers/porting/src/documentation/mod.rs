//! The calls that the documentation of the official driver shows, on tokio.

mod clients;
mod conversions;
mod documents;
mod failures;
mod files;
mod schema;
mod streams;
mod tokens;
mod transactions;

#[allow(
    deprecated,
    reason = "the official driver deprecates its traits of handlers"
)]
use crate::driver::{
    Client, ClientSession, Collection, Cursor, Database, IndexModel, Namespace, SessionCursor,
    action::Action,
    bson::{self, Bson, Document, doc, oid::ObjectId, rawdoc},
    error::{Error, ErrorKind, Result},
    event::{
        EventHandler,
        cmap::{CmapEvent, CmapEventHandler, ConnectionReadyEvent},
        command::{CommandEvent, CommandEventHandler},
        sdam::{SdamEvent, SdamEventHandler, ServerDescriptionChangedEvent},
    },
    options::{
        Acknowledgment, AggregateOptions, ClientOptions, Collation, CollationStrength,
        CollectionOptions, CountOptions, CreateCollectionOptions, CursorType, DatabaseOptions,
        DeleteOptions, FindOneAndUpdateOptions, FindOneOptions, FindOptions, Hint, IndexOptions,
        InsertManyOptions, ReadConcern, ReadPreference, ReadPreferenceOptions, ReturnDocument,
        SelectionCriteria, ServerAddress, ServerApi, ServerApiVersion, SessionOptions, TagSet,
        UpdateModifications, UpdateOptions, WriteConcern, WriteModel,
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
use {
    clients::*, conversions::*, documents::*, failures::*, files::*, schema::*, streams::*,
    tokens::*, transactions::*,
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

#[derive(Deserialize)]
struct Title<'a> {
    #[serde(borrow)]
    title: &'a str,
}

pub async fn run(uri: &str) -> Result<()> {
    client_options(uri).await?;
    credentials().await?;
    encryption().await?;
    callbacks().await?;
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
    variables(&db).await?;
    models_of_types(&client, &db).await?;
    secondaries(&db).await?;
    indexes(&db).await?;
    aggregations(&db).await?;
    commands(&client, &db).await?;
    collections(&db).await?;
    time_series(&db).await?;
    change_streams(&client, &db).await?;
    files(&db).await?;
    transactions(&client, &db).await?;
    repeated_transactions(&client, &db).await?;
    libraries(&client).await?;
    conversions(uri, &db).await?;
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
    handlers(uri).await?;
    pool_and_server_events(uri).await?;
    warm_pools(uri).await?;
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
