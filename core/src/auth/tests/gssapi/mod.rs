//! Tests of GSSAPI, with a Kerberos library that follows a script.

mod names;

use super::*;
use crate::options::{
    CanonicalizeHostName, Kerberos, KerberosLibrary, KerberosTarget, SecurityContext,
};
use std::sync::mpsc::{self, Receiver, Sender};

/// A Kerberos library. A token of the context is `client N`, and a wrapped message is the content
/// between brackets.
#[derive(Clone)]
struct Script {
    /// The number of steps after which the context is complete.
    steps: usize,
    /// True if the last step gives no token.
    ends_silently: bool,
    /// The canonical name of every host.
    canonical: Option<Result<&'static str, &'static str>>,
    /// The error of `begin`.
    refusal: Option<&'static str>,
    /// Where the library reports its calls.
    calls: Option<Sender<Call>>,
}

/// A call of a library.
#[derive(Debug, PartialEq)]
enum Call {
    Lookup(String, CanonicalizeHostName),
    Begin(KerberosTarget),
    Step(Option<Vec<u8>>),
}

impl Script {
    const fn with_steps(steps: usize) -> Self {
        Self {
            steps,
            ends_silently: false,
            canonical: None,
            refusal: None,
            calls: None,
        }
    }

    fn report(&self, call: Call) {
        if let Some(calls) = &self.calls {
            calls.send(call).expect("the test listens");
        }
    }

    fn caches(&self) -> Caches {
        let library = KerberosLibrary(Arc::new(self.clone()));
        AuthState::new(random()).with_kerberos(Some(library)).caches
    }
}

impl Kerberos for Script {
    fn canonical_name(&self, host: &str, mode: CanonicalizeHostName) -> Result<String, String> {
        self.report(Call::Lookup(host.to_owned(), mode));
        match self.canonical.expect("a lookup was scripted") {
            Ok(name) => Ok(name.to_owned()),
            Err(reason) => Err(reason.to_owned()),
        }
    }

    fn begin(&self, target: &KerberosTarget) -> Result<Box<dyn SecurityContext>, String> {
        self.report(Call::Begin(target.clone()));
        match self.refusal {
            Some(reason) => Err(reason.to_owned()),
            None => Ok(Box::new(Context {
                script: self.clone(),
                done: 0,
            })),
        }
    }
}

struct Context {
    script: Script,
    done: usize,
}

impl SecurityContext for Context {
    fn step(&mut self, token: Option<&[u8]>) -> Result<Option<Vec<u8>>, String> {
        self.script.report(Call::Step(token.map(<[u8]>::to_vec)));
        if token == Some(b"bad") {
            return Err("the token is bad".to_owned());
        }
        self.done += 1;
        let is_silent = self.script.ends_silently && self.done >= self.script.steps;
        Ok((!is_silent).then(|| format!("client {}", self.done).into_bytes()))
    }

    fn is_complete(&self) -> bool {
        self.done >= self.script.steps
    }

    fn unwrap(&mut self, message: &[u8]) -> Result<Vec<u8>, String> {
        let inner = message
            .strip_prefix(b"[")
            .and_then(|m| m.strip_suffix(b"]"));
        inner
            .map(<[u8]>::to_vec)
            .ok_or_else(|| "not wrapped".to_owned())
    }

    fn wrap(&mut self, content: &[u8]) -> Result<Vec<u8>, String> {
        Ok([b"[", content, b"]"].concat())
    }
}

fn credential(properties: &[(&str, &str)]) -> Credential {
    let mut credential = Credential::builder().source("$external".to_owned()).build();
    credential.username = Some("ada@R".to_owned());
    credential.mechanism = Some(AuthMechanism::Gssapi);
    let properties = properties.iter();
    credential.mechanism_properties = properties
        .map(|&(key, value)| (key.to_owned(), Secret::new(value)))
        .collect();
    credential
}

/// A conversation with a server, and the library that it uses.
struct Scene {
    conversation: Conversation,
    caches: Caches,
    calls: Receiver<Call>,
}

impl Scene {
    fn new(mut script: Script, credential: &Credential) -> Self {
        let (sender, calls) = mpsc::channel();
        script.calls = Some(sender);
        Self {
            conversation: conversation_of(credential).expect("a usable credential"),
            caches: script.caches(),
            calls,
        }
    }

    /// Returns the target of the context that was begun, after checking that these lookups
    /// preceded it.
    fn target_after(&self, lookups: Vec<(String, CanonicalizeHostName)>) -> KerberosTarget {
        for (host, mode) in lookups {
            assert_eq!(self.calls.try_recv(), Ok(Call::Lookup(host, mode)));
        }
        match self.calls.try_recv() {
            Ok(Call::Begin(target)) => target,
            other => panic!("{other:?} where a context was expected"),
        }
    }

