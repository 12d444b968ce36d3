//! Tests of recordings of clients.

use super::*;
use crate::operation::reply_with_cursor;

const WHOLE: RecordingOptions = RecordingOptions::whole(1 << 20);

/// Returns a world whose client records itself.
fn recorded(options: RecordingOptions) -> World {
    let parsed = uri::parse("mongodb://a/?replicaSet=rs").expect("a connection string");
    let config = ClientConfig::new(parsed.options, Seed::new([5; 32])).expect("options");
    let config = config.with_recording(options).expect("it has no secrets");
    World::with_config(config, primary())
}

fn file_of(world: &World) -> Vec<u8> {
    world.client.recording().expect("the client records itself")
}

fn entries(file: &[u8]) -> u64 {
    Recording::read(file).expect("a recording").entries()
}

/// Returns the last step of the replay.
fn last_step(file: &[u8]) -> ReplayedStep {
    let recording = Recording::read(file).expect("a recording");
    let steps = recording.replay().expect("it has its beginning");
    steps.last().expect("it has steps")
}

fn assert_same(file: &[u8]) {
    let last = last_step(file);
    assert_eq!(last.verdict, Verdict::Same, "{last:?}");
    assert_eq!(last.number, entries(file));
}

fn has_text(file: &[u8], text: &str) -> bool {
    let mut places = file.windows(text.len());
    places.any(|bytes| bytes == text.as_bytes())
}

/// Begins a `find`, sends it and gives it up. Returns its socket and its late reply.
fn give_up(world: &mut World) -> (SocketId, Vec<u8>) {
    let mut exchange = world.begin_exchange(find());
    exchange.sent(exchange.output().len());
    let (socket, request) = (exchange.socket(), exchange.request_id());
    world.check_in(exchange, Outcome::Abandoned);
    let mut body = reply_with_cursor();
    body.append(bson::cstr!("text"), "secret");
    (socket, framed(request, &body))
}

#[test]
fn a_late_reply_is_not_recorded() {
    let mut world = recorded(WHOLE);
    let (socket, reply) = give_up(&mut world);
    assert_eq!(world.draining, [socket]);
    for piece in reply.chunks(20) {
        world.client.handle_received(world.now, socket, piece);
        world.run();
    }
    assert_eq!(world.background.len(), 1, "the cursor is closed");
    let file = file_of(&world);
    assert!(!has_text(&file, "secret"));
    assert_same(&file);
}

#[test]
fn a_late_reply_is_not_recorded_once_nobody_waits_for_it() {
    let mut world = recorded(WHOLE);
    let (socket, reply) = give_up(&mut world);
    world.wait(DRAIN_LIMIT);
    assert!(world.closed.contains(&socket));
    // The shell had read these bytes before it closed the socket.
    let socket_use = world.client.handle_received(world.now, socket, &reply);
    assert_eq!(socket_use, SocketUse::Closed);
    let file = file_of(&world);
    assert!(!has_text(&file, "secret"));
    assert_same(&file);
}

#[test]
fn an_input_that_a_panic_has_ended_is_in_the_recording_and_differs() {
    let mut world = recorded(WHOLE);
    let before = entries(&file_of(&world));
    // A panic leaves an entry that has begun and not ended.
    world
        .client
        .begin_entry(world.now, Kind::Timeout, |_| Ok(()));
    let file = file_of(&world);
    let last = last_step(&file);
    assert_eq!((entries(&file), last.number), (before + 1, before + 1));
    assert_eq!(last.verdict, Verdict::Different);
    let why = Error::argument("the core has panicked");
    world.client.abandon(world.now, &why);
    assert!(world.client.take_failure());
    let file = file_of(&world);
    let last = last_step(&file);
    assert_eq!((entries(&file), last.number), (before + 2, before + 1));
    assert_eq!(last.verdict, Verdict::Different);
}

#[test]
fn a_client_that_is_abandoned_replays_to_the_same_actions() {
    let mut world = recorded(WHOLE);
    let before = entries(&file_of(&world));
    let why = Error::network(NetworkFault::Other, "the runtime has ended");
    world.client.abandon(world.now, &why);
    let file = file_of(&world);
    assert_eq!(entries(&file), before + 1);
    assert_same(&file);
}

#[test]
fn a_full_recording_reports_no_failure() {
    for (options, has_failure) in [
        (RecordingOptions::whole(0), false),
        (WHOLE, true),
        (RecordingOptions::ring(1 << 20), true),
    ] {
        let mut world = recorded(options);
        let mut exchange = world.begin_exchange(ping());
        exchange.sent(exchange.output().len());
        let after = world.check_in(exchange, reset());
        assert!(matches!(after, AfterExchange::Done(Err(_))), "{after:?}");
        assert_eq!(world.client.take_failure(), has_failure);
    }
}
