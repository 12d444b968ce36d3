//! The resolvers of DNS queries: the application's own, and the stub resolver of the core.

use onionskin_core::{
    dns::{DnsAnswer, DnsQuery},
    error::Error,
    options::ClientOptions,
};
use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

/// A resolver of DNS queries, which an application can bring instead of the built-in one
/// ([`ClientBuilder::resolver`](crate::ClientBuilder::resolver)).
///
/// The futures run in tasks of the client, so they must not block. Answers are not cached by the
/// client. Host names in answers have no dot at their end.
///
/// ```
/// use onionskin::{
///     Resolver, ResolverFuture,
///     dns::{DnsAnswer, DnsData, DnsQuery, RecordKind},
///     error::{DnsFailure, ErrorKind},
/// };
///
/// /// Answers from a fixed table.
/// struct Fixed;
///
/// impl Resolver for Fixed {
///     fn look_up(&self, query: &DnsQuery) -> ResolverFuture<'_> {
///         let is_srv = query.kind == RecordKind::Srv;
///         Box::pin(async move {
///             if !is_srv {
///                 let message = "the table has no TXT records".to_owned();
///                 let failure = DnsFailure::NoRecords;
///                 return Err(ErrorKind::DnsResolve { failure, message }.into());
///             }
///             let host = DnsData::Service { host: "db1.example.net".to_owned(), port: 27017 };
///             Ok(DnsAnswer { records: vec![host], ttl: None })
///         })
///     }
/// }
/// ```
pub trait Resolver: Send + Sync + 'static {
    /// Looks up DNS records. The client drops the future after `connectTimeoutMS`.
    ///
    /// Fails with [`ErrorKind::DnsResolve`](crate::error::ErrorKind::DnsResolve). The failures
    /// [`NoSuchName`](crate::error::DnsFailure::NoSuchName) and
    /// [`NoRecords`](crate::error::DnsFailure::NoRecords) of a TXT query mean that the host has no
    /// TXT record, which is permitted.
    fn look_up(&self, query: &DnsQuery) -> ResolverFuture<'_>;
}

/// The future of [`Resolver::look_up`].
pub type ResolverFuture<'a> = Pin<Box<dyn Future<Output = Result<DnsAnswer, Error>> + Send + 'a>>;

/// The resolver of the host names of servers. The records of a `mongodb+srv` connection string are
/// always looked up by the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostResolver {
    /// The resolver of the operating system, which follows the whole configuration of the machine.
    /// This is the default.
    #[default]
    System,
    /// The resolver of the client: the application's [`Resolver`], or the built-in one with its
    /// name servers and hosts file. IP addresses and `localhost` need no resolver.
    Client,
}

/// The resolvers of one client.
#[derive(Clone, Default)]
pub(crate) struct Resolvers {
    /// The resolver of the application; `None` if the built-in one is used.
    pub(crate) application: Option<Arc<dyn Resolver>>,
    /// The resolver of the host names of servers.
    pub(crate) hosts: HostResolver,
    /// The time limit of the lookup of a host: `connectTimeoutMS`; `None` for no limit.
    pub(crate) limit: Option<Duration>,
    #[cfg(feature = "dns")]
    pub(crate) stub: Arc<stub::StubResolver>,
}

impl Resolvers {
    /// Fails if the client needs a resolver and has none, because it was built without the feature
    /// `dns`.
    pub(crate) fn check(&self, options: &ClientOptions) -> Result<(), Error> {
        let is_needed = options.srv_host.as_deref().is_some() || self.hosts == HostResolver::Client;
        if cfg!(feature = "dns") || self.application.is_some() || !is_needed {
            return Ok(());
        }
        let message = "there is no resolver: enable the feature `dns` of onionskin, or set a \
                       resolver of the application";
        Err(Error::invalid_option("mongodb+srv", message))
    }
}

impl fmt::Debug for Resolvers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let application = self.application.as_ref().map(|_| "..");
        f.debug_struct("Resolvers")
            .field("application", &application)
            .finish_non_exhaustive()
    }
}

#[cfg(feature = "dns")]
pub(crate) mod built_in;
#[cfg(feature = "dns")]
pub(crate) mod stub;
