//! Judges the server of a selection by the rules of the specifications Server Selection and Max
//! Staleness, without the selection code of the driver. The topology description is the one that
//! the client had at the time of the selection.

use onionskin_core::{
    address::Address,
    description::{ServerDescription, ServerType, Tags, TopologyDescription, TopologyType},
    event::SelectionFacts,
    options::{ClientOptions, ReadMode},
};
use std::{collections::BTreeSet, time::Duration};

/// The constant `smallestMaxStalenessSeconds` of the specification.
const SMALLEST_MAX_STALENESS: Duration = Duration::from_secs(90);

/// The constant `idleWritePeriodMS` of the specification.
const IDLE_WRITE_PERIOD: Duration = Duration::from_secs(10);

/// The wire version from which on secondaries accept aggregations that write.
const WRITING_AGGREGATE_WIRE_VERSION: i32 = 13;

/// The end of the text of the criteria if a selector of the application can refuse servers.
pub(super) const NARROWED: &str = ", narrowed by the application";

type Servers<'a> = Vec<&'a ServerDescription>;

/// The options of a client on which server selection depends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    heartbeat_frequency: Duration,
    local_threshold: Duration,
}

impl Rules {
    pub(super) fn of(options: &ClientOptions) -> Self {
        Self {
            heartbeat_frequency: options.heartbeat_freq(),
            local_threshold: options.local_threshold(),
        }
    }

    /// Checks that the criteria permit the server at `address`, and that the server is in the
    /// latency window. The error is the reason why the server does not suit.
    ///
    /// `tried` has the servers of earlier attempts of the operation. A retry avoids some of them. A
    /// server that suits while the others in `tried` are there suits without them as well, so that
    /// the check leaves out all of them.
    pub(super) fn check(
        &self,
        facts: &SelectionFacts,
        address: &Address,
        tried: &BTreeSet<Address>,
    ) -> Result<(), String> {
        let topology = &*facts.topology;
        let Some(selected) = topology.servers.get(address) else {
            return Err(format!("{address} is not in the topology"));
        };
        let Some(wanted) = Wanted::read(&facts.selector, topology) else {
            return Err("the text of the criteria cannot be read".to_owned());
        };
        let smallest = SMALLEST_MAX_STALENESS.max(self.heartbeat_frequency + IDLE_WRITE_PERIOD);
        if topology.topology_type.is_replica_set()
            && wanted.max_staleness.is_some_and(|max| max < smallest)
        {
            return Err(format!("the maximum staleness is below {smallest:?}"));
        }
        let servers = topology.servers.values().map(|server| &**server);
        let servers = servers.filter(|s| s.address == *address || !tried.contains(&s.address));
        let suitable = self.suitable(topology, &wanted, servers.collect());
        if !suitable.iter().any(|server| server.address == *address) {
            let suitable: Vec<&Address> = suitable.iter().map(|server| &server.address).collect();
            return Err(format!("the criteria permit only {suitable:?}"));
        }
        let nearest = suitable.iter().filter_map(|s| s.round_trip_time).min();
        let (Some(own), Some(nearest)) = (selected.round_trip_time, nearest) else {
            return Ok(());
        };
        // The window begins at the nearest server that the application accepts, or that is not the
        // router of the transaction. Events do not tell that server.
        let ends_transaction =
            matches!(&*facts.operation, "commitTransaction" | "abortTransaction");
        let is_free = !wanted.is_narrowed && !ends_transaction;
        if is_free && own > nearest.saturating_add(self.local_threshold) {
            return Err(format!(
                "its round trip time {own:?} is outside of the latency window from {nearest:?}"
            ));
        }
        Ok(())
    }

