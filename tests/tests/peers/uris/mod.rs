//! Compares the parser of connection strings with those of other projects: PyMongo, and the npm
//! package `mongodb-connection-string-url`.
//!
//! All parsers parse the same strings (`strings.rs`). Each difference must be explained by a rule
//! (`rules.rs`), which names the parser that is right and the requirement that decides. A
//! difference without a rule fails the test, and so does a rule that explains nothing.

mod rules;
mod strings;

use onionskin::options::{ConnectionString, OptionValue, Scheme};
use onionskin_tests::peers::{self, Scratch};
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::Path,
    process::Command,
    time::Duration,
};

use rules::Rule;

/// The time limit of one run of a parser.
const RUN_TIMEOUT: Duration = Duration::from_secs(60);

/// A parser of another project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parser {
    /// `pymongo.uri_parser`. It gives the parsed values of known options.
    PyMongo,
    /// `mongodb-connection-string-url`. It gives keys and values of all options as text.
    Npm,
}

/// One part of a connection string that two parsers see differently.
struct Difference<'a> {
    text: &'a str,
    /// `accepted` or `refused` if only the other parser accepts or refuses the string. Otherwise
    /// the part: `hosts`, `username`, `password`, `database`, `options`, or `option` with the name
    /// of the option in lower case.
    part: String,
    ours: Value,
    theirs: Value,
}

impl fmt::Display for Difference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            text,
            part,
            ours,
            theirs,
        } = self;
        write!(
            f,
            "{text:?}: {part}: {ours} is {theirs} for the other parser"
        )
    }
}

/// Parses a string with our parser. The result has the form that the scripts in `tests/peers` use.
fn ours(text: &str, parser: Parser) -> Value {
    let parsed = onionskin::options::parse(text);
    let (string, parsed) = match (ConnectionString::parse(text), parsed) {
        (Ok(string), Ok(parsed)) => (string, parsed),
        (Err(error), Err(other)) => {
            assert_eq!(error, other, "{text}");
            return json!({ "error": error.to_string() });
        }
        (string, parsed) => panic!("{text}: {string:?}, {parsed:?}"),
    };
    let options = match parser {
        Parser::Npm => {
            let options = string.options();
            options
                .map(|(key, value)| json!([key.to_ascii_lowercase(), value]))
                .collect()
        }
        Parser::PyMongo => {
            let keys: BTreeSet<_> = string.options().map(|(key, _)| key).collect();
            let given = keys.into_iter().filter_map(|key| {
                let value = parsed.option(key)?;
                Some((key.to_ascii_lowercase(), shown(value)))
            });
            Value::Object(given.collect())
        }
    };
    let hosts: Vec<String> = match string.scheme() {
        Scheme::MongodbSrv => string.srv_host().into_iter().map(str::to_owned).collect(),
        Scheme::Mongodb => string.hosts().iter().map(ToString::to_string).collect(),
    };
    json!({
        "hosts": hosts,
        "username": string.username(),
        "password": string.password().map(|password| password.expose()),
        "database": string.database(),
        "options": options,
    })
}

fn shown(value: &OptionValue) -> Value {
    match value {
        OptionValue::Bool(value) => json!(value),
        OptionValue::Int(value) => json!(value),
        OptionValue::Text(value) => json!(value),
        OptionValue::Secret(value) => json!(value.expose()),
        OptionValue::List(names) => json!(names),
        OptionValue::TagSets(sets) => json!(sets),
        OptionValue::Properties(properties) => {
            let properties = properties.iter();
            let values: BTreeMap<_, _> = properties.map(|(key, v)| (key, v.expose())).collect();
            json!(values)
        }
        other => panic!("{other:?}"),
    }
}

/// Parses all strings with a parser of another project.
fn theirs(mut command: Command, texts: &[String]) -> Vec<Value> {
    let scratch = Scratch::new().expect("a directory");
    let file = scratch.write("strings.json", &json!(texts).to_string());
    command.arg(file.expect("a file"));
    let output = peers::run(command, RUN_TIMEOUT).expect("the parser runs");
    assert!(output.status.success(), "{output:?}");
    let results: Vec<Value> = serde_json::from_str(&output.stdout).expect("a list");
    assert_eq!(results.len(), texts.len());
    results
}

