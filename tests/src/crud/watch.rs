//! What a client sent, and what came of it.

use bson::{Document, Timestamp, oid::ObjectId};
use onionskin::EventListener;
use onionskin_core::{
    address::Address,
    event::{CommandEvent, EventKind, PoolEvent},
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One attempt of an operation.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The command's name.
    pub name: String,
    /// Where it went.
    pub server: Address,
    /// The pool's number of the connection.
    pub connection: u64,
    /// Which service behind a load balancer it went to.
    pub service: Option<ObjectId>,
    /// The same for all attempts of one operation.
    pub operation: u64,
    /// The wire's number of this attempt.
    pub request: i32,
    /// The command.
    pub command: Document,
    /// The reply; `None` while it is due and where the attempt failed.
    pub reply: Option<Document>,
    /// The newest cluster time in any reply before it was sent.
    pub known_time: Option<Timestamp>,
}

impl Sent {
    /// The cluster time that went along.
    pub fn cluster_time(&self) -> Option<Timestamp> {
        cluster_time(&self.command)
    }
}

/// A record of all attempts, in the order in which they were made, and of what befell the pool.
#[derive(Clone, Debug, Default)]
pub struct Watch(Arc<Mutex<Record>>);

#[derive(Debug, Default)]
struct Record {
    sent: Vec<Sent>,
    pool: Vec<PoolEvent>,
}

impl Watch {
    /// What listens for it.
    pub(crate) fn listener(&self) -> EventListener {
        let record = self.clone();
        Arc::new(move |event| match &event.kind {
            EventKind::Command(event) => record.on_command(event),
            EventKind::Pool(event) => record.lock().pool.push(event.clone()),
            _ => {}
        })
    }

    fn lock(&self) -> MutexGuard<'_, Record> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn on_command(&self, event: &CommandEvent) {
        let sent = &mut self.lock().sent;
        match event {
            CommandEvent::Started { facts, command } => {
                let times = sent.iter().filter_map(|s| cluster_time(s.reply.as_ref()?));
                let known_time = times.max();
                sent.push(Sent {
                    name: facts.name.to_string(),
                    server: facts.address.clone(),
                    connection: facts.driver_connection_id,
                    service: facts.service,
                    operation: facts.operation_id,
                    request: facts.request_id,
                    command: Document::try_from(command).expect("a command is BSON"),
                    reply: None,
                    known_time,
                });
            }
            CommandEvent::Succeeded { facts, reply, .. } => {
                let mut newest_first = sent.iter_mut().rev();
                let attempt = newest_first.find(|s| s.request == facts.request_id);
                let attempt = attempt.expect("what succeeds was started");
                attempt.reply = Some(Document::try_from(reply).expect("a reply is BSON"));
            }
            _ => {}
        }
    }

    /// Forgets everything so far.
    pub fn clear(&self) {
        *self.lock() = Record::default();
    }

    /// The attempts of all commands.
    pub fn all(&self) -> Vec<Sent> {
        self.lock().sent.clone()
    }

    /// What befell the pool.
    pub fn pool(&self) -> Vec<PoolEvent> {
        self.lock().pool.clone()
    }

    /// The attempts of one command.
    pub fn of(&self, name: &str) -> Vec<Sent> {
        let mut sent = self.all();
        sent.retain(|attempt| attempt.name == name);
        sent
    }
}

fn cluster_time(document: &Document) -> Option<Timestamp> {
    let gossip = document.get_document("$clusterTime").ok()?;
    gossip.get_timestamp("clusterTime").ok()
}
