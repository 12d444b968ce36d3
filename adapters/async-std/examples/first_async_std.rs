//! Inserts a document and reads it back. Run the program with the URI of a deployment:
//!
//!     cargo run -p onionskin-async-std --example first_async_std -- mongodb://localhost:27017

use onionskin_async_std::{
    Client,
    bson::{Document, doc},
};
use std::time::Duration;

fn main() -> onionskin_async_std::Result<()> {
    async_std::task::block_on(run())
}

async fn run() -> onionskin_async_std::Result<()> {
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
