//! Operations that are run instead of awaited.

use crate::{BlockingRuntime, Cursor};
use onionskin::{
    Aggregate, CountDocuments, Delete, Execution, Find, FindOne, InsertMany, InsertOne, Result,
    RunCommand, Update, futures, program::Program,
};
use serde::de::DeserializeOwned;
use std::future::IntoFuture;

/// An operation that can be run: [`run`](Self::run) blocks until the operation has ended.
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
    /// The result of the operation.
    type Output;

    /// Runs the operation and returns its result.
    ///
    /// Delays by calls of other threads count toward the time limit of the operation. If the limit
    /// passes during name resolution, key derivation or an event listener, it takes effect
    /// afterwards. The server chooses the number of iterations of a key derivation. The client
    /// accepts up to 2,000,000, which took 0.2 s in a release build.
    ///
    /// # Panics
    ///
    /// Panics if the thread is already in a blocking call of this client, for example if an event
    /// listener calls this method.
    fn run(self) -> Self::Output;
}

impl<P: Program> Run for Execution<BlockingRuntime, P> {
    type Output = Result<P::Output>;

    fn run(self) -> Self::Output {
        self.runtime().clone().block_on(self)
    }
}

/// Implements `Run` for futures of calls.
macro_rules! run_futures {
    ($([$($bounds:tt)*] $future:ty;)*) => {$(
        impl<$($bounds)*> Run for $future {
            type Output = <Self as Future>::Output;

            fn run(self) -> Self::Output {
                self.runtime().clone().block_on(self)
            }
        }
    )*};
}

run_futures! {
    [U] futures::AggregateFuture<BlockingRuntime, U>;
    [] futures::CountDocumentsFuture<BlockingRuntime>;
    [] futures::DeleteFuture<BlockingRuntime>;
    [T] futures::FindFuture<BlockingRuntime, T>;
    [T: DeserializeOwned + 'static] futures::FindOneFuture<BlockingRuntime, T>;
    [] futures::InsertManyFuture<BlockingRuntime>;
    [] futures::InsertOneFuture<BlockingRuntime>;
    [] futures::RunCommandFuture<BlockingRuntime>;
    [] futures::UpdateFuture<BlockingRuntime>;
}

/// Implements `Run` for operations whose result is the same when they are awaited.
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
    [T: Send + Sync + DeserializeOwned + 'static] FindOne<'_, BlockingRuntime, T>;
    [T: Send + Sync] InsertMany<'_, BlockingRuntime, T>;
    [T: Send + Sync] InsertOne<'_, BlockingRuntime, T>;
    [] RunCommand<'_, BlockingRuntime>;
    [T: Send + Sync] Update<'_, BlockingRuntime, T>;
}

impl<T: Send + Sync, U> Run for Aggregate<'_, BlockingRuntime, T, U> {
    type Output = Result<Cursor<U>>;

    fn run(self) -> Self::Output {
        let future = self.into_future();
        let runtime = future.runtime().clone();
        let cursor = future.run()?;
        Ok(Cursor::new(runtime, cursor))
    }
}

impl<T: Send + Sync> Run for Find<'_, BlockingRuntime, T> {
    type Output = Result<Cursor<T>>;

    fn run(self) -> Self::Output {
        let future = self.into_future();
        let runtime = future.runtime().clone();
        let cursor = future.run()?;
        Ok(Cursor::new(runtime, cursor))
    }
}
