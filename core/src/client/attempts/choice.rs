//! Server selection for operations: by the criteria of the operation, by the application's server
//! selector, or by the server to which the operation is bound. Emits the events of server selection
//! (SEL-61).

use crate::{
    address::Address,
    client::{control::outbox::Outbox, pools::Pools},
    description::{ServerId, TopologyDescription, TopologyType},
    error::{Error, ErrorKind},
    event::{EventKind, SelectionEvent, SelectionFacts, Subscriptions},
    operation::{CommandKind, Operation},
    options::{ReadMode, ReadPreference},
    random::Random,
    sdam::Sdam,
    selection::{Criteria, Selector, SelectorQuestion, selection_error},
    time::Instant,
};
use std::{sync::Arc, time::Duration};

/// The result of a server selection.
pub(in crate::client) enum Selected {
    /// The selected server.
    Server(ServerId),
    /// No server suits now, so the operation waits.
    NoServer,
    /// The application's server selector has to answer this question first.
    Ask(SelectorQuestion),
}

impl From<Option<ServerId>> for Selected {
    fn from(server: Option<ServerId>) -> Self {
        server.map_or(Self::NoServer, Self::Server)
    }
}

/// The parts that server selection reads: the topology and the pools.
#[derive(Clone, Copy)]
pub(in crate::client) struct View<'a> {
    pub(in crate::client) topology: &'a Sdam,
    pub(in crate::client) pools: &'a Pools,
}

/// The read preferences of operations without one of their own.
#[derive(Debug)]
struct Preferences {
    /// The preference of operations without a function: `primary`.
    primary: Arc<ReadPreference>,
    /// The preference of operations whose servers a function of the application accepts.
    nearest: Arc<ReadPreference>,
}

impl Default for Preferences {
    fn default() -> Self {
        Self {
            primary: Arc::default(),
            nearest: Arc::new(ReadPreference::new(ReadMode::Nearest)),
        }
    }
}

impl Preferences {
    /// Returns the read preference by which the servers of a read are found.
    fn of<'a>(&'a self, operation: &'a Operation) -> &'a Arc<ReadPreference> {
        let request = &operation.request;
        match request.narrowing {
            Some(_) => &self.nearest,
            None => request.read_preference.as_ref().unwrap_or(&self.primary),
        }
    }
}

/// Selects servers for the operations of a client, and counts the operations of each server.
#[derive(Debug)]
pub(in crate::client) struct Choice {
    selector: Selector,
    preferences: Preferences,
    subscriptions: Subscriptions,
}

impl Choice {
    pub(in crate::client) fn new(selector: Selector, subscriptions: Subscriptions) -> Self {
        Self {
            selector,
            preferences: Preferences::default(),
            subscriptions,
        }
    }

    pub(in crate::client) fn reseed(&mut self, random: Random) {
        self.selector.reseed(random);
    }

    /// Selects a server and counts the operation there.
    #[inline]
    pub(in crate::client) fn select(
        &mut self,
        view: View<'_>,
        operation: &mut Operation,
    ) -> Result<Selected, Error> {
        if operation.request.target.is_some() {
            return self.select_target(view, operation).map(Selected::from);
        }
        if self.asks(operation) {
            return self.select_from_answer(view.topology, operation, None);
        }
        let topology = view.topology;
        if operation.retry.deprioritized.is_empty()
            && let Some(preference) = preference(operation, &self.preferences)
            && let Some(server) =
                self.selector
                    .select_only(topology.version(), topology.description(), preference)
        {
            return Ok(Selected::from(Some(server)));
        }
        let found = self.selector.select(
            topology.version(),
            topology.description(),
            |address| topology.server_id(address),
            &criteria(operation, &self.preferences),
            &operation.retry.deprioritized,
        );
        found.map(Selected::from)
    }

    /// True if [`select`](Self::select) would find no server for the operation and ask nothing.
    pub(in crate::client) fn finds_none(&mut self, topology: &Sdam, operation: &Operation) -> bool {
        if operation.request.target.is_some() || self.asks(operation) {
            return false;
        }
        self.selector.finds_none(
            topology.version(),
            topology.description(),
            |address| topology.server_id(address),
            &criteria(operation, &self.preferences),
        )
    }

    /// True if the application narrows the suitable servers of an operation: with a selector of the
    /// client, or with a function of the operation.
    #[inline]
    pub(in crate::client) fn asks(&self, operation: &Operation) -> bool {
        self.selector.has_server_selector() || operation.request.narrowing.is_some()
    }

    /// Selects a server from `description` instead of the topology's own description. During a
    /// scan, the servers that were not checked yet are Unknown in `description`.
    pub(in crate::client) fn select_by(
        &mut self,
        topology: &Sdam,
        operation: &mut Operation,
        description: &TopologyDescription,
    ) -> Result<Selected, Error> {
        if self.asks(operation) {
            return self.select_from_answer(topology, operation, Some(description));
        }
        let id = |address: &Address| topology.server_id(address);
        let criteria = criteria(operation, &self.preferences);
        let avoided = &operation.retry.deprioritized;
        let found = self
            .selector
            .select_once(description, id, &criteria, avoided)?;
        Ok(found.into())
    }

