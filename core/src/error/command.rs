//! Errors that a server sent.

use super::is_deeper;
use bson::{Bson, RawDocument, RawDocumentBuf, oid::ObjectId};
use std::fmt;

/// Details of write errors that are nested deeper than this are left out: they become a tree, which
/// deeper ones would not survive.
pub const MAX_DETAILS_DEPTH: usize = 200;

/// `topologyVersion`: which process answered, and how often its state had changed (SDAM-55).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopologyVersion {
    /// Changes when the server's process restarts.
    pub process_id: ObjectId,
    /// Grows with each state change of that process.
    pub counter: i64,
}

impl TopologyVersion {
    /// Reads the `topologyVersion` field of a reply; `None` where it is absent or malformed.
    #[must_use]
    pub fn from_reply(reply: &RawDocument) -> Option<Self> {
        Self::from_document(reply.get_document("topologyVersion").ok()?)
    }

    /// Reads the document itself.
    #[must_use]
    pub fn from_document(version: &RawDocument) -> Option<Self> {
        Some(Self {
            process_id: version.get_object_id("processId").ok()?,
            counter: version.get_i64("counter").ok()?,
        })
    }

    /// True if `new` is strictly older than `current`: same process, smaller counter. Where either
    /// is missing or the process differs, the new one counts as newer (table A.2.3).
    #[must_use]
    pub fn is_older(new: Option<Self>, current: Option<Self>) -> bool {
        match (new, current) {
            (Some(new), Some(current)) => {
                new.process_id == current.process_id && new.counter < current.counter
            }
            _ => false,
        }
    }
}

/// A reply with `ok: 0`.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct CommandFault {
    /// `code`; `None` where the server sent none or zero.
    pub code: Option<i32>,
    /// `codeName`, possibly empty.
    pub code_name: String,
    /// `errmsg`.
    pub message: String,
    /// `topologyVersion`, where a state change error carries one.
    pub topology_version: Option<TopologyVersion>,
    /// The whole reply.
    pub reply: Option<Box<RawDocumentBuf>>,
}

impl CommandFault {
    /// Reads an error reply. Missing fields stay empty: a server may leave out any of them.
    #[must_use]
    pub fn from_reply(reply: &RawDocument) -> Self {
        let text = |key| shortened(reply.get_str(key).unwrap_or_default());
        Self {
            code: number(reply, "code").filter(|&code| code != 0),
            code_name: text("codeName"),
            message: text("errmsg"),
            topology_version: TopologyVersion::from_reply(reply),
            reply: Some(Box::new(reply.to_owned())),
        }
    }
}

impl fmt::Display for CommandFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.message.is_empty() {
            "no message"
        } else {
            &self.message
        })?;
        match (self.code, self.code_name.as_str()) {
            (Some(code), "") => write!(f, " (code {code})"),
            (Some(code), name) => write!(f, " (code {code}, {name})"),
            (None, "") => Ok(()),
            (None, name) => write!(f, " ({name})"),
        }
    }
}

/// One entry of `writeErrors`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WriteError {
    /// Which of the operation's documents or statements failed, from 0.
    pub index: usize,
    /// The server's code, for example 11000 for a duplicate key.
    pub code: i32,
    /// The server's words; empty where the reply would have been too large (MSG-33).
    pub message: String,
    /// `errInfo`, where the server sent it.
    pub details: Option<Bson>,
}

/// `writeConcernError`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WriteConcernFault {
    /// The server's code.
    pub code: i32,
    /// Its name, possibly empty.
    pub code_name: String,
    /// The server's words.
    pub message: String,
    /// `errInfo`, where the server sent it.
    pub details: Option<Bson>,
}

/// A reply with `ok: 1` whose writes failed in part, or were not confirmed.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct WriteFault {
    /// The statements that failed.
    pub errors: Vec<WriteError>,
    /// The write concern that was not met.
    pub write_concern: Option<WriteConcernFault>,
    /// `n` of the reply: how many documents were written all the same.
    pub written: i64,
    /// `topologyVersion`, which a write concern error that tells of a state change comes with.
    pub topology_version: Option<TopologyVersion>,
}

