//! The replies of the servers in the random tests: hellos and SCRAM conversations.

use super::*;
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use bson::{Binary, spec::BinarySubtype};
use hmac::{Hmac, Mac};
use sha2::Sha256;

const ITERATIONS: u32 = 4096;
const SALTS: [&str; 3] = ["c2FsdDA=", "c2FsdDE=", "c2FsdDI="];

/// The server key for each salt: `HMAC(Hi("pencil", salt, 4096), "Server Key")`.
const SERVER_KEYS: [&str; 3] = [
    "Vntni1x9VxGQIyF7k/qpfxtE/+KYgVQHSyRpZd+tKj4=",
    "0eVSICrTT3nDaQHVyojyK8vRqL0aC379R/e1AXfxsa0=",
    "ptkKBG/qrgNkgVuCjbLvNmF9re6tAIPUxb5nyIVDjvI=",
];

/// The server's side of one SCRAM conversation.
#[derive(Clone, Debug)]
struct Conversation {
    /// The messages that both sides sign, without the client's last message.
    messages: String,
    /// The index of the salt in `SALTS`.
    salt: usize,
}

/// The SCRAM conversations on the connections of all servers.
#[derive(Default)]
pub(super) struct Servers {
    conversations: BTreeMap<SocketId, Conversation>,
}

impl Servers {
    /// Returns the reply to a request. For small values of `choice` the reply is an error, a wrong
    /// signature, or a hello other than that of the primary.
    pub(super) fn reply(&mut self, socket: SocketId, request: &[u8], choice: u8) -> Vec<u8> {
        let header = Header::decode(request, 1 << 20).expect("a request");
        let body = match Message::decode(request) {
            Ok(message) => self.reply_to(socket, message.body, choice),
            // The client sends only OP_MSG, so the message can be decoded.
            Err(_) => answer(choice),
        };
        let mut bytes = Vec::new();
        MessageWriter::begin(&mut bytes, 1, header.request_id)
            .body(&body)
            .end();
        bytes
    }

    fn reply_to(&mut self, socket: SocketId, request: &RawDocument, choice: u8) -> RawDocumentBuf {
        if let Ok(payload) = request.get_binary("payload") {
            return self.last(socket, text(payload.bytes), choice);
        }
        let mut hello = answer(choice);
        if let Ok(start) = request.get_document("speculativeAuthenticate") {
            let first = text(start.get_binary("payload").expect("a payload").bytes);
            let bare = first.strip_prefix("n,,").expect("no channel binding");
            let (_, nonce) = bare.split_once(",r=").expect("a nonce");
            let salt = usize::from(choice) % SALTS.len();
            let server = format!("r={nonce}server,s={},i={ITERATIONS}", SALTS[salt]);
            let messages = format!("{bare},{server}");
            self.conversations
                .insert(socket, Conversation { messages, salt });
            hello.append(bson::cstr!("speculativeAuthenticate"), step(&server, false));
        }
        hello
    }

    /// Returns the last reply of a conversation: the server's signature, or an error.
    fn last(&self, socket: SocketId, last: &str, choice: u8) -> RawDocumentBuf {
        let conversation = &self.conversations[&socket];
        let (without_proof, _) = last.split_once(",p=").expect("a proof");
        let signed = format!("{},{without_proof}", conversation.messages);
        match choice {
            0 => rawdoc! { "ok": 0, "code": 18, "errmsg": "Authentication failed." },
            1 => step("v=bm8gc2lnbmF0dXJlIG9mIG1pbmU=", true),
            2 => rawdoc! { "ok": 0, "code": 91, "errmsg": "going away" },
            _ => {
                let signature = hmac(SERVER_KEYS[conversation.salt], signed.as_bytes());
                step(&format!("v={}", BASE64.encode(signature)), true)
            }
        }
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("SCRAM is text")
}

fn step(payload: &str, done: bool) -> RawDocumentBuf {
    let payload = Binary {
        subtype: BinarySubtype::Generic,
        bytes: payload.as_bytes().to_vec(),
    };
    rawdoc! { "conversationId": 1, "done": done, "payload": payload, "ok": 1 }
}

fn hmac(key: &str, text: &[u8]) -> Vec<u8> {
    let key = BASE64.decode(key).expect("base64");
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("any length");
    mac.update(text);
    mac.finalize().into_bytes().to_vec()
}

fn answer(hello: u8) -> RawDocumentBuf {
    match hello {
        0 => rawdoc! { "ok": 0, "code": 91, "errmsg": "going away" },
        1 => rawdoc! { "ok": 1, "secondary": true, "setName": "rs", "hosts": ["a:27017", "b:1"] },
        2 => rawdoc! { "ok": 1, "secondary": true, "setName": "other", "hosts": ["a:27017"] },
        3 => {
            let mut more = primary();
            more.append(bson::cstr!("hosts"), RawDocumentBuf::new());
            more
        }
        4 => rawdoc! {
            "ok": 1, "arbiterOnly": true, "setName": "rs", "hosts": ["a:27017"], "me": "a:27017",
            "maxWireVersion": 21,
        },
        _ => primary(),
    }
}
