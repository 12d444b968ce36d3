//! The request of an attempt: as the body of its message, and as one document for command events.

use super::{
    Command, CommandKind, ReadConcernUse, Request, SessionReadConcern,
    documents::{COMMAND_OVERHEAD_BYTES, limit_exceeded},
    exchange::Context,
};
use crate::{
    bson::DocumentWriter,
    connection::ConnectionFacts,
    error::Error,
    hello::ServerApiFields,
    options::{SelectionCriteria, ServerSelector},
    selection::{read_preference_to_send, write_read_preference},
};
use bson::{RawArrayBuf, RawDocument, RawDocumentBuf, cstr};

/// The wire version of server 8.2, from which on servers know the field `rawData`.
const WIRE_VERSION_8_2: i32 = 27;

/// The wire version of MongoDB 4.4, from which on servers know the comment of a `getMore` and the
/// hint of a delete.
pub(super) const WIRE_VERSION_4_4: i32 = 9;

impl Command {
    /// Sets the field `rawData`, which is sent to servers from 8.2 on only (CRUD, *API*).
    pub(crate) fn set_raw_data(&mut self, raw_data: Option<bool>) {
        self.0.request.raw_data = raw_data;
    }

    /// Makes the command fail before anything is sent if its server is older than 4.4. `what` names
    /// the part of the command that such servers do not know.
    pub(crate) fn need_4_4(&mut self, what: &'static str) {
        self.0.request.needs_4_4 = Some(what);
    }

    /// Makes a write with a hint that has no reply need a server of 4.4: an older one could not
    /// report that it takes no hint (CRUD, *Options*).
    pub(crate) fn need_hint(&mut self, has_hint: bool) {
        if has_hint && !self.0.request.acknowledged {
            self.need_4_4("a hint in an unacknowledged write (w: 0)");
        }
    }
}

impl Request {
    /// Removes `wtimeout` from the write concern, because the time limit of the operation counts
    /// instead (Client Side Operations Timeout, *Deprecations*).
    pub(crate) fn ignore_w_timeout(&mut self) {
        // The type, the key and a zero byte precede the document.
        let start = self.write_concern.start + "writeConcern".len() + 2;
        let bytes = self.elements.get(start..self.write_concern.end);
        let concern = bytes.and_then(|bytes| RawDocument::from_bytes(bytes).ok());
        let Some(concern) = concern.filter(|c| matches!(c.get("wtimeout"), Ok(Some(_)))) else {
            return;
        };
        let mut rest = RawDocumentBuf::new();
        for (key, value) in concern.iter().flatten() {
            if key != "wtimeout" {
                rest.append(key, value);
            }
        }
        self.remove_write_concern();
        if !rest.is_empty() {
            let start = self.elements.len();
            DocumentWriter::bare(&mut self.elements).document("writeConcern", &rest);
            self.write_concern = start..self.elements.len();
        }
    }

    /// Fails if the server is too old for the command, or takes no document of its size, or if the
    /// read preference cannot be sent.
    pub(super) fn check_server(&self, facts: &ConnectionFacts) -> Result<(), Error> {
        if let Some(preference) = &self.read_preference {
            preference.check_tags()?;
        }
        let is_old = facts.max_wire_version < WIRE_VERSION_4_4;
        if let Some(what) = self.needs_4_4.filter(|_| is_old) {
            let message = format!("{what} needs a server from 4.4 on; leave it out");
            return Err(Error::argument(message));
        }
        check_body(self.elements.len(), facts)
    }
}

/// Fails if a document of this size, in bytes, is too large for a command of the server.
pub(super) fn check_body(body: usize, facts: &ConnectionFacts) -> Result<(), Error> {
    let max_body = facts.max_bson_object_size + COMMAND_OVERHEAD_BYTES;
    if body > max_body {
        let what = "the size of a command's document in bytes";
        return Err(limit_exceeded(what, max_body, body));
    }
    Ok(())
}

/// Writes the elements of the command, then the fields that depend on the attempt. The command name
/// stays the first key (MSG-13).
pub(super) fn write_body(
    body: &mut DocumentWriter<'_>,
    request: &Request,
    context: &Context,
    facts: &ConnectionFacts,
) {
    body.elements(&request.elements);
    write_read_concern(body, request, context.session_read_concern);
    if let Some(limit) = request.max_time_ms {
        body.i32("maxTimeMS", limit);
    }
    let is_new = facts.max_wire_version >= WIRE_VERSION_8_2;
    if let Some(raw_data) = request.raw_data.filter(|_| is_new) {
        body.bool("rawData", raw_data);
    }
    body.str("$db", &request.database);
    if let Some(id) = &request.lsid {
        body.elements(&lsid(id));
    }
    if let Some(number) = request.txn_number {
        body.i64("txnNumber", number);
    }
    if let Some(transaction) = &request.transaction {
        if transaction.starts {
            body.bool("startTransaction", true);
        }
        body.bool("autocommit", false);
    }
    if let Some(api) = &context.server_api {
        ServerApiFields::from(api).write(body);
    }
    if let Some(time) = &context.cluster_time {
        body.document("$clusterTime", time.document());
    }
    if !request.kind.is_write() {
        let wanted = request.read_preference.as_deref();
        let wanted = wanted.filter(|_| !request.is_for_primary);
        if let Some(sent) =
            read_preference_to_send(context.topology_type, facts.server_type, wanted)
        {
            write_read_preference(body, sent);
        }
    }
}

