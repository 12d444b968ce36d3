//! Calls that create, drop, rename and list collections and databases.

use super::{collection_call, cursor_call, setters, single};
use crate::{
    Client, ClientSession, Collection, Cursor, Database, Execution, Runtime, SessionCursor,
    decode::{DatabaseNames, Databases, Done, OpenCursor},
    futures::{
        CreateCollectionFuture, DropCollectionFuture, DropDatabaseFuture,
        ListCollectionNamesFuture, ListCollectionsFuture, ListDatabaseNamesFuture,
        ListDatabasesFuture, RenameCollectionFuture, SessionCursorFuture,
    },
    options::*,
    session::{ImplicitSession, UsedSession},
};
use bson::{Bson, Document};
use onionskin_core::{
    error::Error,
    operation::{
        Command,
        crud::{self, CollectionSpecification, DatabaseSpecification, Listed, SharedNamespace},
    },
};
use std::{future::IntoFuture, marker::PhantomData, sync::Arc, time::Duration};

collection_call! {
    /// A `drop` of a collection that runs when it is awaited. A collection that does not exist is
    /// no error.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::Document};
    /// use onionskin::options::WriteConcern;
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// people
    ///     .drop()
    ///     .write_concern(WriteConcern::majority())
    ///     .comment("end of the test")
    ///     .timeout(Duration::from_secs(30))
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    DropCollection {} with DropCollectionOptions listed by drop_collection_options
}

impl<R: Runtime, T: Send + Sync> IntoFuture for DropCollection<'_, R, T> {
    type Output = Result<(), Error>;
    type IntoFuture = DropCollectionFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let options = DropCollectionOptions::or_unset(self.options.as_deref());
        let namespace = self.collection.checked_namespace();
        let command = namespace.and_then(|namespace| {
            crud::drop_collection(namespace, options, self.collection.defaults())
        });
        let client = self.collection.client();
        DropCollectionFuture(single(client, self.session, command, Done::OrMissing))
    }
}

collection_call! {
    /// A `rename` of a collection that runs when it is awaited.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::Document};
    /// use onionskin::options::WriteConcern;
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// people
    ///     .rename("persons")
    ///     .drop_target(true)
    ///     .write_concern(WriteConcern::majority())
    ///     .comment("release 7")
    ///     .timeout(Duration::from_secs(30))
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    RenameCollection { to: SharedNamespace, }
    with RenameCollectionOptions listed by rename_collection_options
}

impl<R: Runtime, T: Send + Sync> IntoFuture for RenameCollection<'_, R, T> {
    type Output = Result<(), Error>;
    type IntoFuture = RenameCollectionFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let options = RenameCollectionOptions::or_unset(self.options.as_deref());
        let namespace = self.collection.checked_namespace();
        let command = namespace.and_then(|namespace| {
            self.to.check()?;
            crud::rename_collection(namespace, &self.to, options, self.collection.defaults())
        });
        let client = self.collection.client();
        RenameCollectionFuture(single(client, self.session, command, Done::OnSuccess))
    }
}

