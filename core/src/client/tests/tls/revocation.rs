//! Tests of how a client finds out whether the certificate of a server was revoked.

use super::*;
use crate::{
    auth::{Finding, Inquiry},
    error::TlsFault,
    http::HttpResponse,
    tls::tests::revocation::{RESPONDER, Response},
};

const SECOND: Duration = Duration::from_secs(1);

/// Returns a client whose servers have a certificate that names these responders.
fn scene(uri: &str, responders: &[&str]) -> Scene {
    let authority = Authority::new();
    let issued = Issued::new(&authority, responders, false);
    let trust = authority.options();
    Scene::with_trust(uri, &TLS13, trust, authority, Some(issued), None)
}

impl Scene {
    /// Answers the oldest question by this response of a responder.
    fn respond(&mut self, status: u16, body: Vec<u8>) {
        let (id, question) = self.asked.remove(0);
        assert!(matches!(question, Question::Inquire(Inquiry::Http(_))));
        let body = body.into();
        let response = HttpResponse { status, body };
        self.finish(id, Ok(Finding::Http(response)));
    }

    fn finish(&mut self, id: QuestionId, finding: Result<Finding, String>) {
        let answer = Answer::Found(finding);
        self.client.handle_answer(self.now, id, answer);
        self.run();
    }

    /// Returns the response of a responder that states that the certificate is good, or was
    /// revoked.
    fn response(&self, is_good: bool) -> Vec<u8> {
        let response = match is_good {
            true => Response::new(&self.authority),
            false => Response::revoked(&self.authority),
        };
        let issued = self.issued.as_ref().expect("a certificate");
        response.about(issued, &self.authority)
    }

    /// Sets the time of day to this number of seconds after the start.
    fn set_time(&mut self, seconds: u64) {
        let millis = NOW.as_unix_millis() + seconds * 1000;
        let wall = WallTime::from_unix_millis(millis);
        self.client.set_wall_time(self.now, wall);
    }

    /// Begins two operations, which need at least one new connection.
    fn open_another(&mut self) {
        for _ in 0..2 {
            let _waiting = self.client.start(self.now, ping());
        }
        self.run();
    }

    fn is_connected(&self) -> bool {
        let description = self.client.topology();
        let mut servers = description.servers.values();
        servers.any(|server| server.error.is_none() && server.round_trip_time.is_some())
    }

    /// Returns the error of the server.
    fn failure(&self) -> Option<Error> {
        let description = self.client.topology();
        let mut servers = description.servers.values();
        servers.find_map(|server| server.error.clone())
    }
}

#[test]
fn a_client_asks_the_responder_once_and_keeps_the_answer() {
    // OCSP-9, OCSP-12, OCSP-31.
    let mut scene = scene(URI, &[RESPONDER]);
    assert_eq!(scene.asked.len(), 1);
    assert!(!scene.is_connected());
    let good = scene.response(true);
    scene.respond(200, good);
    assert!(scene.is_connected());
    // The connections of the pool use the same answer.
    scene.perform(ping());
    assert!(scene.asked.is_empty() && scene.withdrawn.is_empty());
    assert!(scene.closed.is_empty());
}

/// Returns the requests that were asked for, as text.
fn requests(scene: &Scene) -> Vec<String> {
    let request = |(_, question): &(QuestionId, Question)| match question {
        Question::Inquire(Inquiry::Http(request)) => request.to_string(),
        other => panic!("{other:?}"),
    };
    scene.asked.iter().map(request).collect()
}

#[test]
fn responders_are_asked_unless_the_options_forbid_it() {
    // OCSP-12, OCSP-16.
    let urls = [
        "https://secure.example.net/",
        "ldap://directory.example.net/",
        "http://one.example.net/a?b",
        "http://two.example.net",
        "http://three.example.net:8080",
        "http://four.example.net",
        "http://five.example.net",
    ];
    let expected = ["one", "two", "three", "four"];
    let expected = expected.map(|name| {
        let port = if name == "three" { 8080 } else { 80 };
        format!("POST http://{name}.example.net:{port}")
    });
    assert_eq!(requests(&scene(URI, &urls)), expected);

    let authority = Authority::new();
    let issued = Issued::new(&authority, &urls, false);
    let mut trust = authority.options();
    trust.disable_ocsp_endpoint_check = Some(true);
    let scene = Scene::with_trust(URI, &TLS13, trust, authority, Some(issued), None);
    assert!(requests(&scene).is_empty());
    assert!(scene.is_connected());
}

