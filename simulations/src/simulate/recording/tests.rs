//! Tests of recordings and replays.

use super::*;
use crate::simulate::{
    replay::{Goal, Outcome, Replay, Trouble, ending, member, time},
    run_with, scenarios,
};
use onionskin_core::time::Instant;
use onionskin_deployment::deployment::MemberState;
use std::{fs, io::Read, path::PathBuf, time::Duration};

/// A file that is removed at the end of a test.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Self {
        let name = format!("onionskin-{}-{name}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    /// Records a run of this seed.
    fn record(&self, seed: u64, way: Way) -> Scenario {
        let text = "safety = \"1s\"\nshape = \"replica-set\"\nmembers = 3\ntasks = 1";
        self.record_scenario(text, seed, way)
    }

    fn record_scenario(&self, text: &str, seed: u64, way: Way) -> Scenario {
        let scenario = scenarios::parse(text);
        let scenario = scenario.expect("a scenario");
        let file = File::create(&self.0).expect("a file");
        let heading = Heading::new("short", &scenario, way, seed);
        let mut writer = Writer::new(file, &heading).expect("written");
        let run = run_with(seed, way, &scenario, &mut writer).expect("it was not ended");
        writer.finish(&ending(&run)).expect("written");
        scenario
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let file = File::open(&self.0).expect("a file");
        let read = MultiGzDecoder::new(file).read_to_string(&mut text);
        read.expect("it is compressed text");
        text
    }

    fn rewrite(&self, text: &str) {
        let file = File::create(&self.0).expect("a file");
        let mut out = GzEncoder::new(file, Compression::fast());
        out.write_all(text.as_bytes()).expect("written");
        out.finish().expect("written");
    }

    /// Replays the recording. Returns the outcome and what was printed.
    fn replay(&self, goal: Goal, commands: Option<&str>) -> (Outcome, String) {
        let (outcome, printed) = self.try_replay(goal, commands);
        (outcome.expect("it can be replayed"), printed)
    }

    fn try_replay(&self, goal: Goal, commands: Option<&str>) -> (Result<Outcome, Trouble>, String) {
        let (reader, heading) = Reader::open(&self.0).expect("a recording");
        let (scenario, way) = heading.run().expect("known");
        let mut commands = commands.map(str::as_bytes);
        let commands = commands.as_mut().map(|bytes| bytes as &mut dyn io::BufRead);
        let mut out = Vec::new();
        let mut replay = Replay::new(reader, goal, commands, &mut out);
        let run = run_with(heading.seed, way, &scenario, &mut replay);
        let outcome = replay.finish(run);
        (outcome, String::from_utf8(out).expect("text"))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn a_recorded_run_is_repeated() {
    for way in [Way::Core, Way::Runtime] {
        let file = Temporary::new(&format!("same-{way}"));
        let scenario = file.record(7, way);
        let (_, heading) = Reader::open(&file.0).expect("a recording");
        assert_eq!(heading.run(), Ok((scenario, way)));
        let (outcome, printed) = file.replay(Goal::End, None);
        assert_eq!(outcome, Outcome::Same("succeeded".to_owned()));
        assert_eq!(printed, "");
        // The first lines are those of the client that is being made.
        assert!(
            file.text()
                .lines()
                .nth(1)
                .is_some_and(|line| line.contains("opening"))
        );
    }
}

#[test]
fn a_difference_is_shown_where_it_begins() {
    let file = Temporary::new("different");
    file.record(7, Way::Core);
    let text = file.text();
    let ended: Vec<&str> = text.lines().collect();
    let changed = ended[60].replace("0", "9") + "!";
    file.rewrite(&text.replacen(ended[60], &changed, 1));
    let (outcome, _) = file.replay(Goal::End, None);
    let Outcome::Different(how) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(how.starts_with("line 60 differs"), "{how}");
    assert!(how.ends_with(&format!("\n+{}", ended[60])), "{how}");
    // A recording of a longer run, of a shorter one, and of one that failed.
    let (lines, last) = text.trim_end().rsplit_once('\n').expect("many lines");
    let shorter = lines.rsplit_once('\n').expect("many lines").0;
    for (recorded, wanted) in [
        (
            format!("{lines}\n more\n{last}\n"),
            "the recorded one goes on",
        ),
        (
            format!("{shorter}\n{last}\n"),
            "- the recorded run succeeded",
        ),
        (format!("{lines}\n{{\"failure\":\"x\"}}\n"), "failed (x)"),
    ] {
        file.rewrite(&recorded);
        let (outcome, _) = file.replay(Goal::End, None);
        let Outcome::Different(how) = outcome else {
            panic!("{outcome:?}");
        };
        assert!(how.contains(wanted), "{how}");
    }
}

#[test]
fn a_replay_stops_where_it_is_told_to_and_shows_the_state() {
    let file = Temporary::new("session");
    file.record(7, Way::Core);
    let goal = Goal::Text("is ReplicaSetWithPrimary".to_owned());
    let (outcome, printed) = file.replay(goal, None);
    assert_eq!(outcome, Outcome::Stopped);
    for part in [
        "is ReplicaSetWithPrimary",
        "server 0: ",
        "pool of member",
        "sessions: ",
    ] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    let commands = "n 2\nn x\nt 5 h\nt 300ms\ns server\nb check started\nc\n?\nq\n";
    let (outcome, printed) = file.replay(Goal::Steps(1), Some(commands));
    assert_eq!(outcome, Outcome::Stopped);
    for part in [
        "`x` is not a number",
        "`5 h` is no length of time",
        "server 2: ",
        "s [TEXT]",
    ] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    assert!(
        !printed.contains("pool of"),
        "only servers were wanted: {printed}"
    );
    // The end of the commands ends the replay.
    let (outcome, _) = file.replay(Goal::Steps(1), Some("n\n"));
    assert_eq!(outcome, Outcome::Stopped);
    let (outcome, _) = file.replay(Goal::Steps(1), Some("c\n"));
    assert_eq!(outcome, Outcome::Stopped, "it asks at the end");
}

/// A replica set whose first member, the primary, is killed and starts again.
const KILLED: &str = r#"
shape = "replica-set"
members = 3
tasks = 1
safety = "20s"

[rates]

[[schedule]]
at = "2s"
event = { kill = 0 }

[[schedule]]
at = "9s"
event = { restart = 0 }
"#;

#[test]
fn a_replay_ends_at_the_state_of_a_member() {
    for way in [Way::Core, Way::Runtime] {
        let file = Temporary::new(&format!("member-{way}"));
        file.record_scenario(KILLED, 7, way);
        let (outcome, printed) = file.replay(Goal::Member(0, MemberState::Down), None);
        assert_eq!(outcome, Outcome::Stopped);
        assert!(printed.contains("member 0 is killed"), "{printed}");
        assert!(printed.contains("\nserver 0: Down\n"), "{printed}");
        // The end of the run is shown if the goal is not reached.
        let goal = Goal::Member(0, MemberState::Router);
        assert_eq!(goal.missed().as_deref(), Some("member 0 is never router"));
        let (outcome, printed) = file.replay(goal, None);
        assert!(matches!(outcome, Outcome::Same(_)), "{outcome:?}");
        assert!(printed.contains("\nserver 0: "), "{printed}");
    }
}

#[test]
fn a_member_that_does_not_exist_is_refused() {
    let file = Temporary::new("no-member");
    file.record_scenario(KILLED, 7, Way::Core);
    let (outcome, _) = file.try_replay(Goal::Member(77, MemberState::Primary), None);
    assert!(matches!(outcome, Err(Trouble::NoMember(77))), "{outcome:?}");
}

#[test]
fn a_breakpoint_is_where_a_member_comes_to_a_state() {
    let file = Temporary::new("breakpoint");
    file.record_scenario(KILLED, 7, Way::Core);
    let commands = "m 1=leader\nm 77=down\nm 0=down\nb\nc\ns server 0\nc\nd\nb\nq\n";
    let (outcome, printed) = file.replay(Goal::Steps(1), Some(commands));
    assert_eq!(outcome, Outcome::Stopped);
    assert!(printed.contains("`1=leader` is no state"), "{printed}");
    assert!(printed.contains("there is no member 77"), "{printed}");
    assert_eq!(printed.matches("0=down\n").count(), 1, "{printed}");
    let (_, stopped) = printed.split_once("member 0 is killed").expect("a stop");
    assert!(stopped.contains("server 0: Down\n"), "{stopped}");
    // The member stays in its state, and does not come to it again.
    assert!(stopped.contains("The run ends here."), "{stopped}");
}

#[test]
fn a_replay_ends_at_the_operation_with_a_number() {
    for way in [Way::Core, Way::Runtime] {
        let file = Temporary::new(&format!("operation-{way}"));
        file.record(7, way);
        let text = file.text();
        let is_start = |line: &&str| line.contains(" begins");
        let starts: Vec<&str> = text.lines().filter(is_start).map(str::trim).collect();
        assert!(starts.len() > 6, "{starts:?}");
        for number in [1, 5] {
            let goal = Goal::Operation(number as u64);
            let (outcome, printed) = file.replay(goal, None);
            assert_eq!(outcome, Outcome::Stopped);
            assert!(printed.contains(starts[number - 1]), "{printed}");
            // A step can have the starts of a few operations.
            assert!(!printed.contains(starts[starts.len() - 1]), "{printed}");
        }
        let goal = Goal::Operation(starts.len() as u64 + 1);
        assert!(goal.missed().is_some());
        let (outcome, _) = file.replay(goal, None);
        assert!(matches!(outcome, Outcome::Same(_)), "{outcome:?}");
    }
    let file = Temporary::new("operation-session");
    file.record(7, Way::Core);
    let (_, printed) = file.replay(Goal::Steps(1), Some("o 0\no x\no 3\nq\n"));
    assert!(printed.contains("`x` is not the number"), "{printed}");
    assert!(printed.contains(" begins "), "{printed}");
}

#[test]
fn states_of_members_are_read() {
    for state in MemberState::ALL {
        let text = format!("2={}", state.name());
        assert_eq!(member(&text), Ok((2, state)));
    }
    for wrong in [
        "",
        "2",
        "=primary",
        "2=",
        "-1=down",
        "2=Primary",
        "2=frozen",
    ] {
        let error = member(wrong).expect_err(wrong);
        assert!(error.contains("primary, secondary"), "{error}");
    }
}

#[test]
fn times_are_read_as_they_are_shown() {
    let at = |nanos| Ok(Instant::ZERO + Duration::from_nanos(nanos));
    assert_eq!(time("48.001180s"), at(48_001_180_000));
    assert_eq!(time("1.5s"), at(1_500_000_000));
    assert_eq!(time("1500ms"), at(1_500_000_000));
    for wrong in ["1.5", "1.x5s", "-1.5s", "1.0000000001s", "s", ".s", "5 h"] {
        assert!(time(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_file_that_is_no_recording_is_refused() {
    let file = Temporary::new("wrong");
    file.record(7, Way::Core);
    let text = file.text();
    let bytes = fs::read(&file.0).expect("a file");
    fs::write(&file.0, &bytes[..bytes.len() / 2]).expect("written");
    let (outcome, _) = file.try_replay(Goal::End, None);
    let Err(Trouble::Recording(error)) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(error.to_string().contains("cut off"), "{error}");
    // A damage that the checksum shows is no difference of the driver.
    let (middle, last) = (bytes.len() / 2, bytes.len() - 6);
    for damage in [last, middle] {
        let mut damaged = bytes.clone();
        damaged[damage] ^= 1;
        fs::write(&file.0, damaged).expect("written");
        let (outcome, _) = file.try_replay(Goal::End, None);
        assert!(matches!(outcome, Err(Trouble::Recording(_))), "{outcome:?}");
    }
    file.rewrite(&(text.clone() + " more\n"));
    let (outcome, _) = file.try_replay(Goal::End, None);
    assert!(matches!(outcome, Err(Trouble::Recording(_))), "{outcome:?}");
    fs::write(&file.0, "This text is not compressed.").expect("written");
    let error = Reader::open(&file.0).expect_err("it is no recording");
    assert!(error.to_string().contains("not a recording"), "{error}");
    file.rewrite(&text.replacen("\"format\":1", "\"format\":2", 1));
    let error = Reader::open(&file.0).expect_err("the format is new");
    assert!(error.to_string().contains("format 2"), "{error}");
    file.rewrite(&text.replacen("\"core\"", "\"none\"", 1));
    let (_, heading) = Reader::open(&file.0).expect("a recording");
    assert!(heading.run().is_err_and(|text| text.contains("`none`")));
    file.rewrite(&"x".repeat(2 * 1024 * 1024));
    assert!(Reader::open(&file.0).is_err_and(|e| e.to_string().contains("too long")));
}

#[test]
fn texts_of_an_altered_recording_are_shown_without_control_characters() {
    let file = Temporary::new("altered");
    file.record(7, Way::Core);
    let text = file.text();
    for (old, new) in [
        ("\"core\"", "\"\\u001b[2J\""),
        ("\"seed\"", "\"\\u001b[2J\""),
        ("tasks", "\\u001b[2J"),
    ] {
        file.rewrite(&text.replacen(old, new, 1));
        let reason = match Reader::open(&file.0) {
            Ok((_, heading)) => heading.run().expect_err("it was altered"),
            Err(error) => error.to_string(),
        };
        assert!(reason.contains("[2J"), "{reason:?}");
        assert!(!reason.contains('\u{1b}'), "{reason:?}");
    }
}