    /// Selects the server to which the operation is bound, such as the server of its cursor.
    fn select_target(
        &mut self,
        view: View<'_>,
        operation: &Operation,
    ) -> Result<Option<ServerId>, Error> {
        let Some(target) = &operation.request.target else {
            return Ok(None);
        };
        let Some(server) = view.topology.server_id(&target.address) else {
            return Err(target_error(
                &target.address,
                "is no longer in the topology",
                None,
            ));
        };
        let known = view.topology.server(server);
        let is_available = known.is_some_and(|known| known.server_type.is_available());
        if is_available && view.pools.get(server).is_some() {
            self.selector.started(server);
            return Ok(Some(server));
        }
        if target.is_awaited {
            return Ok(None);
        }
        Err(target_is_lost(view.topology, &target.address))
    }

    /// Selects among the servers that the application's server selector kept. Returns a question if
    /// there is no usable answer of the selector yet.
    fn select_from_answer(
        &mut self,
        topology: &Sdam,
        operation: &mut Operation,
        description: Option<&TopologyDescription>,
    ) -> Result<Selected, Error> {
        let selector = &mut self.selector;
        let criteria = criteria(operation, &self.preferences);
        let version = topology.version();
        let description = description.unwrap_or_else(|| topology.description());
        let given = operation.selection.answer.take();
        let avoided = avoided_by_selector(operation);
        if let Some(answer) = given {
            let id = |address: &Address| topology.server_id(address);
            let found =
                selector.select_from_answer(description, id, &criteria, avoided, &answer)?;
            let is_current = answer.version() == version;
            if found.is_some() || is_current && avoided.is_empty() {
                return Ok(found.into());
            }
            // The servers to be avoided are used if no other one suits (SEL-42).
            operation.selection.asks_about_avoided = is_current;
        }
        let avoided = avoided_by_selector(operation);
        let own = operation.request.narrowing.as_ref();
        let question = selector.question(version, description, &criteria, avoided, own)?;
        Ok(question.map_or(Selected::NoServer, Selected::Ask))
    }

    /// Stores two facts in the operation. If it has a deadline: the minimum round trip time of the
    /// selected server (SEL-59). If it is an aggregation that writes: whether the selection used
    /// the read preference `primary` (SEL-34).
    #[inline]
    pub(in crate::client) fn note_selected(
        &self,
        topology: &Sdam,
        operation: &mut Operation,
        server: ServerId,
    ) {
        if operation.deadline.is_some() {
            let known = topology.server(server);
            operation.selection.min_round_trip =
                known.map_or(Duration::ZERO, |s| s.min_round_trip_time);
        }
        if operation.request.kind == CommandKind::WritingAggregate {
            let criteria = criteria(operation, &self.preferences);
            let chosen_by = criteria.read_preference(topology.description());
            operation.request.is_for_primary =
                chosen_by.is_some_and(|preference| preference.is_primary());
        }
    }

    /// Counts an operation at a server without a selection, as for a pinned connection.
    pub(in crate::client) fn started(&mut self, server: ServerId) {
        self.selector.started(server);
    }

    /// No longer counts an operation at a server.
    #[inline]
    pub(in crate::client) fn finished(&mut self, server: ServerId) {
        self.selector.finished(server);
    }

    #[cfg(test)]
    pub(in crate::client) fn operation_count(&self, server: ServerId) -> u32 {
        self.selector.operation_count(server)
    }

    /// Returns the criteria by which the operation selects a server.
    pub(in crate::client) fn criteria(&self, operation: &Operation) -> Criteria {
        criteria(operation, &self.preferences)
    }

    /// True if the topology is a replica set with a primary and only the primary can serve the
    /// operation.
    pub(in crate::client) fn needs_primary(&self, topology: &Sdam, operation: &Operation) -> bool {
        let description = topology.description();
        if description.topology_type != TopologyType::ReplicaSetWithPrimary {
            return false;
        }
        let criteria = criteria(operation, &self.preferences);
        let preference = criteria.read_preference(description);
        preference.is_none_or(ReadPreference::is_primary)
    }

    /// Returns the error of an operation for which no server suits.
    pub(in crate::client) fn no_suitable_server_error(
        &self,
        topology: &Sdam,
        operation: &Operation,
    ) -> Error {
        if let Some(target) = &operation.request.target {
            return target_is_lost(topology, &target.address);
        }
        selection_error(topology.description(), &self.criteria(operation))
    }

    /// Emits the event that a server selection started. Emits nothing if the operation selects
    /// again after a wait.
    #[inline]
    pub(in crate::client) fn emit_started(
        &self,
        now: Instant,
        topology: &Sdam,
        operation: &mut Operation,
        out: &mut Outbox,
    ) {
        // An operation that is bound to a server does not select one (SEL-2).
        if !self.subscriptions.selection
            || operation.selection.events.started
            || operation.request.target.is_some()
        {
            return;
        }
        operation.selection.events.started = true;
        let facts = self.facts(topology, operation);
        emit(now, SelectionEvent::Started { facts }, out);
    }

