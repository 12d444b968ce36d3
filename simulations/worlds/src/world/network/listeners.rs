//! Listeners at virtual addresses, for servers that are not members of the deployment.
//!
//! Messages on a listener's connections have the same latency and faults as messages to and from
//! members. A test decides what the listener sends, for example replies that no member sends.

use super::{Incoming, LinkId, Network, Parcel, Towards, link::Link};
use crate::world::trace::Trace;
use onionskin_core::{address::Address, time::Instant};

/// The id of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId(pub u64);

/// An event at the server's end of a listener's connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenerEvent {
    /// A client has connected to this listener.
    Opened(ListenerId),
    /// Bytes arrived.
    Bytes(Vec<u8>),
    /// The client has closed the connection, or the connection broke.
    Closed,
}

impl Network {
    /// Accepts connections to an address from now on. Returns `None` if the address is in use.
    pub fn listen(&mut self, address: &Address) -> Option<ListenerId> {
        let is_taken = self.listeners.contains_key(address)
            || self.addresses.contains(address)
            || self.services_at(address).is_some()
            || self.proxy.as_ref().is_some_and(|p| p.address == *address);
        if is_taken {
            return None;
        }
        let id = ListenerId(self.next_listener);
        self.next_listener += 1;
        self.listeners.insert(address.clone(), id);
        Some(id)
    }

    /// Refuses connections from now on. Existing connections continue.
    pub fn stop_listening(&mut self, id: ListenerId) {
        self.listeners.retain(|_, other| *other != id);
    }

    /// Sends bytes from a listener to the client.
    pub fn answer(&mut self, now: Instant, id: LinkId, bytes: &[u8], trace: &mut Trace) {
        trace.note(now, format_args!("link {} is answered", id.0));
        self.transfer(now, id, Towards::Client, bytes, trace);
    }

    /// Closes the direction from a listener to the client. The other direction stays open.
    pub fn finish(&mut self, now: Instant, id: LinkId) {
        self.post(now, id, Towards::Client, Parcel::Answer(Incoming::Closed));
    }

    /// Closes or resets a connection for its listener.
    pub fn hang_up(&mut self, now: Instant, id: LinkId, end: Incoming) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        if std::mem::take(&mut link.has_server) {
            self.post(now, id, Towards::Client, Parcel::Answer(end));
        }
        self.forget_if_unused(id);
    }

    /// True for a connection to a listener.
    #[must_use]
    pub fn is_to_listener(&self, id: LinkId) -> bool {
        self.links.get(&id).is_some_and(|l| l.listener.is_some())
    }

    /// Returns the next event for a listener, and its connection.
    #[must_use]
    pub fn poll_listener_event(&mut self) -> Option<(LinkId, ListenerEvent)> {
        self.listener_events.pop_front()
    }

    /// Starts to connect to a listener.
    pub(super) fn knock(&mut self, now: Instant, id: LinkId, client: usize, at: ListenerId) {
        let mut link = Link::new(client, usize::MAX);
        link.listener = Some(at);
        self.links.insert(id, link);
        self.post(now, id, Towards::Member, Parcel::Attempt);
    }

    /// Delivers a parcel to a listener.
    pub(super) fn deliver_to(&mut self, now: Instant, id: LinkId, at: ListenerId, parcel: Parcel) {
        let is_open = self.listeners.values().any(|other| *other == at);
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        let answer = match parcel {
            Parcel::Attempt if is_open => {
                link.has_server = true;
                self.listener_events
                    .push_back((id, ListenerEvent::Opened(at)));
                Incoming::Connected
            }
            Parcel::Attempt => Incoming::Refused,
            Parcel::Request(bytes) if link.has_server => {
                return self
                    .listener_events
                    .push_back((id, ListenerEvent::Bytes(bytes)));
            }
            Parcel::Request(_) => Incoming::Reset,
            Parcel::Hangup => {
                if std::mem::take(&mut link.has_server) {
                    self.listener_events.push_back((id, ListenerEvent::Closed));
                }
                return;
            }
            Parcel::Answer(_) | Parcel::Read => return,
        };
        self.post(now, id, Towards::Client, Parcel::Answer(answer));
    }
}
