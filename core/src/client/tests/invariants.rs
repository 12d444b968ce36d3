//! Invariants of a client between any two inputs: its parts agree with each other.

use super::*;
use crate::pool::PoolState;

/// Asserts that the parts of a client agree: each pool with the records of its connections, each
/// timer with the thing that it limits, and the operation counts of servers with the operations.
pub(super) fn assert_agree(client: &Client) {
    let snapshot = client.snapshot();
    assert_pools(&snapshot);
    assert_timers(client, &snapshot);
    assert_operations(client, &snapshot);
}

/// Asserts that each pool counts the connections that have a record.
fn assert_pools(snapshot: &Snapshot) {
    let pinned: BTreeSet<SocketId> = snapshot.pins.iter().map(|pin| pin.socket).collect();
    let grants: BTreeSet<SocketId> = granted(snapshot).collect();
    for pool in &snapshot.pools {
        let [mut idle, mut made, mut used, mut late] = [0; 4];
        for &(socket, state) in &snapshot.connections {
            match state {
                ConnectionState::Idle(server, _) if server == pool.server => idle += 1,
                ConnectionState::Establishing(server, _) if server == pool.server => made += 1,
                ConnectionState::InUse(server, _)
                | ConnectionState::Pinned(server, _)
                | ConnectionState::Authenticating(server, _)
                    if server == pool.server =>
                {
                    used += 1;
                }
                ConnectionState::Draining(server, _) if server == pool.server => {
                    *(if pinned.contains(&socket) {
                        &mut used
                    } else {
                        &mut late
                    }) += 1;
                }
                ConnectionState::Granted(_) => assert!(grants.contains(&socket)),
                _ => {}
            }
        }
        let counts = pool.counts;
        assert_eq!(
            (counts.available, counts.pending, counts.draining),
            (idle, made, late)
        );
        assert!(counts.in_use >= used);
        assert!(pool.state != PoolState::Closed || counts.in_use > 0);
    }
    let in_use: u32 = snapshot.pools.iter().map(|pool| pool.counts.in_use).sum();
    let is_used = |state: &ConnectionState| {
        matches!(
            state,
            ConnectionState::InUse(..)
                | ConnectionState::Pinned(..)
                | ConnectionState::Granted(_)
                | ConnectionState::Authenticating(..)
        )
    };
    let used = snapshot.connections.iter().filter(|(socket, state)| {
        let is_late = matches!(state, ConnectionState::Draining(..));
        is_used(state) || is_late && pinned.contains(socket)
    });
    assert_eq!(in_use as usize, used.count(), "{snapshot:?}");
}

/// Returns the sockets of all connections that are granted to operations.
fn granted(snapshot: &Snapshot) -> impl Iterator<Item = SocketId> {
    snapshot.operations.iter().filter_map(|waiting| {
        let OperationState::Granted(socket) = waiting.state else {
            return None;
        };
        Some(socket)
    })
}

/// Asserts that each timer belongs to a thing that exists.
fn assert_timers(client: &Client, snapshot: &Snapshot) {
    let connections: BTreeMap<SocketId, ConnectionState> =
        snapshot.connections.iter().copied().collect();
    let mut drains = 0;
    for (_, timer) in &snapshot.timers {
        let is_alive = match timer {
            Timer::Step(socket) => matches!(
                connections.get(socket),
                Some(
                    ConnectionState::Establishing(..)
                        | ConnectionState::Authenticating(..)
                        | ConnectionState::Monitoring(_)
                )
            ),
            Timer::Wait(id) => snapshot.operations.iter().any(|waiting| {
                let waits_for_others = matches!(
                    waiting.state,
                    OperationState::Asking
                        | OperationState::Failed
                        | OperationState::ForConnection(_)
                );
                waiting.id == *id && !waits_for_others
            }),
            // This timer may be armed without a grant.
            Timer::Grants => true,
            Timer::Exchange(socket) => {
                matches!(connections.get(socket), Some(ConnectionState::InUse(..)))
            }
            Timer::Drain(socket) => {
                drains += 1;
                matches!(connections.get(socket), Some(ConnectionState::Draining(..)))
            }
            Timer::Question(question) => snapshot.questions.contains(question),
            // The tests with these invariants look up no seed list and call no callback.
            Timer::Rescan | Timer::Callback => false,
            Timer::Reselection => client.attempts.reselecting.is_some(),
        };
        assert!(is_alive, "{timer:?}: {snapshot:?}");
    }
    let examined = snapshot
        .timers
        .iter()
        .find(|(_, timer)| *timer == Timer::Grants);
    for (_, operation, at) in client.connections.grants() {
        assert!(
            examined.is_some_and(|&(next, _)| next <= at),
            "{operation:?}: {snapshot:?}"
        );
    }
    let draining = connections
        .values()
        .filter(|state| matches!(state, ConnectionState::Draining(..)));
    assert_eq!(drains, draining.count(), "each late reply has a limit");
}

/// Asserts that the operation count of each server is the number of attempts that wait for a
/// connection to it or have one.
fn assert_operations(client: &Client, snapshot: &Snapshot) {
    let mut expected: BTreeMap<ServerId, u32> = BTreeMap::new();
    for &(socket, state) in &snapshot.connections {
        let server = match state {
            ConnectionState::InUse(server, _) | ConnectionState::Authenticating(server, _) => {
                server
            }
            ConnectionState::Granted(_) => match client.connections.role(socket) {
                Some(connections::Role::Pooled(server, _)) => server,
                role => panic!("{role:?}"),
            },
            _ => continue,
        };
        *expected.entry(server).or_default() += 1;
    }
    for waiting in &snapshot.operations {
        if let OperationState::ForConnection(server) = waiting.state {
            *expected.entry(server).or_default() += 1;
        }
    }
    for server in 0..16 {
        let expected = expected.get(&ServerId(server)).copied().unwrap_or_default();
        let counted = client.attempts.choice.operation_count(ServerId(server));
        assert_eq!(counted, expected, "{server}: {snapshot:?}");
    }
}
