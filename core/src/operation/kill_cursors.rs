//! The command `killCursors`.

use super::{
    Command, CommandKind, SessionUse,
    batch::{cursor_id, namespace},
    cursor::ABANDON_LIMIT,
};
use crate::address::Address;
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