    /// Runs the step of the library that the conversation asks for.
    fn run(&mut self, step: Step) -> Step {
        match step {
            Step::Kerberos(work) => self
                .conversation
                .handle_kerberos_step(work.run(), &mut self.caches),
            other => panic!("{other:?} where work was expected"),
        }
    }

    /// Begins the conversation, and runs the first step of the library.
    fn begin(&mut self) -> Step {
        assert!(self.conversation.speculative(&self.caches).is_none());
        let now = Instant::ZERO;
        let step = self
            .conversation
            .handle_hello(now, None, None, &mut self.caches);
        self.run(step)
    }

    fn reply(&mut self, text: &str, done: bool) -> Step {
        let reply = reply(text, done);
        self.conversation
            .handle_reply(Instant::ZERO, &reply, &mut self.caches)
    }

    /// Gives the conversation a reply, and runs the step of the library that follows.
    fn answer(&mut self, text: &str) -> Step {
        let step = self.reply(text, false);
        self.run(step)
    }
}

fn command(step: Step) -> RawDocumentBuf {
    match step {
        Step::Send { database, command } => {
            assert_eq!(database, "$external");
            command
        }
        other => panic!("{other:?} where a command was expected"),
    }
}

/// The wrapped offer of no security layer, with a maximum size that is ignored.
const OFFER: &str = "[\u{1}\u{0}\u{7f}\u{7f}]";

#[test]
fn a_conversation_of_three_commands_authenticates() {
    // `saslStart` and `saslContinue` carry the messages (AUTH-40, AUTH-41).
    let mut script = Script::with_steps(2);
    script.ends_silently = true;
    let mut scene = Scene::new(script, &credential(&[]));
    let first = command(scene.begin());
    let payload = |bytes: &[u8]| Binary {
        subtype: BinarySubtype::Generic,
        bytes: bytes.to_vec(),
    };
    let expected = rawdoc! {
        "saslStart": 1, "mechanism": "GSSAPI", "payload": payload(b"client 1"), "autoAuthorize": 1,
    };
    assert_eq!(first, expected);
    // The context is complete without another token, so the message is empty.
    let second = command(scene.answer("server 1"));
    let expected = rawdoc! { "saslContinue": 1, "conversationId": 7, "payload": payload(b"") };
    assert_eq!(second, expected);
    let third = command(scene.answer(OFFER));
    let answer = payload(b"[\x01\0\0\0ada@R]");
    let expected = rawdoc! { "saslContinue": 1, "conversationId": 7, "payload": answer };
    assert_eq!(third, expected);
    assert!(matches!(scene.reply("", true), Step::Done));
    let mechanism = scene.conversation.authenticated().mechanism();
    assert_eq!(mechanism, AuthMechanism::Gssapi);
    assert_eq!(
        scene.target_after(Vec::new()).service,
        "mongodb/localhost@R"
    );
    let steps: Vec<Call> = scene.calls.try_iter().collect();
    let server = Some(b"server 1".to_vec());
    assert_eq!(steps, [Call::Step(None), Call::Step(server)]);
}

#[test]
fn contexts_of_other_lengths_authenticate() {
    for steps in [1, 3, 5] {
        let mut scene = Scene::new(Script::with_steps(steps), &credential(&[]));
        command(scene.begin());
        for step in 2..=steps {
            let sent = command(scene.answer("server"));
            assert_eq!(payload(&sent), format!("client {step}"));
        }
        command(scene.answer(OFFER));
        assert!(matches!(scene.reply("", true), Step::Done), "{steps}");
    }
}

#[test]
fn a_context_that_never_completes_is_continued_reply_by_reply() {
    // The connection bounds the number of commands, see the tests of the client.
    let mut scene = Scene::new(Script::with_steps(usize::MAX), &credential(&[]));
    command(scene.begin());
    for _ in 0..50 {
        command(scene.answer("server"));
    }
}

#[test]
fn an_end_before_the_answer_to_the_offer_fails_authentication() {
    for (replies, expected) in [
        (&[][..], "before it proved its identity"),
        (&["server 1"][..], "without an offer"),
    ] {
        let mut scene = Scene::new(Script::with_steps(2), &credential(&[]));
        command(scene.begin());
        for text in replies {
            command(scene.answer(text));
        }
        let (message, _) = failed(scene.reply(OFFER, true));
        assert!(message.contains(expected), "{message}");
        // The conversation does not continue after a failure.
        failed(scene.reply(OFFER, false));
    }
}

