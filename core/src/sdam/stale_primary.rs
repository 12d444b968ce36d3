//! Recognition of stale primaries by the pair of `electionId` and `setVersion` (table A.6).
//!
//! The maxima of both values never fall while a client exists. So one reply with a wrong value
//! makes the true primary stale for good. The client reports this by an event.

use super::Sdam;
use crate::{
    description::{ServerDescription, ServerId, TopologyDescription},
    event::SdamEvent,
    time::Instant,
};
use bson::oid::ObjectId;
use std::{fmt, time::Duration};

/// How long a server has to be refused as a stale primary before [`SdamEvent::PrimaryRefused`]. A
/// primary that lost an election steps down earlier: `electionTimeoutMillis` is 10 seconds by
/// default. 20 seconds; not an option.
pub const PRIMARY_REFUSED_NOTICE: Duration = Duration::from_secs(20);

/// The wire version of MongoDB 6.0. From this version on, `electionId` is compared before
/// `setVersion`.
const ELECTION_FIRST_WIRE_VERSION: i32 = 17;

/// Accepts `primary` and updates the maxima of both values in `topology`, or returns the error text
/// for a stale primary (SDAM-46). The wire version of `primary` decides which rule holds (SDAM-72,
/// SDAM-73).
pub(super) fn accept_primary(
    topology: &mut TopologyDescription,
    primary: &ServerDescription,
) -> Result<(), String> {
    let accepted = if primary.max_wire_version >= ELECTION_FIRST_WIRE_VERSION {
        accept_by_election(topology, primary)
    } else {
        accept_by_set_version(topology, primary)
    };
    if accepted {
        return Ok(());
    }
    Err(format!(
        "primary marked stale due to electionId/setVersion mismatch, {} is stale compared to {}",
        Pair(primary.election_id, primary.set_version),
        Pair(topology.max_election_id, topology.max_set_version),
    ))
}

/// Returns false for a stale primary (SDAM-72). Compares `electionId` first, as bytes, and then
/// `setVersion`. Null is less than every value and equal to null, as in the order of `Option`. An
/// accepted pair replaces both maxima, so the maximum of `setVersion` can become smaller.
fn accept_by_election(topology: &mut TopologyDescription, primary: &ServerDescription) -> bool {
    let new = (
        primary.election_id.map(|id| id.bytes()),
        primary.set_version,
    );
    let known = (
        topology.max_election_id.map(|id| id.bytes()),
        topology.max_set_version,
    );
    if new < known {
        return false;
    }
    topology.max_election_id = primary.election_id;
    topology.max_set_version = primary.set_version;
    true
}

/// Returns false for a stale primary (SDAM-73). Compares `setVersion` first, and then `electionId`.
/// A primary is not stale if one of its values or of the maxima is null.
fn accept_by_set_version(topology: &mut TopologyDescription, primary: &ServerDescription) -> bool {
    if let (Some(election), Some(version)) = (primary.election_id, primary.set_version) {
        if let (Some(max_election), Some(max_version)) =
            (topology.max_election_id, topology.max_set_version)
            && (max_version, max_election.bytes()) > (version, election.bytes())
        {
            return false;
        }
        topology.max_election_id = Some(election);
    }
    // `None` is less than every version.
    topology.max_set_version = topology.max_set_version.max(primary.set_version);
    true
}

/// A server that is refused as a stale primary.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusal {
    since: Instant,
    /// True once the event was emitted.
    is_reported: bool,
}

impl Sdam {
    /// Notes that a check of a server ended. `is_refused` is true if the server claims to be the
    /// primary and is stale. Emits an event once [`PRIMARY_REFUSED_NOTICE`] has passed since the
    /// first such check in a row.
    pub(super) fn note_refused_primary(&mut self, now: Instant, id: ServerId, is_refused: bool) {
        let Some(server) = self.servers.get_mut(&id) else {
            return;
        };
        if !is_refused {
            server.refusal = None;
            return;
        }
        let refusal = server.refusal.get_or_insert(Refusal {
            since: now,
            is_reported: false,
        });
        let refused_for = now.saturating_since(refusal.since);
        if refusal.is_reported || refused_for < PRIMARY_REFUSED_NOTICE {
            return;
        }
        refusal.is_reported = true;
        let address = server.address.clone();
        let newest = self.topology.newest_election().cloned();
        self.out.notice(|topology| SdamEvent::PrimaryRefused {
            topology,
            reason: reason(&newest),
            address,
            newest,
            refused_for,
        });
    }
}

