//! The official tests of connection strings: `connection-string`, `uri-options`, and the connection
//! strings of `auth` and of `read-write-concern`.

use onionskin_core::{
    address::Address,
    error::{Argument, ErrorKind},
    options::{Acknowledgment, AuthMechanism, Credential, Monitoring},
    uri::{self, OptionValue, ParsedUri},
};
use onionskin_tests::{
    report::{Skip, Suite},
    specifications::{TestFile, files},
};
use serde_json::Value;

const AUTH: &[Skip] = &[
    Skip {
        file: "connection-string.json",
        case: "should use username and password if specified (MONGODB-AWS)",
        reason: "contradicts the newer cases of the file, which refuse credentials (AUTH-49)",
    },
    Skip {
        file: "connection-string.json",
        case: "should use username, password and session token if specified (MONGODB-AWS)",
        reason: "contradicts the newer cases of the file, which refuse credentials (AUTH-49)",
    },
];

const READ_WRITE_CONCERN: &[Skip] = &[Skip {
    file: "write-concern.json",
    case: "wtimeoutMS as an invalid number",
    reason: "contradicts concern-options.json, where a negative wTimeoutMS only warns",
}];

pub(crate) fn connection_string() {
    suite("connection-string", "connection-string/tests", &[]);
}

/// The official tests of options (URI-4).
pub(crate) fn uri_options() {
    suite("uri-options", "uri-options/tests", &[]);
}

pub(crate) fn auth() {
    suite("auth", "auth/tests/legacy", AUTH);
}

pub(crate) fn read_write_concern() {
    let path = "read-write-concern/tests/connection-string";
    suite("read-write-concern", path, READ_WRITE_CONCERN);
}

type Outcome = Result<(), String>;

fn suite(name: &'static str, path: &str, skips: &'static [Skip]) {
    let Some(files) = files(path) else { return };
    let mut suite = Suite::new(name, skips);
    for TestFile { name, content, .. } in files {
        let content = match content {
            Ok(content) => content,
            Err(reason) => {
                suite.unreadable(&name, &reason);
                continue;
            }
        };
        let Some(cases) = content["tests"].as_array() else {
            suite.unreadable(&name, "has no list of tests");
            continue;
        };
        for case in cases {
            let description = case["description"].as_str().unwrap_or_default();
            // Only clients that check servers on demand have the options of this file (SEL-6).
            let monitoring = if name == "single-threaded-options.json" {
                Monitoring::Scanning
            } else {
                Monitoring::Background
            };
            suite.case(&name, description, || match name.as_str() {
                DISCLOSURE => run_disclosure(case),
                _ => run(case, monitoring),
            });
        }
    }
    suite.finish();
}

/// Runs one case. A field that is absent or null asserts nothing, except for a null `credential`.
fn run(case: &Value, monitoring: Monitoring) -> Outcome {
    let text = case["uri"].as_str().ok_or("the case has no uri")?;
    let parsed = match (uri::parse_for(text, monitoring), case["valid"].as_bool()) {
        (Err(error), Some(false)) => {
            let kind = matches!(
                error.kind(),
                ErrorKind::InvalidArgument {
                    argument: Argument::Uri(_),
                    ..
                }
            );
            return same("error of the connection string", &true, &kind);
        }
        (Err(error), _) => return Err(format!("refused: {error}")),
        // A program can set a callback after parsing, so its absence is found later.
        (Ok(parsed), Some(false)) if lacks_tokens(&parsed) => {
            let refused = parsed.options.validate().map_err(|error| *error.kind);
            let is_refused = matches!(refused, Err(ErrorKind::InvalidArgument { .. }));
            return same("error of the options", &true, &is_refused);
        }
        (Ok(_), Some(false)) => return Err("accepted".to_owned()),
        (Ok(parsed), _) => parsed,
    };
    if let Some(expected) = case["warning"].as_bool() {
        let found = &parsed.warnings;
        same("warning", &expected, &!found.is_empty()).map_err(|e| format!("{e} {found:?}"))?;
    }
    hosts(case, &parsed)?;
    login(&case["auth"], &parsed)?;
    if case.get("credential").is_some() {
        credential(&case["credential"], parsed.options.credential.as_ref())?;
    }
    for (name, expected) in case["options"].as_object().into_iter().flatten() {
        let found = parsed.option(name).map_or(Value::Null, to_json);
        same(name, expected, &found)?;
    }
    concerns(case, &parsed)
}

/// True if a source of OpenID Connect tokens is missing.
fn lacks_tokens(parsed: &ParsedUri) -> bool {
    let credential = parsed.options.credential.as_ref();
    credential.is_some_and(|credential| {
        credential.mechanism == Some(AuthMechanism::MongoDbOidc)
            && credential.property("ENVIRONMENT").is_none()
    })
}

/// The file whose cases name a text that no message may contain.
const DISCLOSURE: &str = "credential-disclosure.json";

