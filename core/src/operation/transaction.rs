//! The transaction of a session: its state, and the rules for the commands of the session.

use super::{
    ABANDON_LIMIT, Command, CommandKind, InTransaction, OperationId, Pin, PinId, PinUse, Request,
    SessionUse, TransactionOptions, TransactionStep,
};
use crate::{
    address::Address,
    error::Error,
    options::{Acknowledgment, SelectionCriteria, WriteConcern},
    session::SessionId,
};
use bson::RawDocumentBuf;
use std::time::Duration;

/// The `wtimeout` of a repeated commit whose write concern has none (Transactions, *writeConcern
/// for commitTransaction attempts*).
const REPEATED_COMMIT_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest recovery token that is kept, in bytes. Servers send about 100 bytes. Without its
/// token a commit still works on the router of the transaction.
pub(crate) const MAX_RECOVERY_TOKEN_BYTES: usize = 16 << 10;

/// The state of a session's transaction (Transactions Specification, *ClientSession changes*).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransactionState {
    /// There is no transaction.
    #[default]
    None,
    /// A transaction was started, and no command of it was sent.
    Starting,
    /// A command of the transaction was sent.
    InProgress,
    /// The transaction was committed, or a commit was tried.
    Committed,
    /// The transaction was aborted.
    Aborted,
}

impl TransactionState {
    /// True for a transaction that was started, and neither committed nor aborted.
    #[must_use]
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Starting | Self::InProgress)
    }
}

/// The only place where the commands of a transaction can run. Transactions of replica sets need
/// none, because their commands run on the primary.
#[derive(Debug)]
pub(crate) struct Place {
    /// The address of the router that ran the first command, or of the load balancer.
    pub(crate) address: Address,
    /// The connection that ran the first command, behind a load balancer.
    pub(crate) pin: Option<Pin>,
}

/// The transaction of a session that an application has started.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    state: TransactionState,
    /// The `txnNumber` of all commands.
    number: i64,
    options: TransactionOptions,
    /// The token in the latest reply that had one.
    recovery_token: Option<RawDocumentBuf>,
    place: Option<Place>,
    /// The operation that runs in the transaction.
    running: Option<OperationId>,
    /// The operation that sent the latest command.
    last_sent: Option<OperationId>,
    /// True from the first command that was sent until one that ends the transaction was sent.
    is_open: bool,
    /// True once an operation was dropped after its command was sent: nobody knows what the
    /// transaction contains.
    is_torn: bool,
    /// True if the transaction was committed without a command.
    is_empty: bool,
    /// True once a commit has ended without an overload error, or was dropped after part of it was
    /// sent, so that the next one needs the write concern `majority`.
    is_commit_repeated: bool,
}

impl Transaction {
    pub(crate) const fn state(&self) -> TransactionState {
        self.state
    }

    /// Fails if the session is in a transaction.
    pub(crate) fn check_start(&self) -> Result<(), Error> {
        match self.state.is_active() {
            true => Err(Error::transaction(
                "Transaction already in progress; commit or abort it first",
            )),
            false => Ok(()),
        }
    }

    /// Starts a transaction, and returns the place of the one before.
    pub(crate) fn start(&mut self, number: i64, options: TransactionOptions) -> Option<Place> {
        let next = Self {
            state: TransactionState::Starting,
            number,
            options,
            ..Self::default()
        };
        std::mem::replace(self, next).place
    }

    /// Ends the state of a transaction that was committed or aborted, because an operation outside
    /// of it begins. Returns its place.
    pub(crate) fn leave(&mut self) -> Option<Place> {
        std::mem::take(self).place
    }

    /// Prepares a command of the application for the transaction. Changes nothing if it fails.
    pub(crate) fn admit(&mut self, id: OperationId, request: &mut Request) -> Result<(), Error> {
        self.check(request)?;
        self.check_idle()?;
        self.running = Some(id);
        request.acknowledged = true;
        request.remove_write_concern();
        request.read_preference = None;
        request.narrowing = None;
        request.txn_number = Some(self.number);
        let mut part = InTransaction::new(TransactionStep::Statement);
        if self.state == TransactionState::Starting {
            part.starts = true;
            part.read_concern.clone_from(&self.options.read_concern);
        }
        request.transaction = Some(part);
        self.bind(request);
        Ok(())
    }

