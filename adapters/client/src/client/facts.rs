//! The state of a client, and the options with which it was built.

use super::Client;
use crate::Runtime;
use onionskin_core::{
    client::Counts,
    description::TopologyDescription,
    options::{ClientOptions, ReadConcern, SelectionCriteria, Warning, WriteConcern},
};
use std::sync::Arc;

impl<R: Runtime> Client<R> {
    /// Returns how servers are selected for reads.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Error, Runtime};
    /// use onionskin::options::{ReadPreference, SelectionCriteria};
    ///
    /// # async fn example<R: Runtime + Default>() -> Result<(), Error> {
    /// let client = Client::<R>::with_uri_str("mongodb://db1/?readPreference=secondary").await?;
    /// let secondary = SelectionCriteria::from(ReadPreference::secondary(None));
    /// assert_eq!(client.selection_criteria(), Some(&secondary));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn selection_criteria(&self) -> Option<&SelectionCriteria> {
        self.handle.defaults.selection_criteria()
    }

    /// Returns the read concern; `None` for the default of the server.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Error, Runtime, options::ReadConcern};
    /// # async fn example<R: Runtime + Default>() -> Result<(), Error> {
    /// let client = Client::<R>::with_uri_str("mongodb://db1/?readConcernLevel=majority").await?;
    /// assert_eq!(client.read_concern(), Some(&ReadConcern::majority()));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn read_concern(&self) -> Option<&ReadConcern> {
        self.handle.defaults.read_concern.as_ref()
    }

    /// Returns the write concern; `None` for the default of the server.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Error, Runtime, options::WriteConcern};
    /// # async fn example<R: Runtime + Default>() -> Result<(), Error> {
    /// let client = Client::<R>::with_uri_str("mongodb://db1/?w=majority").await?;
    /// assert_eq!(client.write_concern(), Some(&WriteConcern::majority()));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn write_concern(&self) -> Option<&WriteConcern> {
        self.handle.defaults.write_concern.as_ref()
    }

    /// Returns the warnings about the options: parts of the connection string and of its TXT record
    /// that were ignored or are deprecated, and options that have no effect in this version. They
    /// are also logged when the client is built. If the client looks up the TXT record afterwards,
    /// it logs the warnings about it then, and they are among these from then on.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Error, Runtime};
    /// # async fn example<R: Runtime + Default>() -> Result<(), Error> {
    /// let client = Client::<R>::with_uri_str("mongodb://localhost/?maxPoolsize=lots").await?;
    /// for warning in client.warnings() {
    ///     eprintln!("{warning}"); // option maxPoolSize is ignored: it takes a whole number
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings = self.handle.warnings.clone();
        warnings.extend_from_slice(self.shared().lock().core.txt_warnings());
        warnings
    }

    /// Returns the options with which the client was built. Those that the client itself looks up
    /// afterwards are not among them.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Error, Runtime};
    /// # async fn example<R: Runtime + Default>() -> Result<(), Error> {
    /// let client = Client::<R>::with_uri_str("mongodb://db1/?appName=shop").await?;
    /// assert_eq!(client.options().app_name.as_deref(), Some("shop"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn options(&self) -> &ClientOptions {
        &self.handle.options
    }

    /// Returns the runtime on which the tasks of the client run.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Error, Runtime, options::ClientOptions};
    /// # fn example<R: Runtime + Clone>(client: Client<R>) -> Result<(), Error> {
    /// // A client for another deployment, on the same runtime.
    /// let options: ClientOptions = "mongodb://archive.example.net".parse()?;
    /// let archive = Client::builder(client.runtime().clone(), options).build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn runtime(&self) -> &R {
        &self.shared().runtime
    }

    /// Returns the current topology description.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Runtime};
    /// # fn example<R: Runtime>(client: Client<R>) {
    /// for (address, server) in &client.topology().servers {
    ///     println!("{address}: {}", server.server_type);
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn topology(&self) -> Arc<TopologyDescription> {
        self.shared().lock().core.topology().clone()
    }

    /// Waits until the event listeners were called for all events so far, for two seconds at most.
    ///
    /// Listeners are called independently of operations, so an event can reach a listener after the
    /// call that caused the event returned.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Error, Runtime, bson::doc};
    /// # async fn example<R: Runtime>(client: Client<R>) -> Result<(), Error> {
    /// client.database("admin").run_command(doc! { "ping": 1 }).await?;
    /// client.flush_events().await;
    /// println!("the event listeners know of the command by now");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn flush_events(&self) {
        self.shared().flush_events().await;
    }

    /// Returns the number of events that were dropped because event listeners or log subscribers
    /// were too slow ([`EventKind::Dropped`](crate::event::EventKind::Dropped)).
    ///
    /// ```no_run
    /// # use onionskin::{Client, Runtime};
    /// # fn example<R: Runtime>(client: Client<R>) {
    /// if client.dropped_events() > 0 {
    ///     eprintln!("{} events are missing in the statistics", client.dropped_events());
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn dropped_events(&self) -> u64 {
        self.shared().delivery.dropped()
    }

    /// Returns the recording of the client so far, as the bytes of a file for `onionskin replay`.
    /// `None` if the client does not record itself
    /// ([`ClientBuilder::recording`](crate::ClientBuilder::recording)).
    ///
    /// The recording is copied under the lock of the client, which delays the operations for about
    /// a millisecond for each few megabytes.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Runtime};
    /// # fn example<R: Runtime>(client: Client<R>) -> std::io::Result<()> {
    /// if let Some(recording) = client.recording() {
    ///     std::fs::write("shop.rec", recording)?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn recording(&self) -> Option<Vec<u8>> {
        self.shared().lock().core.recording()
    }

    /// Returns the numbers of sockets, checked-out connections and waiting operations.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Runtime};
    /// # fn example<R: Runtime>(client: Client<R>) {
    /// let counts = client.counts();
    /// println!("{} in use, {} operations wait", counts.in_use, counts.waiting);
    /// # }
    /// ```
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared().lock().core.counts()
    }
}