/// Returns the cause of the refusal and the remedy. `newest` is the server whose election counts as
/// the newest.
fn reason(newest: &Option<crate::address::Address>) -> String {
    let source = match newest {
        Some(address) => address.to_string(),
        None => "another server".to_owned(),
    };
    format!(
        "{source} reported a newer electionId or setVersion; if the refused server is the true \
         primary, {source} reported wrong values: correct or remove {source}, then create the \
         client anew, which restarting the application does"
    )
}

/// `electionId` and `setVersion`, as the error text shows them.
struct Pair(Option<ObjectId>, Option<i64>);

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(election) => write!(f, "({election}, ")?,
            None => f.write_str("(null, ")?,
        }
        match self.1 {
            Some(version) => write!(f, "{version})"),
            None => f.write_str("null)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{address::Address, description::TopologyId};

    /// The last byte of `electionId`, and `setVersion`; `None` is null.
    type Known = (Option<u8>, Option<i64>);

    fn id(byte: u8) -> ObjectId {
        let mut bytes = [0; 12];
        bytes[11] = byte;
        ObjectId::from_bytes(bytes)
    }

    /// Returns the maxima after `new` was accepted; `None` if `new` is stale.
    fn step(max_wire_version: i32, known: Known, new: Known) -> Option<Known> {
        let mut topology = TopologyDescription::unknown(TopologyId(id(0)));
        topology.max_election_id = known.0.map(id);
        topology.max_set_version = known.1;
        let mut primary = ServerDescription::unknown(Address::tcp("a", 1));
        primary.max_wire_version = max_wire_version;
        primary.election_id = new.0.map(id);
        primary.set_version = new.1;
        accept_primary(&mut topology, &primary).ok()?;
        Some((
            topology.max_election_id.map(|id| id.bytes()[11]),
            topology.max_set_version,
        ))
    }

    #[test]
    fn a_stale_primary_error_names_both_election_and_set_version_pairs() {
        // The error text contains the pair of the primary and the maxima (SDAM-46).
        let mut topology = TopologyDescription::unknown(TopologyId(id(0)));
        topology.max_election_id = Some(id(2));
        let mut primary = ServerDescription::unknown(Address::tcp("a", 1));
        primary.max_wire_version = 17;
        primary.set_version = Some(7);
        let error = accept_primary(&mut topology, &primary).expect_err("it is stale");
        assert_eq!(
            error,
            "primary marked stale due to electionId/setVersion mismatch, (null, 7) is stale \
             compared to (000000000000000000000002, null)"
        );
    }

    #[test]
    fn from_wire_version_17_election_id_decides_before_set_version() {
        // From wire version 17 on, `electionId` is compared before `setVersion`, and an accepted
        // pair of these values replaces `maxElectionId` and `maxSetVersion` (SDAM-72).
        let known = (Some(2), Some(2));
        for (new, expected) in [
            ((Some(2), Some(2)), Some((Some(2), Some(2)))),
            ((Some(3), Some(1)), Some((Some(3), Some(1)))),
            ((Some(3), None), Some((Some(3), None))),
            ((Some(2), Some(1)), None),
            ((Some(2), None), None),
            ((Some(1), Some(3)), None),
            ((None, Some(3)), None),
        ] {
            assert_eq!(step(17, known, new), expected, "{new:?}");
        }
        assert_eq!(
            step(17, (None, Some(1)), (None, Some(1))),
            Some((None, Some(1)))
        );
    }

    #[test]
    fn below_wire_version_17_set_version_decides_and_null_is_never_stale() {
        // Below wire version 17, `setVersion` is compared first, and a pair with a null value is
        // never stale (SDAM-73).
        let known = (Some(2), Some(2));
        for (new, expected) in [
            ((Some(2), Some(2)), Some((Some(2), Some(2)))),
            ((Some(1), Some(3)), Some((Some(1), Some(3)))),
            ((Some(3), Some(1)), None),
            ((Some(1), Some(2)), None),
            ((None, Some(3)), Some((Some(2), Some(3)))),
            ((None, Some(1)), Some((Some(2), Some(2)))),
            ((Some(1), None), Some((Some(2), Some(2)))),
        ] {
            assert_eq!(step(16, known, new), expected, "{new:?}");
        }
        // An `electionId` without `setVersion` is not stored.
        assert_eq!(step(16, (None, None), (Some(1), None)), Some((None, None)));
    }
}
