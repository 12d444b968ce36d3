//! Tests of TLS messages on established connections: alerts, `close_notify` and key updates.

use super::{
    Host, builder, client, end, find,
    identity::{scripted_secure_server, secure_server},
    impatient,
    late_replies::counter,
    ping,
    server::{Gate, Request, Server, Step, TlsMessage, answer},
    until, within,
};
use crate::peers::Scratch;
use onionskin::Runtime;
use onionskin_core::error::{Error, ErrorKind, IoError, NetworkFault, TlsFault};
use rustls::AlertDescription;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Starts a TLS server that answers the first request named `name` as `treat` says. Returns the
/// server and a connection string for it.
fn faulty(
    name: &'static str,
    scratch: &Scratch,
    treat: impl Fn(&Request) -> Vec<Step> + Send + Sync + 'static,
) -> (Server, String) {
    let (server, ca) = scripted_secure_server("127.0.0.1", scratch, move |request| {
        if request.name == name && request.earlier == 0 {
            treat(request)
        } else {
            answer(request)
        }
    });
    let uri = server.uri(&format!("tls=true&tlsCAFile={}", ca.display()));
    (server, uri)
}

fn is_broken(error: &Error) -> bool {
    let broken = TlsFault::Broken;
    matches!(error.kind(), ErrorKind::Tls { fault, .. } if *fault == broken)
}

/// A fatal alert during an operation is a network error. Reads are retried after such an error
/// (RR-2). The `ping` of `run_command` is not retried and fails.
pub async fn a_fatal_alert_during_an_operation_is_a_network_error<H: Host>() {
    let scratch = Scratch::new().expect("a directory");
    let alert = |_: &Request| vec![Step::Tls(TlsMessage::FatalAlert)];
    let (server, uri) = faulty("find", &scratch, alert);
    let client = client::<H>(&uri);
    find(&client, 1).await.expect("the second attempt");
    assert_eq!(server.seen("find").len(), 2);
    end::<H>(client, &server).await;

    let (server, uri) = faulty("ping", &scratch, alert);
    let client = super::client::<H>(&uri);
    let error = ping(&client).await.expect_err("it is not retried");
    assert!(is_broken(&error) && error.is_network(), "{error:?}");
    ping(&client).await.expect("another connection");
    end::<H>(client, &server).await;
}

/// An operation whose reply is missing or incomplete fails at once, if a `close_notify` comes on a
/// socket that stays open, or if the server closes its sending side without a `close_notify`.
pub async fn a_close_notify_before_a_complete_reply_fails_the_operation<H: Host>() {
    let scratch = Scratch::new().expect("a directory");
    let ending = || Step::Tls(TlsMessage::CloseNotify);
    for (sent, ending) in [
        (0, ending()),
        (5, ending()),
        (20, ending()),
        (20, Step::HalfClose),
    ] {
        let gate = Gate::new();
        let server_gate = gate.clone();
        let (server, uri) = faulty("ping", &scratch, move |request| {
            let whole = request.frame(&bson::doc! { "ok": 1, "text": "x".repeat(100) });
            let part = whole[..sent].to_vec();
            vec![
                Step::Send(part),
                ending.clone(),
                Step::Hold(server_gate.clone()),
            ]
        });
        let client = client::<H>(&uri);
        let error = within::<H, _>(H::SLACK, "the error", ping(&client)).await;
        let error = error.expect_err("the reply is cut off");
        let closed = NetworkFault::Closed;
        assert!(
            matches!(error.kind(), ErrorKind::Io(IoError { fault, .. }) if *fault == closed),
            "{error:?}"
        );
        gate.open();
        end::<H>(client, &server).await;
    }
}

