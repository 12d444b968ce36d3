//! A deployment with a virtual clock and with connections of clients, for tests.

use crate::deployment::{
    Action, ConnId, Deployment, DeploymentOptions, MemberEvent, MemberState, ServerVersion,
};
use bson::{Document, RawDocumentBuf};
use onionskin_core::{
    address::Address,
    random::Seed,
    time::Instant,
    unstable::wire::{FrameDecoder, Message, MessageWriter},
};
use std::{collections::BTreeMap, time::Duration};

/// The largest number of steps of one [`World::run_for`]. More steps mean that the deployment never
/// becomes idle.
const MAX_STEPS: usize = 1_000_000;

pub(super) struct World {
    pub(super) deployment: Deployment,
    pub(super) now: Instant,
    pub(super) events: Vec<(Instant, MemberEvent)>,
    pub(super) closed: Vec<ConnId>,
    /// All bytes that the members sent to clients, to compare runs.
    pub(super) sent: Vec<(ConnId, Vec<u8>)>,
    replies: BTreeMap<ConnId, FrameDecoder>,
    connections: u64,
    requests: i32,
}

pub(super) fn set_of(members: usize) -> DeploymentOptions {
    let addresses = (0..members).map(|i| Address::tcp(&format!("m{i}"), 27017));
    let mut options = DeploymentOptions::replica_set("rs0", addresses.collect());
    options.network.min_latency = Duration::from_millis(1);
    options.network.max_latency = Duration::from_millis(20);
    options
}

/// Makes a world of a standalone, and a connection to it.
pub(super) fn standalone() -> (World, ConnId) {
    let mut world = World::new(DeploymentOptions::standalone(Address::tcp("m0", 27017)), 1);
    let conn = world.connect(0);
    (world, conn)
}

/// Makes a world of a standalone of a release, and a connection to it.
pub(super) fn of_release(release: [u16; 3]) -> (World, ConnId) {
    let mut options = DeploymentOptions::standalone(Address::tcp("m0", 27019));
    options.version = ServerVersion {
        release,
        ..options.version
    };
    let mut world = World::new(options, 1);
    let conn = world.connect(0);
    (world, conn)
}

/// Sends a command, by default to the database `d`, and returns its reply.
pub(super) fn send(world: &mut World, conn: ConnId, mut command: Document) -> Document {
    if !command.contains_key("$db") {
        command.insert("$db", "d");
    }
    world.send_command(conn, &command).expect("a reply")
}

/// Makes a world of three members with a primary, and a connection to it.
pub(super) fn with_primary() -> (World, usize, ConnId) {
    let mut world = World::new(set_of(3), 1);
    let (primary, _) = world
        .until_primary(Duration::from_secs(60))
        .expect("a primary");
    let conn = world.connect(primary);
    (world, primary, conn)
}

impl World {
    pub(super) fn new(options: DeploymentOptions, seed: u8) -> Self {
        let deployment = Deployment::new(options, &Seed::new([seed; 32])).expect("valid options");
        let mut world = Self {
            deployment,
            now: Instant::ZERO,
            events: Vec::new(),
            closed: Vec::new(),
            sent: Vec::new(),
            replies: BTreeMap::new(),
            connections: 0,
            requests: 0,
        };
        world.drain();
        world
    }

    pub(super) fn connect(&mut self, member: usize) -> ConnId {
        let conn = self.next_connection();
        self.deployment.handle_connected(self.now, conn, member);
        self.drain();
        conn
    }

    /// Connects through the load balancer. Returns the chosen member and the connection.
    pub(super) fn connect_balanced(&mut self) -> Option<(usize, ConnId)> {
        let member = self.deployment.balance()?;
        let conn = self.next_connection();
        self.deployment.handle_forwarded(self.now, conn, member);
        self.drain();
        Some((member, conn))
    }

    fn next_connection(&mut self) -> ConnId {
        self.connections += 1;
        let conn = ConnId(self.connections);
        self.replies.insert(conn, FrameDecoder::new());
        conn
    }

