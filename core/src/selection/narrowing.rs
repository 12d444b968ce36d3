//! Server selector questions: the application's server selector runs outside of the client's lock.

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

/// A server selector question: the suitable servers that the application's [`ServerSelector`]
/// reduces to those it accepts ([SEL-10]).
///
/// The selector is code of the application: it may take long, call the client or panic. So the
/// client returns the question, and the task of the operation calls [`ask`](Self::ask) outside of
/// the lock.
///
/// [SEL-10]: crate::requirements::server_selection#SEL-10
#[must_use = "the operation goes on when the question is answered"]
pub struct SelectorQuestion {
    /// The application's selector.
    pub(super) custom: ServerSelector,
    /// The version of the topology description that the servers come from.
    pub(super) version: u64,
    /// The suitable servers.
    pub(super) servers: Vec<Arc<ServerDescription>>,
}

impl SelectorQuestion {
    /// Calls the application's selector and returns its answer. If the selector panics, the answer
    /// is an error.
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
                // The payload of the panic may itself panic when it is dropped.
                if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                    std::mem::forget(again);
                }
                Err(Error::argument(
                    "the application's server selector panicked",
                ))
            }
        };
        SelectorAnswer::new(version, addresses)
    }
}

impl fmt::Debug for SelectorQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SelectorQuestion")
            .field("servers", &self.servers.len())
            .finish_non_exhaustive()
    }
}

/// The answer to a [`SelectorQuestion`]: the servers that the application's selector accepts.
#[derive(Clone, Debug)]
pub struct SelectorAnswer {
    /// The version of the topology description that the question was about.
    version: u64,
    /// The addresses of the accepted servers, sorted; the error if the selector panicked.
    addresses: Result<Vec<Address>>,
}

impl SelectorAnswer {
    /// Returns an answer about the topology description of this version. `addresses` are the
    /// accepted servers, sorted.
    pub(crate) const fn new(version: u64, addresses: Result<Vec<Address>>) -> Self {
        Self { version, addresses }
    }

    /// Returns the addresses of the accepted servers, sorted; the error if the selector panicked.
    pub(crate) fn addresses(&self) -> Result<&[Address], &Error> {
        self.addresses.as_deref()
    }

    /// Returns the version of the topology description that the question was about.
    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// Removes the servers that the application's selector did not accept. Servers that the
    /// selector added to its list are ignored. Fails if the selector panicked.
    pub(super) fn narrow(&self, servers: &mut Vec<&Arc<ServerDescription>>) -> Result<()> {
        let addresses = self.addresses.as_ref().map_err(Clone::clone)?;
        servers.retain(|server| addresses.binary_search(&server.address).is_ok());
        Ok(())
    }
}
