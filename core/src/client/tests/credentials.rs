//! Tests of parts of a credential that providers of the application give: which calls are made, who
//! shares their results, and what ends the wait.

mod scene;

use super::*;
use crate::{
    auth::{Finding, Inquiry},
    error::ErrorKind,
    options::{
        AuthMechanism, AwsCredentialProvider, AwsCredentials, Credential, CredentialProvider,
        Login, OidcCallback, OidcTokens, PasswordProvider, PasswordRequest, ProviderCall, Secret,
        Supplied,
    },
    time::WallTime,
};
use bson::{Binary, spec::BinarySubtype};
use scene::CredentialScene;
use std::{collections::VecDeque, future::ready, time::Duration};

fn plain(provider: PasswordProvider) -> Credential {
    let mut credential = Credential::with_provider(CredentialProvider::Password(provider));
    credential.mechanism = Some(AuthMechanism::Plain);
    credential
}

/// A provider that does not block. The scene gives the results itself.
fn password() -> Credential {
    plain(PasswordProvider::new(|_| ready(Ok(Login::new("", "")))))
}

fn blocking() -> Credential {
    let unused = |_: PasswordRequest| Ok(Login::new("", ""));
    plain(PasswordProvider::blocking(unused))
}

fn accepted() -> RawDocumentBuf {
    let payload = Binary {
        subtype: BinarySubtype::Generic,
        bytes: Vec::new(),
    };
    rawdoc! { "ok": 1, "conversationId": 1, "done": true, "payload": payload }
}

fn refused() -> RawDocumentBuf {
    rawdoc! { "ok": 0, "code": 18, "errmsg": "no" }
}

/// The error that requires authentication again.
fn required() -> RawDocumentBuf {
    rawdoc! { "ok": 0, "code": 391, "errmsg": "again" }
}

fn login(password: &str) -> Answer {
    let login = Login::new("ada", password);
    Answer::Found(Ok(Finding::Supplied(Supplied::Login(login))))
}

#[test]
fn connections_share_one_call_and_later_answers_reach_nobody() {
    let mut scene = CredentialScene::new(password(), "");
    let operations: Vec<_> = (0..3).map(|_| scene.start(ping())).collect();
    assert_eq!((scene.asked, scene.waiting()), (1, 3));
    let question = scene.answer(login("one"));
    scene.answer_to(question, login("two"));
    scene.answer_to(question, Answer::None);
    for operation in operations {
        let exchange = scene.resume(operation);
        scene.reply(exchange, &rawdoc! { "ok": 1 });
    }
    assert_eq!(scene.sent(), ["one"; 3]);
    assert_eq!((scene.asked, scene.waiting()), (1, 0));
}

#[test]
fn a_connection_that_is_lost_during_a_call_leaves_the_call_to_the_others() {
    let mut scene = CredentialScene::new(password(), "&retryReads=false");
    let operation = scene.start(ping());
    let socket = scene.dialled[scene.dialled.len() - 1];
    let lost = Error::network(NetworkFault::Reset, "reset");
    scene.client.handle_failed(scene.now, socket, lost);
    harness::drain(&mut scene);
    assert!(scene.error_of(operation).is_network());
    assert_eq!(scene.waiting(), 0);
    scene.answer(login("one"));
    assert!(scene.sent().is_empty(), "nobody waits for it");
    scene.wait(Duration::from_secs(1));
    let operation = scene.start(ping());
    scene.resume(operation);
    assert_eq!((scene.asked, scene.sent()), (1, vec!["one"]));
}

#[test]
fn a_client_that_is_closed_withdraws_the_call() {
    let mut scene = CredentialScene::new(password(), "");
    let operation = scene.start(ping());
    let (question, _) = scene.inquiries[0];
    scene.client.close(scene.now);
    harness::drain(&mut scene);
    assert_eq!(scene.withdrawn, [question]);
    assert!(matches!(
        scene.error_of(operation).kind(),
        ErrorKind::Shutdown
    ));
    scene.answer_to(question, login("one"));
    assert!(scene.sent().is_empty());
    assert!(scene.client.is_terminated());
}

