//! The head of a recording: the configuration of its client, as JSON.

use super::{
    bytes::{Bytes, Unread, put_bytes},
    secrets::{check_credential, replayed_credential},
};
use crate::{
    client::ClientConfig,
    error::Error,
    event::Subscriptions,
    hello::ClientMetadata,
    options::{ClientOptions, Compressor, Monitoring, Secret, ServerSelector, Socks5Proxy},
    random::Seed,
    socks5::Socks5Context,
    time::Instant,
};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use bson::RawDocumentBuf;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

/// The first bytes of each recording. The last two digits are the version of the format.
const MAGIC: &[u8; 10] = b"onionrec02";

/// Lists the options that decide what a client does, and whose values are kept as they are.
macro_rules! each_option {
    ($call:ident!($($arguments:tt)*)) => {
        $call! { $($arguments)* =>
            connect_timeout, direct_connection, enable_overload_retargeting, heartbeat_freq,
            load_balanced, local_threshold, max_adaptive_retries, max_connecting, max_idle_time,
            max_pool_size, min_pool_size, repl_set_name, retry_reads, retry_writes, server_api,
            server_monitoring_mode, server_selection_timeout, server_selection_try_once,
            socket_timeout, srv_allowed_hosts_suffix, srv_host, srv_max_hosts, srv_service_name,
            srv_ttl, timeout, wait_queue_timeout, zlib_compression_level,
        }
    };
}

macro_rules! write_options {
    ($map:ident, $options:ident => $($field:ident,)*) => {
        $(if let Some(value) = &$options.$field {
            $map.insert(stringify!($field).to_owned(), json!(value));
        })*
    };
}

macro_rules! read_options {
    ($map:ident, $options:ident => $($field:ident,)*) => {
        $($options.$field = take(&mut $map, stringify!($field))?;)*
    };
}

/// The configuration of a recorded client.
pub(in crate::client) struct Header(Map<String, Value>);

/// The head of a recording that was read, with the configuration.
pub(super) struct Head {
    pub(super) version: String,
    pub(super) begins: Instant,
    pub(super) entries: u64,
    pub(super) lost: u64,
    pub(super) is_cut: bool,
    configuration: Map<String, Value>,
}

impl Header {
    /// Returns the head of the recording of a client with this configuration. Fails if the
    /// recording would have secrets, or could not be replayed at all.
    pub(in crate::client) fn new(config: &ClientConfig) -> Result<Self, Error> {
        let ClientConfig {
            options,
            seed,
            metadata,
            streaming,
            replays_tls,
            ..
        } = config;
        if let Some(credential) = &options.credential {
            check_credential(credential)?;
        }
        let mut known = Map::new();
        each_option!(write_options!(known, options));
        let hosts = options.hosts();
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        // The client announces no others.
        let mut names = options.compressors();
        names.retain(|compressor| compressor.is_available());
        let names: Vec<&str> = names.iter().map(|compressor| compressor.name()).collect();
        let scans = options.monitoring == Monitoring::Scanning;
        let mut map = Map::new();
        map.insert("version".to_owned(), json!(env!("CARGO_PKG_VERSION")));
        map.insert("seed".to_owned(), json!(BASE64.encode(seed.bytes())));
        map.insert("options".to_owned(), Value::Object(known));
        map.insert("hosts".to_owned(), json!(hosts));
        map.insert("compressors".to_owned(), json!(names));
        map.insert("scanning".to_owned(), json!(scans));
        if let Some(proxy) = &options.socks5_proxy {
            let has_login = proxy.credentials().is_some();
            let known = json!({ "host": proxy.host(), "port": proxy.port(), "login": has_login });
            map.insert("proxy".to_owned(), known);
        }
        let selects = options.server_selector.is_some();
        map.insert("selector".to_owned(), json!(selects));
        let has_credential = options.credential.is_some();
        map.insert("credential".to_owned(), json!(has_credential));
        let has_tls = options.tls().is_some() || *replays_tls;
        map.insert("tls".to_owned(), json!(has_tls));
        map.insert("streaming".to_owned(), json!(streaming));
        let metadata = BASE64.encode(metadata.document().as_bytes());
        map.insert("metadata".to_owned(), json!(metadata));
        Ok(Self(map))
    }

    /// Returns the bytes of a recording up to its first entry.
    pub(super) fn write(&self, begins: Instant, entries: u64, lost: u64, is_cut: bool) -> Vec<u8> {
        let mut map = self.0.clone();
        map.insert("begins".to_owned(), json!(begins.as_nanos()));
        map.insert("entries".to_owned(), json!(entries));
        map.insert("lost".to_owned(), json!(lost));
        map.insert("cut".to_owned(), json!(is_cut));
        let text = Value::Object(map).to_string();
        let mut bytes = MAGIC.to_vec();
        put_bytes(&mut bytes, text.as_bytes());
        bytes
    }
}

/// True if a file begins as a recording of a client does, of whatever version.
pub(super) fn is_recording(file: &[u8]) -> bool {
    file.starts_with(&MAGIC[..8])
}