    pub(super) fn send(&mut self, conn: ConnId, command: &Document) -> i32 {
        self.requests += 1;
        let raw = RawDocumentBuf::try_from(command).expect("a command");
        let mut bytes = Vec::new();
        MessageWriter::begin(&mut bytes, self.requests, 0)
            .body(&raw)
            .end();
        self.send_bytes(conn, &bytes);
        self.requests
    }

    pub(super) fn send_bytes(&mut self, conn: ConnId, bytes: &[u8]) {
        self.deployment.handle_received(self.now, conn, bytes);
        self.drain();
    }

    /// Returns the next reply that has arrived: `responseTo`, whether more replies follow, and the
    /// document.
    pub(super) fn reply(&mut self, conn: ConnId) -> Option<(i32, bool, Document)> {
        let decoder = self.replies.get_mut(&conn)?;
        let (header, frame) = decoder.frame().expect("a valid frame")?;
        let message = Message::decode(frame).expect("a valid message");
        let more = message
            .flags
            .contains(onionskin_core::unstable::wire::Flags::MORE_TO_COME);
        let document = Document::try_from(message.body).expect("valid BSON");
        let reply = (header.response_to, more, document);
        decoder.consume(header.length);
        Some(reply)
    }

    /// Sends a command and waits for its reply. Returns `None` if the connection is closed or a
    /// minute passes.
    pub(super) fn send_command(&mut self, conn: ConnId, command: &Document) -> Option<Document> {
        self.send(conn, command);
        let limit = self.now + Duration::from_secs(60);
        loop {
            if let Some((_, _, reply)) = self.reply(conn) {
                return Some(reply);
            }
            if let Some(job) = self.deployment.poll_short_job() {
                self.deployment.handle_job_done(self.now, job.run());
                self.drain();
            } else if self.deployment.has_parts() {
                self.deployment.run_part(self.now);
                self.drain();
            } else if self.closed.contains(&conn) || !self.step(limit) {
                return None;
            }
        }
    }

    pub(super) fn run_for(&mut self, duration: Duration) {
        let end = self.now + duration;
        let mut steps = 0;
        while self.step(end) {
            steps += 1;
            assert!(steps < MAX_STEPS, "the machine never rests");
        }
        self.now = end;
    }

    /// Runs until there is a primary and no running member has a newer term. Returns the primary
    /// and the time that this took, or `None` after `limit`.
    pub(super) fn until_primary(&mut self, limit: Duration) -> Option<(usize, Duration)> {
        let (start, end) = (self.now, self.now + limit);
        loop {
            if let Some(primary) = self.deployment.primary()
                && !self.is_stale(primary)
            {
                return Some((primary, self.now - start));
            }
            if !self.step(end) {
                return None;
            }
        }
    }

    pub(super) fn drain(&mut self) {
        while let Some((conn, bytes)) = self.deployment.poll_transmit() {
            if let Some(decoder) = self.replies.get_mut(&conn) {
                decoder.extend(&bytes);
            }
            self.sent.push((conn, bytes));
        }
        while let Some(action) = self.deployment.poll_action() {
            match action {
                Action::Close(conn) => self.closed.push(conn),
                Action::Report(event) => self.events.push((self.now, event)),
                Action::Listen(_) | Action::StopListening(_) => {}
            }
        }
    }

    /// True if a running member has a newer term than this primary.
    fn is_stale(&self, primary: usize) -> bool {
        let term = self.deployment.term(primary);
        (0..self.deployment.members()).any(|m| {
            self.deployment.state(m) != Some(MemberState::Down) && self.deployment.term(m) > term
        })
    }

    fn step(&mut self, end: Instant) -> bool {
        let Some(at) = self.deployment.deadline().filter(|&at| at <= end) else {
            self.now = self.now.max(end);
            return false;
        };
        self.now = self.now.max(at);
        self.deployment.handle_timeout(self.now);
        self.drain();
        let next = self.deployment.deadline();
        assert!(
            next.is_none_or(|next| next > self.now),
            "a timer that fired is cleared or moved on"
        );
        true
    }
}
