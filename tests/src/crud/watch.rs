//! A record of the commands that a client sent, and of the events of its pools.

use bson::{Document, Timestamp, oid::ObjectId};
use onionskin::event::EventListener;
use onionskin_core::{
    address::Address,
    event::{CommandEvent, EventKind, PoolEvent},
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One attempt of a command.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The command's name.
    pub name: String,
    /// The address of the server.
    pub server: Address,
    /// The id that the pool gave the connection.
    pub connection: u64,
    /// The id of the service behind a load balancer; `None` without a load balancer.
    pub service: Option<ObjectId>,
    /// The operation id, which all attempts of one operation share.
    pub operation: u64,
    /// The request id of this attempt.
    pub request: i32,
    /// The command document.
    pub command: Document,
    /// The reply; `None` before the reply arrives and if the attempt failed.
    pub reply: Option<Document>,
    /// The newest cluster time of the replies that were in the record when this attempt was sent.
    pub known_time: Option<Timestamp>,
}

impl Sent {
    /// Returns the cluster time that was sent with the command.
    pub fn cluster_time(&self) -> Option<Timestamp> {
        cluster_time(&self.command)
    }
}

/// A record of all attempts, in the order of their start, and of all pool events.
#[derive(Clone, Debug, Default)]
pub struct Watch(Arc<Mutex<Record>>);

#[derive(Debug, Default)]
struct Record {
    sent: Vec<Sent>,
    pool: Vec<PoolEvent>,
}

impl Watch {
    /// Returns the listener that writes this record.
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
            CommandEvent::Started { facts, command, .. } => {
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

    /// Removes all attempts and pool events from the record.
    pub fn clear(&self) {
        *self.lock() = Record::default();
    }

    /// Returns the attempts of all commands.
    pub fn all(&self) -> Vec<Sent> {
        self.lock().sent.clone()
    }

    /// Returns the pool events.
    pub fn pool(&self) -> Vec<PoolEvent> {
        self.lock().pool.clone()
    }

    /// Returns the attempts of the commands with this name.
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
