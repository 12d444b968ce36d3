//! Members that read requests and send replies slowly, and members without room for requests.
//!
//! The bytes that a slow member has not read are kept with their connection. Once as many bytes as
//! the window are in transit or unread, the client has no room for more. A member that is not slow
//! reads all that arrives, but no more than it has
//! [room](onionskin_deployment::deployment::Deployment::room) for. The client has no room either
//! until the member has read the rest.

use super::{Incoming, LinkId, Network, Parcel, Towards};
use crate::world::{slow_member::SlowMember, trace::Trace};
use onionskin_core::time::Instant;
use onionskin_deployment::deployment::ConnId;
use std::{ops::Range, time::Duration};

impl Network {
    /// Makes members slow from now on. Members that were slow before read what has arrived.
    pub(super) fn slow_down(&mut self, now: Instant, slow: &SlowMember, trace: &mut Trace) {
        let all = self.addresses.len();
        self.end_slowness_of(now, slow.members(all), trace);
        self.slow.begin(slow, all);
    }

    /// Makes no member slow from now on: members read what has arrived, and the rest of their
    /// replies arrives. Other faults of their connections stay.
    pub(super) fn end_slowness(&mut self, now: Instant, trace: &mut Trace) {
        self.end_slowness_of(now, 0..self.addresses.len(), trace);
    }

    fn end_slowness_of(&mut self, now: Instant, members: Range<usize>, trace: &mut Trace) {
        self.slow.end(&members);
        self.hasten(now, &members);
        let links = self.links.iter();
        let held = links.filter(|(_, link)| {
            members.contains(&link.member) && (link.awaits_room || !link.unread.is_empty())
        });
        let ids: Vec<LinkId> = held.map(|(id, _)| *id).collect();
        for id in ids {
            self.read(now, id, usize::MAX);
            self.pump(now, trace);
            self.forget_if_unused(id);
        }
    }

    /// Returns how many bytes the client of a connection can send now; `None` without a limit. The
    /// client is told by [`poll_writable`](Self::poll_writable) when there can be more room.
    pub fn room(&mut self, now: Instant, id: LinkId, trace: &mut Trace) -> Option<usize> {
        let link = self.links.get_mut(&id).filter(|link| link.has_server)?;
        if self.full.contains(&id) {
            link.awaits_room = true;
            return Some(0);
        }
        let slow = self.slow.get(link.member).filter(|slow| slow.reads)?;
        link.awaits_room = true;
        let room = slow.window.saturating_sub(link.unread.len() + link.sent);
        if room == 0 {
            self.note_fault(now, id, trace, format_args!("has no room for its client"));
        }
        Some(room)
    }

    /// Returns a connection that has room again, and its client.
    #[must_use]
    pub fn poll_writable(&mut self) -> Option<(LinkId, usize)> {
        while let Some(id) = self.writable.pop_front() {
            if let Some(link) = self.links.get(&id).filter(|link| link.has_client) {
                return Some((id, link.client));
            }
        }
        None
    }

    /// Keeps bytes that have arrived, if their member reads slowly or has no room for them. Returns
    /// false if the member gets them now.
    pub(super) fn hold_back(&mut self, now: Instant, id: LinkId, bytes: &[u8]) -> bool {
        let Some(link) = self.links.get_mut(&id) else {
            return false;
        };
        let slow = self.slow.get(link.member).filter(|slow| slow.reads);
        let (is_first, is_slow) = (link.unread.is_empty(), slow.is_some());
        let pause = slow.and_then(|slow| slow.pause);
        if is_first && !is_slow && bytes.len() <= self.deployment.room(ConnId(id.0)) {
            return false;
        }
        link.unread.extend(bytes);
        if !is_slow {
            self.full.insert(id);
        } else if is_first && let Some(pause) = pause {
            self.plan_read(now + pause.0, id);
        }
        true
    }

    /// Lets a member read what it has room for now, on a connection on which it had none. Returns
    /// false if there is no such connection.
    pub(super) fn read_on(&mut self, now: Instant) -> bool {
        let mut full = self.full.iter().copied();
        let ready = full.find(|id| self.deployment.room(ConnId(id.0)) > 0);
        let Some(id) = ready else {
            return false;
        };
        self.full.remove(&id);
        let member = self.links.get(&id).map(|link| link.member);
        let slow = member.and_then(|member| self.slow.get(member));
        match slow.is_some_and(|slow| slow.reads) {
            true => self.read_piece(now, id),
            false => self.read(now, id, usize::MAX),
        }
        self.forget_if_unused(id);
        true
    }

    /// Gives a slow member the next piece of what has arrived on a connection.
    pub(super) fn read_piece(&mut self, now: Instant, id: LinkId) {
        let member = self.links.get(&id).map(|link| link.member);
        let slow = member.and_then(|member| self.slow.get(member));
        let Some((count, pause)) = slow.and_then(|slow| Some((slow.bytes, slow.pause?))) else {
            return;
        };
        self.read(now, id, count);
        if self
            .links
            .get(&id)
            .is_some_and(|link| !link.unread.is_empty())
        {
            self.plan_read(now + pause.0, id);
        }
    }

