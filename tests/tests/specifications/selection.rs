//! The official tests of server selection and of max staleness (SEL-P7), run on `Selector`.

use onionskin_core::{
    address::Address,
    description::{
        ServerDescription, ServerId, ServerType, Tags, TopologyDescription, TopologyId,
        TopologyType,
    },
    options::{ReadMode, ReadPreference},
    random::Seed,
    time::{Instant, WallTime},
    unstable::selection::{Criteria, DEFAULT_LOCAL_THRESHOLD, Selector, in_window, suitable},
};
use onionskin_tests::{
    report::Suite,
    specifications::{TestFile, files},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// The default of `heartbeatFrequencyMS`.
const HEARTBEAT: Duration = Duration::from_secs(10);

type Outcome = Result<(), String>;

/// Runs the suite of server selection.
pub(crate) fn server_selection() {
    let mut suite = Suite::new("server-selection", &[]);
    let found = add(&mut suite, "server-selection/tests/server_selection", logic)
        & add(&mut suite, "server-selection/tests/in_window", frequencies);
    if found {
        suite.finish();
    }
}

pub(crate) fn max_staleness() {
    let mut suite = Suite::new("max-staleness", &[]);
    if add(&mut suite, "max-staleness/tests", logic) {
        suite.finish();
    }
}

fn add(suite: &mut Suite, folder: &str, test: fn(&Value) -> Outcome) -> bool {
    let Some(files) = files(folder) else {
        return false;
    };
    for TestFile { name, content, .. } in files {
        match content {
            Ok(content) => suite.case(&name, "", || test(&content)),
            Err(reason) => suite.unreadable(&name, &reason),
        }
    }
    true
}

/// Compares the suitable servers and the servers in the latency window with those in the file.
fn logic(file: &Value) -> Outcome {
    let wants_error = file["error"] == true;
    let criteria = if file["operation"] == "write" {
        Criteria::Writable
    } else {
        match read_preference(&file["read_preference"]) {
            Ok(preference) => Criteria::Readable(Arc::new(preference)),
            Err(_) if wants_error => return Ok(()),
            Err(error) => return Err(format!("the read preference was refused: {error}")),
        }
    };
    let heartbeat = file["heartbeatFrequencyMS"].as_u64();
    let heartbeat = heartbeat.map_or(HEARTBEAT, Duration::from_millis);
    let description = topology(&file["topology_description"]);
    let avoid: Vec<Address> = addresses(&file["deprioritized_servers"])
        .into_iter()
        .collect();
    let mut found = match suitable(&description, &criteria, heartbeat, &avoid) {
        Err(_) if wants_error => return Ok(()),
        Err(error) => return Err(format!("unexpected error: {error}")),
        Ok(_) if wants_error => return Err("no error".to_owned()),
        Ok(found) => found,
    };
    let names = |servers: &[&Arc<ServerDescription>]| -> BTreeSet<Address> {
        servers.iter().map(|s| s.address.clone()).collect()
    };
    same(
        "suitable",
        &names(&found),
        &addresses(&file["suitable_servers"]),
    )?;
    in_window(&mut found, DEFAULT_LOCAL_THRESHOLD);
    let window = addresses(&file["in_latency_window"]);
    same("in the window", &names(&found), &window)?;
    // The selector must choose every server of the window and no other one. All selections except
    // the first use the window that the selector cached.
    let random = Seed::new([3; 32]).random();
    let mut selector = Selector::new(DEFAULT_LOCAL_THRESHOLD, heartbeat, random);
    let mut chosen = BTreeSet::new();
    for _ in 0..200 {
        let id = selector
            .select(
                1,
                &description,
                |a| id_of(&description, a),
                &criteria,
                &avoid,
            )
            .map_err(|error| error.to_string())?;
        chosen.extend(id.map(|id| address_of(&description, id)));
    }
    same("chosen", &chosen, &window)
}

fn same(what: &str, found: &BTreeSet<Address>, wanted: &BTreeSet<Address>) -> Outcome {
    if found == wanted {
        return Ok(());
    }
    Err(format!("{what}: {found:?}, wanted {wanted:?}"))
}

/// Compares the frequency with which each server of the window is selected with that of the file.
/// The file also gives the number of operations that run on each server.
fn frequencies(file: &Value) -> Outcome {
    let description = topology(&file["topology_description"]);
    let nearest = ReadPreference::new(ReadMode::Nearest);
    let criteria = Criteria::Readable(Arc::new(nearest));
    let random = Seed::new([5; 32]).split("in_window").random();
    let mut selector = Selector::new(DEFAULT_LOCAL_THRESHOLD, HEARTBEAT, random);
    load(&mut selector, &description, &criteria, file);
    let iterations = file["iterations"].as_u64().expect("a number");
    let mut chosen: BTreeMap<Address, u64> = BTreeMap::new();
    for _ in 0..iterations {
        let id = selector
            .select(0, &description, |a| id_of(&description, a), &criteria, &[])
            .expect("compatible")
            .expect("some server suits");
        selector.finished(id);
        *chosen.entry(address_of(&description, id)).or_default() += 1;
    }
    let tolerance = file["outcome"]["tolerance"].as_f64().expect("a number");
    let expected = file["outcome"]["expected_frequencies"]
        .as_object()
        .expect("a map");
    for (address, wanted) in expected {
        let wanted = wanted.as_f64().expect("a number");
        let count = chosen.get(&address.parse().expect("an address")).copied();
        let found = count.unwrap_or(0) as f64 / iterations as f64;
        let exact = wanted == 0.0 || wanted == 1.0;
        let allowed = if exact { 0.0 } else { tolerance };
        if (found - wanted).abs() > allowed {
            return Err(format!("{address}: {found}, wanted {wanted} +- {allowed}"));
        }
    }
    Ok(())
}

/// Starts as many operations on each server as the file says. The selector gets a topology with
/// this server only, so that it selects the server.
fn load(
    selector: &mut Selector,
    description: &TopologyDescription,
    criteria: &Criteria,
    file: &Value,
) {
    for (version, state) in (1..).zip(file["mocked_topology_state"].as_array().expect("a list")) {
        let address: Address = state["address"]
            .as_str()
            .expect("text")
            .parse()
            .expect("address");
        let mut alone = description.clone();
        alone.servers.retain(|a, _| *a == address);
        for _ in 0..state["operation_count"].as_u64().expect("a number") {
            let id = selector.select(version, &alone, |a| id_of(description, a), criteria, &[]);
            assert!(matches!(id, Ok(Some(_))), "the only server is chosen");
        }
    }
}

fn id_of(description: &TopologyDescription, address: &Address) -> Option<ServerId> {
    let at = description.servers.keys().position(|a| a == address)?;
    Some(ServerId(at as u64))
}

fn address_of(description: &TopologyDescription, id: ServerId) -> Address {
    let mut keys = description.servers.keys();
    keys.nth(id.0 as usize).expect("a known server").clone()
}

fn addresses(list: &Value) -> BTreeSet<Address> {
    let servers = list.as_array().into_iter().flatten();
    servers.map(|s| server(s).address).collect()
}

fn topology(value: &Value) -> TopologyDescription {
    let id = TopologyId(bson::oid::ObjectId::from_bytes([1; 12]));
    let mut description = TopologyDescription::unknown(id);
    description.topology_type = [
        TopologyType::Single,
        TopologyType::ReplicaSetNoPrimary,
        TopologyType::ReplicaSetWithPrimary,
        TopologyType::Sharded,
        TopologyType::LoadBalanced,
        TopologyType::Unknown,
    ]
    .into_iter()
    .find(|t| value["type"] == t.name())
    .expect("a type of topology");
    for value in value["servers"].as_array().expect("a list of servers") {
        let server = server(value);
        description
            .servers
            .insert(server.address.clone(), Arc::new(server));
    }
    description
}

fn server(value: &Value) -> ServerDescription {
    let address = value["address"].as_str().expect("an address");
    let mut server = ServerDescription::unknown(address.parse().expect("an address"));
    server.server_type = [
        ServerType::Standalone,
        ServerType::Mongos,
        ServerType::PossiblePrimary,
        ServerType::RsPrimary,
        ServerType::RsSecondary,
        ServerType::RsArbiter,
        ServerType::RsOther,
        ServerType::RsGhost,
        ServerType::LoadBalancer,
        ServerType::Unknown,
    ]
    .into_iter()
    .find(|t| value["type"] == t.name())
    .expect("a type of server");
    server.round_trip_time = value["avg_rtt_ms"].as_u64().map(Duration::from_millis);
    server.max_wire_version = value["maxWireVersion"].as_i64().unwrap_or(21) as i32;
    let updated = value["lastUpdateTime"].as_u64();
    server.last_update_time = updated.map(|ms| Instant::from_nanos(ms * 1_000_000));
    let date = value["lastWrite"]["lastWriteDate"]["$numberLong"].as_str();
    server.last_write_date =
        date.map(|ms| WallTime::from_unix_millis(ms.parse().expect("milliseconds")));
    server.tags = tags(&value["tags"]);
    server
}

fn tags(value: &Value) -> Tags {
    let pairs = value.as_object().into_iter().flatten();
    pairs
        .map(|(name, tag)| {
            (
                name.clone(),
                tag.as_str().expect("a tag is text").to_owned(),
            )
        })
        .collect()
}

fn read_preference(value: &Value) -> Result<ReadPreference, onionskin_core::error::Error> {
    let mode = value["mode"].as_str().unwrap_or("Primary");
    let (first, rest) = mode.split_at(1);
    let mode = ReadMode::from_name(&format!("{}{rest}", first.to_lowercase()));
    let mut preference = ReadPreference::new(mode.expect("a mode"));
    if let Some(sets) = value["tag_sets"].as_array() {
        preference = preference.with_tag_sets(sets.iter().map(tags).collect())?;
    }
    if let Some(seconds) = value["maxStalenessSeconds"].as_i64()
        && let Ok(seconds) = u64::try_from(seconds)
    {
        preference = preference.with_max_staleness(Duration::from_secs(seconds))?;
    }
    Ok(preference)
}
