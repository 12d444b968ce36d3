//! Questions to the application's server selector, which is asked outside of the client's lock.

use crate::{
    address::Address,
    description::ServerDescription,
    error::{Error, Result},
    options::ServerSelector,
};
use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

/// Servers that suit an operation, of which the application's [`ServerSelector`] is to say which it
/// wants (SEL-10).
///
/// The selector is foreign code: it may take long, call the client or panic. So the client gives
/// the question away, and whoever performs the operation calls [`ask`](Self::ask).
#[must_use = "the operation goes on when the question is answered"]
pub struct SelectorQuestion {
    pub(super) custom: ServerSelector,
    pub(super) version: u64,
    pub(super) servers: Vec<Arc<ServerDescription>>,
}

impl SelectorQuestion {
    /// Calls the application's selector. A panic of it becomes the operation's error and leaves
    /// nothing half done.
    #[must_use]
    pub fn ask(self) -> SelectorAnswer {
        let Self {
            custom,
            version,
            servers,
        } = self;
        let mut left: Vec<&ServerDescription> = servers.iter().map(|server| &**server).collect();
        let addresses = match catch_unwind(AssertUnwindSafe(|| custom.narrow(&mut left))) {
            Ok(()) => {
                let mut addresses: Vec<Address> = left.iter().map(|s| s.address.clone()).collect();
                addresses.sort_unstable();
                Ok(addresses)
            }
            Err(payload) => {
                // What it panicked with may panic when it is dropped.
                if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                    std::mem::forget(again);
                }
                Err(Error::argument(
                    "the server selector of the options panicked",
                ))
            }
        };
        SelectorAnswer { version, addresses }
    }
}

impl fmt::Debug for SelectorQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SelectorQuestion")
            .field("servers", &self.servers.len())
            .finish_non_exhaustive()
    }
}

/// What the application's selector left of the servers that it was asked about.
#[derive(Clone, Debug)]
pub struct SelectorAnswer {
    /// The version of the topology description that the question was about.
    version: u64,
    /// Sorted.
    addresses: Result<Vec<Address>>,
}

impl SelectorAnswer {
    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// Removes of `servers` what the application does not want; what it added does not count.
    pub(super) fn narrow(&self, servers: &mut Vec<&Arc<ServerDescription>>) -> Result<()> {
        let addresses = self.addresses.as_ref().map_err(Clone::clone)?;
        servers.retain(|server| addresses.binary_search(&server.address).is_ok());
        Ok(())
    }
}
