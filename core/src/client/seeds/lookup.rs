//! The lookup of a seed list before its client exists.

use super::list::{Found, SeedList};
use crate::{
    client::{QuestionId, config::refuse_what_is_missing},
    dns::{DnsAnswer, DnsQuery},
    error::Error,
    options::ClientOptions,
    random::Seed,
    sdam,
    time::Instant,
};
use std::time::Duration;

/// The ids of the queries for SRV and for TXT records.
const SRV: QuestionId = QuestionId(1);
const TXT: QuestionId = QuestionId(2);

/// The lookup of the hosts of a `mongodb+srv` client before the client is created, so that a
/// failure is noticed then.
///
/// A shell that creates its client without this lookup loses nothing: the client looks the hosts up
/// itself ([DNS-12]).
///
/// ```
/// use onionskin_core::{
///     client::SeedLookup,
///     dns::{DnsAnswer, DnsData},
///     error::{DnsFailure, ErrorKind},
///     options::ClientOptions,
///     random::Seed,
/// };
///
/// let options = ClientOptions::parse("mongodb+srv://cluster.example.net").run()?;
/// let mut lookup = SeedLookup::new(&options, &Seed::new([0; 32]))?.expect("hosts are unknown");
/// let [(srv, query), (txt, _)] = lookup.queries();
/// assert_eq!(query.name, "_mongodb._tcp.cluster.example.net");
/// // The shell asks its resolver, and gives the answers in any order.
/// let message = "there is no TXT record".to_owned();
/// let none = ErrorKind::DnsResolve { failure: DnsFailure::NoRecords, message };
/// assert!(lookup.handle_answer(txt, Err(none.into())).is_none());
/// let host = DnsData::Service { host: "db1.example.net".to_owned(), port: 27017 };
/// let answer = DnsAnswer { records: vec![host], ttl: None };
/// let options = lookup.handle_answer(srv, Ok(answer)).expect("both answers are there")?;
/// assert_eq!(options.hosts()[0].host(), "db1.example.net");
/// # Ok::<(), onionskin_core::error::Error>(())
/// ```
///
/// [DNS-12]: crate::requirements::seed_lists#DNS-12
#[derive(Debug)]
pub struct SeedLookup {
    list: SeedList,
}

impl SeedLookup {
    /// Returns the lookup that a client with these options needs. `None` without a `mongodb+srv`
    /// host, and if hosts are known. `seed` decides which hosts `srvMaxHosts` leaves.
    ///
    /// Fails if options are invalid or not implemented, so that nothing is asked for a client that
    /// cannot be created.
    pub fn new(options: &ClientOptions, seed: &Seed) -> Result<Option<Self>, Error> {
        options.validate()?;
        refuse_what_is_missing(options)?;
        let random = seed.split("seed lookup").random();
        let mut list = SeedList::new(options, random, sdam::MAX_SERVERS);
        if !list.is_unresolved() {
            return Ok(None);
        }
        list.asked(SRV, TXT);
        Ok(Some(Self { list }))
    }

    /// Returns the queries for SRV and TXT records, each with the id of its answer. They can be
    /// asked at the same time.
    #[must_use]
    pub fn queries(&self) -> [(QuestionId, DnsQuery); 2] {
        let (srv, txt) = self.list.queries();
        [(SRV, srv), (TXT, txt)]
    }

    /// Returns the time limit of each query: `connectTimeoutMS`, or 30 seconds if that is 0.
    #[must_use]
    pub fn limit(&self) -> Duration {
        self.list.limit()
    }

    /// Handles the answer to a query. `None` while the result is open. An answer after the result,
    /// and a second answer to the same query, change nothing.
    ///
    /// The result is the options of the client: with the hosts of the SRV records, with the options
    /// of the TXT record that nothing else has set, and with the warnings about that record.
    ///
    /// The result is an error of the kinds [`DnsResolve`](crate::error::ErrorKind::DnsResolve) and
    /// [`InvalidArgument`](crate::error::ErrorKind::InvalidArgument) for the reasons that
    /// [`uri::resolve`](crate::uri::resolve) lists. The absence of a TXT record is no error
    /// ([DNS-27]).
    ///
    /// [DNS-27]: crate::requirements::seed_lists#DNS-27
    #[must_use]
    pub fn handle_answer(
        &mut self,
        id: QuestionId,
        result: Result<DnsAnswer, Error>,
    ) -> Option<Result<ClientOptions, Error>> {
        match self.list.handle_answer(Instant::ZERO, id, result)? {
            Found::Seeds(mut options, warnings) => {
                options.add_warnings(warnings);
                Some(Ok(*options))
            }
            Found::NoSeeds(error) | Found::NoHosts(error) => Some(Err(error)),
            // There are no rescans before the client exists.
            Found::Hosts(..) => None,
        }
    }
}
