//! The futures of calls.
//!
//! Each call has a future of its own, which is named after the call. The program that the future
//! runs is no part of its type, so that a later version can run another program. A future can be
//! stored, moved and sent to other tasks, and it can be dropped at any time.

use crate::{
    Cursor, Execution, Runtime,
    decode::{Counted, Deleted, FirstDocument, InsertedOne, OpenCursor, Updated, WholeReply},
};
use bson::Document;
use onionskin_core::{
    error::Error,
    operation::{
        Prepared, Single,
        crud::{self, DeleteResult, InsertManyResult, InsertOneResult, UpdateResult},
    },
};
use serde::de::DeserializeOwned;
use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

/// Defines futures: the call, the name, a type parameter with its bounds, the program, the result.
macro_rules! futures {
    ($(
        $call:ident: $name:ident<R $(, $T:ident)?> $([$($bounds:tt)+])?
            = $program:ty => $output:ty;
    )*) => {$(
        #[doc = concat!("The future of [`", stringify!($call), "`].")]
        ///
        #[doc = concat!("[`", stringify!($call), "`]: crate::", stringify!($call))]
        #[must_use = "a future does nothing unless it is awaited"]
        pub struct $name<R: Runtime $(, $T)?>(pub(crate) Execution<R, $program>)
        $(where $($bounds)+)?;

        impl<R: Runtime $(, $T)?> $name<R $(, $T)?>
        $(where $($bounds)+)?
        {
            /// Returns the runtime of the client.
            #[must_use]
            pub fn runtime(&self) -> &R {
                self.0.runtime()
            }
        }

        impl<R: Runtime $(, $T)?> Future for $name<R $(, $T)?>
        $(where $($bounds)+)?
        {
            type Output = Result<$output, Error>;

            fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
                Pin::new(&mut self.0).poll(context)
            }
        }
    )*};
}

futures! {
    Aggregate: AggregateFuture<R, U> = Single<OpenCursor<R, U>> => Cursor<R, U>;
    CountDocuments: CountDocumentsFuture<R> = Single<Counted> => u64;
    Delete: DeleteFuture<R> = Single<Deleted> => DeleteResult;
    Find: FindFuture<R, T> = Single<OpenCursor<R, T>> => Cursor<R, T>;
    FindOne: FindOneFuture<R, T> [T: DeserializeOwned + 'static]
        = Single<FirstDocument<T>> => Option<T>;
    InsertMany: InsertManyFuture<R> = Prepared<crud::InsertMany> => InsertManyResult;
    InsertOne: InsertOneFuture<R> = Single<InsertedOne> => InsertOneResult;
    RunCommand: RunCommandFuture<R> = Single<WholeReply> => Document;
    Update: UpdateFuture<R> = Single<Updated> => UpdateResult;
}
