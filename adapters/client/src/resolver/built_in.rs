//! The built-in resolver as a value of its own.

use super::stub::{StubResolver, system_config};
use crate::{Resolver, ResolverFuture, Runtime, shared::since};
use onionskin_core::{
    dns::{DnsQuery, RecordKind, ResolverConfig},
    error::Error,
};
use std::time::Duration;

/// The time limit of a lookup: 30 seconds. A client drops the lookup after `connectTimeoutMS`, if
/// that is earlier.
const LIMIT: Duration = Duration::from_secs(30);

/// The built-in resolver of clients, for an application that looks up DNS records itself, or that
/// wraps the resolver in one of its own.
///
/// ```
/// use onionskin::{
///     Resolver, ResolverFuture, Runtime,
///     dns::{BuiltInResolver, DnsQuery},
/// };
///
/// /// Prints each query.
/// struct Talkative<R: Runtime>(BuiltInResolver<R>);
///
/// impl<R: Runtime> Resolver for Talkative<R> {
///     fn look_up(&self, query: &DnsQuery) -> ResolverFuture<'_> {
///         println!("asking for {query}");
///         self.0.look_up(query)
///     }
/// }
/// ```
#[derive(Debug)]
pub struct BuiltInResolver<R: Runtime> {
    runtime: R,
    config: Option<ResolverConfig>,
    stub: StubResolver,
}

impl<R: Runtime> BuiltInResolver<R> {
    /// Creates a resolver with the name servers of `/etc/resolv.conf` and the names of
    /// `/etc/hosts`. The files are read at each lookup that the cache does not answer.
    ///
    /// ```
    /// # use onionskin::{Error, Runtime};
    /// use onionskin::{
    ///     Resolver,
    ///     dns::{BuiltInResolver, DnsQuery, RecordKind},
    /// };
    ///
    /// # async fn example<R: Runtime>(runtime: R) -> Result<(), Error> {
    /// let resolver = BuiltInResolver::new(runtime);
    /// let query = DnsQuery::new("_mongodb._tcp.cluster.example.net", RecordKind::Srv);
    /// for record in resolver.look_up(&query).await?.records {
    ///     println!("{record:?}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn new(runtime: R) -> Self {
        Self {
            runtime,
            config: None,
            stub: StubResolver::new(None),
        }
    }

    /// Creates a resolver with these name servers.
    ///
    /// ```
    /// # use onionskin::Runtime;
    /// use onionskin::dns::{BuiltInResolver, ResolverConfig};
    ///
    /// # fn example<R: Runtime>(runtime: R) {
    /// let servers = [([10, 0, 0, 2], 53).into()];
    /// let resolver = BuiltInResolver::with_config(runtime, ResolverConfig::new(servers));
    /// # }
    /// ```
    #[must_use]
    pub fn with_config(runtime: R, config: ResolverConfig) -> Self {
        Self {
            runtime,
            config: Some(config.clone()),
            stub: StubResolver::new(Some(config)),
        }
    }

    /// Returns the configuration of a lookup of records of this type. Fails if a file of the system
    /// cannot be read.
    ///
    /// ```
    /// # use onionskin::{Error, Runtime};
    /// use onionskin::dns::{BuiltInResolver, RecordKind};
    ///
    /// # fn example<R: Runtime>(resolver: BuiltInResolver<R>) -> Result<(), Error> {
    /// for server in resolver.config(RecordKind::Srv)?.name_servers {
    ///     println!("{server}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn config(&self, kind: RecordKind) -> Result<ResolverConfig, Error> {
        match &self.config {
            Some(config) => Ok(config.clone()),
            None => system_config(kind),
        }
    }
}

impl<R: Runtime> Resolver for BuiltInResolver<R> {
    fn look_up(&self, query: &DnsQuery) -> ResolverFuture<'_> {
        let (runtime, query) = (&self.runtime, query.clone());
        let now = || since(runtime, Duration::ZERO);
        Box::pin(self.stub.look_up(runtime, now, query, LIMIT))
    }
}
