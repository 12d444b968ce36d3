//! Strategies for hello replies that violate the rules of servers.

use super::{Hello, History, address, hello_replies, topology_versions};
use bson::{Bson, Document, RawDocumentBuf, doc, oid::ObjectId};
use proptest::{collection::vec, prelude::*};

/// The length of a huge list, which is more than the servers that a topology may have.
const HUGE: usize = 1_500;

/// Returns a strategy for histories of arbitrary replies: wrong names, wrong field types, hosts
/// given twice, invalid hosts, negative versions, several primaries, several set names.
///
/// With `huge`, lists of members can be longer than a client accepts.
pub fn lying_histories(huge: bool) -> impl Strategy<Value = History> {
    let reply = prop_oneof![
        6 => lying_replies(huge).boxed(),
        2 => hello_replies().boxed(),
    ];
    let hello = (0..super::ADDRESSES, prop::option::weighted(0.9, reply));
    let hellos = vec(hello, 1..40);
    let name = prop::option::weighted(0.3, prop::sample::select(vec!["rs", "other"]));
    (1..=3_usize, name, hellos).prop_map(|(count, name, hellos)| History {
        seeds: (0..count).map(address).collect(),
        set_name: name.map(ToOwned::to_owned),
        hellos: hellos
            .into_iter()
            .map(|(server, reply)| Hello {
                server: address(server),
                reply,
            })
            .collect(),
    })
}

/// Returns a strategy for one reply in which every field can be missing or of a wrong type.
pub fn lying_replies(huge: bool) -> impl Strategy<Value = RawDocumentBuf> {
    (states(), members(huge), versions()).prop_map(|(states, members, versions)| {
        let mut reply = doc! {};
        for (key, value) in states.into_iter().chain(members).chain(versions) {
            if let Some(value) = value {
                reply.insert(key, value);
            }
        }
        RawDocumentBuf::try_from(&reply).unwrap_or_default()
    })
}

