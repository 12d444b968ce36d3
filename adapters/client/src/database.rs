//! Handles of databases.

use crate::{
    Aggregate, Client, Collection, CreateCollection, DropDatabase, ListCollectionNames,
    ListCollections, RunCommand, RunCursorCommand, Runtime,
    options::{CollectionOptions, DatabaseOptions, ReadConcern, SelectionCriteria, WriteConcern},
};
use bson::{Document, RawDocumentBuf};
use onionskin_core::{
    bson::decode_document,
    error::Error,
    operation::crud::{Defaults, check_database_name},
};
use std::{fmt, sync::Arc};

/// A handle of a database. Cloning is cheap.
///
/// Read preference, read concern and write concern are those of the client, unless the handle
/// ([`Client::database_with_options`]) sets them.
pub struct Database<R: Runtime> {
    client: Client<R>,
    name: Arc<str>,
    /// True if [`check_name`](Self::check_name) succeeds.
    is_valid: bool,
    defaults: Arc<Defaults>,
}

impl<R: Runtime> Clone for Database<R> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            name: self.name.clone(),
            is_valid: self.is_valid,
            defaults: self.defaults.clone(),
        }
    }
}

impl<R: Runtime> fmt::Debug for Database<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("name", &self.name)
            .field("defaults", &self.defaults)
            .finish_non_exhaustive()
    }
}

impl<R: Runtime> Database<R> {
    pub(crate) fn new(client: Client<R>, name: &str, options: DatabaseOptions) -> Self {
        let defaults = match options == DatabaseOptions::default() {
            true => client.defaults().clone(),
            false => Arc::new(client.defaults().with(options.into())),
        };
        Self {
            client,
            is_valid: check_database_name(name).is_ok(),
            name: name.into(),
            defaults,
        }
    }

