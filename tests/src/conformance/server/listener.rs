//! Listeners for clients, and the code that answers their requests.

use super::{Request, Script, Step, state::Seen, state::State};
use bson::Document;
use onionskin_core::unstable::wire::{Header, Message, OpCode, Section, WireError};
use onionskin_deployment::legacy::LegacyQuery;
use std::{fmt, net::SocketAddr, sync::Arc};

/// Ends the accepting of connections, after the server was marked as stopped.
pub type Stop = Box<dyn Fn() + Send + Sync>;

/// A listener to which clients can connect.
///
/// Before [`serve`](Self::serve) is called, connections are accepted but get no replies.
pub trait Listener: Send {
    /// Returns the address at which clients reach the listener.
    fn address(&self) -> SocketAddr;

    /// Accepts connections and answers their requests with `responder`, in the background.
    fn serve(self: Box<Self>, responder: Responder) -> Stop;
}

/// A port that nobody else can get and that refuses connections until a listener is opened on it.
pub trait ClosedPort: Send {
    /// Returns the address at which clients are refused.
    fn address(&self) -> SocketAddr;

    /// Opens a listener on the port.
    fn open(self: Box<Self>) -> Box<dyn Listener>;
}

/// Answers requests by a script, and records them.
#[derive(Clone)]
pub struct Responder {
    pub(super) state: Arc<State>,
    pub(super) script: Script,
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Responder").finish_non_exhaustive()
    }
}

impl Responder {
    /// Records the request in a frame. Returns the steps with which the script answers the request.
    pub(super) fn answer(
        &self,
        connection: u64,
        header: Header,
        frame: &[u8],
    ) -> Result<Vec<Step>, WireError> {
        let request = self.request(connection, header, frame)?;
        self.state.note(Seen {
            connection,
            name: request.name.clone(),
            body: request.body.clone(),
        });
        Ok((self.script)(&request))
    }

    fn request(&self, connection: u64, header: Header, frame: &[u8]) -> Result<Request, WireError> {
        let mut documents = 0;
        let body = if header.op_code == OpCode::Query {
            LegacyQuery::decode(frame)?.command
        } else {
            let message = Message::decode(frame)?;
            for section in message.sections() {
                if let Section::Sequence { documents: all, .. } = section {
                    documents += count(all);
                }
            }
            message.body
        };
        let body = Document::try_from(body).unwrap_or_default();
        let name = body.keys().next().cloned().unwrap_or_default();
        Ok(Request {
            connection,
            earlier: self
                .state
                .with(|records| records.seen.get(&name).map_or(0, Vec::len)),
            name,
            body,
            documents,
            id: header.request_id,
            bytes: header.length,
            op_code: header.op_code,
        })
    }
}

/// Returns the number of documents in a document sequence.
fn count(mut documents: &[u8]) -> usize {
    let mut count = 0;
    while let Some(length) = documents.first_chunk::<4>() {
        let length = usize::try_from(i32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        documents = documents.get(length..).unwrap_or_default();
        count += 1;
    }
    count
}
