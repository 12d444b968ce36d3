//! Calls that are run instead of awaited.

use crate::{BlockingRuntime, Cursor};
use onionskin::{
    Aggregate, CountDocuments, Delete, Execution, Find, FindOne, InsertMany, InsertOne, Program,
    Result, RunCommand, Update,
};
use serde::de::DeserializeOwned;
use std::future::IntoFuture;

/// Something that is done when it is run, and blocks until it is.
///
/// ```no_run
/// use onionskin_blocking::{Client, Run, bson::{Document, doc}};
///
/// let client = Client::with_uri_str("mongodb://localhost")?;
/// let people = client.database("app").collection::<Document>("people");
/// for person in people.find(doc! { "born": { "$lt": 1900 } }).limit(10).run()? {
///     println!("{}", person?);
/// }
/// # Ok::<(), onionskin_blocking::Error>(())
/// ```
pub trait Run {
    /// What comes of it.
    type Output;

    /// Does it.
    ///
    /// The time limit of an operation includes the time in which another thread's call uses the
    /// client. A time limit that passes while a host name is resolved or a key is derived from the
    /// password takes effect after that. The server chooses the iterations of the derivation, at
    /// most 2,000,000, which took 0.2 s in a release build.
    ///
    /// # Panics
    ///
    /// If it is called by an event listener, while another call is under way.
    fn run(self) -> Self::Output;
}

impl<P: Program> Run for Execution<BlockingRuntime, P> {
    type Output = Result<P::Output>;

    fn run(self) -> Self::Output {
        self.runtime().clone().block_on(self)
    }
}

/// Calls whose result is the same whether they are run or awaited.
macro_rules! run {
    ($([$($bounds:tt)*] $type:ty;)*) => {$(
        impl<$($bounds)*> Run for $type {
            type Output = <Self as IntoFuture>::Output;

            fn run(self) -> Self::Output {
                self.into_future().run()
            }
        }
    )*};
}

run! {
    [T: Send + Sync] CountDocuments<'_, BlockingRuntime, T>;
    [T: Send + Sync] Delete<'_, BlockingRuntime, T>;
    [T: Send + Sync + DeserializeOwned] FindOne<'_, BlockingRuntime, T>;
    [T: Send + Sync] InsertMany<'_, BlockingRuntime, T>;
    [T: Send + Sync] InsertOne<'_, BlockingRuntime, T>;
    [] RunCommand<'_, BlockingRuntime>;
    [T: Send + Sync] Update<'_, BlockingRuntime, T>;
}

impl<T: Send + Sync, U> Run for Aggregate<'_, BlockingRuntime, T, U> {
    type Output = Result<Cursor<U>>;

    fn run(self) -> Self::Output {
        let execution = self.into_future();
        let runtime = execution.runtime().clone();
        let cursor = execution.run()?;
        Ok(Cursor::new(runtime, cursor))
    }
}

impl<T: Send + Sync> Run for Find<'_, BlockingRuntime, T> {
    type Output = Result<Cursor<T>>;

    fn run(self) -> Self::Output {
        let execution = self.into_future();
        let runtime = execution.runtime().clone();
        let cursor = execution.run()?;
        Ok(Cursor::new(runtime, cursor))
    }
}
