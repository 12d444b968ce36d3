//! The authentication of a client that records itself, and of the replay of its recording.
//!
//! A recording has no replies of authentication, because passwords could be guessed from them. It
//! has the step of the conversation after each reply, as a document. In a replay the document takes
//! the place of the reply, and authentication takes the same step.

use super::{
    conversation::Step,
    hash::Hash,
    keys::{DerivedKeys, KeyDerivation, KeyName},
};
use crate::error::Error;
use bson::{RawDocument, RawDocumentBuf, rawdoc};
use zeroize::Zeroizing;

/// The highest number of keys whose names are known at once. A server can name another salt on each
/// connection.
const MAX_NAMES: usize = 256;

/// Whether the connections of a client are recorded or replayed by their messages.
#[derive(Debug, Default)]
pub(crate) enum Mode {
    /// The connections are neither recorded nor replayed by their messages.
    #[default]
    Live,
    /// The messages of the current input are kept, without secrets.
    Recorded(Kept),
    /// Authentication takes recorded steps. The error is the one with which the current input ended
    /// the recorded connection; `None` if it did not.
    Replayed(Option<Error>),
}

/// The part of an input that the recording of a client keeps.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// The messages that the connection has taken, without secrets.
    pub(crate) messages: Vec<u8>,
    /// The error that ended the connection.
    failure: Option<Error>,
    /// The step of authentication after the current message.
    step: Option<RawDocumentBuf>,
    /// The names of keys with their numbers in the recording. A name is a digest of the password,
    /// so that it is not recorded.
    names: Vec<(KeyName, i64)>,
    last_name: i64,
}

impl Kept {
    /// Takes the step of authentication after the current message. `has_failed` is true if the
    /// connection has failed since.
    pub(crate) fn take_step(&mut self, has_failed: bool) -> RawDocumentBuf {
        let step = self.step.take().filter(|_| !has_failed);
        step.unwrap_or_else(|| rawdoc! { "step": "failed" })
    }

    fn document(&mut self, step: &Step) -> RawDocumentBuf {
        match step {
            Step::Send { .. } => rawdoc! { "step": "send" },
            Step::Derive(derivation) => rawdoc! {
                "step": "derive",
                "keys": self.number(derivation.name()),
                "iterations": i64::from(derivation.iterations()),
            },
            Step::Done => rawdoc! { "step": "done" },
            // Mechanisms that fetch a part of their credential are not recorded.
            Step::Failed(_) | Step::Fetch(_) | Step::Kerberos(_) => rawdoc! { "step": "failed" },
        }
    }

    /// Returns the number that stands for this name of keys. A new name gets the next number.
    fn number(&mut self, name: KeyName) -> i64 {
        if let Some((_, number)) = self.names.iter().find(|(known, _)| *known == name) {
            return *number;
        }
        if self.names.len() == MAX_NAMES {
            self.names.remove(0);
        }
        self.last_name += 1;
        self.names.push((name, self.last_name));
        self.last_name
    }
}

impl Mode {
    /// True if the messages of connections are kept.
    pub(crate) const fn is_recorded(&self) -> bool {
        matches!(self, Self::Recorded(_))
    }

    /// Notes the step of authentication after the current message.
    pub(crate) fn note(&mut self, step: &Step) {
        if let Self::Recorded(kept) = self {
            kept.step = Some(kept.document(step));
        }
    }

    /// Notes the error that has ended the connection.
    pub(crate) fn note_failure(&mut self, error: &Error) {
        if let Self::Recorded(kept) = self {
            kept.failure = Some(error.clone());
        }
    }

    /// Takes the messages that were kept, and the error that has ended the connection.
    pub(crate) fn take_kept(&mut self) -> (Vec<u8>, Option<Error>) {
        match self {
            Self::Recorded(kept) => (std::mem::take(&mut kept.messages), kept.failure.take()),
            Self::Live | Self::Replayed(_) => (Vec::new(), None),
        }
    }

    /// Returns the step that a document of a recording has; `None` if nothing is replayed.
    pub(crate) fn recorded_step(&mut self, document: Option<&RawDocument>) -> Option<Step> {
        let Self::Replayed(failure) = self else {
            return None;
        };
        let number = |key: &str| document.and_then(|document| document.get_i64(key).ok());
        let step = document.and_then(|document| document.get_str("step").ok());
        Some(match step {
            Some("send") => send(),
            Some("derive") => {
                let iterations = number("iterations").and_then(|count| u32::try_from(count).ok());
                let keys = number("keys").unwrap_or_default();
                Step::Derive(derivation(keys, iterations.unwrap_or_default()))
            }
            Some("done") => Step::Done,
            _ => Step::Failed(failure.take().unwrap_or_else(|| {
                Error::protocol("the recording lacks a step of authentication")
            })),
        })
    }

    /// Returns the step after the keys were derived; `None` if nothing is replayed.
    pub(crate) fn step_after_keys(&self) -> Option<Step> {
        matches!(self, Self::Replayed(_)).then(send)
    }

    /// Takes the error with which the current input ended the recorded connection.
    pub(crate) fn take_failure(&mut self) -> Option<Error> {
        match self {
            Self::Replayed(failure) => failure.take(),
            Self::Live | Self::Recorded(_) => None,
        }
    }
}

/// Returns the step that sends a command. The command is not that of the recorded client.
fn send() -> Step {
    Step::Send {
        database: "admin".to_owned(),
        command: rawdoc! { "saslContinue": 1 },
    }
}

/// Returns a derivation that stands for the derivation of the keys with this number.
fn derivation(number: i64, iterations: u32) -> KeyDerivation {
    let password = Zeroizing::new(Vec::new());
    let salt = number.to_le_bytes().to_vec();
    KeyDerivation::new(Hash::Sha256, password, salt, iterations)
}

/// Returns keys that stand for the keys of a recorded client.
pub(crate) fn replayed_keys() -> DerivedKeys {
    derivation(0, 1).derive()
}
