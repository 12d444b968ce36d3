//! Values of every kind that has code, most of them drawn from the strategies, always the same.

use bson::{Bson, Document, RawDocumentBuf, doc};
use onionskin_core::{
    description::{ServerDescription, TopologyDescription},
    error::TopologyVersion,
};
use onionskin_worlds::strategies::{
    Failure, History, Incident, Role, Step, failures, hello_replies, incident_histories,
    incidents_code, lying_histories, lying_replies, replica_set_histories, replica_set_steps,
    reply_code, server_code, server_descriptions, sharded_histories, standalone_histories,
    topology_code, topology_descriptions, topology_version_code, topology_versions,
};
use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::TestRunner,
};
use std::fmt::{Debug, Write as _};

/// Values of each kind.
#[derive(Debug)]
pub(crate) struct Values {
    pub(crate) histories: Vec<History>,
    pub(crate) replies: Vec<RawDocumentBuf>,
    pub(crate) failures: Vec<Failure>,
    pub(crate) incidents: Vec<Vec<Incident>>,
    pub(crate) steps: Vec<Step>,
    pub(crate) roles: Vec<Role>,
    pub(crate) versions: Vec<TopologyVersion>,
    pub(crate) servers: Vec<ServerDescription>,
    pub(crate) topologies: Vec<TopologyDescription>,
}

/// Draws the values.
pub(crate) fn values() -> Values {
    let histories = [
        draw(2, replica_set_histories()),
        draw(1, sharded_histories()),
        draw(1, standalone_histories()),
        draw(2, lying_histories(false)),
    ];
    let replies = [
        draw(10, hello_replies()),
        draw(10, lying_replies(false)),
        longest_replies(),
    ];
    Values {
        histories: histories.concat(),
        replies: replies.concat(),
        failures: draw(50, failures()),
        incidents: draw(2, incident_histories()),
        steps: draw(40, replica_set_steps()),
        roles: vec![Role::Normal, Role::Passive, Role::Hidden, Role::Arbiter],
        versions: draw(4, topology_versions()),
        servers: draw(20, server_descriptions()),
        topologies: draw(6, topology_descriptions()),
    }
}

fn draw<T: Debug>(count: usize, strategy: impl Strategy<Value = T>) -> Vec<T> {
    let mut runner = TestRunner::deterministic();
    let mut next = || strategy.new_tree(&mut runner).map(|tree| tree.current());
    (0..count)
        .map(|_| next().expect("the strategies reject no value"))
        .collect()
}

/// Returns, for some forms, the longest reply whose code still uses the macro `rawdoc!`, and so
/// needs the most of the compiler's `recursion_limit`.
fn longest_replies() -> Vec<RawDocumentBuf> {
    let fields = |count: usize| -> Document {
        let names = (0..count).map(|number| format!("field{number}"));
        names.map(|name| (name, Bson::Null)).collect()
    };
    let list = |count: usize| Bson::Array(vec![Bson::Document(doc! {}); count]);
    vec![
        longest(fields),
        longest(|count| doc! { "list": list(count) }),
        longest(|count| (0..count).fold(doc! {}, |inner, _| doc! { "inner": inner })),
        longest(|count| {
            let mut reply = fields(count);
            reply.insert("list", vec![doc! { "a": list(3) }; count]);
            reply
        }),
    ]
}

fn longest(form: impl Fn(usize) -> Document) -> RawDocumentBuf {
    // More than that are beyond any default of the compiler.
    let replies = (1..500).map(|count| {
        let reply = RawDocumentBuf::try_from(&form(count));
        reply.expect("the names have no zero bytes")
    });
    let legible = replies.take_while(|reply| reply_code(reply).starts_with("bson::rawdoc!"));
    legible.last().expect("a short reply has readable code")
}

impl Values {
    /// Returns an expression with these values, made of the code of each value.
    pub(crate) fn code(&self) -> String {
        let mut text = "Values {\n".to_owned();
        let mut add = |kind: &str, values: Vec<String>| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{kind}: vec![\n{},\n],", values.join(",\n"));
        };
        add("histories", codes(&self.histories, History::code));
        add("replies", codes(&self.replies, |reply| reply_code(reply)));
        add("failures", codes(&self.failures, Failure::code));
        add(
            "incidents",
            codes(&self.incidents, |list| incidents_code(list)),
        );
        add("steps", codes(&self.steps, |step| step.code()));
        add("roles", codes(&self.roles, |role| role.code()));
        let versions = codes(&self.versions, |version| topology_version_code(*version));
        add("versions", versions);
        add("servers", codes(&self.servers, server_code));
        add("topologies", codes(&self.topologies, topology_code));
        text + "}\n"
    }
}

fn codes<T>(values: &[T], code: impl Fn(&T) -> String) -> Vec<String> {
    values.iter().map(code).collect()
}
