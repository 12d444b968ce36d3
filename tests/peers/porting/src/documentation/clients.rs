//! Clients: credentials, TLS, the libraries around the driver, and full connection pools.

use super::*;
use crate::driver::{
    ServerType,
    event::sdam::ServerHeartbeatSucceededEvent,
    options::{AuthMechanism, Credential, DriverInfo, Tls, TlsOptions},
};
use std::{collections::BTreeSet, path::PathBuf};

/// Returns a short text for the mechanism of a credential.
fn mechanism(credential: &Credential) -> &'static str {
    match credential.mechanism {
        Some(AuthMechanism::ScramSha1 | AuthMechanism::ScramSha256) => "a password",
        Some(AuthMechanism::MongoDbX509) => "a certificate",
        Some(AuthMechanism::MongoDbOidc) => "a token",
        Some(_) => "another proof",
        None => "what the server prefers",
    }
}

pub(super) async fn credentials() -> Result<()> {
    let uri = "mongodb://ada:pencil@localhost/app?authSource=users&authMechanism=SCRAM-SHA-256";
    let mut options = ClientOptions::parse(uri).await?;
    if let Some(credential) = &options.credential {
        println!("{:?} {:?}", credential.username, credential.source);
        println!(
            "{} {}",
            mechanism(credential),
            credential.password.is_some()
        );
    }
    let credential = Credential::builder()
        .username("bob".to_string())
        .password("eraser".to_string())
        .source("admin".to_string())
        .mechanism(AuthMechanism::ScramSha1)
        .build();
    println!("{}", options.credential.as_ref() == Some(&credential));
    options.credential = Some(credential);
    let mut certificate = Credential::default();
    certificate.mechanism = Some(AuthMechanism::MongoDbX509);
    println!("{} {:?}", mechanism(&certificate), certificate.username);
    println!("{}", mechanism(&Credential::default()));
    let client = Client::with_options(options)?;
    println!(
        "{:?}",
        client.default_database().map(|db| db.name().to_string())
    );
    Ok(())
}

pub(super) async fn encryption() -> Result<()> {
    let tls = TlsOptions::builder()
        .ca_file_path(PathBuf::from("ca.pem"))
        .cert_key_file_path(PathBuf::from("client.pem"))
        .allow_invalid_certificates(false)
        .build();
    println!("{:?} {:?}", tls.ca_file_path, tls.cert_key_file_path);
    println!("{:?}", tls.allow_invalid_certificates);
    let mut built = ClientOptions::builder()
        .tls(Tls::Enabled(tls))
        .app_name("encrypted".to_string())
        .build();
    println!("{}", matches!(built.tls, Some(Tls::Enabled(_))));
    built.tls = Some(Tls::Disabled);
    println!("{}", matches!(built.tls, Some(Tls::Disabled)));
    let uri = "mongodb://localhost/?tls=true&tlsAllowInvalidCertificates=true";
    let parsed = ClientOptions::parse(uri).await?;
    match &parsed.tls {
        Some(Tls::Enabled(tls)) => println!("{:?}", tls.allow_invalid_certificates),
        _ => println!("no TLS"),
    }
    Ok(())
}

/// The libraries of an application are read from its configuration.
pub(super) async fn libraries(client: &Client) -> Result<()> {
    let texts = [
        r#"{ "name": "mapper", "version": "1.2" }"#,
        r#"{ "name": "framework" }"#,
    ];
    for text in texts {
        let library: DriverInfo = serde_json::from_str(text).unwrap();
        println!("{} {:?}", library.name, library.version);
        client.append_metadata(library)?;
    }
    let db = client.database("admin");
    println!("{}", db.run_command(doc! { "ping": 1 }).await.is_ok());
    Ok(())
}

/// Returns the name of the event if it occurs in each run before a client is shut down.
fn name_of_pool_event(event: CmapEvent) -> Option<String> {
    Some(match event {
        CmapEvent::PoolCreated(event) => {
            let size = event.options.and_then(|options| options.max_pool_size);
            format!("pool created, at most {size:?} connections")
        }
        CmapEvent::PoolReady(event) => {
            format!("pool ready, {}", !event.address.to_string().is_empty())
        }
        CmapEvent::ConnectionCreated(_) => "connection created".to_string(),
        CmapEvent::ConnectionReady(_) => "connection ready".to_string(),
        CmapEvent::ConnectionCheckoutStarted(_) => "check out started".to_string(),
        CmapEvent::ConnectionCheckedOut(event) => {
            format!("checked out, {}", event.connection_id > 0)
        }
        CmapEvent::ConnectionCheckedIn(event) => {
            format!("checked in, {}", event.connection_id > 0)
        }
        CmapEvent::ConnectionCheckoutFailed(event) => format!("{:?}", event.reason),
        CmapEvent::PoolCleared(_) => "pool cleared".to_string(),
        CmapEvent::ConnectionClosed(_) | CmapEvent::PoolClosed(_) => return None,
        _ => "another event".to_string(),
    })
}

fn name_of_server_event(event: SdamEvent) -> Option<String> {
    Some(match event {
        SdamEvent::TopologyOpening(_) => "topology opening".to_string(),
        SdamEvent::TopologyDescriptionChanged(event) => {
            format!("topology changed, {}", event.topology_id.to_hex().len())
        }
        SdamEvent::ServerOpening(event) => {
            format!("server opening, {}", !event.address.to_string().is_empty())
        }
        SdamEvent::ServerDescriptionChanged(event) => match event.new_description.server_type() {
            ServerType::RsPrimary => {
                let server = &event.new_description;
                let [address, changed] = [server.address().to_string(), event.address.to_string()];
                format!(
                    "primary of {:?}, {} {}",
                    server.replica_set_name(),
                    server.max_wire_version() > server.min_wire_version(),
                    address == changed
                )
            }
            _ => return None,
        },
        SdamEvent::ServerHeartbeatStarted(_) => "heartbeat started".to_string(),
        SdamEvent::ServerHeartbeatSucceeded(event) => {
            let ServerHeartbeatSucceededEvent { reply, .. } = event;
            format!("heartbeat succeeded, {:?}", reply.get_f64("ok"))
        }
        _ => return None,
    })
}

pub(super) async fn warm_pools(uri: &str) -> Result<()> {
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let mut options = ClientOptions::parse(uri).await?;
    options.min_pool_size = Some(1);
    options.max_pool_size = Some(1);
    let to = seen.clone();
    options.cmap_event_handler = Some(EventHandler::callback(move |event| {
        to.lock().unwrap().extend(name_of_pool_event(event));
    }));
    let to = seen.clone();
    options.sdam_event_handler = Some(EventHandler::callback(move |event| {
        to.lock().unwrap().extend(name_of_server_event(event));
    }));
    let client = Client::with_options(options)?;
    let db = client.database("admin");
    db.run_command(doc! { "ping": 1 }).await?;
    client.warm_connection_pool().await;
    // The only connection to the primary is checked in before it is checked out again.
    db.run_command(doc! { "ping": 1 }).await?;
    client.shutdown().await;
    for name in seen.lock().unwrap().iter() {
        println!("{name}");
    }
    Ok(())
}
