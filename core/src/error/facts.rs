//! Facts that follow from the kind of an error.

use super::{Error, ErrorKind, GridFsErrorKind, TlsFault, Wait};
use std::time::Duration;

impl Error {
    /// True if the network is the cause: for a connection that failed or broke, for a pool that was
    /// cleared because of such a failure ([`is_pool_cleared`](Self::is_pool_cleared)), and for a
    /// failed server selection if the servers could not be reached. The other official drivers
    /// group these errors in the same way.
    ///
    /// These are the kind [`ErrorKind::Io`], a timeout while waiting for the network
    /// ([`Wait::is_network`]), TLS that broke ([`TlsFault::Broken`]),
    /// [`ErrorKind::ConnectionPoolCleared`], [`ErrorKind::Interrupted`],
    /// [`ErrorKind::ServerSelection`] if its cause is a network error, and a bulk write that one of
    /// these ended early or an upload to GridFS that could not be aborted because of one.
    ///
    /// ```
    /// use onionskin_core::error::{Error, ErrorKind, NetworkFault};
    ///
    /// let message = "no server replied".to_owned();
    /// let cause = Some(Error::network(NetworkFault::Refused, "connection refused"));
    /// let error = Error::new(ErrorKind::ServerSelection { message, cause });
    /// assert!(error.is_network() && error.is_server_selection());
    /// ```
    #[must_use]
    pub fn is_network(&self) -> bool {
        let error = self.innermost();
        match error.kind() {
            ErrorKind::ConnectionPoolCleared { .. } | ErrorKind::Interrupted { .. } => true,
            ErrorKind::ServerSelection { cause, .. } => {
                cause.as_ref().is_some_and(Self::is_connection_failure)
            }
            _ => error.is_connection_failure(),
        }
    }

    /// Returns the error that ended the operation. That is the error of the `delete` for an upload
    /// that could not be aborted, the cause of a bulk write that ended early, and otherwise this
    /// error.
    pub(super) fn innermost(&self) -> &Self {
        match self.kind() {
            ErrorKind::GridFs(GridFsErrorKind::AbortError { delete_error, .. }) => {
                delete_error.innermost()
            }
            ErrorKind::BulkWrite(_) => self.fields.cause.as_ref().map_or(self, Self::innermost),
            _ => self,
        }
    }

    /// True for the network error of a connection, on which retries and the topology decide.
    pub(crate) fn is_connection_failure(&self) -> bool {
        match self.kind() {
            ErrorKind::Io(_) => true,
            ErrorKind::Timeout { wait, .. } => wait.is_network(),
            ErrorKind::Tls { fault, .. } => *fault == TlsFault::Broken,
            _ => false,
        }
    }

    /// True if the operation found no suitable server: for [`ErrorKind::ServerSelection`], and for
    /// a timeout in the server selection for a retry ([`Wait::Selection`]). The last attempt of the
    /// operation sent nothing.
    ///
    /// ```
    /// use onionskin_core::error::Error;
    ///
    /// fn advice(error: &Error) -> &'static str {
    ///     match error.is_server_selection() {
    ///         true => "check the addresses and the network",
    ///         false => "see the message of the error",
    ///     }
    /// }
    /// ```
    #[must_use]
    pub fn is_server_selection(&self) -> bool {
        matches!(
            self.innermost().kind(),
            ErrorKind::ServerSelection { .. }
                | ErrorKind::Timeout {
                    wait: Wait::Selection,
                    ..
                }
        )
    }

    /// Returns how long the operation waited for a suitable server before it failed with
    /// [`ErrorKind::ServerSelection`]. `None` for every other kind, and if waiting could not help,
    /// for example because the server of a cursor is no longer in the topology.
    ///
    /// ```
    /// use onionskin_core::error::{Error, ErrorKind};
    ///
    /// let message = "no primary".to_owned();
    /// let error = Error::new(ErrorKind::ServerSelection { message, cause: None });
    /// // The operation has not waited.
    /// assert_eq!(error.waited(), None);
    /// ```
    #[must_use]
    pub fn waited(&self) -> Option<Duration> {
        self.fields.waited
    }

