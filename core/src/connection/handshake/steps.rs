//! The steps of a handshake after the layers are open: hello, then authentication.

use super::{Connection, State};
use crate::{
    auth::{AuthState, Authenticated, Conversation, Need, Step},
    bson::DocumentWriter,
    connection::{ConnectionPurpose, Output},
    description::ServerType,
    error::{CommandError, Error, ErrorKind, Labels, Wait},
    hello::{HelloAnswer, HelloCommand, HelloReply, ServerApiFields},
    options::Login,
    time::Instant,
};
use bson::{RawDocument, RawDocumentBuf};
use std::{sync::Arc, time::Duration};

/// The number of commands after which authentication fails. The longest conversation of SCRAM has
/// three commands. MONGODB-OIDC can need four: a cached token, a refreshed token, and two steps
/// with a new one.
const MAX_AUTHENTICATION_ROUNDS: u32 = 10;

impl Connection {
    /// Continues once all layers are open: queues the hello or, if the hello needs a login that is
    /// not cached, asks for the login.
    pub(super) fn on_open(&mut self, now: Instant, auth: &mut AuthState) {
        self.is_open = true;
        let credential = self.options.credential.as_ref();
        let is_provided = credential.is_some_and(|credential| credential.has_password_provider());
        let login = match is_provided && self.purpose != ConnectionPurpose::Monitor {
            true => auth.caches.login().cloned(),
            false => return self.send_hello(now, None, auth),
        };
        if login.is_some() {
            return self.send_hello(now, login, auth);
        }
        self.await_login();
    }

    /// Asks for the login of the application's password provider.
    fn await_login(&mut self) {
        self.deadline = None;
        self.enter(State::AwaitingLogin);
        let need = Need::Login { refused: None };
        self.output.push_back(Output::CredentialNeeded(need));
    }

    /// Queues the hello. `login` is that of the password provider, if the credential has one.
    pub(super) fn send_hello(
        &mut self,
        now: Instant,
        login: Option<Arc<Login>>,
        auth: &mut AuthState,
    ) {
        let credential = match self.purpose {
            ConnectionPurpose::Operations | ConnectionPurpose::Population => {
                self.options.credential.clone()
            }
            ConnectionPurpose::Monitor => None,
        };
        if let Some(credential) = credential {
            let host = self.address.host();
            match Conversation::new(&credential, host, login.clone(), &mut auth.nonces) {
                Ok(conversation) => self.conversation = Some(conversation),
                Err(error) => return self.fail_with_login(error, login.as_ref(), auth),
            }
        }
        let conversation = self.conversation.as_mut();
        let (mechanisms, speculative) = match conversation {
            Some(conversation) => (
                conversation.sasl_supported_mechs(),
                conversation.speculative(&auth.caches),
            ),
            None => (None, None),
        };
        let options = self.options.clone();
        let hello = HelloCommand {
            legacy: options.legacy_hello,
            load_balanced: options.load_balanced,
            metadata: Some(&options.metadata),
            compressors: options
                .compression
                .as_ref()
                .map_or(&[], |plan| plan.names()),
            sasl_supported_mechs: mechanisms.as_deref(),
            speculative_authenticate: speculative.as_deref(),
            awaitable: None,
            server_api: options.server_api.as_ref().map(ServerApiFields::from),
        };
        self.send(|message| message.body_with(|body| hello.write(body)));
        self.renew_deadline(now, Wait::Handshake);
        self.enter(State::AwaitingHello { sent: now });
    }

    /// Handles the reply to the hello, after which authentication begins at once (AUTH-14). An
    /// error in the reply counts as a failed authentication (AUTH-15).
    pub(super) fn on_hello_reply(
        &mut self,
        now: Instant,
        reply: RawDocumentBuf,
        round_trip: Duration,
        auth: &mut AuthState,
    ) {
        let answer = HelloAnswer::new(reply);
        let hello = &answer.hello;
        if let Some(fault) = &answer.fault {
            let mut fault = CommandError::clone(fault);
            // The hello can carry a token, in the first command of authentication.
            if let Some(conversation) = &self.conversation {
                fault = conversation.without_secrets(fault);
            }
            let labels = Labels::from_reply(&answer.document).known();
            let error = Error::new(ErrorKind::Command(fault)).with_labels(&labels);
            return self.fail(error);
        }
        if self.options.load_balanced && hello.service_id.is_none() {
            return self.fail(Error::protocol(
                "Driver attempted to initialize in load balancing mode, \
                 but the server does not support this mode.",
            ));
        }
        // Each connection negotiates by its own handshake (COMP-22).
        self.transport.negotiate_compression(&hello.compression);
        let service = hello.service_id.filter(|_| self.options.load_balanced);
        let answered = |answer| Output::HelloAnswered {
            answer: Box::new(answer),
            round_trip,
            service,
        };
        match self.purpose {
            ConnectionPurpose::Monitor => {
                self.output.push_back(answered(answer));
                self.deadline = None;
                self.enter(State::Idle);
            }
            ConnectionPurpose::Operations | ConnectionPurpose::Population => {
                // The lower limit of the handshake applies until its end, because its messages
                // are read under the client's lock. A monitor's connection keeps it.
                self.max_bytes = hello.max_message_size_bytes;
                let step = self.first_step(now, hello, auth);
                self.hello = Some(hello.clone());
                self.output.push_back(answered(answer));
                self.enter(State::Authenticating { rounds: 0 });
                self.on_step(now, step, 0);
            }
        }
    }