    /// Emits the event that an operation waits for a server, until `limit` at the latest.
    pub(in crate::client) fn emit_waits(
        &self,
        now: Instant,
        topology: &Sdam,
        operation: &mut Operation,
        limit: Option<Instant>,
        out: &mut Outbox,
    ) {
        let wanted = self.subscriptions.selection || self.subscriptions.notices;
        // The event comes once per operation, not each time that the operation waits (SEL-61).
        let selects = operation.request.target.is_none();
        if !wanted || !selects || std::mem::replace(&mut operation.selection.events.waiting, true) {
            return;
        }
        let facts = self.facts(topology, operation);
        let remaining = limit.map(|limit| limit - now);
        emit(now, SelectionEvent::Waiting { facts, remaining }, out);
    }

    /// Emits the event that a server was selected, if the started event was emitted.
    #[inline]
    pub(in crate::client) fn emit_succeeded(
        &self,
        now: Instant,
        topology: &Sdam,
        operation: &mut Operation,
        server: ServerId,
        out: &mut Outbox,
    ) {
        if !std::mem::take(&mut operation.selection.events.started) {
            return;
        }
        let Some(chosen) = topology.server(server) else {
            return;
        };
        let address = chosen.address.clone();
        let facts = self.facts(topology, operation);
        emit(now, SelectionEvent::Succeeded { facts, address }, out);
    }

    /// Emits the event that server selection failed, if the started event was emitted.
    pub(in crate::client) fn emit_failed(
        &self,
        now: Instant,
        topology: &Sdam,
        operation: &mut Operation,
        error: &Error,
        out: &mut Outbox,
    ) {
        if !std::mem::take(&mut operation.selection.events.started) {
            return;
        }
        let failure = without_topology(error);
        let facts = self.facts(topology, operation);
        emit(now, SelectionEvent::Failed { facts, failure }, out);
    }

    fn facts(&self, topology: &Sdam, operation: &Operation) -> SelectionFacts {
        let mut selector = self.criteria(operation).to_string();
        if self.asks(operation) {
            selector.push_str(", narrowed by the application");
        }
        SelectionFacts {
            operation: operation.request.name().into(),
            operation_id: operation.id.0,
            selector: selector.into(),
            topology: Arc::clone(topology.description()),
        }
    }
}

fn emit(now: Instant, event: SelectionEvent, out: &mut Outbox) {
    out.emit(now, EventKind::Selection(event));
}

/// Returns the servers about which the server selector of the application is not asked.
fn avoided_by_selector(operation: &Operation) -> &[Address] {
    match operation.selection.asks_about_avoided {
        true => &[],
        false => &operation.retry.deprioritized,
    }
}

/// Returns the error of a selection without its list of servers, because the event has the topology
/// description in a field of its own (SEL-63).
fn without_topology(error: &Error) -> Error {
    let ErrorKind::ServerSelection { cause, .. } = error.kind() else {
        return error.clone();
    };
    Error::new(ErrorKind::ServerSelection {
        message: "no suitable server was found in time".to_owned(),
        cause: cause.clone(),
    })
    .with_waited(error.waited())
}

/// Returns the error of an operation whose only permitted server cannot be used.
fn target_is_lost(topology: &Sdam, target: &Address) -> Error {
    let known = topology.description().servers.get(target);
    let cause = known.and_then(|known| known.error.clone());
    match &cause {
        Some(error) => {
            let what = format!("cannot be used: {}", error.kind());
            target_error(target, &what, cause)
        }
        None => target_error(target, "has not been checked yet", None),
    }
}

fn target_error(target: &Address, what: &str, cause: Option<Error>) -> Error {
    let message = format!("{target}, the server of the cursor or transaction, {what}");
    Error::new(ErrorKind::ServerSelection { message, cause }).with_server(target)
}

/// Returns the read preference of a read, or `Some(None)` for a write. `None` for an aggregation
/// that writes, whose criteria depend on the servers.
fn preference<'a>(
    operation: &'a Operation,
    preferences: &'a Preferences,
) -> Option<Option<&'a Arc<ReadPreference>>> {
    let command = &operation.request;
    match command.kind {
        CommandKind::RetryableWrite | CommandKind::Write => Some(None),
        CommandKind::WritingAggregate => None,
        CommandKind::Read | CommandKind::Run | CommandKind::CursorFollowUp => {
            Some(Some(preferences.of(operation)))
        }
    }
}

/// Returns the criteria by which the operation selects a server. Writes need a writable server
/// (SEL-28). `runCommand` uses the primary unless it has a read preference of its own (SEL-29). The
/// criteria never name the server of an earlier operation (SEL-50).
fn criteria(operation: &Operation, preferences: &Preferences) -> Criteria {
    match preference(operation, preferences) {
        Some(None) => Criteria::Writable,
        Some(Some(preference)) => Criteria::Readable(preference.clone()),
        None => Criteria::WritingAggregate(preferences.of(operation).clone()),
    }
}