    /// Returns those of the servers that the criteria permit, without regard to the latency window.
    fn suitable<'a>(
        &self,
        topology: &TopologyDescription,
        wanted: &Wanted,
        servers: Servers<'a>,
    ) -> Servers<'a> {
        let of = |server_type: ServerType| -> Servers<'a> {
            let servers = servers.iter().copied();
            servers.filter(|s| s.server_type == server_type).collect()
        };
        match topology.topology_type {
            TopologyType::Unknown => return Vec::new(),
            TopologyType::Single => {
                let servers = servers.iter().copied();
                return servers.filter(|s| s.server_type.is_available()).collect();
            }
            TopologyType::Sharded => return of(ServerType::Mongos),
            TopologyType::LoadBalanced => return of(ServerType::LoadBalancer),
            TopologyType::ReplicaSetWithPrimary | TopologyType::ReplicaSetNoPrimary => {}
        }
        let primaries = of(ServerType::RsPrimary);
        let secondaries = of(ServerType::RsSecondary);
        let eligible = |servers: Servers<'a>| {
            wanted.tagged(self.fresh(topology, wanted.max_staleness, servers))
        };
        let or = |first: Servers<'a>, second: Servers<'a>| match first.is_empty() {
            true => second,
            false => first,
        };
        match wanted.mode {
            ReadMode::Primary => primaries,
            ReadMode::PrimaryPreferred => or(primaries, eligible(secondaries)),
            ReadMode::Secondary => eligible(secondaries),
            ReadMode::SecondaryPreferred => or(eligible(secondaries), primaries),
            ReadMode::Nearest => eligible([primaries, secondaries].concat()),
        }
    }

    /// Returns the servers without the secondaries whose estimated staleness is greater than
    /// `max_staleness`.
    fn fresh<'a>(
        &self,
        topology: &TopologyDescription,
        max_staleness: Option<Duration>,
        mut servers: Servers<'a>,
    ) -> Servers<'a> {
        let Some(max) = max_staleness else {
            return servers;
        };
        let of = |server_type: ServerType| {
            let servers = topology.servers.values();
            servers.filter(move |server| server.server_type == server_type)
        };
        let primary = of(ServerType::RsPrimary).next();
        let newest = of(ServerType::RsSecondary).map(|s| written(s)).max();
        servers.retain(|server| {
            let behind = match primary {
                Some(primary) => {
                    (updated(server) - written(server)) - (updated(primary) - written(primary))
                }
                None => newest.unwrap_or_default() - written(server),
            };
            server.server_type != ServerType::RsSecondary
                || behind + nanos(self.heartbeat_frequency) <= nanos(max)
        });
        servers
    }
}

/// The criteria of a selection. The default are those of a write.
#[derive(Clone, Debug, Default, PartialEq)]
struct Wanted {
    mode: ReadMode,
    tag_sets: Vec<Tags>,
    max_staleness: Option<Duration>,
    /// True if a selector of the application can refuse servers.
    is_narrowed: bool,
}

impl Wanted {
    /// Reads the criteria from their text in an event. `None` if the text has another form.
    fn read(selector: &str, topology: &TopologyDescription) -> Option<Self> {
        let narrowed = selector.strip_suffix(NARROWED);
        let text = narrowed.unwrap_or(selector);
        let mut wanted = match text.strip_prefix("writing aggregation with ") {
            Some(_) if needs_primary_to_write(topology) => Self::default(),
            Some(preference) => Self::of_read(preference)?,
            None if text == "writable server" => Self::default(),
            None => Self::of_read(text)?,
        };
        wanted.is_narrowed = narrowed.is_some();
        Some(wanted)
    }

    fn of_read(text: &str) -> Option<Self> {
        let text = text.strip_prefix("read preference { mode: ")?;
        let text = text.strip_suffix(" }")?;
        let (tag_sets, rest) = match text.split_once(", tagSets: ") {
            None => (Vec::new(), text),
            Some((_, sets)) => {
                // The names and values of tags are quoted as in JSON. Other parts can follow.
                let mut values = serde_json::Deserializer::from_str(sets).into_iter::<Vec<Tags>>();
                let tag_sets = values.next()?.ok()?;
                (tag_sets, sets.get(values.byte_offset()..)?)
            }
        };
        let part = |name: &str| rest.split_once(name).map(|(_, part)| part);
        let max_staleness = match part(", maxStalenessSeconds: ") {
            None => None,
            Some(rest) => Some(Duration::from_secs(rest.split(',').next()?.parse().ok()?)),
        };
        Some(Self {
            mode: ReadMode::from_name(text.split(',').next()?)?,
            tag_sets,
            max_staleness,
            is_narrowed: false,
        })
    }

