//! The lookups and dials of one client, whose number is limited by turns.

use crate::{Runtime, shared::Shared, user_code::catch_panic, waiters::Waiters};
use onionskin_core::{
    dial::{TurnId, TurnLimits, Turns},
    time::Instant,
};
use std::{
    collections::BTreeMap,
    future::{Future, poll_fn},
    io, mem,
    net::SocketAddr,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
};

/// The work for hosts that is under way.
pub(crate) struct Hosts {
    pub(crate) lookups: Limited,
    pub(crate) dials: Limited,
    /// The lookups by the system that were requested and have not returned.
    names: Mutex<BTreeMap<Arc<str>, Arc<Lookup>>>,
    end: Mutex<End>,
}

/// The end of the client, at which the tasks of lookups end.
#[derive(Default)]
struct End {
    is_reached: bool,
    tasks: Waiters,
}

impl Default for Hosts {
    fn default() -> Self {
        Self {
            lookups: Limited::new(TurnLimits::LOOKUPS),
            dials: Limited::new(TurnLimits::DIALS),
            names: Mutex::default(),
            end: Mutex::default(),
        }
    }
}

impl Hosts {
    /// Forgets all work, because the process was forked.
    pub(crate) fn handle_forked(&self) {
        lock(&self.lookups.state).turns.handle_forked();
        lock(&self.dials.state).turns.handle_forked();
        lock(&self.names).clear();
    }

    /// Ends the tasks of lookups, because the client is closed.
    pub(crate) fn close(&self) {
        let mut end = lock(&self.end);
        end.is_reached = true;
        let wakers = end.tasks.reached(0);
        drop(end);
        for waker in wakers {
            catch_panic(|| waker.wake());
        }
    }

    /// Runs work until the client is closed.
    async fn until_closed(&self, work: impl Future<Output = ()>) {
        let mut work = pin!(work);
        let mut place = Place {
            end: &self.end,
            key: None,
        };
        poll_fn(|context| {
            let waker = context.waker().clone();
            let mut end = lock(&self.end);
            if end.is_reached {
                return Poll::Ready(());
            }
            let old = end.tasks.wait(&mut place.key, 0, waker);
            drop(end);
            drop(old);
            work.as_mut().poll(context)
        })
        .await;
    }

    /// Returns the number of tasks of lookups.
    #[cfg(test)]
    fn tasks(&self) -> usize {
        lock(&self.end).tasks.len()
    }
}

/// The place of a task among those that end with the client.
struct Place<'a> {
    end: &'a Mutex<End>,
    key: Option<u64>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let old = lock(self.end).tasks.leave(self.key);
        drop(old);
    }
}

/// Work of one kind.
pub(crate) struct Limited {
    state: Mutex<State>,
}

struct State {
    turns: Turns,
    /// The wakers of the tasks that wait for a turn.
    wakers: BTreeMap<TurnId, Waker>,
}

/// A turn, which ends when it is dropped.
pub(crate) struct Turn<'a, N: Fn() -> Instant> {
    limited: &'a Limited,
    id: TurnId,
    now: N,
    /// True if the host has answered, false if it has failed, `None` if the work was abandoned.
    pub(crate) answered: Option<bool>,
}

impl Limited {
    fn new(limits: TurnLimits) -> Self {
        Self {
            state: Mutex::new(State {
                turns: Turns::new(limits),
                wakers: BTreeMap::new(),
            }),
        }
    }

    /// Waits for a turn for a host. `is_stranger` is the standing of the host in the core.
    pub(crate) async fn turn<N: Fn() -> Instant>(
        &self,
        now: N,
        host: &str,
        is_stranger: bool,
    ) -> Turn<'_, N> {
        let id = lock(&self.state).turns.request(now(), host, is_stranger);
        let turn = Turn {
            limited: self,
            id,
            now,
            answered: None,
        };
        poll_fn(|context| {
            // A waker is cloned and dropped outside of the lock, because it can run code of the
            // application.
            let waker = context.waker().clone();
            let mut state = lock(&self.state);
            if state.turns.is_granted(id) {
                return Poll::Ready(());
            }
            let old = state.wakers.insert(id, waker);
            drop(state);
            drop(old);
            Poll::Pending
        })
        .await;
        turn
    }
}

impl<N: Fn() -> Instant> Drop for Turn<'_, N> {
    fn drop(&mut self) {
        let now = (self.now)();
        let mut state = lock(&self.limited.state);
        let mut wakers = Vec::new();
        let own = state.wakers.remove(&self.id);
        state.turns.end(now, self.id, self.answered);
        while let Some(granted) = state.turns.poll_granted() {
            wakers.extend(state.wakers.remove(&granted));
        }
        drop(state);
        drop(own);
        for waker in wakers {
            catch_panic(|| waker.wake());
        }
    }
}

/// A lookup of a host name by the system, for all that wait for it.
#[derive(Default)]
struct Lookup(Mutex<Answer>);

#[derive(Default)]
struct Answer {
    /// The result; `None` before the lookup has returned.
    result: Option<Result<Vec<SocketAddr>, Arc<io::Error>>>,
    tasks: Waiters,
}

