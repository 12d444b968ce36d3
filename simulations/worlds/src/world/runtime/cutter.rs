//! Connections that a test breaks at a message of its choice.

use super::SimRuntime;
use onionskin_deployment::deployment::plain_message;
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
        let choice = self.0.as_mut()?;
        choice(&plain_message(bytes)?)
    }
}

impl SimRuntime {
    /// From now on calls a function with each message that a client sends: decompressed, and with
    /// its header. The connection breaks at the messages for which the function returns a
    /// [`Cut`]. The function must not use the runtime.
    ///
    /// Messages through a proxy or to a listener may not be seen. Those that a client writes in
    /// several parts, such as messages with documents of more than 64 KiB, are not seen.
    pub fn cut_connections(&self, choice: impl FnMut(&[u8]) -> Option<Cut> + Send + 'static) {
        self.shared.lock().cutter = Cutter(Some(Box::new(choice)));
    }
}
