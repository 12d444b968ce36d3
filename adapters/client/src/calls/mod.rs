//! The calls of collections, databases and clients: what a call is made of, and its options.
//!
//! A call has a future of its own ([`futures`](crate::futures)). Its options come from the table of
//! options in the core, which also gives the call its setters.

mod aggregate;
mod batches;
mod bulk_write;
mod delete;
mod find;
mod find_and_modify;
mod indexes;
mod insert;
mod names;
mod reads;
mod run;
mod search_indexes;
mod update;
mod warm;
mod watch;

pub use aggregate::Aggregate;
pub use batches::RawBatches;
pub use bulk_write::{BulkWrite, CollectionBulkWrite};
pub use delete::Delete;
pub use find::{Find, FindOne};
pub use find_and_modify::{FindOneAndDelete, FindOneAndReplace, FindOneAndUpdate};
pub use indexes::{CreateIndex, CreateIndexes, DropIndex, ListIndexNames, ListIndexes};
pub use insert::{InsertMany, InsertOne};
pub use names::{
    CreateCollection, DropCollection, DropDatabase, ListCollectionNames, ListCollections,
    ListDatabaseNames, ListDatabases, RenameCollection,
};
pub use reads::{CountDocuments, Distinct, EstimatedDocumentCount};
pub use run::{RunCommand, RunCursorCommand};
pub use search_indexes::{
    CreateSearchIndex, CreateSearchIndexes, DropSearchIndex, ListSearchIndexes, UpdateSearchIndex,
};
pub use update::{Replace, Update};
pub use warm::WarmConnectionPool;
pub use watch::Watch;

use crate::{Client, Execution, Runtime, session::UsedSession};
use onionskin_core::{
    error::Error,
    operation::{Command, Decode, Single},
};

/// Returns the future of a call that is one command.
fn single<R: Runtime, D: Decode>(
    client: &Client<R>,
    session: Option<UsedSession>,
    command: Result<Command, Error>,
    decode: D,
) -> Execution<R, Single<D>> {
    let command = UsedSession::apply(session, command);
    Execution::new(client.clone(), Single::new(command, decode))
}