/// Reads the head of a recording, and leaves the entries.
pub(super) fn head(file: &mut Bytes<'_>) -> Result<Head, Error> {
    if !is_recording(file.0) {
        return Err(Error::argument("the file is no recording of a client"));
    }
    let Some(rest) = file.0.strip_prefix(MAGIC) else {
        let version = String::from_utf8_lossy(file.0.get(8..10).unwrap_or_default());
        return Err(Error::argument(format!(
            "the format of the recording has the version {version:?}, and this build reads only \
             the version \"02\"; use the release of the driver that has made the recording"
        )));
    };
    file.0 = rest;
    let text = file.text("the head")?;
    let map: Map<String, Value> =
        serde_json::from_str(text).map_err(|_| Unread::Damaged("the head"))?;
    let number = |key: &str| map.get(key).and_then(Value::as_u64);
    let damaged = || Error::from(Unread::Damaged("the head"));
    let version = map.get("version").and_then(Value::as_str);
    Ok(Head {
        version: version.ok_or_else(damaged)?.to_owned(),
        begins: Instant::from_nanos(number("begins").ok_or_else(damaged)?),
        entries: number("entries").ok_or_else(damaged)?,
        lost: number("lost").ok_or_else(damaged)?,
        is_cut: map.get("cut").and_then(Value::as_bool).unwrap_or(false),
        configuration: map,
    })
}

impl Head {
    /// Returns the configuration of the recorded client.
    pub(super) fn configuration(&self) -> Result<ClientConfig, Error> {
        let mut map = self.configuration.clone();
        let damaged = || Error::from(Unread::Damaged("the configuration"));
        let mut options = ClientOptions::default();
        let known: Option<Map<String, Value>> = take(&mut map, "options")?;
        let mut known = known.ok_or_else(damaged)?;
        each_option!(read_options!(known, options));
        if let Some(key) = known.keys().next() {
            return Err(Error::argument(format!(
                "the recording has the option {key}, which this version does not know"
            )));
        }
        let hosts: Option<Vec<String>> = take(&mut map, "hosts")?;
        for host in hosts.ok_or_else(damaged)? {
            options.hosts.push(host.parse().map_err(|_| damaged())?);
        }
        let names: Option<Vec<String>> = take(&mut map, "compressors")?;
        let compressors = names.unwrap_or_default().into_iter().map(compressor);
        options.compressors = Some(compressors.collect::<Result<_, _>>()?);
        if take(&mut map, "scanning")?.unwrap_or(false) {
            options.scan_on_demand();
        }
        if take(&mut map, "selector")?.unwrap_or(false) {
            // It is not called, because its choices are recorded.
            options.server_selector = Some(ServerSelector::new(|_| {}));
        }
        if take(&mut map, "credential")?.unwrap_or(false) {
            options.credential = Some(replayed_credential());
        }
        options.socks5_proxy = take(&mut map, "proxy")?.map(Proxy::options);
        let decode = |text: Option<String>| BASE64.decode(text?).ok();
        let seed = decode(take(&mut map, "seed")?).and_then(|bytes| bytes.try_into().ok());
        let metadata = decode(take(&mut map, "metadata")?);
        let metadata = metadata.and_then(|bytes| RawDocumentBuf::from_bytes(bytes).ok());
        let metadata = metadata.and_then(ClientMetadata::recorded);
        options.validate()?;
        let proxy = options.socks5_proxy.as_ref();
        let proxy = proxy.map(Socks5Context::new).transpose()?;
        Ok(ClientConfig {
            options,
            seed: Seed::new(seed.ok_or_else(damaged)?),
            // The replay sends no proofs.
            nonces: None,
            metadata: metadata.ok_or_else(damaged)?,
            subscriptions: Subscriptions::default(),
            proxy,
            tls: None,
            streaming: take(&mut map, "streaming")?.unwrap_or(true),
            recorder: None,
            is_replay: true,
            replays_tls: take(&mut map, "tls")?.unwrap_or(false),
        })
    }
}

/// The proxy of a recorded client. The user name and the password are replaced.
#[derive(Deserialize)]
struct Proxy {
    host: String,
    port: u16,
    login: bool,
}

impl Proxy {
    fn options(self) -> Socks5Proxy {
        let login = || ("user".to_owned(), Secret::from("password"));
        Socks5Proxy::builder()
            .host(self.host)
            .port(self.port)
            .authentication(self.login.then(login))
            .build()
    }
}

/// Returns the compressor with this name. Fails if this build does not have it: it would announce
/// other compressors than the recorded client did.
fn compressor(name: String) -> Result<Compressor, Error> {
    let known = Compressor::from_name(&name).filter(|known| known.is_available());
    known.ok_or_else(|| {
        Error::argument(format!(
            "the recorded client has the compressor {name}, which this build lacks; build with \
             the Cargo feature of this name"
        ))
    })
}

fn take<T: DeserializeOwned>(map: &mut Map<String, Value>, key: &str) -> Result<Option<T>, Error> {
    let value = map.remove(key).map(serde_json::from_value).transpose();
    value.map_err(|_| Error::argument(format!("the recording is damaged: {key} is wrong")))
}
