//! Inputs that give back what is held outside of the client: sessions and pins.

use crate::{
    client::{
        Client,
        connections::{Role, State},
        recording::{Kind, put_resources},
    },
    operation::{Command, CommandKind, CursorResources, Pin, SessionUse},
    options::{ReadMode, ReadPreference},
    session::{END_SESSIONS_BATCH, SessionId},
    time::Instant,
};
use std::sync::Arc;

impl Client {
    /// Gives back a session that its holder no longer needs. If the session has a transaction in
    /// progress, a command in the background aborts it first.
    #[inline]
    pub(in crate::client) fn return_session(&mut self, now: Instant, session: SessionId) {
        if !self.attempts.explicit.is_empty() && self.abort_dropped(session) {
            return;
        }
        let timeout = self.topology.description().logical_session_timeout_minutes;
        self.attempts.sessions.end(now, timeout, session);
    }

    /// Releases the pin of a cursor or a transaction. The connection is checked in when its last
    /// pin is released.
    pub fn release(&mut self, now: Instant, pin: Pin) {
        let resources = CursorResources {
            pin: Some(pin),
            ..CursorResources::default()
        };
        self.release_cursor(now, resources);
    }

    /// Gives back the session of a cursor and releases its pin.
    pub fn release_cursor(&mut self, now: Instant, resources: CursorResources) {
        self.begin_entry(now, Kind::Release, |out| {
            put_resources(out, Some(&resources))
        });
        self.release_held(now, resources);
        self.settle(now);
        self.end_entry(|_| {});
    }

    pub(in crate::client) fn release_held(&mut self, now: Instant, resources: CursorResources) {
        let mut next = Some(Box::new(resources));
        while let Some(resources) = next {
            if let Some(session) = resources.session {
                self.return_session(now, session);
            }
            if let Some(pin) = resources.pin {
                self.release_pin(pin);
            }
            next = resources.more;
        }
    }

    /// Discards a command that will not run. If the command was the last use of a session or a pin,
    /// the session is given back and the pin released. What the command was to give back before it
    /// began is given back as well.
    pub fn discard(&mut self, now: Instant, command: Command) {
        self.release_cursor(now, command.into_resources());
    }

    pub(in crate::client) fn release_pin(&mut self, pin: Pin) {
        let Self {
            pins, connections, ..
        } = self;
        pins.release(pin, |socket| {
            // Only an exchange makes a pin, so a granted connection has none yet.
            match (connections.role(socket)?, connections.state(socket)?) {
                (Role::Pooled(server, pooled), State::InUse | State::Overdue) => {
                    Some((server, pooled))
                }
                _ => None,
            }
        });
    }

    /// Returns a command that ends sessions on the server, at most `END_SESSIONS_BATCH` of them:
    /// those of the session pool, then those of open cursors, which the server then closes. Run
    /// such commands before closing the client, until this returns `None`. Their results do not
    /// matter.
    ///
    /// `None` if no sessions are left, if the client is closed, or if no server is available.
    /// Closing does not wait for a server, because servers end unused sessions by themselves.
    #[must_use]
    pub fn end_sessions(&mut self) -> Option<Command> {
        self.begin_timeless_entry(Kind::EndSessions, |_| Ok(()));
        let command = self.next_end_of_sessions();
        self.end_entry(|digest| digest.found_command(command.as_ref()));
        command
    }

    fn next_end_of_sessions(&mut self) -> Option<Command> {
        let ids = self.attempts.sessions.drain(END_SESSIONS_BATCH);
        let mut servers = self.topology.description().servers.values();
        let is_closed = self.life.is_closed();
        if ids.is_empty() || is_closed || !servers.any(|s| s.server_type.is_available()) {
            return None;
        }
        let mut command = Command::new("endSessions", "admin", CommandKind::Run);
        let mut array = bson::RawArrayBuf::new();
        for id in ids {
            let bytes = id.to_vec();
            let id = bson::Binary {
                subtype: bson::spec::BinarySubtype::Uuid,
                bytes,
            };
            array.push(bson::rawdoc! { "id": id });
        }
        command.body().array("endSessions", &array);
        command.set_session(SessionUse::None);
        let anywhere = ReadPreference::new(ReadMode::PrimaryPreferred);
        command.set_read_preference(Arc::new(anywhere));
        Some(command)
    }
}
