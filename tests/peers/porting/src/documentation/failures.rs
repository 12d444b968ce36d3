//! Errors and events.

#![allow(
    deprecated,
    reason = "the official driver deprecates its traits of handlers"
)]

use super::*;

pub(super) fn is_duplicate(error: &Error) -> bool {
    match error.kind.as_ref() {
        ErrorKind::Write(WriteFailure::WriteError(WriteError { code: 11000, .. })) => true,
        _ => false,
    }
}

pub(super) async fn errors(db: &Database) -> Result<()> {
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

pub(super) fn custom_errors() -> Result<()> {
    let error = Error::custom("mine".to_string());
    println!("{:?}", error.get_custom::<String>());
    println!("custom: {}", matches!(*error.kind, ErrorKind::Custom(_)));
    let io: Error = std::io::Error::from(std::io::ErrorKind::NotFound).into();
    println!("io: {}", matches!(*io.kind, ErrorKind::Io(_)));
    Ok(())
}

pub(super) async fn no_server() -> Result<()> {
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

pub(super) fn describe(event: &CommandEvent) -> String {
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

pub(super) async fn command_events(uri: &str) -> Result<()> {
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

pub(super) async fn event_channels(uri: &str) -> Result<()> {
    let (to, mut from) = tokio::sync::mpsc::channel::<CommandEvent>(100);
    let mut options = ClientOptions::parse(uri).await?;
    options.command_event_handler = Some(to.into());
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

pub(super) async fn pool_and_server_events(uri: &str) -> Result<()> {
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

/// Handlers that are types with a method for each event, which the official driver calls
/// deprecated.
#[derive(Default)]
struct Counting {
    pings: Mutex<u32>,
    connections: Mutex<u32>,
    servers: Mutex<u32>,
}

impl CommandEventHandler for Counting {
    fn handle_command_succeeded_event(&self, event: CommandSucceededEvent) {
        *self.pings.lock().unwrap() += u32::from(event.command_name == "ping");
    }
}

impl CmapEventHandler for Counting {
    fn handle_connection_ready_event(&self, event: ConnectionReadyEvent) {
        *self.connections.lock().unwrap() += event.connection_id;
    }
}

impl SdamEventHandler for Counting {
    fn handle_server_description_changed_event(&self, event: ServerDescriptionChangedEvent) {
        let is_changed =
            event.new_description.server_type() != event.previous_description.server_type();
        *self.servers.lock().unwrap() += u32::from(is_changed);
    }
}

pub(super) async fn handlers(uri: &str) -> Result<()> {
    let counting = Arc::new(Counting::default());
    let events = ClientOptions::builder()
        .cmap_event_handler(counting.clone())
        .command_event_handler(counting.clone())
        .sdam_event_handler(counting.clone())
        .build();
    let mut options = ClientOptions::parse(uri).await?;
    options.cmap_event_handler = events.cmap_event_handler;
    options.command_event_handler = events.command_event_handler;
    options.sdam_event_handler = events.sdam_event_handler;
    let client = Client::with_options(options)?;
    let db = client.database("admin");
    db.run_command(doc! { "ping": 1 }).await?;
    client.shutdown().await;
    println!("{}", counting.pings.lock().unwrap());
    println!("{}", *counting.connections.lock().unwrap() > 0);
    println!("{}", *counting.servers.lock().unwrap() > 0);
    Ok(())
}

/// Handles are cheap to clone, and go to other tasks.
pub(super) async fn tasks(client: &Client) -> Result<()> {
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
