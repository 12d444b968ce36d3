//! The effects of [`AuthFault`]s on the steps and replies of a conversation.

use super::{Conversation, Step, payload_of, roles::Login};
use crate::{
    deployment::{AuthFault, AuthMechanism, ConnId, Role},
    server::{
        Member,
        connection::Waiting,
        dispatch::{Answer, Outcome},
        fail_point::FailEffect,
        reply::Reply,
    },
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bson::{Bson, Document, doc};

/// The size of a payload that is too large, in bytes.
const HUGE_BYTES: usize = 1024 * 1024;

impl Member {
    /// Sets the fault of all further conversations.
    pub(crate) const fn set_auth_fault(&mut self, fault: Option<AuthFault>) {
        self.auth_fault = fault;
    }

    /// Returns the fault of a new conversation: the one that was set, or a drawn one.
    pub(super) fn next_auth_fault(&mut self) -> Option<AuthFault> {
        let rate = u64::from(self.options.auth.fault_rate);
        let is_drawn = self.auth_fault.is_none() && rate > 0 && self.random.chance(rate, 1000);
        match is_drawn {
            true => Some(AuthFault::drawn(&mut self.random)),
            false => self.auth_fault,
        }
    }

    /// Answers `saslStart` or `saslContinue`. With some faults, there is no answer.
    pub(super) fn answer_sasl(&mut self, conn: ConnId, reply: Document) -> Answer {
        let silent = || {
            let effect = FailEffect::default();
            Ok(Outcome::Wait(Waiting::Blocked { effect }, None))
        };
        let fault = self.connections.get(&conn).and_then(|c| c.auth_fault);
        match fault {
            Some(AuthFault::Silence) => silent(),
            Some(AuthFault::Close) => {
                self.close(conn);
                silent()
            }
            _ => Ok(Reply::from(reply).into()),
        }
    }
}

/// Changes the step of a conversation.
pub(super) fn changed_step(fault: Option<AuthFault>, step: Step) -> Step {
    match (fault, step) {
        (Some(AuthFault::Endless), Step::Done(_, payload)) => {
            Step::More(Conversation::Endless, payload)
        }
        (Some(AuthFault::EarlyDone), Step::More(_, payload)) => {
            Step::Done(Login::new("admin", "forged", vec![Role::root()]), payload)
        }
        (Some(AuthFault::WrongSignature), Step::Done(login, payload)) => {
            let is_signature = payload.starts_with(b"v=");
            let wrong = format!("v={}", STANDARD.encode([0; 32])).into_bytes();
            Step::Done(login, if is_signature { wrong } else { payload })
        }
        (Some(AuthFault::ErrorMessage), Step::Done(login, payload)) => {
            let is_signature = payload.starts_with(b"v=");
            let error = b"e=other-error".to_vec();
            Step::Done(login, if is_signature { error } else { payload })
        }
        (_, step) => step,
    }
}

/// Changes the reply to `saslStart`, or to `saslContinue` if `is_continued` is true.
pub(super) fn changed_reply(
    fault: Option<AuthFault>,
    mechanism: Option<AuthMechanism>,
    is_continued: bool,
    reply: &mut Document,
) {
    match fault {
        Some(AuthFault::TextPayload) => {
            let payload = reply.get_binary_generic("payload");
            let text = payload.map(|bytes| STANDARD.encode(bytes));
            reply.insert("payload", text.unwrap_or_default());
        }
        Some(AuthFault::IntegerPayload) => {
            reply.insert("payload", 1);
        }
        Some(AuthFault::NoPayload) => {
            reply.remove("payload");
        }
        Some(AuthFault::HugePayload) => {
            reply.insert("payload", super::binary(vec![b'x'; HUGE_BYTES]));
        }
        Some(AuthFault::CutPayload) => {
            let payload = reply.get_binary_generic("payload");
            let half = payload.map(|bytes| bytes[..bytes.len() / 2].to_vec());
            reply.insert("payload", super::binary(half.unwrap_or_default()));
        }
        Some(AuthFault::OtherPayload) => {
            let payload = match mechanism.is_some_and(AuthMechanism::is_scram) {
                true => payload_of(&doc! { "s": super::binary(vec![7; 64]), "h": "localhost" }),
                false => b"r=abc,s=c2FsdA==,i=4096".to_vec(),
            };
            reply.insert("payload", super::binary(payload));
        }
        Some(AuthFault::OtherConversation) if is_continued => {
            reply.insert("conversationId", Bson::Int32(super::CONVERSATION_ID + 1));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_replies_to_a_continued_conversation_get_another_id() {
        for (is_continued, expected) in [(false, 1), (true, 2)] {
            let mut reply = doc! { "conversationId": 1 };
            let fault = Some(AuthFault::OtherConversation);
            changed_reply(fault, Some(AuthMechanism::Plain), is_continued, &mut reply);
            assert_eq!(reply.get_i32("conversationId").ok(), Some(expected));
        }
    }
}
