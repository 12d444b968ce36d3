//! The functions of the options that get the events of one family.

use super::EventListener;
use onionskin_core::{
    event::{EventKind, Subscriptions},
    options::ClientOptions,
};
use std::sync::Arc;

/// Returns a listener that calls the functions of the options, and adds their families to the
/// subscriptions. `None` if the options have no such function.
pub(crate) fn listener(
    options: &ClientOptions,
    subscriptions: &mut Subscriptions,
) -> Option<EventListener> {
    let command = options.command_event_handler.clone();
    let pool = options.cmap_event_handler.clone();
    let sdam = options.sdam_event_handler.clone();
    if command.is_none() && pool.is_none() && sdam.is_none() {
        return None;
    }
    subscriptions.command |= command.is_some();
    subscriptions.pool |= pool.is_some();
    subscriptions.sdam |= sdam.is_some();
    Some(Arc::new(move |event| match &event.kind {
        EventKind::Command(event) => {
            if let Some(handler) = &command {
                handler.handle(event.into());
            }
        }
        EventKind::Pool(event) => {
            if let Some(handler) = &pool {
                handler.handle(event.into());
            }
        }
        EventKind::Sdam(event) => {
            if let Some(handler) = &sdam {
                handler.handle(event.into());
            }
        }
        _ => {}
    }))
}