/// Returns the parts in which two results differ.
fn differences<'a>(text: &'a str, ours: &Value, theirs: &Value) -> Vec<Difference<'a>> {
    let is_valid = |result: &Value| result.get("error").is_none();
    let difference = |part: &str, ours: &Value, theirs: &Value| Difference {
        text,
        part: part.to_owned(),
        ours: ours.clone(),
        theirs: theirs.clone(),
    };
    match (is_valid(ours), is_valid(theirs)) {
        (false, false) => return Vec::new(),
        (true, true) => {}
        (false, true) => return vec![difference("accepted", ours, theirs)],
        (true, false) => return vec![difference("refused", ours, theirs)],
    }
    let parts = ["hosts", "username", "password", "database"];
    let mut found: Vec<_> = parts
        .into_iter()
        .filter(|part| ours[part] != theirs[part])
        .map(|part| difference(part, &ours[part], &theirs[part]))
        .collect();
    match (ours["options"].as_object(), theirs["options"].as_object()) {
        (Some(ours), Some(theirs)) => {
            let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
            let of = |options: &Map<String, Value>, name: &str| {
                options.get(name).cloned().unwrap_or_default()
            };
            for name in names {
                let (ours, theirs) = (of(ours, name), of(theirs, name));
                if ours != theirs {
                    found.push(difference(&format!("option {name}"), &ours, &theirs));
                }
            }
        }
        _ if ours["options"] == theirs["options"] => {}
        _ => found.push(difference("options", &ours["options"], &theirs["options"])),
    }
    found
}

/// Compares the parsers, and prints how many differences each rule explains.
fn compare(parser: Parser, command: Command, rules: &[Rule]) {
    let texts = strings::all();
    let results = theirs(command, &texts);
    let (mut explained, mut unexplained) = (BTreeMap::<&str, usize>::new(), Vec::new());
    let mut valid = 0;
    for (text, theirs) in texts.iter().zip(&results) {
        let ours = ours(text, parser);
        valid += usize::from(ours.get("error").is_none());
        for difference in differences(text, &ours, theirs) {
            let explains = |rule: &&Rule| rule.explains(text, &difference.part);
            match rules.iter().find(explains) {
                Some(rule) => *explained.entry(rule.name).or_default() += 1,
                None => unexplained.push(difference.to_string()),
            }
        }
    }
    println!(
        "{parser:?}: {} strings, {valid} of them valid for us",
        texts.len()
    );
    for (name, count) in &explained {
        println!("{parser:?}: {count} differences by the rule: {name}");
    }
    assert!(
        unexplained.is_empty(),
        "{} unexplained differences:\n{}",
        unexplained.len(),
        unexplained.join("\n")
    );
    let idle: Vec<_> = rules
        .iter()
        .filter(|rule| !explained.contains_key(rule.name))
        .collect();
    assert!(idle.is_empty(), "these rules explain nothing: {idle:#?}");
}

fn script(folder: &str, name: &str) -> std::path::PathBuf {
    let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
    peers.join(folder).join(name)
}

#[test]
fn pymongo_parses_connection_strings_as_we_do_except_as_the_rules_say() {
    let Some(interpreter) = peers::python_with_pymongo() else {
        return;
    };
    let mut command = Command::new(interpreter);
    command.arg(script("pymongo", "parse_uris.py"));
    compare(Parser::PyMongo, command, rules::PYMONGO);
}

#[test]
fn the_npm_package_parses_connection_strings_as_we_do_except_as_the_rules_say() {
    // The package is installed with the Node.js driver, which uses it.
    if peers::node_driver_script().is_none() {
        return;
    }
    let mut command = Command::new("node");
    command.arg(script("node", "parse_uris.js"));
    compare(Parser::Npm, command, rules::NPM);
}

#[test]
fn each_difference_between_two_results_is_found() {
    let valid = |options: Value| {
        json!({
            "hosts": ["a:1"], "username": "u", "password": null, "database": null,
            "options": options,
        })
    };
    let parts = |ours: &Value, theirs: &Value| {
        let found = differences("mongodb://a", ours, theirs).into_iter();
        found.map(|difference| difference.part).collect::<Vec<_>>()
    };
    let error = json!({ "error": "no" });
    let ours = valid(json!({ "w": 1, "tls": true }));
    assert_eq!(parts(&ours, &ours), [""; 0]);
    assert_eq!(parts(&ours, &error), ["refused"]);
    assert_eq!(parts(&error, &ours), ["accepted"]);
    assert_eq!(parts(&error, &json!({ "error": "never" })), [""; 0]);
    assert_eq!(
        parts(&ours, &valid(json!({ "w": 2, "x": 1, "tls": true }))),
        ["option w", "option x"]
    );
    let mut theirs = ours.clone();
    theirs["hosts"] = json!(["b:1"]);
    theirs["password"] = json!("");
    assert_eq!(parts(&ours, &theirs), ["hosts", "password"]);
    assert_eq!(
        parts(&valid(json!([["w", "1"]])), &valid(json!([]))),
        ["options"]
    );
}