#[test]
fn a_refused_login_is_replaced_by_that_of_another_connection_without_a_call() {
    let mut scene = CredentialScene::new(password(), "");
    scene.replies = [None, None].into();
    let operations = [scene.start(ping()), scene.start(ping())];
    scene.answer(login("old"));
    let refuse = |scene: &mut CredentialScene| {
        let (socket, request) = scene.unanswered.remove(0);
        scene.respond(socket, &request, &refused());
        harness::drain(scene);
    };
    refuse(&mut scene);
    scene.answer(login("new"));
    assert_eq!(scene.asked, 2);
    // The login of the second connection is refused when the new one is known.
    refuse(&mut scene);
    assert_eq!((scene.asked, scene.waiting()), (2, 0));
    assert_eq!(scene.sent(), ["old", "old", "new", "new"]);
    for operation in operations {
        let exchange = scene.resume(operation);
        scene.reply(exchange, &rawdoc! { "ok": 1 });
    }
}

#[test]
fn a_blocking_call_that_exceeds_its_limit_stays_the_only_one() {
    let mut scene = CredentialScene::new(blocking(), "&retryReads=false");
    let operation = scene.start(ping());
    scene.wait(Duration::from_secs(60));
    assert!(scene.error_of(operation).to_string().contains("time limit"));
    assert!(scene.withdrawn.is_empty(), "its thread cannot be stopped");
    let (late, _) = scene.inquiries.remove(0);
    for _ in 0..3 {
        scene.wait(Duration::from_secs(1));
        let operation = scene.start(ping());
        let error = scene.error_of(operation).to_string();
        assert!(error.contains("has not ended"), "{error}");
    }
    assert_eq!(scene.asked, 1);
    // The late result is not used. Then calls are possible again.
    scene.answer_to(late, login("late"));
    scene.wait(Duration::from_secs(1));
    scene.log_in(login("new"));
    assert_eq!((scene.asked, scene.sent()), (2, vec!["new"]));
}

#[test]
fn a_file_that_never_ends_is_read_by_one_thread_only() {
    let text = "mongodb://a/?authMechanism=MONGODB-OIDC&authMechanismProperties=ENVIRONMENT:k8s";
    let options = uri::parse(text).expect("valid").options;
    let credential = options.credential.as_ref().expect("one").clone();
    let mut scene = CredentialScene::new(credential, "&retryReads=false");
    let no_variables = || Answer::Found(Ok(Finding::Environment(vec![None; 2])));
    let operation = scene.start(ping());
    scene.answer(no_variables());
    assert!(matches!(scene.inquiries[0].1, Inquiry::File(_)));
    scene.wait(Duration::from_secs(10));
    assert!(scene.error_of(operation).to_string().contains("time limit"));
    assert!(scene.withdrawn.is_empty(), "its thread cannot be stopped");
    let (late, _) = scene.inquiries.remove(0);
    for _ in 0..3 {
        scene.wait(Duration::from_secs(1));
        let operation = scene.start(ping());
        let error = scene.error_of(operation).to_string();
        assert!(error.contains("has not ended"), "{error}");
    }
    assert_eq!(scene.asked, 2);
    let token = |text: &str| Answer::Found(Ok(Finding::File(Secret::new(text))));
    scene.answer_to(late, token("late"));
    scene.wait(Duration::from_secs(1));
    let operation = scene.start(ping());
    scene.answer(no_variables());
    scene.answer(token("new"));
    scene.resume(operation);
    assert_eq!(scene.asked, 4);
    let sent = scene.sent();
    assert!(sent.len() == 1 && sent[0].contains("new"), "{sent:?}");
}

