//! Tests of the code that starts peers: FerretDB starts with each of its options, and each of the
//! other drivers works with it.

use std::process::Command;
use std::time::Duration;

use onionskin_tests::peers::{self, FerretDb, Output, Peer};

/// The time limit of one run of a driver.
const RUN_TIMEOUT: Duration = Duration::from_secs(150);

/// A Python program that writes one document and reads it back. The argument of the program is the
/// URI.
const PYMONGO_ROUND_TRIP: &str = "
import sys, pymongo
client = pymongo.MongoClient(sys.argv[1], serverSelectionTimeoutMS=int(sys.argv[2]))
assert client.admin.command('ping')['ok'] == 1
collection = client.onionskin_peers.pymongo
collection.insert_one({'_id': 1, 'text': 'written'})
print(collection.find_one({'_id': 1})['text'])
";

/// Runs the round trip with this time limit in milliseconds for the selection of a server.
fn pymongo_round_trip(uri: &str, limit: u32) -> Option<Output> {
    let mut command = Command::new(peers::python_with_pymongo()?);
    command.args(["-c", PYMONGO_ROUND_TRIP, uri, &limit.to_string()]);
    Some(peers::run(command, RUN_TIMEOUT).expect("python runs"))
}

fn assert_round_trip(server: &Peer) {
    let Some(output) = pymongo_round_trip(server.uri(), 10_000) else {
        return;
    };
    assert!(output.status.success(), "{output:?}\n{}", server.log());
    assert_eq!(output.stdout, "written\n");
}

fn assert_driver_succeeded(output: &Output, server: &Peer) {
    assert!(output.status.success(), "{output:?}\n{}", server.log());
    assert!(output.stdout.contains("\"ok\":true"), "{output:?}");
    assert!(output.stdout.contains("\"acknowledged\":200"), "{output:?}");
}

#[test]
fn pymongo_writes_and_reads_on_ferretdb() {
    let Some(server) = peers::ferretdb(FerretDb::default()).unwrap() else {
        return;
    };
    assert_round_trip(&server);
}

#[test]
fn ferretdb_with_authentication_refuses_wrong_or_missing_credentials() {
    let options = FerretDb::default().with_authentication();
    let Some(server) = peers::ferretdb(options).unwrap() else {
        return;
    };
    assert_round_trip(&server);
    for (right, wrong) in [("pencil", "chalk"), ("onionskin:pencil@", "")] {
        let uri = server.uri().replace(right, wrong);
        let Some(output) = pymongo_round_trip(&uri, 10_000) else {
            return;
        };
        assert!(!output.status.success(), "{uri} was let in: {output:?}");
    }
}

#[test]
fn ferretdb_with_tls_refuses_clients_without_a_certificate() {
    let options = FerretDb::default().with_tls();
    let Some(server) = peers::ferretdb(options).unwrap() else {
        return;
    };
    assert_round_trip(&server);
    let (uri, _) = server
        .uri()
        .split_once("&tlsCertificateKeyFile")
        .expect("a client file");
    let Some(output) = pymongo_round_trip(uri, 1_500) else {
        return;
    };
    assert!(
        !output.status.success(),
        "a client without a certificate was let in: {output:?}"
    );
}

#[test]
fn the_official_driver_works_with_ferretdb() {
    let Some(binary) = peers::official_driver_binary() else {
        return;
    };
    // The server requires no authentication. In SCRAM, FerretDB answers the client proof with
    // `done: false` and expects an empty exchange, which the official driver treats as a failure.
    let options = FerretDb::default().with_tls();
    let Some(server) = peers::ferretdb(options).unwrap() else {
        return;
    };
    let mut command = Command::new(binary);
    command.args([server.uri(), "--without-step-down"]);
    assert_driver_succeeded(&peers::run(command, RUN_TIMEOUT).unwrap(), &server);
}

#[test]
fn the_node_driver_works_with_ferretdb() {
    let Some(script) = peers::node_driver_script() else {
        return;
    };
    let options = FerretDb::default().with_tls().with_authentication();
    let Some(server) = peers::ferretdb(options).unwrap() else {
        return;
    };
    let mut command = Command::new("node");
    command
        .arg(script)
        .args([server.uri(), "--without-step-down"]);
    assert_driver_succeeded(&peers::run(command, RUN_TIMEOUT).unwrap(), &server);
}

#[test]
fn a_driver_program_reports_failure_if_authentication_fails() {
    let options = FerretDb::default().with_authentication();
    let Some(server) = peers::ferretdb(options).unwrap() else {
        return;
    };
    let uri = server.uri().replace("pencil", "chalk");
    let Some(binary) = peers::official_driver_binary() else {
        return;
    };
    let mut official = Command::new(binary);
    official.args([uri.as_str(), "--without-step-down"]);
    let Some(script) = peers::node_driver_script() else {
        return;
    };
    let mut node = Command::new("node");
    node.arg(script).args([uri.as_str(), "--without-step-down"]);
    for command in [official, node] {
        let output = peers::run(command, RUN_TIMEOUT).unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(output.stdout.contains("\"ok\":false"), "{output:?}");
    }
}