    /// Returns the servers that match the first tag set that matches any of them.
    fn tagged<'a>(&self, servers: Servers<'a>) -> Servers<'a> {
        if self.tag_sets.is_empty() {
            return servers;
        }
        let of = |set: &Tags| -> Servers<'a> {
            let has = |server: &ServerDescription| {
                set.iter()
                    .all(|(name, value)| server.tags.get(name) == Some(value))
            };
            servers.iter().copied().filter(|s| has(s)).collect()
        };
        let mut matches = self.tag_sets.iter().map(of);
        matches.find(|found| !found.is_empty()).unwrap_or_default()
    }
}

/// True if an aggregation that writes runs on the primary, because a server is too old.
fn needs_primary_to_write(topology: &TopologyDescription) -> bool {
    topology.topology_type != TopologyType::LoadBalanced
        && topology.servers.values().any(|server| {
            server.server_type.is_available()
                && server.max_wire_version < WRITING_AGGREGATE_WIRE_VERSION
        })
}

/// Returns the time of the last update of a description, in nanoseconds since the start of the
/// client's clock.
fn updated(server: &ServerDescription) -> i128 {
    let at = server.last_update_time;
    at.map_or(0, |at| i128::from(at.as_nanos()))
}

/// Returns the date of a server's last write, in nanoseconds since 1970.
fn written(server: &ServerDescription) -> i128 {
    let date = server.last_write_date;
    date.map_or(0, |date| i128::from(date.as_unix_millis()) * 1_000_000)
}