#[test]
fn an_unusable_offer_of_security_layers_fails_authentication() {
    for (offer, expected) in [
        ("", "not wrapped"),
        ("\u{1}\0\0\0", "not wrapped"),
        ("[]", "has not 4 bytes"),
        ("[\u{1}\0\0]", "has not 4 bytes"),
        ("[\u{1}\0\0\0\0]", "has not 4 bytes"),
        ("[\0\0\0\0]", "requires a security layer"),
        ("[\u{6}\0\0\0]", "requires a security layer"),
    ] {
        let mut scene = Scene::new(Script::with_steps(2), &credential(&[]));
        command(scene.begin());
        command(scene.answer("server 1"));
        let (message, _) = failed(scene.answer(offer));
        assert!(message.contains(expected), "{offer:?}: {message}");
    }
    for offer in ["[\u{1}\0\0\0]", "[\u{7}\u{1}\u{1}\u{1}]"] {
        let mut scene = Scene::new(Script::with_steps(2), &credential(&[]));
        command(scene.begin());
        command(scene.answer("server 1"));
        let sent = command(scene.answer(offer));
        assert_eq!(payload(&sent), "[\u{1}\0\0\0ada@R]");
    }
}

#[test]
fn an_unexpected_message_of_the_server_fails_authentication() {
    let at_the_end = || {
        let mut scene = Scene::new(Script::with_steps(2), &credential(&[]));
        command(scene.begin());
        command(scene.answer("server 1"));
        command(scene.answer(OFFER));
        scene
    };
    for (text, done, expected) in [
        ("", false, "does not end"),
        ("more", false, "does not end"),
        ("more", true, "carries a message"),
    ] {
        let (message, _) = failed(at_the_end().reply(text, done));
        assert!(message.contains(expected), "{message}");
    }
    let mut scene = Scene::new(Script::with_steps(2), &credential(&[]));
    command(scene.begin());
    let (message, _) = failed(scene.reply("", false));
    assert!(message.contains("no token"), "{message}");
    let mut scene = Scene::new(Script::with_steps(2), &credential(&[]));
    command(scene.begin());
    let (message, _) = failed(scene.answer("bad"));
    assert!(message.contains("the token is bad"), "{message}");
    // A reply of another conversation (AUTH-41).
    let mut scene = Scene::new(Script::with_steps(3), &credential(&[]));
    command(scene.begin());
    command(scene.answer("server 1"));
    let other = rawdoc! { "ok": 1, "conversationId": 8, "done": false, "payload": "c2VydmVy" };
    let caches = &mut scene.caches;
    let step = scene
        .conversation
        .handle_reply(Instant::ZERO, &other, caches);
    let (message, _) = failed(step);
    assert!(message.contains("another conversation"), "{message}");
}

#[test]
fn an_error_of_the_library_names_the_service() {
    let mut script = Script::with_steps(2);
    script.refusal = Some("no credentials");
    let mut scene = Scene::new(script, &credential(&[]));
    let (message, error) = failed(scene.begin());
    assert_eq!(
        message,
        "Kerberos for the service mongodb/localhost@R: no credentials"
    );
    let ErrorKind::Authentication { mechanism, .. } = error.kind() else {
        panic!("{error}");
    };
    assert_eq!(*mechanism, "GSSAPI");
    let mut silent = Script::with_steps(2);
    silent.ends_silently = true;
    silent.steps = 0;
    let mut scene = Scene::new(silent, &credential(&[]));
    // A context that is complete without a token sends an empty message, as SASL permits.
    assert_eq!(payload(&command(scene.begin())), "");
}

#[test]
fn a_conversation_without_a_library_fails() {
    let mut conversation = conversation_of(&credential(&[])).expect("a usable credential");
    let mut caches = Caches::new();
    let (message, _) = failed(conversation.handle_hello(Instant::ZERO, None, None, &mut caches));
    assert!(message.contains("no Kerberos library"), "{message}");
}

#[test]
fn a_connection_that_authenticates_again_begins_with_the_library() {
    // Authentication on an established connection has no hello (AUTH-38).
    let credential = Arc::new(credential(&[]));
    let mut scene = Scene::new(Script::with_steps(1), &credential);
    command(scene.begin());
    command(scene.answer(OFFER));
    assert!(matches!(scene.reply("", true), Step::Done));
    let earlier = scene.conversation.authenticated();
    let mut auth = AuthState::new(random());
    std::mem::swap(&mut auth.caches, &mut scene.caches);
    let host = "localhost";
    let again = Conversation::again(Instant::ZERO, &credential, host, None, &earlier, &mut auth);
    let (conversation, step) = again.expect("a usable credential");
    scene.conversation = conversation;
    scene.caches = auth.caches;
    let first = scene.run(step);
    assert_eq!(payload(&command(first)), "client 1");
}

#[test]
fn the_result_of_a_step_shows_no_secrets() {
    let mut scene = Scene::new(Script::with_steps(1), &credential(&[]));
    let now = Instant::ZERO;
    let step = scene
        .conversation
        .handle_hello(now, None, None, &mut scene.caches);
    let Step::Kerberos(work) = step else {
        panic!("{step:?} where work was expected");
    };
    let shown = format!("{work:?}");
    let shown = format!("{shown} {:?}", work.run());
    assert!(
        !shown.contains("ada") && !shown.contains("client"),
        "{shown}"
    );
}
