use super::{MAX_DOCUMENT_DEPTH, cmap::CmapEvent, command::CommandEvent, sdam::SdamEvent};
use crate::{
    address::Address,
    description::TopologyId,
    event::{self, CommandFacts, NoServersCause, PoolEvent},
};
use bson::{doc, oid::ObjectId, rawdoc};
use std::{sync::Arc, time::Duration};

fn facts() -> Arc<CommandFacts> {
    Arc::new(CommandFacts {
        name: "find".into(),
        database: "app".into(),
        request_id: 7,
        operation_id: 8,
        address: Address::tcp("a", 1),
        driver_connection_id: 9,
        server_connection_id: Some(10),
        service: None,
    })
}

#[test]
fn a_command_event_has_documents_and_the_connection() {
    let event = event::CommandEvent::Started {
        facts: facts(),
        command: rawdoc! { "find": "people" },
    };
    let CommandEvent::Started(event) = CommandEvent::from(&event) else {
        panic!("{event:?}");
    };
    assert_eq!(event.command, doc! { "find": "people" });
    let names = (event.command_name.as_str(), event.db.as_str());
    assert_eq!((names, event.request_id), (("find", "app"), 7));
    let connection = event.connection;
    assert_eq!((connection.id, connection.server_id), (9, Some(10)));
    assert_eq!(connection.address.to_string(), "a:1");
}

#[test]
fn a_document_that_is_nested_too_deeply_is_left_out() {
    let deep = |depth| (0..depth).fold(rawdoc! {}, |inner, _| rawdoc! { "a": inner });
    for (depth, is_kept) in [(1, true), (2 * MAX_DOCUMENT_DEPTH, false)] {
        let event = event::CommandEvent::Succeeded {
            facts: facts(),
            duration: Duration::from_millis(1),
            reply: deep(depth),
        };
        let CommandEvent::Succeeded(event) = CommandEvent::from(&event) else {
            panic!("{event:?}");
        };
        assert_eq!(!event.reply.is_empty(), is_kept, "{depth}");
    }
}

#[test]
fn pool_and_server_events_name_the_connection_and_the_topology() {
    let event = PoolEvent::CheckedIn {
        address: Address::tcp("a", 1),
        connection: u64::MAX,
    };
    let CmapEvent::ConnectionCheckedIn(event) = CmapEvent::from(&event) else {
        panic!("{event:?}");
    };
    assert_eq!(
        (event.address.port(), event.connection_id),
        (Some(1), u32::MAX)
    );

    let id = ObjectId::from_bytes([3; 12]);
    let topology = TopologyId(id);
    let event = event::SdamEvent::TopologyOpening { topology };
    assert!(
        matches!(SdamEvent::from(&event), SdamEvent::TopologyOpening(e) if e.topology_id == id)
    );
    let event = event::SdamEvent::NoServers {
        topology,
        cause: NoServersCause::NoSeeds,
    };
    assert!(matches!(SdamEvent::from(&event), SdamEvent::Notice(_)));
}
