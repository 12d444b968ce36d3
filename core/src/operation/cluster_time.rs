//! `$clusterTime`: the newest cluster time that the client has received. Each command sends this
//! time, except to a standalone server.
//!
//! One server chooses what the client sends to all others, so a server with a wrong clock, or a
//! hostile one, could make the others refuse every command. Four rules limit this:
//!
//! - The client sends only the fields that the specification defines, rebuilt from their values.
//! - A time that a server refused is dropped.
//! - The times of a server are ignored for [`IGNORED_FOR`] if two other servers refused some of
//!   them within that time. One hostile server can therefore not silence the others by refusing
//!   their times. Behind a load balancer all services are one server, and none is ignored.
//! - The operation is tried once more, without `$clusterTime`, if the server has not begun to run
//!   its command.

use crate::{
    bson::{DocumentWriter, integer_field},
    description::ServerId,
    error::{Error, ErrorKind},
    time::Instant,
};
use bson::{
    Binary, Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf, Timestamp, spec::BinarySubtype,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::{cmp::Ordering, collections::BTreeMap, sync::Arc, time::Duration};

/// The largest `$clusterTime` that is accepted, in bytes. Without a limit, a server could make each
/// command to each server large.
pub const MAX_CLUSTER_TIME_BYTES: usize = 4096;

/// How long the client ignores the cluster times of a server after two other servers refused some
/// of them, and how far apart these two refusals may be. 10 minutes; not an option.
pub const IGNORED_FOR: Duration = Duration::from_secs(600);

/// The length of the hash in a signature, in bytes. Servers refuse every command with a hash of
/// another length or another subtype than generic.
const HASH_BYTES: usize = 20;

/// The highest number of servers that are suspects at one time.
const MAX_SUSPECTS: usize = 256;

/// The codes with which a server refuses a `$clusterTime`, before it runs the command:
/// `TimeProofMismatch`, `ClusterTimeFailsRateLimiter`, `CannotVerifyAndSignLogicalTime` and
/// `KeyNotFound`.
const REFUSED: [i32; 4] = [204, 205, 210, 211];

/// `NoSuchKey`: the code with which older servers refuse a time without a signature.
const NO_SUCH_KEY: i32 = 4;

/// The code with which newer servers refuse a command because one of its fields is missing.
const MISSING_FIELD: i32 = 40414;

/// A signed cluster time of the deployment, as the server sent it.
///
/// Times are compared without their signatures. The serde form is that of `$clusterTime`, so that a
/// session of another process can continue from the time
/// ([`advance_cluster_time`](crate::client::Client::advance_cluster_time)).
#[derive(Clone, Debug)]
pub struct ClusterTime {
    time: (u32, u32),
    document: RawDocumentBuf,
    /// The server that sent the time; `None` until [`ClusterTimes`] keeps it.
    source: Option<ServerId>,
}

impl PartialEq for ClusterTime {
    fn eq(&self, other: &Self) -> bool {
        self.time == other.time
    }
}

impl Eq for ClusterTime {}

impl PartialOrd for ClusterTime {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ClusterTime {
    fn cmp(&self, other: &Self) -> Ordering {
        self.time.cmp(&other.time)
    }
}

impl Serialize for ClusterTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.document.serialize(serializer)
    }
}

/// Fails if [`ClusterTime::from_document`] finds no time in the document.
impl<'de> Deserialize<'de> for ClusterTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut document = Document::deserialize(deserializer)?;
        // In formats of text, the bytes of the hash are a list of numbers.
        if let Ok(signature) = document.get_document_mut("signature")
            && let Ok(numbers) = signature.get_array("hash")
        {
            let byte = |number: &Bson| u8::try_from(number.as_i32()?).ok();
            let bytes: Option<Vec<u8>> = numbers.iter().map(byte).collect();
            let bytes = bytes.ok_or_else(|| D::Error::custom("the hash has a number above 255"))?;
            let subtype = BinarySubtype::Generic;
            signature.insert("hash", Binary { subtype, bytes });
        }
        let document = RawDocumentBuf::try_from(&document).map_err(D::Error::custom)?;
        let malformed = || D::Error::custom("the document is not a $clusterTime");
        Self::from_document(&document).ok_or_else(malformed)
    }
}

