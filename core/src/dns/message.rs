//! DNS messages: the encoding of queries, and the checks of replies (RFC 1035 section 4).

use super::{DnsAnswer, DnsData, RecordKind};
use hickory_proto::{
    op::{Edns, Header, Message, MessageType, OpCode, Query, ResponseCode},
    rr::{DNSClass, Name, RData, Record, RecordType},
    serialize::binary::{BinDecodable, BinDecoder},
};
use std::{collections::BTreeMap, time::Duration};

/// The largest reply in bytes that name servers are asked to send in one datagram: 1232, which fits
/// into one packet of any network (RFC 9715 section 3).
pub const MAX_DATAGRAM_BYTES: u16 = 1232;

/// The maximum number of records of a reply. Names can be compressed, so many records can cost more
/// than their bytes.
const MAX_RECORDS: usize = 1024;

/// A reply to a query.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// The message is not the reply to this query.
    Foreign,
    /// The reply did not fit into a datagram.
    Truncated,
    /// The wanted records.
    Records(DnsAnswer),
    /// The name is an alias of another name, and the reply has no record of that name. The duration
    /// is the smallest time to live of the aliases.
    Alias(Name, Duration),
    /// The name does not exist. The duration is the time for which this may be remembered.
    NoSuchName(Duration),
    /// The name exists and has no record of the wanted type. The duration is the time for which
    /// this may be remembered.
    NoRecords(Duration),
    /// The server does not understand the query, possibly because of its EDNS options.
    NotUnderstood(ResponseCode),
    /// The server cannot or does not want to answer.
    Refused(ResponseCode),
    /// The reply violates the protocol.
    Malformed(String),
}

const fn record_type(kind: RecordKind) -> RecordType {
    match kind {
        RecordKind::A => RecordType::A,
        RecordKind::Aaaa => RecordType::AAAA,
        RecordKind::Srv => RecordType::SRV,
        RecordKind::Txt => RecordType::TXT,
    }
}

/// Returns the bytes of a recursive query. `has_edns` says whether the query announces that replies
/// may have up to [`MAX_DATAGRAM_BYTES`] (RFC 6891).
pub(super) fn encode(id: u16, name: &Name, kind: RecordKind, has_edns: bool) -> Vec<u8> {
    let mut message = Message::new(id, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(name.clone(), record_type(kind)));
    if has_edns {
        let mut edns = Edns::new();
        edns.set_max_payload(MAX_DATAGRAM_BYTES);
        message.set_edns(edns);
    }
    message
        .to_vec()
        .expect("a query with one name has few bytes")
}

/// Reads a message that arrived after the query with this id.
pub(super) fn decode(bytes: &[u8], id: u16, name: &Name, kind: RecordKind) -> Reply {
    // The id is compared first, so that a forged reply costs little.
    if bytes.get(..2) != Some(&id.to_be_bytes()) {
        return Reply::Foreign;
    }
    let mut decoder = BinDecoder::new(bytes);
    let Ok(header) = Header::read(&mut decoder) else {
        return Reply::Foreign;
    };
    let metadata = header.metadata;
    if metadata.message_type != MessageType::Response || metadata.op_code != OpCode::Query {
        return Reply::Foreign;
    }
    let is_error = metadata.response_code != ResponseCode::NoError;
    match Message::read_queries(&mut decoder, usize::from(header.counts.queries.min(2))) {
        Ok(queries) if is_same(&queries, name, kind) => {}
        // A server that cannot read the query may leave the question out.
        Ok(queries) if queries.is_empty() && is_error => {}
        _ => return Reply::Foreign,
    }
    if metadata.truncation {
        return Reply::Truncated;
    }
    let counts = header.counts;
    let records = [counts.answers, counts.authorities, counts.additionals];
    if records.into_iter().map(usize::from).sum::<usize>() > MAX_RECORDS {
        return Reply::Malformed(format!("it has more than {MAX_RECORDS} records"));
    }
    let message = match Message::from_vec(bytes) {
        Ok(message) => message,
        Err(_) if is_error => return refusal(metadata.response_code),
        Err(error) => return Reply::Malformed(error.to_string()),
    };
    match message.metadata.response_code {
        ResponseCode::NoError => answer(&message, name, kind),
        ResponseCode::NXDomain => Reply::NoSuchName(negative_ttl(&message)),
        code => refusal(code),
    }
}

