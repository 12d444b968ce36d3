//! Inserts a document and reads it back. Run the program with the URI of a deployment:
//!
//!     cargo run -p onionskin-blocking --example first_blocking -- mongodb://localhost:27017

use onionskin_blocking::{
    Client, Run,
    bson::{Document, doc},
};
use std::time::Duration;

fn main() -> onionskin_blocking::Result<()> {
    let uri = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "mongodb://localhost:27017".to_owned());
    let client = Client::with_uri_str(uri)?;
    let people = client.database("app").collection::<Document>("people");

    people
        .insert_one(doc! { "name": "Ada", "born": 1815 })
        .run()?;
    let ada = people
        .find_one(doc! { "name": "Ada" })
        .timeout(Duration::from_secs(2))
        .run()?;
    println!("{ada:?}");

    for person in people.find(doc! { "born": { "$lt": 1900 } }).run()? {
        println!("{}", person?);
    }
    client.shutdown().run();
    Ok(())
}
