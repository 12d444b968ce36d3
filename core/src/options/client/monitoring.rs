//! Options that decide how and how often servers are checked.

use super::{
    ClientOptions, DEFAULT_HEARTBEAT_FREQUENCY, DEFAULT_SCAN_FREQUENCY, Duration, Error,
    MIN_HEARTBEAT_FREQUENCY, Monitoring,
};

impl ClientOptions {
    /// Sets [`monitoring`](Self::monitoring).
    pub fn set_monitoring(&mut self, monitoring: Monitoring) -> &mut Self {
        self.monitoring = monitoring;
        self
    }

    /// Sets [`server_selection_try_once`](Self::server_selection_try_once).
    pub fn set_server_selection_try_once(&mut self, once: bool) -> &mut Self {
        self.server_selection_try_once = Some(once);
        self
    }

    /// Sets [`heartbeat_frequency`](Self::heartbeat_frequency). Fails below
    /// [`MIN_HEARTBEAT_FREQUENCY`].
    pub fn set_heartbeat_frequency(&mut self, frequency: Duration) -> Result<&mut Self, Error> {
        if frequency < MIN_HEARTBEAT_FREQUENCY {
            return Err(Error::invalid_option(
                "heartbeatFrequencyMS",
                format!(
                    "it must be at least {} ms",
                    MIN_HEARTBEAT_FREQUENCY.as_millis()
                ),
            ));
        }
        self.heartbeat_frequency = Some(frequency);
        Ok(self)
    }

    /// Returns whether monitors check servers in the background, or operations scan them on demand.
    /// Connection strings cannot set this. Default: [`Monitoring::Background`].
    #[must_use]
    pub const fn monitoring(&self) -> Monitoring {
        self.monitoring
    }

    /// Returns `serverSelectionTryOnce`. With `true`, an operation without a suitable server waits
    /// for one scan, and fails if no server suits after that scan. With `false`, scans repeat until
    /// [`server_selection_timeout`](Self::server_selection_timeout). Default: `true`.
    ///
    /// Only a client that checks servers on demand ([`Monitoring::Scanning`]) may set this option
    /// ([SEL-6]); for another one [`validate`](Self::validate) fails.
    ///
    /// With `true`, server selection can take as long as a scan, even beyond the timeout. With
    /// `false`, server selection can take the timeout plus one scan ([SEL-73]). A scan checks one
    /// server after the other and waits for each at most
    /// [`connect_timeout`](Self::connect_timeout). With `true` and with `false`, the time limit of
    /// the operation ends the selection.
    ///
    /// [SEL-6]: crate::requirements::server_selection#SEL-6
    /// [SEL-73]: crate::requirements::server_selection#SEL-73
    #[must_use]
    pub fn server_selection_try_once(&self) -> bool {
        self.server_selection_try_once.unwrap_or(true)
    }

    /// Returns `heartbeatFrequencyMS`, the time from the end of one check of a server to the start
    /// of the next, or between two scans. Minimum: [`MIN_HEARTBEAT_FREQUENCY`]. Default:
    /// [`DEFAULT_HEARTBEAT_FREQUENCY`], or [`DEFAULT_SCAN_FREQUENCY`] with
    /// [`Monitoring::Scanning`].
    #[must_use]
    pub fn heartbeat_frequency(&self) -> Duration {
        let default = match self.monitoring {
            Monitoring::Background => DEFAULT_HEARTBEAT_FREQUENCY,
            Monitoring::Scanning => DEFAULT_SCAN_FREQUENCY,
        };
        self.heartbeat_frequency.unwrap_or(default)
    }

    /// Checks that only a client that scans has `serverSelectionTryOnce` (SEL-6).
    pub(super) fn validate_monitoring(&self) -> Result<(), Error> {
        if self.monitoring == Monitoring::Background && self.server_selection_try_once.is_some() {
            return Err(Error::invalid_option(
                "serverSelectionTryOnce",
                "only a client that checks servers on demand (Monitoring::Scanning) has this \
                 option; remove it",
            ));
        }
        Ok(())
    }
}
