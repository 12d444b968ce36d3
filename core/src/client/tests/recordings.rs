//! Tests of recordings of clients.

use super::*;
use crate::{
    operation::reply_with_cursor,
    options::{Compressor, ServerSelector},
};

pub(super) const URI: &str = "mongodb://a/?replicaSet=rs";

pub(super) const WHOLE: RecordingOptions = RecordingOptions::whole(1 << 20);

/// Returns the configuration of a client that records itself.
pub(super) fn config(uri: &str, options: RecordingOptions) -> ClientConfig {
    let parsed = uri::parse(uri).expect("a connection string");
    let config = ClientConfig::new(parsed.options, Seed::new([5; 32])).expect("options");
    config.with_recording(options).expect("it has no secrets")
}

/// Returns a world whose client records itself.
pub(super) fn recorded(options: RecordingOptions) -> World {
    World::with_config(config(URI, options), primary())
}

pub(super) fn file_of(world: &World) -> Vec<u8> {
    world.client.recording().expect("the client records itself")
}

pub(super) fn entries(file: &[u8]) -> u64 {
    Recording::read(file).expect("a recording").entries()
}

/// Returns the last step of the replay.
fn last_step(file: &[u8]) -> ReplayedStep {
    let recording = Recording::read(file).expect("a recording");
    let steps = recording.replay().expect("it has its beginning");
    steps.last().expect("it has steps")
}

pub(super) fn assert_same(file: &[u8]) {
    let last = last_step(file);
    assert_eq!(last.verdict, Verdict::Same, "{last:?}");
    assert_eq!(last.number, entries(file));
}

pub(super) fn has_text(file: &[u8], text: &str) -> bool {
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

#[test]
fn the_next_deadline_of_the_client_is_compared() {
    let mut world = recorded(WHOLE);
    world
        .client
        .begin_entry(world.now, Kind::Timeout, |_| Ok(()));
    world.client.clock.armed = None;
    world.client.end_entry(|_| {});
    assert_eq!(last_step(&file_of(&world)).verdict, Verdict::Different);
}

#[test]
fn a_whole_recording_ends_with_the_input_that_ends_each_replay() {
    for (options, later) in [(WHOLE, 0), (RecordingOptions::ring(1 << 20), 1)] {
        let mut world = recorded(options);
        let before = entries(&file_of(&world));
        world.client.handle_forked(world.now, &Seed::new([6; 32]));
        let file = file_of(&world);
        assert_eq!(entries(&file), before + 1);
        assert!(!Recording::read(&file).expect("a recording").is_cut());
        world.client.handle_timeout(world.now);
        let file = file_of(&world);
        assert_eq!(entries(&file), before + 1 + later);
        let is_cut = Recording::read(&file).expect("a recording").is_cut();
        assert_eq!(is_cut, later == 0);
        assert!(matches!(last_step(&file).verdict, Verdict::Unknown(_)));
    }
}

#[test]
fn only_labels_with_a_meaning_are_recorded() {
    let mut world = recorded(WHOLE);
    let labels = bson::rawbson!(["a secret", "SystemOverloadedError"]);
    let reply = rawdoc! { "ok": 0, "code": 2, "codeName": "BadValue", "errorLabels": labels };
    let after = world.perform(ping(), &reply);
    assert!(matches!(after, AfterExchange::Done(Err(_))), "{after:?}");
    let file = file_of(&world);
    assert!(!has_text(&file, "a secret") && has_text(&file, "SystemOverloadedError"));
    assert_same(&file);
}

#[test]
fn only_available_compressors_are_recorded() {
    let uri = format!("{URI}&compressors=snappy,zlib,zstd");
    let file = file_of(&World::with_config(config(&uri, WHOLE), primary()));
    for compressor in Compressor::ALL {
        let name = format!("{:?}", compressor.name());
        assert_eq!(has_text(&file, &name), compressor.is_available());
    }
    assert_same(&file);
}

#[test]
fn a_compressor_that_this_build_lacks_is_refused_by_name() {
    let file = file_of(&recorded(WHOLE));
    let at = file
        .windows(14)
        .position(|bytes| bytes == b"\"compressors\":");
    let at = at.expect("the head has them");
    let (head, rest) = file.split_at(at);
    let (begin, size) = (b"onionrec02".len(), 2);
    let place = rest.iter().position(|&byte| byte == b']').expect("a list");
    let list = b"\"compressors\":[\"lz5\"]";
    let mut other = [head, list, &rest[place + 1..]].concat();
    let length = usize::from(other[begin] & 0x7f) | usize::from(other[begin + 1]) << 7;
    let length = length + list.len() - (place + 1);
    other[begin..begin + size].copy_from_slice(&[length as u8 | 0x80, (length >> 7) as u8]);
    let recording = Recording::read(&other).expect("a recording");
    let error = recording.replay().expect_err("there is no such compressor");
    assert!(error.to_string().contains("lz5"), "{error}");
}

#[test]
fn the_debug_text_of_a_recording_has_no_seed() {
    let file = file_of(&recorded(WHOLE));
    let recording = Recording::read(&file).expect("a recording");
    // The seed in base64.
    let seed = "BQUFBQUF";
    assert!(has_text(&file, seed));
    assert!(!format!("{recording:?}").contains(seed));
}

#[test]
fn a_client_whose_questions_are_not_recorded_is_refused() {
    let srv = uri::parse("mongodb+srv://cluster.example.com/?tls=false");
    let srv = srv.expect("a connection string").options;
    let mut selecting = uri::parse(URI).expect("a connection string").options;
    selecting.server_selector = Some(ServerSelector::new(|_| {}));
    for (options, what) in [
        (srv, "a mongodb+srv connection string"),
        (selecting, "a server selector"),
    ] {
        let config = ClientConfig::new(options, Seed::new([5; 32])).expect("options");
        let error = config.with_recording(WHOLE).expect_err("it is refused");
        assert!(error.to_string().contains(what), "{error}");
    }
}