    /// Returns the first step of authentication after the reply to the hello.
    fn first_step(&mut self, now: Instant, hello: &HelloReply, auth: &mut AuthState) -> Step {
        if let Some(step) = auth
            .mode
            .recorded_step(hello.speculative_authenticate.as_deref())
        {
            return step;
        }
        let step = match &mut self.conversation {
            // An arbiter has no users, so that authentication ends here (AUTH-16).
            Some(_) if hello.server_type == ServerType::RsArbiter => Step::Done,
            Some(conversation) => conversation.handle_hello(
                now,
                hello.sasl_supported_mechs.as_deref(),
                hello.speculative_authenticate.as_deref(),
                &mut auth.caches,
            ),
            None => Step::Done,
        };
        auth.mode.note(&step);
        step
    }

    /// Fails the connection because its login cannot be used. The next connection asks the password
    /// provider again.
    fn fail_with_login(&mut self, error: Error, login: Option<&Arc<Login>>, auth: &mut AuthState) {
        if let Some(login) = login {
            auth.caches.invalidate_login(login);
        }
        self.fail(error);
    }

    /// Begins authentication on a connection that was authenticated before. `login` is that of the
    /// password provider, if the credential has one and the provider was asked.
    pub(super) fn authenticate_again(
        &mut self,
        now: Instant,
        earlier: Authenticated,
        login: Option<Arc<Login>>,
        auth: &mut AuthState,
    ) {
        let Some(credential) = self.options.credential.clone() else {
            return self.fail(Error::protocol("authentication without a credential"));
        };
        let login = login.filter(|_| credential.has_password_provider());
        if credential.has_password_provider() && login.is_none() {
            self.earlier = Some(earlier);
            return self.await_login();
        }
        self.enter(State::Authenticating { rounds: 0 });
        let host = self.address.host();
        match Conversation::again(now, &credential, host, login.clone(), &earlier, auth) {
            Ok((conversation, step)) => {
                self.conversation = Some(conversation);
                self.on_step(now, step, 0);
            }
            Err(error) => self.fail_with_login(error, login.as_ref(), auth),
        }
    }

    /// Handles the reply to a command of authentication.
    pub(super) fn on_authentication_reply(
        &mut self,
        now: Instant,
        reply: &RawDocument,
        rounds: u32,
        auth: &mut AuthState,
    ) {
        if rounds >= MAX_AUTHENTICATION_ROUNDS {
            return self.fail(Error::protocol(
                "authentication did not end after 10 commands",
            ));
        }
        let step = match (auth.mode.recorded_step(Some(reply)), &mut self.conversation) {
            (Some(step), _) => step,
            (None, Some(conversation)) => conversation.handle_reply(now, reply, &mut auth.caches),
            (None, None) => return,
        };
        auth.mode.note(&step);
        self.on_step(now, step, rounds);
    }

    /// Carries out the next step of authentication.
    pub(super) fn on_step(&mut self, now: Instant, step: Step, rounds: u32) {
        match step {
            Step::Done => self.on_ready(),
            Step::Failed(error) => self.fail(error),
            Step::Derive(derivation) => {
                self.renew_deadline(now, Wait::Handshake);
                self.enter(State::DerivingKeys { rounds });
                self.output.push_back(Output::KeysNeeded(derivation));
            }
            Step::Kerberos(work) => {
                self.renew_deadline(now, Wait::Handshake);
                self.enter(State::AwaitingKerberos { rounds });
                self.output.push_back(Output::KerberosStepNeeded(work));
            }
            Step::Fetch(need) => {
                self.deadline = None;
                self.enter(State::Fetching { rounds });
                self.output.push_back(Output::CredentialNeeded(need));
            }
            Step::Send { database, command } => {
                let bytes = command.as_bytes();
                let server_api = self.options.server_api;
                // The commands of authentication are OP_MSG messages for each server (AUTH-17).
                let fill = |body: &mut DocumentWriter<'_>| {
                    body.elements(&bytes[4..bytes.len() - 1])
                        .str("$db", &database);
                    if let Some(api) = &server_api {
                        ServerApiFields::from(api).write(body);
                    }
                };
                self.send(|message| message.body_with(fill));
                self.renew_deadline(now, Wait::Handshake);
                self.enter(State::Authenticating { rounds: rounds + 1 });
            }
        }
    }

    /// Reports that the connection is established, once authentication is over or not needed. Fails
    /// the connection if the server sent more bytes or a layer has ended.
    fn on_ready(&mut self) {
        if let Err(error) = self.transport.ended() {
            return self.fail(error);
        }
        if self.transport.has_input() {
            return self.fail(Error::protocol(
                "the server sent bytes after its last reply of the handshake",
            ));
        }
        let conversation = self.conversation.take();
        self.authenticated = conversation.map(|conversation| conversation.authenticated());
        self.transport.set_max_bytes(self.max_bytes);
        self.transport.free_idle_buffers();
        self.deadline = None;
        self.enter(State::Over);
        self.output.push_back(Output::Established);
    }
}
