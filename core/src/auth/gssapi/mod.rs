//! GSSAPI (RFC 4752): authentication by Kerberos.
//!
//! The core has no Kerberos library. Each step of the library is a [`KerberosStep`], which the
//! shell runs where it delays nothing else, because a step may wait for the key distribution
//! center. The machine of the mechanism decides which step comes next.
//!
//! 1. The first step finds the name of the service, and makes a security context and its first
//!    token. `saslStart` carries the token.
//! 2. Tokens are exchanged until the context is complete. The last token can be empty.
//! 3. The server offers security layers. The client answers that it wants none, and names the user.

mod step;
mod target;

pub use step::{KerberosStep, KerberosStepResult};

use super::{
    caches::Caches,
    progress::{Failure, Progress},
    sasl::{self, SaslReply, same_conversation},
};
use crate::options::{Credential, SecurityContext};
use bson::RawBson;
use step::Outcome;
use target::Target;

/// The client side of one GSSAPI conversation.
pub(super) struct GssApi {
    target: Target,
    stage: Stage,
    /// The `conversationId` of the first reply; `None` before.
    conversation: Option<RawBson>,
}

/// The message that the server sends next.
enum Stage {
    /// No message: the conversation has not begun, a step of the library runs, or the conversation
    /// has failed.
    Nothing,
    /// A token for the context.
    Token(Box<dyn SecurityContext>),
    /// The offer of security layers.
    Offer(Box<dyn SecurityContext>),
    /// The end of the conversation.
    End,
}

impl GssApi {
    /// Returns the conversation with the server at `host`. Fails if a name or the password cannot
    /// be given to a Kerberos library.
    pub(super) fn new(credential: &Credential, host: &str) -> Result<Self, Failure> {
        credential.check_kerberos()?;
        Ok(Self {
            target: Target::new(credential, host),
            stage: Stage::Nothing,
            conversation: None,
        })
    }

    /// Begins with the first step of the library. No message can be sent before.
    pub(super) fn begin(&mut self, caches: &Caches) -> Result<Progress, Failure> {
        match &caches.kerberos {
            Some(library) => Ok(Progress::Kerberos(KerberosStep::begin(
                library.clone(),
                self.target.clone(),
            ))),
            None => Err("the client has no Kerberos library".to_owned()),
        }
    }

    /// Sends the message that a step of the library gave.
    pub(super) fn on_kerberos_step(
        &mut self,
        result: KerberosStepResult,
    ) -> Result<Progress, Failure> {
        let message = match result.into_result()? {
            Outcome::Token(context, token) => {
                self.stage = match context.is_complete {
                    true => Stage::Offer(context.context),
                    false => Stage::Token(context.context),
                };
                token
            }
            Outcome::Answer(answer) => {
                self.stage = Stage::End;
                answer
            }
        };
        Ok(Progress::Send(match &self.conversation {
            None => sasl::start("GSSAPI", &message),
            Some(conversation) => sasl::next(conversation, &message),
        }))
    }

    /// Handles a message of the server. A message that the server may not send now fails the
    /// conversation, and so does an end before the answer to the offer.
    pub(super) fn on_reply(&mut self, reply: SaslReply) -> Result<Progress, Failure> {
        let SaslReply {
            conversation,
            done,
            payload,
        } = match &self.conversation {
            Some(expected) => {
                same_conversation(expected, &reply)?;
                reply
            }
            None => reply,
        };
        self.conversation = Some(conversation);
        let stage = std::mem::replace(&mut self.stage, Stage::Nothing);
        let problem = match (stage, done, payload.is_empty()) {
            (Stage::End, true, true) => return Ok(Progress::Done),
            (Stage::Token(context), false, false) => {
                return Ok(Progress::Kerberos(KerberosStep::step(context, payload)));
            }
            (Stage::Offer(context), false, _) => {
                let user = self.target.username.clone();
                return Ok(Progress::Kerberos(KerberosStep::answer(
                    context, payload, user,
                )));
            }
            (Stage::End, true, false) => "the server's last reply carries a message",
            (Stage::End, false, _) => "the server does not end the conversation",
            (Stage::Token(_), true, _) => "the server ended before it proved its identity",
            (Stage::Token(_), false, true) => "the server sent no token",
            (Stage::Offer(_), true, _) => "the server ended without an offer of security layers",
            (Stage::Nothing, ..) => "the server replied although nothing was asked",
        };
        Err(problem.to_owned())
    }
}