    /// Returns the name of the database.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Runtime};
    /// # fn example<R: Runtime>(client: Client<R>) {
    /// assert_eq!(client.database("shop").name(), "shop");
    /// # }
    /// ```
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the client of the database.
    ///
    /// ```no_run
    /// # use onionskin::{Database, Error, Runtime};
    /// # async fn example<R: Runtime>(database: Database<R>) -> Result<(), Error> {
    /// let mut session = database.client().start_session().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn client(&self) -> &Client<R> {
        &self.client
    }

    /// Returns how servers are selected for reads; `None` for the primary.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Runtime};
    /// use onionskin::options::{DatabaseOptions, ReadPreference, SelectionCriteria};
    ///
    /// # fn example<R: Runtime>(client: Client<R>) {
    /// let criteria = SelectionCriteria::from(ReadPreference::secondary(None));
    /// let options = DatabaseOptions::builder().selection_criteria(criteria.clone()).build();
    /// let reports = client.database_with_options("reports", options);
    /// assert_eq!(reports.selection_criteria(), Some(&criteria));
    /// # }
    /// ```
    #[must_use]
    pub fn selection_criteria(&self) -> Option<&SelectionCriteria> {
        self.defaults.selection_criteria()
    }

    /// Returns the read concern; `None` for the default of the server.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Runtime};
    /// use onionskin::options::{DatabaseOptions, ReadConcern};
    ///
    /// # fn example<R: Runtime>(client: Client<R>) {
    /// let options = DatabaseOptions::builder().read_concern(ReadConcern::majority()).build();
    /// let shop = client.database_with_options("shop", options);
    /// assert_eq!(shop.read_concern(), Some(&ReadConcern::majority()));
    /// # }
    /// ```
    #[must_use]
    pub fn read_concern(&self) -> Option<&ReadConcern> {
        self.defaults.read_concern.as_ref()
    }

    /// Returns the write concern; `None` for the default of the server.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Runtime};
    /// use onionskin::options::{DatabaseOptions, WriteConcern};
    ///
    /// # fn example<R: Runtime>(client: Client<R>) {
    /// let options = DatabaseOptions::builder().write_concern(WriteConcern::majority()).build();
    /// let shop = client.database_with_options("shop", options);
    /// assert_eq!(shop.write_concern(), Some(&WriteConcern::majority()));
    /// # }
    /// ```
    #[must_use]
    pub fn write_concern(&self) -> Option<&WriteConcern> {
        self.defaults.write_concern.as_ref()
    }

    /// Returns a handle of a collection whose documents are read and written as `T`. Nothing is
    /// sent to a server.
    ///
    /// ```no_run
    /// # use onionskin::{Database, Error, Runtime, bson::doc};
    /// # async fn example<R: Runtime>(app: Database<R>) -> Result<(), Error> {
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Person { name: String, born: i32 }
    ///
    /// let people = app.collection::<Person>("people");
    /// people.insert_one(Person { name: "Ada".to_owned(), born: 1815 }).await?;
    /// let ada: Option<Person> = people.find_one(doc! { "name": "Ada" }).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn collection<T: Send + Sync>(&self, name: &str) -> Collection<R, T> {
        Collection::new(self, name, CollectionOptions::default())
    }

    /// Returns a handle of a collection with options of its own. Nothing is sent to a server.
    ///
    /// ```no_run
    /// # use onionskin::{Database, Runtime, bson::Document};
    /// use onionskin::options::{CollectionOptions, WriteConcern};
    ///
    /// # fn example<R: Runtime>(database: Database<R>) {
    /// let options = CollectionOptions::builder().write_concern(WriteConcern::majority()).build();
    /// let orders = database.collection_with_options::<Document>("orders", options);
    /// # }
    /// ```
    #[must_use]
    pub fn collection_with_options<T: Send + Sync>(
        &self,
        name: &str,
        options: CollectionOptions,
    ) -> Collection<R, T> {
        Collection::new(self, name, options)
    }

    /// Runs a command and returns the reply of the server.
    ///
    /// The read preference is `primary` by default. Read concern and write concern are neither
    /// added nor examined. The command must not contain fields that the driver adds: `$db`, `lsid`,
    /// `$clusterTime`, `$readPreference`, and those of the Stable API ([RUN-2], [RUN-17]).
    ///
    /// The command is retried only after overload errors, and only if both `retryReads` and
    /// `retryWrites` are on, unless [`retry_as_read`](RunCommand::retry_as_read) or
    /// [`retry_as_write`](RunCommand::retry_as_write) says how ([RUN-21], [BP-3]).
    ///
    /// ```no_run
    /// # use onionskin::{Database, Error, Runtime, bson::doc};
    /// # async fn example<R: Runtime>(database: Database<R>) -> Result<(), Error> {
    /// let statistics = database.run_command(doc! { "dbStats": 1 }).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [RUN-2]: onionskin_core::requirements::messages#RUN-2
    /// [RUN-17]: onionskin_core::requirements::messages#RUN-17
    /// [RUN-21]: onionskin_core::requirements::messages#RUN-21
    /// [BP-3]: onionskin_core::requirements::retries#BP-3
    pub fn run_command(&self, command: Document) -> RunCommand<'_, R> {
        RunCommand::new(self, Ok(command))
    }

    /// Runs a command that is encoded already, as [`run_command`](Self::run_command) does. Fails if
    /// the bytes are not BSON.
    ///
    /// ```no_run
    /// # use onionskin::{Database, Error, Runtime, bson::rawdoc};
    /// # async fn example<R: Runtime>(database: Database<R>) -> Result<(), Error> {
    /// let reply = database.run_raw_command(rawdoc! { "ping": 1 }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_raw_command(&self, command: RawDocumentBuf) -> RunCommand<'_, R> {
        RunCommand::new(self, decoded(&command))
    }

    /// Runs a command whose reply has a cursor, and returns the cursor.
    ///
    /// The command is treated as in [`run_command`](Self::run_command). The options for batches
    /// concern further batches only; those of the first batch are fields of the command. Fails if
    /// the reply has no cursor ([RUN-34], [RUN-26]).
    ///
    /// ```no_run
    /// # use onionskin::{Database, Error, Runtime, bson::doc};
    /// # async fn example<R: Runtime>(database: Database<R>) -> Result<(), Error> {
    /// let command = doc! { "find": "people", "batchSize": 100 };
    /// let cursor = database.run_cursor_command(command).batch_size(100).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [RUN-34]: onionskin_core::requirements::messages#RUN-34
    /// [RUN-26]: onionskin_core::requirements::messages#RUN-26
    pub fn run_cursor_command(&self, command: Document) -> RunCursorCommand<'_, R> {
        RunCursorCommand::new(self, Ok(command))
    }

    /// Runs a command that is encoded already, as
    /// [`run_cursor_command`](Self::run_cursor_command) does. Fails if the bytes are not BSON.
    ///
    /// ```no_run
    /// # use onionskin::{Database, Error, Runtime, bson::rawdoc};
    /// # async fn example<R: Runtime>(database: Database<R>) -> Result<(), Error> {
    /// let command = rawdoc! { "find": "people" };
    /// let people = database.run_raw_cursor_command(command).await?.into_vec().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_raw_cursor_command(&self, command: RawDocumentBuf) -> RunCursorCommand<'_, R> {
        RunCursorCommand::new(self, decoded(&command))
    }

    /// Runs an aggregation pipeline on the database, whose first stage makes its own documents, for
    /// example `$documents` or `$currentOp`.
    ///
    /// ```no_run
    /// # use onionskin::{Database, Error, Runtime, bson::doc};
    /// # async fn example<R: Runtime>(database: Database<R>) -> Result<(), Error> {
    /// let numbers = doc! { "$documents": [{ "n": 1 }, { "n": 2 }] };
    /// let numbers = database.aggregate([numbers]).await?.into_vec().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn aggregate(&self, pipeline: impl IntoIterator<Item = Document>) -> Aggregate<R> {
        Aggregate::on_database(self, pipeline)
    }

    /// Creates a collection or a view. Collections without options need not be created: the first
    /// insert does it.
    ///
    /// ```no_run
    /// # use onionskin::{Database, Error, Runtime, bson::doc};
    /// # async fn example<R: Runtime>(database: Database<R>) -> Result<(), Error> {
    /// database.create_collection("log").capped(true).size(1_000_000).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_collection(&self, name: impl AsRef<str>) -> CreateCollection<'_, R> {
        CreateCollection::new(self, name.as_ref().into())
    }

    /// Lists the collections and views.
    ///
    /// ```no_run
    /// # use onionskin::{Database, Error, Runtime, bson::doc};
    /// # async fn example<R: Runtime>(database: Database<R>) -> Result<(), Error> {
    /// for collection in database.list_collections().await?.into_vec().await? {
    ///     println!("{} {:?}", collection.name, collection.collection_type);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn list_collections(&self) -> ListCollections<'_, R> {
        ListCollections::new(self)
    }

    /// Lists the names of the collections and views.
    ///
    /// ```no_run
    /// # use onionskin::{Database, Error, Runtime, bson::doc};
    /// # async fn example<R: Runtime>(database: Database<R>) -> Result<(), Error> {
    /// let names = database.list_collection_names().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn list_collection_names(&self) -> ListCollectionNames<'_, R> {
        ListCollectionNames::new(self)
    }

    /// Drops the database with all its collections. A database that does not exist is no error.
    ///
    /// ```no_run
    /// # use onionskin::{Database, Error, Runtime, bson::doc};
    /// # async fn example<R: Runtime>(database: Database<R>) -> Result<(), Error> {
    /// database.drop().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn drop(&self) -> DropDatabase<'_, R> {
        DropDatabase::new(self)
    }

    pub(crate) fn check_name(&self) -> Result<(), Error> {
        match self.is_valid {
            true => Ok(()),
            false => check_database_name(&self.name),
        }
    }

    pub(crate) const fn shared_name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) const fn shared_defaults(&self) -> &Arc<Defaults> {
        &self.defaults
    }
}

/// Decodes a command, whose fields the driver examines and completes.
fn decoded(command: &RawDocumentBuf) -> Result<Document, Error> {
    let decoded = decode_document(command);
    decoded.map_err(|error| Error::argument(format!("the command is not BSON: {error}")))
}