type Fields = Vec<(&'static str, Option<Bson>)>;

/// Returns a strategy for a field that is present with the probability `weight`. The value is
/// sometimes of a wrong type, and otherwise from `right`.
fn field(weight: f64, right: BoxedStrategy<Bson>) -> BoxedStrategy<Option<Bson>> {
    let value = prop_oneof![14 => right, 1 => wrong()];
    prop::option::weighted(weight, value).boxed()
}

fn wrong() -> impl Strategy<Value = Bson> {
    prop::sample::select(vec![
        Bson::Null,
        Bson::Int32(-1),
        Bson::Double(1.5),
        Bson::String(String::new()),
        Bson::Boolean(false),
        Bson::Array(vec![Bson::Int32(1)]),
        Bson::Document(doc! { "a": 1 }),
    ])
}

fn flag() -> BoxedStrategy<Bson> {
    any::<bool>().prop_map(Bson::Boolean).boxed()
}

fn states() -> impl Strategy<Value = Fields> {
    let ok = prop_oneof![
        20 => Just(Bson::Int32(1)),
        2 => Just(Bson::Double(1.0)),
        1 => Just(Bson::Int64(1)),
        1 => Just(Bson::Int32(0)),
    ];
    let message = prop_oneof![3 => Just("isdbgrid"), 1 => Just("isdb")];
    let name = prop_oneof![4 => Just("rs"), 1 => Just("other")];
    (
        field(0.97, ok.boxed()),
        field(0.7, flag()),
        field(0.5, flag()),
        field(0.5, flag()),
        field(0.2, flag()),
        field(0.2, flag()),
        field(0.2, flag()),
        field(0.3, message.prop_map(Bson::from).boxed()),
        field(0.7, name.prop_map(Bson::from).boxed()),
        field(0.1, flag()),
    )
        .prop_map(
            |(ok, new, old, secondary, hidden, arbiter, ghost, message, name, cryptd)| {
                vec![
                    ("ok", ok),
                    ("isWritablePrimary", new),
                    ("ismaster", old),
                    ("secondary", secondary),
                    ("hidden", hidden),
                    ("arbiterOnly", arbiter),
                    ("isreplicaset", ghost),
                    ("msg", message),
                    ("setName", name),
                    ("iscryptd", cryptd),
                ]
            },
        )
}

fn names() -> impl Strategy<Value = String> {
    prop_oneof![
        12 => super::addresses().prop_map(|a| a.to_string()),
        2 => super::addresses().prop_map(|a| a.to_string().to_uppercase()),
        1 => super::addresses().prop_map(|a| a.host().to_owned()),
        1 => prop::sample::select(vec!["", ":1", "a:0", "x:y:z", "[::1]:27017", "[::1", "a/b"])
            .prop_map(ToOwned::to_owned),
    ]
}

fn name_list(huge: bool) -> BoxedStrategy<Bson> {
    let entry = prop_oneof![15 => names().prop_map(Bson::from), 1 => wrong()];
    let few = vec(entry, 0..5).prop_map(Bson::Array);
    if !huge {
        return few.boxed();
    }
    let many = (0..8_usize).prop_map(|start| {
        let names = (start * HUGE..(start + 1) * HUGE).map(|i| Bson::from(format!("h{i}:1")));
        Bson::Array(names.collect())
    });
    prop_oneof![6 => few, 1 => many].boxed()
}

fn members(huge: bool) -> impl Strategy<Value = Fields> {
    let name = || names().prop_map(Bson::from).boxed();
    let tags = vec(("[a-c]", "[x-z]"), 0..3).prop_map(|tags| {
        let tags: Document = tags.into_iter().map(|(k, v)| (k, Bson::from(v))).collect();
        Bson::Document(tags)
    });
    let write = prop_oneof![
        3 => (0_i64..9).prop_map(|ms| {
            doc! { "lastWriteDate": bson::DateTime::from_millis(ms) }
        }),
        1 => Just(doc! { "lastWriteDate": 7 }),
    ];
    (
        field(0.7, name_list(huge)),
        field(0.2, name_list(huge)),
        field(0.2, name_list(false)),
        field(0.5, name()),
        field(0.4, name()),
        field(0.3, tags.boxed()),
        field(0.3, write.prop_map(Bson::Document).boxed()),
    )
        .prop_map(|(hosts, passives, arbiters, me, primary, tags, write)| {
            vec![
                ("hosts", hosts),
                ("passives", passives),
                ("arbiters", arbiters),
                ("me", me),
                ("primary", primary),
                ("tags", tags),
                ("lastWrite", write),
            ]
        })
}

fn versions() -> impl Strategy<Value = Fields> {
    let small = || (-2_i32..5).prop_map(Bson::Int32).boxed();
    let wire = prop::sample::select(vec![-1, 0, 7, 8, 16, 17, 21, 29, 30, 999]);
    let wire = wire.prop_map(Bson::Int32).boxed();
    let election = (0_u8..4, any::<bool>()).prop_map(|(term, first)| {
        let mut bytes = [0; 12];
        bytes[if first { 0 } else { 11 }] = term.wrapping_mul(0x50);
        Bson::ObjectId(ObjectId::from_bytes(bytes))
    });
    let version = topology_versions().prop_map(|version| {
        Bson::Document(doc! { "processId": version.process_id, "counter": version.counter })
    });
    (
        field(0.7, wire.clone()),
        field(0.2, wire),
        field(0.5, small()),
        field(0.5, election.boxed()),
        field(0.5, small()),
        field(0.5, version.boxed()),
    )
        .prop_map(|(max, min, set_version, election, minutes, version)| {
            vec![
                ("maxWireVersion", max),
                ("minWireVersion", min),
                ("setVersion", set_version),
                ("electionId", election),
                ("logicalSessionTimeoutMinutes", minutes),
                ("topologyVersion", version),
            ]
        })
}
