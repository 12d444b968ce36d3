//! The bytes of the request of an exchange.

use super::{
    Exchange,
    documents::{LARGE_BYTES, limit_exceeded},
    request::{check_body, write_body},
};
use crate::{
    compression::is_compressible,
    connection::Established,
    error::Error,
    wire::{Flags, MessageWriter},
};
use std::borrow::Cow;

impl Exchange {
    /// Returns the next bytes to write to the socket. Empty once all were [written](Self::sent):
    /// after the head of a message, its documents can follow.
    #[must_use]
    #[inline]
    pub fn output(&self) -> &[u8] {
        let output = self.lease.transport.output();
        if output.is_empty() && self.operation.exchange.sent_apart.is_some() {
            return self.apart();
        }
        output
    }

    /// Returns the rest of the documents that follow the output of the transport.
    #[cold]
    fn apart(&self) -> &[u8] {
        let request = &self.operation.request;
        let sequence = request.sequence.as_ref();
        let documents = sequence.map(|sequence| sequence.documents(request.portion));
        let sent = self.operation.exchange.sent_apart.unwrap_or_default();
        documents
            .and_then(|documents| documents.get(sent..))
            .unwrap_or_default()
    }

    /// Records that the first `count` bytes of [`output`](Self::output) were written.
    #[inline]
    pub fn sent(&mut self, count: usize) {
        if self.operation.exchange.sent_apart.is_none() {
            self.lease.transport.sent(count);
        } else {
            self.sent_with_apart(count);
        }
        if self.output().is_empty() && !self.expects_reply() {
            self.operation.exchange.is_under_way = false;
        }
    }

    #[cold]
    fn sent_with_apart(&mut self, count: usize) {
        if !self.lease.transport.output().is_empty() {
            return self.lease.transport.sent(count);
        }
        let rest = self.apart().len();
        assert!(count <= rest, "more was sent than there was");
        let is_last = count == rest;
        let sent = &mut self.operation.exchange.sent_apart;
        *sent = sent.filter(|_| !is_last).map(|sent| sent + count);
    }

    /// Appends the request to the output of the connection. Appends nothing and fails if it exceeds
    /// a limit of the server, or if its documents are not valid BSON.
    pub(super) fn write_request(&mut self) -> Result<(), Error> {
        let request = match &mut self.operation.exchange.ping {
            Some(ping) => &mut **ping,
            None => &mut self.operation.request,
        };
        let context = &self.operation.exchange.context;
        let sent_apart = &mut self.operation.exchange.sent_apart;
        let Established {
            transport, facts, ..
        } = &mut *self.lease;
        let is_plain = transport.is_plain();
        request.check_server(facts)?;
        let flags = if request.acknowledged {
            Flags::default()
        } else {
            Flags::MORE_TO_COME
        };
        let is_compressed = transport.compressor().is_some() && is_compressible(request.name());
        let write = |buffer: &mut Vec<u8>| {
            let start = buffer.len();
            let message = MessageWriter::begin(buffer, context.request_id, 0).flags(flags);
            // The kind of the section is before the document.
            let before = message.size() + 1;
            let mut message = message.body_with(|body| write_body(body, request, context, facts));
            let size = message.size();
            let fits = check_body(size - before, facts);
            let fits = fits.and_then(|()| match &request.sequence {
                Some(sequence) => sequence
                    .choose(request.portion, size, request.elements.len(), facts)
                    .map(|portion| request.portion = Some(portion)),
                None if size > facts.max_message_size => {
                    // A message is never larger than `maxMessageSizeBytes` (MSG-4).
                    let what = "the size of a message in bytes";
                    Err(limit_exceeded(what, facts.max_message_size, size))
                }
                None => Ok(()),
            });
            if let Err(error) = fits {
                buffer.truncate(start);
                return Err(error);
            }
            if let Some(sequence) = &request.sequence {
                for (identifier, documents) in sequence.sections(request.portion) {
                    message = match &documents {
                        Cow::Borrowed(large) if is_plain && large.len() >= LARGE_BYTES => {
                            *sent_apart = Some(0);
                            message.sequence_apart(identifier, large.len())
                        }
                        documents => message.sequence(identifier, documents),
                    };
                }
            }
            message.end();
            Ok(())
        };
        if is_compressed {
            let max_bytes = facts.max_message_size;
            transport.send_compressed(max_bytes, write)
        } else {
            transport.send(write)
        }
    }
}
