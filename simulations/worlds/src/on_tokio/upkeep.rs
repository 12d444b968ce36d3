//! Changes of a world between two tests, or before one.

use super::TokioWorld;
use bson::Document;
use onionskin_core::time::Instant;
use onionskin_deployment::{deployment::Deployment, store::Namespace};
use std::time::Duration;
use tokio::time::sleep;

/// The longest virtual time until a member can write and all members have its change.
const SETTLE_LIMIT: Duration = Duration::from_secs(60);

/// The resolution of tokio's timers.
const TICK: Duration = Duration::from_millis(1);

impl TokioWorld {
    /// Inserts documents into a collection, which need not exist. The call ends when all members
    /// that run have the documents. This takes a few milliseconds of virtual time, or as long as an
    /// election; after 60 seconds it fails.
    ///
    /// # Errors
    ///
    /// Returns the reason if a document or the name is not valid or an open transaction uses the
    /// collection; no document is inserted then. Fails as well if no member can write in time, or
    /// if a member that runs does not get the documents in time, as during an isolation.
    ///
    /// ```
    /// use onionskin_tokio::{Client, bson::{Document, doc}};
    /// use onionskin_worlds::on_tokio::{TokioWorld, seeds};
    ///
    /// seeds("cargo test people_are_counted", 0..2, |seed| async move {
    ///     let world = TokioWorld::replica_set(seed, 3);
    ///     let people = vec![doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2, "name": "Grace" }];
    ///     world.insert("app", "people", people).await?;
    ///     let client = Client::with_uri_str(world.uri()).await.expect("a client");
    ///     let people = client.database("app").collection::<Document>("people");
    ///     assert_eq!(people.count_documents(doc! {}).await.expect("a count"), 2);
    ///     Ok::<(), String>(())
    /// });
    /// ```
    pub async fn insert(
        &self,
        database: &str,
        collection: &str,
        documents: Vec<Document>,
    ) -> Result<(), String> {
        let namespace = Namespace::new(database, collection);
        let insert = |deployment: &mut Deployment, now: Instant| {
            deployment.insert(now, &namespace, &documents)
        };
        self.change(insert).await
    }

    /// Prepares the world for the next part of a test: does what [`heal`](Self::heal) does, drops
    /// all databases, makes the users and the server parameters as they were at the start, and ends
    /// transactions, cursors and fail points. [`Deployment::restore`] has the whole list.
    ///
    /// Connections to members that run stay, and so do sessions, [latencies](Self::set_latency),
    /// the picture and the virtual time. The call ends when all members have dropped their data.
    /// This takes a few milliseconds of virtual time, or as long as an election; after 60 seconds
    /// it fails.
    ///
    /// # Errors
    ///
    /// Returns the reason if it takes longer, for example because no member can write.
    ///
    /// ```
    /// use onionskin_tokio::{Client, bson::{Document, doc}};
    /// use onionskin_worlds::on_tokio::{TokioWorld, seeds};
    ///
    /// seeds("cargo test orders_are_dropped", 0..2, |seed| async move {
    ///     let world = TokioWorld::replica_set(seed, 3);
    ///     let client = Client::with_uri_str(world.uri()).await.expect("a client");
    ///     let orders = client.database("shop").collection::<Document>("orders");
    ///     orders.insert_one(doc! { "_id": 1 }).await.expect("a primary");
    ///     world.kill(1);
    ///     world.reset().await?;
    ///     assert_eq!(orders.count_documents(doc! {}).await.expect("a count"), 0);
    ///     Ok::<(), String>(())
    /// });
    /// ```
    pub async fn reset(&self) -> Result<(), String> {
        self.heal();
        self.operate_now(Deployment::restore);
        self.change(|deployment, now| Ok(deployment.drop_data(now)))
            .await
    }

    /// Makes a change as soon as its result is true, and waits until all members have it.
    async fn change(
        &self,
        change: impl Fn(&mut Deployment, Instant) -> Result<bool, String>,
    ) -> Result<(), String> {
        let start = self.elapsed();
        let mut is_made = false;
        loop {
            if !is_made {
                is_made = self.operate_now(&change)?;
            }
            if is_made && self.runtime().inspect(Deployment::is_level) {
                return Ok(());
            }
            if self.elapsed() - start > SETTLE_LIMIT {
                return Err(match is_made {
                    true => "a member lacks the last changes".to_owned(),
                    false => "no member can write".to_owned(),
                });
            }
            sleep(TICK).await;
        }
    }

    /// Calls a function with the deployment and the present time.
    fn operate_now<T>(&self, action: impl FnOnce(&mut Deployment, Instant) -> T) -> T {
        let result = self.runtime().operate_now(action);
        self.shared.wake_driver();
        result
    }
}
