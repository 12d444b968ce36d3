//! Tests of recordings of clients.

use super::*;
use crate::{
    dns::{DnsAnswer, DnsData, RecordKind},
    error::{DnsFailure, ErrorKind},
    operation::reply_with_cursor,
    options::{Compressor, SelectionCriteria, ServerSelector},
};
use std::sync::Arc;

pub(super) const URI: &str = "mongodb://a/?replicaSet=rs";

const SRV_URI: &str = "mongodb+srv://c.example.net/?tls=false";

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
fn of_errors_without_a_code_only_the_words_of_a_state_change_are_recorded() {
    let text = "a secret: not master";
    let concern = rawdoc! { "code": 0, "errmsg": text };
    for (command, reply) in [
        (ping(), rawdoc! { "ok": 0, "errmsg": text }),
        (
            insert(),
            rawdoc! { "ok": 1, "n": 1, "writeConcernError": concern },
        ),
    ] {
        let mut world = recorded(WHOLE);
        let after = world.perform(command, &reply);
        assert!(matches!(after, AfterExchange::Done(Err(_))), "{after:?}");
        let file = file_of(&world);
        assert!(!has_text(&file, "a secret") && has_text(&file, "not master"));
        assert_same(&file);
    }
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
    let seed = "\"seed\":\"";
    let mut places = file.windows(seed.len());
    let at = places.position(|bytes| bytes == seed.as_bytes());
    let at = at.expect("the head has it") + seed.len();
    let seed = String::from_utf8_lossy(&file[at..at + 8]);
    assert!(!format!("{recording:?}").contains(&*seed));
}

#[test]
fn client_metadata_that_is_too_large_for_a_client_is_refused() {
    for (length, is_kept) in [(400, true), (512, false)] {
        let mut world = recorded(WHOLE);
        let metadata = rawdoc! { "platform": "a".repeat(length) };
        let client = &mut world.client;
        client.begin_timeless_entry(Kind::Metadata, |out| put_document(out, &metadata));
        client.end_entry(|_| {});
        let last = last_step(&file_of(&world));
        assert_eq!(last.verdict == Verdict::Same, is_kept, "{last:?}");
    }
}

#[test]
fn no_nonce_follows_from_the_seed_in_a_recording() {
    let seed = Seed::new([5; 32]);
    let config = config(URI, WHOLE);
    assert_ne!(config.seed.bytes(), seed.bytes());
    let nonces = config.nonces.as_ref().expect("they have their own seed");
    assert_ne!(nonces.bytes(), config.seed.split("nonces").bytes());
    // The seed of the configuration, in base64.
    assert!(!has_text(
        &file_of(&World::with_config(config, primary())),
        "BQUFBQUF"
    ));
}

/// Answers the lookups of a client with these hosts of `example.net`, or with a failure if there
/// are none. There is no TXT record.
fn answer_lookups(world: &mut World, hosts: &[&str]) {
    let failed = |failure| {
        let message = "the name server says no".to_owned();
        Err(Error::from(ErrorKind::DnsResolve { failure, message }))
    };
    let host = |name: &&str| DnsData::Service {
        host: format!("{name}.example.net"),
        port: 27017,
    };
    for (id, query) in std::mem::take(&mut world.lookups) {
        let result = match query.kind {
            RecordKind::Srv if hosts.is_empty() => failed(DnsFailure::Refused),
            RecordKind::Srv => Ok(DnsAnswer {
                records: hosts.iter().map(host).collect(),
                ttl: Some(MIN_RESCAN_INTERVAL),
            }),
            _ => failed(DnsFailure::NoRecords),
        };
        let answer = Answer::Records(result);
        world.client.handle_answer(world.now, id, answer);
        world.run();
    }
}

#[test]
fn the_lookups_and_rescans_of_a_seed_list_are_replayed() {
    let mut world = World::with_config(config(SRV_URI, WHOLE), mongos());
    answer_lookups(&mut world, &["a", "b"]);
    world.perform(ping(), &rawdoc! { "ok": 1 });
    world.wait(MIN_RESCAN_INTERVAL);
    assert_eq!(world.lookups.len(), 1, "the rescan is due");
    answer_lookups(&mut world, &["b", "other"]);
    world.perform(ping(), &rawdoc! { "ok": 1 });
    let mut file = file_of(&world);
    assert_same(&file);
    let host = b"other.example.net";
    let mut places = file.windows(host.len());
    let at = places.position(|bytes| bytes == host);
    let at = at.expect("the answer is recorded");
    file[at..at + 5].copy_from_slice(b"third");
    let last = last_step(&file);
    assert_eq!(last.verdict, Verdict::Different, "{last:?}");
}

#[test]
fn a_failed_lookup_and_a_missing_answer_are_replayed() {
    let mut world = World::with_config(config(SRV_URI, WHOLE), mongos());
    let start = world.client.start(world.now, ping());
    assert!(matches!(start, Progress::Waiting(_)), "{start:?}");
    answer_lookups(&mut world, &[]);
    let Progress::Waiting(_) = world.client.start(world.now, ping()) else {
        panic!("another lookup begins");
    };
    world.run();
    let lookups = std::mem::take(&mut world.lookups);
    assert!(!lookups.is_empty());
    for (id, _) in lookups {
        world.client.handle_answer(world.now, id, Answer::None);
        world.run();
    }
    assert_same(&file_of(&world));
}