fn is_same(queries: &[Query], name: &Name, kind: RecordKind) -> bool {
    matches!(queries, [query] if query.name() == name
        && query.query_type() == record_type(kind)
        && query.query_class() == DNSClass::IN)
}

fn refusal(code: ResponseCode) -> Reply {
    match code {
        ResponseCode::FormErr | ResponseCode::NotImp | ResponseCode::BADVERS => {
            Reply::NotUnderstood(code)
        }
        code => Reply::Refused(code),
    }
}

/// Returns the records of the answer section for this name, or for the name that it is an alias of.
fn answer(message: &Message, name: &Name, kind: RecordKind) -> Reply {
    let mut aliases: BTreeMap<&Name, (&Name, u32)> = BTreeMap::new();
    let mut found: BTreeMap<&Name, Vec<&Record>> = BTreeMap::new();
    let ours = |record: &&Record| record.dns_class == DNSClass::IN;
    for record in message.answers.iter().filter(ours) {
        if let RData::CNAME(target) = &record.data {
            aliases.insert(&record.name, (&target.0, record.ttl));
        } else if record.record_type() == record_type(kind) {
            found.entry(&record.name).or_default().push(record);
        }
    }
    let (mut current, mut ttl) = (name, u32::MAX);
    // Each alias is followed once, so a loop of aliases ends.
    while let Some((target, limit)) = aliases.remove(current) {
        (current, ttl) = (target, ttl.min(limit));
    }
    let Some(records) = found.get(current) else {
        return match (current == name, ttl < u32::MAX) {
            (true, true) => Reply::Malformed("its aliases form a loop".to_owned()),
            (true, false) if is_referral(message) => Reply::Refused(ResponseCode::Refused),
            (true, false) => Reply::NoRecords(negative_ttl(message)),
            (false, _) => Reply::Alias(current.clone(), seconds(ttl)),
        };
    };
    let mut data = Vec::with_capacity(records.len());
    for record in records {
        ttl = ttl.min(record.ttl);
        match content(&record.data) {
            Ok(content) => data.push(content),
            Err(message) => return Reply::Malformed(message),
        }
    }
    Reply::Records(DnsAnswer {
        records: data,
        ttl: Some(seconds(ttl)),
    })
}

/// True if the reply names other name servers instead of an answer (RFC 2308 section 2.2). A name
/// server that does no recursion replies so.
fn is_referral(message: &Message) -> bool {
    let has = |kind| {
        message
            .authorities
            .iter()
            .any(|record| record.record_type() == kind)
    };
    !message.metadata.authoritative && has(RecordType::NS) && !has(RecordType::SOA)
}

fn content(data: &RData) -> Result<DnsData, String> {
    match data {
        RData::A(address) => Ok(DnsData::Address(address.0.into())),
        RData::AAAA(address) => Ok(DnsData::Address(address.0.into())),
        RData::SRV(service) => Ok(DnsData::Service {
            host: host_name(&service.target),
            port: service.port,
        }),
        RData::TXT(text) => {
            let bytes = text.txt_data.concat();
            Ok(DnsData::Text(String::from_utf8_lossy(&bytes).into_owned()))
        }
        _ => Err("the data of a record does not fit its type".to_owned()),
    }
}

/// Returns the text of a name without the dot of the root at its end; `.` for the root itself,
/// which means that there is no such service (RFC 2782). Bytes that no host name has are escaped
/// with backslashes.
fn host_name(name: &Name) -> String {
    let mut text = name.to_ascii().to_ascii_lowercase();
    if text.len() > 1 && text.ends_with('.') {
        text.pop();
    }
    text
}

/// Returns how long the absence of a record may be remembered: the time in the SOA record of the
/// reply (RFC 2308 section 5), zero without one.
fn negative_ttl(message: &Message) -> Duration {
    let soa = message
        .authorities
        .iter()
        .find_map(|record| match &record.data {
            RData::SOA(soa) => Some(record.ttl.min(soa.minimum)),
            _ => None,
        });
    seconds(soa.unwrap_or(0))
}

/// Returns a time to live. Values of 2^31 and above count as zero (RFC 2181 section 8).
fn seconds(ttl: u32) -> Duration {
    Duration::from_secs(if ttl > i32::MAX as u32 { 0 } else { ttl.into() })
}
