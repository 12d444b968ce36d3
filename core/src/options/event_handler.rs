//! The functions of an application that get the events of one family.

use std::{fmt, sync::Arc};

/// A function of the application that the client calls for each event of one family: commands,
/// connection pools, or discovery and monitoring.
///
/// The client calls it as it calls the listeners of all events, in order and outside of its own
/// tasks where the runtime has other threads. So a slow function delays events, not operations.
///
/// ```
/// use onionskin_core::{
///     event::handlers::command::CommandEvent,
///     options::{ClientOptions, EventHandler},
/// };
///
/// let print = EventHandler::callback(|event: CommandEvent| println!("{event:?}"));
/// let options = ClientOptions::builder().command_event_handler(print).build();
/// assert!(options.command_event_handler.is_some());
/// ```
pub struct EventHandler<T>(Arc<dyn Fn(T) + Send + Sync>);

impl<T> EventHandler<T> {
    /// Returns a handler that calls `function`.
    ///
    /// ```
    /// use onionskin_core::{event::handlers::sdam::SdamEvent, options::EventHandler};
    ///
    /// let print = EventHandler::callback(|event: SdamEvent| println!("{event:?}"));
    /// ```
    pub fn callback(function: impl Fn(T) + Send + Sync + 'static) -> Self {
        Self(Arc::new(function))
    }

    /// Calls the function. For shells, which deliver the events.
    ///
    /// ```
    /// use onionskin_core::options::EventHandler;
    /// use std::sync::mpsc;
    ///
    /// let (sender, receiver) = mpsc::channel();
    /// let forward = EventHandler::callback(move |event: u32| {
    ///     let _ = sender.send(event);
    /// });
    /// forward.handle(7);
    /// assert_eq!(receiver.recv(), Ok(7));
    /// ```
    pub fn handle(&self, event: T) {
        (self.0)(event);
    }
}

/// Returns a handler that sends each event into the channel. If the channel is full, the event is
/// dropped, so that a slow receiver does not hold up others.
#[cfg(feature = "tokio-channels")]
impl<T: Send + 'static> From<tokio::sync::mpsc::Sender<T>> for EventHandler<T> {
    fn from(sender: tokio::sync::mpsc::Sender<T>) -> Self {
        Self::callback(move |event| drop(sender.try_send(event)))
    }
}

/// Returns a handler that sends each event into the channel, whose length has no limit.
#[cfg(feature = "tokio-channels")]
impl<T: Send + 'static> From<tokio::sync::mpsc::UnboundedSender<T>> for EventHandler<T> {
    fn from(sender: tokio::sync::mpsc::UnboundedSender<T>) -> Self {
        Self::callback(move |event| drop(sender.send(event)))
    }
}

impl<T> Clone for EventHandler<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for EventHandler<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventHandler(..)")
    }
}

/// Two handlers are equal only if one is a clone of the other.
impl<T> PartialEq for EventHandler<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
