//! The outputs of a pool after an input, and the sequences in which the rules permit them.

use super::service;
use bson::oid::ObjectId;
use onionskin_core::{
    address::Address,
    error::{Error, ErrorKind},
    event::{CheckOutFailure, CloseReason, PoolEvent},
    unstable::pool::Order,
};
use std::time::Duration;

/// The reason for the failure of a check out or for an interruption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailureReason {
    /// An error with this text, which is that of the specification or of the cause.
    Text(String),
    /// The pool was never ready. The specification has no text for this error.
    NeverReady,
    /// A second check out with the id of a request that waits.
    Misuse,
}

impl FailureReason {
    /// Returns the reason for an error of the machine. Fails if an error of the pool lacks the
    /// pool's address (CMAP-141 to CMAP-143).
    pub fn of(error: &Error, address: &Address) -> Result<Self, String> {
        let text = error.kind().to_string();
        let why = match error.kind() {
            ErrorKind::InvalidArgument { .. } => return Ok(Self::Misuse),
            ErrorKind::ConnectionPoolCleared { .. } if !text.contains("was cleared") => {
                Self::NeverReady
            }
            ErrorKind::ConnectionPoolCleared { .. }
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

/// An output of a pool: an event without its address, or an order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "named like the events and orders of the machine"
)]
pub enum Output {
    PoolCreated,
    PoolReady,
    PoolCleared { interrupt: bool },
    ServiceCleared(u8),
    PoolClosed,
    Created(u64),
    Ready(u64, Duration),
    Closed(u64, CloseReason),
    Started,
    Failed(CheckOutFailure, FailureReason, Duration),
    CheckedOut(u64, Duration),
    CheckedIn(u64),
    Open(u64),
    Close(u64),
    Grant(u64, u64),
    Fail(u64, FailureReason),
    Interrupt(u64, FailureReason),
}

impl Output {
    /// Returns the output for an order of the machine. Fails if the order contradicts itself or
    /// is not known. For example, each event must have the pool's address (CMAP-113 and following),
    /// and each failed check out must have an error.
    pub fn of(order: &Order<u64>, address: &Address) -> Result<Self, String> {
        Ok(match order {
            Order::Emit(event) => return Self::of_event(event, address),
            Order::Open(connection) => Self::Open(connection.number()),
            Order::Close(connection) => Self::Close(connection.number()),
            Order::Grant {
                request,
                connection,
                content,
            } => {
                if *content != connection.number() {
                    return Err(format!("{connection} comes with what belongs to {content}"));
                }
                Self::Grant(request.0, *content)
            }
            Order::Fail { request, error } => {
                Self::Fail(request.0, FailureReason::of(error, address)?)
            }
            Order::Interrupt { connection, error } => {
                Self::Interrupt(connection.number(), FailureReason::of(error, address)?)
            }
            other => return Err(format!("{other:?} is not known")),
        })
    }

    fn of_event(event: &PoolEvent, expected: &Address) -> Result<Self, String> {
        if event.address() != expected {
            return Err(format!("{event:?} is not of {expected}"));
        }
        Ok(match event {
            PoolEvent::Created { .. } => Self::PoolCreated,
            PoolEvent::Ready { .. } => Self::PoolReady,
            PoolEvent::Cleared {
                service: None,
                interrupt_in_use,
                ..
            } => Self::PoolCleared {
                interrupt: *interrupt_in_use,
            },
            PoolEvent::Cleared {
                service: Some(service),
                interrupt_in_use: false,
                ..
            } => Self::ServiceCleared(number(*service)?),
            PoolEvent::Closed { .. } => Self::PoolClosed,
            PoolEvent::ConnectionCreated { connection, .. } => Self::Created(*connection),
            PoolEvent::ConnectionReady {
                connection,
                duration,
                ..
            } => Self::Ready(*connection, *duration),
            PoolEvent::ConnectionClosed {
                connection,
                reason,
                error,
                ..
            } => {
                if error.is_some() && *reason != CloseReason::Error {
                    return Err(format!("{event:?} has an error"));
                }
                Self::Closed(*connection, *reason)
            }
            PoolEvent::CheckOutStarted { .. } => Self::Started,
            PoolEvent::CheckOutFailed {
                reason,
                error,
                duration,
                ..
            } => {
                let Some(error) = error else {
                    return Err(format!("{event:?} has no error"));
                };
                Self::Failed(*reason, FailureReason::of(error, expected)?, *duration)
            }
            PoolEvent::CheckedOut {
                connection,
                duration,
                ..
            } => Self::CheckedOut(*connection, *duration),
            PoolEvent::CheckedIn { connection, .. } => Self::CheckedIn(*connection),
            other => return Err(format!("{other:?} is not known")),
        })
    }

