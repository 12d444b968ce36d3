//! Client options: typed settings with the defaults of the specifications.

mod choices;
mod client;
mod collation;
mod concern;
mod credential;
mod credential_rules;
mod driver_info;
mod event_handler;
mod fields;
mod hedged;
mod kerberos;
mod names;
mod provider;
mod proxy;
mod read_mode;
mod read_preference;
mod secret;
mod selection_criteria;
mod server_selector;
mod table;
mod tls;
mod warning;

pub use choices::{
    Compressor, Monitoring, ServerApi, ServerApiBuilder, ServerApiVersion, ServerMonitoringMode,
};
pub(crate) use client::check;
pub use client::{
    ClientOptions, ClientOptionsBuilder, DEFAULT_CONNECT_TIMEOUT, DEFAULT_HEARTBEAT_FREQUENCY,
    DEFAULT_LOCAL_THRESHOLD, DEFAULT_MAX_ADAPTIVE_RETRIES, DEFAULT_MAX_CONNECTING,
    DEFAULT_MAX_POOL_SIZE, DEFAULT_SCAN_FREQUENCY, DEFAULT_SERVER_SELECTION_TIMEOUT,
    DEFAULT_SRV_SERVICE_NAME, MAX_APP_NAME_BYTES, MAX_SRV_SERVICE_NAME_BYTES,
    MIN_HEARTBEAT_FREQUENCY,
};
pub use collation::{
    Collation, CollationAlternate, CollationBuilder, CollationCaseFirst, CollationMaxVariable,
    CollationStrength,
};
pub use concern::{
    Acknowledgment, ReadConcern, ReadConcernLevel, WriteConcern, WriteConcernBuilder,
};
pub use credential::{AuthMechanism, Credential, CredentialBuilder, DEFAULT_ALLOWED_HOSTS};
pub(crate) use credential_rules::{CODE_ONLY_PROPERTIES, check_texts, saslprep};
pub use driver_info::{DriverInfo, DriverInfoBuilder, SEPARATOR};
pub use event_handler::EventHandler;
pub(crate) use fields::fields;
pub use hedged::{HedgedReadOptions, HedgedReadOptionsBuilder};
pub(crate) use kerberos::KerberosLibrary;
pub use kerberos::{CanonicalizeHostName, Kerberos, KerberosTarget, SecurityContext};
pub(crate) use names::{numbers, open_names, parsed, shown_as_name};
pub use provider::{
    AwsCredentialProvider, AwsCredentials, CallbackError, CallbackFuture, CredentialProvider,
    IdpInfo, Login, OIDC_CALLBACK_VERSION, OidcCallback, OidcFlow, OidcRequest, OidcTokens,
    PasswordProvider, PasswordRequest, ProviderCall, Supplied,
};
pub use proxy::{Socks5Proxy, Socks5ProxyBuilder};
pub use read_mode::ReadMode;
pub use read_preference::{ReadPreference, ReadPreferenceOptions, ReadPreferenceOptionsBuilder};
pub(crate) use secret::REDACTED;
pub use secret::Secret;
pub use selection_criteria::{Predicate, SelectionCriteria};
pub use server_selector::ServerSelector;
pub(crate) use table::{OptionValue, Place, millis, options, seconds};
pub(crate) use tls::CONFLICTS as TLS_CONFLICTS;
#[cfg(feature = "tls")]
pub use tls::TlsConfig;
pub use tls::{
    Cryptography, MAX_CERTIFICATE_FILE_BYTES, MAX_CRL_FILE_BYTES, SystemRoots, Tls, TlsOptions,
    TlsOptionsBuilder,
};
pub use warning::Warning;