#[test]
fn connections_that_wait_share_one_request() {
    let mut scene = scene(
        "mongodb://db.example.net/?loadBalanced=true&tls=true",
        &[RESPONDER],
    );
    let waiting: Vec<_> = (0..2)
        .map(|_| scene.client.start(scene.now, ping()))
        .collect();
    scene.run();
    assert_eq!((scene.peers.len(), scene.asked.len()), (2, 1));
    let good = scene.response(true);
    scene.respond(200, good);
    for start in waiting {
        let exchange = scene.exchange_of(start);
        scene.check_in(exchange, Outcome::Abandoned);
    }
}

#[test]
fn a_revoked_certificate_ends_the_connection() {
    // OCSP-5.
    let mut scene = scene(URI, &[RESPONDER]);
    let revoked = scene.response(false);
    scene.respond(200, revoked);
    assert!(!scene.is_connected());
    let error = scene.failure().expect("the monitor failed");
    assert!(matches!(
        error.kind(),
        ErrorKind::Tls {
            fault: TlsFault::Revoked,
            ..
        }
    ));
    assert!(error.to_string().contains("OCSP responder"), "{error}");
    // Later connections fail at once.
    let before = scene.closed.len();
    scene.wait(SECOND);
    let _waiting = scene.client.start(scene.now, ping());
    scene.run();
    assert!(scene.closed.len() > before);
    assert!(scene.asked.is_empty());
    let error = scene.failure().expect("the monitor failed");
    assert!(
        error.to_string().contains("earlier OCSP response"),
        "{error}"
    );
}

#[test]
fn a_stapled_revocation_is_kept_for_connections_without_a_staple() {
    // OCSP-4, OCSP-31.
    let authority = Authority::new();
    let issued = Issued::new(&authority, &[RESPONDER], false);
    let staple = Response::revoked(&authority).about(&issued, &authority);
    let trust = authority.options();
    let mut scene = Scene::with_trust(URI, &TLS13, trust, authority, Some(issued), Some(staple));
    let error = scene.failure().expect("the monitor failed");
    assert!(error.to_string().contains("stapled"), "{error}");
    scene.wait(10 * SECOND);
    assert!(scene.peers.len() > 1 && scene.asked.is_empty());
    let error = scene.failure().expect("the monitor failed");
    assert!(
        error.to_string().contains("earlier OCSP response"),
        "{error}"
    );
}

#[test]
fn the_first_conclusive_response_counts_and_the_others_are_withdrawn() {
    // OCSP-12, OCSP-32.
    let urls = [
        "http://one.example.net",
        "http://two.example.net",
        "http://three.example.net",
    ];
    let mut scene = scene(URI, &urls);
    assert_eq!(
        scene.asked.len(),
        3,
        "responders are asked at the same time"
    );
    scene.respond(500, Vec::new());
    assert!(!scene.is_connected());
    let third = scene.asked[1].0;
    let good = scene.response(true);
    scene.respond(200, good);
    assert!(scene.is_connected());
    assert_eq!(scene.withdrawn, [third]);
    assert_eq!(
        scene.client.clock.timers.deadline(Timer::Question(third)),
        None
    );
    // A late answer changes nothing.
    let revoked = HttpResponse {
        status: 200,
        body: scene.response(false).into(),
    };
    scene.finish(third, Ok(Finding::Http(revoked)));
    assert!(scene.is_connected());
}

