use super::*;
use crate::world::picture::tests::data;
use bson::{oid::ObjectId, rawdoc};
use onionskin_core::{
    address::Address,
    description::{TopologyDescription, TopologyId},
    error::{Error, ErrorKind},
    event::{CommandFacts, OperationFacts, SelectionFacts},
};

const SLOW: Duration = Duration::from_millis(50);

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn facts(operation_id: u64) -> Arc<CommandFacts> {
    Arc::new(CommandFacts {
        name: "find".into(),
        database: "db".into(),
        request_id: 1,
        operation_id,
        address: Address::tcp("a", 1),
        driver_connection_id: 3,
        server_connection_id: None,
        service: None,
    })
}

fn operation(operation_id: u64) -> Arc<OperationFacts> {
    Arc::new(OperationFacts {
        operation_id,
        name: format!("find{operation_id}").into(),
        database: "db".into(),
    })
}

/// Returns the start of an operation and of its command.
fn started(number: u64) -> [EventKind; 2] {
    let command = rawdoc! { "find": "secret" };
    let facts = facts(number);
    [
        EventKind::Operation(OperationEvent::Started {
            facts: operation(number),
        }),
        EventKind::Command(CommandEvent::Started { facts, command }),
    ]
}

fn failed(number: u64) -> EventKind {
    EventKind::Command(CommandEvent::Failed {
        facts: facts(number),
        duration: Duration::ZERO,
        failure: ErrorKind::Abandoned.into(),
    })
}

fn ended(number: u64, failure: Option<Error>) -> EventKind {
    EventKind::Operation(OperationEvent::Ended {
        facts: operation(number),
        duration: Duration::ZERO,
        failure,
    })
}

fn tell(listener: &EventListener, millis: u64, events: impl IntoIterator<Item = EventKind>) {
    for event in events {
        listener(&Event::new(at(millis), event));
    }
}

/// Returns the texts of the spans in the lane of operations of a client.
fn operations(recorder: &Recorder, client: &str) -> Vec<String> {
    let data = data(&recorder.page("a recording", None));
    let lanes = data["lanes"].as_array().expect("lanes");
    let is_it = |lane: &&serde_json::Value| lane["group"] == client && lane["name"] == "operations";
    let Some(lane) = lanes.iter().find(is_it) else {
        return Vec::new();
    };
    let spans = lane["spans"].as_array().expect("spans").iter();
    let texts = spans.map(|span| span["text"].as_str().expect("a text").to_owned());
    texts.collect()
}

#[test]
fn operations_that_succeed_at_once_are_left_out() {
    let recorder = Recorder::of_slow_operations(SLOW);
    let listener = recorder.listener();
    // Fast, slow, failed, repeated after a failed attempt, and one that has not ended.
    tell(&listener, 0, started(1).into_iter().chain([ended(1, None)]));
    tell(&listener, 0, started(2));
    tell(&listener, 50, [ended(2, None)]);
    let error = Some(ErrorKind::Abandoned.into());
    tell(
        &listener,
        60,
        started(3).into_iter().chain([ended(3, error)]),
    );
    tell(&listener, 61, started(4));
    tell(&listener, 61, [failed(4), ended(4, None)]);
    tell(&listener, 62, started(5));
    let shown = operations(&recorder, "client 0").join("; ");
    for (number, is_shown) in [(1, false), (2, true), (3, true), (4, true)] {
        let text = format!("find{number} of db");
        assert_eq!(shown.contains(&text), is_shown, "{text}: {shown}");
    }
    // The phases of operations 2 to 5, of which the last is under way.
    assert_eq!(shown.matches("find on a:1, connection 3").count(), 4);
}

#[test]
fn a_recorder_without_a_limit_shows_all_operations_of_each_client() {
    let recorder = Recorder::new();
    let listeners = [recorder.listener(), recorder.listener()];
    for (number, listener) in (1..).zip(&listeners) {
        tell(
            listener,
            0,
            started(number).into_iter().chain([ended(number, None)]),
        );
    }
    let shown = [
        operations(&recorder, "client 0"),
        operations(&recorder, "client 1"),
    ];
    assert!(shown[0].contains(&"find1 of db".to_owned()), "{shown:?}");
    assert!(shown[1].contains(&"find2 of db".to_owned()), "{shown:?}");
}

