//! Checks connection pools: the states of each connection, the limits, that no stale connection is
//! checked out, and that a refused login clears the pool.

use super::ensure;
use onionskin_core::{
    address::Address,
    error::{Error, ErrorKind, Label},
    event::{Event, EventKind, PoolEvent},
    time::Instant,
};
use std::collections::{BTreeMap, BTreeSet};

/// The code of `AuthenticationFailed`.
const AUTHENTICATION_FAILED: i32 = 18;

#[derive(Debug)]
pub(super) struct PoolChecker {
    max_size: u32,
    max_connecting: u32,
    /// The open pools, and the closed pools that still have connections.
    pools: BTreeMap<Address, Vec<Pool>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Establishing,
    Idle,
    InUse,
}

#[derive(Debug, Default)]
struct Pool {
    is_ready: bool,
    is_closed: bool,
    /// The number of clears of the whole pool. Clears of one service do not count.
    clears: u64,
    /// The state of each connection, and the value of `clears` when the connection was created.
    connections: BTreeMap<u64, (Life, u64)>,
    /// The connections that were established when a service was cleared. They may belong to that
    /// service.
    doubtful: BTreeSet<u64>,
    asking: u64,
    /// The time at which each connection that is being established was created.
    created: BTreeMap<u64, Instant>,
    /// The time of the latest login that a server refused on a connection that was not stale.
    refused: Option<Instant>,
    /// The time of the latest clear, also of one service.
    cleared: Option<Instant>,
}

impl PoolChecker {
    pub(super) fn new(max_size: u32, max_connecting: u32) -> Self {
        Self {
            max_size,
            max_connecting,
            pools: BTreeMap::new(),
        }
    }

    pub(super) fn observe(&mut self, event: &Event) -> Result<(), String> {
        let at = event.at;
        let EventKind::Pool(event) = &event.kind else {
            return Ok(());
        };
        let address = event.address();
        let pools = self.pools.entry(address.clone()).or_default();
        if let PoolEvent::Created { .. } = event {
            if pools.iter().any(|pool| !pool.is_closed) {
                return Err(format!("{address} has two pools"));
            }
            pools.push(Pool::default());
            return Ok(());
        }
        let pool = pick(pools, event).ok_or_else(|| format!("{address} has no pool: {event:?}"))?;
        let result = pool
            .observe(at, event)
            .and_then(|()| pool.check_bounds(self.max_size, self.max_connecting));
        pools.retain(|pool| !pool.has_ended());
        result.map_err(|what| format!("pool of {address}: {what}"))
    }

    pub(super) fn finish(&self) -> Result<(), String> {
        for (address, pools) in &self.pools {
            if let Some(pool) = pools.first() {
                return Err(format!("the pool of {address} was left as {pool:?}"));
            }
        }
        Ok(())
    }
}

/// Returns the pool of an event. An event about a remaining connection or check out of a closed
/// pool belongs to that pool, and any other event to the newest pool.
fn pick<'a>(pools: &'a mut [Pool], event: &PoolEvent) -> Option<&'a mut Pool> {
    let closed = match event {
        PoolEvent::ConnectionClosed { connection, .. }
        | PoolEvent::CheckedIn { connection, .. } => {
            let has = |pool: &Pool| pool.connections.contains_key(connection);
            let in_use = |pool: &Pool| {
                pool.connections
                    .get(connection)
                    .is_some_and(|(life, _)| *life == Life::InUse)
            };
            let checked_in = matches!(event, PoolEvent::CheckedIn { .. });
            // Pools number their connections alike. A connection is checked in while it is in use,
            // and closed while it is not.
            pools
                .iter()
                .position(|pool| pool.is_closed && has(pool) && checked_in == in_use(pool))
        }
        PoolEvent::CheckOutFailed { .. } => pools
            .iter()
            .position(|pool| pool.is_closed && pool.asking > 0),
        _ => None,
    };
    match closed {
        Some(place) => pools.get_mut(place),
        None => pools.last_mut(),
    }
}

