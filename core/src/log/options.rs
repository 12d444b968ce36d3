//! The selection of log messages by component and level.

use super::{Component, Level};
use crate::event::Subscriptions;

/// The default maximum length of documents in log messages, in bytes of extended JSON.
pub const DEFAULT_MAX_DOCUMENT_LENGTH_BYTES: usize = 1000;

/// The environment variable that sets the level of each component without a variable of its own.
const ALL: &str = "MONGODB_LOG_ALL";

/// The environment variable that sets the maximum length of documents.
const MAX_DOCUMENT_LENGTH: &str = "MONGODB_LOG_MAX_DOCUMENT_LENGTH";

/// The selection of log messages. By default all messages are selected. The collector, which is the
/// library of the application that collects log messages, can then filter them.
///
/// ```
/// use onionskin_core::log::{Component, Level, LogOptions};
///
/// let options = LogOptions::default()
///     .with_level(Component::Command, None)
///     .with_level(Component::Topology, Level::Info);
/// assert!(!options.wants(Component::Command, Level::Error));
/// assert!(options.wants(Component::Topology, Level::Warn));
/// assert!(!options.wants(Component::Topology, Level::Debug));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOptions {
    levels: [Option<Level>; Component::ALL.len()],
    max_document_length_bytes: usize,
    is_always_ready: bool,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            levels: [Some(Level::Trace); Component::ALL.len()],
            max_document_length_bytes: DEFAULT_MAX_DOCUMENT_LENGTH_BYTES,
            is_always_ready: false,
        }
    }
}

impl LogOptions {
    /// Returns these options, changed by environment variables. `lookup` returns the value of a
    /// variable.
    ///
    /// `MONGODB_LOG_COMMAND`, `MONGODB_LOG_TOPOLOGY`, `MONGODB_LOG_SERVER_SELECTION`,
    /// `MONGODB_LOG_CONNECTION` and `MONGODB_LOG_CLIENT` set the most verbose level of a component.
    /// `MONGODB_LOG_ALL` sets that of every component without a variable of its own.
    ///
    /// A level is `off`, `emergency`, `alert`, `critical`, `error`, `warn`, `notice`, `info`,
    /// `debug` or `trace`, in upper or lower case. `emergency`, `alert` and `critical` mean
    /// `error`, and `notice` means `info`.
    ///
    /// `MONGODB_LOG_MAX_DOCUMENT_LENGTH` is a number of bytes, or `unlimited`. An invalid value is
    /// ignored.
    #[must_use]
    pub fn with_environment(mut self, lookup: impl Fn(&str) -> Option<String>) -> Self {
        let level = |name: &str| lookup(name).as_deref().and_then(parse_level);
        let all = level(ALL);
        for component in Component::ALL {
            if let Some(level) = level(variable(component)).or(all) {
                self = self.with_level(component, level);
            }
        }
        let length = lookup(MAX_DOCUMENT_LENGTH);
        match length.as_deref().map(str::trim) {
            Some(text) if text.eq_ignore_ascii_case("unlimited") => {
                self.max_document_length_bytes = usize::MAX;
            }
            Some(text) => {
                if let Ok(bytes) = text.parse() {
                    self.max_document_length_bytes = bytes;
                }
            }
            None => {}
        }
        self
    }

    /// Sets the most verbose level of a component; `None` disables its messages. Default:
    /// [`Level::Trace`].
    #[must_use]
    pub fn with_level(mut self, component: Component, level: impl Into<Option<Level>>) -> Self {
        self.levels[component as usize] = level.into();
        self
    }

    /// Sets the maximum length of documents in messages, in bytes of extended JSON. A longer
    /// document is cut and ends with `...`. Default: [`DEFAULT_MAX_DOCUMENT_LENGTH_BYTES`].
    #[must_use]
    pub fn with_max_document_length_bytes(mut self, bytes: usize) -> Self {
        self.max_document_length_bytes = bytes;
        self
    }

    /// Sets whether events are built for all selected messages, even if no collector accepts such
    /// messages when the client is created. Default: false, so that unwanted messages cost nothing.
    /// Use `true` if the filters of the collector change later.
    #[must_use]
    pub fn with_always_ready(mut self, always_ready: bool) -> Self {
        self.is_always_ready = always_ready;
        self
    }

    /// Returns the most verbose level of a component; `None` if its messages are disabled.
    #[must_use]
    pub fn level(&self, component: Component) -> Option<Level> {
        self.levels[component as usize]
    }

    /// Returns the maximum length of documents in messages, in bytes of extended JSON.
    #[must_use]
    pub const fn max_document_length_bytes(&self) -> usize {
        self.max_document_length_bytes
    }

    /// True if messages of this component and level are selected.
    #[must_use]
    pub fn wants(&self, component: Component, level: Level) -> bool {
        self.level(component).is_some_and(|most| level <= most)
    }

