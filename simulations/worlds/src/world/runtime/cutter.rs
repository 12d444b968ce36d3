//! Connections that a test breaks at a message of its choice.

use super::SimRuntime;
use std::fmt;

/// The fate of a message at which its connection breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The message is lost.
    Lost,
    /// The message arrives, and its reply is lost.
    Arrived,
}

/// A function that chooses among the messages of all clients.
type Choice = Box<dyn FnMut(&[u8]) -> Option<Cut> + Send>;

#[derive(Default)]
pub(super) struct Cutter(Option<Choice>);

impl fmt::Debug for Cutter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cutter").field(&self.0.is_some()).finish()
    }
}

impl Cutter {
    /// Returns what becomes of bytes that a client writes at once.
    pub(super) fn choose(&mut self, bytes: &[u8]) -> Option<Cut> {
        let length = bytes
            .first_chunk()
            .map(|length| i32::from_le_bytes(*length));
        let is_message =
            length.and_then(|length| usize::try_from(length).ok()) == Some(bytes.len());
        self.0
            .as_mut()
            .filter(|_| is_message)
            .and_then(|choice| choice(bytes))
    }
}

impl SimRuntime {
    /// From now on calls a function with each message that a client sends, with its header. The
    /// connection breaks at the messages for which the function returns a [`Cut`]. The function
    /// must not use the runtime.
    ///
    /// Messages through a proxy or to a listener, and those that a client writes in several parts,
    /// may not be seen.
    pub fn cut_connections(&self, choice: impl FnMut(&[u8]) -> Option<Cut> + Send + 'static) {
        self.shared.lock().cutter = Cutter(Some(Box::new(choice)));
    }
}