    /// Forgets what a member has not read, because it has closed the connection.
    pub(super) fn drop_unread(&mut self, id: LinkId) {
        self.full.remove(&id);
        if let Some(link) = self.links.get_mut(&id) {
            link.unread.clear();
            link.hangs_up = false;
            if std::mem::take(&mut link.awaits_room) {
                self.writable.push_back(id);
            }
        }
    }

    /// Drops the pieces of replies that a slow member has not sent, because it has closed the
    /// connection.
    pub(super) fn drop_pieces(&mut self, now: Instant, id: LinkId) {
        let link = self.links.get_mut(&id);
        let Some(link) = link.filter(|link| link.is_dripping) else {
            return;
        };
        link.is_dripping = false;
        let mut last = now;
        self.under_way.retain(|(at, _), (other, parcel)| {
            if *other != id {
                return true;
            }
            match parcel {
                Parcel::Answer(Incoming::Bytes(_)) => return false,
                Parcel::Answer(_) => last = last.max(*at),
                _ => {}
            }
            true
        });
        let last = link.down.earliest(last, u64::MAX);
        link.down.last = link.down.last.min(last);
    }

    /// Drops such pieces of all connections of a member, because its process has ended.
    pub(super) fn drop_pieces_of(&mut self, now: Instant, member: usize) {
        let links = self.links.iter();
        let dripping = links.filter(|(_, link)| link.member == member && link.is_dripping);
        let ids: Vec<LinkId> = dripping.map(|(id, _)| *id).collect();
        for id in ids {
            self.drop_pieces(now, id);
            self.forget_if_unused(id);
        }
    }

    /// Sends a reply in pieces, if its member is slow. Returns false if the member is not.
    pub(super) fn drip(&mut self, now: Instant, id: LinkId, bytes: &[u8]) -> bool {
        let Some(link) = self.links.get_mut(&id) else {
            return false;
        };
        let slow = self.slow.get(link.member).filter(|slow| slow.writes);
        let Some((size, pause)) = slow.and_then(|slow| Some((slow.bytes, slow.pause?))) else {
            return false;
        };
        link.is_dripping = true;
        let last = link.down.last;
        let begin = (now + self.draw_latency()).max(last);
        let mut after = Duration::ZERO;
        for piece in bytes.chunks(size) {
            let parcel = Parcel::Answer(Incoming::Bytes(piece.to_vec()));
            self.post_at(begin + after, id, Towards::Client, parcel);
            after += pause.0;
        }
        true
    }

    /// Gives a member up to this number of bytes that have arrived on a connection, as far as it
    /// has room for them. The end of the connection comes after all of them.
    fn read(&mut self, now: Instant, id: LinkId, most: usize) {
        let room = self.deployment.room(ConnId(id.0));
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        let count = most.min(room).min(link.unread.len());
        let bytes: Vec<u8> = link.unread.drain(..count).collect();
        let is_over = link.unread.is_empty() && std::mem::take(&mut link.hangs_up);
        let ends = is_over && std::mem::take(&mut link.has_server);
        let is_slow = self.slow.get(link.member).is_some_and(|slow| slow.reads);
        if !is_slow && !link.unread.is_empty() {
            self.full.insert(id);
        } else if std::mem::take(&mut link.awaits_room) {
            self.writable.push_back(id);
        }
        if !bytes.is_empty() {
            self.deployment.handle_received(now, ConnId(id.0), &bytes);
        }
        if ends {
            self.deployment.handle_disconnected(now, ConnId(id.0));
        }
    }

    fn plan_read(&mut self, at: Instant, id: LinkId) {
        self.next_parcel += 1;
        self.under_way
            .insert((at, self.next_parcel), (id, Parcel::Read));
    }