/// A complete reply is delivered although a `close_notify` follows it. The connection is closed,
/// and the pool is not cleared.
pub async fn a_close_notify_after_a_reply_closes_only_its_connection<H: Host>() {
    let scratch = Scratch::new().expect("a directory");
    let gate = Gate::new();
    let server_gate = gate.clone();
    let (server, uri) = faulty("ping", &scratch, move |request| {
        let reply = request.frame(&bson::doc! { "ok": 1 });
        vec![
            Step::Tls(TlsMessage::Last(reply)),
            Step::Hold(server_gate.clone()),
        ]
    });
    let clears = Arc::new(AtomicUsize::new(0));
    let builder = builder::<H>(&uri).event_listener(counter(&clears));
    let client = builder.build().expect("a client");
    ping(&client).await.expect("a whole reply");
    let counts = client.counts();
    gate.open();
    until::<H>("the end of the connection", || server.open() == 1).await;
    client.flush_events().await;
    assert_eq!((counts.sockets, clears.load(Ordering::SeqCst)), (1, 0));
    ping(&client).await.expect("another connection");
    end::<H>(client, &server).await;
}

/// Key updates disturb neither idle connections nor operations.
pub async fn tls_key_updates_do_not_close_connections<H: Host>() {
    let scratch = Scratch::new().expect("a directory");
    let (server, ca) = scripted_secure_server("127.0.0.1", &scratch, |request| {
        let mut steps = vec![Step::Tls(TlsMessage::KeyUpdates(2))];
        steps.extend(answer(request));
        steps.push(Step::Tls(TlsMessage::KeyUpdates(2)));
        steps
    });
    let uri = server.uri(&format!("tls=true&tlsCAFile={}", ca.display()));
    let client = client::<H>(&uri);
    for n in 0..3 {
        find(&client, n).await.expect("a reply");
    }
    super::pause::<H>(onionskin_core::client::IDLE_CHECK_AFTER).await;
    find(&client, 3).await.expect("a reply");
    let finds = server.seen("find");
    assert!(
        finds
            .iter()
            .all(|seen| seen.connection == finds[0].connection)
    );
    end::<H>(client, &server).await;
}

/// The client sends an alert with the reason when it refuses a certificate, and when it receives a
/// wrong record.
pub async fn the_client_sends_an_alert_with_the_reason_of_a_tls_failure<H: Host>() {
    let scratch = Scratch::new().expect("a directory");
    let (server, _) = secure_server("127.0.0.1", &scratch);
    let stranger = client::<H>(&server.uri(&impatient::<H>("tls=true")));
    find(&stranger, 1).await.expect_err("nobody vouches for it");
    wait_for_alert::<H>(&server, AlertDescription::UnknownCA).await;
    end::<H>(stranger, &server).await;

    let garbage = |_: &Request| vec![Step::Tls(TlsMessage::InvalidRecord)];
    let (server, uri) = faulty("ping", &scratch, garbage);
    let client = client::<H>(&uri);
    let error = ping(&client).await.expect_err("no record");
    assert!(is_broken(&error), "{error:?}");
    wait_for_alert::<H>(&server, AlertDescription::BadRecordMac).await;
    end::<H>(client, &server).await;
}

/// The client sends an alert with the reason when it receives a wrong record on an idle connection.
pub async fn an_invalid_record_on_an_idle_connection_causes_an_alert<H: Host>() {
    let scratch = Scratch::new().expect("a directory");
    let gate = Gate::new();
    let server_gate = gate.clone();
    let (server, uri) = faulty("ping", &scratch, move |request| {
        let mut steps = answer(request);
        steps.extend([
            Step::Hold(server_gate.clone()),
            Step::Tls(TlsMessage::InvalidRecord),
        ]);
        steps
    });
    let client = client::<H>(&uri);
    ping(&client).await.expect("a reply");
    gate.open();
    super::pause::<H>(onionskin_core::client::IDLE_CHECK_AFTER).await;
    let next = ping(&client).await;
    // A single-threaded client does not check idle connections, so its operation receives the wrong
    // record.
    assert!(next.is_ok() || !H::R::RUNS_IN_BACKGROUND, "{next:?}");
    wait_for_alert::<H>(&server, AlertDescription::BadRecordMac).await;
    end::<H>(client, &server).await;
}

async fn wait_for_alert<H: Host>(server: &Server, alert: AlertDescription) {
    let failure = rustls::Error::AlertReceived(alert);
    until::<H>("the alert", || server.tls_failures().contains(&failure)).await;
}
