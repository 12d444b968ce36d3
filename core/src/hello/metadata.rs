//! The client metadata, which each handshake carries in the field `client`.

use super::Environment;
use crate::{
    bson::DocumentWriter,
    error::{Error, Result},
    options::{DriverInfo, MAX_APP_NAME_BYTES, SEPARATOR},
};
use bson::{RawDocument, RawDocumentBuf};

/// The maximum size of the `client` document in bytes, all overhead of BSON included: servers
/// refuse a handshake with a larger document ([HELLO-32]).
///
/// [HELLO-32]: crate::requirements::handshake#HELLO-32
pub const MAX_METADATA_BYTES: usize = 512;

/// The number of wrapping libraries from which on [`ClientMetadata::append`] adds no more.
pub const MAX_DRIVER_INFOS: usize = 64;

const DRIVER_NAME: &str = "onionskin";
const DRIVER_VERSION: &str = env!("CARGO_PKG_VERSION");
const PLATFORM: &str = "Rust";

/// The client metadata: the `client` document that each handshake of a client carries, and the
/// values from which it is built.
///
/// ```
/// use onionskin_core::unstable::hello::{ClientMetadata, Environment};
///
/// let metadata = ClientMetadata::new(Some("shop"), &Environment::default(), &[])?;
/// let driver = metadata.document().get_document("driver")?;
/// assert_eq!(driver.get_str("name")?, "onionskin");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ClientMetadata {
    app_name: Option<String>,
    environment: Environment,
    /// The wrapping libraries without duplicates, in the order in which they were added.
    infos: Vec<DriverInfo>,
    document: RawDocumentBuf,
}

impl ClientMetadata {
    /// Returns the metadata of the application, the driver, the libraries in `infos` and the
    /// environment. There is no default for the application name. Duplicates in `infos` are dropped
    /// ([HELLO-16], [HELLO-49]).
    ///
    /// If the document exceeds [`MAX_METADATA_BYTES`], these steps shorten it in order: drop all of
    /// `env` but its name, drop all of `os` but its type, drop `env`, truncate the platform
    /// ([HELLO-34]).
    ///
    /// If these steps are not enough, the versions and then the names of libraries are truncated.
    /// The driver's own name and version are never truncated.
    ///
    /// Fails if the application name is longer than [`MAX_APP_NAME_BYTES`], or if an info is
    /// invalid.
    ///
    /// [HELLO-16]: crate::requirements::handshake#HELLO-16
    /// [HELLO-49]: crate::requirements::handshake#HELLO-49
    /// [HELLO-34]: crate::requirements::handshake#HELLO-34
    pub fn new(
        app_name: Option<&str>,
        environment: &Environment,
        infos: &[DriverInfo],
    ) -> Result<Self> {
        let app_name = app_name.filter(|name| !name.is_empty());
        if let Some(name) = app_name.filter(|name| name.len() > MAX_APP_NAME_BYTES) {
            return Err(Error::invalid_option(
                "appName",
                format!(
                    "it has {} bytes, but at most {MAX_APP_NAME_BYTES} are allowed",
                    name.len()
                ),
            ));
        }
        let mut metadata = Self {
            app_name: app_name.map(str::to_owned),
            environment: environment.clone(),
            infos: Vec::new(),
            document: RawDocumentBuf::new(),
        };
        for info in infos {
            info.validate()?;
            metadata.add(info);
        }
        metadata.document = metadata.encode()?;
        Ok(metadata)
    }

    /// Returns metadata with this document, for the replay of a recording; `None` if no client has
    /// such a large one. Libraries cannot be appended to it.
    pub(crate) fn recorded(document: RawDocumentBuf) -> Option<Self> {
        // Each handshake has a copy.
        (document.as_bytes().len() <= MAX_METADATA_BYTES).then(|| Self {
            app_name: None,
            environment: Environment::default(),
            infos: Vec::new(),
            document,
        })
    }

    /// Appends a library to those that were added before. Returns false and changes nothing if the
    /// library was added before with the same version and platform, or if there are
    /// [`MAX_DRIVER_INFOS`] libraries already ([HELLO-47], [HELLO-50], [HELLO-49]).
    ///
    /// Fails if the info is invalid.
    ///
    /// [HELLO-47]: crate::requirements::handshake#HELLO-47
    /// [HELLO-50]: crate::requirements::handshake#HELLO-50
    /// [HELLO-49]: crate::requirements::handshake#HELLO-49
    pub fn append(&mut self, info: &DriverInfo) -> Result<bool> {
        info.validate()?;
        if self.infos.len() >= MAX_DRIVER_INFOS || !self.add(info) {
            return Ok(false);
        }
        self.document = self.encode()?;
        Ok(true)
    }

