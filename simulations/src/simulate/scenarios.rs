//! The scenarios by name, and those in files.

use super::printable_lines;
use onionskin_worlds::world::Scenario;
use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

/// The largest size of a file with a scenario, in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

macro_rules! scenarios {
    ($($name:literal)*) => {
        /// The scenarios of the command: their names and texts.
        const SCENARIOS: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("../../scenarios/", $name, ".toml")))),*
        ];
    };
}

scenarios! {
    "abandoned-operations"
    "applications"
    "balancer"
    "broken-selectors"
    "calm"
    "cancelled"
    "changed-members"
    "cleared-pools"
    "closed-early"
    "crowded"
    "delayed-members"
    "ended-streams"
    "exhausted"
    "failed-resumes"
    "failing-names"
    "failover"
    "forced-configuration"
    "found-set"
    "frozen"
    "frozen-members"
    "full-servers"
    "initial-sync"
    "jumping-clocks"
    "lossy"
    "lost-checks"
    "many-clients"
    "mixed"
    "mixed-monitoring"
    "old-servers"
    "one-way"
    "overloaded"
    "partition"
    "pinned-cursors"
    "polling"
    "queue-timeouts"
    "reconfigured"
    "refused-commits"
    "refused-logins"
    "renamed"
    "repeated-replies"
    "restarts"
    "rolling-upgrade"
    "routers"
    "shards"
    "shedding"
    "short-limits"
    "slow-dials"
    "slow-members"
    "stale-members"
    "stale-replies"
    "starved-tasks"
    "unequal-members"
    "unlike-clients"
}

/// Returns the names of the scenarios, in alphabetical order, with their descriptions.
pub fn list() -> impl Iterator<Item = (&'static str, Scenario)> {
    let parsed = |(name, text): &(&'static str, &str)| {
        let scenario = parse(text).unwrap_or_else(|error| unreachable!("{name}: {error}"));
        (*name, scenario)
    };
    SCENARIOS.iter().map(parsed)
}

/// Reads a scenario from the text of a file in the form of TOML.
///
/// # Errors
///
/// A description of what is wrong with the text, which a terminal shows as it is.
pub fn parse(text: &str) -> Result<Scenario, String> {
    Scenario::from_toml(text).map_err(|error| printable_lines(&error.to_string()))
}

/// Returns the text of a file that describes a scenario.
#[must_use]
pub fn text(scenario: &Scenario) -> String {
    // Each value of a scenario has a form in TOML.
    let text = scenario.to_toml();
    text.unwrap_or_else(|error| unreachable!("{error}"))
}

/// Reads a file of text up to this size in bytes.
///
/// # Errors
///
/// The file cannot be read, is longer or is no text.
pub fn read(path: &Path, most: u64) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(most + 1).read_to_string(&mut text)?;
    match text.len() as u64 > most {
        true => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("the file is longer than {most} bytes"),
        )),
        false => Ok(text),
    }
}