    /// True for an event, false for an order.
    #[must_use]
    pub const fn is_event(&self) -> bool {
        !matches!(
            self,
            Self::Open(_) | Self::Close(_) | Self::Grant(..) | Self::Fail(..) | Self::Interrupt(..)
        )
    }
}

/// Returns the number from which [`service`] made this id. Fails for any other id.
fn number(id: ObjectId) -> Result<u8, String> {
    let number = id.bytes()[11];
    match id == service(number) {
        true => Ok(number),
        false => Err(format!("{id} is no service of these tests")),
    }
}

/// Outputs that come one directly after the other.
#[derive(Clone, Debug)]
struct OutputGroup {
    outputs: Vec<Output>,
    /// The indices of the groups of the same stage that come before this one.
    after: Vec<usize>,
}

/// All outputs after one input, in stages that come one after the other. The groups of a stage may
/// come in every order in which each group comes after those that its `after` names.
#[derive(Clone, Debug, Default)]
pub struct Outputs(Vec<Vec<OutputGroup>>);

impl Outputs {
    /// Adds outputs in a stage of their own.
    pub(super) fn then(&mut self, outputs: impl Into<Vec<Output>>) {
        self.stage();
        self.also(outputs, Vec::new());
    }

    /// Begins a stage, which comes after all outputs so far.
    pub(super) fn stage(&mut self) {
        self.0.push(Vec::new());
    }

    /// Adds a group to the current stage. Returns its index in the stage.
    pub(super) fn also(&mut self, outputs: impl Into<Vec<Output>>, after: Vec<usize>) -> usize {
        if self.0.is_empty() {
            self.stage();
        }
        let stage = self.0.last_mut().expect("there is one");
        let outputs = outputs.into();
        stage.push(OutputGroup { outputs, after });
        stage.len() - 1
    }

    /// Removes the events, which the machine does not emit without subscribers.
    pub(super) fn without_events(&mut self) {
        for group in self.0.iter_mut().flatten() {
            group.outputs.retain(|output| !output.is_event());
        }
    }

    /// Compares outputs of the machine with these, in any permitted order.
    pub fn agrees(&self, mut outputs: &[Output]) -> Result<(), String> {
        for stage in &self.0 {
            let mut matched = vec![false; stage.len()];
            while matched.contains(&false) {
                let next = (0..stage.len()).find(|&n| {
                    let group = &stage[n];
                    let turn = group.after.iter().all(|before| matched[*before]);
                    !matched[n] && turn && outputs.starts_with(&group.outputs)
                });
                let Some(next) = next else {
                    let missing = stage.iter().zip(&matched).filter(|(_, matched)| !**matched);
                    let missing: Vec<_> = missing.map(|(group, _)| &group.outputs).collect();
                    return Err(format!(
                        "the machine gave {outputs:?}, the model expects {missing:?} next"
                    ));
                };
                matched[next] = true;
                outputs = &outputs[stage[next].outputs.len()..];
            }
        }
        if outputs.is_empty() {
            return Ok(());
        }
        Err(format!(
            "the machine gave {outputs:?}, which the model does not expect"
        ))
    }
}