    /// Returns the namespace of the document that could not be decoded: the names of its database
    /// and its collection, with a point between them. The server gives the name. `None` for every
    /// other error, and if the namespace is not known.
    ///
    /// ```
    /// use onionskin_core::error::Error;
    ///
    /// fn report(error: &Error) {
    ///     if let Some(namespace) = error.namespace() {
    ///         eprintln!("a document of {namespace} has another form than expected");
    ///     }
    /// }
    /// ```
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.fields.namespace.as_deref()
    }

    /// True if a write failed because of a unique index: one of the server's errors has the code
    /// 11000 or an old code with the same meaning.
    ///
    /// ```
    /// use onionskin_core::error::{Error, Result};
    ///
    /// /// Returns false if the user existed before.
    /// fn is_new(inserted: Result<()>) -> Result<bool> {
    ///     match inserted {
    ///         Ok(()) => Ok(true),
    ///         Err(error) if error.is_duplicate_key() => Ok(false),
    ///         Err(error) => Err(error),
    ///     }
    /// }
    /// # assert_eq!(is_new(Ok(())), Ok(true));
    /// ```
    #[must_use]
    pub fn is_duplicate_key(&self) -> bool {
        DUPLICATE_KEY.iter().any(|&code| self.has_code(code))
    }

    /// True for the kinds [`ErrorKind::ConnectionPoolCleared`], which is the `PoolClearedError` of
    /// the specifications, and [`ErrorKind::Interrupted`]. A retry is safe if the operation itself
    /// can be repeated safely ([CMAP-142], [CMAP-97]).
    ///
    /// ```
    /// use onionskin_core::error::{Error, ErrorKind};
    ///
    /// let message = "the pool is paused".to_owned();
    /// let error = Error::new(ErrorKind::ConnectionPoolCleared { message });
    /// assert!(error.is_pool_cleared() && error.is_network());
    /// ```
    ///
    /// [CMAP-142]: crate::requirements::pool#CMAP-142
    /// [CMAP-97]: crate::requirements::pool#CMAP-97
    #[must_use]
    pub fn is_pool_cleared(&self) -> bool {
        matches!(
            self.innermost().kind(),
            ErrorKind::ConnectionPoolCleared { .. } | ErrorKind::Interrupted { .. }
        )
    }

    /// True if a deadline passed: a deadline of the client, or the `maxTimeMS` that the server got
    /// with the command. So a failed server selection counts if the operation
    /// [waited](Self::waited) for a server, and a bulk write or the abort of an upload if a
    /// deadline ended it early.
    ///
    /// ```
    /// use onionskin_core::error::{Error, Wait};
    ///
    /// let error = Error::timeout(Wait::Connect, "db1.example.net did not answer");
    /// assert!(error.is_timeout());
    /// ```
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        let error = self.innermost();
        error.waited().is_some() || error.is_deadline() || self.has_code(MAX_TIME_EXPIRED)
    }

    /// True if a deadline passed other than that of server selection.
    pub(crate) fn is_deadline(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::Timeout { .. } | ErrorKind::WaitQueueTimeout { .. }
        ) || self.has_code(MAX_TIME_EXPIRED)
    }

    /// True if a server's error has this code: that of a command, of a statement, of a write
    /// concern, or the one that ended a bulk write early.
    fn has_code(&self, code: i32) -> bool {
        match self.kind() {
            ErrorKind::InsertMany(all) => {
                let mut concerns = all.write_concern_error.iter();
                all.errors().iter().any(|error| error.code == code)
                    || concerns.any(|error| error.code == code)
                    || all.more_write_concern_errors.iter().any(|e| e.code == code)
            }
            ErrorKind::BulkWrite(all) => {
                all.write_errors.values().any(|error| error.code == code)
                    || all.write_concern_errors.iter().any(|e| e.code == code)
                    || self.code() == Some(code)
            }
            _ => self.code() == Some(code),
        }
    }
}

/// The server's error codes for a duplicate key. All but the first are of old servers.
const DUPLICATE_KEY: [i32; 3] = [11_000, 11_001, 12_582];

/// The server's error code `MaxTimeMSExpired`.
pub(crate) const MAX_TIME_EXPIRED: i32 = 50;
