//! The faults of a name server, and of the network between the name server and its clients.

use super::{Transport, Zone, zone::parsed};
use hickory_proto::{
    op::{Message, ResponseCode},
    rr::{
        RData, Record, RecordType,
        rdata::{A, CNAME, SRV, TXT},
    },
};
use onionskin_core::random::Random;
use std::{net::Ipv4Addr, time::Duration};

/// The host in all forged records. A client that accepts a forged reply knows this host.
pub const FORGED_HOST: &str = "forged.db.test";

/// The address in all forged records.
pub const FORGED_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 66, 66, 66);

/// The largest number of forged datagrams before one reply. It is larger than the number of
/// datagrams that a lookup ignores.
const MAX_FORGED: u64 = 100;

/// The limit below which the delay of a reply is drawn, in milliseconds.
const MAX_DELAY_MILLIS: u64 = 8_000;

/// The number of records of a reply that no client needs to accept.
const TOO_MANY_RECORDS: usize = 1_500;

/// The number of bytes of garbage after a message that is too large for its transport.
const EXCESS_BYTES: usize = 70_000;

/// The rates of the faults of a name server: in how many of 1000 replies each fault happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NameFaults {
    /// There is no reply, as if the query or the reply was lost.
    pub lose: u16,
    /// The reply arrives twice.
    pub duplicate: u16,
    /// The reply arrives up to 8 s later.
    pub delay: u16,
    /// Forged replies with another id arrive before the reply.
    pub forge_id: u16,
    /// A forged reply to another question arrives before the reply.
    pub forge_question: u16,
    /// A forged reply from another address arrives before the reply.
    pub forge_source: u16,
    /// The reply has the response code SERVFAIL, REFUSED, FORMERR or NOTIMP.
    pub fail: u16,
    /// The name is an alias in a loop, within one reply or across replies.
    pub alias_loop: u16,
    /// The reply is truncated, also over TCP.
    pub truncate: u16,
    /// The reply is cut off at any byte. Over TCP, the connection ends there.
    pub cut: u16,
    /// The reply has the right id and question, and then random bytes.
    pub garbage: u16,
    /// The reply is larger than its transport permits.
    pub oversize: u16,
    /// The reply has more than a thousand forged records.
    pub flood: u16,
}

impl NameFaults {
    /// Draws all rates. About half of them are 0, a quarter are low, and a quarter are high.
    pub fn drawn(random: &mut Random) -> Self {
        let mut rate = || match random.below(4) {
            0 | 1 => 0,
            2 => u16::try_from(random.below(100)).unwrap_or(0),
            _ => u16::try_from(random.below(500)).unwrap_or(0),
        };
        Self {
            lose: rate(),
            duplicate: rate(),
            delay: rate(),
            forge_id: rate(),
            forge_question: rate(),
            forge_source: rate(),
            fail: rate(),
            alias_loop: rate(),
            truncate: rate(),
            cut: rate(),
            garbage: rate(),
            oversize: rate(),
            flood: rate(),
        }
    }

    /// Returns the datagrams that arrive after a query over UDP, or the bytes of the stream over
    /// TCP.
    pub fn replies(
        &self,
        random: &mut Random,
        zone: &mut Zone,
        query: &[u8],
        transport: Transport,
    ) -> Vec<Sent> {
        let Some(honest) = zone.message(query, transport) else {
            return Vec::new();
        };
        let mut sent = Vec::new();
        if transport == Transport::Udp {
            self.forge(random, &honest, &mut sent);
        }
        let mut is_drawn = |rate: u16| random.chance(rate.into(), 1000);
        if is_drawn(self.lose) {
            return sent;
        }
        let (is_late, is_double) = (is_drawn(self.delay), is_drawn(self.duplicate));
        let mut reply = Sent::new(self.reply(random, honest, transport));
        if is_late {
            reply.after = Duration::from_millis(random.below(MAX_DELAY_MILLIS));
        }
        if transport == Transport::Udp && is_double {
            sent.push(reply.clone());
        }
        sent.push(reply);
        sent
    }

    /// Adds forged datagrams, which arrive before the reply.
    fn forge(&self, random: &mut Random, honest: &Message, sent: &mut Vec<Sent>) {
        let forged = forged(honest, 1);
        if random.chance(self.forge_id.into(), 1000) {
            for _ in 0..=random.below(MAX_FORGED) {
                let mut forged = forged.clone();
                forged.metadata.id ^= 1 + (random.next_u32() as u16 & 0x7fff);
                sent.push(Sent::new(bytes_of(&forged)));
            }
        }
        if random.chance(self.forge_question.into(), 1000) {
            let mut forged = forged.clone();
            for query in &mut forged.queries {
                query.set_name(parsed(FORGED_HOST));
            }
            sent.push(Sent::new(bytes_of(&forged)));
        }
        if random.chance(self.forge_source.into(), 1000) {
            let mut forged = Sent::new(bytes_of(&forged));
            forged.is_foreign = true;
            sent.push(forged);
        }
    }

