//! Access to the private fields of the options of a client.

use super::{ClientOptions, KerberosLibrary, Monitoring, Warning};
use crate::options::Kerberos;
use std::sync::Arc;

impl ClientOptions {
    /// Returns the Kerberos library of the mechanism `GSSAPI`, which connection strings cannot set.
    /// A client with this mechanism is not created without a library. Default: none. Clients of the
    /// runtime crates set the GSSAPI library of the system if their Cargo feature `gssapi` is
    /// enabled and no other library is set.
    ///
    /// ```
    /// use onionskin_core::options::ClientOptions;
    ///
    /// assert!(ClientOptions::default().kerberos().is_none());
    /// ```
    #[must_use]
    pub fn kerberos(&self) -> Option<&Arc<dyn Kerberos>> {
        self.kerberos.as_ref().map(|library| &library.0)
    }

    /// Sets [`kerberos`](Self::kerberos).
    ///
    /// ```
    /// use onionskin_core::options::{
    ///     CanonicalizeHostName, ClientOptions, Kerberos, KerberosTarget, SecurityContext,
    /// };
    /// use std::sync::Arc;
    ///
    /// type Text = Result<String, String>;
    ///
    /// struct NoTickets;
    ///
    /// impl Kerberos for NoTickets {
    ///     fn canonical_name(&self, host: &str, _: CanonicalizeHostName) -> Text {
    ///         Ok(host.to_owned())
    ///     }
    ///
    ///     fn begin(&self, target: &KerberosTarget) -> Result<Box<dyn SecurityContext>, String> {
    ///         Err(format!("there is no ticket for {}", target.service))
    ///     }
    /// }
    ///
    /// let mut options = ClientOptions::default();
    /// options.set_kerberos(Some(Arc::new(NoTickets)));
    /// assert!(options.kerberos().is_some());
    /// ```
    pub fn set_kerberos(&mut self, kerberos: Option<Arc<dyn Kerberos>>) -> &mut Self {
        self.kerberos = kerberos.map(KerberosLibrary);
        self
    }

    /// Makes the client check servers on demand ([`Monitoring::Scanning`]). The clients of
    /// `onionskin-blocking` do. If the options were [parsed](Self::parse) for background
    /// monitoring, `serverSelectionTryOnce` takes effect now, and the warning about it is removed.
    ///
    /// ```
    /// use onionskin_core::options::{ClientOptions, DEFAULT_SCAN_FREQUENCY};
    ///
    /// let mut options = ClientOptions::default();
    /// options.scan_on_demand();
    /// assert_eq!(options.heartbeat_freq(), DEFAULT_SCAN_FREQUENCY);
    /// ```
    pub fn scan_on_demand(&mut self) {
        self.monitoring = Monitoring::Scanning;
        if let Some(once) = self.unused_try_once.take() {
            self.server_selection_try_once.get_or_insert(once);
            let is_of_it = |key: &str| key == "serverSelectionTryOnce";
            self.warnings
                .retain(|found| !matches!(found, Warning::Unknown { key, .. } if is_of_it(key)));
        }
    }

    /// Returns the warnings about the connection string from which [`parse`](Self::parse) read the
    /// options, and about the TXT record if it was looked up. Default: none.
    ///
    /// ```
    /// use onionskin_core::options::ClientOptions;
    ///
    /// let options: ClientOptions = "mongodb://localhost/?maxPoolSize=lots".parse()?;
    /// for warning in options.warnings() {
    ///     eprintln!("warning: {warning}");
    /// }
    /// # assert_eq!(options.warnings().len(), 1);
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Adds warnings to those that the options keep.
    pub(crate) fn add_warnings(&mut self, warnings: impl IntoIterator<Item = Warning>) {
        self.warnings.extend(warnings);
    }
}
