//! The faults of connections, and the effects of disasters.

use super::{Incoming, LinkId, Network, Parcel, Towards};
use crate::world::{options::Rates, picture::MarkKind, plan::Disaster, trace::Trace};
use onionskin_core::time::Instant;
use std::{fmt, time::Duration};

/// The divisor for the largest piece of a slow message. The largest piece has the size of the
/// message divided by this number, and at least 3 bytes.
const MAX_PIECES: usize = 48;

/// The limit below which the delay of a stalled direction is drawn, in milliseconds.
const MAX_STALL_MILLIS: u64 = 15_000;

/// The number of bytes at the beginning of a reply that may be corrupted. These are the header, the
/// flags, the kind of the section and the length of the document. A driver cannot notice a fault in
/// later bytes, because replies have no checksum.
const CORRUPTIBLE_BYTES: usize = 25;

impl Network {
    /// Sends bytes, with the faults that are drawn for them.
    pub(super) fn transfer(
        &mut self,
        now: Instant,
        id: LinkId,
        towards: Towards,
        bytes: &[u8],
        trace: &mut Trace,
    ) {
        let Rates {
            reset,
            half_open,
            stall,
            slow,
            truncate,
            corrupt,
            ..
        } = self.rates;
        if self.is_drawn(half_open) {
            self.note_fault(now, id, trace, format_args!("is half open"));
            if let Some(link) = self.links.get_mut(&id) {
                link.up.is_dead = true;
                link.down.is_dead = true;
            }
            return;
        }
        if self.is_drawn(stall) {
            let pause = Duration::from_millis(self.random.below(MAX_STALL_MILLIS));
            self.note_fault(now, id, trace, format_args!("stalls for {pause:?}"));
            if let Some(link) = self.links.get_mut(&id) {
                let direction = link.direction(towards);
                direction.last = direction.last.max(now + pause);
            }
        }
        if self.is_drawn(reset) {
            // In half of the cases, the message arrives before the connection breaks.
            if self.random.chance(1, 2) {
                self.post_pieces(now, id, towards, bytes);
            }
            return self.break_off(now, id, trace);
        }
        let is_reply = towards == Towards::Client;
        if is_reply && self.is_drawn(truncate) {
            let length = self.random.below(bytes.len() as u64 + 1);
            let part = &bytes[..usize::try_from(length).unwrap_or(0)];
            self.note_fault(now, id, trace, format_args!("loses the end of a reply"));
            self.post_pieces(now, id, towards, part);
            return self.break_off(now, id, trace);
        }
        if is_reply && self.is_drawn(corrupt) {
            let mut bytes = bytes.to_vec();
            let reach = bytes.len().min(CORRUPTIBLE_BYTES) * 8;
            let bit = usize::try_from(self.random.below(reach as u64)).unwrap_or(0);
            bytes[bit / 8] ^= 1 << (bit % 8);
            self.note_fault(now, id, trace, format_args!("flips bit {bit}"));
            return self.post_pieces(now, id, towards, &bytes);
        }
        if self.is_drawn(slow) {
            return self.trickle(now, id, towards, bytes);
        }
        self.post_pieces(now, id, towards, bytes);
    }

