//! The answer of a server to a hello, read once: by the connection on which it arrived.

use super::HelloReply;
use crate::error::CommandError;
use bson::RawDocumentBuf;
use std::sync::Arc;

/// A reply to a hello.
#[derive(Clone, Debug)]
pub struct HelloAnswer {
    /// The fields of the reply that the driver uses.
    pub hello: HelloReply,
    /// The error of a reply without `ok: 1`; `None` for other replies.
    pub fault: Option<Box<CommandError>>,
    /// The whole reply, which events show.
    pub document: Arc<RawDocumentBuf>,
}

impl HelloAnswer {
    /// Reads a reply. This never fails, as [`HelloReply::parse`].
    #[must_use]
    pub fn new(document: RawDocumentBuf) -> Self {
        let hello = HelloReply::parse(&document);
        let fault = (!hello.ok).then(|| Box::new(CommandError::from_reply(&document)));
        Self {
            hello,
            fault,
            document: Arc::new(document),
        }
    }
}
