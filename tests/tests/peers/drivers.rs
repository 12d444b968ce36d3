//! Tests of `onionskin serve` with other drivers: they show that the simulated deployment behaves
//! like a server for drivers that other people wrote.
//!
//! Most tests start the programs in `tests/peers`, which check the results. A driver writes while
//! the primary steps down, and then reads every acknowledged document. Other tests are about
//! authentication, TLS and load balancers.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use onionskin_tests::peers::{self, Output, Peer, ProxyProtocol};

/// The time limit of one run of a driver.
const RUN_TIMEOUT: Duration = Duration::from_secs(60);

/// The arguments of `onionskin serve` for each kind of deployment: with and without authentication
/// and TLS.
const SERVED: [&[&str]; 4] = [
    &[],
    &["--auth", "ada:pen/cil:@"],
    &["--tls"],
    &["--tls", "--auth", "ada:pen/cil:@"],
];

/// Starts a replica set of three members.
fn serve_replica_set(more: &[&str]) -> Peer {
    let set = ["--replica-set", "rs0", "--members", "3"];
    peers::serve(set.iter().chain(more).copied()).expect("onionskin serve starts")
}

/// Runs the driver against a new deployment of each kind. `check_output` checks the output of the
/// driver.
fn follow_step_downs(driver: impl Fn(&str) -> Command, check_output: impl Fn(&Output)) {
    for more in SERVED {
        let server = serve_replica_set(more);
        let output = peers::run(driver(server.uri()), RUN_TIMEOUT).expect("the driver runs");
        assert!(
            output.status.success(),
            "served with {more:?}: {output:?}\n{}",
            server.log()
        );
        check_output(&output);
    }
}

/// Checks the report of the official and of the Node.js driver: all inserts before, during and
/// after the step-down were found.
fn assert_all_inserts_found(output: &Output) {
    assert!(
        output.stdout.contains("\"stepped_down\":true"),
        "{output:?}"
    );
    assert!(output.stdout.contains("\"acknowledged\":300"), "{output:?}");
    assert!(output.stdout.contains("\"read\":300"), "{output:?}");
}

fn python(interpreter: &Path, uri: &str) -> Command {
    python_script(interpreter, "follow_step_down.py", uri)
}

fn python_script(interpreter: &Path, name: &str, uri: &str) -> Command {
    let mut command = python_program(interpreter, name);
    command.arg(uri);
    command
}

fn python_program(interpreter: &Path, name: &str) -> Command {
    let scripts = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/pymongo");
    let mut command = Command::new(interpreter);
    command.arg(Path::new(scripts).join(name));
    command
}

#[test]
fn pymongo_follows_a_step_down() {
    let Some(interpreter) = peers::python_with_pymongo() else {
        return;
    };
    follow_step_downs(
        |uri| python(&interpreter, uri),
        |output| {
            for check in ["new_primary", "each_write_once", "all_writes_acknowledged"] {
                let line = format!("\"{check}\": true");
                assert!(output.stdout.contains(&line), "{output:?}");
            }
        },
    );
}

#[test]
fn the_official_driver_follows_a_step_down() {
    let Some(binary) = peers::official_driver_binary() else {
        return;
    };
    let driver = |uri: &str| {
        let mut command = Command::new(&binary);
        command.arg(uri);
        command
    };
    follow_step_downs(driver, assert_all_inserts_found);
}

#[test]
fn the_node_driver_follows_a_step_down() {
    let Some(script) = peers::node_driver_script() else {
        return;
    };
    let driver = |uri: &str| {
        let mut command = Command::new("node");
        command.arg(&script).arg(uri);
        command
    };
    follow_step_downs(driver, assert_all_inserts_found);
}

/// The time for which a driver writes: the faults of each scenario end before.
const SCENARIO_SECONDS: &str = "10";

/// Runs a driver while the servers suffer from each scenario. No acknowledged write is lost.
fn follow_scenarios(driver: impl Fn() -> Command + Sync) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/scenarios");
    let run = |name: &str| {
        let file = folder.join(name).with_extension("toml");
        let file = file.to_str().expect("a path of text");
        let server = peers::serve(["--check", "--scenario", file]).expect("it starts");
        let mut command = driver();
        command.args([server.uri(), SCENARIO_SECONDS]);
        let output = peers::run(command, RUN_TIMEOUT).expect("the driver runs");
        let log = server.log();
        assert!(output.status.success(), "{name}: {output:?}\n{log}");
        assert!(log.contains("all faults end"), "{name}: {log}");
        println!("{name}: {}", output.stdout.trim_end());
    };
    std::thread::scope(|scope| {
        for name in ["failover", "rolling-restart", "partition"] {
            let run = &run;
            scope.spawn(move || run(name));
        }
    });
}

#[test]
fn pymongo_loses_no_write_in_a_scenario() {
    if let Some(interpreter) = peers::python_with_pymongo() {
        follow_scenarios(|| python_program(&interpreter, "follow_scenario.py"));
    }
}

