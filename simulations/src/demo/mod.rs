//! The demonstration: many tasks write and read while the deployment fails over.

mod load;
mod narrator;
mod report;

pub use load::Pace;
pub use report::{Report, Verdict};

use load::Load;
use narrator::Narrator;
use onionskin::{Client, Error, Runtime, recording::RecordingOptions};
use onionskin_serve::{Embedded, ServeOptions};
use onionskin_worlds::recorder::Recorder;
use std::{
    io::{self, Write as _},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Operations that succeed at once in less than this time are not in the picture of a
/// demonstration, which has tens of thousands of operations in each second.
const SLOW: Duration = Duration::from_millis(50);

/// How often the states of the members of the embedded replica set are recorded.
const RECORD_INTERVAL: Duration = Duration::from_millis(50);

/// How often the load looks whether it is to end early.
const STOP_INTERVAL: Duration = Duration::from_millis(100);

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
    /// True to record the client for [`Report::page`]. Default: false.
    pub keep_picture: bool,
    /// How the client is recorded, for [`Report::recording`]. `None` for no recording. Default:
    /// `None`.
    pub recording: Option<RecordingOptions>,
    /// Gets the recording of the client if the demonstration fails and so has no report. Default:
    /// empty.
    pub failed: Arc<OnceLock<Vec<u8>>>,
    /// Once this is true, the load on a deployment of the user ends early. Default: false.
    pub stop: Arc<AtomicBool>,
}

impl Default for DemoOptions {
    fn default() -> Self {
        Self {
            uri: None,
            tasks: 32,
            duration: Duration::from_secs(10),
            keep_picture: false,
            recording: None,
            failed: Arc::default(),
            stop: Arc::default(),
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
    let recorder = options
        .keep_picture
        .then(|| Recorder::of_slow_operations(SLOW));
    let narrator = Narrator::start(recorder.clone());
    narrator.print(&format!(
        "runtime {name}; {} tasks write and read",
        options.tasks
    ));
    if deployment.is_some() {
        narrator.print(&format!(
            "an embedded replica set of three members listens: {uri}"
        ));
    }
    let client = client(runtime(), &uri, &narrator, recorder.as_ref(), options)?;
    let recorded = client.clone();
    let clock = runtime();
    let scene = deployment.as_ref().map(|deployment| Scene {
        clock: &clock,
        deployment,
        narrator: &narrator,
        recorder: recorder.as_ref(),
    });
    let result = load_client(&client, runtime, scene, &narrator, options).await;
    if result.is_err()
        && let Some(recording) = recorded.recording()
    {
        // It is the first one, unless the options are used twice.
        let _ = options.failed.set(recording);
    }
    let mut report = result?;
    narrator.print("closing the client");
    client.shutdown().await;
    report.recording = recorded.recording();
    report.page = recorder.map(|recorder| {
        let failure = (!report.is_sound()).then(|| report.verdict().to_string());
        let title = format!("demonstration on {name}");
        recorder.page(&title, failure.as_deref())
    });
    let mut out = io::stdout().lock();
    let _ = write!(out, "{report}");
    let _ = out.flush();
    Ok(report)
}

/// Reaches the deployment, runs the load, and disturbs an embedded deployment meanwhile.
async fn load_client<R: Runtime>(
    client: &Client<R>,
    runtime: impl Fn() -> R,
    scene: Option<Scene<'_, R>>,
    narrator: &Narrator,
    options: &DemoOptions,
) -> Result<Report, Error> {
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
    let load = Load::start(client, runtime, options, collection);
    match scene {
        Some(scene) => scene.disturb(options.duration).await,
        None => wait_for_stop(&clock, options).await,
    }
    load.finish(client, narrator).await
}

/// Returns a client whose events the narrator and the recorder get.
fn client<R: Runtime>(
    runtime: R,
    uri: &str,
    narrator: &Narrator,
    recorder: Option<&Recorder>,
    options: &DemoOptions,
) -> Result<Client<R>, Error> {
    let mut builder = Client::builder_from_uri(runtime, uri)?.event_listener(narrator.listener());
    if let Some(recorder) = recorder {
        builder = builder.event_listener(recorder.listener());
    }
    if let Some(recording) = options.recording {
        builder = builder.recording(recording);
    }
    builder.build()
}

/// Waits for the end of the load.
async fn wait_for_stop<R: Runtime>(clock: &R, options: &DemoOptions) {
    let end = clock.now() + options.duration;
    while !options.stop.load(Ordering::Relaxed) {
        let left = end.saturating_sub(clock.now());
        if left.is_zero() {
            return;
        }
        clock.sleep(left.min(STOP_INTERVAL)).await;
    }
}

fn start_deployment() -> Result<Embedded, Error> {
    let mut options = ServeOptions::replica_set("demo", 3);
    options.seed = 1;
    Embedded::start(options)
        .map_err(|error| Error::argument(format!("the embedded deployment did not start: {error}")))
}

/// The embedded replica set of a demonstration, with its narrator and its recorder.
struct Scene<'a, R> {
    clock: &'a R,
    deployment: &'a Embedded,
    narrator: &'a Narrator,
    recorder: Option<&'a Recorder>,
}

impl<R: Runtime> Scene<'_, R> {
    /// Makes the primary step down at a fifth of `duration`. Kills the primary, or member 0 if
    /// there is no primary, at half of `duration`, and restarts the killed member at four fifths.
    async fn disturb(&self, duration: Duration) {
        let Self {
            deployment,
            narrator,
            ..
        } = self;
        self.wait(duration / 5).await;
        narrator.announce("the primary is told to step down");
        if !deployment.step_down() {
            narrator.announce("there was no primary to step down");
        }
        self.wait(duration * 3 / 10).await;
        let primary = deployment.status().and_then(|status| status.primary);
        let victim = primary.unwrap_or(0);
        narrator.announce(&format!("member {victim}, the primary, is killed"));
        deployment.kill(victim);
        self.wait(duration * 3 / 10).await;
        narrator.announce(&format!("member {victim} is started again"));
        deployment.restart(victim);
        self.wait(duration / 5).await;
    }

    /// Waits, and meanwhile records the states of the members if there is a recorder.
    async fn wait(&self, duration: Duration) {
        let end = self.clock.now() + duration;
        loop {
            let left = end.saturating_sub(self.clock.now());
            if left.is_zero() {
                return;
            }
            let Some(recorder) = self.recorder else {
                return self.clock.sleep(left).await;
            };
            if let Some(status) = self.deployment.status() {
                let names = self.deployment.addresses().iter().map(ToString::to_string);
                for ((member, state), name) in status.members.iter().enumerate().zip(names) {
                    recorder.set_member(member, &name, *state);
                }
            }
            self.clock.sleep(left.min(RECORD_INTERVAL)).await;
        }
    }
}