#[test]
fn a_responder_that_does_not_know_the_status_does_not_end_the_check() {
    // OCSP-12.
    for is_good in [true, false] {
        let mut scene = scene(URI, &["http://one.example.net", "http://two.example.net"]);
        let issued = scene.issued.as_ref().expect("a certificate");
        let unknown = Response::unknown(&scene.authority).about(issued, &scene.authority);
        scene.respond(200, unknown);
        assert!(!scene.is_connected() && scene.failure().is_none());
        let answer = scene.response(is_good);
        scene.respond(200, answer);
        assert_eq!(scene.is_connected(), is_good);
        assert_eq!(scene.failure().is_some(), !is_good);
    }
}

/// A monitor whose check is nearly over does not wait for a check that another connection began,
/// and a connection does not accept the result of a check that was short.
#[test]
fn each_connection_waits_for_a_shared_check_as_long_as_its_own_limit() {
    let mut scene = scene(&format!("{URI}&directConnection=true"), &[RESPONDER]);
    scene.respond(500, Vec::new());
    assert!(scene.is_connected());
    scene.set_time(60);
    // Another connection of the monitor gets through its handshake late.
    scene.is_slow = true;
    let monitor = *scene.peers.keys().next().expect("the monitor's");
    scene.client.handle_received(scene.now, monitor, &[]);
    scene.run();
    scene.wait(10 * SECOND);
    let monitor = *scene.peers.keys().last().expect("the monitor's");
    scene.wait(Duration::from_millis(9_900));
    scene.deliver(monitor);
    scene.run();
    assert_eq!(scene.asked.len(), 1, "for at most 50 ms");
    // A connection of the pool joins the check, and asks again when it is over.
    scene.is_slow = false;
    let joined = scene.client.start(scene.now, ping());
    scene.run();
    assert_eq!((scene.asked.len(), scene.withdrawn.len()), (1, 0));
    scene.wait(Duration::from_millis(60));
    assert_eq!((scene.asked.len(), scene.withdrawn.len()), (2, 1));
    assert!(matches!(joined, Progress::Waiting(_)));
    scene.deliver(monitor);
    scene.run();
    assert!(scene.is_connected(), "{:?}", scene.failure());
    let (_withdrawn, _) = scene.asked.remove(0);
    let good = scene.response(true);
    scene.respond(200, good);
    scene.exchange_of(joined);
}

#[test]
fn a_client_connects_if_no_responder_knows_the_status() {
    // OCSP-14.
    let endings: [fn(&mut Scene); 4] = [
        |scene| scene.respond(200, b"no response at all".to_vec()),
        |scene| scene.respond(302, Vec::new()),
        |scene| {
            scene.wait(4 * SECOND);
            assert!(!scene.is_connected());
            scene.wait(SECOND);
            assert_eq!(scene.withdrawn.len(), 1);
            scene.asked.clear();
        },
        |scene| {
            let (id, _) = scene.asked.remove(0);
            scene.client.handle_answer(scene.now, id, Answer::None);
            scene.run();
        },
    ];
    for ending in endings {
        let mut scene = scene(URI, &[RESPONDER]);
        ending(&mut scene);
        assert!(scene.is_connected());
        // For a minute, other connections do not wait for the responder.
        scene.set_time(59);
        scene.perform(ping());
        assert!(scene.asked.is_empty());
        scene.set_time(60);
        scene.open_another();
        assert_eq!(scene.asked.len(), 1);
    }
}

#[test]
fn the_status_unknown_is_not_kept_as_an_answer() {
    // OCSP-32.
    let mut scene = scene(URI, &[RESPONDER]);
    let issued = scene.issued.as_ref().expect("a certificate");
    let unknown = Response::unknown(&scene.authority).about(issued, &scene.authority);
    scene.respond(200, unknown);
    assert!(scene.is_connected());
    scene.set_time(60);
    scene.open_another();
    assert_eq!(scene.asked.len(), 1);
    // A clock that was set back does not prolong the pause.
    scene.respond(500, Vec::new());
    scene.set_time(0);
    scene.open_another();
    assert_eq!(scene.asked.len(), 1);
}

