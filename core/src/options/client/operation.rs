//! Options of operations: read preference, read and write concern, and retries.

use super::{ClientOptions, Error, ReadConcern, ReadPreference, WriteConcern};

impl ClientOptions {
    /// Sets [`read_preference`](Self::read_preference).
    pub fn set_read_preference(&mut self, preference: ReadPreference) -> &mut Self {
        self.read_preference = preference;
        self
    }

    /// Sets [`read_concern`](Self::read_concern).
    pub fn set_read_concern(&mut self, concern: impl Into<Option<ReadConcern>>) -> &mut Self {
        self.read_concern = concern.into();
        self
    }

    /// Sets [`write_concern`](Self::write_concern). Fails if `w: 0` and `journal: true` are
    /// combined ([URI-23]).
    ///
    /// [URI-23]: crate::requirements::connection_strings#URI-23
    pub fn set_write_concern(
        &mut self,
        concern: impl Into<Option<WriteConcern>>,
    ) -> Result<&mut Self, Error> {
        let concern = concern.into();
        if let Some(concern) = &concern {
            concern.validate()?;
        }
        self.write_concern = concern;
        Ok(self)
    }

    /// Sets [`retry_reads`](Self::retry_reads).
    pub fn set_retry_reads(&mut self, retry: bool) -> &mut Self {
        self.retry_reads = retry;
        self
    }

    /// Sets [`retry_writes`](Self::retry_writes).
    pub fn set_retry_writes(&mut self, retry: bool) -> &mut Self {
        self.retry_writes = retry;
        self
    }

    /// Sets [`max_adaptive_retries`](Self::max_adaptive_retries).
    pub fn set_max_adaptive_retries(&mut self, retries: u32) -> &mut Self {
        self.max_adaptive_retries = retries;
        self
    }

    /// Sets [`enable_overload_retargeting`](Self::enable_overload_retargeting).
    pub fn set_enable_overload_retargeting(&mut self, enable: bool) -> &mut Self {
        self.enable_overload_retargeting = enable;
        self
    }

    /// Returns the read preference (`readPreference`, `readPreferenceTags` and
    /// `maxStalenessSeconds`). Default: primary.
    #[must_use]
    pub const fn read_preference(&self) -> &ReadPreference {
        &self.read_preference
    }

    /// Returns the read concern (`readConcernLevel`). Default: none, the server's choice.
    #[must_use]
    pub const fn read_concern(&self) -> Option<&ReadConcern> {
        self.read_concern.as_ref()
    }

    /// Returns the write concern (`w`, `journal` and `wTimeoutMS`). Default: none, the server's
    /// choice.
    #[must_use]
    pub const fn write_concern(&self) -> Option<&WriteConcern> {
        self.write_concern.as_ref()
    }

    /// Returns `retryReads`: whether a read is retried after an error that may be temporary
    /// ([RR-1]). Default: `true`.
    ///
    /// `find`, `find_one`, `count_documents` and `aggregate` without a stage that writes are
    /// retried. Commands of `Database::run_command` and later batches of a cursor are not, unless
    /// the server is overloaded ([RR-7], [RR-24]). With a time limit ([`timeout`](Self::timeout) or
    /// that of the call), retries continue until the limit expires, or until three attempts in a
    /// row fail without waiting for anything. Without a time limit there is at most one retry
    /// ([RR-18]). After overload [`max_adaptive_retries`](Self::max_adaptive_retries) applies. If
    /// the application repeats a failed operation itself, each repetition can be retried as often
    /// again.
    ///
    /// [RR-1]: crate::requirements::retries#RR-1
    /// [RR-7]: crate::requirements::retries#RR-7
    /// [RR-24]: crate::requirements::retries#RR-24
    /// [RR-18]: crate::requirements::retries#RR-18
    #[must_use]
    pub const fn retry_reads(&self) -> bool {
        self.retry_reads
    }

    /// Returns `retryWrites`: whether a write is retried after an error that may be temporary, if
    /// the write cannot take effect twice ([RW-1]). Default: `true`.
    ///
    /// Inserts are retried, and updates and deletes of one document. This holds for replica sets,
    /// sharded clusters and load balancers. On a standalone server a write is retried only if no
    /// connection was checked out, so that nothing was sent. `update_many`, `delete_many`,
    /// unacknowledged writes and commands of `Database::run_command` are not retried, unless the
    /// server is overloaded ([RW-8], [RW-9], [RW-20], [RW-32]). The number of retries is that of
    /// [`retry_reads`](Self::retry_reads) ([RW-24]).
    ///
    /// [RW-1]: crate::requirements::retries#RW-1
    /// [RW-8]: crate::requirements::retries#RW-8
    /// [RW-9]: crate::requirements::retries#RW-9
    /// [RW-20]: crate::requirements::retries#RW-20
    /// [RW-32]: crate::requirements::retries#RW-32
    /// [RW-24]: crate::requirements::retries#RW-24
    #[must_use]
    pub const fn retry_writes(&self) -> bool {
        self.retry_writes
    }

    /// Returns `maxAdaptiveRetries`, the maximum number of retries of an operation that met an
    /// overloaded server. Retries before the overload count too, with or without a time limit
    /// ([BP-4], [BP-8]). Zero means no retry after overload. Default: 2.
    ///
    /// After overload all commands are retried, even those that are not retried after other errors,
    /// for example `update_many`, `delete_many`, later batches of a cursor, and commands of
    /// `Database::run_command` ([BP-2], [BP-16]). Reads need [`retry_reads`](Self::retry_reads),
    /// writes [`retry_writes`](Self::retry_writes), and `run_command` both ([BP-3]).
    ///
    /// After an overload error the operation waits before its next attempt, for a random part of
    /// 200 ms before the first retry, of 400 ms before the second, and so on up to 10 s ([BP-5]).
    /// The server can replace the base of 100 ms ([BP-6]). An operation whose time limit would
    /// expire during the wait fails at once ([BP-12]).
    ///
    /// A server counts as overloaded if its error has the label `SystemOverloadedError`, or if a
    /// new connection fails with a network error or a timeout before the reply to `hello`. Errors
    /// of name resolution and of certificates, for example, do not count. If the application
    /// repeats a failed operation itself, each repetition can be retried as often again, which
    /// increases the overload. Such an application should stop at errors with this label, or set
    /// this option to zero.
    ///
    /// [BP-4]: crate::requirements::retries#BP-4
    /// [BP-8]: crate::requirements::retries#BP-8
    /// [BP-2]: crate::requirements::retries#BP-2
    /// [BP-16]: crate::requirements::retries#BP-16
    /// [BP-3]: crate::requirements::retries#BP-3
    /// [BP-5]: crate::requirements::retries#BP-5
    /// [BP-6]: crate::requirements::retries#BP-6
    /// [BP-12]: crate::requirements::retries#BP-12
    #[must_use]
    pub const fn max_adaptive_retries(&self) -> u32 {
        self.max_adaptive_retries
    }

    /// Returns `enableOverloadRetargeting`: whether a retry after overload avoids the overloaded
    /// server if another server suits the operation ([BP-9]). Default: `false`.
    ///
    /// On a sharded cluster, retries avoid the mongos that failed even without this option
    /// ([RR-14]). On a replica set this option may move reads from the primary to secondaries, if
    /// the read preference permits that.
    ///
    /// [BP-9]: crate::requirements::retries#BP-9
    /// [RR-14]: crate::requirements::retries#RR-14
    #[must_use]
    pub const fn enable_overload_retargeting(&self) -> bool {
        self.enable_overload_retargeting
    }
}