/// Writes `readConcern`: the level of the command, and what the session adds. `afterClusterTime` is
/// for commands that take a read concern, also if only for this time, as `insert` does. The level
/// `snapshot` replaces that of the command, and is sent for all commands but those of open cursors.
///
/// In a transaction, the first command has the read concern of the transaction, whatever command it
/// is, and the others have none.
#[inline]
fn write_read_concern(
    body: &mut DocumentWriter<'_>,
    request: &Request,
    of_session: SessionReadConcern,
) {
    let (taken, concern) = match (&request.transaction, &request.read_concern) {
        (Some(transaction), _) if transaction.starts && !request.has_field("readConcern") => {
            (true, transaction.read_concern.as_ref())
        }
        (Some(_), _) => return,
        (None, ReadConcernUse::None) => (false, None),
        (None, ReadConcernUse::Taken(concern)) => (true, concern.as_ref()),
    };
    let level = concern.map(|concern| concern.level.as_str());
    let (level, key, time) = match of_session {
        SessionReadConcern::After(time) if taken => (level, "afterClusterTime", Some(time)),
        // A command of the application can have a read concern of its own.
        SessionReadConcern::Snapshot(_) if request.has_field("readConcern") => return,
        SessionReadConcern::Snapshot(time) if request.kind != CommandKind::CursorFollowUp => {
            (Some("snapshot"), "atClusterTime", time)
        }
        _ => (level, "", None),
    };
    if level.is_none() && time.is_none() {
        return;
    }
    body.nested("readConcern", |document| {
        if let Some(level) = level {
            document.str("level", level);
        }
        if let Some(time) = time {
            document.value(key, time.into());
        }
    });
}

/// Returns the element `lsid: { id: UUID }`.
fn lsid(id: &[u8; 16]) -> [u8; 36] {
    // The sizes are those of the document and of the binary data, and 4 is the subtype of a UUID.
    const HEAD: [u8; 19] = *b"\x03lsid\0\x1e\0\0\0\x05id\0\x10\0\0\0\x04";
    let mut element = [0; 36];
    element[..19].copy_from_slice(&HEAD);
    element[19..35].copy_from_slice(id);
    element
}

/// Returns the command as one document, for command events. A document sequence becomes an array.
pub(super) fn command_document(
    request: &Request,
    context: &Context,
    facts: &ConnectionFacts,
) -> RawDocumentBuf {
    let mut bytes = Vec::new();
    let mut body = DocumentWriter::begin(&mut bytes);
    write_body(&mut body, request, context, facts);
    if let Some(sequence) = &request.sequence {
        for (identifier, documents) in sequence.sections(request.portion) {
            let mut array = RawArrayBuf::new();
            let mut rest = &documents[..];
            while let Some(length) = rest.first_chunk::<4>() {
                let length = usize::try_from(i32::from_le_bytes(*length)).unwrap_or(rest.len());
                let Some((document, tail)) = rest.split_at_checked(length) else {
                    break;
                };
                if let Ok(document) = RawDocument::from_bytes(document) {
                    array.push(document.to_owned());
                }
                rest = tail;
            }
            body.array(identifier, &array);
        }
    }
    body.end();
    RawDocumentBuf::from_bytes(bytes).unwrap_or_else(|_| {
        let mut none = RawDocumentBuf::new();
        none.append(cstr!("unreadable"), true);
        none
    })
}

impl Command {
    /// Returns the application's function that accepts the server of a read; `None` for a command
    /// without one.
    #[must_use]
    pub const fn server_selector(&self) -> Option<&ServerSelector> {
        self.0.request.narrowing.as_ref()
    }
}

impl Request {
    /// Keeps the function that accepts the server of a read.
    pub(super) fn set_narrowing(&mut self, criteria: &SelectionCriteria) {
        self.narrowing = match (criteria, self.kind) {
            (_, CommandKind::RetryableWrite | CommandKind::Write) => None,
            (SelectionCriteria::Predicate(predicate), _) => {
                Some(ServerSelector::of(predicate.clone()))
            }
            (SelectionCriteria::ReadPreference(_), _) => None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::lsid;
    use crate::bson::DocumentWriter;
    use bson::spec::BinarySubtype;

    #[test]
    fn the_element_of_a_session_is_that_of_the_writer() {
        let id = [7; 16];
        let mut bytes = Vec::new();
        DocumentWriter::bare(&mut bytes).nested("lsid", |lsid| {
            lsid.binary("id", BinarySubtype::Uuid, &id);
        });
        assert_eq!(bytes, lsid(&id));
    }
}