/// True if a login was refused because of the credential. Such an error clears the pool (AUTH-19),
/// unless it is labelled as one of overload. A change of the server's state may be known already.
fn is_refused_login(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Authentication { .. })
        && error.code() == Some(AUTHENTICATION_FAILED)
        && !error.has_label(&Label::SystemOverloadedError)
}

impl Pool {
    /// True if no event of a closed pool follows.
    fn has_ended(&self) -> bool {
        self.is_closed && self.connections.is_empty() && self.asking == 0
    }

    fn observe(&mut self, at: Instant, event: &PoolEvent) -> Result<(), String> {
        match event {
            PoolEvent::Ready { .. } => {
                let was_ready = std::mem::replace(&mut self.is_ready, true);
                let is_news = !was_ready && !self.is_closed;
                ensure(is_news, || {
                    "became ready although it was ready or closed".to_owned()
                })?;
            }
            PoolEvent::Cleared { service, .. } => {
                self.cleared = Some(at);
                self.clear(service.is_some())?;
            }
            PoolEvent::Closed { .. } => {
                let was_closed = std::mem::replace(&mut self.is_closed, true);
                ensure(!was_closed, || "closed twice".to_owned())?;
            }
            PoolEvent::ConnectionCreated { connection, .. } => {
                self.create(at, *connection)?;
            }
            PoolEvent::ConnectionReady { connection, .. } => {
                self.created.remove(connection);
                self.turn(*connection, Life::Establishing, Life::Idle)?;
            }
            PoolEvent::CheckedOut { connection, .. } => {
                self.turn(*connection, Life::Idle, Life::InUse)?;
                self.answer()?;
                let made = self.connections.get(connection).map(|(_, clears)| *clears);
                if made != Some(self.clears) {
                    return Err(format!("stale connection {connection} was handed out"));
                }
                if !self.is_ready || self.is_closed {
                    return Err(format!(
                        "connection {connection} handed out by a paused pool"
                    ));
                }
            }
            PoolEvent::CheckedIn { connection, .. } => {
                self.turn(*connection, Life::InUse, Life::Idle)?;
            }
            PoolEvent::ConnectionClosed {
                connection, error, ..
            } => {
                self.doubtful.remove(connection);
                let created = self.created.remove(connection);
                if error.as_ref().is_some_and(is_refused_login) && created > self.cleared {
                    self.refused = Some(at);
                }
                match self.connections.remove(connection) {
                    None => return Err(format!("connection {connection} closed, but unknown")),
                    Some((Life::InUse, _)) => {
                        return Err(format!("connection {connection} closed while it is in use"));
                    }
                    Some(_) => {}
                }
            }
            PoolEvent::CheckOutStarted { .. } => self.asking += 1,
            PoolEvent::CheckOutFailed { .. } => self.answer()?,
            _ => {}
        }
        Ok(())
    }

    fn create(&mut self, at: Instant, connection: u64) -> Result<(), String> {
        ensure(self.is_ready && !self.is_closed, || {
            format!("connection {connection} made while it was not ready")
        })?;
        // Otherwise clients with a wrong password connect without end.
        ensure(self.refused <= self.cleared, || {
            format!("connection {connection} made after a refused login that cleared nothing")
        })?;
        self.created.insert(connection, at);
        let life = (Life::Establishing, self.clears);
        let is_new = self.connections.insert(connection, life).is_none();
        ensure(is_new, || format!("connection {connection} made twice"))
    }

    fn clear(&mut self, is_of_service: bool) -> Result<(), String> {
        ensure(self.is_ready, || {
            "was cleared while it was not ready".to_owned()
        })?;
        if is_of_service {
            // A clear of one service does not pause the pool, because the other services are not
            // affected (LB-52).
            let lives = self.connections.iter();
            let whole = lives.filter(|(_, (life, _))| *life != Life::Establishing);
            self.doubtful
                .extend(whole.map(|(connection, _)| *connection));
        } else {
            self.is_ready = false;
            self.clears += 1;
        }
        Ok(())
    }

    fn turn(&mut self, connection: u64, from: Life, to: Life) -> Result<(), String> {
        match self.connections.get_mut(&connection) {
            Some((life, _)) if *life == from => {
                *life = to;
                Ok(())
            }
            other => Err(format!(
                "connection {connection} becomes {to:?} from {other:?}"
            )),
        }
    }

