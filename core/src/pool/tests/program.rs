//! Random inputs to the pool. A simple model follows the orders and events of the pool, and is
//! compared with the pool after each input.

use super::{id as connection_id, *};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
enum Step {
    Ready,
    Clear {
        interrupt: bool,
    },
    CheckOut {
        time_limit: Option<u8>,
    },
    Cancel(prop::sample::Index),
    CheckIn {
        which: prop::sample::Index,
        condition: u8,
    },
    Drained(prop::sample::Index),
    Established(prop::sample::Index),
    EstablishFailed(prop::sample::Index),
    IdleClosed(prop::sample::Index),
    Wait(u8),
    UnknownIds(u64),
}

fn step() -> impl Strategy<Value = Step> {
    use prop::sample::Index;
    prop_oneof![
        3 => Just(Step::Ready),
        1 => any::<bool>().prop_map(|interrupt| Step::Clear { interrupt }),
        9 => any::<Option<u8>>().prop_map(|time_limit| Step::CheckOut { time_limit }),
        2 => any::<Index>().prop_map(Step::Cancel),
        6 => (any::<Index>(), 0..8_u8)
            .prop_map(|(which, condition)| Step::CheckIn { which, condition }),
        3 => any::<Index>().prop_map(Step::Drained),
        6 => any::<Index>().prop_map(Step::Established),
        2 => any::<Index>().prop_map(Step::EstablishFailed),
        1 => any::<Index>().prop_map(Step::IdleClosed),
        5 => any::<u8>().prop_map(Step::Wait),
        1 => (0..50_u64).prop_map(Step::UnknownIds),
    ]
}

/// The model: sets and lists of connections and requests.
#[derive(Default)]
struct Model {
    now: u64,
    next_request: u64,
    last_created: u64,
    generation: u64,
    /// Pending connections, each with the request that it was opened for; `None` for `minPoolSize`,
    /// and after the request was removed.
    pending: BTreeMap<u64, Option<u64>>,
    available: BTreeSet<u64>,
    used: BTreeSet<u64>,
    draining: BTreeSet<u64>,
    /// Connections with a closed event whose `Close` order has not come yet.
    closing: BTreeSet<u64>,
    /// The wait queue, the oldest request first. A request leaves the queue when a connection is
    /// opened for it.
    queue: Vec<u64>,
    /// Requests whose pending connection was closed and whose `Fail` order has not come yet.
    orphans: BTreeSet<u64>,
    started: u64,
    ended: u64,
}

impl Model {
    fn unfinished_requests(&self) -> Vec<u64> {
        let bound = self.pending.values().filter_map(|request| *request);
        self.queue.iter().copied().chain(bound).collect()
    }

    fn remove_request(&mut self, request: u64) {
        self.queue.retain(|&r| r != request);
        for owner in self.pending.values_mut() {
            owner.take_if(|r| *r == request);
        }
    }

    fn mark_in_use(&mut self, pool: &Pool<u64>, connection: u64) {
        assert!(
            self.available.remove(&connection),
            "only an available connection is checked out"
        );
        assert!(self.used.insert(connection));
        assert_eq!(
            pool.generation_of(connection_id(pool, connection)),
            Some(pool.generation())
        );
    }

    fn drain(&mut self, pool: &mut Pool<u64>) {
        while let Some(order) = pool.poll_order() {
            match order {
                Order::Emit(event) => self.observe_event(event),
                Order::Open(opened) => {
                    let id = opened.number();
                    // The connection is for the head of the queue. If the queue is empty, it is for
                    // `minPoolSize`.
                    let owner = (!self.queue.is_empty()).then(|| self.queue.remove(0));
                    self.pending.insert(id, owner);
                }
                Order::Close(closed) => {
                    let id = closed.number();
                    assert!(self.closing.remove(&id), "closed once, after its event");
                }
                Order::Grant {
                    request,
                    connection,
                    content,
                } => {
                    let id = connection.number();
                    assert_eq!(content, id, "what is pooled goes with its connection");
                    let own = self.pending.remove(&id);
                    if own != Some(Some(request.0)) {
                        assert_eq!(
                            self.queue.first(),
                            Some(&request.0),
                            "first come first served"
                        );
                    }
                    self.available.insert(id);
                    self.remove_request(request.0);
                    self.mark_in_use(pool, id);
                }
                Order::Fail { request, .. } => {
                    let orphan = self.orphans.remove(&request.0);
                    assert!(
                        orphan || self.unfinished_requests().contains(&request.0),
                        "only who waits fails"
                    );
                    self.remove_request(request.0);
                }
                Order::Interrupt { connection, .. } => {
                    assert!(self.used.contains(&connection.number()));
                }
            }
        }
    }

