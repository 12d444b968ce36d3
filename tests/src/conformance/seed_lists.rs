//! Tests of `mongodb+srv` connection strings with a name server.

use super::{
    Host, find, impatient,
    server::{Server, answer, hello},
    until, within,
};
use crate::name_server::NameServer;
use bson::doc;
use onionskin::{
    Client, HostResolver, Resolver, ResolverFuture,
    dns::{DnsAnswer, DnsData, DnsQuery, RecordKind, ResolverConfig},
    error::{DnsFailure, ErrorKind},
};
use std::{
    future::Future,
    net::Ipv4Addr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

pub(super) const SRV_NAME: &str = "_mongodb._tcp.c.db.test";

/// Returns a client that asks these name servers only.
fn client_of<H: Host>(servers: &[&NameServer], options: &str) -> Client<H::R> {
    let config = ResolverConfig::new(servers.iter().map(|server| server.address()));
    H::builder(&format!("mongodb+srv://c.db.test/?tls=false{options}"))
        .expect("a connection string")
        .resolver_config(config)
        .host_resolver(HostResolver::Client)
        .build()
        .expect("a client")
}

/// Returns a name server with one host, which is this server.
pub(super) fn name_server_of<H: Host>(server: &Server) -> NameServer {
    let names = H::name_server();
    names
        .records()
        .set_srv(SRV_NAME, 60, &[("a.db.test", server.port())]);
    names
        .records()
        .set_addresses("a.db.test", &[Ipv4Addr::LOCALHOST]);
    names
}

/// The client looks up SRV, TXT and address records over UDP, and runs operations on the host that
/// they name.
pub async fn a_seed_list_is_looked_up_over_udp<H: Host>() {
    let server = Server::plain::<H>();
    let names = name_server_of::<H>(&server);
    let client = client_of::<H>(&[&names], "");
    find(&client, 1).await.expect("a reply");
    let queries = names.queries();
    for expected in [
        "udp SRV _mongodb._tcp.c.db.test.",
        "udp TXT c.db.test.",
        "udp A a.db.test.",
        "udp AAAA a.db.test.",
    ] {
        assert!(queries.contains(&expected.to_owned()), "{queries:?}");
    }
    within::<H, _>(H::SLACK, "shutdown", client.shutdown()).await;
}

/// If one address of a host refuses connections, the next address is used.
pub async fn a_host_is_reached_at_its_second_address<H: Host>() {
    let server = Server::plain::<H>();
    let names = name_server_of::<H>(&server);
    let addresses = [Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::LOCALHOST];
    names.records().set_addresses("a.db.test", &addresses);
    let client = client_of::<H>(&[&names], "");
    find(&client, 1).await.expect("a reply");
    within::<H, _>(H::SLACK, "shutdown", client.shutdown()).await;
}

/// A reply that is truncated over UDP is asked for again over TCP. The options of the TXT record
/// apply.
pub async fn a_truncated_reply_is_read_over_tcp<H: Host>() {
    let server = Server::scripted::<H>(|request| {
        if !request.is_hello() {
            return answer(request);
        }
        let mut reply = hello(request.connection);
        reply.extend(doc! { "setName": "another set", "hosts": ["a.db.test"] });
        request.reply(&reply)
    });
    let names = name_server_of::<H>(&server);
    names
        .records()
        .set_txt("c.db.test", &[&["replica", "Set=rs0"]]);
    names.records().set_truncating(true);
    let client = client_of::<H>(&[&names], &format!("&{}", impatient::<H>("")));
    let error = find(&client, 1).await.expect_err("a wrong set name");
    assert!(error.to_string().contains("rs0"), "{error}");
    let queries = names.queries();
    for transport in ["udp", "tcp"] {
        let expected = format!("{transport} TXT c.db.test.");
        assert!(queries.contains(&expected), "{queries:?}");
    }
    within::<H, _>(H::SLACK, "shutdown", client.shutdown()).await;
}

/// A host without SRV records fails the operation, and the error names the query and the name
/// server. After the records are there, the next operation succeeds.
pub async fn a_missing_seed_list_fails_only_operations_that_wait<H: Host>() {
    let server = Server::plain::<H>();
    let names = H::name_server();
    let client = client_of::<H>(&[&names], "");
    let error = find(&client, 1).await.expect_err("no records");
    let is_expected = matches!(
        error.kind(),
        ErrorKind::DnsResolve {
            failure: DnsFailure::NoSuchName,
            ..
        }
    );
    assert!(is_expected, "{error:?}");
    let text = error.to_string();
    assert!(text.contains(SRV_NAME), "{text}");
    assert!(text.contains(&names.address().to_string()), "{text}");
    names
        .records()
        .set_srv(SRV_NAME, 60, &[("a.db.test", server.port())]);
    names
        .records()
        .set_addresses("a.db.test", &[Ipv4Addr::LOCALHOST]);
    find(&client, 1).await.expect("a reply");
    within::<H, _>(H::SLACK, "shutdown", client.shutdown()).await;
}

/// If the first name server does not answer, the second one is asked.
pub async fn a_silent_name_server_is_passed_over<H: Host>() {
    let server = Server::plain::<H>();
    let (silent, names) = (H::name_server(), name_server_of::<H>(&server));
    silent.records().set_silent(true);
    let options = format!("&connectTimeoutMS={}", 4 * H::LIMIT.as_millis());
    let client = client_of::<H>(&[&silent, &names], &options);
    within::<H, _>(H::WAIT_LIMIT, "a reply", find(&client, 1))
        .await
        .expect("a reply");
    assert!(!silent.queries().is_empty());
    within::<H, _>(H::SLACK, "shutdown", client.shutdown()).await;
}

/// If no name server answers, operations fail after `connectTimeoutMS`. A shutdown does not wait
/// for a lookup.
pub async fn a_lookup_without_an_answer_fails_after_the_connect_timeout<H: Host>() {
    let silent = H::name_server();
    silent.records().set_silent(true);
    let client = client_of::<H>(&[&silent], "&connectTimeoutMS=300");
    let limit = Duration::from_millis(300) + H::SLACK;
    let error = within::<H, _>(limit, "the limit", find(&client, 1)).await;
    let text = error.expect_err("no answer").to_string();
    assert!(text.contains("no answer within 300 ms"), "{text}");
    within::<H, _>(H::SLACK, "shutdown", client.shutdown()).await;
    let client = client_of::<H>(&[&silent], "&serverSelectionTimeoutMS=50");
    let before = silent.queries().len();
    let error = within::<H, _>(H::SLACK, "the limit", find(&client, 1)).await;
    let text = error.expect_err("no answer").to_string();
    assert!(text.contains("SRV and TXT records"), "{text}");
    until::<H>("the queries", || silent.queries().len() >= before + 2).await;
    within::<H, _>(H::SLACK, "shutdown", client.shutdown()).await;
}

/// Answers with one host, whose port it knows.
struct OneHost(u16);

impl Resolver for OneHost {
    fn look_up(&self, query: &DnsQuery) -> ResolverFuture<'_> {
        let kind = query.kind;
        Box::pin(async move {
            let data = match kind {
                RecordKind::Srv => DnsData::Service {
                    host: "a.db.test".to_owned(),
                    port: self.0,
                },
                RecordKind::A => DnsData::Address(Ipv4Addr::LOCALHOST.into()),
                RecordKind::Aaaa | RecordKind::Txt => {
                    let (failure, message) = (DnsFailure::NoRecords, "none".to_owned());
                    return Err(ErrorKind::DnsResolve { failure, message }.into());
                }
            };
            Ok(DnsAnswer {
                records: vec![data],
                ttl: None,
            })
        })
    }
}