#[test]
fn a_client_whose_hosts_were_looked_up_before_rescans_at_the_same_time() {
    let ttl = 2 * MIN_RESCAN_INTERVAL;
    let parsed = uri::parse(SRV_URI).expect("a connection string");
    let hosts = vec![Address::tcp("a.example.net", 27017)];
    let (mut options, _) = uri::resolve(&parsed.options, hosts, &[]).expect("it is valid");
    options.srv_ttl = Some(ttl);
    let config = ClientConfig::new(options, Seed::new([5; 32])).expect("options");
    let config = config.with_recording(WHOLE).expect("it has no secrets");
    let mut world = World::with_config(config, mongos());
    world.wait(ttl);
    assert_eq!(world.lookups.len(), 1);
    assert_same(&file_of(&world));
}

/// Asks the server selector for its choice and begins the exchange.
fn choose(world: &mut World, command: Command) -> Exchange {
    let start = world.client.start(world.now, command);
    let Progress::Asking {
        operation,
        question,
    } = start
    else {
        panic!("the selector has a say: {start:?}");
    };
    let answer = question.ask();
    let next = world
        .client
        .handle_selector_answer(world.now, operation, answer);
    world.exchange_of(next)
}

#[test]
fn the_choices_of_server_selectors_are_replayed_without_them() {
    let at_port = |command: Command, port: u16| {
        let mut command = command;
        let accepts = move |server: &crate::description::ServerDescription| {
            server.address.port() == Some(port)
        };
        command.set_criteria(&SelectionCriteria::Predicate(Arc::new(accepts)));
        command
    };
    let uri = "mongodb://a:1,a:2,a:3";
    let mut file = None;
    for of_client in [true, false] {
        let mut options = uri::parse(uri).expect("a connection string").options;
        if of_client {
            options.server_selector = Some(ServerSelector::new(|servers| {
                servers.retain(|server| server.address.port() == Some(3));
            }));
        }
        let config = ClientConfig::new(options, Seed::new([5; 32])).expect("options");
        let config = config.with_recording(WHOLE).expect("it has no secrets");
        let mut world = World::with_config(config, mongos());
        for port in [1, 2] {
            let (command, expected) = match of_client {
                true => (find(), 3),
                false => (at_port(find(), port), port),
            };
            let mut exchange = choose(&mut world, command);
            assert_eq!(exchange.facts().address.port(), Some(expected));
            World::answer(&mut exchange, &rawdoc! { "ok": 1 });
            world.check_in(exchange, Outcome::Completed);
        }
        file = Some(file_of(&world));
        assert_same(&file_of(&world));
    }
    // The last choice accepts the second server, and here the third.
    let mut file = file.expect("it was recorded");
    let steps: Vec<ReplayedStep> = Recording::read(&file)
        .expect("a recording")
        .print()
        .collect();
    let chosen = steps
        .iter()
        .rposition(|step| step.input.contains("accepts 1 servers"));
    let chosen = chosen.expect("the choice is recorded");
    // A choice ends with the number of its bytes, the bytes and the digest.
    let at = entry_end(&file, chosen) - 5;
    assert_eq!(file[at], 0b10);
    file[at] = 0b100;
    let last = last_step(&file);
    assert_eq!(last.verdict, Verdict::Different, "{last:?}");
    assert_eq!(last.number, chosen as u64 + 1);
}

/// Returns the end of the entry with this place in a recording.
fn entry_end(file: &[u8], place: usize) -> usize {
    fn number(file: &[u8], at: &mut usize) -> usize {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = file[*at];
            *at += 1;
            number |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return number;
            }
        }
    }
    let mut at = b"onionrec02".len();
    // The head, and the entries before.
    for _ in 0..place + 2 {
        at += number(file, &mut at);
    }
    at
}

#[test]
fn a_server_selector_that_panics_is_replayed() {
    let mut options = uri::parse(URI).expect("a connection string").options;
    options.server_selector = Some(ServerSelector::new(|_| panic!("a mistake")));
    let config = ClientConfig::new(options, Seed::new([5; 32])).expect("options");
    let config = config.with_recording(WHOLE).expect("it has no secrets");
    let mut world = World::with_config(config, primary());
    let Progress::Asking {
        operation,
        question,
    } = world.client.start(world.now, find())
    else {
        panic!("the selector has a say");
    };
    let answer = question.ask();
    let next = world
        .client
        .handle_selector_answer(world.now, operation, answer);
    assert!(matches!(next, Progress::Failed(_)), "{next:?}");
    assert_same(&file_of(&world));
}

#[test]
fn a_recording_of_another_version_of_the_format_is_refused_by_its_version() {
    let mut file = file_of(&recorded(WHOLE));
    for version in ["01", "03"] {
        file[8..10].copy_from_slice(version.as_bytes());
        let error = Recording::read(&file).expect_err("it has another format");
        let expected = format!("the version \"{version}\", ");
        assert!(error.to_string().contains(&expected), "{error}");
    }
}