    fn observe_event(&mut self, event: PoolEvent) {
        match event {
            PoolEvent::CheckOutStarted { .. } => self.started += 1,
            PoolEvent::CheckedOut { .. } | PoolEvent::CheckOutFailed { .. } => self.ended += 1,
            PoolEvent::ConnectionCreated { connection, .. } => {
                assert_eq!(connection, self.last_created + 1, "CMAP-21");
                self.last_created = connection;
            }
            PoolEvent::ConnectionClosed { connection, .. } => {
                let pending = self.pending.remove(&connection);
                self.orphans.extend(pending.flatten());
                let known = pending.is_some()
                    | self.available.remove(&connection)
                    | self.draining.remove(&connection)
                    | self.used.remove(&connection);
                assert!(known, "only what exists is closed");
                self.closing.insert(connection);
            }
            _ => {}
        }
    }

    /// Compares the counts of the pool with the model, and asserts the limits of the pool.
    fn assert_model_agrees(&mut self, pool: &Pool<u64>, options: &PoolOptions) {
        let counts = pool.counts();
        let size = |n: usize| u32::try_from(n).expect("small");
        assert_eq!(counts.pending, size(self.pending.len()));
        assert_eq!(counts.available, size(self.available.len()));
        assert_eq!(counts.in_use, size(self.used.len()));
        assert_eq!(counts.draining, size(self.draining.len()));
        assert_eq!(
            counts.total,
            counts.pending + counts.available + counts.in_use + counts.draining
        );
        assert_eq!(counts.waiting, size(self.queue.len()));
        let full = options.max_size != 0 && counts.total == options.max_size;
        assert!(
            options.max_size == 0 || counts.total <= options.max_size,
            "CMAP-42"
        );
        assert!(counts.pending <= options.max_connecting, "CMAP-43");
        // A request waits only while it cannot be served.
        if counts.waiting > 0 {
            assert_eq!(pool.state(), PoolState::Ready);
            assert!(counts.available == 0 && (full || counts.pending == options.max_connecting));
        }
        assert_eq!(
            self.started,
            self.ended + self.unfinished_requests().len() as u64,
            "one end for each start"
        );
        assert!(
            self.closing.is_empty(),
            "each closed event comes with its order to close"
        );
        assert!(
            pool.generation() >= self.generation,
            "generations never fall"
        );
        self.generation = pool.generation();
    }

    fn apply(&mut self, pool: &mut Pool<u64>, step: &Step) {
        let now = at(self.now);
        match step {
            Step::Ready => pool.handle_ready(now),
            Step::Clear { interrupt } => pool.handle_clear(now, &reset(), *interrupt),
            Step::CheckOut { time_limit } => {
                self.next_request += 1;
                let request = self.next_request;
                let deadline = time_limit.map(|p| at(self.now + 1 + u64::from(p)));
                let waiting = pool.counts().waiting;
                match pool.check_out(now, CheckOutId(request), deadline) {
                    CheckOut::Granted(connection, content) => {
                        assert_eq!(waiting, 0, "newcomers do not overtake");
                        assert_eq!(content, connection.number());
                        self.mark_in_use(pool, connection.number());
                    }
                    CheckOut::Waiting => self.queue.push(request),
                    CheckOut::Failed(_) => assert_ne!(pool.state(), PoolState::Ready),
                }
            }
            Step::Cancel(which) => {
                if let Some(request) = pick(which, self.unfinished_requests()) {
                    pool.cancel(now, CheckOutId(request));
                    self.remove_request(request);
                }
            }
            Step::CheckIn { which, condition } => {
                if let Some(id) = pick(which, self.used.iter().copied().collect()) {
                    let (condition, place) = match condition {
                        0 => (Condition::Broken(None), &mut self.available),
                        1..3 => (Condition::ReplyDue, &mut self.draining),
                        _ => (Condition::Healthy(id), &mut self.available),
                    };
                    assert_eq!(
                        pool.check_in(now, connection_id(pool, id), condition),
                        Ok(())
                    );
                    self.used.remove(&id);
                    place.insert(id);
                }
            }
            Step::Drained(which) => {
                if let Some(id) = pick(which, self.draining.iter().copied().collect()) {
                    pool.handle_drained(now, connection_id(pool, id), id);
                    self.draining.remove(&id);
                    self.available.insert(id);
                }
            }
            Step::Established(which) => {
                if let Some(id) = pick(which, self.pending.keys().copied().collect()) {
                    pool.handle_established(now, connection_id(pool, id), id);
                    if self.pending[&id].is_none() {
                        self.pending.remove(&id);
                        self.available.insert(id);
                    }
                }
            }
            Step::EstablishFailed(which) => {
                if let Some(id) = pick(which, self.pending.keys().copied().collect()) {
                    pool.handle_establish_failed(now, connection_id(pool, id), &reset());
                }
            }
            Step::IdleClosed(which) => {
                let unused = self.available.union(&self.draining);
                if let Some(id) = pick(which, unused.copied().collect()) {
                    pool.handle_idle_closed(now, connection_id(pool, id), None);
                }
            }
            Step::Wait(millis) => self.wait(pool, u64::from(*millis)),
            Step::UnknownIds(id) => self.give_unknown_ids(pool, *id),
        }
    }