/// The application's resolver replaces the built-in one.
pub async fn the_resolver_of_the_application_is_used<H: Host>() {
    let server = Server::plain::<H>();
    let client = H::builder("mongodb+srv://c.db.test/?tls=false")
        .expect("a connection string")
        .resolver(OneHost(server.port()))
        .host_resolver(HostResolver::Client)
        .build()
        .expect("a client");
    find(&client, 1).await.expect("a reply");
    within::<H, _>(H::SLACK, "shutdown", client.shutdown()).await;
}

/// A resolver that panics or never answers.
#[derive(Clone, Copy)]
enum BadResolver {
    PanicsAtOnce,
    PanicsLater,
    PanicsWhenDropped,
    NeverAnswers,
}

/// A future that panics when it is dropped, and never completes.
struct PanicOnDrop;

impl Future for PanicOnDrop {
    type Output = Result<DnsAnswer, onionskin::Error>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Pending
    }
}

impl Drop for PanicOnDrop {
    fn drop(&mut self) {
        panic!("the drop of a lookup panics");
    }
}

impl Resolver for BadResolver {
    fn look_up(&self, _: &DnsQuery) -> ResolverFuture<'_> {
        match self {
            Self::PanicsAtOnce => panic!("the call of the resolver panics"),
            Self::PanicsLater => Box::pin(async { panic!("the lookup panics") }),
            Self::PanicsWhenDropped => Box::pin(PanicOnDrop),
            Self::NeverAnswers => Box::pin(std::future::pending()),
        }
    }
}

/// A resolver of the application that panics or never answers fails the operations that wait, and a
/// shutdown does not wait for it.
pub async fn a_bad_resolver_of_the_application_fails_only_its_lookups<H: Host>() {
    for (resolver, expected) in [
        (BadResolver::PanicsAtOnce, "panicked"),
        (BadResolver::PanicsLater, "panicked"),
        (
            BadResolver::PanicsWhenDropped,
            "gave no answer within 200 ms",
        ),
        (BadResolver::NeverAnswers, "gave no answer within 200 ms"),
    ] {
        let client = H::builder("mongodb+srv://c.db.test/?tls=false&connectTimeoutMS=200")
            .expect("a connection string")
            .resolver(resolver)
            .build()
            .expect("a client");
        for _ in 0..2 {
            let limit = Duration::from_millis(200) + H::SLACK;
            let result = within::<H, _>(limit, "the lookup", find(&client, 1)).await;
            let text = result.expect_err("no answer").to_string();
            assert!(text.contains(expected), "{text}");
        }
        within::<H, _>(H::SLACK, "shutdown", client.shutdown()).await;
    }
}

/// With the resolver of the client, IP addresses in a connection string are not looked up.
pub async fn ip_addresses_are_not_looked_up<H: Host>() {
    let server = Server::plain::<H>();
    let client = H::builder(&server.uri(""))
        .expect("a connection string")
        .resolver(BadResolver::PanicsAtOnce)
        .host_resolver(HostResolver::Client)
        .build()
        .expect("a client");
    find(&client, 1).await.expect("a reply");
    within::<H, _>(H::SLACK, "shutdown", client.shutdown()).await;
}
