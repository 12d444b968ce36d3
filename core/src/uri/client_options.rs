//! Conversions of connection strings to the options of a client.

use super::{ConnectionString, Result, parse_for};
use crate::{
    error::Error,
    options::{ClientOptions, Monitoring},
};
use std::{
    future::{IntoFuture, Ready, ready},
    str::FromStr,
};

impl ClientOptions {
    /// Parses a text, or takes a [`ConnectionString`]. The result is awaited, or taken with
    /// [`run`](ParseConnectionString::run) in code that is not asynchronous.
    ///
    /// The options keep the warnings about the string ([`warnings`](Self::warnings)), and a client
    /// that is created with them logs the warnings. DNS is not queried: the options of a
    /// `mongodb+srv` string have no hosts, and the client looks them up. So awaiting takes no time.
    /// Fails as [`uri::parse`](super::parse) does.
    ///
    /// ```
    /// use onionskin_core::options::ClientOptions;
    ///
    /// # async fn example() -> onionskin_core::error::Result<()> {
    /// let mut options = ClientOptions::parse("mongodb://localhost/?maxPoolSize=5").await?;
    /// options.max_pool_size = Some(7); // The field overrides the string.
    /// # Ok(())
    /// # }
    ///
    /// let options = ClientOptions::parse("mongodb://localhost/?tsl=true").run()?;
    /// let warning = options.warnings()[0].to_string();
    /// assert_eq!(warning, "option \"tsl\" is not known and was ignored; did you mean tls?");
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    pub fn parse<S, E>(string: S) -> ParseConnectionString
    where
        S: TryInto<ConnectionString, Error = E>,
        E: Into<Error>,
    {
        let parsed = string.try_into().map_err(Into::into);
        let parsed = parsed.and_then(|string| string.into_options(Monitoring::Background));
        ParseConnectionString(parsed.map(super::ParsedUri::into_options))
    }

    /// Parses a connection string as [`parse`](Self::parse) does, for a client with this kind of
    /// monitoring. [`Monitoring::Scanning`] is for clients that check servers on demand, such as
    /// those of `onionskin-blocking`, which have the option `serverSelectionTryOnce`.
    ///
    /// ```
    /// use onionskin_core::options::{ClientOptions, Monitoring};
    ///
    /// let text = "mongodb://localhost/?serverSelectionTryOnce=false";
    /// let options = ClientOptions::parse_for(text, Monitoring::Scanning)?;
    /// assert_eq!(options.server_selection_try_once, Some(false));
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    pub fn parse_for(text: &str, monitoring: Monitoring) -> Result<Self> {
        parse_for(text, monitoring).map(super::ParsedUri::into_options)
    }
}

/// The options of a connection string ([`ClientOptions::parse`]).
#[derive(Debug)]
#[must_use = "await this, or call `run`"]
pub struct ParseConnectionString(Result<ClientOptions>);

impl ParseConnectionString {
    /// Returns the options without waiting.
    ///
    /// ```
    /// use onionskin_core::options::ClientOptions;
    ///
    /// let options = ClientOptions::parse("mongodb://localhost/?maxPoolSize=5").run()?;
    /// assert_eq!(options.max_pool_size, Some(5));
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    pub fn run(self) -> Result<ClientOptions> {
        self.0
    }
}

impl IntoFuture for ParseConnectionString {
    type Output = Result<ClientOptions>;
    type IntoFuture = Ready<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        ready(self.0)
    }
}

impl super::ParsedUri {
    /// Returns the options, which keep the warnings ([`ClientOptions::warnings`]).
    ///
    /// ```
    /// let parsed = onionskin_core::uri::parse("mongodb://localhost/?maxPoolSize=lots")?;
    /// let options = parsed.into_options();
    /// assert_eq!(options.warnings().len(), 1);
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    #[must_use]
    pub fn into_options(self) -> ClientOptions {
        let mut options = self.options;
        options.add_warnings(self.warnings);
        options
    }
}

impl FromStr for ClientOptions {
    type Err = Error;

    /// Parses a connection string; see [`ClientOptions::parse`].
    fn from_str(text: &str) -> Result<Self> {
        Self::parse_for(text, Monitoring::Background)
    }
}

impl TryFrom<&str> for ClientOptions {
    type Error = Error;

    /// Parses a connection string; see [`ClientOptions::parse`].
    fn try_from(text: &str) -> Result<Self> {
        Self::parse_for(text, Monitoring::Background)
    }
}

impl TryFrom<&ConnectionString> for ClientOptions {
    type Error = Error;

    /// Interprets a connection string; see [`ClientOptions::parse`].
    fn try_from(string: &ConnectionString) -> Result<Self> {
        let parsed = string.parse_options(Monitoring::Background)?;
        Ok(parsed.into_options())
    }
}
