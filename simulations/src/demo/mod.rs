//! The demonstration: many tasks write and read while the deployment fails over.

mod load;
mod narrator;
mod report;

pub use load::Pace;
pub use report::{Report, Verdict};

use crate::serve::{Embedded, ServeOptions};
use load::Load;
use narrator::Narrator;
use onionskin::{Client, Error, Runtime};
use std::{
    io::{self, Write as _},
    time::Duration,
};

/// The options of a demonstration.
#[derive(Clone, Debug)]
pub struct DemoOptions {
    /// The connection string of a deployment of the user. With `None`, an embedded replica set of
    /// three members is started. During the load, the primary steps down, and later a member is
    /// killed and restarted. The load writes to a new collection in the database `onionskin_demo`,
    /// and drops the collection at the end.
    pub uri: Option<String>,
    /// The number of concurrent tasks. Default: 32.
    pub tasks: usize,
    /// The duration of the load. Default: 10 s.
    pub duration: Duration,
}

impl Default for DemoOptions {
    fn default() -> Self {
        Self {
            uri: None,
            tasks: 32,
            duration: Duration::from_secs(10),
        }
    }
}

/// Runs the demonstration on `runtime`, and prints events and the report to standard output. `name`
/// is the name of the runtime in this output.
///
/// The report has the number of acknowledged writes and of those that were lost.
pub async fn run<R: Runtime>(
    runtime: impl Fn() -> R,
    name: &str,
    options: &DemoOptions,
) -> Result<Report, Error> {
    let deployment = match &options.uri {
        Some(_) => None,
        None => Some(start_deployment()?),
    };
    let uri = match (&options.uri, &deployment) {
        (Some(uri), _) => uri.clone(),
        (None, Some(deployment)) => deployment.uri().to_owned(),
        (None, None) => String::new(),
    };
    let narrator = Narrator::start();
    narrator.print(&format!(
        "runtime {name}; {} tasks write and read",
        options.tasks
    ));
    if deployment.is_some() {
        narrator.print(&format!(
            "an embedded replica set of three members listens: {uri}"
        ));
    }
    let client: Client<R> = Client::builder_from_uri(runtime(), &uri)?
        .event_listener(narrator.listener())
        .build()?;
    client
        .database("admin")
        .run_command(onionskin::bson::doc! { "ping": 1 })
        .timeout(Duration::from_secs(10))
        .await?;
    let collection = load::collection_name();
    narrator.print(&format!(
        "connected; the load begins. It writes to the collection {}.{collection}, which is dropped \
         at the end",
        load::DATABASE
    ));
    let clock = runtime();
    let load = Load::start(&client, runtime, options, collection);
    match &deployment {
        Some(deployment) => {
            disturb(&clock, deployment, &narrator, options.duration).await;
        }
        None => clock.sleep(options.duration).await,
    }
    let report = load.finish(&client, &narrator).await?;
    narrator.print("closing the client");
    client.shutdown().await;
    let mut out = io::stdout().lock();
    let _ = write!(out, "{report}");
    let _ = out.flush();
    Ok(report)
}

fn start_deployment() -> Result<Embedded, Error> {
    let mut options = ServeOptions::replica_set("demo", 3);
    options.seed = 1;
    Embedded::start(options)
        .map_err(|error| Error::argument(format!("the embedded deployment did not start: {error}")))
}

/// Makes the primary step down at a fifth of `duration`. Kills the primary, or member 0 if there is
/// no primary, at half of `duration`, and restarts the killed member at four fifths.
async fn disturb<R: Runtime>(
    clock: &R,
    deployment: &Embedded,
    narrator: &Narrator,
    duration: Duration,
) {
    clock.sleep(duration / 5).await;
    narrator.print(">>> the primary is told to step down");
    if !deployment.step_down() {
        narrator.print(">>> there was no primary to step down");
    }
    clock.sleep(duration * 3 / 10).await;
    let primary = deployment.status().and_then(|status| status.primary);
    let victim = primary.unwrap_or(0);
    narrator.print(&format!(">>> member {victim}, the primary, is killed"));
    deployment.kill(victim);
    clock.sleep(duration * 3 / 10).await;
    narrator.print(&format!(">>> member {victim} is started again"));
    deployment.restart(victim);
    clock.sleep(duration / 5).await;
}