/// Declares a call on a database or a client.
macro_rules! handle_call {
    (
        $(#[$about:meta])*
        $name:ident on $handle:ident: $type:ty { $($field:ident: $field_type:ty,)* }
        with $options:ident listed by $table:ident
    ) => {
        $(#[$about])*
        #[must_use = "a call runs when it is awaited"]
        pub struct $name<'a, R: Runtime> {
            $handle: &'a $type,
            $($field: $field_type,)*
            options: Option<Box<$options>>,
            session: Option<UsedSession>,
        }

        impl<'a, R: Runtime> $name<'a, R> {
            pub(crate) fn new($handle: &'a $type, $($field: $field_type),*) -> Self {
                Self {
                    $handle,
                    $($field,)*
                    options: None,
                    session: None,
                }
            }

            /// Makes the call run in this session.
            ///
            /// ```no_run
            /// # use onionskin::{Database, Error, Runtime};
            /// # async fn example<R: Runtime>(database: Database<R>) -> Result<(), Error> {
            /// let mut session = database.client().start_session().await?;
            /// database.create_collection("people").session(&mut session).await?;
            /// let names = database.list_collection_names().session(&mut session).await?;
            /// # Ok(())
            /// # }
            /// ```
            pub fn session(mut self, session: &mut ClientSession<R>) -> Self {
                self.session = Some(session.used_by(self.$handle.client()));
                self
            }
        }

        onionskin_core::$table! { setters [R: Runtime] [$name<'_, R>] }
    };
}

handle_call! {
    /// A `create_collection` that runs when it is awaited.
    ///
    /// ```no_run
    /// # use onionskin::{Database, Error, Runtime, bson::doc};
    /// use onionskin::options::{
    ///     ChangeStreamPreAndPostImages, ClusteredIndex, Collation, IndexOptionDefaults,
    ///     TimeseriesOptions, ValidationAction, ValidationLevel, WriteConcern,
    /// };
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(database: Database<R>) -> Result<(), Error> {
    /// // A log of fixed size.
    /// database
    ///     .create_collection("log")
    ///     .capped(true)
    ///     .size(1_048_576)
    ///     .max(10_000)
    ///     .storage_engine(doc! { "wiredTiger": { "configString": "block_compressor=zlib" } })
    ///     .await?;
    /// // People, whose changes a change stream can return in full.
    /// let images = ChangeStreamPreAndPostImages::builder().enabled(true).build();
    /// database
    ///     .create_collection("people")
    ///     .change_stream_pre_and_post_images(images)
    ///     .collation(Collation::builder().locale("de").build())
    ///     .index_option_defaults(IndexOptionDefaults::default())
    ///     .validator(doc! { "name": { "$type": "string" } })
    ///     .validation_level(ValidationLevel::Strict)
    ///     .validation_action(ValidationAction::Error)
    ///     .write_concern(WriteConcern::majority())
    ///     .comment("release 7")
    ///     .timeout(Duration::from_secs(30))
    ///     .await?;
    /// // A view of these people.
    /// database
    ///     .create_collection("names")
    ///     .view_on("people")
    ///     .pipeline([doc! { "$project": { "name": 1 } }])
    ///     .await?;
    /// // Measurements that are kept for a day.
    /// database
    ///     .create_collection("measurements")
    ///     .timeseries(TimeseriesOptions::new("at"))
    ///     .expire_after_seconds(Duration::from_secs(86_400))
    ///     .await?;
    /// // Documents that are stored by their `_id`.
    /// database.create_collection("keys").clustered_index(ClusteredIndex::default()).await?;
    /// # Ok(())
    /// # }
    /// ```
    CreateCollection on database: Database<R> { name: Arc<str>, }
    with CreateCollectionOptions listed by create_collection_options
}

impl<R: Runtime> IntoFuture for CreateCollection<'_, R> {
    type Output = Result<(), Error>;
    type IntoFuture = CreateCollectionFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let options = CreateCollectionOptions::or_unset(self.options.as_deref());
        let namespace = SharedNamespace::unchecked(self.database.shared_name().clone(), self.name);
        let command = namespace.check().and_then(|()| {
            crud::create_collection(&namespace, options, self.database.shared_defaults())
        });
        let client = self.database.client();
        CreateCollectionFuture(single(client, self.session, command, Done::OnSuccess))
    }
}

handle_call! {
    /// A `drop` of a database that runs when it is awaited.
    ///
    /// ```no_run
    /// # use onionskin::{Database, Error, Runtime};
    /// use onionskin::options::WriteConcern;
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(database: Database<R>) -> Result<(), Error> {
    /// database
    ///     .drop()
    ///     .write_concern(WriteConcern::majority())
    ///     .comment("end of the test")
    ///     .timeout(Duration::from_secs(30))
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    DropDatabase on database: Database<R> {}
    with DropDatabaseOptions listed by drop_database_options
}

impl<R: Runtime> IntoFuture for DropDatabase<'_, R> {
    type Output = Result<(), Error>;
    type IntoFuture = DropDatabaseFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let options = DropDatabaseOptions::or_unset(self.options.as_deref());
        let (name, defaults) = (self.database.shared_name(), self.database.shared_defaults());
        let command = crud::drop_database(name, options, defaults);
        let client = self.database.client();
        DropDatabaseFuture(single(client, self.session, command, Done::OrMissing))
    }
}

/// A `list_collections` that runs when it is awaited. Its result is a [`Cursor`], or in a session a
/// [`SessionCursor`].
///
/// ```no_run
/// # use onionskin::{Database, Error, Runtime, bson::doc};
/// use onionskin::options::TimeoutMode;
/// use std::time::Duration;
///
/// # async fn example<R: Runtime>(database: Database<R>) -> Result<(), Error> {
/// let views = database
///     .list_collections()
///     .filter(doc! { "type": "view" })
///     .authorized_collections(true)
///     .batch_size(100)
///     .comment("list of views")
///     .raw_data(false)
///     .timeout(Duration::from_secs(5))
///     .timeout_mode(TimeoutMode::CursorLifetime)
///     .await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a call runs when it is awaited"]
pub struct ListCollections<'a, R: Runtime, S = ImplicitSession> {
    database: &'a Database<R>,
    options: Option<Box<ListCollectionsOptions>>,
    session: Option<UsedSession>,
    marker: PhantomData<fn() -> S>,
}

