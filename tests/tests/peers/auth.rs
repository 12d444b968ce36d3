//! Tests of the authentication of `onionskin serve` with other drivers, by each mechanism.
//!
//! The programs `authenticate` in `tests/peers` print the result of each case: the name of the
//! user, or the code of the error. Other tests show that the drivers, with the libraries of AWS,
//! get credentials from the identity server.

use std::process::Command;
use std::time::{Duration, SystemTime};

use onionskin_core::{random::Seed, time::WallTime};
use onionskin_deployment::{
    deployment::{AuthMechanism, User},
    identity::{IdentityOptions, IssuerOptions, TokenClaims, TokenIssuer},
};
use onionskin_serve::{Embedded, ServeOptions, identity::IdentityEndpoint};
use onionskin_tests::peers::{self, EveryMechanism, Scratch};
use serde_json::{Value, json};

/// The time limit of one run of a driver.
const RUN_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs a driver with a deployment that accepts all mechanisms, and returns the result of each
/// case.
fn results(mut command: Command) -> Value {
    let deployment = EveryMechanism::start().expect("onionskin serve starts");
    let uri = deployment.server.uri().replace("ada:pencil@", "");
    command.arg(uri).arg(deployment.tokens.path());
    let output = peers::run(command, RUN_TIMEOUT).expect("the driver runs");
    let log = deployment.server.log();
    assert!(output.status.success(), "{output:?}\n{log}");
    serde_json::from_str(&output.stdout).expect("the program prints JSON")
}

/// Returns the expected results.
fn expected() -> Value {
    let arn = "arn:aws:iam::123456789012:user/test";
    json!({
        "negotiated": "ada",
        "negotiated wrong": 18,
        "SCRAM-SHA-1": "ada",
        "SCRAM-SHA-1 wrong": 18,
        "SCRAM-SHA-256": "ada",
        "SCRAM-SHA-256 wrong": 18,
        "PLAIN": "ada",
        "PLAIN wrong": 18,
        "x509": "C=IS,ST=Reykjavik,L=Reykjavik,O=MongoDB,OU=Drivers,CN=client",
        "aws": arn,
        "aws token": arn,
        "aws wrong": 18,
        "aws without token": 18,
        "oidc file": "test1/test_user1",
        "oidc expired": 18,
        "oidc machine": "test1/test_machine",
        "oidc human": "test1/test_user1",
        "oidc human issuer": "https://issuer.test",
        "oidc again": "test1/test_user2",
        "oidc again calls": 2,
    })
}

fn assert_expected(found: &Value) {
    let expected = expected();
    for (case, result) in expected.as_object().expect("an object") {
        assert_eq!(found.get(case), Some(result), "{case}: {found:#}");
    }
}

#[test]
fn pymongo_authenticates_with_each_mechanism() {
    let Some(interpreter) = peers::python_with_pymongo() else {
        return;
    };
    let scripts = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/pymongo");
    let mut command = Command::new(interpreter);
    command.arg(format!("{scripts}/authenticate.py"));
    assert_expected(&results(command));
}

#[test]
fn the_node_driver_authenticates_with_each_mechanism() {
    let Some(script) = peers::node_driver_script() else {
        return;
    };
    let mut command = Command::new("node");
    command.arg(script.with_file_name("authenticate.js"));
    assert_expected(&results(command));
}

#[test]
fn the_official_driver_authenticates_with_each_mechanism() {
    let Some(binary) = peers::official_driver_binary() else {
        return;
    };
    let mut command = Command::new(binary);
    command.arg("--authenticate");
    let found = results(command);
    let mut cases = 0;
    for (case, result) in expected().as_object().expect("an object") {
        // The program leaves out MONGODB-AWS and token files.
        if let Some(found) = found.get(case) {
            assert_eq!(found, result, "{case}");
            cases += 1;
        }
    }
    assert_eq!(cases, 14, "{found:#}");
}

