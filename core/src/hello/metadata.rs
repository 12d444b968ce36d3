//! The `client` document of a handshake: at most 512 bytes, whatever is put in.

use super::Environment;
use crate::{
    bson::DocumentWriter,
    error::{Error, ErrorKind, Result},
    options::MAX_APP_NAME_BYTES,
};
use bson::{RawDocument, RawDocumentBuf};

/// The size of the `client` document, with all of BSON's overhead, beyond which servers close the
/// connection (HELLO-32), in bytes.
pub const MAX_METADATA_BYTES: usize = 512;

/// Libraries that are named at most: of what more of them add, nothing is left in
/// [`MAX_METADATA_BYTES`].
pub const MAX_DRIVER_INFOS: usize = 64;

/// What stands between the driver's own name and the names of the libraries that wrap it
/// (HELLO-44).
pub const SEPARATOR: char = '|';

const DRIVER_NAME: &str = "onionskin";
const DRIVER_VERSION: &str = env!("CARGO_PKG_VERSION");
const PLATFORM: &str = "Rust";

/// A library that wraps the driver and wants to be seen in the server's log (HELLO-43).
///
/// An empty version or platform is the same as none (HELLO-46).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverInfo {
    /// The library's name; not empty.
    pub name: String,
    /// Its version.
    pub version: Option<String>,
    /// What it runs on.
    pub platform: Option<String>,
}

impl DriverInfo {
    /// A library of this name, without version and platform.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: None,
            platform: None,
        }
    }

    /// Fails if the name is empty or a text contains the separator, which would make two libraries
    /// of one (HELLO-45).
    pub fn validate(&self) -> Result<()> {
        if self.name.is_empty() {
            return Err(Error::argument("the driver info needs a name"));
        }
        let (name, version, platform) = self.key();
        for (field, text) in [("name", name), ("version", version), ("platform", platform)] {
            if text.contains(SEPARATOR) {
                return Err(Error::argument(format!(
                    "the driver info's {field} contains '{SEPARATOR}', which separates libraries"
                )));
            }
        }
        Ok(())
    }

    /// True if both add the same to the metadata (HELLO-46): unlike `==`, empty equals none.
    #[must_use]
    pub fn is_equivalent(&self, other: &Self) -> bool {
        self.key() == other.key()
    }

    fn key(&self) -> (&str, &str, &str) {
        (
            &self.name,
            self.version.as_deref().unwrap_or_default(),
            self.platform.as_deref().unwrap_or_default(),
        )
    }
}

/// The `client` document, ready to be sent with each handshake of a client, and what it is made of.
///
/// ```
/// use onionskin_core::hello::{ClientMetadata, Environment};
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
    /// The distinct libraries, in the order in which they were named.
    infos: Vec<DriverInfo>,
    document: RawDocumentBuf,
}

impl ClientMetadata {
    /// Puts the document together: the application's name where there is one (there is no default,
    /// HELLO-16), this driver and the libraries in `infos` from first to last, each distinct one
    /// once (HELLO-49), and the surroundings.
    ///
    /// What does not fit into [`MAX_METADATA_BYTES`] is left out in the order of HELLO-34. If long
    /// library names still do not fit then, versions and names are cut at their ends; the driver's
    /// own stand first and are never cut.
    ///
    /// Fails if the application's name is too long or an info is not valid.
    pub fn new(
        app_name: Option<&str>,
        environment: &Environment,
        infos: &[DriverInfo],
    ) -> Result<Self> {
        let app_name = app_name.filter(|name| !name.is_empty());
        if let Some(name) = app_name.filter(|name| name.len() > MAX_APP_NAME_BYTES) {
            return Err(Error::new(ErrorKind::InvalidOption {
                option: "appname",
                message: format!(
                    "it has {} bytes, but at most {MAX_APP_NAME_BYTES} are allowed",
                    name.len()
                ),
            }));
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

    /// Appends one more library after those that were named before, which stay (HELLO-47,
    /// HELLO-50). Returns false, and changes nothing, for a library that was named before with the
    /// same version and platform (HELLO-49), and once [`MAX_DRIVER_INFOS`] are named.
    ///
    /// Fails if the info is not valid.
    pub fn append(&mut self, info: &DriverInfo) -> Result<bool> {
        info.validate()?;
        if self.infos.len() >= MAX_DRIVER_INFOS || !self.add(info) {
            return Ok(false);
        }
        self.document = self.encode()?;
        Ok(true)
    }

    /// The document.
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

/// How much of `env` is told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Env {
    All,
    NameOnly,
    Nothing,
}

/// The document's content before it is encoded.
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

    /// Leaves out until it fits (HELLO-34, HELLO-35).
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

    /// By how many bytes the document is too long.
    fn excess(&self) -> usize {
        self.encode().len().saturating_sub(MAX_METADATA_BYTES)
    }

    /// `text` without what is too much, but not below `keep` bytes.
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

/// The longest beginning of `text` that has at most `bytes` bytes and ends between characters.
pub(super) fn truncated(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests;
