//! The clients of tests, and those of the runner.

use super::{
    arm::Host,
    entities::{Place, Watched, string, sub},
    watch::{Wanted, Watch},
};
use bson::{Bson, Document};
use onionskin::{
    Client, Runtime,
    options::{ServerApi, ServerApiVersion},
};
use onionskin_core::{
    log::{Component, Level},
    random::Seed,
    uri,
};
use onionskin_tests::compressors::with_compressors;
use std::{sync::Arc, time::Duration};

/// The options of client entities that the runner knows. Those about OpenTelemetry and encryption
/// are refused elsewhere.
const CLIENT_OPTIONS: [&str; 9] = [
    "id",
    "uriOptions",
    "useMultipleMongoses",
    "observeEvents",
    "observeSensitiveCommands",
    "ignoreCommandMonitoringEvents",
    "observeLogMessages",
    "serverApi",
    "awaitMinPoolSizeMS",
];

/// The parts of new clients.
pub(crate) struct New<R: Runtime> {
    pub(crate) runtime: R,
    pub(crate) place: Place,
    pub(crate) seed: Seed,
}

impl<R: Host> New<R> {
    /// Creates the client of an entity.
    pub(crate) fn client(&self, id: &str, options: &Document) -> Result<Arc<Watched<R>>, String> {
        if let Some(key) = options
            .keys()
            .find(|key| !CLIENT_OPTIONS.contains(&key.as_str()))
        {
            return Err(format!("the runner has no option {key} of clients"));
        }
        let many_routers = options.get_bool("useMultipleMongoses").ok();
        let strings = |key| -> Vec<String> {
            let values = options
                .get_array(key)
                .map(Vec::as_slice)
                .unwrap_or_default();
            values
                .iter()
                .filter_map(Bson::as_str)
                .map(str::to_owned)
                .collect()
        };
        let wanted = Wanted {
            events: strings("observeEvents"),
            ignored_commands: strings("ignoreCommandMonitoringEvents"),
            sensitive: options
                .get_bool("observeSensitiveCommands")
                .unwrap_or_default(),
            messages: messages(&sub(options, "observeLogMessages"))?,
        };
        let uri = self.place.uri(many_routers, &sub(options, "uriOptions"));
        self.build(id, &uri, options.get_document("serverApi").ok(), wanted)
    }

    /// Waits until the pools of a client have their smallest size, if the entity asks for that, and
    /// forgets the events until then.
    pub(crate) async fn fill_pool(
        &self,
        watched: &Watched<R>,
        options: &Document,
    ) -> Result<(), String> {
        let Some(limit) = options.get("awaitMinPoolSizeMS").and_then(Bson::as_i32) else {
            return Ok(());
        };
        let wanted = watched.client.options().min_pool_size.unwrap_or_default() as usize;
        let limit = Duration::from_millis(limit.unsigned_abs().into());
        let start = self.runtime.now();
        let servers = || watched.client.topology().servers.len();
        while watched.watch.ready_connections() < wanted * servers() {
            if self.runtime.now().saturating_sub(start) > limit {
                return Err("the pools do not reach their smallest size".to_owned());
            }
            self.runtime.sleep(Duration::from_millis(5)).await;
        }
        watched.client.flush_events().await;
        watched.watch.forget();
        Ok(())
    }

    /// Creates a client of the runner's own, of one router or of the whole deployment.
    pub(crate) fn own(&self, id: &str, host: Option<usize>) -> Result<Client<R>, String> {
        let mut place = self.place.clone();
        if let Some(host) = host {
            place.hosts = vec![place.hosts[host].clone()];
            match place.balancer.take() {
                Some(_) => place.balancer = Some(place.hosts[0].clone()),
                None => place.options = "directConnection=true".to_owned(),
            }
        }
        let uri = place.uri(Some(true), &Document::new());
        let watched = self.build(id, &uri, None, Wanted::default())?;
        Ok(watched.client.clone())
    }

    fn build(
        &self,
        id: &str,
        uri: &str,
        api: Option<&Document>,
        wanted: Wanted,
    ) -> Result<Arc<Watched<R>>, String> {
        let watch = Watch::new(wanted);
        let parsed = uri::parse(&with_compressors(uri)).map_err(|error| error.to_string())?;
        let mut options = parsed.options;
        if let Some(api) = api {
            options.server_api = Some(server_api(api)?);
        }
        let record = Arc::clone(&watch);
        let client = Client::builder(self.runtime.clone(), options)
            .seed(self.seed.split(id))
            .event_listener(Arc::new(move |event| record.observe(event)))
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Arc::new(Watched { client, watch }))
    }
}

fn server_api(api: &Document) -> Result<ServerApi, String> {
    let version = match string(api, "version")? {
        "1" => ServerApiVersion::V1,
        other => return Err(format!("there is no API version {other}")),
    };
    let built = ServerApi::builder()
        .version(version)
        .strict(api.get_bool("strict").ok())
        .deprecation_errors(api.get_bool("deprecationErrors").ok());
    Ok(built.build())
}

fn messages(wanted: &Document) -> Result<Vec<(Component, Level)>, String> {
    let mut messages = Vec::new();
    for (key, level) in wanted {
        let component = Component::ALL
            .into_iter()
            .find(|component| component.name() == key);
        let component = component.ok_or_else(|| format!("there is no component {key}"))?;
        let level = match level.as_str() {
            Some("emergency" | "alert" | "critical" | "error") => Level::Error,
            Some("warning") => Level::Warn,
            Some("notice" | "info") => Level::Info,
            Some("debug") => Level::Debug,
            Some("trace") => Level::Trace,
            _ => return Err(format!("there is no level {level}")),
        };
        messages.push((component, level));
    }
    Ok(messages)
}
