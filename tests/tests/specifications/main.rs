//! The official tests that need no client. There is one test for each suite, with the name of its
//! folder.

mod pool;
mod selection;
mod uri;

use onionskin_tests::suites;

#[test]
fn auth() {
    uri::auth();
}

#[test]
fn connection_monitoring_and_pooling() {
    pool::run_suite();
}

#[test]
fn connection_string() {
    uri::connection_string();
}

#[test]
fn initial_dns_seedlist_discovery() {
    suites::initial_dns_seedlist_discovery::run();
}

#[test]
fn max_staleness() {
    selection::max_staleness();
}

#[test]
fn read_write_concern() {
    uri::read_write_concern();
}

#[test]
fn server_discovery_and_monitoring() {
    suites::server_discovery_and_monitoring::run();
}

#[test]
fn server_selection() {
    selection::server_selection();
}

#[test]
fn uri_options() {
    uri::uri_options();
}
