//! The official test files about log messages, run with the simulated deployment.

use crate::{collector::Collector, matching, stage::Stage};
use onionskin_simulations::{
    deployment::User,
    serve::{Embedded, ServeOptions},
};
use onionskin_tests::{
    report::{Skip, Suite},
    specifications,
};
use serde_json::Value;
use tracing::Level;

const TRANSACTIONS: &str = "there are no transactions yet";
const BULK_WRITE: &str = "there are no bulk writes of several kinds yet";
const NONCE: &str = "the simulated server is newer than 6.1, the last that knows getnonce";
const CLIENT_BULK_WRITE: &str = "there are no bulk writes of the client yet";
const QUEUE_OPTIONS: &str = "these options of old drivers are not known here";

const fn skip(file: &'static str, case: &'static str, reason: &'static str) -> Skip {
    Skip { file, case, reason }
}

#[test]
fn command_logging_and_monitoring() {
    const SKIPS: &[Skip] = &[
        skip(
            "command.json",
            "A successful commitTransaction command",
            TRANSACTIONS,
        ),
        skip(
            "command.json",
            "A successful abortTransaction command",
            TRANSACTIONS,
        ),
        skip(
            "operation-id.json",
            "Successful bulk write command log messages include operationIds",
            BULK_WRITE,
        ),
        skip(
            "operation-id.json",
            "Failed bulk write command log message includes operationId",
            BULK_WRITE,
        ),
        skip(
            "redacted-commands.json",
            "getnonce command and server reply are redacted",
            NONCE,
        ),
    ];
    run("command-logging-and-monitoring/tests/logging", SKIPS);
}

#[test]
fn connection_monitoring_and_pooling() {
    const SKIPS: &[Skip] = &[
        skip(
            "connection-pool-options.json",
            "waitQueueSize should be included in connection pool created message when specified",
            QUEUE_OPTIONS,
        ),
        skip(
            "connection-pool-options.json",
            "waitQueueMultiple should be included in connection pool created message when \
             specified",
            QUEUE_OPTIONS,
        ),
    ];
    run("connection-monitoring-and-pooling/tests/logging", SKIPS);
}

/// Runs the files about log messages, among them those about load balancers (LB-19).
#[test]
fn server_discovery_and_monitoring() {
    run("server-discovery-and-monitoring/tests/unified", &[]);
}

#[test]
fn server_selection() {
    const FILE: &str = "operation-id.json";
    const BULK: [&str; 2] = [
        "Successful client bulkWrite operation: log messages have operationIds",
        "Failed client bulkWrite operation: log messages have operationIds",
    ];
    const SKIPS: &[Skip] = &[
        skip(FILE, BULK[0], CLIENT_BULK_WRITE),
        skip(FILE, BULK[1], CLIENT_BULK_WRITE),
    ];
    run("server-selection/tests/logging", SKIPS);
}

fn run(path: &'static str, skips: &'static [Skip]) {
    let Some(files) = specifications::files(path) else {
        return;
    };
    let mut suite = Suite::new(path, skips);
    for file in files
        .iter()
        .filter(|file| file.name.contains("logging") || path.ends_with("logging"))
    {
        let content = match &file.content {
            Ok(content) => content,
            Err(reason) => {
                suite.case(&file.name, "", || Err(reason.clone()));
                continue;
            }
        };
        let mut servers: Vec<(Value, Option<Embedded>)> = Vec::new();
        for test in content["tests"].as_array().into_iter().flatten() {
            let case = test["description"].as_str().unwrap_or_default();
            let topologies = topologies(content, test);
            if !servers.iter().any(|(known, _)| known == topologies) {
                let options = options(&file.name, topologies);
                let server = options.map(|options| Embedded::start(options).expect("a deployment"));
                servers.push((topologies.clone(), server));
            }
            suite.case(&file.name, case, || {
                let found = servers.iter().find(|(known, _)| known == topologies);
                let server = found.and_then(|(_, server)| server.as_ref());
                play(server.ok_or("there is no such deployment")?, content, test)
            });
        }
    }
    suite.finish();
}

/// Returns the topologies that a test or its whole file requires.
fn topologies<'a>(file: &'a Value, test: &'a Value) -> &'a Value {
    let of_test = &test["runOnRequirements"][0]["topologies"];
    if of_test.is_null() {
        &file["runOnRequirements"][0]["topologies"]
    } else {
        of_test
    }
}

/// Returns the options of a deployment that a test requires; `None` if the simulation has no such
/// deployment.
fn options(name: &str, topologies: &Value) -> Option<ServeOptions> {
    let asks_for = |name: &str| {
        let topologies = topologies.as_array();
        topologies.is_none_or(|topologies| topologies.iter().any(|other| other == name))
    };
    let mut options = if asks_for("single") {
        ServeOptions::standalone()
    } else if asks_for("replicaset") {
        ServeOptions::replica_set("rs0", 3)
    } else if asks_for("sharded") {
        ServeOptions::sharded(2)
    } else if asks_for("load-balanced") {
        ServeOptions::load_balanced(2)
    } else {
        return None;
    };
    // One test of this file expects a failed authentication.
    if name == "connection-logging.json" {
        options.users.push(User::new("user", "password"));
    }
    Some(options)
}

fn play(server: &Embedded, file: &Value, test: &Value) -> Result<(), String> {
    let collector = Collector::new(Level::DEBUG);
    let _guard = collector.install();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let mut stage = Stage::new(server.uri());
        let played = stage.play(file, test).await;
        stage.flush().await;
        let lines = collector.lines();
        stage.clear().await;
        played?;
        for expected in test["expectLogMessages"].as_array().into_iter().flatten() {
            matching::compare(expected, &lines)?;
        }
        Ok(())
    })
}