onionskin_core::list_collections_options! { setters [R: Runtime, S] [ListCollections<'_, R, S>] }

cursor_call! {
    ['a, R: Runtime] ListCollections<'a, R> { database }
    => ListCollectionsFuture<R>, CollectionSpecification
}

impl<'a, R: Runtime> ListCollections<'a, R> {
    pub(crate) const fn new(database: &'a Database<R>) -> Self {
        Self {
            database,
            options: None,
            session: None,
            marker: PhantomData,
        }
    }
}

impl<R: Runtime, S> ListCollections<'_, R, S> {
    const fn client(&self) -> &Client<R> {
        self.database.client()
    }

    fn prepare(
        &self,
    ) -> (
        Result<Command, Error>,
        OpenCursor<R, CollectionSpecification>,
    ) {
        let options = ListCollectionsOptions::or_unset(self.options.as_deref());
        let name = self.database.shared_name();
        let opener = OpenCursor::new(self.client(), name);
        (
            crud::list_collections(
                name,
                Listed::Everything,
                options,
                self.database.shared_defaults(),
            ),
            opener,
        )
    }
}

handle_call! {
    /// A `list_collection_names` that runs when it is awaited.
    ///
    /// ```no_run
    /// # use onionskin::{Database, Error, Runtime, bson::doc};
    /// use onionskin::options::TimeoutMode;
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(database: Database<R>) -> Result<(), Error> {
    /// let names = database
    ///     .list_collection_names()
    ///     .filter(doc! { "type": "view" })
    ///     .authorized_collections(true)
    ///     .batch_size(100)
    ///     .comment("list of views")
    ///     .raw_data(false)
    ///     .timeout(Duration::from_secs(5))
    ///     .timeout_mode(TimeoutMode::CursorLifetime)
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    ListCollectionNames on database: Database<R> {}
    with ListCollectionsOptions listed by list_collections_options
}

impl<R: Runtime> IntoFuture for ListCollectionNames<'_, R> {
    type Output = Result<Vec<String>, Error>;
    type IntoFuture = ListCollectionNamesFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let options = ListCollectionsOptions::or_unset(self.options.as_deref());
        let name = self.database.shared_name();
        let command = crud::list_collections(
            name,
            Listed::Names,
            options,
            self.database.shared_defaults(),
        );
        let command = UsedSession::apply(self.session, command);
        let names = crud::Names::new(name.clone(), command);
        ListCollectionNamesFuture(Execution::new(self.database.client().clone(), names))
    }
}

handle_call! {
    /// A `list_databases` that runs when it is awaited.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Error, Runtime, bson::doc};
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(client: Client<R>) -> Result<(), Error> {
    /// let shops = client
    ///     .list_databases()
    ///     .filter(doc! { "name": { "$regex": "^shop_" } })
    ///     .authorized_databases(true)
    ///     .comment("list of shops")
    ///     .timeout(Duration::from_secs(5))
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    ListDatabases on client: Client<R> {}
    with ListDatabasesOptions listed by list_databases_options
}

impl<R: Runtime> IntoFuture for ListDatabases<'_, R> {
    type Output = Result<Vec<DatabaseSpecification>, Error>;
    type IntoFuture = ListDatabasesFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let options = ListDatabasesOptions::or_unset(self.options.as_deref());
        let command = crud::list_databases(Listed::Everything, options, self.client.defaults());
        ListDatabasesFuture(single(self.client, self.session, command, Databases))
    }
}

handle_call! {
    /// A `list_database_names` that runs when it is awaited.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Error, Runtime, bson::doc};
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(client: Client<R>) -> Result<(), Error> {
    /// let names = client
    ///     .list_database_names()
    ///     .filter(doc! { "name": { "$regex": "^shop_" } })
    ///     .authorized_databases(true)
    ///     .comment("list of shops")
    ///     .timeout(Duration::from_secs(5))
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    ListDatabaseNames on client: Client<R> {}
    with ListDatabasesOptions listed by list_databases_options
}

impl<R: Runtime> IntoFuture for ListDatabaseNames<'_, R> {
    type Output = Result<Vec<String>, Error>;
    type IntoFuture = ListDatabaseNamesFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let options = ListDatabasesOptions::or_unset(self.options.as_deref());
        let command = crud::list_databases(Listed::Names, options, self.client.defaults());
        ListDatabaseNamesFuture(single(self.client, self.session, command, DatabaseNames))
    }
}
