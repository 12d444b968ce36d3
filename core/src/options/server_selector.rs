//! A say of the application in the choice of servers.

use crate::description::ServerDescription;
use std::{fmt, sync::Arc};

/// What an application decides by.
type Choice = dyn Fn(&mut Vec<&ServerDescription>) + Send + Sync;

/// Narrows the choice of servers, by rules that only the application knows (SEL-10).
///
/// It is called at each selection with the servers that suit the operation, and removes those that
/// it does not want; the latency window and the choice by load come afterwards. What it adds does
/// not count. If nothing is left the operation waits, as it does when no server suits.
///
/// It is called in the task of the operation, which waits for it and nothing else does; it may call
/// the client. Should it panic, that operation fails.
///
/// ```
/// use onionskin_core::options::{ClientOptions, ServerSelector};
///
/// let same_rack = ServerSelector::new(|servers| {
///     servers.retain(|server| server.tags.get("rack").is_some_and(|rack| rack == "7"));
/// });
/// let mut options = ClientOptions::default();
/// options.set_server_selector(same_rack);
/// assert!(options.server_selector().is_some());
/// ```
#[derive(Clone)]
pub struct ServerSelector(Arc<Choice>);

impl ServerSelector {
    /// A selector that keeps of the servers what `choice` leaves.
    pub fn new(choice: impl Fn(&mut Vec<&ServerDescription>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(choice))
    }

    /// Lets it choose.
    pub(crate) fn narrow(&self, servers: &mut Vec<&ServerDescription>) {
        (self.0)(servers);
    }
}

impl fmt::Debug for ServerSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerSelector(..)")
    }
}

/// Equal only to its own clones.
impl PartialEq for ServerSelector {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