#[test]
fn a_future_that_exceeds_its_limit_is_withdrawn() {
    let mut scene = CredentialScene::new(password(), "&retryReads=false");
    let operation = scene.start(ping());
    let (question, _) = scene.inquiries[0];
    scene.wait(Duration::from_secs(60));
    scene.error_of(operation);
    assert_eq!(scene.withdrawn, [question]);
    scene.wait(Duration::from_secs(1));
    scene.log_in(login("new"));
    assert_eq!(scene.asked, 2);
}

#[test]
fn an_answer_that_arrived_while_the_process_was_frozen_is_used() {
    let mut scene = CredentialScene::new(password(), "");
    let operation = scene.start(ping());
    scene.wait(Duration::from_secs(3600));
    assert!(scene.withdrawn.is_empty());
    scene.answer(login("one"));
    scene.resume(operation);
}

/// A scene with two connections that have sent a login with the same credentials of AWS, which are
/// in the cache.
fn with_aws_credentials() -> CredentialScene {
    let provider = AwsCredentialProvider::new(|| ready(Ok(AwsCredentials::new("", ""))));
    let credential = Credential::with_provider(CredentialProvider::Aws(provider));
    let mut scene = CredentialScene::new(credential, "&retryReads=false");
    let wall = WallTime::from_unix_millis(1_800_000_000_000);
    scene.client.set_wall_time(scene.now, wall);
    let hour = WallTime::from_unix_millis(wall.as_unix_millis() + 3_600_000);
    let keys = AwsCredentials::new("AKID", "secret").with_expiry(hour);
    scene.replies = [None, None].into();
    scene.start(ping());
    scene.start(ping());
    scene.answer(Answer::Found(Ok(Finding::Supplied(Supplied::Aws(keys)))));
    assert_eq!((scene.logins.len(), scene.asked), (2, 1));
    scene
}

#[test]
fn a_failure_before_authentication_keeps_the_credentials_of_aws() {
    // Only a failed authentication can be due to the credentials (AUTH-100).
    let mut scene = with_aws_credentials();
    scene.is_dead = true;
    scene.start(ping());
    scene.is_dead = false;
    scene.replies = [None].into();
    scene.start(ping());
    assert_eq!((scene.logins.len(), scene.asked), (3, 1));
}

#[test]
fn any_failure_of_authentication_clears_the_credentials_of_aws() {
    // AUTH-100: also the loss of the connection.
    let mut scene = with_aws_credentials();
    let socket = scene.logins[0].0;
    let lost = Error::network(NetworkFault::Reset, "reset");
    scene.client.handle_failed(scene.now, socket, lost);
    harness::drain(&mut scene);
    assert_eq!(scene.asked, 1);
    scene.wait(Duration::from_secs(1));
    scene.start(ping());
    assert_eq!(scene.asked, 2, "the provider is asked again");
}

/// A scene with one connection that is logged in and idle, and a token that the next call returns.
fn with_token(more: &str) -> (CredentialScene, SocketId) {
    let callback = OidcCallback::machine(|_| ready(Ok(OidcTokens::new(""))));
    let credential = Credential::with_oidc_callback(callback);
    let mut scene = CredentialScene::new(credential, more);
    let socket = scene.log_in(token("t1"));
    scene.now = scene.now + Duration::from_secs(1);
    (scene, socket)
}

fn token(text: &str) -> Answer {
    let tokens = OidcTokens::new(text);
    Answer::Found(Ok(Finding::Supplied(Supplied::Oidc(tokens))))
}

/// Starts an operation on the idle connection, whose request the server answers with the error 391.
fn require_login(scene: &mut CredentialScene, command: Command) -> Progress {
    let started = scene.client.start(scene.now, command);
    let exchange = scene.exchange_of(started);
    scene.reply_and_continue(exchange, &required())
}

fn id_of(progress: &Progress) -> OperationId {
    match progress {
        Progress::Waiting(id) => *id,
        other => panic!("{other:?} where a wait was expected"),
    }
}

