//! Calls whose result are batches that are not decoded.

use super::single;
use crate::{
    RawBatchCursor, Runtime, SessionRawBatchCursor,
    decode::{OpenCursor, OpenRawBatches, OpenSessionRawBatches},
    futures::{RawBatchesFuture, SessionRawBatchesFuture},
    session::{ExplicitSession, ImplicitSession, UsedSession},
};
use onionskin_core::{error::Error, operation::Command};
use std::{future::IntoFuture, marker::PhantomData};

/// A `find` or an `aggregate` that runs when it is awaited, and whose documents are not decoded.
/// Its result is a [`RawBatchCursor`], or in a session a [`SessionRawBatchCursor`].
#[must_use = "a call runs when it is awaited"]
pub struct RawBatches<R: Runtime, S = ImplicitSession> {
    command: Result<Command, Error>,
    opener: OpenRawBatches<R>,
    session: Option<UsedSession>,
    marker: PhantomData<fn() -> S>,
}

impl<R: Runtime, S> RawBatches<R, S> {
    pub(super) fn new<T>(
        session: Option<UsedSession>,
        command: Result<Command, Error>,
        opener: OpenCursor<R, T>,
    ) -> Self {
        Self {
            command,
            opener: OpenRawBatches(opener.with_type()),
            session,
            marker: PhantomData,
        }
    }
}

impl<R: Runtime> IntoFuture for RawBatches<R> {
    type Output = Result<RawBatchCursor<R>, Error>;
    type IntoFuture = RawBatchesFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let client = self.opener.0.client.clone();
        RawBatchesFuture(single(&client, None, self.command, self.opener))
    }
}

impl<R: Runtime> IntoFuture for RawBatches<R, ExplicitSession> {
    type Output = Result<SessionRawBatchCursor<R>, Error>;
    type IntoFuture = SessionRawBatchesFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let client = self.opener.0.client.clone();
        let session = self.session.and_then(|session| session.checked().ok());
        let decode = OpenSessionRawBatches {
            opener: self.opener,
            session,
        };
        SessionRawBatchesFuture(single(&client, self.session, self.command, decode))
    }
}