    /// Gives the pool inputs about connections and requests that do not exist.
    fn give_unknown_ids(&self, pool: &mut Pool<u64>, id: u64) {
        let now = at(self.now);
        let id = self.last_created + 1 + id;
        // Another connection may occupy the slot of this id.
        let unknown = ConnectionId::new(id, u32::try_from(id % 4).expect("small"));
        pool.handle_established(now, unknown, id);
        pool.handle_establish_failed(now, unknown, &reset());
        pool.handle_idle_closed(now, unknown, None);
        pool.handle_drained(now, unknown, id);
        pool.cancel(now, CheckOutId(self.next_request + 1 + id));
        let refused = pool.check_in(now, unknown, Condition::Healthy(id));
        assert_eq!(refused, Err(NotCheckedOut(unknown)));
    }

    /// Advances the time, and calls `handle_timeout` until no deadline of the pool is due.
    fn wait(&mut self, pool: &mut Pool<u64>, millis: u64) {
        self.now += millis;
        for _ in 0..1000 {
            match pool.deadline() {
                Some(due) if due <= at(self.now) => {
                    pool.handle_timeout(at(self.now));
                    self.drain(pool);
                    let next = pool.deadline();
                    assert!(next.is_none_or(|next| next > at(self.now)), "time moves on");
                }
                _ => return,
            }
        }
        panic!("the deadline never moves on");
    }
}

fn pick(which: &prop::sample::Index, from: Vec<u64>) -> Option<u64> {
    (!from.is_empty()).then(|| from[which.index(from.len())])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn the_pool_agrees_with_its_model_after_each_input(
        max_size in 0..5_u32,
        min_size in 0..4_u32,
        max_connecting in 1..4_u32,
        max_idle in prop::option::of(1..200_u64),
        queue_limit in prop::option::of(1..200_u64),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let options = PoolOptions {
            max_idle: max_idle.map(Duration::from_millis),
            wait_queue_timeout: queue_limit.map(Duration::from_millis),
            ..options(max_size, min_size, max_connecting)
        };
        let mut pool = new_pool(options.clone());
        let mut model = Model::default();
        for step in &steps {
            model.apply(&mut pool, step);
            model.drain(&mut pool);
            model.assert_model_agrees(&pool, &options);
        }
        // A closed pool keeps nothing once all connections are checked in, and no request waits.
        pool.handle_close(at(model.now));
        model.drain(&mut pool);
        for id in model.used.clone() {
            let back = pool.check_in(
                at(model.now),
                connection_id(&pool, id),
                Condition::Healthy(id),
            );
            prop_assert!(back.is_ok());
            model.drain(&mut pool);
        }
        prop_assert_eq!(pool.counts(), Counts::default());
        prop_assert_eq!(pool.deadline(), None);
        prop_assert_eq!(model.started, model.ended);
    }
}
