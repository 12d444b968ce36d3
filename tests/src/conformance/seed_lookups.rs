//! Tests of `mongodb+srv` connection strings that are resolved before their client exists.

use super::{
    Host, find,
    seed_lists::{SRV_NAME, name_server_of},
    server::Server,
    until, within,
};
use crate::name_server::NameServer;
use onionskin::{
    Client, ClientBuilder, HostResolver, Resolver, ResolverFuture, Runtime,
    dns::{DnsAnswer, DnsData, DnsQuery, RecordKind, ResolverConfig},
    error::{Argument, DnsFailure, ErrorKind},
};
use std::{
    future::{Future, poll_fn},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

/// Returns a builder of a client that asks this name server.
fn builder_of<H: Host>(names: &NameServer, options: &str) -> ClientBuilder<H::R> {
    H::builder(&format!("mongodb+srv://c.db.test/?tls=false{options}"))
        .expect("a connection string")
        .resolver_config(ResolverConfig::new([names.address()]))
        .host_resolver(HostResolver::Client)
}

fn warnings_of<H: Host>(client: &Client<H::R>) -> Vec<String> {
    let warnings = client.warnings();
    warnings.iter().map(ToString::to_string).collect()
}

/// The hosts of a resolved builder are those of the SRV records, and its client does not look the
/// records up again before their time to live has passed.
pub async fn a_builder_is_resolved_before_its_client_is_built<H: Host>() {
    let server = Server::plain::<H>();
    let names = name_server_of::<H>(&server);
    names
        .records()
        .set_txt("c.db.test", &[&["loadBalanced=maybe"]]);
    let builder = builder_of::<H>(&names, "&tsl=1").resolve().await;
    let client = builder.expect("records").build().expect("a client");
    let hosts: Vec<_> = client
        .options()
        .hosts()
        .iter()
        .map(|host| host.host().to_owned())
        .collect();
    assert_eq!(hosts, ["a.db.test"]);
    let expected = [
        "option \"tsl\" is not known and was ignored; did you mean tls?",
        "option loadBalanced is ignored: it takes true or false",
    ];
    assert_eq!(warnings_of::<H>(&client), expected);
    find(&client, 1).await.expect("a reply");
    let srv = format!("udp SRV {SRV_NAME}.");
    let queries = names.queries();
    assert_eq!(
        queries.iter().filter(|query| **query == srv).count(),
        1,
        "{queries:?}"
    );
    within::<H, _>(H::SLACK, "shutdown", client.shutdown()).await;
}

/// Without `resolve`, the warnings about the TXT record are there after the first operation.
pub async fn a_client_that_looks_its_txt_record_up_has_the_warnings_about_it<H: Host>() {
    let server = Server::plain::<H>();
    let names = name_server_of::<H>(&server);
    names
        .records()
        .set_txt("c.db.test", &[&["loadBalanced=maybe"]]);
    let client = builder_of::<H>(&names, "").build().expect("a client");
    find(&client, 1).await.expect("a reply");
    let expected = ["option loadBalanced is ignored: it takes true or false"];
    assert_eq!(warnings_of::<H>(&client), expected);
    within::<H, _>(H::SLACK, "shutdown", client.shutdown()).await;
}

/// A failure of DNS is the error of `resolve`, and names the query and the name server. A builder
/// without a `mongodb+srv` string is resolved without a query.
pub async fn a_dns_failure_is_the_error_of_the_resolution<H: Host>() {
    let names = H::name_server();
    let error = builder_of::<H>(&names, "")
        .resolve()
        .await
        .err()
        .expect("no records");
    let is_expected = matches!(
        error.kind(),
        ErrorKind::DnsResolve {
            failure: DnsFailure::NoSuchName,
            ..
        }
    );
    assert!(is_expected, "{error:?}");
    let text = error.to_string();
    assert!(
        text.contains(SRV_NAME) && text.contains(&names.address().to_string()),
        "{text}"
    );

    let outside = &[("a.evil.test", 27017)];
    names
        .records()
        .set_srv("_mongodb._tcp.c.sub.db.test", 60, outside);
    let builder = H::builder("mongodb+srv://c.sub.db.test").expect("a connection string");
    let builder = builder.resolver_config(ResolverConfig::new([names.address()]));
    let error = builder.resolve().await.err().expect("a host outside");
    assert!(
        matches!(
            error.kind(),
            ErrorKind::InvalidArgument {
                argument: Argument::Uri(_),
                ..
            }
        ),
        "{error:?}"
    );

    let asked = names.queries().len();
    let builder = H::builder("mongodb://localhost").expect("a connection string");
    let builder = builder.resolver_config(ResolverConfig::new([names.address()]));
    assert!(builder.resolve().await.is_ok());
    assert_eq!(names.queries().len(), asked);
}

/// A resolution ends at `connectTimeoutMS`, and when its future is dropped.
pub async fn a_resolution_ends_at_its_limit_or_with_its_future<H: Host>() {
    let silent = H::name_server();
    silent.records().set_silent(true);
    let limit = Duration::from_millis(300) + H::SLACK;
    let resolution = builder_of::<H>(&silent, "&connectTimeoutMS=300").resolve();
    let error = within::<H, _>(limit, "the limit", resolution).await;
    let text = error.err().expect("no answer").to_string();
    assert!(text.contains("no answer within 300 ms"), "{text}");

    let (asked, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let resolver = Unanswered(asked.clone(), ended.clone());
    let builder = H::builder("mongodb+srv://c.db.test").expect("a connection string");
    {
        let mut resolution = pin!(builder.resolver(resolver).resolve());
        let mut begun = pin!(until::<H>("both lookups", || asked.load(Ordering::SeqCst) == 2));
        poll_fn(|context| {
            assert!(resolution.as_mut().poll(context).is_pending());
            begun.as_mut().poll(context)
        })
        .await;
    }
    until::<H>("the end of both lookups", || {
        ended.load(Ordering::SeqCst) == 2
    })
    .await;
}

/// The addresses of a family that are known late are dialled too, if those of the other family
/// refuse connections (RFC 8305 section 3).
pub async fn addresses_that_are_known_late_are_dialled_too<H: Host>() {
    let server = Server::plain::<H>();
    let uri = format!("mongodb://late.db.test:{}/", server.port());
    let builder = H::builder(&uri).expect("a connection string");
    let builder = builder.host_resolver(HostResolver::Client);
    let client = builder.resolver(LateIpv4(H::runtime())).build();
    let client = client.expect("a client");
    find(&client, 1).await.expect("a reply");
    within::<H, _>(H::SLACK, "shutdown", client.shutdown()).await;
}

/// A resolver that knows an IPv6 address at once, and an IPv4 address later.
struct LateIpv4<R>(R);

impl<R: Runtime> Resolver for LateIpv4<R> {
    fn look_up(&self, query: &DnsQuery) -> ResolverFuture<'_> {
        let address: IpAddr = match query.kind {
            RecordKind::Aaaa => Ipv6Addr::LOCALHOST.into(),
            _ => Ipv4Addr::LOCALHOST.into(),
        };
        let delay = match address.is_ipv4() {
            true => Duration::from_millis(300),
            false => Duration::ZERO,
        };
        Box::pin(async move {
            self.0.sleep(delay).await;
            let records = vec![DnsData::Address(address)];
            Ok(DnsAnswer { records, ttl: None })
        })
    }
}

/// A resolver that never answers, and counts the lookups that have begun and those that have ended.
struct Unanswered(Arc<AtomicUsize>, Arc<AtomicUsize>);

/// A lookup of [`Unanswered`].
struct Lookup(Arc<AtomicUsize>);

impl Future for Lookup {
    type Output = Result<DnsAnswer, onionskin::Error>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Pending
    }
}

impl Drop for Lookup {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Resolver for Unanswered {
    fn look_up(&self, _: &DnsQuery) -> ResolverFuture<'_> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(Lookup(self.1.clone()))
    }
}
