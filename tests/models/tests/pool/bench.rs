//! A harness for the connection pool, which feeds inputs and checks the orders. If there is a
//! model, the harness compares the pool with it.

use crate::watch::Watcher;
use onionskin_core::{
    address::Address,
    error::{Error, NetworkFault},
    time::Instant,
    unstable::pool::{CheckOut, CheckOutId, Condition, ConnectionId, Pool, PoolOptions},
};
use onionskin_models::pool::{
    Answer, CAUSE, FailureReason, Input, Mistake, Model, Output, SERVER, service,
};

pub(crate) type Found = Result<(), String>;

/// The largest number of deadlines at one instant, and of steps until a pool has settled.
const MOST_DEADLINES: usize = 100;

/// The connection pool with its watcher and, if created by `paired`, with the model.
#[derive(Clone, Debug)]
pub(crate) struct Bench {
    /// The pool. The content of each pooled connection is the connection's own number.
    pub(crate) pool: Pool<u64>,
    pub(crate) watch: Watcher,
    pub(crate) model: Option<Model>,
    pub(crate) now: Instant,
    /// The orders and events so far, if a test wants them.
    pub(crate) log: Option<Vec<Output>>,
}

pub(crate) fn address() -> Address {
    SERVER.parse().expect("an address")
}

fn cause() -> Error {
    Error::network(NetworkFault::Reset, CAUSE)
}

impl Bench {
    /// Creates a pool without a model.
    pub(crate) fn alone(options: &PoolOptions, subscribed: bool) -> Result<Self, String> {
        let mut bench = Self {
            pool: Pool::new(address(), options.clone(), subscribed),
            watch: Watcher::new(options.clone(), subscribed),
            model: None,
            now: Instant::ZERO,
            log: None,
        };
        let outputs = bench.drain()?;
        bench.watch.first(&outputs)?;
        Ok(bench)
    }

    /// Creates a pool and a model. The model makes `mistake`, if any.
    pub(crate) fn paired(
        options: &PoolOptions,
        subscribed: bool,
        mistake: Option<Mistake>,
    ) -> Result<Self, String> {
        let mut bench = Self::alone(options, subscribed)?;
        let (model, permitted) = Model::new(options.clone(), subscribed, mistake);
        permitted.agrees(&[Output::PoolCreated][..usize::from(subscribed)])?;
        bench.model = Some(model);
        Ok(bench)
    }

    fn drain(&mut self) -> Result<Vec<Output>, String> {
        let mut outputs = Vec::new();
        while let Some(order) = self.pool.poll_order() {
            outputs.push(Output::of(&order, self.pool.address())?);
        }
        if let Some(log) = &mut self.log {
            log.extend(outputs.iter().cloned());
        }
        Ok(outputs)
    }

    /// Gives the pool one input, checks the orders and events that follow, and compares with the
    /// model.
    pub(crate) fn feed(&mut self, input: &Input) -> Found {
        self.feed_inner(input)
            .map_err(|what| format!("{input:?} at {:?}: {what}", self.now))
    }

    fn feed_inner(&mut self, input: &Input) -> Found {
        let answer = self.give(input)?;
        let outputs = self.drain()?;
        if let Some(again) = self.pool.poll_order() {
            return Err(format!("asked twice, it gives {again:?}"));
        }
        self.watch.handle(input, &answer, &outputs, &self.pool)?;
        if *input == Input::Timeout {
            let due = self.pool.deadline().filter(|due| *due <= self.now);
            if let Some(due) = due {
                return Err(format!("{due:?} is still due"));
            }
        }
        let Some(model) = &mut self.model else {
            return Ok(());
        };
        let (expected, permitted) = model.handle(self.now, input);
        if answer != expected {
            return Err(format!("answered {answer:?}, not {expected:?}"));
        }
        permitted.agrees(&outputs)?;
        self.compare()
    }

    fn give(&mut self, input: &Input) -> Result<Answer, String> {
        let (pool, now) = (&mut self.pool, self.now);
        match *input {
            Input::Ready => pool.handle_ready(now),
            Input::Clear { interrupt } => pool.handle_clear(now, &cause(), interrupt),
            Input::Close => pool.handle_close(now),
            Input::CheckOut {
                request,
                deadline,
                timed,
            } => {
                let request = CheckOutId(request);
                let answer = match timed {
                    true => pool.check_out_timed(now, request, deadline),
                    false => pool.check_out(now, request, deadline),
                };
                return answer_of(answer);
            }
            Input::Cancel(request) => pool.cancel(now, CheckOutId(request)),
            Input::CheckIn { connection, broken } => {
                let condition = match broken {
                    true => Condition::Broken(Some(cause())),
                    false => Condition::Healthy(connection),
                };
                let id = id_of(pool, connection);
                if pool.check_in(now, id, condition).is_err() {
                    return Ok(Answer::NotCheckedOut);
                }
            }
            Input::CheckInDue(id) => {
                let id = id_of(pool, id);
                if pool.check_in(now, id, Condition::ReplyDue).is_err() {
                    return Ok(Answer::NotCheckedOut);
                }
            }
            Input::Drained(id) => pool.handle_drained(now, id_of(pool, id), id),
            Input::Established(id) => pool.handle_established(now, id_of(pool, id), id),
            Input::EstablishFailed(id) => {
                pool.handle_establish_failed(now, id_of(pool, id), &cause());
            }
            Input::IdleClosed(id) => pool.handle_idle_closed(now, id_of(pool, id), Some(cause())),
            Input::Timeout => pool.handle_timeout(now),
            Input::HelloAnswered {
                connection,
                service: number,
            } => {
                let answer = pool.handle_hello_answered(id_of(pool, connection), service(number));
                return Ok(Answer::HelloAnswered(answer));
            }
            Input::ClearService(number) => {
                pool.handle_clear_service(now, service(number));
            }
            Input::PinFor {
                connection,
                pinned_for,
            } => pool.pin_for(id_of(pool, connection), pinned_for),
        }
        Ok(Answer::Done)
    }