fn nanos(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::oid::ObjectId;
    use onionskin_core::{
        description::TopologyId,
        options::ReadPreference,
        time::{Instant, WallTime},
    };
    use std::sync::Arc;

    const RULES: Rules = Rules {
        heartbeat_frequency: Duration::from_secs(10),
        local_threshold: Duration::from_millis(15),
    };

    fn server(name: &str, server_type: ServerType) -> ServerDescription {
        let mut server = ServerDescription::unknown(Address::tcp(name, 1));
        server.server_type = server_type;
        server
    }

    /// A primary `a`, and two secondaries `b` and `c`.
    fn members() -> [ServerDescription; 3] {
        [
            server("a", ServerType::RsPrimary),
            server("b", ServerType::RsSecondary),
            server("c", ServerType::RsSecondary),
        ]
    }

    fn tags(place: &str) -> Tags {
        Tags::from([("dc".to_owned(), place.to_owned())])
    }

    /// Returns the hosts of the servers that the checker accepts.
    fn accepted(selector: &str, servers: &[ServerDescription], tried: &[&str]) -> String {
        let id = TopologyId(ObjectId::from_bytes([1; 12]));
        let mut topology = TopologyDescription::unknown(id);
        for server in servers {
            let known = Arc::new(server.clone());
            topology.servers.insert(server.address.clone(), known);
        }
        topology.topology_type = match topology.primary() {
            Some(_) => TopologyType::ReplicaSetWithPrimary,
            None => TopologyType::ReplicaSetNoPrimary,
        };
        let facts = SelectionFacts {
            operation: "find".into(),
            operation_id: 1,
            selector: selector.into(),
            topology: Arc::new(topology),
        };
        let tried: BTreeSet<Address> = tried.iter().map(|host| Address::tcp(host, 1)).collect();
        let hosts = servers.iter().map(|server| &server.address);
        let right = hosts.filter(|address| RULES.check(&facts, address, &tried).is_ok());
        right.map(|address| address.host().to_owned()).collect()
    }

    /// Returns the hosts of the servers that the checker accepts for a read.
    fn read(preference: &ReadPreference, servers: &[ServerDescription]) -> String {
        accepted(&format!("read preference {preference}"), servers, &[])
    }

    #[test]
    fn a_server_that_the_mode_excludes_is_found() {
        let all = members();
        for (mode, right, without_primary) in [
            (ReadMode::Primary, "a", ""),
            (ReadMode::PrimaryPreferred, "a", "bc"),
            (ReadMode::Secondary, "bc", "bc"),
            (ReadMode::SecondaryPreferred, "bc", "bc"),
            (ReadMode::Nearest, "abc", "bc"),
        ] {
            let preference = ReadPreference::new(mode);
            assert_eq!(read(&preference, &all), right, "{mode:?}");
            assert_eq!(read(&preference, &all[1..]), without_primary, "{mode:?}");
            assert_eq!(read(&preference, &[server("d", ServerType::RsOther)]), "");
        }
        assert_eq!(accepted("writable server", &all, &[]), "a");
        assert_eq!(accepted("writable server", &all[1..], &[]), "");
        assert_eq!(accepted("nearby", &all, &[]), "");
    }

    #[test]
    fn a_server_without_the_tags_is_found() {
        let mut all = members();
        for (server, place) in all.iter_mut().zip(["east", "east", "west"]) {
            server.tags = tags(place);
        }
        for (mode, sets, right) in [
            (ReadMode::Secondary, vec![tags("east"), Tags::new()], "b"),
            (ReadMode::Secondary, vec![tags("north"), Tags::new()], "bc"),
            (ReadMode::Secondary, vec![tags("north"), tags("west")], "c"),
            (ReadMode::Secondary, vec![tags("north")], ""),
            (ReadMode::SecondaryPreferred, vec![tags("north")], "a"),
            (ReadMode::PrimaryPreferred, vec![tags("west")], "a"),
            (ReadMode::Nearest, vec![tags("east")], "ab"),
        ] {
            let preference = ReadPreference::new(mode).with_tag_sets(sets);
            let preference = preference.expect("not the primary");
            assert_eq!(read(&preference, &all), right, "{preference}");
        }
    }

    #[test]
    fn a_server_that_is_too_stale_is_found() {
        let at = |server: &mut ServerDescription, updated, written| {
            server.last_update_time = Some(Instant::ZERO + Duration::from_secs(updated));
            server.last_write_date = Some(WallTime::from_unix_millis(written));
        };
        let mut all = members();
        at(&mut all[0], 101, 1_000_000);
        at(&mut all[1], 100, 919_000);
        at(&mut all[2], 100, 918_999);
        let within = |seconds, mode| {
            let max = Duration::from_secs(seconds);
            let preference = ReadPreference::new(mode).with_max_staleness(max);
            preference.expect("not the primary")
        };
        assert_eq!(read(&within(90, ReadMode::Secondary), &all), "b");
        assert_eq!(read(&within(91, ReadMode::Secondary), &all), "bc");
        assert_eq!(read(&within(90, ReadMode::Nearest), &all), "ab");
        assert_eq!(read(&within(89, ReadMode::Nearest), &all), "");
        // Without a primary, the most recent write of a secondary is the reference.
        at(&mut all[1], 200, 1_000_000);
        at(&mut all[2], 100, 920_000);
        assert_eq!(read(&within(90, ReadMode::Secondary), &all[1..]), "bc");
        at(&mut all[2], 100, 919_999);
        assert_eq!(read(&within(90, ReadMode::Secondary), &all[1..]), "b");
    }

    #[test]
    fn a_server_outside_of_the_latency_window_is_found() {
        let mut all = members();
        for (server, millis) in all.iter_mut().zip([10, 25, 26]) {
            server.round_trip_time = Some(Duration::from_millis(millis));
        }
        let nearest = ReadPreference::new(ReadMode::Nearest);
        assert_eq!(read(&nearest, &all), "ab");
        assert_eq!(read(&ReadPreference::new(ReadMode::Secondary), &all), "bc");
        let nearest = format!("read preference {nearest}");
        assert_eq!(accepted(&nearest, &all, &["a"]), "abc", "`a` is avoided");
        let narrowed = format!("{nearest}, narrowed by the application");
        assert_eq!(accepted(&narrowed, &all, &[]), "abc");
    }

    #[test]
    fn a_retry_may_use_a_server_of_the_other_type() {
        let all = members();
        let preferred = ReadPreference::new(ReadMode::SecondaryPreferred);
        let preferred = format!("read preference {preferred}");
        assert_eq!(accepted(&preferred, &all, &["b"]), "bc");
        assert_eq!(accepted(&preferred, &all, &["b", "c"]), "abc");
    }

    #[test]
    fn an_aggregation_writes_on_a_secondary_only_from_5_0_on() {
        let mut all = members();
        let secondary = "writing aggregation with read preference { mode: secondary }";
        assert_eq!(accepted(secondary, &all, &[]), "a");
        for server in &mut all {
            server.max_wire_version = WRITING_AGGREGATE_WIRE_VERSION;
        }
        assert_eq!(accepted(secondary, &all, &[]), "bc");
    }
}