/// Lets a function take a cluster time as well as an `Arc` of one.
impl AsRef<Self> for ClusterTime {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl ClusterTime {
    /// Reads the `$clusterTime` document of a reply: the fields `clusterTime` and `signature`.
    /// `None` if the document has no time, if its signature is malformed, or if the document is
    /// larger than [`MAX_CLUSTER_TIME_BYTES`].
    ///
    /// ```
    /// use bson::{Timestamp, rawdoc};
    /// use onionskin_core::operation::ClusterTime;
    ///
    /// let time = Timestamp { time: 1_767_268_800, increment: 1 };
    /// assert!(ClusterTime::from_document(&rawdoc! { "clusterTime": time }).is_some());
    /// assert!(ClusterTime::from_document(&rawdoc! { "clusterTime": "noon" }).is_none());
    /// ```
    #[must_use]
    pub fn from_document(document: &RawDocument) -> Option<Self> {
        let time = read(document)?;
        let signature = match document.get("signature").ok()? {
            Some(RawBsonRef::Document(signature)) => {
                let hash = signature.get_binary("hash").ok()?;
                if hash.subtype != BinarySubtype::Generic || hash.bytes.len() != HASH_BYTES {
                    return None;
                }
                Some((hash, integer_field(signature, "keyId")?))
            }
            Some(_) => return None,
            None => None,
        };
        let mut bytes = Vec::with_capacity(document.as_bytes().len());
        let mut copy = DocumentWriter::begin(&mut bytes);
        let (seconds, increment) = time;
        let timestamp = Timestamp {
            time: seconds,
            increment,
        };
        copy.value("clusterTime", timestamp.into());
        if let Some((hash, key)) = signature {
            copy.nested("signature", |copy| {
                copy.binary("hash", hash.subtype, hash.bytes);
                copy.i64("keyId", key);
            });
        }
        copy.end();
        Some(Self {
            time,
            document: RawDocumentBuf::from_bytes(bytes).ok()?,
            source: None,
        })
    }

    /// Returns the document that commands send as `$clusterTime`.
    ///
    /// ```
    /// use bson::{Timestamp, rawdoc};
    /// use onionskin_core::operation::ClusterTime;
    ///
    /// let document = rawdoc! { "clusterTime": Timestamp { time: 1, increment: 2 } };
    /// let time = ClusterTime::from_document(&document).expect("a time");
    /// assert_eq!(time.document(), &*document);
    /// ```
    #[must_use]
    pub fn document(&self) -> &RawDocument {
        &self.document
    }

    /// True if `document` has a valid time that is later than `known`, or any valid time if `known`
    /// is `None`. Allocates nothing, because most replies have no later time.
    #[must_use]
    pub fn is_newer(document: &RawDocument, known: Option<&Self>) -> bool {
        match (read(document), known) {
            (Some(new), Some(known)) => new > known.time,
            (Some(_), None) => true,
            (None, _) => false,
        }
    }

    /// True if this time is later than `other`, or if `other` is `None`.
    ///
    /// ```
    /// use bson::{Timestamp, rawdoc};
    /// use onionskin_core::operation::ClusterTime;
    ///
    /// let of = |increment| {
    ///     let time = Timestamp { time: 1, increment };
    ///     ClusterTime::from_document(&rawdoc! { "clusterTime": time }).expect("a time")
    /// };
    /// assert!(of(2).is_after(Some(&of(1))));
    /// assert!(!of(1).is_after(Some(&of(1))));
    /// ```
    #[must_use]
    pub fn is_after(&self, other: Option<&Self>) -> bool {
        other.is_none_or(|other| self.time > other.time)
    }
}

/// A server of whose times another server refused one.
#[derive(Debug)]
struct Suspect {
    /// The first server that refused a time.
    refuser: ServerId,
    /// True once a second server has refused a time. The times of the suspect are then ignored.
    is_ignored: bool,
    /// The time at which the suspicion ends.
    until: Instant,
}

/// The newest cluster time that a client knows, and the servers whose times others refused.
#[derive(Debug, Default)]
pub(crate) struct ClusterTimes {
    newest: Option<Arc<ClusterTime>>,
    suspects: BTreeMap<ServerId, Suspect>,
}

impl ClusterTimes {
    /// Returns the newest cluster time.
    #[inline]
    pub(crate) fn newest(&self) -> Option<&Arc<ClusterTime>> {
        self.newest.as_ref()
    }

