//! The prose tests of the specification `Initial DNS Seedlist Discovery`, by number. Their resolver
//! is stubbed: it answers each SRV query with one host.

use super::*;
use crate::error::Argument;

/// Looks up `host` with a resolver that names `target`. Returns the hosts of the topology or the
/// error of the operation that waits.
fn looked_up(host: &str, target: &str) -> Result<Vec<String>, Error> {
    looked_up_by(&format!("mongodb+srv://{host}/?tls=false"), target)
}

fn looked_up_by(uri: &str, target: &str) -> Result<Vec<String>, Error> {
    let mut world = World::srv_world(uri);
    let waiting = world.ping().expect("it waits");
    let host = target.to_owned();
    let record = DnsData::Service { host, port: 27017 };
    let records = vec![record];
    world.answer_seeds(Ok(DnsAnswer { records, ttl: None }), no_text());
    let servers = world.client.topology().servers.keys();
    let known: Vec<String> = servers.map(|address| address.host().to_owned()).collect();
    if known.is_empty() {
        assert!(world.dialled.is_empty(), "no host is contacted (DNS-21)");
        return Err(world.error_of(waiting));
    }
    Ok(known)
}

/// Fails unless the lookup fails at run time, with an error that names the target.
fn fails_at_run_time(rows: &[(&str, &str)]) {
    for (host, target) in rows {
        let error = looked_up(host, target).expect_err("it must not be used");
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
        assert!(error.to_string().contains(target), "{error}");
    }
}

#[test]
fn prose_1_a_host_with_fewer_than_three_labels_is_allowed() {
    // DNS-5.
    for (host, target) in [
        ("localhost", "a.localhost"),
        ("mongo.local", "a.mongo.local"),
    ] {
        assert_eq!(looked_up(host, target).expect("it is allowed"), [target]);
    }
}

#[test]
fn prose_2_a_returned_host_must_end_with_the_domain() {
    // DNS-19, DNS-20.
    fails_at_run_time(&[
        ("localhost", "localhost.mongodb"),
        ("mongo.local", "test_1.evil.local"),
        ("blogs.mongodb.com", "blogs.evil.com"),
    ]);
}

#[test]
fn prose_3_a_returned_host_must_differ_from_a_short_host() {
    // DNS-20.
    fails_at_run_time(&[("localhost", "localhost"), ("mongo.local", "mongo.local")]);
}

#[test]
fn prose_4_a_returned_host_must_have_a_dot_before_the_domain() {
    // DNS-19.
    fails_at_run_time(&[
        ("localhost", "test_1.cluster_1localhost"),
        ("mongo.local", "test_1.my_hostmongo.local"),
        ("blogs.mongodb.com", "cluster.testmongodb.com"),
    ]);
}

#[test]
fn the_hosts_of_srv_records_lie_under_the_allowed_suffix() {
    // DNS-42, prose 10 and 12.
    for (host, suffix, target, found) in [
        (
            "blogs.mongodb.com",
            ".mongodb.com",
            "CLUSTER.MONGODB.COM.",
            true,
        ),
        ("a.b.example.com", "EXAMPLE.com.", "db.example.com", true),
        (
            "a.b.example.com",
            ".c.example.com",
            "db.c.example.com",
            true,
        ),
        (
            "a.b.example.com",
            ".c.example.com",
            "db.b.example.com",
            false,
        ),
        ("a.b.example.com", "ample.com", "db.example.com", false),
        ("a.b.example.com", "example.com", "example.com", false),
        (
            "cluster.localhost",
            "localhost",
            "db.cluster.localhost",
            true,
        ),
        ("mongo.local", "mongo.local", "mongo.local", false),
    ] {
        let uri = format!("mongodb+srv://{host}/?tls=false&srvAllowedHostsSuffix={suffix}");
        let name = target.trim_end_matches('.').to_ascii_lowercase();
        match looked_up_by(&uri, target) {
            Ok(hosts) => assert!(found && hosts == [name], "{uri} {hosts:?}"),
            Err(error) => assert!(!found && error.to_string().contains(&name), "{uri} {error}"),
        }
    }
}
