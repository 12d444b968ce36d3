//! The loop that carries orders from part to part.
//!
//! An order becomes, for example, an input of another part, an action for the shell, or an event.
//! No order is carried within another one, which builds with debug assertions check: if an order
//! leads to another order, that one is left in the queue of its part. Orders of pools come first,
//! then those of pins, of the topology, of connections and of questions.

use crate::{
    client::{
        Action, Client, Timer,
        attempts::{drain::Drain, end::End, operations::Waiting},
        connections::{self, Role, State},
        pins, pools,
        questions::table,
    },
    connection::{Connection, ConnectionFacts, ConnectionPurpose, Established, Output, SocketId},
    description::{ServerId, ServerType},
    error::{Error, ErrorKind, IoError, Label, NetworkFault},
    event::EventKind,
    operation::{Command, Lease, OperationId},
    pool::{Condition, ConnectionId},
    sdam::{self, ApplicationError, MonitorConnectionId, Phase},
    time::{Instant, earliest},
};

impl Client {
    /// Carries out all orders and begins all attempts that are due, until nothing is left to do.
    pub(in crate::client) fn settle(&mut self, now: Instant) {
        loop {
            self.carry(now);
            if let Some(operation) = self.attempts.operations.next_ready() {
                self.begin_in_background(now, operation);
            } else if self.attempts.reselecting.is_none()
                && std::mem::take(&mut self.attempts.reselect)
            {
                self.select_again(now);
            } else if !self.look_up_seeds_if_needed(now) && !self.end_if_unused(now) {
                break;
            }
        }
        let armed = earliest(self.topology.take_armed(), self.pools.take_armed());
        self.note_deadline(armed);
        if self.life.is_closed() {
            // The stored deadline may belong to a timer that ended with the client.
            self.clock.armed = self.exact_deadline();
        }
    }

    #[inline]
    fn has_orders(&self) -> bool {
        self.pools.has_orders()
            || self.pins.has_orders()
            || self.topology.has_orders()
            || self.connections.has_orders()
            || self.questions.has_orders()
    }

    /// Carries out the orders of all parts until there are none.
    #[inline]
    pub(in crate::client) fn carry(&mut self, now: Instant) {
        if self.has_orders() {
            self.carry_orders(now);
        }
    }

    fn carry_orders(&mut self, now: Instant) {
        #[cfg(debug_assertions)]
        assert!(
            !std::mem::replace(&mut self.out.is_carrying, true),
            "an order is carried within another one"
        );
        while self.has_orders() {
            if let Some((server, order)) = self.pools.poll_order() {
                self.on_pool_order(now, server, order);
            } else if let Some(order) = self.pins.poll_order() {
                self.on_pin_order(now, order);
            } else if let Some(order) = self.topology.poll_order() {
                self.on_topology_order(now, order);
            } else if let Some(order) = self.connections.poll_order() {
                self.on_connection_order(now, order);
            } else if let Some(order) = self.questions.poll_order() {
                match order {
                    table::Order::Act(action) => self.out.act(action),
                    table::Order::Limit(id, limit) => {
                        self.arm(Timer::Question(id), limit);
                    }
                    table::Order::Begun(socket) => {
                        self.connections.handle_work_begun(now, socket);
                    }
                }
            }
        }
        #[cfg(debug_assertions)]
        {
            self.out.is_carrying = false;
        }
    }

    fn on_topology_order(&mut self, now: Instant, order: sdam::Order) {
        match order {
            sdam::Order::Emit(event) => self.out.emit(now, EventKind::Sdam(event)),
            sdam::Order::Open {
                connection: id,
                address,
                ..
            } => {
                let options = self.settings.handshake.clone();
                let connection = Connection::new(now, address, ConnectionPurpose::Monitor, options);
                self.connections.dial(Role::Monitor(id), connection);
            }
            sdam::Order::SendHello {
                connection,
                legacy,
                awaitable,
            } => self.connections.check(now, connection, legacy, awaitable),
            sdam::Order::Close { connection } => {
                self.connections.close(Role::Monitor(connection));
            }
            sdam::Order::CreatePool { server, address } => {
                if !self.life.is_closed() {
                    self.pools.create(server, address);
                }
            }
            sdam::Order::ReadyPool { server } => self.pools.ready(now, server),
            sdam::Order::ClearPool {
                server,
                cause,
                interrupt,
                service,
                ..
            } => self.pools.clear(now, server, service, &cause, interrupt),
            sdam::Order::ClosePool { server } => self.pools.close(now, server),
            sdam::Order::Publish | sdam::Order::CheckEnded | sdam::Order::ScanEnded => {
                self.attempts.reselect = true;
            }
        }
    }

