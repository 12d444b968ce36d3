//! The turns of long queries, of which some run at the same time. A query whose turn has ended goes
//! to the back of the queue.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

/// The queries that wait for their turn, in their order.
#[derive(Debug)]
struct Queue {
    /// The number of queries that may begin their turn.
    free: usize,
    waiting: VecDeque<u64>,
    last: u64,
}

impl Queue {
    const fn new(places: usize) -> Self {
        Self {
            free: places,
            waiting: VecDeque::new(),
            last: 0,
        }
    }

    /// Adds a query at the back. Returns its number.
    fn join(&mut self) -> u64 {
        self.last += 1;
        self.waiting.push_back(self.last);
        self.last
    }

    /// Begins the turn of a query, if it is the next one and may begin. Returns false otherwise.
    fn begin(&mut self, number: u64) -> bool {
        let may_begin = self.free > 0 && self.waiting.front() == Some(&number);
        if may_begin {
            self.waiting.pop_front();
            self.free -= 1;
        }
        may_begin
    }

    /// Ends the turn of a query.
    fn end(&mut self) {
        self.free += 1;
    }
}

/// The turns of the queries of an engine.
#[derive(Debug)]
pub(super) struct Turns {
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// The turn of a query, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Turn(Arc<Turns>);

impl Turns {
    /// Creates turns of which this number can be at the same time.
    pub(super) fn new(places: usize) -> Self {
        Self {
            queue: Mutex::new(Queue::new(places)),
            changed: Condvar::new(),
        }
    }

    /// Waits for the turn of a new query.
    pub(super) fn begin(self: &Arc<Self>) -> Turn {
        self.wait(self.lock());
        Turn(Arc::clone(self))
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, mut queue: MutexGuard<'_, Queue>) {
        let number = queue.join();
        // The query that has joined can be another one than the next.
        self.changed.notify_all();
        while !queue.begin(number) {
            let woken = self.changed.wait(queue);
            queue = woken.unwrap_or_else(PoisonError::into_inner);
        }
        // The one behind it may begin as well if there are further places.
        self.changed.notify_all();
    }
}

impl Turn {
    /// Ends the turn if other queries wait, and waits for the next one.
    pub(super) fn pass_on(&self) {
        let mut queue = self.0.lock();
        if !queue.waiting.is_empty() {
            queue.end();
            self.0.wait(queue);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.lock().end();
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        thread,
    };

    /// The number of queries that may run at the same time.
    const PLACES: usize = 8;

    #[test]
    fn a_short_query_waits_for_one_turn_of_each_query_before_it() {
        for long in [8, 20] {
            let mut queue = Queue::new(PLACES);
            let mut numbers: VecDeque<u64> = (0..long).map(|_| queue.join()).collect();
            let mut running = VecDeque::new();
            let begin = |queue: &mut Queue, numbers: &mut VecDeque<u64>| {
                let next = *numbers.front()?;
                queue.begin(next).then(|| numbers.pop_front()).flatten()
            };
            while let Some(number) = begin(&mut queue, &mut numbers) {
                running.push_back(number);
            }
            assert_eq!(running.len(), PLACES);
            let short = queue.join();
            numbers.push_back(short);
            let mut turns = 0;
            while !running.contains(&short) {
                running.pop_front().expect("a query that runs");
                turns += 1;
                queue.end();
                numbers.push_back(queue.join());
                running.extend(begin(&mut queue, &mut numbers));
                assert_eq!(running.len(), PLACES);
            }
            assert_eq!(turns, long - PLACES + 1, "{long} long queries");
        }
    }

    #[test]
    fn queries_in_threads_take_turns_and_end() {
        let turns = Arc::new(Turns::new(2));
        let (running, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..10 {
                scope.spawn(|| {
                    let turn = turns.begin();
                    for _ in 0..50 {
                        assert!(running.fetch_add(1, Ordering::SeqCst) < 2, "two at once");
                        thread::yield_now();
                        running.fetch_sub(1, Ordering::SeqCst);
                        turn.pass_on();
                    }
                    drop(turn);
                    done.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        assert_eq!(done.load(Ordering::SeqCst), 10);
        assert_eq!(turns.lock().free, 2);
    }
}
