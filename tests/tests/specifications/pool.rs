//! The official tests of connection pools (`cmap-format`), which run the operations of a pool
//! (CMAP-2) in virtual time. A file with `backgroundThreadIntervalMS: -1` switches off background
//! runs (CMAP-110).

use onionskin_core::{
    address::Address,
    error::{Error, ErrorKind, NetworkFault},
    event::{CheckOutFailure, CloseReason, PoolEvent, ReportedPoolOptions},
    time::{Instant, earliest},
    unstable::pool::{CheckOut, CheckOutId, Condition, ConnectionId, Order, Pool, PoolOptions},
};
use onionskin_tests::{
    report::Suite,
    specifications::{TestFile, files},
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// The time in which a connection is established, unless a fail point blocks it.
const LATENCY: Duration = Duration::from_millis(1);

/// The longest time that a file waits for an event without its own `timeout`, or for a thread.
const PATIENCE: Duration = Duration::from_secs(10);

/// The thread for operations that name no thread.
const MAIN: &str = "main";

pub(crate) fn run_suite() {
    let folder = "connection-monitoring-and-pooling/tests/cmap-format";
    let Some(files) = files(folder) else { return };
    let mut suite = Suite::new("connection-monitoring-and-pooling", &[]);
    for TestFile { name, content, .. } in files {
        match content {
            Ok(content) => suite.case(&name, "", || run(&content)),
            Err(reason) => suite.unreadable(&name, &reason),
        }
    }
    suite.finish();
}

/// A simulated thread, which runs those operations of a test file that name it.
#[derive(Default)]
struct Thread {
    operations: VecDeque<Value>,
    asleep_until: Instant,
    /// The request that the thread waits for, and the label for its connection.
    waiting: Option<(CheckOutId, Option<String>)>,
    error: Option<Error>,
}

impl Thread {
    fn is_idle(&self, now: Instant) -> bool {
        self.waiting.is_none() && self.asleep_until <= now
    }
}

struct World {
    now: Instant,
    pool: Pool<()>,
    /// False if the test file switches off background runs.
    has_background: bool,
    fail_point: Value,
    failures_left: u64,
    establishing: BTreeMap<ConnectionId, Instant>,
    threads: BTreeMap<String, Thread>,
    labels: BTreeMap<String, ConnectionId>,
    next_request: u64,
    events: Vec<Value>,
}

fn run(file: &Value) -> Result<(), String> {
    let mut world = World::new(file);
    let mut thrown = None;
    for operation in file["operations"].as_array().expect("a list") {
        if let Err(error) = world.operate(operation)? {
            thrown = Some(error);
            break;
        }
    }
    check_error(&file["error"], thrown.as_ref())?;
    let ignored = file["ignore"].as_array().cloned().unwrap_or_default();
    world.events.retain(|e| !ignored.contains(&e["type"]));
    for (at, expected) in file["events"]
        .as_array()
        .expect("a list")
        .iter()
        .enumerate()
    {
        let found = world.events.get(at).unwrap_or(&Value::Null);
        if !matches_event(expected, found) {
            return Err(format!("event {at}: {found}, wanted {expected}"));
        }
    }
    Ok(())
}

fn check_error(expected: &Value, thrown: Option<&Error>) -> Result<(), String> {
    let name = thrown.map(|error| match error.kind() {
        ErrorKind::PoolClosed { .. } => "PoolClosedError",
        ErrorKind::WaitQueueTimeout { .. } => "WaitQueueTimeoutError",
        _ => "other",
    });
    if name != expected["type"].as_str() {
        return Err(format!("threw {thrown:?}, wanted {expected}"));
    }
    let text = thrown.map(|error| error.kind().to_string());
    match expected["message"].as_str() {
        Some(wanted) if text.as_deref() != Some(wanted) => {
            Err(format!("threw {text:?}, wanted {wanted}"))
        }
        _ => Ok(()),
    }
}

fn matches_event(expected: &Value, found: &Value) -> bool {
    match expected {
        Value::Object(fields) => fields.iter().all(|(k, v)| matches_event(v, &found[k])),
        any if *any == json!(42) || *any == json!("42") => !found.is_null(),
        exact => exact == found,
    }
}

impl World {
    fn new(file: &Value) -> Self {
        let given = &file["poolOptions"];
        let number = |key: &str| given[key].as_u64().and_then(|n| u32::try_from(n).ok());
        let time = |key: &str| given[key].as_u64().map(Duration::from_millis);
        let default = PoolOptions::default();
        let options = PoolOptions {
            load_balanced: false,
            max_size: number("maxPoolSize").unwrap_or(default.max_size),
            min_size: number("minPoolSize").unwrap_or(default.min_size),
            max_idle: time("maxIdleTimeMS"),
            max_connecting: number("maxConnecting").unwrap_or(default.max_connecting),
            wait_queue_timeout: time("waitQueueTimeoutMS"),
            reported: ReportedPoolOptions {
                max_pool_size: number("maxPoolSize"),
                min_pool_size: number("minPoolSize"),
                max_idle_time: time("maxIdleTimeMS"),
                max_connecting: number("maxConnecting"),
                wait_queue_timeout: time("waitQueueTimeoutMS"),
            },
        };
        let mode = &file["failPoint"]["mode"];
        let mut threads = BTreeMap::new();
        threads.insert(MAIN.to_owned(), Thread::default());
        let mut world = Self {
            now: Instant::ZERO,
            pool: Pool::new(Address::tcp("localhost", 27017), options, true),
            has_background: given["backgroundThreadIntervalMS"] != -1,
            fail_point: file["failPoint"]["data"].clone(),
            failures_left: mode["times"].as_u64().unwrap_or(u64::MAX),
            establishing: BTreeMap::new(),
            threads,
            labels: BTreeMap::new(),
            next_request: 0,
            events: Vec::new(),
        };
        world.drain();
        world
    }

    /// Runs one operation of the file. The inner error is the one that the operation throws.
    fn operate(&mut self, operation: &Value) -> Result<Result<(), Error>, String> {
        let text = |key: &str| operation[key].as_str().unwrap_or_default().to_owned();
        match text("name").as_str() {
            "start" => {
                self.threads.insert(text("target"), Thread::default());
            }
            "waitForThread" => {
                let target = text("target");
                self.run_until(PATIENCE, |world| {
                    let thread = &world.threads[&target];
                    thread.is_idle(world.now) && thread.operations.is_empty()
                })?;
                if let Some(error) = self.threads[&target].error.clone() {
                    return Ok(Err(error));
                }
            }
            "waitForEvent" => {
                let limit = operation["timeout"].as_u64();
                let limit = limit.map_or(PATIENCE, Duration::from_millis);
                let count = operation["count"].as_u64().expect("a number") as usize;
                self.run_until(limit, |world| {
                    let seen = world
                        .events
                        .iter()
                        .filter(|e| e["type"] == operation["event"]);
                    seen.count() >= count
                })?;
            }
            _ => {
                let name = operation["thread"].as_str().unwrap_or(MAIN);
                let thread = self.threads.get_mut(name).expect("a started thread");
                thread.operations.push_back(operation.clone());
                self.run_threads();
                if name == MAIN {
                    let done = |world: &Self| world.threads[MAIN].is_idle(world.now);
                    self.run_until(PATIENCE, done)?;
                    if let Some(error) = self.threads[MAIN].error.clone() {
                        return Ok(Err(error));
                    }
                }
            }
        }
        Ok(Ok(()))
    }

    /// Advances virtual time until the condition holds. Fails if that takes longer than `limit`.
    fn run_until(&mut self, limit: Duration, holds: impl Fn(&Self) -> bool) -> Result<(), String> {
        let end = self.now + limit;
        loop {
            self.run_threads();
            if holds(self) {
                return Ok(());
            }
            match self.next() {
                Some(next) if next <= end => self.step(next.max(self.now)),
                _ => return Err("what is waited for does not come".to_owned()),
            }
        }
    }

    fn next(&self) -> Option<Instant> {
        let threads = self.threads.values().map(|t| t.asleep_until);
        let awake = threads.filter(|&at| at > self.now).min();
        let established = self.establishing.values().min().copied();
        let background = self.pool.deadline().filter(|_| self.has_background);
        earliest(earliest(awake, established), background)
    }

    fn step(&mut self, now: Instant) {
        self.now = now;
        let due = self.establishing.iter().filter(|&(_, &at)| at <= now);
        let due: Vec<ConnectionId> = due.map(|(&id, _)| id).collect();
        for id in due {
            if self.establishing.remove(&id).is_some() {
                self.establish(id);
            }
        }
        if self.has_background {
            self.pool.handle_timeout(now);
            self.drain();
        }
    }

    fn establish(&mut self, id: ConnectionId) {
        let fails =
            self.fail_point["closeConnection"] == true || self.fail_point["errorCode"].is_number();
        if fails && self.failures_left > 0 {
            self.failures_left -= 1;
            let error = Error::network(NetworkFault::Closed, "the fail point");
            // The topology clears the pool before the pool gets the failure (CMAP-151).
            self.pool.handle_clear(self.now, &error, false);
            self.pool.handle_establish_failed(self.now, id, &error);
        } else {
            self.pool.handle_established(self.now, id, ());
        }
        self.drain();
    }

    fn run_threads(&mut self) {
        let names: Vec<String> = self.threads.keys().cloned().collect();
        let mut moved = true;
        while std::mem::take(&mut moved) {
            for name in &names {
                let thread = self.threads.get_mut(name).expect("threads stay");
                if thread.is_idle(self.now)
                    && let Some(operation) = thread.operations.pop_front()
                {
                    self.perform(name, &operation);
                    self.drain();
                    moved = true;
                }
            }
        }
    }

    fn perform(&mut self, name: &str, operation: &Value) {
        let now = self.now;
        match operation["name"].as_str().expect("a name") {
            "wait" => {
                let pause = Duration::from_millis(operation["ms"].as_u64().expect("a number"));
                self.threads
                    .get_mut(name)
                    .expect("threads stay")
                    .asleep_until = now + pause;
            }
            "ready" => self.pool.handle_ready(now),
            "close" => self.pool.handle_close(now),
            "clear" => {
                let interrupt = operation["interruptInUseConnections"] == true;
                let error = Error::network(NetworkFault::Reset, "the file says so");
                self.pool.handle_clear(now, &error, interrupt);
            }
            "checkIn" => {
                let label = operation["connection"].as_str().expect("a label");
                let connection = self.labels[label];
                let taken = self.pool.check_in(now, connection, Condition::Healthy(()));
                assert_eq!(taken, Ok(()));
            }
            "checkOut" => {
                self.next_request += 1;
                let request = CheckOutId(self.next_request);
                let label = operation["label"].as_str().map(str::to_owned);
                let answer = self.pool.check_out(now, request, None);
                let thread = self.threads.get_mut(name).expect("threads stay");
                match answer {
                    CheckOut::Granted(connection, ()) => {
                        self.labels.extend(label.map(|label| (label, connection)));
                    }
                    CheckOut::Waiting => thread.waiting = Some((request, label)),
                    CheckOut::Failed(error) => thread.error = Some(error),
                }
            }
            other => panic!("unknown operation {other}"),
        }
    }

    fn drain(&mut self) {
        while let Some(order) = self.pool.poll_order() {
            match order {
                Order::Emit(event) => self.events.push(render(&event)),
                Order::Open(id) => {
                    let blocked = self.fail_point["blockTimeMS"].as_u64();
                    let blocked = blocked.filter(|_| self.failures_left > 0);
                    if blocked.is_some() {
                        self.failures_left -= 1;
                    }
                    let pause = blocked.map_or(LATENCY, Duration::from_millis);
                    self.establishing.insert(id, self.now + pause);
                }
                Order::Close(id) => {
                    self.establishing.remove(&id);
                }
                Order::Grant {
                    request,
                    connection,
                    ..
                } => {
                    let label = self.answered(request, None);
                    self.labels.extend(label.map(|label| (label, connection)));
                }
                Order::Fail { request, error } => {
                    self.answered(request, Some(error));
                }
                _ => {}
            }
        }
    }

    /// Resumes the thread that waits for this request. Returns the label for its connection.
    fn answered(&mut self, request: CheckOutId, error: Option<Error>) -> Option<String> {
        for thread in self.threads.values_mut() {
            if thread.waiting.as_ref().is_some_and(|w| w.0 == request) {
                thread.error = error;
                return thread.waiting.take().and_then(|(_, label)| label);
            }
        }
        panic!("an answer for {request:?}, which nobody waits for");
    }
}

/// Converts an event to the form of the test files.
fn render(event: &PoolEvent) -> Value {
    let ms = |d: &Duration| json!(d.as_millis() as u64);
    let connection_event =
        |kind: &str, connection: &u64| json!({ "type": kind, "connectionId": connection });
    let mut shown = match event {
        PoolEvent::Created { options, .. } => {
            let mut shown = serde_json::Map::new();
            let mut put = |key: &str, value: Option<Value>| {
                shown.extend(value.map(|value| (key.to_owned(), value)));
            };
            put("maxPoolSize", options.max_pool_size.map(|n| json!(n)));
            put("minPoolSize", options.min_pool_size.map(|n| json!(n)));
            put("maxIdleTimeMS", options.max_idle_time.as_ref().map(ms));
            json!({ "type": "ConnectionPoolCreated", "options": shown })
        }
        PoolEvent::Ready { .. } => json!({ "type": "ConnectionPoolReady" }),
        PoolEvent::Cleared {
            interrupt_in_use, ..
        } => {
            json!({
                "type": "ConnectionPoolCleared",
                "interruptInUseConnections": interrupt_in_use,
            })
        }
        PoolEvent::Closed { .. } => json!({ "type": "ConnectionPoolClosed" }),
        PoolEvent::ConnectionCreated { connection, .. } => {
            connection_event("ConnectionCreated", connection)
        }
        PoolEvent::ConnectionReady { connection, .. } => {
            connection_event("ConnectionReady", connection)
        }
        PoolEvent::ConnectionClosed { connection, .. } => {
            connection_event("ConnectionClosed", connection)
        }
        PoolEvent::CheckOutStarted { .. } => json!({ "type": "ConnectionCheckOutStarted" }),
        PoolEvent::CheckOutFailed { .. } => json!({ "type": "ConnectionCheckOutFailed" }),
        PoolEvent::CheckedOut { connection, .. } => {
            connection_event("ConnectionCheckedOut", connection)
        }
        PoolEvent::CheckedIn { connection, .. } => {
            connection_event("ConnectionCheckedIn", connection)
        }
        other => panic!("unknown event {other:?}"),
    };
    shown["address"] = json!("localhost:27017");
    match event {
        PoolEvent::ConnectionClosed { reason, .. } => shown["reason"] = json!(closed(*reason)),
        PoolEvent::CheckOutFailed {
            reason, duration, ..
        } => {
            shown["reason"] = json!(failed(*reason));
            shown["duration"] = ms(duration);
        }
        PoolEvent::ConnectionReady { duration, .. } | PoolEvent::CheckedOut { duration, .. } => {
            shown["duration"] = ms(duration);
        }
        _ => {}
    }
    shown
}

const fn closed(reason: CloseReason) -> &'static str {
    match reason {
        CloseReason::Stale => "stale",
        CloseReason::Idle => "idle",
        CloseReason::Error => "error",
        CloseReason::PoolClosed => "poolClosed",
    }
}

const fn failed(reason: CheckOutFailure) -> &'static str {
    match reason {
        CheckOutFailure::PoolClosed => "poolClosed",
        CheckOutFailure::Timeout => "timeout",
        CheckOutFailure::ConnectionError => "connectionError",
    }
}