impl WriteFault {
    /// Reads the errors of a write's reply; `None` if it has none.
    #[must_use]
    pub fn from_reply(reply: &RawDocument) -> Option<Self> {
        let concern = reply
            .get_document("writeConcernError")
            .ok()
            .map(|w| WriteConcernFault {
                code: number(w, "code").unwrap_or_default(),
                code_name: w.get_str("codeName").unwrap_or_default().to_owned(),
                message: w.get_str("errmsg").unwrap_or_default().to_owned(),
                details: details(w),
            });
        let mut errors = Vec::new();
        if let Ok(array) = reply.get_array("writeErrors") {
            for entry in array.into_iter().flatten() {
                let Some(entry) = entry.as_document() else {
                    continue;
                };
                errors.push(WriteError {
                    index: number(entry, "index")
                        .and_then(|i| usize::try_from(i).ok())
                        .unwrap_or(0),
                    code: number(entry, "code").unwrap_or_default(),
                    message: entry.get_str("errmsg").unwrap_or_default().to_owned(),
                    details: details(entry),
                });
            }
        }
        if errors.is_empty() && concern.is_none() {
            return None;
        }
        let written = number(reply, "n").map_or(0, i64::from);
        Some(Self {
            errors,
            write_concern: concern,
            written,
            topology_version: TopologyVersion::from_reply(reply),
        })
    }

    /// The code of the first failed statement.
    #[must_use]
    pub fn first_code(&self) -> Option<i32> {
        self.errors.first().map(|e| e.code)
    }
}

impl fmt::Display for WriteFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(first) = self.errors.first() {
            write!(
                f,
                "{} (code {}, statement {})",
                first.message, first.code, first.index
            )?;
            if self.errors.len() > 1 {
                write!(f, " and {} more", self.errors.len() - 1)?;
            }
            if self.write_concern.is_some() {
                f.write_str("; ")?;
            }
        }
        match &self.write_concern {
            Some(w) => write!(f, "write concern not met: {} (code {})", w.message, w.code),
            None => Ok(()),
        }
    }
}

/// Bytes of a server's message that are kept; it is repeated in errors, events and logs.
pub const MAX_MESSAGE_TEXT_BYTES: usize = 16 * 1024;

/// The text, cut where it is too long to be meant for people.
fn shortened(text: &str) -> String {
    let mut end = text.len().min(MAX_MESSAGE_TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

fn details(from: &RawDocument) -> Option<Bson> {
    let info = from.get_document("errInfo").ok()?;
    if is_deeper(info, MAX_DETAILS_DEPTH).ok()? {
        return None;
    }
    bson::Document::try_from(info).ok().map(Bson::Document)
}

/// An integer, however the server chose to write it.
fn number(from: &RawDocument, key: &str) -> Option<i32> {
    let value = from.get(key).ok()??;
    if let Some(n) = value.as_i32() {
        return Some(n);
    }
    if let Some(n) = value.as_i64() {
        return i32::try_from(n).ok();
    }
    let n = value.as_f64()?;
    (n.fract() == 0.0 && n.abs() <= f64::from(i32::MAX)).then_some(n as i32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn a_reply_with_odd_types_is_still_read() {
        let fault = CommandFault::from_reply(&rawdoc! { "ok": 0, "code": 11600.0, "errmsg": 7 });
        assert_eq!((fault.code, fault.message.as_str()), (Some(11600), ""));
    }

    #[test]
    fn a_message_without_end_is_cut_between_characters() {
        let endless = "\u{e4}".repeat(MAX_MESSAGE_TEXT_BYTES);
        let fault = CommandFault::from_reply(&rawdoc! { "ok": 0, "errmsg": endless });
        assert_eq!(fault.message.len(), MAX_MESSAGE_TEXT_BYTES);
    }

    #[test]
    fn code_zero_is_no_code() {
        // A.12, point 7
        assert_eq!(
            CommandFault::from_reply(&rawdoc! { "ok": 0, "code": 0 }).code,
            None
        );
    }

    #[test]
    fn an_equal_or_unknown_topology_version_is_not_older() {
        // SDAM-56
        let at = |counter| {
            Some(TopologyVersion {
                process_id: ObjectId::from_bytes([1; 12]),
                counter,
            })
        };
        let other = Some(TopologyVersion {
            process_id: ObjectId::from_bytes([2; 12]),
            counter: 0,
        });
        assert!(TopologyVersion::is_older(at(1), at(2)));
        assert!(!TopologyVersion::is_older(at(2), at(2)));
        assert!(!TopologyVersion::is_older(None, at(2)));
        assert!(!TopologyVersion::is_older(at(1), None));
        assert!(!TopologyVersion::is_older(other, at(2)));
    }

    #[test]
    fn write_errors_are_listed_with_their_place() {
        let reply = rawdoc! {
            "ok": 1, "n": 1,
            "writeErrors": [{ "index": 1, "code": 11000, "errmsg": "E11000 duplicate key" }],
            "writeConcernError": { "code": 64, "errmsg": "waiting for replication timed out" },
        };
        let fault = WriteFault::from_reply(&reply).expect("it has errors");
        assert_eq!(fault.errors[0].index, 1);
        assert_eq!(fault.write_concern.as_ref().map(|w| w.code), Some(64));
        assert_eq!(WriteFault::from_reply(&rawdoc! { "ok": 1, "n": 1 }), None);
    }
}