/// Checks that no message about a connection string has its secret, as it is or percent-encoded.
fn run_disclosure(case: &Value) -> Outcome {
    let text = case["uri"].as_str().ok_or("the case has no uri")?;
    let secret = "sentinelpassword1234";
    let encoded: String = "SENTINELpassword1234"
        .bytes()
        .map(|byte| format!("%{byte:02x}"))
        .collect();
    let messages: Vec<String> = match uri::parse(text) {
        Ok(parsed) => {
            let warnings = parsed.warnings.iter();
            warnings
                .map(|warning| format!("{warning} {warning:?}"))
                .collect()
        }
        Err(error) => vec![error.to_string(), format!("{error:?}")],
    };
    for message in messages {
        let lower = message.to_lowercase();
        if lower.contains(secret) || lower.contains(&encoded) {
            return Err(format!("disclosed: {message}"));
        }
    }
    Ok(())
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, expected: &T, found: &T) -> Outcome {
    if expected == found {
        return Ok(());
    }
    Err(format!("{what}: expected {expected:?}, found {found:?}"))
}

fn hosts(case: &Value, parsed: &ParsedUri) -> Outcome {
    let Some(expected) = case["hosts"].as_array() else {
        return Ok(());
    };
    let found = parsed.options.hosts();
    same("number of hosts", &expected.len(), &found.len())?;
    for (expected, found) in expected.iter().zip(found) {
        same("host", &expected["host"].as_str(), &Some(found.host()))?;
        if let Some(port) = expected["port"].as_u64() {
            same("port", &Some(port), &found.port().map(u64::from))?;
        }
        let unix = matches!(found, Address::Unix { .. });
        same("socket", &(expected["type"] == "unix"), &unix)?;
    }
    Ok(())
}

fn login(expected: &Value, parsed: &ParsedUri) -> Outcome {
    if expected.is_null() {
        return Ok(());
    }
    let credential = parsed.options.credential.as_ref();
    let username = credential.and_then(|c| c.username.as_deref());
    let password = credential
        .and_then(|c| c.password.as_ref())
        .map(|p| p.expose());
    same("username", &expected["username"].as_str(), &username)?;
    same("password", &expected["password"].as_str(), &password)?;
    same(
        "database",
        &expected["db"].as_str(),
        &parsed.options.default_database.as_deref(),
    )
}

fn credential(expected: &Value, found: Option<&Credential>) -> Outcome {
    same("no credential", &expected.is_null(), &found.is_none())?;
    let Some(found) = found else {
        return Ok(());
    };
    same(
        "username",
        &expected["username"].as_str(),
        &found.username.as_deref(),
    )?;
    let password = found.password.as_ref().map(|p| p.expose());
    same("password", &expected["password"].as_str(), &password)?;
    same(
        "source",
        &expected["source"].as_str(),
        &Some(found.source()),
    )?;
    let mechanism = found.mechanism.map(AuthMechanism::name);
    same("mechanism", &expected["mechanism"].as_str(), &mechanism)?;
    for (name, value) in expected["mechanism_properties"]
        .as_object()
        .into_iter()
        .flatten()
    {
        let property = found.property(name).map(|p| p.expose());
        same(name, &value.as_str(), &property)?;
    }
    Ok(())
}

fn concerns(case: &Value, parsed: &ParsedUri) -> Outcome {
    if let Some(expected) = case["readConcern"].as_object() {
        let level = parsed
            .options
            .read_concern
            .as_ref()
            .map(|c| c.level.as_str());
        same(
            "level",
            &expected.get("level").and_then(Value::as_str),
            &level,
        )?;
    }
    if let Some(expected) = case["writeConcern"].as_object() {
        let found = parsed.options.write_concern.as_ref();
        let w = found.and_then(|c| c.w.as_ref()).map(|w| match w {
            Acknowledgment::Nodes(nodes) => Value::from(*nodes),
            Acknowledgment::Majority => Value::from("majority"),
            Acknowledgment::Custom(mode) => Value::from(mode.as_str()),
            other => panic!("{other:?} is not known"),
        });
        let journal = found.and_then(|c| c.journal).map(Value::from);
        let timeout = found.and_then(|c| c.w_timeout);
        let timeout = timeout
            .and_then(|t| u64::try_from(t.as_millis()).ok())
            .map(Value::from);
        same("w", &expected.get("w"), &w.as_ref())?;
        same("journal", &expected.get("journal"), &journal.as_ref())?;
        same("wtimeoutMS", &expected.get("wtimeoutMS"), &timeout.as_ref())?;
    }
    Ok(())
}

fn to_json(value: &OptionValue) -> Value {
    match value {
        OptionValue::Bool(value) => Value::from(*value),
        OptionValue::Int(value) => Value::from(*value),
        OptionValue::Text(value) => Value::from(value.as_str()),
        OptionValue::Secret(value) => Value::from(value.expose()),
        OptionValue::List(values) => Value::from(values.as_slice()),
        OptionValue::TagSets(sets) => sets
            .iter()
            .map(|tags| {
                let tags = tags
                    .iter()
                    .map(|(k, v)| (k.clone(), Value::from(v.as_str())));
                Value::Object(tags.collect())
            })
            .collect(),
        OptionValue::Properties(properties) => Value::Object(
            properties
                .iter()
                .map(|(k, v)| (k.clone(), Value::from(v.expose())))
                .collect(),
        ),
        other => Value::from(format!("{other:?}")),
    }
}
