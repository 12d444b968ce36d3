//! Leases: the use of checked-out connections.

use crate::connection::Established;
use std::ops::{Deref, DerefMut};

/// The use of a checked-out connection by one operation.
///
/// A lease begins when the operation gets the connection from its pool or its pin. While it lasts,
/// the operation is counted at the server of the connection, and an exchange on the connection can
/// have a timer. `Client::end_lease` ends each lease, whatever the connection was used for, and
/// gives the connection to its next owner. It does nothing if the client has taken the connection
/// back before (`Client::take_back`).
#[derive(Debug)]
#[must_use = "the connection stays checked out until `Client::end_lease`"]
pub(crate) struct Lease {
    connection: Box<Established>,
    /// True while the timer of an exchange is armed.
    pub(crate) is_timed: bool,
}

impl Lease {
    #[inline]
    pub(crate) const fn new(connection: Box<Established>) -> Self {
        Self {
            connection,
            is_timed: false,
        }
    }

    /// Takes the connection out: at the end of the lease, or while the client drives the connection
    /// and counts the operation further.
    #[inline]
    pub(crate) fn into_connection(self) -> Box<Established> {
        self.connection
    }
}

impl Deref for Lease {
    type Target = Established;

    #[inline]
    fn deref(&self) -> &Established {
        &self.connection
    }
}

impl DerefMut for Lease {
    #[inline]
    fn deref_mut(&mut self) -> &mut Established {
        &mut self.connection
    }
}