    fn post_pieces(&mut self, now: Instant, id: LinkId, towards: Towards, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.post(now, id, towards, parcel(towards, bytes));
        }
    }

    /// Sends bytes in small pieces with pauses between them.
    fn trickle(&mut self, now: Instant, id: LinkId, towards: Towards, bytes: &[u8]) {
        let most = bytes.len().div_ceil(MAX_PIECES).max(3) as u64;
        let mut at = now + self.draw_latency();
        let mut rest = bytes;
        while !rest.is_empty() {
            let length = 1 + usize::try_from(self.random.below(most)).unwrap_or(0);
            let (piece, tail) = rest.split_at(length.min(rest.len()));
            rest = tail;
            self.post_at(at, id, towards, parcel(towards, piece));
            at = at + Duration::from_micros(self.random.below(3_000));
        }
    }

    fn note_fault(&self, now: Instant, id: LinkId, trace: &mut Trace, what: fmt::Arguments<'_>) {
        let ends = match self.links.get(&id) {
            // A link to a proxy has no member yet.
            Some(link) if link.member < self.listening.len() => {
                format!(" of client {} to member {}", link.client, link.member)
            }
            Some(link) => format!(" of client {}", link.client),
            None => String::new(),
        };
        trace.mark(
            now,
            MarkKind::Fault,
            format_args!("link {}{ends} {what}", id.0),
        );
    }

    /// Breaks a connection after these bytes of its client.
    pub fn sever(&mut self, now: Instant, id: LinkId, bytes: &[u8], trace: &mut Trace) {
        self.post_pieces(now, id, Towards::Member, bytes);
        self.break_off(now, id, trace);
    }

    /// Sends a reset to the client, and the end of the connection to the member.
    fn break_off(&mut self, now: Instant, id: LinkId, trace: &mut Trace) {
        self.note_fault(now, id, trace, format_args!("breaks"));
        self.post(now, id, Towards::Client, Parcel::Answer(Incoming::Reset));
        self.post(now, id, Towards::Member, Parcel::Hangup);
    }

    /// Makes a disaster happen. [`Disaster::Freeze`] and [`Disaster::CloseClient`] have no effect
    /// on the network.
    pub fn strike(&mut self, now: Instant, disaster: &Disaster, trace: &mut Trace) {
        trace.mark(now, MarkKind::Disaster, format_args!("{disaster:?}"));
        match *disaster {
            Disaster::Kill(member) => self.deployment.kill(now, member),
            Disaster::ShutDown(member) => self.deployment.shut_down(now, member),
            Disaster::Restart(member) => self.deployment.restart(now, member),
            Disaster::Disconnect(member) => self.deployment.disconnect(now, member),
            Disaster::StepDown => {
                self.deployment.step_down(now);
            }
            Disaster::CutMembers { from, to } => self.deployment.cut(now, from, to),
            Disaster::Isolate(member) => self.deployment.partition(now, &[member]),
            Disaster::JoinMembers => self.deployment.heal(now),
            Disaster::CutClient {
                client,
                member,
                up,
                down,
            } => {
                if up {
                    self.cut(client, member, Towards::Member);
                }
                if down {
                    self.cut(client, member, Towards::Client);
                }
            }
            Disaster::JoinClients => self.join(now, trace),
            Disaster::ExpireLogins => self.deployment.require_reauthentication(),
            Disaster::Freeze { .. } | Disaster::CloseClient(_) => {}
            Disaster::Heal => self.heal(now, trace),
        }
        self.pump(now, trace);
    }

    /// Cuts a direction. Parcels in transit in that direction are lost.
    fn cut(&mut self, client: usize, member: usize, towards: Towards) {
        self.cuts.insert((client, member, towards));
        let links = &mut self.links;
        self.under_way.retain(|_, (id, parcel)| {
            let is_there = match parcel {
                Parcel::Answer(_) => towards == Towards::Client,
                _ => towards == Towards::Member,
            };
            match links.get_mut(id) {
                Some(link) if is_there && (link.client, link.member) == (client, member) => {
                    link.direction(towards).is_dead = true;
                    false
                }
                _ => true,
            }
        });
    }

    /// Removes all cuts, and breaks the connections that lost parcels.
    fn join(&mut self, now: Instant, trace: &mut Trace) {
        self.cuts.clear();
        let dead: Vec<LinkId> = self
            .links
            .iter()
            .filter(|(_, link)| link.up.is_dead || link.down.is_dead)
            .map(|(id, _)| *id)
            .collect();
        for id in dead {
            if let Some(link) = self.links.get_mut(&id) {
                link.up.is_dead = false;
                link.down.is_dead = false;
            }
            self.break_off(now, id, trace);
        }
    }

    fn heal(&mut self, now: Instant, trace: &mut Trace) {
        self.rates = Rates::default();
        self.deployment.heal(now);
        for member in 0..self.deployment.members() {
            self.deployment.restart(now, member);
        }
        self.join(now, trace);
    }
}

fn parcel(towards: Towards, bytes: &[u8]) -> Parcel {
    let bytes = bytes.to_vec();
    match towards {
        Towards::Member => Parcel::Request(bytes),
        Towards::Client => Parcel::Answer(Incoming::Bytes(bytes)),
    }
}