    /// Fails if a command with these options cannot run in the transaction (Transactions
    /// Specification, *Users cannot pass readConcern or writeConcern to operations in
    /// transactions*, *readPreference*).
    fn check(&self, request: &Request) -> Result<(), Error> {
        let own = request.own;
        if self.is_torn {
            return Err(torn_error());
        }
        if own.read_concern {
            let message = "Cannot set read concern after starting a transaction";
            return Err(Error::argument(message));
        }
        if own.write_concern {
            let message = "Cannot set write concern after starting a transaction; set one that is \
                           acknowledged when the transaction starts";
            return Err(Error::argument(message));
        }
        if request.kind.is_write() || request.kind == CommandKind::CursorFollowUp {
            return Ok(());
        }
        let of_transaction = self.options.selection_criteria.as_ref();
        // With a function, this is `primaryPreferred`, which is refused as well.
        let preference = match own.criteria {
            true => request.read_preference.as_deref(),
            false => of_transaction.map(SelectionCriteria::read_preference),
        };
        if preference.is_some_and(|preference| !preference.is_primary()) {
            let message = "read preference in a transaction must be primary";
            return Err(Error::argument(message));
        }
        Ok(())
    }

    /// Makes a command run at the place of the transaction, unless it has one of its own.
    fn bind(&self, request: &mut Request) {
        match &self.place {
            None => {}
            Some(Place { pin: Some(pin), .. }) => {
                request.pin.get_or_insert(PinUse::Borrowed(pin.0.id));
            }
            Some(Place { address, pin: None }) if request.target.is_none() => {
                request.bind_to(address);
            }
            Some(_) => {}
        }
    }

    /// Returns true if the place of the transaction is not known, and this command decides it.
    pub(crate) fn lacks_place(&self, number: i64) -> bool {
        self.is_of(number) && self.state.is_active() && self.place.is_none()
    }

    /// Returns the address to which the transaction is bound.
    pub(crate) fn address(&self) -> Option<&Address> {
        self.place.as_ref().map(|place| &place.address)
    }

    /// Keeps the place of the first command.
    pub(crate) fn set_place(&mut self, place: Place) {
        self.place = Some(place);
    }

    /// False if a command with this pin ran on another connection than that of the transaction.
    pub(crate) fn is_at(&self, pin: Option<PinId>) -> bool {
        let own = self.place.as_ref().and_then(|place| place.pin.as_ref());
        own.zip(pin)
            .is_none_or(|(own, pin)| own.0.id.socket == pin.socket)
    }

    /// Takes the place of the transaction with this number.
    pub(crate) fn take_place(&mut self, number: i64) -> Option<Place> {
        let is_own = self.is_of(number);
        self.place.take_if(|_| is_own)
    }

    /// Takes the place of the transaction, which has ended without a command.
    pub(crate) const fn leave_place(&mut self) -> Option<Place> {
        self.place.take()
    }

    /// Keeps the recovery token of a reply.
    pub(crate) fn note_token(&mut self, number: i64, token: RawDocumentBuf) {
        if self.is_of(number) {
            self.recovery_token = Some(token);
        }
    }

    /// Notes the end of a command of the transaction with this number. `was_abandoned` is true if
    /// the caller dropped the operation. If it has sent commands, nobody knows what the transaction
    /// contains, also if the last command was not sent.
    pub(crate) fn end_command(
        &mut self,
        id: OperationId,
        number: i64,
        part: &InTransaction,
        was_abandoned: bool,
    ) {
        if !self.is_of(number) {
            return;
        }
        if part.step != TransactionStep::Statement {
            self.is_open &= !part.is_sent;
            return;
        }
        self.running.take_if(|running| *running == id);
        if part.is_sent {
            self.last_sent = Some(id);
            self.is_open = true;
            if self.state == TransactionState::Starting {
                self.state = TransactionState::InProgress;
            }
        }
        self.is_torn |= was_abandoned && self.last_sent == Some(id);
    }

    /// Notes the end of an attempt to commit the transaction with this number. `counts` is false
    /// for one that the server refused because of overload.
    pub(crate) fn end_commit(&mut self, number: i64, counts: bool) {
        self.is_commit_repeated |= counts && self.is_of(number);
    }

    /// True while an operation runs.
    pub(crate) const fn is_running(&self) -> bool {
        self.running.is_some()
    }

    fn is_of(&self, number: i64) -> bool {
        self.state != TransactionState::None && self.number == number
    }

    /// Commits the transaction: returns the command to run, or `None` if no operation has run in
    /// the transaction. Fails if there is nothing to commit.
    pub(crate) fn commit(
        &mut self,
        session: SessionId,
        timeout: Option<Duration>,
    ) -> Result<Option<Command>, Error> {
        match self.state {
            TransactionState::None => return Err(Error::transaction(NO_TRANSACTION)),
            TransactionState::Aborted => {
                let message = "Cannot call commitTransaction after calling abortTransaction";
                return Err(Error::transaction(message));
            }
            TransactionState::Starting
            | TransactionState::InProgress
            | TransactionState::Committed => {}
        }
        self.check_idle()?;
        if self.is_torn {
            return Err(torn_error());
        }
        self.is_empty |= self.state == TransactionState::Starting;
        self.state = TransactionState::Committed;
        if self.is_empty {
            return Ok(None);
        }
        let step = TransactionStep::Commit;
        let mut command = self.end("commitTransaction", step, session, timeout);
        let max_time = self.options.max_commit_time.filter(|_| timeout.is_none());
        command.set_max_time(max_time);
        self.bind(&mut command.0.request);
        Ok(Some(command))
    }