    /// Returns the subscriptions to the events from which the selected messages are made. Without
    /// [`with_always_ready`](Self::with_always_ready), an event family is included only if
    /// `is_collected` is also true for the component and level of its messages.
    #[must_use]
    pub fn subscriptions(&self, is_collected: impl Fn(Component, Level) -> bool) -> Subscriptions {
        let wants = |component, level| {
            self.wants(component, level) && (self.is_always_ready || is_collected(component, level))
        };
        Subscriptions {
            sdam: wants(Component::Topology, Level::Debug),
            pool: wants(Component::Connection, Level::Debug),
            command: wants(Component::Command, Level::Debug),
            selection: wants(Component::ServerSelection, Level::Debug),
            // Operations have no messages.
            operation: false,
            notices: wants(Component::Topology, Level::Warn)
                || wants(Component::ServerSelection, Level::Info),
        }
    }
}

const fn variable(component: Component) -> &'static str {
    match component {
        Component::Command => "MONGODB_LOG_COMMAND",
        Component::Topology => "MONGODB_LOG_TOPOLOGY",
        Component::ServerSelection => "MONGODB_LOG_SERVER_SELECTION",
        Component::Connection => "MONGODB_LOG_CONNECTION",
        Component::Client => "MONGODB_LOG_CLIENT",
    }
}

/// Parses a level. The result `Some(None)` means `off`, and `None` means an invalid text.
fn parse_level(text: &str) -> Option<Option<Level>> {
    Some(match text.trim().to_ascii_lowercase().as_str() {
        "off" => None,
        "emergency" | "alert" | "critical" | "error" => Some(Level::Error),
        "warn" => Some(Level::Warn),
        "notice" | "info" => Some(Level::Info),
        "debug" => Some(Level::Debug),
        "trace" => Some(Level::Trace),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(variables: &[(&str, &str)]) -> LogOptions {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
        let lookup = |name: &str| find(name).map(|(_, value)| (*value).to_owned());
        LogOptions::default().with_environment(lookup)
    }

    #[test]
    fn without_log_variables_every_component_logs_at_trace_level() {
        assert_eq!(from(&[]), LogOptions::default());
        let options = from(&[]);
        for component in Component::ALL {
            assert!(options.wants(component, Level::Trace));
        }
        assert_eq!(options.max_document_length_bytes(), 1000);
    }

    #[test]
    fn a_components_own_variable_overrides_mongodb_log_all() {
        let options = from(&[
            ("MONGODB_LOG_ALL", "Notice"),
            ("MONGODB_LOG_SERVER_SELECTION", "DEBUG"),
            ("MONGODB_LOG_CONNECTION", "off"),
            ("MONGODB_LOG_COMMAND", "emergency"),
            ("MONGODB_LOG_TOPOLOGY", "loud"),
            ("MONGODB_LOG_MAX_DOCUMENT_LENGTH", "12"),
        ]);
        let levels = Component::ALL.map(|component| options.level(component));
        let expected = [
            Some(Level::Error),
            Some(Level::Info),
            Some(Level::Debug),
            None,
            Some(Level::Info),
        ];
        assert_eq!(levels, expected);
        assert_eq!(options.max_document_length_bytes(), 12);
    }

    #[test]
    fn an_invalid_log_variable_counts_as_unset() {
        for value in ["", "-1", "1.5", "lots", "99999999999999999999999"] {
            let variables = [
                ("MONGODB_LOG_ALL", value),
                ("MONGODB_LOG_MAX_DOCUMENT_LENGTH", value),
            ];
            assert_eq!(from(&variables), LogOptions::default(), "{value}");
        }
        let options = from(&[("MONGODB_LOG_MAX_DOCUMENT_LENGTH", "Unlimited")]);
        assert_eq!(options.max_document_length_bytes(), usize::MAX);
    }

    #[test]
    fn only_events_that_are_enabled_and_collected_are_subscribed_to() {
        let nothing = Subscriptions::default();
        let notices = Subscriptions {
            notices: true,
            ..nothing
        };
        let options = LogOptions::default();
        assert_eq!(options.subscriptions(|_, _| false), nothing);
        let messages = Subscriptions {
            operation: false,
            ..Subscriptions::all()
        };
        assert_eq!(options.subscriptions(|_, _| true), messages);
        // The usual case: the collector accepts messages up to `Info`.
        assert_eq!(
            options.subscriptions(|_, level| level <= Level::Info),
            notices
        );
        let ready = options.clone().with_always_ready(true);
        assert_eq!(ready.subscriptions(|_, _| false), messages);
        let mut silent = ready;
        for component in Component::ALL {
            silent = silent.with_level(component, None);
        }
        assert_eq!(silent.subscriptions(|_, _| true), nothing);
        let pools = silent.with_level(Component::Connection, Level::Debug);
        let expected = Subscriptions {
            pool: true,
            ..nothing
        };
        assert_eq!(pools.subscriptions(|_, _| true), expected);
    }
}
