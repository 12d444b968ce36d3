//! The official tests in the unified format, run on the simulated deployment in virtual time.

mod arm;
mod clients;
mod cuts;
mod entities;
mod errors;
mod events;
mod file;
mod matching;
mod operations;
mod setting;
mod skips;
mod special;
mod stage;
mod suite;
mod transactions;
mod unsupported;
mod watch;

use suite::{Expected, Suited};

/// Declares the test of a suite: its name, its title, its folders below `source`, and what its
/// tests are expected to do.
macro_rules! suites {
    ($($name:ident: $title:literal, [$($folder:literal),+] $(, $expected:ident)?;)+) => {$(
        #[test]
        fn $name() {
            let expected = [$(Expected::$expected,)? Expected::Pass][0];
            let (title, folders) = ($title, &[$($folder),+]);
            Suited { title, folders, expected }.run();
        }
    )+};
}

suites! {
    auth: "auth", ["auth/tests/unified"];
    causal_consistency: "causal-consistency", ["causal-consistency/tests"];
    change_streams: "change-streams", ["change-streams/tests/unified"];
    client_backpressure: "client-backpressure", ["client-backpressure/tests"];
    client_side_operations_timeout: "client-side-operations-timeout",
        ["client-side-operations-timeout/tests"];
    collection_management: "collection-management", ["collection-management/tests"];
    command_logging_and_monitoring: "command-logging-and-monitoring",
        ["command-logging-and-monitoring/tests"];
    connection_monitoring_and_pooling: "connection-monitoring-and-pooling",
        ["connection-monitoring-and-pooling/tests/logging"];
    crud: "crud", ["crud/tests/unified"];
    gridfs: "gridfs", ["gridfs/tests"];
    index_management: "index-management", ["index-management/tests"];
    load_balancers: "load-balancers", ["load-balancers/tests"];
    mongodb_handshake: "mongodb-handshake", ["mongodb-handshake/tests/unified"];
    read_write_concern: "read-write-concern", ["read-write-concern/tests/operation"];
    retryable_reads: "retryable-reads", ["retryable-reads/tests/unified"];
    retryable_writes: "retryable-writes", ["retryable-writes/tests/unified"];
    run_command: "run-command", ["run-command/tests/unified"];
    server_discovery_and_monitoring: "server-discovery-and-monitoring",
        ["server-discovery-and-monitoring/tests/unified"];
    server_selection: "server-selection", ["server-selection/tests/logging"];
    sessions: "sessions", ["sessions/tests"];
    transactions: "transactions", ["transactions/tests/unified"];
    transactions_convenient_api: "transactions-convenient-api",
        ["transactions-convenient-api/tests/unified"];
    invalid: "unified-test-format/invalid", ["unified-test-format/tests/invalid"], Refusal;
    valid_fail: "unified-test-format/valid-fail", ["unified-test-format/tests/valid-fail"], Fail;
    valid_pass: "unified-test-format/valid-pass", ["unified-test-format/tests/valid-pass"];
    versioned_api: "versioned-api", ["versioned-api/tests"];
}

/// Each operation meets one connection that breaks, before or after its command has arrived. A
/// retry must hide that.
#[test]
fn operations_have_the_same_results_when_connections_break() {
    let folders = [
        "change-streams/tests/unified",
        "collection-management/tests",
        "crud/tests/unified",
        "gridfs/tests",
        "index-management/tests",
        "read-write-concern/tests/operation",
        "sessions/tests",
        "transactions/tests/unified",
        "transactions-convenient-api/tests/unified",
        "versioned-api/tests",
    ];
    cuts::play(&folders);
}

/// The same seed gives the same events, messages and times.
#[test]
fn tests_are_deterministic() {
    suite::play_twice("sessions/tests");
    suite::play_twice("server-discovery-and-monitoring/tests/unified");
}