    /// Keeps a time that a server sent, if it is later than the newest one and the times of this
    /// server are not ignored.
    pub(crate) fn note(&mut self, now: Instant, mut time: ClusterTime, server: ServerId) {
        let is_ignored = |suspect: &Suspect| suspect.is_ignored && now < suspect.until;
        if self.suspects.get(&server).is_some_and(is_ignored)
            || !time.is_after(self.newest.as_deref())
        {
            return;
        }
        time.source = Some(server);
        self.newest = Some(Arc::new(time));
    }

    /// Drops a time that the server `refuser` refused. Ignores the times of the server that it came
    /// from, if a third server refused one of them before.
    pub(crate) fn refuse(&mut self, now: Instant, refused: &ClusterTime, refuser: ServerId) {
        if self.newest.as_deref().is_some_and(|newest| {
            // A later time of the same server is no better.
            newest.source == refused.source || !newest.is_after(Some(refused))
        }) {
            self.newest = None;
        }
        let source = refused.source.filter(|source| *source != refuser);
        let (Some(source), Some(until)) = (source, now.checked_add(IGNORED_FOR)) else {
            return;
        };
        self.suspects.retain(|_, suspect| now < suspect.until);
        if self.suspects.len() >= MAX_SUSPECTS && !self.suspects.contains_key(&source) {
            return;
        }
        let suspect = self.suspects.entry(source).or_insert(Suspect {
            refuser,
            is_ignored: false,
            until,
        });
        if !suspect.is_ignored {
            suspect.is_ignored = suspect.refuser != refuser;
            suspect.until = until;
        }
    }
}

/// True if a server refused a `$clusterTime`. Codes that commands use as well count only with the
/// exact text of the parser: errors of commands can mention a field `clusterTime` of the
/// application.
pub(crate) fn refuses_cluster_time(error: &Error) -> bool {
    let ErrorKind::Command(fault) = error.kind() else {
        return false;
    };
    match fault.code {
        NO_SUCH_KEY => fault.message == "Missing expected field \"signature\"",
        MISSING_FIELD => {
            let path = fault.message.strip_prefix("BSON field '");
            let path = path.and_then(|rest| rest.split_once("' is missing"));
            path.is_some_and(|(path, _)| {
                path.starts_with("$clusterTime.") || path.contains(".$clusterTime.")
            })
        }
        code => REFUSED.contains(&code),
    }
}

/// True if a refusal of a `$clusterTime` came before the command began. A server checks the field
/// first. A router can also pass on the refusal of a shard, which may have come in the middle of
/// the command. The text of such an error is a chain of causes.
pub(crate) fn is_refused_at_once(error: &Error) -> bool {
    let is_chain = |text: &str| text.contains(" :: caused by :: ");
    matches!(error.kind(), ErrorKind::Command(fault) if !is_chain(&fault.message))
}

fn read(document: &RawDocument) -> Option<(u32, u32)> {
    if document.as_bytes().len() > MAX_CLUSTER_TIME_BYTES {
        return None;
    }
    let Timestamp { time, increment } = document.get_timestamp("clusterTime").ok()?;
    Some((time, increment))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn only_a_later_cluster_time_is_newer() {
        let at = |time, increment| rawdoc! { "clusterTime": Timestamp { time, increment } };
        let known = ClusterTime::from_document(&at(5, 5));
        assert!(!ClusterTime::is_newer(&at(5, 5), known.as_ref()));
        assert!(!ClusterTime::is_newer(&at(4, 9), known.as_ref()));
        assert!(ClusterTime::is_newer(&at(5, 6), known.as_ref()));
        assert!(ClusterTime::is_newer(&at(0, 1), None));
        assert!(!ClusterTime::is_newer(&rawdoc! { "clusterTime": 7 }, None));
    }

    #[test]
    fn cluster_times_are_ordered_and_can_be_stored() {
        let time = |increment, signature: i64| {
            let clock = Timestamp { time: 5, increment };
            let hash = Binary {
                subtype: BinarySubtype::Generic,
                bytes: vec![7; 20],
            };
            let signature = rawdoc! { "hash": hash, "keyId": signature };
            let document = rawdoc! { "clusterTime": clock, "signature": signature };
            ClusterTime::from_document(&document).expect("a time")
        };
        assert_eq!(time(1, 1), time(1, 2));
        assert!(time(1, 2) < time(2, 1));
        let json = serde_json::to_string(&time(3, 4)).expect("a text");
        let read: ClusterTime = serde_json::from_str(&json).expect("a time");
        assert_eq!(read.document(), time(3, 4).document());
        let bytes = bson::serialize_to_vec(&time(3, 4)).expect("a document");
        assert_eq!(bytes, read.document().as_bytes());
        assert!(serde_json::from_str::<ClusterTime>("{\"clusterTime\": 7}").is_err());
    }

    #[test]
    fn only_the_fields_of_the_specification_are_gossiped() {
        let clock = Timestamp {
            time: 5,
            increment: 1,
        };
        let hash = Binary {
            subtype: BinarySubtype::Generic,
            bytes: vec![7; HASH_BYTES],
        };
        let signature = rawdoc! { "hash": hash.clone(), "keyId": 3_i64 };
        let plain = rawdoc! { "clusterTime": clock, "signature": signature };
        let sent = |document: &RawDocument| {
            ClusterTime::from_document(document).map(|time| time.document().to_owned())
        };
        assert_eq!(sent(&plain).as_ref(), Some(&plain));
        let more = rawdoc! {
            "x": 1, "clusterTime": clock, "clusterTime": 1,
            "signature": { "keyId": 3_i64, "y": true, "hash": hash },
        };
        assert_eq!(sent(&more).as_ref(), Some(&plain));
        let odd = rawdoc! { "clusterTime": clock, "signature": { "hash": "x", "keyId": 3_i64 } };
        assert_eq!(sent(&odd), None);
        assert_eq!(
            sent(&rawdoc! { "clusterTime": clock, "signature": 1 }),
            None
        );
        for (subtype, length) in [
            (BinarySubtype::Generic, HASH_BYTES - 1),
            (BinarySubtype::Generic, HASH_BYTES + 1),
            (BinarySubtype::Md5, HASH_BYTES),
        ] {
            let bytes = vec![7; length];
            let hash = Binary { subtype, bytes };
            let signature = rawdoc! { "hash": hash, "keyId": 3_i64 };
            let odd = rawdoc! { "clusterTime": clock, "signature": signature };
            assert_eq!(sent(&odd), None);
        }
    }

    fn refused(code: i32, text: &str) -> bool {
        let reply = rawdoc! { "ok": 0, "code": code, "errmsg": text };
        let fault = crate::error::CommandError::from_reply(&reply);
        refuses_cluster_time(&ErrorKind::Command(fault).into())
    }

    #[test]
    fn refusals_of_a_cluster_time_are_recognized_by_code_and_text() {
        assert!(refused(211, "Cache Reader No keys found for HMAC"));
        assert!(refused(4, "Missing expected field \"signature\""));
        assert!(refused(
            40414,
            "BSON field '$clusterTime.signature' is missing"
        ));
        assert!(refused(
            40414,
            "BSON field 'find.$clusterTime.signature' is missing but a required field"
        ));
        assert!(!refused(9, "unknown operator: $foo"));
        assert!(!refused(11000, "dup key: { clusterTime: 1 }"));
    }

    #[test]
    fn errors_about_fields_of_the_application_refuse_no_cluster_time() {
        let inc = "Cannot apply $inc to a value of non-numeric type. {_id: 1} has the field \
                   'clusterTime' of non-numeric type string";
        for (code, text) in [
            (14, inc),
            (9, "Failed to parse the field \"clusterTime\""),
            (4, "Missing expected field \"signature\" in the document"),
            (4, "no key \"clusterTime\""),
            (40414, "BSON field 'insert.clusterTime' is missing"),
            (
                40414,
                "PlanExecutor error :: caused by :: BSON field '$clusterTime.x' is missing",
            ),
            (
                40415,
                "BSON field 'app.$clusterTime.x' is an unknown field.",
            ),
        ] {
            assert!(!refused(code, text), "{code} {text}");
        }
    }
}
