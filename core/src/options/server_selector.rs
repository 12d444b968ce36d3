//! The application's server selector: a callback that narrows server selection.

use super::Predicate;
use crate::description::ServerDescription;
use std::{fmt, sync::Arc};

/// The callback: removes the servers that the application does not accept.
type Callback = dyn Fn(&mut Vec<&ServerDescription>) + Send + Sync;

/// A callback that removes unwanted servers during server selection.
///
/// The callback runs in each server selection that finds suitable servers, and gets the list of
/// these servers. Then the driver applies the latency window and selects one of the servers that
/// are left. Servers that the callback adds are ignored. If no server is left, the operation waits,
/// as if no server suited. Before a retry, servers that the retry avoids are not in the list. If no
/// server is left then, the callback runs again with all of them ([SEL-10]).
///
/// The callback runs in the task of the operation and delays only that operation. The callback may
/// call the client. If the callback panics, the operation fails.
///
/// ```
/// use onionskin_core::options::{ClientOptions, ServerSelector};
///
/// let same_rack = ServerSelector::new(|servers| {
///     servers.retain(|server| server.tags.get("rack").is_some_and(|rack| rack == "7"));
/// });
/// let mut options = ClientOptions::default();
/// options.server_selector = Some(same_rack);
/// assert!(options.server_selector.as_ref().is_some());
/// ```
///
/// [SEL-10]: crate::requirements::server_selection#SEL-10
#[derive(Clone)]
pub struct ServerSelector(Arc<Callback>);

impl ServerSelector {
    /// Returns a selector that accepts the servers that `choice` leaves in the list.
    ///
    /// ```
    /// use onionskin_core::{address::Address, options::ServerSelector};
    ///
    /// // One server is under repair.
    /// let broken = Address::tcp("db2.example.net", 27017);
    /// let others = ServerSelector::new(move |servers| servers.retain(|s| s.address != broken));
    /// ```
    pub fn new(choice: impl Fn(&mut Vec<&ServerDescription>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(choice))
    }

    /// Returns a selector that accepts the servers that the function accepts.
    pub(crate) fn of(predicate: Predicate) -> Self {
        Self::new(move |servers| servers.retain(|server| predicate(server)))
    }

    /// Returns a selector that accepts the servers that this one and then `next` leave in the list.
    pub(crate) fn then(&self, next: &Self) -> Self {
        let (first, next) = (self.clone(), next.clone());
        Self::new(move |servers| {
            first.narrow(servers);
            next.narrow(servers);
        })
    }

    /// Calls the callback, which removes servers from the list.
    pub(crate) fn narrow(&self, servers: &mut Vec<&ServerDescription>) {
        (self.0)(servers);
    }
}

impl fmt::Debug for ServerSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerSelector(..)")
    }
}

/// Two selectors are equal only if one is a clone of the other.
impl PartialEq for ServerSelector {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
