//! Scratch.
use onionskin_tokio::{
    Client,
    bson::{Document, doc},
};
#[tokio::main(flavor = "current_thread")]
async fn main() -> onionskin_tokio::Result<()> {
    let uri = std::env::args().nth(1).unwrap();
    let client = Client::with_uri_str(&uri).await?;
    println!(
        "{}",
        client
            .database("admin")
            .run_command(doc! {"ping": 1})
            .await?
    );
    let c = client.database("app").collection::<Document>("people");
    c.delete_many(doc! {}).await?;
    for i in 0..250 {
        c.insert_one(doc! {"n": i}).await?;
    }
    println!("{:?}", c.find_one(doc! {"n": 7}).await?);
    let mut cursor = c.find(doc! {}).batch_size(100).await?;
    let mut n = 0;
    while let Some(d) = cursor.next().await {
        d?;
        n += 1;
    }
    println!("found {n}");
    println!(
        "{:?}",
        c.update_one(doc! {"n": 7}, doc! {"$set": {"x": 1}}).await?
    );
    println!("{:?}", c.delete_one(doc! {"n": 7}).await?);
    println!("count {:?}", c.count_documents(doc! {}).await?);
    let start = std::time::Instant::now();
    let db = client.database("admin");
    for _ in 0..10_000 {
        db.run_command(doc! {"ping": 1}).await?;
    }
    println!("10k pings {:?}", start.elapsed());
    client.shutdown().await;
    Ok(())
}