    fn on_pool_order(&mut self, now: Instant, server: ServerId, order: pools::Order) {
        match order {
            pools::Order::Emit(event) => self.out.emit(now, EventKind::Pool(event)),
            pools::Order::Open(pooled) => self.dial_pooled(now, server, pooled),
            pools::Order::Close(pooled) => {
                if let Some(socket) = self.connections.close(Role::Pooled(server, pooled)) {
                    self.clock.timers.cancel(Timer::Drain(socket));
                }
            }
            pools::Order::Grant {
                request,
                connection,
                content,
            } => {
                let id = OperationId(request.0);
                let waits = |waiting: &Waiting| matches!(waiting, Waiting::ForConnection(..));
                match self.attempts.operations.take_if(id, waits) {
                    Some(Waiting::ForConnection(operation, _)) => {
                        self.grant(now, operation, Lease::new(content));
                    }
                    // The operation was cancelled or ended before this order was carried out.
                    _ => {
                        let healthy = Condition::Healthy(content);
                        self.pools.check_in(now, server, connection, healthy);
                    }
                }
            }
            pools::Order::Fail { request, error } => {
                let id = OperationId(request.0);
                self.on_check_out_failed(now, id, error);
            }
            pools::Order::Interrupt { connection, error } => {
                self.interrupt(now, Role::Pooled(server, connection), error);
            }
        }
    }

    /// Interrupts the use of a checked-out connection. The shell interrupts an exchange. Without an
    /// exchange, the client ends the grant or the drain of the connection, or marks the pinned
    /// connection as broken.
    fn interrupt(&mut self, now: Instant, role: Role, error: Error) {
        let Some(socket) = self.connections.socket(role) else {
            return;
        };
        match self.connections.state(socket) {
            Some(State::InUse) => self.out.act(Action::Interrupt { socket, error }),
            Some(&State::Granted(operation, _)) => self.interrupt_grant(now, operation, error),
            Some(State::Draining(_)) => self.connections.give_up_drain(socket, error),
            Some(State::Pinned) => self.pins.interrupt(socket, error),
            Some(State::Driven(_)) => self.interrupt_authentication(socket, error),
            // An exchange that is overdue has been interrupted already.
            Some(State::Idle | State::Overdue) | None => {}
        }
    }

    fn on_pin_order(&mut self, now: Instant, order: pins::Order) {
        match order {
            pins::Order::CheckIn {
                socket,
                server,
                pooled,
                condition,
            } => {
                if let Condition::Healthy(_) = condition {
                    self.connections.set_state(socket, State::Idle);
                }
                self.pools.check_in(now, server, pooled, condition);
            }
            pins::Order::PinFor(server, pooled, pinned_for) => {
                self.pools.pin_for(server, pooled, pinned_for);
            }
            pins::Order::Grant(id, connection) => self.on_pin_free(now, id, connection),
            pins::Order::Resume(id) => self.on_pin_broken(id),
            pins::Order::Fail(id) => {
                // The operation may have ended since, for example because the client was closed.
                if let Some(Waiting::ForPin(..)) = self.attempts.operations.get(id) {
                    let error = pins::released_pin_error();
                    self.end_waiting(now, id, End::Stopped(error));
                }
            }
        }
    }