/// Finds a scenario by its name, or reads the file at a path that ends with `.toml`.
///
/// # Errors
///
/// There is no such scenario, or the file cannot be read or is no scenario.
pub fn find(name: &str) -> io::Result<Scenario> {
    let wrong = |reason| io::Error::new(io::ErrorKind::InvalidInput, format!("{name}: {reason}"));
    let end = Path::new(name).extension();
    if end.is_some_and(|end| end.eq_ignore_ascii_case("toml")) {
        let text =
            read(Path::new(name), MAX_FILE_BYTES).map_err(|error| wrong(error.to_string()))?;
        return parse(&text).map_err(wrong);
    }
    match SCENARIOS.iter().find(|(known, _)| *known == name) {
        Some((_, text)) => parse(text).map_err(wrong),
        None => {
            let names: Vec<&str> = SCENARIOS.iter().map(|(name, _)| *name).collect();
            Err(wrong(format!(
                "there is no such scenario. The scenarios are {}; the name of a file ends with \
                 .toml",
                names.join(", ")
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onionskin_worlds::world::{Disaster, Scheduled, Span};
    use std::{collections::BTreeSet, fs, time::Duration};

    #[test]
    fn each_file_is_listed_and_describes_itself() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        let files = fs::read_dir(folder).expect("the folder");
        let files = files.map(|file| file.expect("a file").file_name().into_string());
        let files: BTreeSet<String> = files.map(|name| name.expect("text")).collect();
        let listed = list().map(|(name, scenario)| {
            assert!(!scenario.about.is_empty(), "{name}");
            format!("{name}.toml")
        });
        assert_eq!(listed.collect::<BTreeSet<String>>(), files);
    }

    #[test]
    fn the_text_of_a_scenario_is_read_as_the_same_scenario() {
        for (name, scenario) in list() {
            assert_eq!(parse(&text(&scenario)).as_ref(), Ok(&scenario), "{name}");
        }
        let mut scenario = Scenario::default();
        scenario.safety = Some(Span(Duration::from_secs(2)));
        scenario.members = Some(2);
        scenario.schedule = Some(vec![Scheduled {
            at: Span(Duration::from_millis(1_500)),
            event: Disaster::CutMembers { from: 0, to: 1 },
        }]);
        assert_eq!(parse(&text(&scenario)), Ok(scenario));
    }

    #[test]
    fn the_scenario_in_the_guide_is_one() {
        let guide = include_str!("../../../docs/simulation.md");
        let blocks = guide.split("```toml\n").skip(1);
        let mut texts = blocks.filter_map(|block| block.split("```").next());
        let mut scenario = |start: &str| {
            let text = texts.find(|text| text.starts_with(start));
            parse(text.expect("it is there")).expect("a scenario")
        };
        let events = scenario("about").schedule;
        assert_eq!(events.map(|events| events.len()), Some(3));
        let clients = scenario("clients").each_client;
        assert_eq!(clients.len(), 2);
        let expect = scenario("safety").expect.expect("a table");
        assert!(expect.succeeded.is_some() && expect.failed.is_some());
        assert!(expect.no_failures_after.is_some() && expect.writes_within.is_some());
    }

    #[test]
    fn wrong_expectations_are_refused_by_name() {
        for (wrong, reason) in [
            ("[expect]\nsucceed = 3", "unknown field `succeed`"),
            ("[expect]\nfailed = -1", "-1"),
            ("[expect]\nno-failures-after = \"5s\"", "needs `rates`"),
            (
                "[expect]\nno-failures-after = \"5s\"\n[rates]\nslow = 1",
                "needs `rates`",
            ),
            (
                "workload = \"applications\"\n[expect]\nwrites-within = \"5s\"",
                "the workload `marks`",
            ),
            (
                "disasters = 3\n[expect]\nwrites-within = \"5s\"",
                "`writes-within` needs `safety`",
            ),
            (
                "safety = \"9s\"\ndisasters = 0\n[expect]\nwrites-within = \"5s\"",
                "`writes-within` needs `safety`",
            ),
            (
                "safety = \"9s\"\n[expect]\nwrites-within = \"5s\"\n\
                 [[schedule]]\nat = \"5s\"\nevent = \"heal\"",
                "`writes-within` needs `safety`",
            ),
            (
                "[expect]\nwrites-within = \"1441min\"",
                "longer than 1440min",
            ),
        ] {
            let error = parse(wrong).expect_err(wrong);
            assert!(error.contains(reason), "{wrong}: {error}");
        }
    }

    const SET: &str = "shape = \"replica-set\"\nmembers = 3\nsafety = \"20s\"\n";

    /// Returns the text of a scheduled event.
    fn event(at: u32, event: &str) -> String {
        format!("[[schedule]]\nat = \"{at}s\"\nevent = {{ {event} }}\n")
    }

    /// Returns the text of the events of an upgrade.
    fn upgrade(version: &str) -> String {
        let upgrade = format!("upgrade = {{ member = 1, version = \"{version}\" }}");
        event(5, "kill = 1") + &event(6, &upgrade)
    }

    /// Returns the text of a scenario whose first member has these options.
    fn member(options: &str) -> String {
        format!("{SET}[[member-options]]\n{options}\n")
    }

    #[test]
    fn two_releases_that_follow_each_other_are_one_scenario() {
        for right in [
            format!("version = \"6.0\"\n{SET}{}", upgrade("7.0")),
            format!("{SET}{}", upgrade("8.0")),
            member("version = \"6.0\""),
            member("streaming = false"),
            format!(
                "version = \"4.2\"\n{SET}[[member-options]]\n[[member-options]]\n\
                 streaming = false\n{}",
                upgrade("4.4")
            ),
        ] {
            parse(&right).expect(&right);
        }
    }

    #[test]
    fn releases_without_effect_or_too_far_apart_are_refused_by_name() {
        let only = "upgrade = { member = 1, version = \"8.0\" }";
        for (wrong, reason) in [
            (member("version = \"6.1\""), "must be one of 4.2"),
            (member("version = \"5.0\""), "that follow each other"),
            (
                format!("version = \"4.2\"\n{}", member("streaming = false")),
                "before release 4.4",
            ),
            (
                "[[member-options]]\nversion = \"6.0\"".to_owned(),
                "of a replica set",
            ),
            (format!("{SET}{}", upgrade("7.1")), "must be one of 4.2"),
            (format!("{SET}{}", upgrade("8.2")), "that follow each other"),
            (format!("{SET}{}", upgrade("7.0")), "a later release"),
            (
                format!("safety = \"9s\"\n{}", upgrade("8.0")),
                "of a replica set",
            ),
            (
                format!("{SET}{}{}", upgrade("8.0"), event(9, only)),
                "has one `upgrade`",
            ),
            (
                format!("{SET}{}{}", event(5, "kill = 0"), event(6, only)),
                "needs a `kill` or `shut-down`",
            ),
            (
                format!(
                    "{SET}{}{}{}",
                    event(4, "kill = 1"),
                    event(5, "restart = 1"),
                    event(6, only)
                ),
                "needs a `kill` or `shut-down`",
            ),
            (
                format!(
                    "{SET}{}",
                    event(
                        5,
                        "reconfigure = { member = 1, options = { version = \"8.0\" } }"
                    )
                ),
                "cannot change `version`",
            ),
        ] {
            let error = parse(&wrong).expect_err(&wrong);
            assert!(error.contains(reason), "{wrong}: {error}");
        }
    }

    #[test]
    fn changes_of_members_without_effect_are_refused_by_name() {
        let change = |options: &str| {
            let change = format!("reconfigure = {{ member = 1, options = {{ {options} }} }}");
            format!("{SET}{}", event(5, &change))
        };
        let remove = event(5, "remove-member = 1");
        for right in [
            change("votes = false"),
            change("priority = 0, delay = \"5s\""),
            format!("{SET}{remove}{}", event(6, "add-member = 1")),
            format!("{SET}{}", event(5, "resync = 2")),
            format!(
                "{SET}{}",
                event(5, "force-configuration = { member = 1, remove = [0] }")
            ),
        ] {
            parse(&right).expect(&right);
        }
        for (wrong, reason) in [
            (
                format!("{SET}{}", event(5, "add-member = 3")),
                "`members = 4`",
            ),
            (
                format!("safety = \"9s\"\nmembers = 3\n{remove}"),
                "of a replica set",
            ),
            (
                format!("shape = \"sharded\"\nmembers = 3\nsafety = \"9s\"\n{remove}"),
                "have no configuration",
            ),
            (
                format!("version = \"5.0\"\n{SET}{remove}"),
                "before release 6.0",
            ),
            (change("arbiter = true"), "cannot change `arbiter`"),
            (change("absent = true"), "`remove-member` does"),
            (change("votes = false, priority = 1"), "(votes:0)"),
            (change("delay = \"5s\""), "when secondaryDelaySecs is used"),
            (
                member("priority = 0\ndelay = \"1500ms\""),
                "a whole number of seconds",
            ),
            (
                format!(
                    "{SET}{}",
                    event(5, "force-configuration = { member = 1, remove = [1] }")
                ),
                "other members than its own",
            ),
            (
                format!(
                    "shape = \"replica-set\"\nmembers = 2\nsafety = \"9s\"\n{}",
                    event(5, "resync = 0")
                ),
                "3 `members`",
            ),
        ] {
            let error = parse(&wrong).expect_err(&wrong);
            assert!(error.contains(reason), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_wrong_scenario_is_refused_by_name() {
        for (wrong, reason) in [
            ("tasks = 0", "`tasks`"),
            ("task = 1", "unknown field `task`"),
            ("srv = true", "`srv` needs `shape`"),
            (
                "srv = true\nshape = \"load-balanced\"",
                "`srv` needs `shape`",
            ),
            ("[[client]]\n[[client]]", "2 tables `client`"),
            ("[[client]]\nwork = \"reads\"", "unknown variant"),
            (
                "safety = \"9s\"\n[[schedule]]\nat = \"1s\"\nevent = \"silence-names\"",
                "`srv` have a name server",
            ),
            (
                "safety = \"9s\"\nsrv = true\nshape = \"sharded\"\n\
                 [[schedule]]\nat = \"1s\"\nevent = { list-members = [] }",
                "must list a member",
            ),
            ("safety = 5", "string"),
            ("safety = \"5 h\"", "`5 h` is no length of time"),
            ("safety = \"18446744074s\"", "no length of time"),
            ("min-latency = \"2s\"\nmax-latency = \"1s\"", "longer"),
            ("tasks = 1000000000", "from 1 to 1000"),
            ("workload = \"sales\"", "unknown variant"),
            ("workload = \"applications\"\nmembers = 1", "a standalone"),
            ("grace = \"1441min\"", "longer than 1440min"),
            ("election-timeout = \"9ms\"", "shorter than 10ms"),
            (
                "client-options = \"appname=x&tlsInsecure=true\"",
                "`tlsinsecure`",
            ),
            (
                "[[schedule]]\nat = \"1s\"\nevent = \"heal\"",
                "needs `safety`",
            ),
            (
                "safety = \"9s\"\n[[schedule]]\nat = \"1s\"\nevent = { kill = 1 }",
                "`members = 2`",
            ),
            (
                "safety = \"1s\"\n[[schedule]]\nat = \"1s\"\nevent = \"heal\"",
                "after the safety phase",
            ),
            (
                "safety = \"9s\"\n[[schedule]]\nat = \"1s\"\n\
                 event = { freeze = { client = 0, pause = \"69s\" } }",
                "end within",
            ),
            (
                "safety = \"9s\"\nshape = \"load-balanced\"\n\
                 [[schedule]]\nat = \"1s\"\nevent = \"step-down\"",
                "routers and services do not step down",
            ),
            (
                "safety = \"9s\"\nshape = \"sharded\"\nmembers = 2\n\
                 [[schedule]]\nat = \"1s\"\nevent = { cut-members = { from = 0, to = 1 } }",
                "do not hear each other",
            ),
            ("[[schedule]]\nat = \"1s\"\nevent = \"explode\"", "explode"),
            ("[rates]\nlose = 3", "unknown field `lose`"),
        ] {
            let error = parse(wrong).expect_err(wrong);
            assert!(error.contains(reason), "{wrong}: {error}");
        }
        let error = find("cslm").expect_err("it is misspelt");
        assert!(error.to_string().contains("calm, "), "{error}");
    }
}
