//! Options of operations: who answers, how surely, how often it is tried.

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

    /// Sets [`write_concern`](Self::write_concern). Refused where no reply is wanted (`w: 0`) and
    /// yet the journal is to be waited for (URI-23).
    pub fn set_write_concern(
        &mut self,
        concern: impl Into<Option<WriteConcern>>,
    ) -> Result<&mut Self, Error> {
        let concern = concern.into();
        if let Some(concern) = &concern {
            concern.check()?;
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

    /// `readPreference`, `readPreferenceTags` and `maxStalenessSeconds`. Default: the primary.
    #[must_use]
    pub const fn read_preference(&self) -> &ReadPreference {
        &self.read_preference
    }

    /// `readConcernLevel`. Default: none, which leaves it to the server.
    #[must_use]
    pub const fn read_concern(&self) -> Option<&ReadConcern> {
        self.read_concern.as_ref()
    }

    /// `w`, `journal` and `wTimeoutMS`. Default: none, which leaves it to the server.
    #[must_use]
    pub const fn write_concern(&self) -> Option<&WriteConcern> {
        self.write_concern.as_ref()
    }

    /// `retryReads`: try a read again that failed for a reason that may pass (RR-1). Default:
    /// `true`.
    ///
    /// `find`, `find_one`, `count_documents` and `aggregate` without a stage that writes are tried
    /// again; commands of `Database::run_command` and the further batches of a cursor are not,
    /// unless the server is overloaded (RR-7, RR-24). Without a time limit there is one retry; with
    /// one ([`timeout`](Self::timeout), or that of the call) there are as many as fit (RR-18).
    /// [`max_adaptive_retries`](Self::max_adaptive_retries) says what changes with overload. A
    /// program that has a retry loop of its own multiplies its attempts by these.
    #[must_use]
    pub const fn retry_reads(&self) -> bool {
        self.retry_reads
    }

    /// `retryWrites`: try a write again that failed for a reason that may pass, where that cannot
    /// apply it twice (RW-1). Default: `true`.
    ///
    /// Inserts, and updates, replacements and deletes of one document are tried again, on replica
    /// sets, sharded clusters and load balancers; `update_many`, `delete_many`, unacknowledged
    /// writes and commands of `Database::run_command` are not, unless the server is overloaded
    /// (RW-8, RW-9, RW-20, RW-32). A standalone server gets each write once. How often is as with
    /// [`retry_reads`](Self::retry_reads) (RW-24).
    #[must_use]
    pub const fn retry_writes(&self) -> bool {
        self.retry_writes
    }

    /// `maxAdaptiveRetries`: how often an operation that met an overloaded server is tried again,
    /// counted over all of its attempts, with a time limit and without (BP-4, BP-8). Default: 2;
    /// zero is no retry.
    ///
    /// After overload all commands are tried again, also those that are not otherwise:
    /// `update_many`, `delete_many`, the further batches of a cursor, and commands of
    /// `Database::run_command` (BP-2, BP-16). Reads need [`retry_reads`](Self::retry_reads), writes
    /// [`retry_writes`](Self::retry_writes), and `run_command` both (BP-3). Before each of these
    /// retries the operation waits, without a connection, for a random share of 200 ms, then of
    /// 400 ms, doubling up to 10 s; the server may choose another base (BP-5, BP-6). An operation
    /// whose time limit leaves no room for the wait ends at once (BP-12).
    ///
    /// A server is overloaded where its error has the label `SystemOverloadedError`, or where it
    /// drops a new connection before its handshake is over. A program that repeats operations by
    /// itself multiplies its attempts by these, which adds to the overload: let it give up on
    /// errors with this label, or choose zero here.
    #[must_use]
    pub const fn max_adaptive_retries(&self) -> u32 {
        self.max_adaptive_retries
    }

    /// `enableOverloadRetargeting`: a retry after overload avoids the overloaded server, if another
    /// one suits the operation (BP-9). Default: `false`.
    ///
    /// On a sharded cluster a retry avoids the router that failed in any case (RR-14). Elsewhere
    /// this option may move reads whose read preference permits it from the primary to secondaries.
    #[must_use]
    pub const fn enable_overload_retargeting(&self) -> bool {
        self.enable_overload_retargeting
    }
}
