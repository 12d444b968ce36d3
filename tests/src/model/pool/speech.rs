//! What a pool says after an input, and how far its order is fixed.

use super::service;
use bson::oid::ObjectId;
use onionskin_core::{
    address::Address,
    error::{Error, ErrorKind},
    event::{CheckOutFailure, CloseReason, PoolEvent},
    pool::Action,
};
use std::time::Duration;

/// Why a request got nothing, or an operation was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// This text, which is the specification's or the cause's.
    Text(String),
    /// The pool was never ready; the specification has no text for that.
    NeverReady,
    /// The request waits already.
    Misuse,
}

impl Why {
    /// What this error of the machine says; pool errors name their server (CMAP-141 to CMAP-143).
    pub fn of(error: &Error, address: &Address) -> Result<Self, String> {
        let text = error.kind().to_string();
        let why = match error.kind() {
            ErrorKind::InvalidArgument { .. } => return Ok(Self::Misuse),
            ErrorKind::PoolCleared { .. } if !text.contains("was cleared") => Self::NeverReady,
            ErrorKind::PoolCleared { .. }
            | ErrorKind::PoolClosed { .. }
            | ErrorKind::WaitQueueTimeout { .. }
            | ErrorKind::Interrupted { .. } => Self::Text(text),
            _ => return Ok(Self::Text(text)),
        };
        match error.server() {
            Some(server) if server == address => Ok(why),
            other => Err(format!("{error} names {other:?}")),
        }
    }
}

/// One thing that a pool says: an event (without its address) or an order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "named like the events and actions of the machine"
)]
pub enum Said {
    PoolCreated,
    PoolReady,
    PoolCleared { interrupt: bool },
    ServiceCleared(u8),
    PoolClosed,
    Created(u64),
    Ready(u64, Duration),
    Closed(u64, CloseReason),
    Started,
    Failed(CheckOutFailure, Why, Duration),
    CheckedOut(u64, Duration),
    CheckedIn(u64),
    Open(u64),
    Close(u64),
    Grant(u64, u64),
    Fail(u64, Why),
    Interrupt(u64, Why),
}

impl Said {
    /// What the machine said, with what every event must have checked: its address (CMAP-113 on)
    /// and an error where something failed.
    pub fn of(action: &Action<u64>, address: &Address) -> Result<Self, String> {
        Ok(match action {
            Action::Emit(event) => return Self::of_event(event, address),
            Action::Open(connection) => Self::Open(connection.number()),
            Action::Close(connection) => Self::Close(connection.number()),
            Action::Grant {
                request,
                connection,
                content,
            } => {
                if *content != connection.number() {
                    return Err(format!("{connection} comes with what belongs to {content}"));
                }
                Self::Grant(request.0, *content)
            }
            Action::Fail { request, error } => Self::Fail(request.0, Why::of(error, address)?),
            Action::Interrupt { connection, error } => {
                Self::Interrupt(connection.number(), Why::of(error, address)?)
            }
            other => return Err(format!("{other:?} is not known")),
        })
    }