    fn answer(&mut self) -> Result<(), String> {
        self.asking = self
            .asking
            .checked_sub(1)
            .ok_or("ended a check out that did not start")?;
        Ok(())
    }

    fn check_bounds(&self, max_size: u32, max_connecting: u32) -> Result<(), String> {
        // Connections from before a clear do not count, because they can remain while they are in
        // use.
        let current = |life: Option<Life>| {
            let lives = self.connections.iter();
            lives
                .filter(|(connection, (l, clears))| {
                    let is_current = *clears == self.clears && !self.doubtful.contains(connection);
                    is_current && life.is_none_or(|life| *l == life)
                })
                .count()
        };
        if max_size > 0 && current(None) > max_size as usize {
            return Err(format!("more than {max_size} connections"));
        }
        if current(Some(Life::Establishing)) > max_connecting as usize {
            return Err(format!(
                "more than {max_connecting} connections being established"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onionskin_core::{error::CommandError, event::CloseReason};
    use std::time::Duration;

    fn events(list: &[&str]) -> Result<(), String> {
        let mut checker = PoolChecker::new(5, 2);
        for (at, name) in (1..).zip(list) {
            let address = Address::tcp("a", 1);
            let (connection, duration) = (1, Duration::ZERO);
            let event = match *name {
                "created" => {
                    let options = Default::default();
                    PoolEvent::Created { address, options }
                }
                "ready" => PoolEvent::Ready { address },
                "over" => PoolEvent::Closed { address },
                "cleared" => PoolEvent::Cleared {
                    address,
                    service: None,
                    interrupt_in_use: false,
                },
                "made" => PoolEvent::ConnectionCreated {
                    address,
                    connection,
                },
                "whole" => PoolEvent::ConnectionReady {
                    address,
                    connection,
                    duration,
                },
                "asked" => PoolEvent::CheckOutStarted { address },
                "out" => PoolEvent::CheckedOut {
                    address,
                    connection,
                    duration,
                },
                "in" => PoolEvent::CheckedIn {
                    address,
                    connection,
                },
                "refused" | "closed" => PoolEvent::ConnectionClosed {
                    address,
                    connection,
                    reason: CloseReason::Error,
                    error: (*name == "refused").then(|| refused(18)),
                },
                other => panic!("{other}"),
            };
            let at = Instant::ZERO + Duration::from_secs(at);
            let kind = EventKind::Pool(event);
            checker.observe(&Event::new(at, kind))?;
        }
        checker.finish()
    }

    fn refused(code: i32) -> Error {
        let reply = bson::rawdoc! { "ok": 0, "code": code };
        Error::from(ErrorKind::Authentication {
            mechanism: "SCRAM-SHA-256",
            message: "refused".to_owned(),
            cause: Some(Box::new(CommandError::from_reply(&reply))),
        })
    }

    #[test]
    fn a_connection_belongs_to_the_pool_in_which_its_event_is_possible() {
        let first = ["created", "ready", "made", "whole", "asked", "out", "over"];
        let second = ["created", "ready", "made", "closed", "over", "in", "closed"];
        assert_eq!(events(&[first, second].concat()), Ok(()));
        let early = [&first[..], &["closed"]].concat();
        let error = events(&early).expect_err("it is in use");
        assert!(error.contains("while it is in use"), "{error}");
    }

    #[test]
    fn after_a_refused_login_the_pool_is_cleared_before_it_connects_again() {
        let begin = ["created", "ready", "made", "refused"];
        for (rest, is_right) in [
            (&["made"][..], false),
            (&["cleared", "ready", "made", "closed", "over"], true),
        ] {
            let result = events(&[&begin[..], rest].concat());
            assert_eq!(result.is_ok(), is_right, "{result:?}");
        }
    }

    #[test]
    fn only_a_refused_credential_without_a_label_of_overload_counts() {
        assert!(is_refused_login(&refused(18)));
        assert!(!is_refused_login(&refused(189)));
        let shed = refused(18).with_label(Label::SystemOverloadedError);
        assert!(!is_refused_login(&shed));
    }
}