/// A Python program that authenticates with MONGODB-AWS and prints the name of the user.
const PYMONGO_AWS: &str = "
import sys, pymongo
client = pymongo.MongoClient(sys.argv[1], serverSelectionTimeoutMS=5000)
status = client.admin.command('connectionStatus')
print(status['authInfo']['authenticatedUsers'][0]['user'])
";

/// A JavaScript program that authenticates with MONGODB-AWS and prints the name of the user.
const NODE_AWS: &str = "
import { MongoClient } from 'mongodb';
const client = new MongoClient(process.argv[1], { serverSelectionTimeoutMS: 5000 });
const status = await client.db('admin').command({ connectionStatus: 1 });
console.log(status.authInfo.authenticatedUsers[0].user);
await client.close();
";

/// The role whose credentials the identity server issues.
const ROLE: &str = "arn:aws:sts::123456789012:assumed-role/onionskin";

/// Runs a driver with each source of AWS credentials. All credentials come from one identity
/// server, which shares its table with the deployment.
fn log_in_from_each_source(driver: impl Fn() -> Command) {
    let mut options = ServeOptions::standalone();
    options.users.push(User::external(&format!("{ROLE}/*")));
    options.auth.mechanisms = vec![AuthMechanism::Aws];
    let seed = Seed::new([1; 32]);
    let issuer = TokenIssuer::new(IssuerOptions::default(), &seed);
    let identity = IdentityOptions {
        aws: options.auth.aws.clone(),
        issuer: Some(issuer.clone()),
        container_authorization: Some("container token".to_owned()),
        ..IdentityOptions::default()
    };
    let endpoint = IdentityEndpoint::start(identity, &seed).expect("the identity server starts");
    let server = Embedded::start(options).expect("the deployment starts");
    let uri = format!("{}?authMechanism=MONGODB-AWS", server.uri());
    let scratch = Scratch::new().expect("a directory");
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = WallTime::from_unix(since.expect("a time after 1970"));
    let token = issuer.issue(&TokenClaims::new("pod", now, Duration::from_secs(600)));
    let token = scratch.write("token", &token).expect("a file");
    let token = token.to_str().expect("a path as text");
    let url = format!("http://{}", endpoint.address());
    let container = format!("{url}/v2/credentials/onionskin");
    let sources: [(&str, &[(&str, &str)]); 3] = [
        (
            "GET /v2/credentials/onionskin 200",
            &[
                ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &container),
                ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "container token"),
            ],
        ),
        (
            "GET /latest/meta-data/iam/security-credentials/onionskin 200",
            &[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &url)],
        ),
        (
            "POST / 200",
            &[
                ("AWS_WEB_IDENTITY_TOKEN_FILE", token),
                ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/onionskin"),
                ("AWS_ENDPOINT_URL_STS", &url),
                ("AWS_REGION", "us-east-1"),
                ("AWS_DEFAULT_REGION", "us-east-1"),
            ],
        ),
    ];
    for (request, variables) in sources {
        let mut command = driver();
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_")) {
            command.env_remove(name);
        }
        // A home directory without configuration files of AWS.
        command.arg(&uri).env("HOME", scratch.path());
        command.envs(variables.iter().copied());
        let output = peers::run(command, RUN_TIMEOUT).expect("the driver runs");
        let requests = endpoint.server().requests();
        assert!(output.status.success(), "{output:?}\n{requests:?}");
        assert_eq!(output.stdout.trim(), format!("{ROLE}/*"));
        assert!(requests.iter().any(|made| made == request), "{requests:?}");
    }
}

#[test]
fn pymongo_gets_aws_credentials_from_the_identity_server() {
    let Some(interpreter) = peers::python_with_pymongo() else {
        return;
    };
    log_in_from_each_source(|| {
        let mut command = Command::new(&interpreter);
        command.args(["-c", PYMONGO_AWS]);
        command
    });
}

#[test]
fn the_node_driver_gets_aws_credentials_from_the_identity_server() {
    let Some(script) = peers::node_driver_script() else {
        return;
    };
    log_in_from_each_source(|| {
        let mut command = Command::new("node");
        command.args(["--input-type=module", "-e", NODE_AWS]);
        command.current_dir(script.parent().expect("a directory"));
        command
    });
}