    /// Lets the rest of the replies of members that were slow arrive now. Replies that a stall of
    /// their connection delays arrive at its end.
    fn hasten(&mut self, now: Instant, members: &Range<usize>) {
        for ((at, number), (id, parcel)) in std::mem::take(&mut self.under_way) {
            let link = self.links.get_mut(&id);
            let link = link.filter(|link| members.contains(&link.member));
            let at = match (link, &parcel) {
                (Some(_), Parcel::Read) => at.min(now),
                (Some(link), Parcel::Answer(_)) if link.is_dripping => {
                    let last = link.down.earliest(now, u64::MAX);
                    link.down.last = link.down.last.min(last);
                    at.min(link.down.earliest(now, number))
                }
                _ => at,
            };
            self.under_way.insert((at, number), (id, parcel));
        }
        let links = self.links.values_mut();
        for link in links.filter(|link| members.contains(&link.member)) {
            link.is_dripping = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{Disaster, Rates, Span, WorldOptions, options::world_seed, setup};
    use bson::rawdoc;
    use onionskin_core::{
        address::Address,
        unstable::wire::{FrameDecoder, MessageWriter},
    };
    use onionskin_deployment::deployment::{Deployment, DeploymentOptions};
    use std::collections::VecDeque;

    /// Returns a network around a standalone, and the connection of a client to it.
    fn network() -> (Network, LinkId) {
        let seed = world_seed(1);
        let member = Address::tcp(&setup::host(0), setup::PORT);
        let mut standalone = DeploymentOptions::standalone(member.clone());
        standalone.limits.max_message_bytes = 100_000;
        let deployment = Deployment::new(standalone, &seed).expect("a deployment");
        let options = WorldOptions::drawn(1).calm();
        let mut network = Network::new(deployment, &options, &VecDeque::new(), &seed);
        let link = network.dial(Instant::ZERO, 0, &member, &mut Trace::new(false));
        (network, link)
    }

    /// Returns a [network](network) with an open connection, and the time.
    fn connected(trace: &mut Trace) -> (Network, LinkId, Instant) {
        let (mut network, link) = network();
        let mut now = Instant::ZERO;
        while !network.links[&link].has_server {
            now = network.deadline().expect("the attempt is in transit");
            network.advance(now, trace);
        }
        (network, link, now)
    }

    #[test]
    fn a_member_without_room_reads_the_rest_later() {
        let trace = &mut Trace::new(false);
        let (mut network, link, mut now) = connected(trace);
        let mut pings = Vec::new();
        for id in 0..20 {
            let ping = rawdoc! { "ping": 1, "text": "x".repeat(60_000), "$db": "admin" };
            MessageWriter::begin(&mut pings, id, 0).body(&ping).end();
        }
        let pause = Duration::from_secs(60);
        network.operate(now, |deployment| deployment.freeze(now, 0, pause), trace);
        network.send(now, link, &pings, trace);
        while network.links[&link].sent > 0 {
            now = network.deadline().expect("the bytes are in transit");
            network.advance(now, trace);
        }
        assert!(!network.links[&link].unread.is_empty());
        assert_eq!(network.room(now, link, trace), Some(0));
        assert_eq!(network.poll_writable(), None);
        network.operate(now, |deployment| deployment.thaw(now, 0), trace);
        assert_eq!(network.poll_writable(), Some((link, 0)));
        assert_eq!(network.room(now, link, trace), None);
        let mut replies = FrameDecoder::new();
        while !network.under_way.is_empty() {
            now = network.deadline().expect("replies are in transit");
            network.advance(now, trace);
            while let Some((_, _, incoming)) = network.poll_arrival() {
                match incoming {
                    Incoming::Bytes(bytes) => replies.extend(&bytes),
                    other => assert_eq!(other, Incoming::Connected),
                }
            }
        }
        for id in 0..20 {
            let (header, _) = replies.frame().expect("a frame").expect("a whole one");
            assert_eq!(header.response_to, id);
            let length = header.length;
            replies.consume(length);
        }
    }

    #[test]
    fn bytes_in_transit_and_unread_bytes_take_room() {
        let trace = &mut Trace::new(false);
        let (mut network, link, mut now) = connected(trace);
        let nothing = SlowMember {
            writes: false,
            ..SlowMember::default()
        };
        network.slow_down(now, &nothing, trace);
        network.send(now, link, &[0; 10], trace);
        assert_eq!(network.room(now, link, trace), Some(54));
        while network.links[&link].sent > 0 {
            now = network.deadline().expect("the bytes are in transit");
            network.advance(now, trace);
        }
        assert_eq!(network.room(now, link, trace), Some(54));
        network.send(now, link, &[0; 20], trace);
        assert_eq!(network.room(now, link, trace), Some(34));
        // A cut loses the bytes in transit.
        let cut = Disaster::CutClient {
            client: 0,
            member: 0,
            up: true,
            down: false,
        };
        network.strike(now, &cut, trace);
        assert_eq!(network.room(now, link, trace), Some(54));
    }

    #[test]
    fn the_end_of_slowness_does_not_end_a_stall() {
        let (mut network, link) = network();
        let now = Instant::ZERO;
        let trace = &mut Trace::new(false);
        let slow = SlowMember {
            reads: false,
            bytes: 1,
            pause: Some(Span(Duration::from_secs(1))),
            ..SlowMember::default()
        };
        network.slow_down(now, &slow, trace);
        network.transfer(now, link, Towards::Client, b"before", trace);
        network.set_rates(Rates {
            stall: 1000,
            ..Rates::default()
        });
        network.transfer(now, link, Towards::Client, b"later", trace);
        network.set_rates(Rates::default());
        let end = network.links[&link].down.earliest(now, u64::MAX);
        assert!(end > now, "{end}");
        network.end_slowness(now, trace);
        network.transfer(now, link, Towards::Client, b"last", trace);
        let replies = network
            .under_way
            .iter()
            .filter(|(_, (_, parcel))| matches!(parcel, Parcel::Answer(_)));
        let times: Vec<Instant> = replies.map(|((at, _), _)| *at).collect();
        // Six pieces from before the stall, five after it, and a whole reply.
        let mut expected = vec![now; 6];
        expected.extend([end; 5]);
        assert_eq!(times[..11], expected);
        assert!(times.len() == 12 && times[11] >= end, "{times:?}");
    }
}
