//! The hello command, in its modern and its legacy form.

use crate::{bson::DocumentWriter, error::TopologyVersion, options::ServerApi, time::whole_millis};
use bson::{RawArrayBuf, RawDocument};
use std::time::Duration;

/// The version of client backpressure that the handshake announces: after an overload error the
/// client retries with backoff (`operation/retry.rs`).
const BACKPRESSURE: &str = "2";

/// The Stable API fields, which each command of a client with a declared API version carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerApiFields<'a> {
    /// The declared version (`apiVersion`).
    pub version: &'a str,
    /// The field `apiStrict`, if it is set.
    pub strict: Option<bool>,
    /// The field `apiDeprecationErrors`, if it is set.
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
    /// Appends the fields to a command ([RUN-22]).
    ///
    /// [RUN-22]: crate::requirements::messages#RUN-22
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

/// One hello command: the first command of a handshake if `metadata` is set, else a later check of
/// a monitor.
///
/// A command without metadata has no handshake fields: only `legacy`, `awaitable` and `server_api`
/// have an effect, and `load_balanced` only excludes the legacy name ([HELLO-10]).
///
/// ```
/// use onionskin_core::{bson::DocumentWriter, unstable::hello::HelloCommand};
///
/// let mut bytes = Vec::new();
/// let mut document = DocumentWriter::begin(&mut bytes);
/// HelloCommand::default().write(&mut document);
/// document.end();
/// let expected = bson::rawdoc! { "hello": 1, "$db": "admin" };
/// assert_eq!(bytes, expected.as_bytes());
/// ```
///
/// [HELLO-10]: crate::requirements::handshake#HELLO-10
#[derive(Clone, Copy, Debug, Default)]
pub struct HelloCommand<'a> {
    /// True to use the legacy name with `helloOk: true`. Has no effect with an API version or a
    /// load balancer, which require the modern name ([HELLO-4], [HELLO-3]).
    ///
    /// [HELLO-4]: crate::requirements::handshake#HELLO-4
    /// [HELLO-3]: crate::requirements::handshake#HELLO-3
    pub legacy: bool,
    /// True if the client runs with `loadBalanced=true` ([HELLO-11]).
    ///
    /// [HELLO-11]: crate::requirements::handshake#HELLO-11
    pub load_balanced: bool,
    /// The `client` document, for handshakes only.
    pub metadata: Option<&'a RawDocument>,
    /// The compressors that the handshake announces, in order of preference. An empty slice is sent
    /// as an empty list ([HELLO-12]).
    ///
    /// [HELLO-12]: crate::requirements::handshake#HELLO-12
    pub compressors: &'a [&'a str],
    /// The user whose mechanisms the server must list, as "database.user". The user name is not
    /// prepared with SASLprep ([AUTH-24], [AUTH-25]).
    ///
    /// [AUTH-24]: crate::requirements::authentication#AUTH-24
    /// [AUTH-25]: crate::requirements::authentication#AUTH-25
    pub sasl_supported_mechs: Option<&'a str>,
    /// The first authentication command, for speculative authentication ([HELLO-36]).
    ///
    /// [HELLO-36]: crate::requirements::handshake#HELLO-36
    pub speculative_authenticate: Option<&'a RawDocument>,
    /// Makes the check awaitable: the server replies when its topology version differs from this
    /// one, or after this time.
    pub awaitable: Option<(TopologyVersion, Duration)>,
    /// The Stable API fields, if the client declares a version.
    pub server_api: Option<ServerApiFields<'a>>,
}

impl HelloCommand<'_> {
    /// Returns the name of the command: `hello`, or `isMaster` in legacy form ([HELLO-1],
    /// [HELLO-3]).
    ///
    /// [HELLO-1]: crate::requirements::handshake#HELLO-1
    /// [HELLO-3]: crate::requirements::handshake#HELLO-3
    #[must_use]
    pub const fn name(&self) -> &'static str {
        if self.is_legacy() {
            "isMaster"
        } else {
            "hello"
        }
    }

    /// Appends the fields of the command. The name is the first, `$db` the last.
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
            document.i64("maxAwaitTimeMS", whole_millis(wait));
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
        // The value is a string, as the handshake specification requires (HELLO-6). The client
        // backpressure specification still shows the boolean `true` (BP-14).
        document.str("backpressure", BACKPRESSURE);
        if self.load_balanced {
            document.bool("loadBalanced", true);
        }
        if let Some(user) = self.sasl_supported_mechs {
            document.str("saslSupportedMechs", user);
        }
        if let Some(speculative) = self.speculative_authenticate {
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
            speculative_authenticate: Some(&first),
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
    fn a_check_after_the_handshake_has_no_handshake_fields() {
        // A check after the handshake carries no handshake fields (HELLO-10).
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
            speculative_authenticate: Some(&first),
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
    fn legacy_hello_is_unused_with_api_version_or_load_balancer() {
        // The first command is the legacy one (HELLO-4), except with an API version or a load
        // balancer (HELLO-3).
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
