//! The steps of a handshake after the layers are open: hello, then authentication.

use super::{Connection, State};
use crate::{
    auth::{Conversation, KeyCache, Step},
    bson::DocumentWriter,
    connection::{ConnectionPurpose, Output},
    description::ServerType,
    error::{CommandError, Error, ErrorKind, Labels, Wait},
    hello::{HelloCommand, HelloReply, ServerApiFields},
    random::Random,
    time::Instant,
};
use bson::{RawDocument, RawDocumentBuf};
use std::time::Duration;

/// The number of commands after which authentication fails. The longest conversation of SCRAM has
/// three commands.
const MAX_AUTHENTICATION_ROUNDS: u32 = 10;

impl Connection {
    /// Queues the hello, once all layers are open.
    pub(super) fn on_open(&mut self, now: Instant, random: &mut Random) {
        let credential = match self.purpose {
            ConnectionPurpose::Operations | ConnectionPurpose::Population => {
                self.options.credential.clone()
            }
            ConnectionPurpose::Monitor => None,
        };
        if let Some(credential) = credential {
            match Conversation::new(&credential, random) {
                Ok(conversation) => self.conversation = Some(conversation),
                Err(error) => return self.fail(error),
            }
        }
        let conversation = self.conversation.as_ref();
        let mechanisms = conversation.and_then(Conversation::sasl_supported_mechs);
        let speculative = conversation.and_then(Conversation::speculative);
        let options = self.options.clone();
        let hello = HelloCommand {
            legacy: options.legacy_hello,
            load_balanced: options.load_balanced,
            metadata: Some(&options.metadata),
            compressors: &[],
            sasl_supported_mechs: mechanisms.as_deref(),
            speculative_authenticate: speculative.as_deref(),
            awaitable: None,
            server_api: options.server_api.as_ref().map(ServerApiFields::from),
        };
        self.send(|message| message.body_with(|body| hello.write(body)));
        self.renew_deadline(now, Wait::Handshake);
        self.enter(State::AwaitingHello { sent: now });
    }

    /// Handles the reply to the hello.
    pub(super) fn on_hello_reply(
        &mut self,
        now: Instant,
        reply: RawDocumentBuf,
        round_trip: Duration,
        keys: &mut KeyCache,
    ) {
        let hello = HelloReply::parse(&reply);
        if !hello.ok {
            let fault = CommandError::from_reply(&reply);
            let labels = Labels::from_reply(&reply);
            let error = Error::new(ErrorKind::Command(Box::new(fault))).with_labels(&labels);
            return self.fail(error);
        }
        if self.options.load_balanced && hello.service_id.is_none() {
            return self.fail(Error::protocol(
                "Driver attempted to initialize in load balancing mode, \
                 but the server does not support this mode.",
            ));
        }
        self.output.push_back(Output::HelloAnswered {
            reply,
            hello: Box::new(hello.clone()),
            round_trip,
            service: hello.service_id.filter(|_| self.options.load_balanced),
        });
        match self.purpose {
            ConnectionPurpose::Monitor => {
                self.deadline = None;
                self.enter(State::Idle);
            }
            ConnectionPurpose::Operations | ConnectionPurpose::Population => {
                // A monitor's connection keeps the lower size limit of the handshake, because
                // its messages are hellos only.
                self.transport.set_max_bytes(hello.max_message_size_bytes);
                let step = self.first_step(&hello, keys);
                self.hello = Some(hello);
                self.enter(State::Authenticating { rounds: 0 });
                self.on_step(now, step, 0);
            }
        }
    }

    /// Returns the first step of authentication after the reply to the hello.
    fn first_step(&mut self, hello: &HelloReply, keys: &mut KeyCache) -> Step {
        match &mut self.conversation {
            // An arbiter has no users, so that authentication ends here (AUTH-16).
            Some(_) if hello.server_type == ServerType::RsArbiter => Step::Done,
            Some(conversation) => conversation.handle_hello(
                hello.sasl_supported_mechs.as_deref(),
                hello.speculative_authenticate.as_deref(),
                keys,
            ),
            None => Step::Done,
        }
    }

    /// Handles the reply to a command of authentication.
    pub(super) fn on_authentication_reply(
        &mut self,
        now: Instant,
        reply: &RawDocument,
        rounds: u32,
        keys: &mut KeyCache,
    ) {
        if rounds >= MAX_AUTHENTICATION_ROUNDS {
            return self.fail(Error::protocol("authentication goes on and on"));
        }
        let Some(conversation) = &mut self.conversation else {
            return;
        };
        let step = conversation.handle_reply(reply, keys);
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
            Step::Send { database, command } => {
                let bytes = command.as_bytes();
                let server_api = self.options.server_api;
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
        self.conversation = None;
        self.transport.free_idle_buffers();
        self.deadline = None;
        self.enter(State::Over);
        self.output.push_back(Output::Established);
    }
}