/// A server cannot shorten the time of the responders by a slow handshake. A shorter time, as on a
/// monitor's connection, does not keep later connections from asking.
#[test]
fn a_slow_handshake_does_not_shorten_the_check() {
    let uri = "mongodb://db.example.net/?loadBalanced=true&tls=true&maxAdaptiveRetries=0";
    let mut scene = scene(uri, &[RESPONDER]);
    scene.is_slow = true;
    let start = scene.client.start(scene.now, ping());
    scene.run();
    scene.wait(Duration::from_millis(9_990));
    scene.is_slow = false;
    let socket = *scene.peers.keys().next().expect("a socket");
    scene.deliver(socket);
    scene.run();
    assert_eq!(scene.asked.len(), 1);
    scene.wait(Duration::from_millis(4_990));
    assert!(scene.withdrawn.is_empty() && scene.closed.is_empty());
    let good = scene.response(true);
    scene.respond(200, good);
    scene.exchange_of(start);
}

#[test]
fn responders_get_half_of_a_short_connect_timeout() {
    let uri = format!("{URI}&connectTimeoutMS=4000");
    let mut scene = scene(&uri, &[RESPONDER]);
    scene.wait(2 * SECOND);
    assert_eq!(scene.withdrawn.len(), 1);
    assert!(scene.is_connected());
}

#[test]
fn a_connection_that_is_lost_while_it_waits_fails() {
    let mut scene = scene(URI, &[RESPONDER]);
    let socket = *scene.peers.keys().next().expect("a socket");
    scene.client.handle_received(scene.now, socket, &[]);
    scene.run();
    assert!(scene.failure().is_some());
    // The answer is kept for the next connection.
    let good = scene.response(true);
    scene.respond(200, good);
    scene.wait(10 * SECOND);
    assert!(scene.is_connected());
    assert!(scene.asked.is_empty());
}

#[test]
fn a_closed_client_withdraws_its_requests() {
    let mut scene = scene(URI, &[RESPONDER]);
    scene.client.close(scene.now);
    scene.run();
    assert_eq!(scene.withdrawn.len(), 1);
    let good = scene.response(true);
    scene.respond(200, good);
}

#[test]
fn connections_of_a_load_balancer_wait_for_the_status() {
    // There is no monitor, so that the first connection is one of the pool.
    let uri = "mongodb://db.example.net/?tls=true&loadBalanced=true";
    for is_good in [true, false] {
        let mut scene = scene(uri, &[RESPONDER]);
        assert!(scene.asked.is_empty() && scene.peers.is_empty());
        let waiting = scene.client.start(scene.now, ping());
        scene.run();
        assert_eq!(scene.asked.len(), 1);
        let body = scene.response(is_good);
        scene.respond(200, body);
        if is_good {
            let _exchange = scene.exchange_of(waiting);
            continue;
        }
        let Progress::Waiting(id) = waiting else {
            panic!("no connection is ready: {waiting:?}");
        };
        match scene.client.resume(scene.now, id) {
            Progress::Failed(error) => {
                let is_revoked = matches!(
                    error.kind(),
                    ErrorKind::Tls { fault, .. } if *fault == TlsFault::Revoked
                );
                assert!(is_revoked, "{error:?}");
            }
            other => panic!("it was revoked: {other:?}"),
        }
        assert_eq!(scene.closed.len(), 1);
    }
}

#[test]
fn a_forked_child_asks_the_responder_again() {
    let mut scene = scene(URI, &[RESPONDER]);
    let sockets: Vec<_> = scene.peers.keys().copied().collect();
    scene.client.handle_forked(scene.now, &Seed::new([6; 32]));
    scene.run();
    assert_eq!(scene.closed, sockets);
    // The first request was the parent's.
    assert_eq!((scene.asked.len(), scene.withdrawn.len()), (2, 1));
    let good = scene.response(true);
    scene.respond(200, good.clone());
    assert!(!scene.is_connected());
    scene.respond(200, good);
    assert!(scene.is_connected());
}
