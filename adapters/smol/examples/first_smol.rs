//! Inserts a document and reads it back. Run the program with the URI of a deployment:
//!
//!     cargo run -p onionskin-smol --example first_smol -- mongodb://localhost:27017

use onionskin_smol::{
    Client,
    bson::{Document, doc},
};
use std::time::Duration;

fn main() -> onionskin_smol::Result<()> {
    smol::block_on(run())
}

async fn run() -> onionskin_smol::Result<()> {
    let uri = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "mongodb://localhost:27017".to_owned());
    let client = Client::with_uri_str(uri).await?;
    let people = client.database("app").collection::<Document>("people");

    people
        .insert_one(doc! { "name": "Ada", "born": 1815 })
        .await?;
    let ada = people
        .find_one(doc! { "name": "Ada" })
        .timeout(Duration::from_secs(2))
        .await?;
    println!("{ada:?}");

    let mut cursor = people.find(doc! { "born": { "$lt": 1900 } }).await?;
    while let Some(person) = cursor.next().await {
        println!("{}", person?);
    }
    client.shutdown().await;
    Ok(())
}
