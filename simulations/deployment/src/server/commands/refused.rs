//! The commands that servers have and the simulated server does not. Such a command fails as on a
//! server without it.

use super::Release;
use crate::server::fault::{Fault, fault};
use crate::store::StoreError;

/// The kinds of servers that have a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Everywhere,
    /// Standalones and members of replica sets.
    Members,
    Routers,
}

/// Commands that are not simulated, with the servers that have them.
#[derive(Debug)]
struct Refused {
    names: &'static [&'static str],
    place: Place,
    /// The release in which the commands appeared.
    since: Release,
    /// The first release without the commands.
    until: Release,
}

const fn refused(names: &'static [&'static str], place: Place) -> Refused {
    Refused {
        names,
        place,
        since: (0, 0),
        until: (u16::MAX, 0),
    }
}

impl Refused {
    const fn since(mut self, major: u16, minor: u16) -> Self {
        self.since = (major, minor);
        self
    }

    const fn until(mut self, major: u16, minor: u16) -> Self {
        self.until = (major, minor);
        self
    }
}

const TABLE: &[Refused] = &[
    refused(
        &[
            "createRole",
            "dropAllRolesFromDatabase",
            "dropRole",
            "grantPrivilegesToRole",
            "grantRolesToRole",
            "grantRolesToUser",
            "invalidateUserCache",
            "revokePrivilegesFromRole",
            "revokeRolesFromRole",
            "revokeRolesFromUser",
            "rolesInfo",
            "updateRole",
        ],
        Place::Everywhere,
    ),
    refused(
        &[
            "convertToCapped",
            "getShardMap",
            "listCommands",
            "logRotate",
            "mapReduce",
            "mapreduce",
            "planCacheClear",
            "planCacheClearFilters",
            "planCacheListFilters",
            "planCacheSetFilter",
            "setFeatureCompatibilityVersion",
            "shutdown",
        ],
        Place::Everywhere,
    ),
    refused(
        &["getDefaultRWConcern", "setDefaultRWConcern"],
        Place::Everywhere,
    )
    .since(4, 4),
    refused(&["getLastError", "getlasterror"], Place::Everywhere).until(5, 1),
    refused(
        &[
            "applyOps",
            "cloneCollectionAsCapped",
            "compact",
            "dbHash",
            "dbhash",
            "fsyncUnlock",
            "lockInfo",
            "reIndex",
            "replSetAbortPrimaryCatchUp",
            "replSetMaintenance",
            "replSetResizeOplog",
            "replSetSyncFrom",
        ],
        Place::Members,
    ),
    refused(
        &[
            "addShard",
            "addShardToZone",
            "balancerStart",
            "balancerStatus",
            "balancerStop",
            "flushRouterConfig",
            "isdbgrid",
            "mergeChunks",
            "moveChunk",
            "movePrimary",
            "removeShard",
            "removeShardFromZone",
            "split",
            "updateZoneKeyRange",
        ],
        Place::Routers,
    ),
    refused(
        &["balancerCollectionStatus", "refineCollectionShardKey"],
        Place::Routers,
    )
    .since(4, 4),
    refused(
        &[
            "abortReshardCollection",
            "commitReshardCollection",
            "reshardCollection",
        ],
        Place::Routers,
    )
    .since(5, 0),
    refused(&["moveCollection", "unshardCollection"], Place::Routers).since(8, 0),
];

/// True if a server of some release has a command of this name, which is refused.
pub(super) fn contains(name: &str) -> bool {
    TABLE.iter().any(|entry| entry.names.contains(&name))
}

/// Returns the error of a command that the server of a release has, but the simulated server
/// refuses: that of a server without the command, or without JavaScript.
pub(in crate::server) fn refusal(
    name: &str,
    [major, minor, _]: [u16; 3],
    is_router: bool,
) -> Option<Fault> {
    let release = (major, minor);
    let is_here = |entry: &&Refused| match entry.place {
        Place::Everywhere => true,
        Place::Members => !is_router,
        Place::Routers => is_router,
    };
    let exists = |entry: &&Refused| entry.since <= release && release < entry.until;
    let mut entries = TABLE.iter().filter(is_here).filter(exists);
    let is_refused = entries.any(|entry| entry.names.contains(&name));
    is_refused.then(|| {
        let error = match name {
            "mapReduce" | "mapreduce" if release < (4, 4) => {
                fault(16149, "cannot run map reduce without the js engine")
            }
            "mapReduce" | "mapreduce" => StoreError::without_javascript().into(),
            _ => fault(59, format!("no such command: '{name}'")),
        };
        error.not_simulated(name)
    })
}
