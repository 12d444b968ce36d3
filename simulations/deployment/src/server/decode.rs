//! Decodes requests from bytes.

use super::{
    compression,
    connection::Request,
    document::owned,
    fault::{Fault, fault},
    wire::UPGRADE,
};
use crate::legacy::LegacyQuery;
use bson::{Bson, Document, RawDocument, doc};
use onionskin_core::{
    options::Compressor,
    unstable::wire::{Flags, Header, Message, OpCode, Section},
};
use std::collections::BTreeSet;

/// The code of the error `IllegalOperation`.
const ILLEGAL_OPERATION: i32 = 20;

/// The content of a frame.
#[derive(Debug)]
pub(super) enum Frame {
    Request(Request),
    /// A valid message that is not a valid command. The reply is an error.
    Refused(Request, Fault),
}

/// Decodes a message. Returns `None` if the message violates the protocol.
pub(super) fn read(
    header: Header,
    frame: &[u8],
    negotiated: &[Compressor],
    limit: usize,
) -> Option<Frame> {
    match header.op_code {
        OpCode::Compressed => read_compressed(&header, frame, negotiated, limit),
        _ => read_frame(header, frame),
    }
}

/// Returns the size of a message in bytes: that after its decompression, as the message announces
/// it, if that is larger.
pub(super) fn decoded_bytes(header: &Header, frame: &[u8]) -> usize {
    let announced = match header.op_code {
        OpCode::Compressed => compression::announced_bytes(frame).unwrap_or(0),
        _ => 0,
    };
    header.length.max(announced)
}

/// Decodes a compressed message. Returns `None` if the message violates the protocol. A command
/// that must not be compressed is refused (COMP-18).
fn read_compressed(
    header: &Header,
    frame: &[u8],
    negotiated: &[Compressor],
    limit: usize,
) -> Option<Frame> {
    let (header, message, id) = compression::unpack(header, frame, negotiated, limit)?;
    let mut frame = read_frame(header, &message)?;
    let (Frame::Request(request) | Frame::Refused(request, _)) = &mut frame;
    request.compressor = Some(id);
    match frame {
        Frame::Request(request) if compression::is_forbidden(&request.name) => {
            let text = format!("{} must not be compressed", request.name);
            Some(Frame::Refused(request, fault(ILLEGAL_OPERATION, text)))
        }
        frame => Some(frame),
    }
}

/// Decodes a message. Returns `None` if the message violates the protocol or is compressed.
fn read_frame(header: Header, frame: &[u8]) -> Option<Frame> {
    match header.op_code {
        OpCode::Msg => {
            let message = Message::decode(frame).ok()?;
            Some(read_message(header, &message))
        }
        OpCode::Query => {
            let query = LegacyQuery::decode(frame).ok()?;
            let (database, rest) = query.collection.split_once('.')?;
            if rest != "$cmd" {
                let command = doc! { "find": rest };
                let request = request(header, command, Some(database), Flags::default())?;
                let text = format!("OP_QUERY is no longer supported. {UPGRADE}");
                return Some(Frame::Refused(request, fault(5_739_101, text)));
            }
            let command = owned(query.command)?;
            let request = request(header, command, Some(database), Flags::default())?;
            Some(Frame::Request(request))
        }
        OpCode::Compressed | OpCode::Reply => None,
    }
}

fn read_message(header: Header, message: &Message<'_>) -> Frame {
    let empty = |name: &str| Request {
        id: header.request_id,
        bytes: header.length,
        compressor: None,
        legacy: false,
        reply_wanted: !message.flags.contains(Flags::MORE_TO_COME),
        exhaust: false,
        name: name.to_owned(),
        database: String::new(),
        command: Document::new(),
        progress: None,
        checked: None,
    };
    let Some(mut command) = owned(message.body) else {
        return Frame::Refused(empty(""), fault(22, "malformed or too deeply nested BSON"));
    };
    if let Some(name) = duplicate(message.body, command.len()) {
        let text = format!("BSON field '{name}' is a duplicate field");
        return Frame::Refused(empty(name), fault(40413, text));
    }
    for section in message.sections() {
        let Section::Sequence {
            identifier,
            documents,
        } = section
        else {
            continue;
        };
        let Some(documents) = sequence(documents) else {
            return Frame::Refused(empty(""), fault(22, "malformed or too deeply nested BSON"));
        };
        if command.contains_key(identifier) {
            let text = format!("BSON field '{identifier}' is a duplicate field");
            return Frame::Refused(empty(""), fault(40413, text));
        }
        command.insert(identifier, documents);
    }
    request(header, command, None, message.flags).map_or_else(
        || {
            let text = "OP_MSG requests require a $db argument";
            Frame::Refused(empty(""), fault(40571, text))
        },
        Frame::Request,
    )
}

/// Returns the name of a field that a document has twice. `distinct` is the number of its names.
fn duplicate(body: &RawDocument, distinct: usize) -> Option<&str> {
    let names = || body.iter().flatten().map(|(name, _)| name.as_str());
    if names().count() == distinct {
        return None;
    }
    let mut seen = BTreeSet::new();
    names().find(|name| !seen.insert(*name))
}

fn sequence(mut bytes: &[u8]) -> Option<Vec<Bson>> {
    let mut documents = Vec::new();
    while let Some(length) = bytes.first_chunk::<4>() {
        let length = usize::try_from(i32::from_le_bytes(*length)).ok()?;
        let (document, rest) = bytes.split_at_checked(length)?;
        documents.push(Bson::Document(owned(
            RawDocument::from_bytes(document).ok()?,
        )?));
        bytes = rest;
    }
    Some(documents)
}

fn request(
    header: Header,
    command: Document,
    database: Option<&str>,
    flags: Flags,
) -> Option<Request> {
    let database = match database {
        Some(database) => database.to_owned(),
        None => command.get_str("$db").ok()?.to_owned(),
    };
    let name = command.keys().next()?.clone();
    Some(Request {
        id: header.request_id,
        bytes: header.length,
        compressor: None,
        legacy: header.op_code == OpCode::Query,
        reply_wanted: !flags.contains(Flags::MORE_TO_COME),
        exhaust: flags.contains(Flags::EXHAUST_ALLOWED),
        name,
        database,
        command,
        progress: None,
        checked: None,
    })
}
