//! The command `killCursors`.

use super::{
    Command, CommandKind, Exchange, Request, SessionUse,
    batch::{cursor_id, namespace},
    cursor::ABANDON_LIMIT,
};
use crate::{address::Address, connection::ConnectionFacts};
use bson::RawDocument;
use std::sync::Arc;

/// Returns the `killCursors` for a cursor, without a server, a session and a time limit.
pub(super) fn kill(database: Arc<str>, collection: &str, id: i64) -> Command {
    let mut command = Command::new("killCursors", database, CommandKind::CursorFollowUp);
    let mut ids = bson::RawArrayBuf::new();
    ids.push(id);
    command
        .body()
        .str("killCursors", collection)
        .array("cursors", &ids);
    command
}

impl Request {
    /// True if the reply can leave a cursor open that the client has to close, once the operation
    /// was given up. The other commands of a cursor belong to its owner, who closes it. Behind a
    /// load balancer, only the connection that opened a cursor reaches it, and that one is not
    /// pinned.
    pub(crate) fn may_leave_cursor(&self, facts: &ConnectionFacts) -> bool {
        let is_follow_up = self.kind == CommandKind::CursorFollowUp || self.name() == "getMore";
        !is_follow_up && facts.service.is_none()
    }
}

impl Exchange {
    /// Returns the `killCursors` for the cursor that the reply has opened, if the operation was
    /// given up before its program has read the reply. `None` if there is none.
    pub(crate) fn end_of_cursor(&self) -> Option<Command> {
        let request = &self.operation.request;
        let facts = self.facts();
        if !request.may_leave_cursor(facts) {
            return None;
        }
        let database = request.database.clone();
        kill_unowned(self.reply()?, database, facts.address.clone())
    }
}

/// Returns the `killCursors` for the cursor that `server` has opened with this reply to a command
/// on `database`, after its operation was given up. `None` if no cursor is open. The command has
/// the time limit [`ABANDON_LIMIT`].
pub(crate) fn kill_unowned(
    reply: &RawDocument,
    database: Arc<str>,
    server: Address,
) -> Option<Command> {
    let id = cursor_id(reply).filter(|&id| id != 0)?;
    let (_, collection) = namespace(reply).split_once('.')?;
    let mut command = kill(database, collection, id);
    command.set_target_without_wait(server);
    command.set_session(SessionUse::None);
    command.set_timeout(Some(ABANDON_LIMIT));
    Some(command)
}
