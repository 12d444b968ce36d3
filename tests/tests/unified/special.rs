//! The operations of the object `testRunner`.

use super::{
    arm::Host,
    entities::{Entity, lock, string, sub},
    events,
    file::list,
    operations::{Answer, Done, Failure},
    stage::Stage,
    transactions,
};
use bson::{Bson, Document};
use onionskin_core::description::ServerType;
use std::{sync::Arc, time::Duration};

/// The longest time to wait for an event or a thread (Unified Test Format, *waitForEvent*).
const SOON: Duration = Duration::from_secs(10);

/// The limit in place of [`SOON`] on sockets, where time is real: a server may take ten seconds to
/// answer the hello of a monitor, and the machine may be busy.
const SOON_ON_SOCKETS: Duration = Duration::from_secs(15);

/// The time between two evaluations of a condition.
const PAUSE: Duration = Duration::from_millis(5);

/// The number of rounds of a loop, which the format leaves to a signal from outside.
const ROUNDS: u32 = 10;

pub(crate) async fn operate<R: Host>(
    stage: &Arc<Stage<R>>,
    name: &str,
    arguments: &Document,
) -> Done<R> {
    let text = |key| string(arguments, key);
    match name {
        "failPoint" => {
            let client = stage.entities.client(text("client")?)?;
            let command = sub(arguments, "failPoint");
            let fail_point = string(&command, "configureFailPoint")?.to_owned();
            // A fail point is one of a server, and the client may know some of them only.
            for host in 0..stage.new.place.hosts.len() {
                let own = stage
                    .new
                    .own(&format!("fail points of {host}"), Some(host))?;
                lock(&stage.fail_points).push((own, fail_point.clone()));
            }
            client.client.database("admin").run_command(command).await?;
        }
        "targetedFailPoint" => {
            transactions::targeted_fail_point(stage, arguments).await?;
        }
        "createEntities" => stage.create_all(arguments).await?,
        "wait" => {
            let millis = arguments
                .get("ms")
                .and_then(whole)
                .ok_or_else(|| "no ms".to_owned())?;
            stage.runtime.sleep(Duration::from_millis(millis)).await;
        }
        "waitForEvent" | "assertEventCount" => event_count(stage, name, arguments).await?,
        "assertNumberConnectionsCheckedOut" => {
            let client = stage.entities.client(text("client")?)?;
            let wanted = arguments.get("connections").and_then(whole);
            let found = client.client.counts().in_use as u64;
            if wanted != Some(found) {
                return Err(Failure::Runner(format!(
                    "{found} connections are checked out"
                )));
            }
        }
        "runOnThread" => run_on_thread(stage, text("thread")?, sub(arguments, "operation"))?,
        "waitForThread" => {
            let thread = stage.thread(text("thread")?)?;
            until(stage, "the thread", || !lock(&thread).is_busy).await?;
            if let Some(failure) = lock(&thread).failure.take() {
                return Err(Failure::Runner(failure));
            }
        }
        "loop" => repeat(stage, arguments).await?,
        "recordTopologyDescription" | "assertTopologyType" | "waitForPrimaryChange" => {
            topology(stage, name, arguments).await?;
        }
        _ if name.contains("Session") || name.contains("Lsid") => {
            session(stage, name, arguments).await?;
        }
        _ => existence(stage, name, arguments).await?,
    }
    Ok(Answer::Nothing)
}

pub(super) fn whole(value: &Bson) -> Option<u64> {
    match *value {
        Bson::Int32(n) => u64::try_from(n).ok(),
        Bson::Int64(n) => u64::try_from(n).ok(),
        _ => None,
    }
}

/// Waits until a condition holds. Fails after [`SOON`].
async fn until<R: Host>(
    stage: &Stage<R>,
    what: &str,
    mut holds: impl FnMut() -> bool + Send,
) -> Result<(), String> {
    let limit = if stage.on_sockets {
        SOON_ON_SOCKETS
    } else {
        SOON
    };
    let start = stage.runtime.now();
    while !holds() {
        if stage.runtime.now().saturating_sub(start) > limit {
            return Err(format!("waited in vain for {what}"));
        }
        stage.runtime.sleep(PAUSE).await;
    }
    Ok(())
}

async fn event_count<R: Host>(
    stage: &Stage<R>,
    name: &str,
    arguments: &Document,
) -> Result<(), String> {
    let client = stage.entities.client(string(arguments, "client")?)?;
    let event = sub(arguments, "event");
    let wanted = arguments
        .get("count")
        .and_then(whole)
        .ok_or("there is no count")?;
    let count = || {
        let seen = client.watch.events();
        let fitting = seen
            .iter()
            .filter(|seen| events::compare_event(&stage.entities, &event, seen).is_ok());
        fitting.count() as u64
    };
    if name == "waitForEvent" {
        return until(stage, &format!("{wanted} of {event}"), || count() >= wanted).await;
    }
    client.client.flush_events().await;
    match count() {
        found if found == wanted => Ok(()),
        found => Err(format!("{found} of {event} instead of {wanted}")),
    }
}

fn run_on_thread<R: Host>(
    stage: &Arc<Stage<R>>,
    name: &str,
    operation: Document,
) -> Result<(), String> {
    let thread = stage.thread(name)?;
    let mut state = lock(&thread);
    state.waiting.push_back(operation);
    if std::mem::replace(&mut state.is_busy, true) {
        return Ok(());
    }
    drop(state);
    let own = Arc::clone(stage);
    stage.runtime.spawn(async move {
        loop {
            let Some(operation) = lock(&thread).waiting.pop_front() else {
                break;
            };
            if let Err(failure) = own.step(&operation).await {
                lock(&thread).failure.get_or_insert(failure);
            }
        }
        lock(&thread).is_busy = false;
    });
    Ok(())
}

