//! The sessions that can be resumed.

use rustls::{
    NamedGroup,
    client::{
        ClientSessionMemoryCache, ClientSessionStore, Tls12ClientSessionValue,
        Tls13ClientSessionValue,
    },
    pki_types::ServerName,
};
use std::{
    cell::Cell,
    sync::atomic::{AtomicU64, Ordering},
};

/// The maximum number of hosts whose sessions are stored for resumption. If there are more, the
/// sessions of the host that was added first are dropped.
pub const MAX_RESUMABLE_SERVERS: usize = 32;

/// The number of sessions that `rustls` stores for one host.
pub(super) const SESSIONS_OF_ONE_SERVER: usize = 8;

thread_local! {
    /// The number of tickets that [`Sessions`] got on this thread and [`take_tickets`] has not
    /// returned. `rustls` handles tickets within a function of the connection, on the same thread.
    static TICKETS: Cell<usize> = const { Cell::new(0) };
}

/// Returns the number of tickets since the last call on this thread.
pub(super) fn take_tickets() -> usize {
    TICKETS.take()
}

/// The sessions of a context.
///
/// Sessions with some hosts are not stored: a resumed session has no stapled OCSP response, which
/// the certificates of these hosts require. The hosts are kept as a set of hashes. A host whose
/// hash is in the set by chance is not resumed either, which only costs time.
#[derive(Debug)]
pub(super) struct Sessions {
    stored: ClientSessionMemoryCache,
    refused: [AtomicU64; 4],
}

impl Default for Sessions {
    fn default() -> Self {
        let count = MAX_RESUMABLE_SERVERS * SESSIONS_OF_ONE_SERVER;
        Self {
            stored: ClientSessionMemoryCache::new(count),
            refused: Default::default(),
        }
    }
}

impl Sessions {
    /// Drops the sessions with this host, so that the next handshake is a full one.
    pub(super) fn drop_all(&self, host: &ServerName<'static>) {
        self.stored.remove_tls12_session(host);
        while self.stored.take_tls13_ticket(host).is_some() {}
    }

    /// Drops the sessions with this host, and stores no others.
    pub(super) fn refuse(&self, host: &ServerName<'static>) {
        let (word, bit) = self.place(host);
        word.fetch_or(bit, Ordering::Relaxed);
        self.drop_all(host);
    }

    fn refuses(&self, host: &ServerName<'_>) -> bool {
        let (word, bit) = self.place(host);
        word.load(Ordering::Relaxed) & bit != 0
    }

    /// Returns the place of a host in the set: a hash of its name, by the algorithm FNV-1a.
    fn place(&self, host: &ServerName<'_>) -> (&AtomicU64, u64) {
        let hash = host
            .to_str()
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            });
        let index = usize::try_from(hash >> 62).unwrap_or_default();
        (&self.refused[index], 1 << (hash & 63))
    }
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, host: ServerName<'static>, group: NamedGroup) {
        self.stored.set_kx_hint(host, group);
    }

    fn kx_hint(&self, host: &ServerName<'_>) -> Option<NamedGroup> {
        self.stored.kx_hint(host)
    }

    fn set_tls12_session(&self, host: ServerName<'static>, value: Tls12ClientSessionValue) {
        if !self.refuses(&host) {
            self.stored.set_tls12_session(host, value);
        }
    }

    fn tls12_session(&self, host: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.stored.tls12_session(host)
    }

    fn remove_tls12_session(&self, host: &ServerName<'static>) {
        self.stored.remove_tls12_session(host);
    }

    fn insert_tls13_ticket(&self, host: ServerName<'static>, value: Tls13ClientSessionValue) {
        TICKETS.set(TICKETS.get() + 1);
        if !self.refuses(&host) {
            self.stored.insert_tls13_ticket(host, value);
        }
    }

    fn take_tls13_ticket(&self, host: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.stored.take_tls13_ticket(host)
    }
}
