//! The `hello` command, in its modern and its legacy form.

use crate::{bson::DocumentWriter, error::TopologyVersion, options::ServerApi};
use bson::{RawArrayBuf, RawDocument};
use std::time::Duration;

/// The version of client backpressure that the client announces: it retries with backoff what a
/// server sheds under load (`operation/retry.rs`).
const BACKPRESSURE: &str = "2";

/// The declared API version, as every command of such a client carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerApiFields<'a> {
    /// `apiVersion`.
    pub version: &'a str,
    /// `apiStrict`, where it was set.
    pub strict: Option<bool>,
    /// `apiDeprecationErrors`, where it was set.
    pub deprecation_errors: Option<bool>,
}

impl<'a> From<&'a ServerApi> for ServerApiFields<'a> {
    fn from(api: &'a ServerApi) -> Self {
        let ServerApi {
            version,
            strict,
            deprecation_errors,
        } = *api;
        Self {
            version: version.name(),
            strict,
            deprecation_errors,
        }
    }
}

impl ServerApiFields<'_> {
    /// Appends the fields to a command (RUN-22).
    pub fn write(&self, document: &mut DocumentWriter<'_>) {
        document.str("apiVersion", self.version);
        if let Some(strict) = self.strict {
            document.bool("apiStrict", strict);
        }
        if let Some(errors) = self.deprecation_errors {
            document.bool("apiDeprecationErrors", errors);
        }
    }
}

/// One `hello`: a handshake if it carries metadata, else a monitor's later check.
///
/// Everything but `legacy`, `awaitable` and `server_api` belongs to handshakes and is not written
/// without metadata (HELLO-10).
///
/// ```
/// use onionskin_core::{bson::DocumentWriter, hello::HelloCommand};
///
/// let mut bytes = Vec::new();
/// let mut document = DocumentWriter::begin(&mut bytes);
/// HelloCommand::default().write(&mut document);
/// document.end();
/// let expected = bson::rawdoc! { "hello": 1, "$db": "admin" };
/// assert_eq!(bytes, expected.as_bytes());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct HelloCommand<'a> {
    /// Use the legacy name and offer to understand the modern one (HELLO-4). Has no effect with an
    /// API version or a load balancer, which both want the modern command (HELLO-3).
    pub legacy: bool,
    /// The client is behind a load balancer (HELLO-11).
    pub load_balanced: bool,
    /// The `client` document. Present in handshakes only.
    pub metadata: Option<&'a RawDocument>,
    /// The compressors that the user chose, best first (HELLO-12); empty sends an empty list.
    pub compressors: &'a [&'a str],
    /// "database.user" whose mechanisms are asked for (AUTH-24), with the raw user name (AUTH-25).
    pub sasl_supported_mechs: Option<&'a str>,
    /// The first command of authentication, sent along (HELLO-36).
    pub speculative: Option<&'a RawDocument>,
    /// Answer when this version is no longer current, or after this time.
    pub awaitable: Option<(TopologyVersion, Duration)>,
    /// The declared API version.
    pub server_api: Option<ServerApiFields<'a>>,
}

