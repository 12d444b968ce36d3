//! The libraries that wrap the driver.

use crate::error::{Error, Result};

/// The separator of texts in the client metadata. The texts of the driver and of the libraries that
/// wrap it are joined with the separator ([HELLO-44]).
///
/// [HELLO-44]: crate::requirements::handshake#HELLO-44
pub const SEPARATOR: char = '|';

/// A library that wraps the driver and appears in the client metadata.
///
/// An empty version or platform counts as unset ([HELLO-43], [HELLO-46]).
///
/// ```
/// use onionskin_core::options::{ClientOptions, DriverInfo};
///
/// let mut mapper = DriverInfo::new("my-object-mapper");
/// mapper.version = Some("1.2".to_owned());
/// let options = ClientOptions::builder().driver_info(mapper).build();
/// # assert!(options.driver_info.is_some());
/// ```
///
/// [HELLO-43]: crate::requirements::handshake#HELLO-43
/// [HELLO-46]: crate::requirements::handshake#HELLO-46
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverInfo {
    /// The name of the library. Must not be empty.
    pub name: String,
    /// The version of the library.
    pub version: Option<String>,
    /// The platform of the library, such as a runtime or a framework.
    pub platform: Option<String>,
}

/// A builder of [`DriverInfo`].
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing before `build`"]
pub struct DriverInfoBuilder(DriverInfo);

impl DriverInfoBuilder {
    /// Sets the name of the library. Must not be empty.
    ///
    /// ```
    /// use onionskin_core::options::DriverInfo;
    ///
    /// assert!(DriverInfo::builder().name("my-object-mapper").build().validate().is_ok());
    /// ```
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.0.name = name.into();
        self
    }

    /// Sets the version of the library. Default: none.
    ///
    /// ```
    /// use onionskin_core::options::DriverInfo;
    ///
    /// let version = option_env!("CARGO_PKG_VERSION").map(str::to_owned);
    /// let mapper = DriverInfo::builder().name("my-object-mapper").version(version).build();
    /// assert!(mapper.version.is_some());
    /// ```
    pub fn version(mut self, version: impl Into<Option<String>>) -> Self {
        self.0.version = version.into();
        self
    }

    /// Sets the platform of the library, such as a runtime or a framework. Default: none.
    ///
    /// ```
    /// use onionskin_core::options::DriverInfo;
    ///
    /// let axum = DriverInfo::builder().name("my-sessions").platform("axum".to_owned()).build();
    /// assert_eq!(axum.platform.as_deref(), Some("axum"));
    /// ```
    pub fn platform(mut self, platform: impl Into<Option<String>>) -> Self {
        self.0.platform = platform.into();
        self
    }

    /// Returns the library.
    ///
    /// ```
    /// use onionskin_core::options::DriverInfo;
    ///
    /// let mapper = DriverInfo::builder().name("my-object-mapper").build();
    /// assert_eq!(mapper, DriverInfo::new("my-object-mapper"));
    /// ```
    #[must_use]
    pub fn build(self) -> DriverInfo {
        self.0
    }
}

impl DriverInfo {
    /// Returns a library with this name, without version and platform.
    ///
    /// ```
    /// use onionskin_core::options::DriverInfo;
    ///
    /// let mapper = DriverInfo::new("my-object-mapper");
    /// assert_eq!(mapper.version, None);
    /// ```
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: None,
            platform: None,
        }
    }

    /// Returns a builder without texts.
    ///
    /// ```
    /// use onionskin_core::options::DriverInfo;
    ///
    /// let version = "2.1".to_owned();
    /// let mapper = DriverInfo::builder().name("my-object-mapper").version(version).build();
    /// assert_eq!(mapper.version.as_deref(), Some("2.1"));
    /// ```
    pub fn builder() -> DriverInfoBuilder {
        DriverInfoBuilder::default()
    }

    /// Checks that the name is not empty and that no field contains the separator. With the
    /// separator in a field, one library would look like two ([HELLO-45]).
    ///
    /// ```
    /// use onionskin_core::options::DriverInfo;
    ///
    /// assert!(DriverInfo::new("my-object-mapper").validate().is_ok());
    /// assert!(DriverInfo::new("my|object|mapper").validate().is_err());
    /// ```
    ///
    /// [HELLO-45]: crate::requirements::handshake#HELLO-45
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

    /// True if this library and `other` give the same metadata. Unlike in `==`, an empty text
    /// equals `None` ([HELLO-46]).
    ///
    /// ```
    /// use onionskin_core::options::DriverInfo;
    ///
    /// let mapper = DriverInfo::new("my-object-mapper");
    /// let mut other = mapper.clone();
    /// other.version = Some(String::new());
    /// assert!(mapper.is_equivalent(&other) && mapper != other);
    /// ```
    ///
    /// [HELLO-46]: crate::requirements::handshake#HELLO-46
    #[must_use]
    pub fn is_equivalent(&self, other: &Self) -> bool {
        self.key() == other.key()
    }

    /// Returns the texts, which are empty if they are unset.
    pub(crate) fn key(&self) -> (&str, &str, &str) {
        (
            &self.name,
            self.version.as_deref().unwrap_or_default(),
            self.platform.as_deref().unwrap_or_default(),
        )
    }
}