    /// Aborts the transaction: returns the command to run, or `None` if no operation has run in the
    /// transaction. Fails if there is nothing to abort.
    pub(crate) fn abort(
        &mut self,
        session: SessionId,
        timeout: Option<Duration>,
    ) -> Result<Option<Command>, Error> {
        match self.state {
            TransactionState::None => return Err(Error::transaction(NO_TRANSACTION)),
            TransactionState::Committed => {
                let message = "Cannot call abortTransaction after calling commitTransaction";
                return Err(Error::transaction(message));
            }
            TransactionState::Aborted => {
                return Err(Error::transaction("Cannot call abortTransaction twice"));
            }
            TransactionState::Starting | TransactionState::InProgress => {}
        }
        // An operation that still runs may have been sent.
        let was_sent = self.state == TransactionState::InProgress || self.running.is_some();
        self.state = TransactionState::Aborted;
        Ok(was_sent.then(|| self.abort_command(session, timeout)))
    }

    /// Returns the command that aborts the transaction. It takes over the place of the transaction.
    fn abort_command(&mut self, session: SessionId, timeout: Option<Duration>) -> Command {
        let mut command = self.end("abortTransaction", TransactionStep::Abort, session, timeout);
        match self.place.take() {
            None => {}
            Some(Place { pin: Some(pin), .. }) => command.set_last_use(pin),
            Some(Place { address, pin: None }) => command.0.request.bind_to(&address),
        }
        command
    }

    /// Returns the command that aborts the transaction of a session that was dropped, unless the
    /// server knows no such transaction or was told to end it. The command ends the session.
    pub(crate) fn abort_dropped(&mut self, session: SessionId) -> Option<Command> {
        if !self.is_open && self.running.is_none() {
            return None;
        }
        let mut command = self.abort_command(session, Some(ABANDON_LIMIT));
        command.set_session(SessionUse::Last(session));
        Some(command)
    }

    /// Fails while an operation runs: servers do not support operations of a transaction that run
    /// at the same time.
    fn check_idle(&self) -> Result<(), Error> {
        match self.running {
            None => Ok(()),
            Some(_) => Err(Error::transaction(
                "another operation of the transaction has not ended; a transaction runs one \
                 operation at a time",
            )),
        }
    }

    /// Returns a command that ends the transaction.
    fn end(
        &self,
        name: &'static str,
        step: TransactionStep,
        session: SessionId,
        timeout: Option<Duration>,
    ) -> Command {
        let mut command = Command::new(name, "admin", CommandKind::RetryableWrite);
        command.body().i32(name, 1);
        if let Some(token) = &self.recovery_token {
            command.body().document("recoveryToken", token);
        }
        command.set_session(SessionUse::Explicit(session));
        let request = &mut command.0.request;
        request.txn_number = Some(self.number);
        request.transaction = Some(InTransaction::new(step));
        let is_limited = timeout.is_some();
        let concern = match step {
            TransactionStep::Commit => self.commit_concern(is_limited),
            TransactionStep::Statement | TransactionStep::Abort => self.concern(is_limited),
        };
        request.set_write_concern(concern.as_ref());
        command.set_timeout(timeout);
        command
    }

    /// Returns the write concern of the next attempt to commit.
    ///
    /// If the operation has a time limit, that counts instead of `wtimeout`.
    pub(crate) fn commit_concern(&self, is_limited: bool) -> Option<WriteConcern> {
        let mut concern = self.concern(is_limited);
        if self.is_commit_repeated {
            let repeated = concern.get_or_insert_default();
            repeated.w = Some(Acknowledgment::Majority);
            if !is_limited {
                repeated.w_timeout.get_or_insert(REPEATED_COMMIT_TIMEOUT);
            }
        }
        concern
    }

    /// Returns the write concern of the transaction, without `wtimeout` if the operation has a time
    /// limit.
    fn concern(&self, is_limited: bool) -> Option<WriteConcern> {
        let mut concern = self.options.write_concern.clone()?;
        concern.w_timeout = concern.w_timeout.filter(|_| !is_limited);
        Some(concern)
    }
}

const NO_TRANSACTION: &str = "No transaction started; call start_transaction first";

fn torn_error() -> Error {
    Error::transaction(
        "an operation of the transaction was dropped before its end, so it is not known what the \
         transaction contains; abort it",
    )
}
