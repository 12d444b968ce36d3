//! DNS: the queries of a client, their answers, and a stub resolver without I/O.
//!
//! A client needs SRV and TXT records for a `mongodb+srv` connection string, and addresses if it
//! resolves host names itself. [`DnsQuery`] and [`DnsAnswer`] are such a query and its answer, for
//! each resolver. With the feature `dns`, `Lookup` is a state machine that asks name
//! servers. It is a stub resolver: it sends recursive queries to the name servers of a
//! `ResolverConfig` and follows no referrals.

#[cfg(feature = "dns")]
mod cache;
#[cfg(feature = "dns")]
mod config;
#[cfg(feature = "dns")]
mod hosts;
#[cfg(feature = "dns")]
mod lookup;
#[cfg(feature = "dns")]
mod message;
mod query;

pub use query::{DnsAnswer, DnsData, DnsQuery, RecordKind};
#[cfg(feature = "dns")]
pub use {
    cache::{DnsCache, MAX_CACHED_ANSWERS, MAX_NEGATIVE_TTL, MAX_TTL},
    config::{
        DEFAULT_ATTEMPTS, DEFAULT_TRY_TIMEOUT, DNS_PORT, MAX_FILE_BYTES, MAX_NAME_SERVERS,
        ResolverConfig,
    },
    hosts::HostsFile,
    lookup::{Lookup, LookupAction, LookupSocket, MAX_ALIASES, MAX_IGNORED_DATAGRAMS},
    message::MAX_DATAGRAM_BYTES,
};