    /// Returns the bytes of the reply, with at most one fault.
    fn reply(&self, random: &mut Random, mut honest: Message, transport: Transport) -> Vec<u8> {
        let mut is_drawn = |rate: u16| random.chance(rate.into(), 1000);
        if is_drawn(self.fail) {
            let codes = [
                ResponseCode::ServFail,
                ResponseCode::Refused,
                ResponseCode::FormErr,
                ResponseCode::NotImp,
            ];
            let place = random.below(codes.len() as u64);
            honest.metadata.response_code = codes[usize::try_from(place).unwrap_or(0)];
            honest.answers.clear();
        } else if is_drawn(self.alias_loop) {
            add_aliases(random, &mut honest);
        } else if is_drawn(self.truncate) {
            honest.metadata.truncation = true;
            honest.answers.clear();
        } else if is_drawn(self.flood) {
            honest = forged(&honest, TOO_MANY_RECORDS);
        }
        let mut bytes = bytes_of(&honest);
        let mut is_drawn = |rate: u16| random.chance(rate.into(), 1000);
        if is_drawn(self.garbage) {
            honest.answers.clear();
            bytes = bytes_of(&honest);
            // The counts of the header promise records.
            bytes[7] = 1;
            let mut garbage = vec![0; usize::try_from(random.below(600)).unwrap_or(0)];
            random.fill(&mut garbage);
            bytes.extend(garbage);
        } else if is_drawn(self.oversize) {
            bytes.resize(bytes.len() + EXCESS_BYTES, 0xaa);
        }
        let is_cut = random.chance(self.cut.into(), 1000);
        bytes = framed(bytes, transport);
        if is_cut {
            let length = random.below(bytes.len() as u64);
            bytes.truncate(usize::try_from(length).unwrap_or(0));
        }
        bytes
    }
}

/// A datagram that arrives after a query, or the bytes of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The time between the query and the departure of the bytes.
    pub after: Duration,
    /// True for a datagram from another address than that of the name server.
    pub is_foreign: bool,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl Sent {
    pub(super) const fn new(bytes: Vec<u8>) -> Self {
        Self {
            after: Duration::ZERO,
            is_foreign: false,
            bytes,
        }
    }
}

/// Returns a reply with this number of forged records of the wanted type instead of the answer.
fn forged(honest: &Message, records: usize) -> Message {
    let mut forged = honest.clone();
    forged.metadata.response_code = ResponseCode::NoError;
    forged.metadata.truncation = false;
    forged.answers.clear();
    let Some(question) = honest.queries.first() else {
        return forged;
    };
    let data = match question.query_type() {
        RecordType::SRV => RData::SRV(SRV::new(0, 0, 666, parsed(FORGED_HOST))),
        RecordType::TXT => RData::TXT(TXT::new(vec!["replicaSet=forged".to_owned()])),
        _ => RData::A(A(FORGED_ADDRESS)),
    };
    let record = Record::from_rdata(question.name().clone(), 86_400, data);
    forged.add_answers(std::iter::repeat_n(record, records));
    forged
}

/// Replaces the answer by aliases: a loop, or an alias to another name without its records.
fn add_aliases(random: &mut Random, reply: &mut Message) {
    let Some(question) = reply.queries.first() else {
        return;
    };
    let name = question.name().clone();
    let other = parsed(&format!("alias{}.db.test", random.below(1_000)));
    let is_ring = random.chance(1, 2);
    let mut alias = |from: &_, to: &_| {
        let data = RData::CNAME(CNAME(Clone::clone(to)));
        reply
            .answers
            .push(Record::from_rdata(Clone::clone(from), 60, data));
    };
    alias(&name, &other);
    if is_ring {
        alias(&other, &name);
    }
    reply
        .answers
        .retain(|record| record.record_type() == RecordType::CNAME);
    reply.metadata.response_code = ResponseCode::NoError;
}

/// Puts the length of a message before it, if the transport is TCP.
pub(super) fn framed(mut message: Vec<u8>, transport: Transport) -> Vec<u8> {
    if transport == Transport::Tcp {
        let length = u16::try_from(message.len()).unwrap_or(u16::MAX);
        message.splice(..0, length.to_be_bytes());
    }
    message
}

fn bytes_of(message: &Message) -> Vec<u8> {
    message.to_vec().expect("a reply fits into a message")
}