    /// Compares the pool with the model: the state, the generations, the counts, and the
    /// connections for `minPoolSize`. The deadline must not be later than that of the model.
    fn compare(&self) -> Found {
        let Some(model) = &self.model else {
            return Ok(());
        };
        let pool = &self.pool;
        same("state", &pool.state(), &model.state())?;
        same("generation", &pool.generation(), &model.generation())?;
        same("counts", &pool.counts(), &model.counts())?;
        for id in self.watch.connections() {
            let theirs = pool.generation_of(id_of(pool, id));
            same("generation of it", &theirs, &model.generation_of(id))?;
            let theirs = pool.is_population(id_of(pool, id));
            same("what it is made for", &theirs, &model.is_population(id))?;
        }
        // The machine's deadline can be earlier than that of the model, because the reason for a
        // background run can disappear before the run. The machine's deadline must never be later.
        let theirs = pool.deadline().map(|due| due.max(self.now));
        let ours = model.deadline(self.now);
        match (theirs, ours) {
            (Some(theirs), Some(ours)) if theirs <= ours => Ok(()),
            (_, None) => Ok(()),
            _ => same("deadline", &theirs, &ours),
        }
    }

    /// Handles all deadlines that have come.
    pub(crate) fn keep_deadlines(&mut self) -> Found {
        for _ in 0..MOST_DEADLINES {
            match self.pool.deadline() {
                Some(due) if due <= self.now => self.feed(&Input::Timeout)?,
                _ => return Ok(()),
            }
        }
        Err("the deadlines of one moment do not end".into())
    }

    /// Checks in all connections, completes all establishments, and lets all late replies arrive.
    /// Each request must get its result.
    pub(crate) fn settle(&mut self) -> Found {
        self.feed(&Input::Ready)?;
        for _ in 0..MOST_DEADLINES {
            self.keep_deadlines()?;
            let pending = self.watch.pending();
            let used = self.watch.in_use();
            let draining = self.watch.draining();
            let nobody = self.watch.waiting().is_empty();
            if pending.is_empty() && used.is_empty() && draining.is_empty() && nobody {
                return Ok(());
            }
            if let Some(&id) = pending.first() {
                if !self.watch.may_be_established(id) {
                    self.feed(&Input::HelloAnswered {
                        connection: id,
                        service: 1,
                    })?;
                }
                self.feed(&Input::Established(id))?;
            } else if let Some(&connection) = used.first() {
                self.feed(&Input::CheckIn {
                    connection,
                    broken: false,
                })?;
            } else if let Some(&id) = draining.first() {
                self.feed(&Input::Drained(id))?;
            } else {
                break;
            }
        }
        Err(format!("{:?} are stranded", self.watch.waiting()))
    }

    /// Closes the pool and checks in all connections. The pool must then have no connection,
    /// request or deadline.
    pub(crate) fn close(&mut self) -> Found {
        self.feed(&Input::Close)?;
        for connection in self.watch.in_use() {
            self.feed(&Input::CheckIn {
                connection,
                broken: false,
            })?;
        }
        self.watch.is_over(&self.pool)
    }
}

/// Returns the id of the connection with this number. If there is none, returns an id that the pool
/// must refuse.
pub(crate) fn id_of(pool: &Pool<u64>, number: u64) -> ConnectionId {
    let known = pool.connection(number);
    known.unwrap_or_else(|| ConnectionId::new(number, 0))
}

/// Returns the result of a check out. Fails if the pool grants the content of another connection.
fn answer_of(check_out: CheckOut<u64>) -> Result<Answer, String> {
    Ok(match check_out {
        CheckOut::Granted(connection, content) if connection.number() == content => {
            Answer::Granted(content)
        }
        CheckOut::Granted(connection, content) => {
            return Err(format!("{connection} comes with what belongs to {content}"));
        }
        CheckOut::Waiting => Answer::Waiting,
        CheckOut::Failed(error) => Answer::Failed(FailureReason::of(&error, &address())?),
    })
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, theirs: &T, ours: &T) -> Found {
    if theirs == ours {
        return Ok(());
    }
    Err(format!(
        "{what}: the machine has {theirs:?}, the model has {ours:?}"
    ))
}