impl HelloCommand<'_> {
    /// The command's name: `hello`, or `isMaster` in legacy form (HELLO-1, HELLO-3).
    #[must_use]
    pub const fn name(&self) -> &'static str {
        if self.is_legacy() {
            "isMaster"
        } else {
            "hello"
        }
    }

    /// Appends the command: its name first, `$db` last.
    pub fn write(&self, document: &mut DocumentWriter<'_>) {
        document.i32(self.name(), 1);
        if self.is_legacy() {
            document.bool("helloOk", true);
        }
        if let Some(metadata) = self.metadata {
            self.write_handshake(metadata, document);
        }
        if let Some((version, wait)) = self.awaitable {
            document.nested("topologyVersion", |fields| {
                fields
                    .value("processId", bson::RawBsonRef::ObjectId(version.process_id))
                    .i64("counter", version.counter);
            });
            let millis = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
            document.i64("maxAwaitTimeMS", millis);
        }
        if let Some(api) = self.server_api {
            api.write(document);
        }
        document.str("$db", "admin");
    }

    const fn is_legacy(&self) -> bool {
        self.legacy && !self.load_balanced && self.server_api.is_none()
    }

    fn write_handshake(&self, metadata: &RawDocument, document: &mut DocumentWriter<'_>) {
        document.document("client", metadata);
        let mut compression = RawArrayBuf::new();
        for name in self.compressors {
            compression.push(*name);
        }
        document.array("compression", &compression);
        // A string, as the handshake's specification has it; that of client backpressure still says
        // `true` (HELLO-6, BP-14).
        document.str("backpressure", BACKPRESSURE);
        if self.load_balanced {
            document.bool("loadBalanced", true);
        }
        if let Some(user) = self.sasl_supported_mechs {
            document.str("saslSupportedMechs", user);
        }
        if let Some(speculative) = self.speculative {
            document.document("speculativeAuthenticate", speculative);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{RawDocumentBuf, oid::ObjectId, rawdoc};

    fn written(hello: &HelloCommand<'_>) -> RawDocumentBuf {
        let mut bytes = Vec::new();
        let mut document = DocumentWriter::begin(&mut bytes);
        hello.write(&mut document);
        document.end();
        RawDocumentBuf::from_bytes(bytes).expect("the writer writes documents")
    }

    #[test]
    fn a_full_handshake_has_its_fields_in_order() {
        let (client, first) = (rawdoc! { "driver": {} }, rawdoc! { "saslStart": 1 });
        let hello = HelloCommand {
            load_balanced: true,
            metadata: Some(&client),
            compressors: &["zstd", "zlib"],
            sasl_supported_mechs: Some("db.user"),
            speculative: Some(&first),
            server_api: Some(ServerApiFields {
                version: "1",
                strict: Some(true),
                deprecation_errors: Some(false),
            }),
            ..HelloCommand::default()
        };
        let expected = rawdoc! {
            "hello": 1, "client": { "driver": {} },
            "compression": ["zstd", "zlib"], "backpressure": "2", "loadBalanced": true,
            "saslSupportedMechs": "db.user", "speculativeAuthenticate": { "saslStart": 1 },
            "apiVersion": "1", "apiStrict": true, "apiDeprecationErrors": false,
            "$db": "admin",
        };
        assert_eq!(written(&hello), expected);
    }

    #[test]
    fn a_later_check_carries_nothing_of_the_handshake() {
        // HELLO-10
        let first = rawdoc! { "saslStart": 1 };
        let process_id = ObjectId::from_bytes([4; 12]);
        let version = TopologyVersion {
            process_id,
            counter: 3,
        };
        let hello = HelloCommand {
            load_balanced: true,
            compressors: &["zlib"],
            sasl_supported_mechs: Some("db.user"),
            speculative: Some(&first),
            awaitable: Some((version, Duration::from_secs(10))),
            ..HelloCommand::default()
        };
        let expected = rawdoc! {
            "hello": 1,
            "topologyVersion": { "processId": process_id, "counter": 3_i64 },
            "maxAwaitTimeMS": 10_000_i64, "$db": "admin",
        };
        assert_eq!(written(&hello), expected);
    }

    #[test]
    fn the_legacy_form_gives_way_to_api_version_and_load_balancer() {
        // HELLO-3, HELLO-4
        let mut hello = HelloCommand {
            legacy: true,
            ..HelloCommand::default()
        };
        let legacy = rawdoc! { "isMaster": 1, "helloOk": true, "$db": "admin" };
        assert_eq!(written(&hello), legacy);
        hello.load_balanced = true;
        assert_eq!(hello.name(), "hello");
        hello.load_balanced = false;
        hello.server_api = Some(ServerApiFields {
            version: "1",
            strict: None,
            deprecation_errors: None,
        });
        let modern = rawdoc! { "hello": 1, "apiVersion": "1", "$db": "admin" };
        assert_eq!(written(&hello), modern);
    }
}
