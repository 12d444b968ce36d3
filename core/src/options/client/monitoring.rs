//! Options that say who checks servers, and how often.

use super::{
    ClientOptions, DEFAULT_HEARTBEAT_FREQUENCY, DEFAULT_SCAN_FREQUENCY, Duration, Error,
    MIN_HEARTBEAT_FREQUENCY, Monitoring, invalid,
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

    /// Sets [`heartbeat_frequency`](Self::heartbeat_frequency).
    pub fn set_heartbeat_frequency(&mut self, frequency: Duration) -> Result<&mut Self, Error> {
        if frequency < MIN_HEARTBEAT_FREQUENCY {
            return Err(invalid(
                "heartbeatFrequencyMS",
                format!(
                    "checks are at least {} ms apart",
                    MIN_HEARTBEAT_FREQUENCY.as_millis()
                ),
            ));
        }
        self.heartbeat_frequency = Some(frequency);
        Ok(self)
    }

    /// Who checks the servers. Not an option of connection strings. Default: monitors in the
    /// background.
    #[must_use]
    pub const fn monitoring(&self) -> Monitoring {
        self.monitoring
    }

    /// `serverSelectionTryOnce`: an operation for which no server suits causes one scan, which
    /// decides, instead of scans until
    /// [`server_selection_timeout`](Self::server_selection_timeout). Only for a client that scans
    /// (SEL-6); [`validate`](Self::validate) refuses it for others. Default: `true`.
    ///
    /// With `true`, finding a server may take as long as a scan, and the timeout plays no part;
    /// with `false`, as long as the timeout and one scan more (SEL-73). A scan asks one server
    /// after the other and waits for each no longer than
    /// [`connect_timeout`](Self::connect_timeout). A time limit of the operation itself cuts both
    /// short.
    #[must_use]
    pub fn server_selection_try_once(&self) -> bool {
        self.server_selection_try_once.unwrap_or(true)
    }

    /// `heartbeatFrequencyMS`: the pause between two checks of a server, or between two scans; at
    /// least [`MIN_HEARTBEAT_FREQUENCY`]. Default: [`DEFAULT_HEARTBEAT_FREQUENCY`], for a client
    /// that scans [`DEFAULT_SCAN_FREQUENCY`].
    #[must_use]
    pub fn heartbeat_frequency(&self) -> Duration {
        let default = match self.monitoring {
            Monitoring::Background => DEFAULT_HEARTBEAT_FREQUENCY,
            Monitoring::Scanning => DEFAULT_SCAN_FREQUENCY,
        };
        self.heartbeat_frequency.unwrap_or(default)
    }

    /// SEL-6
    pub(super) fn validate_monitoring(&self) -> Result<(), Error> {
        if self.monitoring == Monitoring::Background && self.server_selection_try_once.is_some() {
            return Err(invalid(
                "serverSelectionTryOnce",
                "it goes with a client that scans its servers between operations; leave it out",
            ));
        }
        Ok(())
    }
}