    fn on_connection_order(&mut self, now: Instant, order: connections::Order) {
        match order {
            connections::Order::Act(action) => self.out.act(action),
            connections::Order::ReadLateReply(socket) => {
                // The pool may have closed the connection since, for example because the pool was
                // closed.
                if let Some(State::Draining(_)) = self.connections.state(socket) {
                    self.out.act(Action::Read { socket });
                }
            }
            connections::Order::Read(socket) => {
                if let Some(State::Driven(_)) = self.connections.state(socket) {
                    self.out.act(Action::Read { socket });
                }
            }
            connections::Order::Report(id, role, output) => self.on_report(now, id, role, output),
            connections::Order::Lost(server, pooled, error) => {
                self.pools
                    .handle_establish_failed(now, server, pooled, &error);
            }
            connections::Order::Drained(drain) => {
                let Drain {
                    connection,
                    end_of_cursor,
                    ..
                } = *drain;
                self.on_drain_over(now, connection, None);
                self.run_in_background(end_of_cursor);
            }
            connections::Order::NotAuthenticated(connection, operation, error) => {
                self.end_not_authenticated(now, connection, operation, error);
            }
            connections::Order::NotDrained(connection, error) => {
                self.on_drain_over(now, connection, Some(error));
            }
            connections::Order::Limit(socket, limit) => {
                self.arm(Timer::Step(socket), limit);
            }
            connections::Order::NotDriven(socket) => {
                self.questions.forget(socket);
            }
        }
    }

    /// Orders to run a command whose result does not matter. Does nothing for `None`.
    pub(in crate::client) fn run_in_background(&mut self, command: Option<Command>) {
        if let (Some(command), false) = (command, self.life.is_closed()) {
            let command = Box::new(command);
            self.out.act(Action::Run { command });
        }
    }

    /// Gives a connection whose drain has ended back to its pin or its pool. A broken connection is
    /// closed, or marked as broken if it is pinned. The topology is not notified: no operation met
    /// the error, and a late reply shows nothing about its server.
    fn on_drain_over(&mut self, now: Instant, connection: Box<Established>, broken: Option<Error>) {
        let facts = &connection.facts;
        let (server, pooled, socket) = (facts.server, facts.pooled, facts.socket);
        self.clock.timers.cancel(Timer::Drain(socket));
        if self.pins.keep_or_remove(socket) {
            self.connections.set_state(socket, State::Pinned);
            self.pins.take_back(connection, broken);
        } else if let Some(error) = broken {
            self.pools.handle_idle_closed(now, server, pooled, error);
        } else {
            self.pools.handle_drained(now, server, pooled, connection);
        }
    }

    fn dial_pooled(&mut self, now: Instant, server: ServerId, pooled: ConnectionId) {
        let Some(pool) = self.pools.get(server) else {
            return;
        };
        let purpose = if pool.is_population(pooled) {
            ConnectionPurpose::Population
        } else {
            ConnectionPurpose::Operations
        };
        let address = pool.address().clone();
        let options = self.settings.handshake.clone();
        let connection = Connection::new(now, address, purpose, options);
        self.connections
            .dial(Role::Pooled(server, pooled), connection);
    }

    /// Handles an output of a connection that is driven. Ignores the output if the connection is no
    /// longer driven, for example because it was closed meanwhile.
    fn on_report(&mut self, now: Instant, id: SocketId, role: Role, output: Output) {
        if !matches!(self.connections.state(id), Some(State::Driven(_))) {
            return;
        }
        match (role, output) {
            (_, Output::StatusNeeded(query)) => self.on_status_needed(now, id, &query),
            (Role::Monitor(connection), output) => self.on_monitor_report(now, connection, output),
            (Role::Pooled(server, pooled), output) => {
                self.on_pool_report(now, id, (server, pooled), output);
            }
        }
    }

    fn on_monitor_report(&mut self, now: Instant, connection: MonitorConnectionId, output: Output) {
        match output {
            Output::HelloAnswered {
                answer, round_trip, ..
            } => self
                .topology
                .handle_connected(now, connection, *answer, round_trip),
            Output::Checked {
                answer,
                round_trip,
                more_to_come,
            } => self
                .topology
                .handle_reply(now, connection, *answer, round_trip, more_to_come),
            Output::Failed { error, .. } => {
                self.connections.close(Role::Monitor(connection));
                self.topology.handle_failed(now, connection, error);
            }
            // Monitors do not authenticate.
            Output::KeysNeeded(_)
            | Output::KerberosStepNeeded(_)
            | Output::CredentialNeeded(_)
            | Output::StatusNeeded(_)
            | Output::Established => {}
        }
    }