    fn of_event(event: &PoolEvent, expected: &Address) -> Result<Self, String> {
        let (address, said) = match event {
            PoolEvent::Created { address, .. } => (address, Self::PoolCreated),
            PoolEvent::Ready { address } => (address, Self::PoolReady),
            PoolEvent::Cleared {
                address,
                service: None,
                interrupt_in_use,
            } => {
                let interrupt = *interrupt_in_use;
                (address, Self::PoolCleared { interrupt })
            }
            PoolEvent::Cleared {
                address,
                service: Some(service),
                interrupt_in_use: false,
            } => (address, Self::ServiceCleared(number(*service)?)),
            PoolEvent::Closed { address } => (address, Self::PoolClosed),
            PoolEvent::ConnectionCreated {
                address,
                connection,
            } => (address, Self::Created(*connection)),
            PoolEvent::ConnectionReady {
                address,
                connection,
                duration,
            } => (address, Self::Ready(*connection, *duration)),
            PoolEvent::ConnectionClosed {
                address,
                connection,
                reason,
                error,
            } => {
                if error.is_some() && *reason != CloseReason::Error {
                    return Err(format!("{event:?} has an error"));
                }
                (address, Self::Closed(*connection, *reason))
            }
            PoolEvent::CheckOutStarted { address } => (address, Self::Started),
            PoolEvent::CheckOutFailed {
                address,
                reason,
                error,
                duration,
            } => {
                let Some(error) = error else {
                    return Err(format!("{event:?} has no error"));
                };
                let why = Why::of(error, expected)?;
                (address, Self::Failed(*reason, why, *duration))
            }
            PoolEvent::CheckedOut {
                address,
                connection,
                duration,
            } => (address, Self::CheckedOut(*connection, *duration)),
            PoolEvent::CheckedIn {
                address,
                connection,
            } => (address, Self::CheckedIn(*connection)),
            other => return Err(format!("{other:?} is not known")),
        };
        if address != expected {
            return Err(format!("{event:?} is not of {expected}"));
        }
        Ok(said)
    }

    /// True if subscribers hear it.
    #[must_use]
    pub const fn is_event(&self) -> bool {
        !matches!(
            self,
            Self::Open(_) | Self::Close(_) | Self::Grant(..) | Self::Fail(..) | Self::Interrupt(..)
        )
    }
}

/// The number of a service of the tests.
fn number(id: ObjectId) -> Result<u8, String> {
    let number = id.bytes()[11];
    match id == service(number) {
        true => Ok(number),
        false => Err(format!("{id} is no service of these tests")),
    }
}

/// What belongs together and comes in this order.
#[derive(Clone, Debug)]
struct Phrase {
    words: Vec<Said>,
    /// The phrases of the same stage that have to come before.
    after: Vec<usize>,
}

/// All that is said after one input: stages one after the other. Where nothing is required the
/// phrases of a stage may come in any order.
#[derive(Clone, Debug, Default)]
pub struct Speech(Vec<Vec<Phrase>>);

impl Speech {
    /// Next comes this.
    pub(super) fn then(&mut self, words: impl Into<Vec<Said>>) {
        self.stage();
        self.also(words, Vec::new());
    }

    /// What follows comes after all that was said so far.
    pub(super) fn stage(&mut self) {
        self.0.push(Vec::new());
    }

    /// This belongs to the current stage; its number there.
    pub(super) fn also(&mut self, words: impl Into<Vec<Said>>, after: Vec<usize>) -> usize {
        if self.0.is_empty() {
            self.stage();
        }
        let stage = self.0.last_mut().expect("there is one");
        let words = words.into();
        stage.push(Phrase { words, after });
        stage.len() - 1
    }

    /// Without subscribers no event is said.
    pub(super) fn without_events(&mut self) {
        for phrase in self.0.iter_mut().flatten() {
            phrase.words.retain(|said| !said.is_event());
        }
    }

    /// Whether this is what was to be said, in an order that is allowed.
    pub fn agrees(&self, mut said: &[Said]) -> Result<(), String> {
        for stage in &self.0 {
            let mut heard = vec![false; stage.len()];
            while heard.contains(&false) {
                let next = (0..stage.len()).find(|&n| {
                    let phrase = &stage[n];
                    let turn = phrase.after.iter().all(|before| heard[*before]);
                    !heard[n] && turn && said.starts_with(&phrase.words)
                });
                let Some(next) = next else {
                    let missing = stage.iter().zip(&heard).filter(|(_, heard)| !**heard);
                    let missing: Vec<_> = missing.map(|(phrase, _)| &phrase.words).collect();
                    return Err(format!("the machine says {said:?}, the model {missing:?}"));
                };
                heard[next] = true;
                said = &said[stage[next].words.len()..];
            }
        }
        if said.is_empty() {
            return Ok(());
        }
        Err(format!(
            "the machine says {said:?}, of which the model knows nothing"
        ))
    }
}