/// Declares the setters of a call from the rows of a table of options. The call has a field
/// `options` of the type `Option<Box<..>>`, which is `None` until an option is set.
///
/// The example of `with_options` is that of a `find`, unless a third list contains another one.
macro_rules! setters {
    ([$($generics:tt)*] [$call:ty] $options:ident $rows:tt) => {
        $crate::calls::setters! {
            [$($generics)*] [$call] [
                /// ```no_run
                /// # use onionskin::{Collection, Runtime, bson::{Document, doc}, error::Result};
                /// use onionskin::options::FindOptions;
                ///
                /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<()> {
                /// // Here the options of a `find`, in a call that changes one of them.
                /// let newest = FindOptions::builder().sort(doc! { "_id": -1 }).limit(10).build();
                /// let cursor = people.find(doc! {}).with_options(newest).limit(20).await?;
                /// # Ok(())
                /// # }
                /// ```
            ] $options $rows
        }
    };
    ([$($generics:tt)*] [$call:ty] [$(#[$example:meta])*] $options:ident {
        $([$($doc:literal)*] $field:ident: $type:ty $(, $form:ident)?;)*
    }) => {
        impl<$($generics)*> $call {
            $($crate::calls::setters! {
                @one [$($doc)*] $field: $type $(, $form)?
            })*

            /// Sets all options at once. The options that were set before are forgotten.
            ///
            $(#[$example])*
            pub fn with_options(mut self, options: impl Into<Option<$options>>) -> Self {
                self.options = options.into().map(Box::new);
                self
            }
        }
    };
    (@one [$($doc:literal)*] $field:ident: $type:ty) => {
        $(#[doc = $doc])*
        pub fn $field(mut self, value: $type) -> Self {
            self.options.get_or_insert_default().$field = Some(value);
            self
        }
    };
    (@one [$($doc:literal)*] $field:ident: $type:ty, into) => {
        $(#[doc = $doc])*
        pub fn $field(mut self, value: impl Into<$type>) -> Self {
            self.options.get_or_insert_default().$field = Some(value.into());
            self
        }
    };
    (@one [$($doc:literal)*] $field:ident: $type:ty, option) => {
        $(#[doc = $doc])*
        pub fn $field(mut self, value: impl Into<Option<$type>>) -> Self {
            self.options.get_or_insert_default().$field = value.into();
            self
        }
    };
    (@one [$($doc:literal)*] $field:ident: $type:ty, list) => {
        $(#[doc = $doc])*
        pub fn $field(
            mut self,
            value: impl IntoIterator<Item = <$type as IntoIterator>::Item>,
        ) -> Self {
            self.options.get_or_insert_default().$field = Some(value.into_iter().collect());
            self
        }
    };
}

/// Declares a call on a collection: its struct, which borrows the collection and has these fields,
/// and its setters.
macro_rules! collection_call {
    (
        $(#[$about:meta])*
        $name:ident { $($field:ident: $type:ty,)* } with $options:ident listed by $table:ident
    ) => {
        $(#[$about])*
        #[must_use = "a call runs when it is awaited"]
        pub struct $name<'a, R: Runtime, T> {
            collection: &'a Collection<R, T>,
            $($field: $type,)*
            options: Option<Box<$options>>,
            session: Option<crate::session::UsedSession>,
        }

        impl<'a, R: Runtime, T> $name<'a, R, T> {
            pub(crate) fn new(collection: &'a Collection<R, T>, $($field: $type),*) -> Self {
                Self {
                    collection,
                    $($field,)*
                    options: None,
                    session: None,
                }
            }

            /// Makes the call run in this session.
            ///
            /// ```no_run
            /// # use onionskin::{Collection, Runtime, bson::{Document, doc}, error::Result};
            /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<()> {
            /// let mut session = people.client().start_session().await?;
            /// session.start_transaction().await?;
            /// people.insert_one(doc! { "name": "Ada" }).session(&mut session).await?;
            /// people.delete_one(doc! { "name": "Grace" }).session(&mut session).await?;
            /// session.commit_transaction().await?;
            /// # Ok(())
            /// # }
            /// ```
            pub fn session(mut self, session: &mut crate::ClientSession<R>) -> Self {
                self.session = Some(session.used_by(self.collection.client()));
                self
            }
        }

        onionskin_core::$table! { setters [R: Runtime, T] [$name<'_, R, T>] }
    };
}

/// Adds `read_preference` to a read, which sets the selection criteria.
macro_rules! read_preference {
    ([$($generics:tt)*] $call:ty) => {
        impl<$($generics)*> $call {
            /// Sets the read preference. Default: that of the handle.
            ///
            /// ```no_run
            /// # use onionskin::{Collection, Runtime, bson::{Document, doc}, error::Result};
            /// use onionskin::options::ReadPreference;
            ///
            /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<()> {
            /// let near = ReadPreference::nearest(None);
            /// let ada = people.find_one(doc! { "name": "Ada" }).read_preference(near).await?;
            /// # Ok(())
            /// # }
            /// ```
            pub fn read_preference(self, preference: ReadPreference) -> Self {
                self.selection_criteria(preference.into())
            }
        }
    };
}

/// Implements a call whose result is a cursor. The call has a method `prepare` and a last type
/// parameter that says whether the call runs in a session that the application has started.
macro_rules! cursor_call {
    (
        [$($generics:tt)*] $call:ident<$($argument:tt),*> { $($field:ident),* }
        => $future:ident<$($parameter:ident),*>, $item:ty
    ) => {
        impl<$($generics)*> $call<$($argument),*> {
            /// Makes the call run in this session. Its result is a [`SessionCursor`].
            ///
            /// ```no_run
            /// # use onionskin::{Collection, Runtime, bson::{Document, doc}, error::Result};
            /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<()> {
            /// let mut session = people.client().start_session().await?;
            /// let mut cursor = people.find(doc! {}).session(&mut session).await?;
            /// while let Some(person) = cursor.next(&mut session).await {
            ///     println!("{}", person?);
            /// }
            /// # Ok(())
            /// # }
            /// ```
            pub fn session(
                self,
                session: &mut crate::ClientSession<R>,
            ) -> $call<$($argument,)* crate::session::ExplicitSession> {
                let used = session.used_by(self.client());
                $call {
                    $($field: self.$field,)*
                    options: self.options,
                    session: Some(used),
                    marker: PhantomData,
                }
            }
        }

        impl<$($generics)*> IntoFuture for $call<$($argument),*> {
            type Output = Result<Cursor<R, $item>, Error>;
            type IntoFuture = $future<$($parameter),*>;

            fn into_future(self) -> Self::IntoFuture {
                let (command, opener) = self.prepare();
                let client = opener.client.clone();
                $future(single(&client, None, command, opener))
            }
        }

        impl<$($generics)*> IntoFuture
            for $call<$($argument,)* crate::session::ExplicitSession>
        {
            type Output = Result<SessionCursor<R, $item>, Error>;
            type IntoFuture = SessionCursorFuture<R, $item>;

            fn into_future(self) -> Self::IntoFuture {
                let (command, opener) = self.prepare();
                SessionCursorFuture::new(self.session, command, opener)
            }
        }
    };
}

pub(crate) use setters;
use {collection_call, cursor_call, read_preference};

/// Setters that depend on a value, for every call.
pub trait Action: IntoFuture + Sized {
    /// Calls `set` with the value if there is one, so that a chain of setters need not end.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, action::Action, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let most: Option<i64> = None;
    /// let cursor = people.find(doc! {}).optional(most, |find, most| find.limit(most)).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn optional<V>(self, value: Option<V>, set: impl FnOnce(Self, V) -> Self) -> Self {
        match value {
            Some(value) => set(self, value),
            None => self,
        }
    }
}

impl<T: IntoFuture> Action for T {}