    fn on_pool_report(
        &mut self,
        now: Instant,
        id: SocketId,
        (server, pooled): (ServerId, ConnectionId),
        output: Output,
    ) {
        match output {
            Output::HelloAnswered {
                answer, service, ..
            } => {
                if let Some(service) = service {
                    self.pools.handle_hello_answered(server, pooled, service);
                }
                self.topology
                    .handle_application_handshake(now, server, answer.hello);
            }
            Output::KeysNeeded(derivation) => self.questions.derive(now, server, id, derivation),
            Output::KerberosStepNeeded(step) => {
                self.questions.ask_kerberos(now, server, id, step);
            }
            Output::CredentialNeeded(need) => self.on_credential_needed(now, id, &need),
            Output::Established => match self.connections.take_again(id) {
                Some(again) => self.on_authenticated_again(now, id, again),
                None => self.on_established(now, id, server, pooled),
            },
            Output::Failed { error, phase } => match self.connections.take_again(id) {
                Some(again) => self.on_not_authenticated_again(now, id, again, error),
                None => self.on_connection_failed(now, server, pooled, error, phase),
            },
            // Only monitors check.
            Output::StatusNeeded(_) | Output::Checked { .. } => {}
        }
    }

    fn on_established(
        &mut self,
        now: Instant,
        id: SocketId,
        server: ServerId,
        pooled: ConnectionId,
    ) {
        let Some(mut connection) = self.connections.establish(id) else {
            return;
        };
        let address = connection.address().clone();
        let authenticated = connection.take_authenticated();
        let (Some(pool), Some((transport, hello))) =
            (self.pools.get(server), connection.into_parts())
        else {
            self.connections.close(Role::Pooled(server, pooled));
            return;
        };
        let service = pool.service_of(pooled);
        let credential = self.settings.handshake.credential.is_some();
        let facts = ConnectionFacts {
            client: self.topology().id,
            address,
            server,
            socket: id,
            pooled,
            service,
            server_connection_id: hello.connection_id,
            // Commands to a service behind a load balancer are built as for the server type
            // `LoadBalancer` (LB-24).
            server_type: service.map_or(hello.server_type, |_| ServerType::LoadBalancer),
            max_wire_version: hello.max_wire_version,
            max_bson_object_size: hello.max_bson_object_size,
            max_message_size: hello.max_message_size_bytes,
            max_write_batch_size: hello.max_write_batch_size,
            // Behind a load balancer sessions are always supported (LB-21).
            has_sessions: service.is_some() || hello.logical_session_timeout_minutes.is_some(),
            is_cryptd: hello.is_cryptd,
            is_unauthenticated: credential && hello.server_type == ServerType::RsArbiter,
        };
        let established = Established {
            transport,
            facts,
            authenticated,
            used: now,
        };
        self.pools
            .handle_established(now, server, pooled, Box::new(established));
    }

    fn on_connection_failed(
        &mut self,
        now: Instant,
        server: ServerId,
        pooled: ConnectionId,
        error: Error,
        phase: Phase,
    ) {
        let error = label_overload(error, phase);
        if let Some(pool) = self.pools.get(server) {
            let report = ApplicationError {
                error: error.clone(),
                phase,
                is_stale: pool.is_outdated(pooled),
                service: pool.service_of(pooled),
            };
            self.topology.handle_application_error(now, server, &report);
        }
        self.connections.report_lost(server, pooled, error);
    }
}

/// Adds the labels of overload to a network error before the first hello reply, because such an
/// error can mean that the server is overloaded (CMAP-44 to CMAP-47). An error of name resolution
/// gets no labels, and neither does a lack of local sockets.
fn label_overload(error: Error, phase: Phase) -> Error {
    let may_be_overload = phase == Phase::Hello
        && error.is_connection_failure()
        && !matches!(
            error.kind(),
            ErrorKind::Io(IoError {
                fault: NetworkFault::NotResolved | NetworkFault::OutOfSockets,
                ..
            })
        );
    if may_be_overload {
        error
            .with_label(Label::SystemOverloadedError)
            .with_label(Label::RetryableError)
    } else {
        error
    }
}