impl Lookup {
    /// Waits for the result.
    async fn result(&self) -> Result<Vec<SocketAddr>, Arc<io::Error>> {
        let mut place = Asker {
            lookup: self,
            key: None,
        };
        poll_fn(|context| {
            let waker = context.waker().clone();
            let mut answer = lock(&self.0);
            if let Some(result) = &answer.result {
                return Poll::Ready(result.clone());
            }
            let old = answer.tasks.wait(&mut place.key, 0, waker);
            drop(answer);
            drop(old);
            Poll::Pending
        })
        .await
    }
}

/// The place of a task among those that wait for a lookup.
struct Asker<'a> {
    lookup: &'a Lookup,
    key: Option<u64>,
}

impl Drop for Asker<'_> {
    fn drop(&mut self) {
        let old = lock(&self.lookup.0).tasks.leave(self.key);
        drop(old);
    }
}

/// Returns the addresses of a host, by the resolver of the system. Several calls for one host share
/// one lookup. A lookup cannot be stopped: it counts until it returns, also if the caller does not
/// wait any more.
pub(crate) async fn resolve<R: Runtime>(
    shared: &Arc<Shared<R>>,
    host: &str,
    port: u16,
) -> Result<Vec<SocketAddr>, Arc<io::Error>> {
    let (lookup, is_new) = {
        let mut names = lock(&shared.hosts.names);
        match names.get(host) {
            Some(lookup) => (lookup.clone(), false),
            None => {
                let lookup = Arc::<Lookup>::default();
                names.insert(host.into(), lookup.clone());
                (lookup, true)
            }
        }
    };
    if is_new {
        let ticket = Ticket {
            shared: shared.clone(),
            host: host.into(),
            lookup: lookup.clone(),
            result: Err(io::ErrorKind::Interrupted.into()),
        };
        // The client does not wait for this task when it shuts down.
        let shared = shared.clone();
        shared.clone().runtime.spawn(async move {
            shared.hosts.until_closed(look_up(ticket)).await;
        });
    }
    lookup.result().await.map(|mut addresses| {
        for address in &mut addresses {
            address.set_port(port);
        }
        addresses
    })
}

async fn look_up<R: Runtime>(mut ticket: Ticket<R>) {
    let shared = ticket.shared.clone();
    let is_stranger = shared.lock().core.is_stranger(&ticket.host);
    let mut turn = shared
        .hosts
        .lookups
        .turn(|| shared.now(), &ticket.host, is_stranger)
        .await;
    if ticket.is_wanted() {
        ticket.result = shared.runtime.resolve(&ticket.host, 0).await;
        turn.answered = Some(ticket.result.is_ok());
    }
}

/// A lookup that was begun. When it is dropped, all that wait get the result.
struct Ticket<R: Runtime> {
    shared: Arc<Shared<R>>,
    host: Arc<str>,
    lookup: Arc<Lookup>,
    result: io::Result<Vec<SocketAddr>>,
}

impl<R: Runtime> Ticket<R> {
    /// Returns true if something waits for the lookup. Otherwise removes the lookup from the table,
    /// so that nothing waits for it later.
    fn is_wanted(&self) -> bool {
        let mut names = lock(&self.shared.hosts.names);
        // One is held by the table, and one by this ticket.
        let is_wanted = Arc::strong_count(&self.lookup) > 2;
        if !is_wanted {
            self.remove(&mut names);
        }
        is_wanted
    }

    fn remove(&self, names: &mut BTreeMap<Arc<str>, Arc<Lookup>>) {
        // After a fork, the table can have another lookup of this host.
        let current = names.get(&self.host);
        if current.is_some_and(|lookup| Arc::ptr_eq(lookup, &self.lookup)) {
            names.remove(&self.host);
        }
    }
}

impl<R: Runtime> Drop for Ticket<R> {
    fn drop(&mut self) {
        self.remove(&mut lock(&self.shared.hosts.names));
        let nothing = Err(io::ErrorKind::Interrupted.into());
        let result = mem::replace(&mut self.result, nothing).map_err(Arc::new);
        let mut answer = lock(&self.lookup.0);
        answer.result = Some(result);
        let wakers = answer.tasks.reached(0);
        drop(answer);
        for waker in wakers {
            catch_panic(|| waker.wake());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn tasks_of_lookups_and_those_that_wait_for_them_leave_nothing_behind() {
        let hosts = Hosts::default();
        for _ in 0..10 {
            assert!(hosts.until_closed(async {}).now_or_never().is_some());
            let abandoned = hosts.until_closed(std::future::pending());
            assert!(abandoned.now_or_never().is_none());
            assert_eq!(hosts.tasks(), 0);
        }
        let lookup = Lookup::default();
        for _ in 0..10 {
            assert!(lookup.result().now_or_never().is_none());
            assert_eq!(lock(&lookup.0).tasks.len(), 0);
        }
        hosts.close();
        let closed = hosts.until_closed(std::future::pending());
        assert!(closed.now_or_never().is_some());
    }
}
