//! Strategies for single hello replies that follow the rules of servers.

use super::{
    addresses,
    replica_set::{ReplicaSet, Role, Step},
};
use bson::{RawDocumentBuf, cstr, oid::ObjectId, rawdoc};
use onionskin_core::error::TopologyVersion;
use proptest::prelude::*;

/// Returns a strategy for topology versions of a few processes with few changes, so that versions
/// repeat.
pub fn topology_versions() -> impl Strategy<Value = TopologyVersion> {
    (0_u8..3, 0_u8..2, 0_i64..6).prop_map(|(member, restarts, counter)| {
        let mut bytes = [0; 12];
        (bytes[10], bytes[11]) = (member, restarts);
        TopologyVersion {
            process_id: ObjectId::from_bytes(bytes),
            counter,
        }
    })
}

/// Returns a strategy for raw replies of any server: standalone, router, member of a set, server
/// without a configuration, or an error.
pub fn hello_replies() -> impl Strategy<Value = RawDocumentBuf> {
    prop_oneof![
        2 => standalone_replies(),
        2 => mongos_replies(),
        6 => member_replies(),
        1 => ghost_replies(),
        1 => prop::sample::select(vec![1, 18, 91, 11600, 13436]).prop_map(|code| {
            rawdoc! { "ok": 0, "code": code, "errmsg": "refused" }
        }),
    ]
}

/// Returns a strategy for the fields that servers of all kinds send.
fn common() -> impl Strategy<Value = RawDocumentBuf> {
    let wire = prop::sample::select(vec![8, 9, 16, 17, 21, 25, 29]);
    let minutes = prop::option::weighted(0.8, prop::sample::select(vec![10_i32, 30, 60]));
    let version = prop::option::weighted(0.7, topology_versions());
    (wire, minutes, version).prop_map(|(wire, minutes, version)| {
        let mut reply = rawdoc! {
            "ok": 1, "helloOk": true, "minWireVersion": 0, "maxWireVersion": wire,
        };
        if let Some(minutes) = minutes {
            reply.append(cstr!("logicalSessionTimeoutMinutes"), minutes);
        }
        if let Some(version) = version {
            reply.append(
                cstr!("topologyVersion"),
                rawdoc! { "processId": version.process_id, "counter": version.counter },
            );
        }
        reply
    })
}

pub(super) fn standalone_replies() -> impl Strategy<Value = RawDocumentBuf> {
    common().prop_map(|mut reply| {
        reply.append(cstr!("isWritablePrimary"), true);
        reply
    })
}

pub(super) fn mongos_replies() -> impl Strategy<Value = RawDocumentBuf> {
    common().prop_map(|mut reply| {
        reply.append(cstr!("isWritablePrimary"), true);
        reply.append(cstr!("msg"), "isdbgrid");
        reply
    })
}

fn ghost_replies() -> impl Strategy<Value = RawDocumentBuf> {
    (common(), prop::option::of(addresses())).prop_map(|(mut reply, host)| {
        reply.append(cstr!("isWritablePrimary"), false);
        reply.append(cstr!("isreplicaset"), true);
        if let Some(host) = host {
            let mut hosts = bson::RawArrayBuf::new();
            hosts.push(host.to_string());
            reply.append(cstr!("hosts"), hosts);
        }
        reply
    })
}

/// Returns a strategy for replies of a member of a set that starts with three members and goes
/// through some steps.
fn member_replies() -> impl Strategy<Value = RawDocumentBuf> {
    let steps = prop::collection::vec(super::replica_set_steps(), 0..12);
    let wire = prop::sample::select(vec![8, 9, 16, 17, 21, 25]);
    (steps, wire, 0..3_usize, any::<bool>()).prop_map(|(steps, wire, member, legacy)| {
        let roles = [Role::Normal, Role::Normal, Role::Normal];
        let mut set = ReplicaSet::new(&roles, super::ADDRESSES, wire);
        for step in steps {
            set.step(step);
        }
        set.step(Step::Start(member));
        // The last step started the member if it was stopped, so that it replies.
        set.hello(member, legacy).unwrap_or_default()
    })
}