#[test]
fn the_official_driver_loses_no_write_in_a_scenario() {
    if let Some(binary) = peers::official_driver_binary() {
        follow_scenarios(|| {
            let mut command = Command::new(&binary);
            command.arg("--scenario");
            command
        });
    }
}

#[test]
fn each_driver_authenticates_with_each_scram_mechanism() {
    let server = serve_replica_set(&["--auth", "ada:pencil"]);
    for mechanism in ["SCRAM-SHA-1", "SCRAM-SHA-256"] {
        let uri = format!("{}&authMechanism={mechanism}", server.uri());
        let mut drivers = Vec::new();
        if let Some(binary) = peers::official_driver_binary() {
            drivers.push(Command::new(binary));
        }
        if let Some(script) = peers::node_driver_script() {
            let mut node = Command::new("node");
            node.arg(script);
            drivers.push(node);
        }
        for mut command in drivers {
            command.args([uri.as_str(), "--without-step-down"]);
            let output = peers::run(command, RUN_TIMEOUT).expect("the driver runs");
            assert!(output.status.success(), "{mechanism}: {output:?}");
        }
        if let Some(interpreter) = peers::python_with_pymongo() {
            let output = peers::run(python(&interpreter, &uri), RUN_TIMEOUT).expect("it runs");
            assert!(output.status.success(), "{mechanism}: {output:?}");
        }
    }
}

/// A Python program that reads one document, and fails if it cannot connect or authenticate.
const PYMONGO_READ: &str = "
import sys, pymongo
client = pymongo.MongoClient(sys.argv[1], serverSelectionTimeoutMS=1000)
client.onionskin_peers.pymongo.find_one({})
";

#[test]
fn pymongo_cannot_connect_without_valid_credentials_tls_or_the_ca_file() {
    let Some(interpreter) = peers::python_with_pymongo() else {
        return;
    };
    let server = serve_replica_set(&["--tls", "--auth", "ada:pencil"]);
    let uri = server.uri();
    let (without_authority, _) = uri.split_once("&tlsCAFile").expect("an authority");
    let (without_tls, _) = uri
        .split_once("&tls=true")
        .expect("an encrypted connection");
    let refused = [
        (uri.replace("pencil", "chalk"), "Authentication failed"),
        (uri.replace("ada:pencil@", ""), "requires authentication"),
        (without_authority.to_owned(), "CERTIFICATE_VERIFY_FAILED"),
        (without_tls.to_owned(), "ServerSelectionTimeoutError"),
    ];
    for (uri, reason) in refused {
        let mut command = Command::new(&interpreter);
        command.args(["-c", PYMONGO_READ, &uri]);
        let output = peers::run(command, RUN_TIMEOUT).expect("python runs");
        assert!(!output.status.success(), "{uri} was let in");
        assert!(output.stderr.contains(reason), "{uri}: {output:?}");
    }
}

/// Runs each driver against services behind a load balancer with this connection string.
fn run_drivers_behind_a_load_balancer(uri: &str) {
    let mut runs = Vec::new();
    if let Some(interpreter) = peers::python_with_pymongo() {
        runs.push(python(&interpreter, uri));
        runs.push(python_script(&interpreter, "load_balanced.py", uri));
    }
    let mut others = Vec::new();
    others.extend(peers::official_driver_binary().map(Command::new));
    others.extend(peers::node_driver_script().map(|script| {
        let mut node = Command::new("node");
        node.arg(script);
        node
    }));
    for mut command in others {
        command.args([uri, "--without-step-down"]);
        runs.push(command);
    }
    for command in runs {
        let what = format!("{command:?}");
        let output = peers::run(command, RUN_TIMEOUT).expect("the driver runs");
        assert!(output.status.success(), "{what}: {output:?}");
    }
}

#[test]
fn each_driver_works_behind_a_load_balancer() {
    for more in SERVED {
        let arguments = ["--load-balanced"].iter().chain(more).copied();
        let server = peers::serve(arguments).expect("onionskin serve starts");
        run_drivers_behind_a_load_balancer(server.uri());
    }
}

#[test]
fn each_driver_works_behind_haproxy() {
    let server = peers::serve(["--load-balanced", "2"]).expect("onionskin serve starts");
    // `onionskin serve` prints the addresses of the services after the connection string.
    let services = || -> Vec<SocketAddr> {
        let log = server.log();
        let services = log.lines().filter_map(|line| {
            let (_, address) = line.strip_prefix("Service ")?.split_once(": ")?;
            address.parse().ok()
        });
        services.collect()
    };
    let patience = Instant::now() + RUN_TIMEOUT;
    while services().len() < 2 {
        assert!(Instant::now() < patience, "{}", server.log());
        std::thread::yield_now();
    }
    let Some(balancer) = peers::haproxy(&services(), ProxyProtocol::Binary).expect("starts") else {
        return;
    };
    run_drivers_behind_a_load_balancer(balancer.uri());
}