    /// Returns the `client` document.
    #[must_use]
    pub fn document(&self) -> &RawDocument {
        &self.document
    }

    fn add(&mut self, info: &DriverInfo) -> bool {
        let is_new = !self.infos.iter().any(|seen| seen.is_equivalent(info));
        if is_new {
            self.infos.push(info.clone());
        }
        is_new
    }

    fn encode(&self) -> Result<RawDocumentBuf> {
        let mut content = Content::new(self.app_name.as_deref(), &self.environment);
        for info in &self.infos {
            content.append(info);
        }
        content.shorten();
        let document = RawDocumentBuf::from_bytes(content.encode())
            .map_err(|error| Error::argument(error.to_string()))?;
        assert!(document.as_bytes().len() <= MAX_METADATA_BYTES, "HELLO-32");
        Ok(document)
    }
}

/// The part of `env` that the document contains.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Env {
    All,
    NameOnly,
    Nothing,
}

/// The content of the document before it is encoded, with the reductions that make it fit.
struct Content<'a> {
    app_name: Option<&'a str>,
    environment: &'a Environment,
    name: String,
    version: String,
    platform: String,
    env: Env,
    os_type_only: bool,
}

impl<'a> Content<'a> {
    fn new(app_name: Option<&'a str>, environment: &'a Environment) -> Self {
        Self {
            app_name,
            environment,
            name: DRIVER_NAME.to_owned(),
            version: DRIVER_VERSION.to_owned(),
            platform: PLATFORM.to_owned(),
            env: Env::All,
            os_type_only: false,
        }
    }

    fn append(&mut self, info: &DriverInfo) {
        let (name, version, platform) = info.key();
        for (own, appended) in [
            (&mut self.name, name),
            (&mut self.version, version),
            (&mut self.platform, platform),
        ] {
            if !appended.is_empty() {
                own.push(SEPARATOR);
                own.push_str(appended);
            }
        }
    }

    /// Drops and truncates fields until the document fits (HELLO-34, HELLO-35).
    fn shorten(&mut self) {
        let steps: [fn(&mut Self); 6] = [
            |content| content.env = Env::NameOnly,
            |content| content.os_type_only = true,
            |content| content.env = Env::Nothing,
            |content| content.platform = content.cut(&content.platform, 0),
            |content| content.version = content.cut(&content.version, DRIVER_VERSION.len()),
            |content| content.name = content.cut(&content.name, DRIVER_NAME.len()),
        ];
        for step in steps {
            if self.excess() == 0 {
                return;
            }
            step(self);
        }
    }

    /// Returns the number of bytes by which the document is too long.
    fn excess(&self) -> usize {
        self.encode().len().saturating_sub(MAX_METADATA_BYTES)
    }

    /// Returns the beginning of `text` that makes the document fit, but at least `keep` bytes of
    /// it.
    fn cut(&self, text: &str, keep: usize) -> String {
        let wanted = text.len().saturating_sub(self.excess());
        truncated(text, wanted.max(keep)).to_owned()
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(MAX_METADATA_BYTES);
        let mut client = DocumentWriter::begin(&mut bytes);
        if let Some(name) = self.app_name {
            client.nested("application", |application| {
                application.str("name", name);
            });
        }
        client.nested("driver", |driver| {
            driver.str("name", &self.name).str("version", &self.version);
        });
        client.nested("os", |os| self.write_os(os));
        if !self.platform.is_empty() {
            client.str("platform", &self.platform);
        }
        self.write_env(&mut client);
        client.end();
        bytes
    }

    fn write_os(&self, os: &mut DocumentWriter<'_>) {
        let facts = self.environment.os();
        os.str("type", facts.type_name());
        if self.os_type_only {
            return;
        }
        for (key, value) in [
            ("name", &facts.name),
            ("architecture", &facts.architecture),
            ("version", &facts.version),
        ] {
            if let Some(value) = value.as_deref().filter(|value| !value.is_empty()) {
                os.str(key, value);
            }
        }
    }

    /// Writes `env` unless it would be empty (HELLO-21).
    fn write_env(&self, client: &mut DocumentWriter<'_>) {
        let (present, name_only) = match self.env {
            Env::All => (!self.environment.is_empty(), false),
            Env::NameOnly => (self.environment.is_faas(), true),
            Env::Nothing => (false, true),
        };
        if present {
            client.nested("env", |env| self.environment.write(name_only, env));
        }
    }
}

/// Returns the longest beginning of `text` that has at most `bytes` bytes and ends at a character
/// boundary.
pub(super) fn truncated(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests;
