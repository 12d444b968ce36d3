//! The official tests, one test for each suite, named as its folder.

use onionskin_tests::suites;

#[test]
fn server_discovery_and_monitoring() {
    suites::server_discovery_and_monitoring::run();
}
