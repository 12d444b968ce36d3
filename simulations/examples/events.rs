//! Prints the log messages of the events of a client, in the words of the specifications.
//!
//! `cargo run -p onionskin-simulations --example events -- [URI]`
//!
//! Without a URI, the client connects to a simulated replica set.

use onionskin_serve::{Embedded, ServeOptions};
use onionskin_tokio::{
    Client, TokioRuntime,
    bson::{Document, doc},
    event::Event,
    log,
};
use std::{env, error, sync::Arc};

#[tokio::main]
async fn main() -> Result<(), Box<dyn error::Error>> {
    let embedded;
    let uri = match env::args().nth(1) {
        Some(uri) => uri,
        None => {
            embedded = Embedded::start(ServeOptions::replica_set("rs0", 3))?;
            embedded.uri().to_owned()
        }
    };
    let listener = Arc::new(|event: &Event| {
        if let Some(record) = log::record(event, 200) {
            println!(
                "{} {} {}: {record}",
                event.at,
                record.level(),
                record.component()
            );
        }
    });
    let client = Client::builder_from_uri(TokioRuntime::default(), &uri)?
        .event_listener(listener)
        .build()?;
    let people = client.database("app").collection::<Document>("people");
    people.insert_one(doc! { "name": "Ada" }).await?;
    people.find_one(doc! { "name": "Ada" }).await?;
    client.shutdown().await;
    Ok(())
}