/// Runs the operations of a loop. Errors and failures are stored under the names that the loop has
/// for them. Without a name they end the loop.
async fn repeat<R: Host>(stage: &Arc<Stage<R>>, arguments: &Document) -> Result<(), String> {
    let stored = |key: &str| arguments.get_str(key).ok();
    let key = stored("storeErrorsAsEntity").or_else(|| stored("storeFailuresAsEntity"));
    let (mut rounds, mut successes) = (0_i64, 0_i64);
    let mut errors = Vec::new();
    'rounds: for _ in 0..ROUNDS {
        rounds += 1;
        for operation in list(arguments, "operations")? {
            match stage.step(&operation).await {
                Ok(()) => successes += 1,
                Err(why) if key.is_some() => {
                    errors.push(Bson::from(bson::doc! { "error": why, "time": 0.0 }));
                    continue 'rounds;
                }
                Err(why) => return Err(why),
            }
        }
    }
    if let Some(key) = key {
        stage.entities.set(key, errors.into());
    }
    if let Some(key) = stored("storeIterationsAsEntity") {
        stage.entities.set(key, rounds.into());
    }
    if let Some(key) = stored("storeSuccessesAsEntity") {
        stage.entities.set(key, successes.into());
    }
    Ok(())
}

async fn topology<R: Host>(
    stage: &Stage<R>,
    name: &str,
    arguments: &Document,
) -> Result<(), String> {
    let described = |key| match stage.entities.get(string(arguments, key)?)? {
        Entity::Topology(topology) => Ok(topology),
        _ => Err(format!("{key} is no topology description")),
    };
    match name {
        "recordTopologyDescription" => {
            let client = stage.entities.client(string(arguments, "client")?)?;
            let topology = client.client.topology();
            stage
                .entities
                .add(string(arguments, "id")?, Entity::Topology(topology))
        }
        "assertTopologyType" => {
            let found = described("topologyDescription")?.topology_type.to_string();
            match string(arguments, "topologyType")? == found {
                true => Ok(()),
                false => Err(format!("the topology is {found}")),
            }
        }
        _ => {
            let client = stage.entities.client(string(arguments, "client")?)?;
            let primary = |topology: &onionskin_core::description::TopologyDescription| {
                let mut servers = topology.servers.iter();
                let primary = servers.find(|(_, s)| s.server_type == ServerType::RsPrimary);
                primary.map(|(address, _)| address.clone())
            };
            let prior = primary(&*described("priorTopologyDescription")?);
            until(stage, "another primary", || {
                let now = primary(&client.client.topology());
                now.is_some() && now != prior
            })
            .await
        }
    }
}

async fn session<R: Host>(
    stage: &Stage<R>,
    name: &str,
    arguments: &Document,
) -> Result<(), String> {
    match name {
        "assertSameLsidOnLastTwoCommands" | "assertDifferentLsidOnLastTwoCommands" => {
            let client = stage.entities.client(string(arguments, "client")?)?;
            client.client.flush_events().await;
            let seen = client.watch.events();
            let commands = events::commands(&seen);
            let [.., one, two] = commands.as_slice() else {
                return Err("there are no two commands".to_owned());
            };
            let (Some(one), Some(two)) = (one.get("lsid"), two.get("lsid")) else {
                return Err("one of them has no lsid".to_owned());
            };
            match (one == two) == name.contains("Same") {
                true => Ok(()),
                false => Err(format!("they have {one} and {two}")),
            }
        }
        "assertSessionPinned" | "assertSessionUnpinned" | "assertSessionTransactionState" => {
            transactions::assert(stage, name, arguments)
        }
        "assertSessionDirty" | "assertSessionNotDirty" => {
            let slot = stage.entities.session(string(arguments, "session")?)?;
            let is_dirty = slot.borrow()?.session().is_dirty();
            match is_dirty == (name == "assertSessionDirty") {
                true => Ok(()),
                false => Err(format!("dirty: {is_dirty}")),
            }
        }
        _ => Err(format!("the runner has no operation {name}")),
    }
}

/// Looks for collections and indexes, with a client of the runner.
async fn existence<R: Host>(
    stage: &Stage<R>,
    name: &str,
    arguments: &Document,
) -> Result<(), Failure> {
    let database = stage.own.database(string(arguments, "databaseName")?);
    let collection = string(arguments, "collectionName")?;
    let (what, found, wanted) = match name {
        "assertCollectionExists" | "assertCollectionNotExists" => {
            let names = database.list_collection_names().await?;
            (
                collection,
                names.iter().any(|n| n == collection),
                name == "assertCollectionExists",
            )
        }
        "assertIndexExists" | "assertIndexNotExists" => {
            let index = string(arguments, "indexName")?;
            let names = database
                .collection::<Document>(collection)
                .list_index_names()
                .await;
            let names = match names {
                // There are no indexes without a collection.
                Err(error) if error.code() == Some(26) => Vec::new(),
                names => names?,
            };
            (
                index,
                names.iter().any(|n| n == index),
                name == "assertIndexExists",
            )
        }
        _ => {
            return Err(Failure::Runner(format!(
                "the runner has no operation {name}"
            )));
        }
    };
    match found == wanted {
        true => Ok(()),
        false => Err(Failure::Runner(format!("{what} exists: {found}"))),
    }
}