#[test]
fn an_operation_that_leaves_during_authentication_again_closes_its_connection() {
    for has_token in [false, true] {
        let (mut scene, socket) = with_token("");
        scene.replies = [None].into();
        let waiting = require_login(&mut scene, find());
        if has_token {
            scene.answer(token("t2"));
        }
        scene.client.cancel(scene.now, id_of(&waiting));
        harness::drain(&mut scene);
        assert_eq!(scene.closed, [socket], "with a token: {has_token}");
        assert_eq!(scene.waiting(), 0);
        assert!(scene.client.snapshot().operations.is_empty());
        scene.replies.clear();
        if !has_token {
            scene.answer(token("t2"));
        }
        // The result of the call is not lost.
        let operation = scene.start(ping());
        assert_ne!(scene.resume(operation).socket(), socket);
        assert_eq!(scene.asked, 2);
    }
}

#[test]
fn each_attempt_of_an_operation_can_authenticate_again_once() {
    let (mut scene, _) = with_token("");
    let waiting = require_login(&mut scene, find());
    scene.answer(token("t2"));
    let exchange = scene.exchange_of(waiting);
    let shutdown = rawdoc! { "ok": 0, "code": 11600, "errmsg": "interrupted" };
    let waiting = scene.reply_and_continue(exchange, &shutdown);
    scene.wait(Duration::from_secs(1));
    let exchange = scene.exchange_of(waiting);
    // The second attempt, on another connection.
    let waiting = scene.reply_and_continue(exchange, &required());
    scene.answer(token("t3"));
    let exchange = scene.exchange_of(waiting);
    match scene.reply(exchange, &required()) {
        AfterExchange::Done(Err(error)) => assert_eq!(error.code(), Some(391)),
        other => panic!("{other:?} where an error was expected"),
    }
}

#[test]
fn a_server_that_shuts_down_during_authentication_again_is_judged_as_in_a_first_login() {
    // Row 5 of table A.8: the server becomes Unknown, and its pool is cleared.
    let (mut scene, socket) = with_token("");
    scene.replies = [Some(rawdoc! { "ok": 0, "code": 91, "errmsg": "shutdown" })].into();
    let waiting = require_login(&mut scene, find());
    let idle = scene.dialled.len();
    scene.answer(token("t2"));
    scene.wait(Duration::from_secs(1));
    assert!(scene.closed.contains(&socket));
    assert!(
        scene.dialled.len() > idle,
        "a new connection after the check"
    );
    assert_ne!(scene.exchange_of(waiting).socket(), socket);
}

#[test]
fn a_connection_that_is_lost_during_authentication_again_is_a_retryable_error() {
    for (more, is_retried) in [("", true), ("&retryReads=false", false)] {
        let (mut scene, socket) = with_token(more);
        scene.replies = [None].into();
        let waiting = require_login(&mut scene, find());
        scene.answer(token("t2"));
        let lost = Error::network(NetworkFault::Reset, "reset");
        scene.client.handle_failed(scene.now, socket, lost);
        harness::drain(&mut scene);
        scene.wait(Duration::from_secs(1));
        match is_retried {
            true => assert_ne!(scene.exchange_of(waiting).socket(), socket),
            false => assert!(scene.error_of(id_of(&waiting)).is_network()),
        }
    }
}

#[test]
fn a_login_that_fails_in_a_retry_does_not_hide_how_the_write_ended_before() {
    for is_refused in [false, true] {
        let (mut scene, _) = with_token("");
        let started = scene.client.start(scene.now, insert());
        let exchange = scene.exchange_of(started);
        let interrupted = rawdoc! {
            "ok": 0, "code": 11600, "errmsg": "interrupted", "errorLabels": ["RetryableWriteError"],
        };
        let waiting = scene.reply_and_continue(exchange, &interrupted);
        scene.wait(Duration::from_secs(1));
        let exchange = scene.exchange_of(waiting);
        let socket = exchange.socket();
        scene.replies = [is_refused.then(refused)].into();
        let waiting = scene.reply_and_continue(exchange, &required());
        scene.answer(token("t2"));
        if !is_refused {
            let lost = Error::network(NetworkFault::Reset, "reset");
            scene.client.handle_failed(scene.now, socket, lost);
            harness::drain(&mut scene);
        }
        let error = scene.error_of(id_of(&waiting));
        assert_eq!(error.code(), Some(11600), "refused: {is_refused}: {error}");
    }
}

