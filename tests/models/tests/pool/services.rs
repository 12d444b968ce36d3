//! The services behind a load balancer, as they follow from inputs: the connections of each
//! service, and its clears since its first connection.

use crate::{
    bench::{Found, id_of},
    watch::want,
};
use onionskin_core::unstable::pool::{Pool, PoolState};
use onionskin_models::pool::{Answer, Input};
use std::collections::BTreeMap;

/// A connection whose service has replied to its `hello`.
#[derive(Clone, Copy, Debug)]
struct Member {
    service: u8,
    generation: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Services {
    members: BTreeMap<u64, Member>,
    /// The generations of the services that have connections.
    generations: BTreeMap<u8, u64>,
    /// The service that the current input cleared and whose event has to follow.
    cleared: Option<u8>,
    /// True if the pool is closed. Then no clear has an effect.
    closed: bool,
}

impl Services {
    pub(crate) fn knows(&self, connection: u64) -> bool {
        self.members.contains_key(&connection)
    }

    /// Applies an input, and checks its answer. `pending` are the connections that are being
    /// established.
    pub(crate) fn before(&mut self, input: &Input, answer: &Answer, pending: &[u64]) -> Found {
        match (input, answer) {
            (
                Input::HelloAnswered {
                    connection,
                    service,
                },
                Answer::HelloAnswered(generation),
            ) => {
                let known = *self.generations.get(service).unwrap_or(&0);
                let fits = pending.contains(connection) && !self.knows(*connection);
                let expected = fits.then_some(known);
                if let Some(generation) = expected {
                    let member = Member {
                        service: *service,
                        generation,
                    };
                    self.members.insert(*connection, member);
                    self.generations.insert(*service, generation);
                }
                want(*generation == expected, || {
                    format!("not {expected:?} (CMAP-99)")
                })
            }
            (Input::Close, _) => {
                self.closed = true;
                Ok(())
            }
            (Input::ClearService(service), _) if !self.closed => {
                if let Some(generation) = self.generations.get_mut(service) {
                    *generation += 1;
                    self.cleared = Some(*service);
                }
                Ok(())
            }
            (_, Answer::HelloAnswered(_)) => Err("no hello was answered".into()),
            _ => Ok(()),
        }
    }

    /// True if a clear of its service made this connection stale.
    pub(crate) fn is_stale(&self, connection: u64) -> bool {
        let member = self.members.get(&connection);
        member.is_some_and(|member| self.generations[&member.service] > member.generation)
    }

    /// Removes a connection. The entry of its service is removed with the last connection
    /// (CMAP-100).
    pub(crate) fn close(&mut self, connection: u64) -> Found {
        let Some(Member { service, .. }) = self.members.remove(&connection) else {
            return Ok(());
        };
        if self.members.values().all(|other| other.service != service) {
            self.generations.remove(&service);
        }
        Ok(())
    }

    /// Checks that the event `PoolClearedEvent` belongs to a clear of this service (CMAP-101).
    pub(crate) fn note_cleared(&mut self, service: u8) -> Found {
        want(self.cleared.take() == Some(service), || "it was not".into())
    }

    /// Checks the conditions that hold between any two inputs.
    pub(crate) fn after(&mut self, pool: &Pool<u64>, subscribed: bool) -> Found {
        let cleared = self.cleared.take().filter(|_| subscribed);
        want(cleared.is_none(), || format!("nobody knows of {cleared:?}"))?;
        for (&id, member) in &self.members {
            let of = pool.generation_of(id_of(pool, id));
            want(of == Some(member.generation), || {
                format!("{id} is of {of:?}")
            })?;
        }
        let paused = pool.state() == PoolState::Paused && !self.members.is_empty();
        want(!paused, || "it pauses (CMAP-102)".into())?;
        want(pool.generation() == 0, || {
            "the pool itself was cleared".into()
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.generations.is_empty()
    }
}
