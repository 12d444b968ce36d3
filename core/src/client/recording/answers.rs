//! The answers of the application and of its environment in a recording: those to the questions of
//! the client and of programs, and the choices of server selectors.

use super::{
    bytes::{Bytes, Unread, put_bytes, put_duration, put_number},
    errors::{error, put_error},
};
use crate::{
    auth::replayed_keys,
    client::{Answer, Finding, QuestionId},
    description::TopologyDescription,
    dns::{DnsAnswer, DnsData},
    error::Error,
    operation::OperationId,
    selection::SelectorAnswer,
};

/// The numbers of the kinds of answers in a recording.
const NONE: u8 = 0;
const RECORDS: u8 = 1;
const NO_RECORDS: u8 = 2;
const KEYS: u8 = 3;
const FOUND: u8 = 4;
const NOT_FOUND: u8 = 5;

/// The numbers of the kinds of DNS records in a recording.
const SERVICE: u8 = 1;
const TEXT: u8 = 2;

/// The choice of a server selector, without the names of the servers.
#[derive(Debug)]
pub(super) struct Choice<'a> {
    /// The version of the topology description that the selector was asked about.
    version: u64,
    /// A bit for each server of the topology, in their order, which is 1 for an accepted server;
    /// `None` if the selector panicked.
    accepted: Option<&'a [u8]>,
}

/// Writes the answer to a question. `is_for_client` is true if the client itself asked, for example
/// for a connection. Fails with the name of an answer that a recording cannot keep.
pub(in crate::client) fn put_answer(
    out: &mut Vec<u8>,
    question: QuestionId,
    answer: &Answer,
    is_for_client: bool,
) -> Result<(), &'static str> {
    put_number(out, question.0);
    match answer {
        Answer::None => out.push(NONE),
        Answer::Records(Ok(found)) => {
            out.push(RECORDS);
            put_records(out, found);
        }
        Answer::Records(Err(reason)) => {
            out.push(NO_RECORDS);
            put_error(out, reason)?;
        }
        // The keys are secret, and decide nothing.
        Answer::Keys(_) => out.push(KEYS),
        // A program reads the content, and is not replayed.
        Answer::Found(Ok(_)) if !is_for_client => out.push(FOUND),
        Answer::Found(Err(_)) if !is_for_client => out.push(NOT_FOUND),
        Answer::KerberosStep(_) | Answer::Found(_) => {
            return Err("the answer to a question");
        }
    }
    Ok(())
}

/// Reads a question and its answer, which [`put_answer`] has written.
pub(super) fn answer(input: &mut Bytes<'_>) -> Result<(QuestionId, Answer), Unread> {
    let id = QuestionId(input.number("the id of a question")?);
    let what = "the answer to a question";
    let answer = match input.byte(what)? {
        NONE => Answer::None,
        RECORDS => Answer::Records(Ok(records(input)?)),
        NO_RECORDS => Answer::Records(Err(error(input)?)),
        KEYS => Answer::Keys(replayed_keys()),
        FOUND => Answer::Found(Ok(Finding::Environment(Vec::new()))),
        NOT_FOUND => Answer::Found(Err(String::new())),
        _ => return Err(Unread::Damaged(what)),
    };
    Ok((id, answer))
}

/// Writes the records of a lookup, without addresses, which the answers for seed lists do not use.
fn put_records(out: &mut Vec<u8>, found: &DnsAnswer) {
    put_duration(out, found.ttl);
    for record in &found.records {
        match record {
            DnsData::Address(_) => {}
            DnsData::Service { host, port } => {
                out.push(SERVICE);
                put_bytes(out, host.as_bytes());
                put_number(out, (*port).into());
            }
            DnsData::Text(text) => {
                out.push(TEXT);
                put_bytes(out, text.as_bytes());
            }
        }
    }
    out.push(NONE);
}

fn records(input: &mut Bytes<'_>) -> Result<DnsAnswer, Unread> {
    let what = "a DNS record";
    let ttl = input.duration()?;
    let mut records = Vec::new();
    loop {
        records.push(match input.byte(what)? {
            NONE => return Ok(DnsAnswer { records, ttl }),
            SERVICE => DnsData::Service {
                host: input.text(what)?.to_owned(),
                port: u16::try_from(input.number(what)?).map_err(|_| Unread::Damaged(what))?,
            },
            TEXT => DnsData::Text(input.text(what)?.to_owned()),
            _ => return Err(Unread::Damaged(what)),
        });
    }
}

/// Writes the choice of a server selector for an operation. Servers that are no longer in the
/// topology are left out, because they cannot be selected.
pub(in crate::client) fn put_choice(
    out: &mut Vec<u8>,
    operation: OperationId,
    answer: &SelectorAnswer,
    topology: &TopologyDescription,
) -> Result<(), &'static str> {
    put_number(out, operation.0);
    put_number(out, answer.version());
    let Ok(addresses) = answer.addresses() else {
        out.push(0);
        return Ok(());
    };
    out.push(1);
    let mut bits = vec![0_u8; topology.servers.len().div_ceil(8)];
    for (place, address) in topology.servers.keys().enumerate() {
        if addresses.binary_search(address).is_ok() {
            bits[place / 8] |= 1 << (place % 8);
        }
    }
    put_bytes(out, &bits);
    Ok(())
}

/// Reads an operation and the choice for it, which [`put_choice`] has written.
pub(super) fn choice<'a>(input: &mut Bytes<'a>) -> Result<(OperationId, Choice<'a>), Unread> {
    let what = "the choice of a server selector";
    let operation = input.operation()?;
    let version = input.number(what)?;
    let accepted = match input.byte(what)? {
        0 => None,
        1 => Some(input.bytes(what)?),
        _ => return Err(Unread::Damaged(what)),
    };
    Ok((operation, Choice { version, accepted }))
}

impl Choice<'_> {
    /// Returns the answer of the selector, for a client with this topology.
    pub(super) fn answer(&self, topology: &TopologyDescription) -> SelectorAnswer {
        let addresses = match self.accepted {
            None => Err(Error::argument(
                "the application's server selector panicked",
            )),
            Some(bits) => {
                let is_accepted = |place: usize| {
                    bits.get(place / 8)
                        .is_some_and(|byte| byte & (1 << (place % 8)) != 0)
                };
                let servers = topology.servers.keys().enumerate();
                let accepted = servers.filter(|(place, _)| is_accepted(*place));
                Ok(accepted.map(|(_, address)| address.clone()).collect())
            }
        };
        SelectorAnswer::new(self.version, addresses)
    }

    /// Returns the choice in words.
    pub(super) fn describe(&self) -> String {
        match self.accepted {
            None => "panicked".to_owned(),
            Some(bits) => {
                let count: u32 = bits.iter().map(|byte| byte.count_ones()).sum();
                format!("accepts {count} servers")
            }
        }
    }
}