#[test]
fn a_forked_child_sends_nothing_on_a_connection_that_authenticates_again() {
    for has_token in [false, true] {
        let (mut scene, socket) = with_token("");
        scene.replies = [None].into();
        let waiting = require_login(&mut scene, find());
        if has_token {
            scene.answer(token("t2"));
        }
        let sent = scene.logins.len();
        scene.replies.clear();
        scene.client.handle_forked(scene.now, &Seed::new([6; 32]));
        harness::drain(&mut scene);
        assert!(scene.closed.contains(&socket));
        assert_eq!(scene.withdrawn.len(), usize::from(!has_token));
        scene.wait(Duration::from_secs(1));
        if !has_token {
            // The call of the parent ends in the parent.
            assert_eq!(scene.asked, 3);
            scene.answer(token("t3"));
        }
        assert_ne!(scene.exchange_of(waiting).socket(), socket);
        let later = scene.logins[sent..].iter();
        assert!(later.map(|(socket, _)| *socket).all(|used| used != socket));
    }
}

#[test]
fn a_token_that_another_connection_has_obtained_meanwhile_is_used() {
    let (mut scene, _) = with_token("");
    let first = require_login(&mut scene, find());
    let second = scene.start(ping());
    assert_eq!(scene.asked, 2, "they share a call");
    scene.answer(token("t2"));
    scene.exchange_of(first);
    scene.resume(second);
    assert_eq!(scene.asked, 2);
}

#[test]
fn calls_of_providers_are_of_the_kind_that_the_application_chose() {
    for (credential, blocks) in [(password(), false), (blocking(), true)] {
        let mut scene = CredentialScene::new(credential, "");
        scene.start(ping());
        let Inquiry::Call(call) = &scene.inquiries[0].1 else {
            panic!("{:?} where a call was expected", scene.inquiries[0]);
        };
        assert_eq!(matches!(call, ProviderCall::Blocking(_)), blocks);
    }
}

/// Replies to the commands of authentication are read under the client's lock, so they have the
/// size limit of the hello. The limit of the server applies to operations, also after another
/// authentication.
#[test]
fn large_replies_are_accepted_by_operations_only() {
    let padding = "x".repeat(300_000);
    let mut large = accepted();
    large.append(bson::cstr!("padding"), padding.as_str());
    let is_protocol = |error: &Error| matches!(error.kind(), ErrorKind::InvalidResponse { .. });
    let mut scene = CredentialScene::new(password(), "&retryReads=false&maxAdaptiveRetries=0");
    scene.replies = [Some(large.clone())].into();
    let operation = scene.start(ping());
    scene.answer(login("one"));
    let error = scene.error_of(operation);
    assert!(is_protocol(&error), "{error}");

    let (mut scene, socket) = with_token("&retryReads=false&maxAdaptiveRetries=0");
    let waiting = require_login(&mut scene, find());
    scene.answer(token("t2"));
    let exchange = scene.exchange_of(waiting);
    let after = scene.reply(exchange, &rawdoc! { "ok": 1, "padding": padding });
    assert!(matches!(after, AfterExchange::Done(Ok(()))), "{after:?}");
    assert!(scene.closed.is_empty());
    scene.replies = [Some(large)].into();
    // Fetches of tokens begin at least 100 ms apart.
    scene.now = scene.now + Duration::from_secs(1);
    let waiting = require_login(&mut scene, find());
    scene.answer(token("t3"));
    let error = scene.error_of(id_of(&waiting));
    assert!(is_protocol(&error), "{error}");
    assert_eq!(scene.closed, [socket]);
}
