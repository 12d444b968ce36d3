//! The operations that are measured.

use crate::{
    files::Files,
    people::{BorrowedPerson, NewPerson, Person},
};
use onionskin::{
    Client, ClientSession, Collection, Database, Error, Runtime,
    bson::{Document, doc},
    options::InsertOneModel,
};
use smol::lock::Mutex;

/// The number of documents that a scan reads.
const SCAN_DOCUMENTS: i32 = 1000;

/// The number of documents that an operation of many writes inserts.
const MANY_DOCUMENTS: i32 = 10_000;

/// The number of documents that a batch reads.
const BATCH_DOCUMENTS: u32 = 200;

/// The handles that the operations use. They are made before the measurement.
pub(crate) struct Handles<R: Runtime> {
    admin: Database<R>,
    people: Collection<R, Person>,
    documents: Collection<R, Document>,
    inserted: Collection<R, Document>,
    new_people: Collection<R, NewPerson>,
    session: Mutex<ClientSession<R>>,
    /// `None` unless the operations are those of files.
    files: Option<Files<R>>,
}

impl<R: Runtime> Handles<R> {
    /// Fills the collections for operations of this kind.
    pub(crate) async fn new(client: &Client<R>, kind: &str) -> Result<Self, Error> {
        let people = client.database("cost").collection::<Person>("people");
        if people.count_documents(doc! {}).await? != SCAN_DOCUMENTS as u64 {
            people.delete_many(doc! {}).await?;
            people
                .insert_many((0..SCAN_DOCUMENTS).map(Person::new))
                .await?;
        }
        let inserted = client.database("cost").collection::<Document>("inserted");
        inserted.delete_many(doc! {}).await?;
        Ok(Self {
            admin: client.database("admin"),
            documents: people.clone_with_type(),
            people,
            new_people: inserted.clone_with_type(),
            inserted,
            session: Mutex::new(client.start_session().await?),
            files: match kind.ends_with("load") {
                true => Some(Files::new(client).await?),
                false => None,
            },
        })
    }

    /// Runs one operation.
    pub(crate) async fn once(&self, kind: &str) -> Result<(), Error> {
        match kind {
            "ping" => {
                self.admin.run_command(doc! { "ping": 1 }).await?;
            }
            "find" => {
                let found = self.people.find_one(doc! { "_id": 7 }).await?;
                assert!(
                    found.is_some_and(|person| person.id == 7),
                    "the document is there"
                );
            }
            "insert" => {
                self.inserted.insert_one(doc! { "x": 1 }).await?;
            }
            "insert-person" => {
                self.new_people.insert_one(NewPerson::default()).await?;
            }
            "insert-many" => {
                let all = (0..MANY_DOCUMENTS).map(|x| doc! { "x": x });
                let result = self.inserted.insert_many(all).await?;
                assert_eq!(result.inserted_ids.len(), MANY_DOCUMENTS as usize);
            }
            "bulk-write" => {
                let namespace = self.inserted.namespace();
                let models = (0..MANY_DOCUMENTS).map(|x| {
                    InsertOneModel::builder()
                        .namespace(namespace.clone())
                        .document(doc! { "x": x })
                        .build()
                });
                let result = self.inserted.client().bulk_write(models).await?;
                assert_eq!(result.inserted_count, i64::from(MANY_DOCUMENTS));
            }
            "transaction" | "three-commands" => self.insert_twice(kind).await?,
            "upload" | "download" | "socket-upload" | "socket-download" => {
                self.move_file(kind).await?;
            }
            other => return self.read_many(other).await,
        }
        Ok(())
    }

    async fn read_many(&self, kind: &str) -> Result<(), Error> {
        match kind {
            "batch" => {
                let found = self
                    .documents
                    .find(doc! {})
                    .limit(i64::from(BATCH_DOCUMENTS));
                let mut cursor = found.batch_size(BATCH_DOCUMENTS).await?;
                let mut count = 0;
                while let Some(document) = cursor.next().await {
                    count += u32::from(!document?.is_empty());
                }
                assert_eq!(count, BATCH_DOCUMENTS, "all came");
            }
            "scan" => {
                let mut cursor = self.people.find(doc! {}).batch_size(1000).await?;
                let mut sum = 0;
                while let Some(person) = cursor.next().await {
                    sum += person?.id;
                }
                assert_eq!(sum, SCAN_DOCUMENTS * (SCAN_DOCUMENTS - 1) / 2, "all came");
            }
            "scan-borrowed" => {
                let mut cursor = self.people.find(doc! {}).batch_size(1000).await?;
                let mut sum = 0;
                while cursor.advance().await? {
                    sum += cursor.deserialize_current_as::<BorrowedPerson<'_>>()?.id;
                }
                assert_eq!(sum, SCAN_DOCUMENTS * (SCAN_DOCUMENTS - 1) / 2, "all came");
            }
            "scan-document" => {
                let mut cursor = self.documents.find(doc! {}).batch_size(1000).await?;
                let mut count = 0;
                while let Some(document) = cursor.next().await {
                    count += i32::from(!document?.is_empty());
                }
                assert_eq!(count, SCAN_DOCUMENTS, "all came");
            }
            "scan-raw" => {
                let mut cursor = self.documents.find(doc! {}).batch_size(1000).await?;
                let mut count = 0;
                while cursor.advance().await? {
                    count += i32::from(cursor.current().as_bytes().len() > 5);
                }
                assert_eq!(count, SCAN_DOCUMENTS, "all came");
            }
            other => {
                let message = format!("no such kind of operation: {other}");
                return Err(Error::argument(message));
            }
        }
        Ok(())
    }

    /// Inserts two documents, in a transaction or followed by another command.
    async fn insert_twice(&self, kind: &str) -> Result<(), Error> {
        let session = &mut *self.session.lock().await;
        if kind == "transaction" {
            session.start_transaction().await?;
        }
        for x in [1, 2] {
            let insert = self.inserted.insert_one(doc! { "x": x });
            insert.session(&mut *session).await?;
        }
        if kind == "transaction" {
            return session.commit_transaction().await;
        }
        let ping = self.admin.run_command(doc! { "ping": 1 });
        ping.session(session).await.map(drop)
    }

    async fn move_file(&self, kind: &str) -> Result<(), Error> {
        match (&self.files, kind) {
            (Some(files), "upload") => files.upload().await,
            (Some(files), "download") => files.download().await,
            (Some(files), "socket-upload") => files.socket_upload().await,
            (Some(files), "socket-download") => files.socket_download().await,
            _ => Err(Error::argument(format!(
                "no such kind of operation: {kind}"
            ))),
        }
    }
}