#[test]
fn a_page_has_members_and_marks_and_no_documents() {
    for recorder in [
        Recorder::new(),
        Recorder::of_slow_operations(Duration::ZERO),
    ] {
        let listener = recorder.listener();
        tell(&listener, 1, started(1).into_iter().chain([ended(1, None)]));
        recorder.set_member(0, "one:1", MemberState::Primary);
        recorder.mark(MarkKind::Disaster, "a power cut");
        let page = recorder.page("a recording", Some("an order was lost"));
        assert!(!page.contains("secret"));
        let data = data(&page);
        assert_eq!(data["lanes"][0]["name"], "one:1");
        assert_eq!(data["marks"][0]["text"], "a power cut");
        assert_eq!(data["failure"]["text"], "an order was lost");
    }
}

#[test]
fn dropped_events_end_the_operations_of_their_client_only() {
    let recorder = Recorder::of_slow_operations(SLOW);
    let listeners = [recorder.listener(), recorder.listener()];
    for listener in &listeners {
        tell(listener, 0, started(1));
    }
    tell(&listeners[0], 1, [EventKind::Dropped { count: 7 }]);
    assert_eq!(recorder.lock().held.len(), 1);
    assert_eq!(recorder.lock().held_events, 2);
    // The result of the first one is not known. The end of a failed one is in the list of events.
    tell(
        &listeners[0],
        2,
        [ended(1, None), ended(9, Some(ErrorKind::Abandoned.into()))],
    );
    let shown = operations(&recorder, "client 0");
    assert_eq!(shown, ["find on a:1, connection 3"]);
    let page = recorder.page("", None);
    assert!(page.contains("operation 9 fails"));
}

#[test]
fn a_failed_check_out_is_a_failed_attempt() {
    let selection = |event: fn(SelectionFacts) -> SelectionEvent, number| {
        EventKind::Selection(event(SelectionFacts {
            operation: "find".into(),
            operation_id: number,
            selector: "".into(),
            topology: Arc::new(TopologyDescription::unknown(TopologyId(
                ObjectId::from_bytes([1; 12]),
            ))),
        }))
    };
    let begins = |facts| SelectionEvent::Started { facts };
    let succeeds = |facts| SelectionEvent::Succeeded {
        facts,
        address: Address::tcp("a", 1),
    };
    let recorder = Recorder::of_slow_operations(SLOW);
    let listener = recorder.listener();
    for (number, attempts) in [(1, 1), (2, 2)] {
        let [start, command] = started(number);
        tell(&listener, 0, [start]);
        for _ in 0..attempts {
            tell(
                &listener,
                0,
                [selection(begins, number), selection(succeeds, number)],
            );
        }
        tell(&listener, 0, [command, ended(number, None)]);
    }
    let shown = operations(&recorder, "client 0").join("; ");
    assert!(
        !shown.contains("find1") && shown.contains("find2"),
        "{shown}"
    );
}

#[test]
fn the_events_that_are_held_are_bounded() {
    let recorder = Recorder::of_slow_operations(SLOW);
    let listener = recorder.listener();
    for number in 0..MAX_HELD_EVENTS as u64 + 2 {
        tell(&listener, 0, started(number).into_iter().take(1));
    }
    {
        let recording = recorder.lock();
        assert_eq!(
            (recording.held.len(), recording.held_events),
            (MAX_HELD_EVENTS, MAX_HELD_EVENTS)
        );
        assert!(
            !recording.held.contains_key(&(0, 1)),
            "the earliest is gone"
        );
    }
    let data = data(&recorder.page("", None));
    let summary = data["summary"].as_str().expect("a summary");
    assert!(summary.contains("the earliest 2 events"), "{summary}");
    // All events that are held can be those of one operation.
    let recorder = Recorder::of_slow_operations(SLOW);
    let listener = recorder.listener();
    tell(&listener, 0, started(0));
    tell(&listener, 0, (0..MAX_HELD_EVENTS).map(|_| failed(0)));
    assert_eq!(recorder.lock().held_events, 0);
    // Two clients have the same listener, although each should have its own.
    tell(&listener, 0, started(1).into_iter().chain(started(1)));
    assert_eq!(recorder.lock().held_events, 2);
}
