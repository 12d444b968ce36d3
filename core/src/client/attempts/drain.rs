//! The drain of a connection: the wait for a late reply.

use crate::{
    connection::{Established, LateReply},
    error::Error,
    operation::{Command, Request, kill_unowned},
};
use std::sync::Arc;

/// An established connection and the late reply that it waits for.
#[derive(Debug)]
pub(in crate::client) struct Drain {
    pub(in crate::client) connection: Box<Established>,
    reply: LateReply,
    /// The database of the command, if the command may have opened a cursor.
    database: Option<Arc<str>>,
    /// The command that closes the cursor that the reply has opened.
    pub(in crate::client) end_of_cursor: Option<Command>,
}

impl Drain {
    /// Returns the drain of the late reply to a command with this `requestID`.
    pub(in crate::client) fn new(
        connection: Box<Established>,
        request_id: i32,
        request: &Request,
    ) -> Self {
        let may_open_cursor = request.may_leave_cursor(&connection.facts);
        Self {
            connection,
            reply: LateReply::new(request_id, may_open_cursor),
            database: may_open_cursor.then(|| request.database.clone()),
            end_of_cursor: None,
        }
    }

    /// Drops the bytes of the reply that have arrived. Returns true once the whole reply was
    /// dropped. Fails if other bytes have arrived, or if a layer has ended.
    pub(in crate::client) fn advance(&mut self) -> Result<bool, Error> {
        let Self {
            connection,
            reply,
            database,
            end_of_cursor,
        } = self;
        let Established {
            transport, facts, ..
        } = &mut **connection;
        reply.take(transport, |body| {
            let opener = database
                .take()
                .map(|database| (database, facts.address.clone()));
            *end_of_cursor =
                opener.and_then(|(database, server)| kill_unowned(body, database, server));
        })
    }
}
