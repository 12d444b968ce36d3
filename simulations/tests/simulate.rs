//! Tests of the program `onionskin simulate`.

use serde_json::Value;
use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Command, Output, Stdio},
    thread,
};

fn simulate(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onionskin"));
    command.arg("simulate").args(arguments);
    command.output().expect("it runs")
}

#[test]
fn an_interrupted_shard_is_seen_in_the_merged_verdict() {
    let scenario = file("cut.toml", SHORT);
    let scenario = scenario.to_str().expect("text");
    let shards = ["0/2", "1/2"].map(|shard| {
        let part = simulate(&[scenario, "--seeds", "0..2", "--json", "--shard", shard]);
        let mut verdict: Value = serde_json::from_slice(&part.stdout).expect("JSON");
        assert_eq!(verdict["interrupted"], false);
        verdict["interrupted"] = (shard == "1/2").into();
        let name = format!("cut-{}.json", &shard[..1]);
        file(&name, &verdict.to_string())
    });
    let [first, second] = shards.each_ref().map(|path| path.to_str().expect("text"));
    let merged = simulate(&["--merge", first, second]);
    assert_eq!(merged.status.code(), Some(130), "{}", text(&merged.stderr));
}

/// Sends SIGINT to a sweep after its first failure.
#[cfg(unix)]
#[test]
fn an_interrupted_sweep_ends_with_its_verdict() {
    let scenario = file("interrupted.toml", FAILING);
    let mut command = Command::new(env!("CARGO_BIN_EXE_onionskin"));
    command.arg("simulate").arg(scenario);
    command.args(["--seeds", "0..10000000", "--jobs", "1"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut sweep = command.spawn().expect("it runs");
    let errors = BufReader::new(sweep.stderr.take().expect("a pipe"));
    let mut lines = errors.lines();
    lines.next().expect("a failure").expect("text");
    let mut kill = Command::new("kill");
    kill.args(["-INT", &sweep.id().to_string()]);
    assert!(kill.status().expect("it runs").success());
    let rest = thread::spawn(move || lines.count());
    let output = sweep.wait_with_output().expect("it ends");
    rest.join().expect("no panic");
    assert_eq!(output.status.code(), Some(5), "liveness");
    let verdict = text(&output.stdout);
    assert!(verdict.contains(" of 10000000 seeds"), "{verdict}");
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

/// Writes a file into the folder for temporary files of tests.
fn file(name: &str, content: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, content).expect("a file");
    path
}

/// A scenario of one second.
const SHORT: &str = "members = 1\nclients = 1\ntasks = 1\nsafety = \"1s\"\n";

/// A scenario in which late operations fail: no selection succeeds within a millisecond.
const FAILING: &str = "members = 3\nclients = 1\ntasks = 2\nsafety = \"8s\"\ngrace = \"40s\"\n\
                       client-options = \"serverSelectionTimeoutMS=1\"\n\
                       [rates]\nslow = 100\nreset = 5\n";

#[test]
fn shards_on_several_machines_give_one_verdict() {
    let scenario = file("short.toml", SHORT);
    let scenario = scenario.to_str().expect("text");
    let whole = simulate(&[scenario, "--seeds", "0..7", "--json", "--jobs", "2"]);
    assert_eq!(whole.status.code(), Some(0), "{}", text(&whole.stderr));
    let mut merge = vec!["--json".to_owned(), "--merge".to_owned()];
    for place in 0..3 {
        let shard = format!("{place}/3");
        let part = simulate(&[scenario, "--seeds", "0..7", "--json", "--shard", &shard]);
        let path = file(&format!("verdict-{place}.json"), text(&part.stdout));
        merge.push(path.to_str().expect("text").to_owned());
    }
    let merge: Vec<&str> = merge.iter().map(String::as_str).collect();
    let merged = simulate(&merge);
    assert_eq!(merged.status.code(), Some(0), "{}", text(&merged.stderr));
    let [whole, merged] = [whole, merged].map(|output| {
        let mut verdict: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        // The number of the shards is what differs.
        let task = verdict["task"].as_object_mut().expect("an object");
        task.remove("shards").expect("a number");
        verdict["shards"].take();
        verdict
    });
    assert_eq!(merged, whole);
    for wrong in [&merge[..3], &[&merge[1..], &merge[2..3]].concat()] {
        let output = simulate(wrong);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    }
}

#[test]
fn a_failed_run_is_printed_with_its_replay_and_made_smaller() {
    let scenario = file("failing.toml", FAILING);
    let scenario = scenario.to_str().expect("text");
    let arguments = [scenario, "--seeds", "0..20", "--jobs", "1", "--shrink"];
    let output = simulate(&arguments);
    let (out, errors) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(5), "{out}{errors}");
    let replay = errors.lines().find_map(|line| line.split_once("simulate "));
    let replay: Vec<&str> = replay.expect("a replay").1.split(' ').collect();
    let again = simulate(&replay);
    assert_eq!(again.status.code(), Some(5));
    assert!(text(&again.stdout).contains("Liveness at"));
    // The whole standard output is the file of the smaller scenario.
    let title = out.strip_prefix("# core, seed ").expect("a title");
    assert!(out.contains("\n# replay: onionskin simulate FILE"), "{out}");
    let smaller = file("smaller.toml", out);
    let seed = title.split(':').next().expect("a seed");
    let again = simulate(&[smaller.to_str().expect("text"), "--seeds", seed]);
    assert_eq!(again.status.code(), Some(5), "{}", text(&again.stdout));
}

#[test]
fn a_recorded_run_is_replayed_and_a_wrong_recording_refused() {
    let scenario = file("recorded.toml", FAILING);
    let scenario = scenario.to_str().expect("text");
    let recording = file("recorded.rec", "");
    let recording = recording.to_str().expect("text");
    let recorded = simulate(&[scenario, "--seeds", "5", "--record", recording]);
    assert_eq!(
        recorded.status.code(),
        Some(5),
        "it fails as without a recording"
    );
    let replay = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_onionskin"));
        command.arg("replay").args(arguments).stdin(Stdio::null());
        command.output().expect("it runs")
    };
    let replayed = replay(&[recording]);
    assert_eq!(
        replayed.status.code(),
        Some(0),
        "{}",
        text(&replayed.stderr)
    );
    let said = text(&replayed.stdout);
    assert!(
        said.contains("seed 5, core: the run is the recorded one, and failed (Liveness"),
        "{said}"
    );
    let stopped = replay(&[recording, "--to", "50ms"]);
    assert!(
        text(&stopped.stdout).contains("\nclient 0: "),
        "{}",
        text(&stopped.stdout)
    );
    let stepped = replay(&[recording, "--step"]);
    assert_eq!(stepped.status.code(), Some(0), "without commands it ends");
    let found = replay(&[recording, "--find", "in no step"]);
    assert_eq!(found.status.code(), Some(1), "{}", text(&found.stdout));
    for (option, value, code) in [
        ("--operation", "1", 0),
        ("--operation", "999999", 1),
        ("--operation", "0", 2),
        ("--member", "0=leader", 2),
        ("--member", "99=primary", 2),
        ("--to", "5 h", 2),
    ] {
        let ended = replay(&[recording, option, value]);
        assert_eq!(ended.status.code(), Some(code), "{option} {value}");
    }
    assert_eq!(
        replay(&[recording, "--to", "5s", "--step"]).status.code(),
        Some(2)
    );
    let wrong = replay(&[scenario]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        text(&wrong.stderr).contains("not a recording"),
        "{}",
        text(&wrong.stderr)
    );
    for arguments in [
        &[scenario, "--seeds", "0..2", "--record", recording][..],
        &[scenario, "--seeds", "5", "--record", scenario],
        &[scenario, "--seeds", "5", "--record", "/nowhere/at/all"],
        &[scenario, "--seeds", "5", "--record", recording, "--trace"],
    ] {
        let refused = simulate(arguments);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn wrong_arguments_have_an_exit_code_of_their_own() {
    let odd = file("odd.toml", "tasks = 0\n");
    let odd = odd.to_str().expect("text");
    let unknown = file("unknown.toml", "client-options = \"bogus=1\"\n");
    let unknown = unknown.to_str().expect("text");
    let short = file("report.toml", SHORT);
    let short = short.to_str().expect("text");
    let of_callers = file("callers.toml", "client-options = \"timeoutMS=1\"\n");
    let of_callers = of_callers.to_str().expect("text");
    let always = file("always.toml", "[rates]\nreset = 1001\n");
    let always = always.to_str().expect("text");
    for (arguments, reason) in [
        (&["nothing"][..], "mixed, "),
        (&["calm", "--seconds", "0"], "--seconds"),
        (&["missing.toml"], "missing.toml"),
        (&[odd], "`tasks` must be from 1 to 1000"),
        (&["calm", "--seeds", "5..5"], "--seeds"),
        (&["calm", "--shard", "2/2"], "--shard"),
        (&["calm", "--trace"], "one seed"),
        (&["calm", "--list"], "--list"),
        (&[unknown], "bogus"),
        (&[of_callers], "timeoutms"),
        (&[always], "from 0 to 1000"),
        (&[short, "--report", short], "different files"),
        (&["--merge", odd], "odd.toml"),
        (&[], "SCENARIO"),
    ] {
        let output = simulate(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let errors = text(&output.stderr);
        assert!(errors.contains(reason), "{arguments:?}: {errors}");
    }
}

#[test]
fn events_without_effect_are_refused() {
    for (name, event) in [
        ("shard", "{ kill-shard = 0 }"),
        ("cut", "{ cut-members = { from = 1, to = 1 } }"),
        (
            "client",
            "{ cut-client = { client = 0, member = 0, up = false, down = false } }",
        ),
        ("logins", "\"expire-logins\""),
        ("failure", "{ fail-commands = { commands = [\"find\"] } }"),
        ("failures", "{ fail-commands = { code = 6 } }"),
        (
            "labels",
            "{ fail-commands = { commands = [\"find\"], labels = [], close = true } }",
        ),
        (
            "times",
            "{ fail-commands = { commands = [\"find\"], code = 6, times = 0 } }",
        ),
        (
            "name",
            "{ fail-commands = { commands = [\"inserts\"], code = 6 } }",
        ),
        (
            "both",
            "{ fail-commands = { commands = [\"find\"], code = 6, close = true } }",
        ),
        (
            "short",
            "{ fail-commands = { commands = [\"find\"], block = \"900us\" } }",
        ),
        (
            "success",
            "{ fail-commands = { commands = [\"find\"], code = 0 } }",
        ),
        (
            "place",
            "{ fail-commands = { commands = [\"find\"], code = 6, member = 3 } }",
        ),
    ] {
        let content = format!(
            "about = \"x\"\nsafety = \"9s\"\nmembers = 3\nauthentication = false\n\
             [[schedule]]\nat = \"1s\"\nevent = {event}\n"
        );
        let path = file(&format!("idle-{name}.toml"), &content);
        let output = simulate(&[path.to_str().expect("a path"), "--seeds", "1"]);
        assert_eq!(output.status.code(), Some(2), "{event}: {output:?}");
    }
}

#[test]
fn a_shown_scenario_is_that_of_its_name() {
    let shown = simulate(&["--show", "frozen"]);
    let path = file("frozen-again.toml", text(&shown.stdout));
    let path = path.to_str().expect("text");
    let [named, shown] = ["frozen", path].map(|scenario| {
        let output = simulate(&[scenario, "--seeds", "3", "--json"]);
        text(&output.stdout).replace(path, "frozen")
    });
    assert_eq!(named, shown);
}

#[test]
fn each_scenario_holds_for_a_seed_with_the_core_alone() {
    try_each_scenario("core");
}

#[test]
fn each_scenario_holds_for_a_seed_with_the_async_client() {
    try_each_scenario("runtime");
}

fn try_each_scenario(way: &str) {
    let list = simulate(&["--list"]);
    for line in text(&list.stdout).lines() {
        let name = line.split(' ').next().expect("a name");
        let output = simulate(&[name, "--way", way, "--seeds", "5"]);
        let errors = text(&output.stderr);
        // The core alone has no sessions for the transactions of applications.
        let shown = simulate(&["--show", name]);
        let is_of_applications = text(&shown.stdout).contains("workload = \"applications\"");
        let expected = if is_of_applications && way == "core" {
            2
        } else {
            0
        };
        assert_eq!(
            output.status.code(),
            Some(expected),
            "{name} {way}: {errors}"
        );
    }
}

#[test]
fn the_history_of_a_run_has_its_transactions() {
    let file = format!("onionskin-simulate-{}.json", std::process::id());
    let path = std::env::temp_dir().join(file);
    let path = path.to_str().expect("it is UTF-8");
    let output = simulate(&["applications", "--seeds", "3", "--history", path]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let history = fs::read_to_string(path).expect("a history");
    let kinds: Vec<String> = history
        .lines()
        .map(|line| {
            let operation: Value = serde_json::from_str(line).expect("a line of JSON");
            operation["type"].as_str().expect("a type").to_owned()
        })
        .collect();
    for kind in ["invoke", "ok"] {
        assert!(kinds.iter().any(|found| found == kind), "{kinds:?}");
    }
    let none = simulate(&["calm", "--seeds", "3", "--history", path]);
    assert_eq!(none.status.code(), Some(2), "{none:?}");
    let both = ["--report", path, "--history", path];
    let both = simulate(&[&["applications", "--seeds", "3"][..], &both].concat());
    assert_eq!(both.status.code(), Some(2), "{both:?}");
    let kept = fs::read_to_string(path).expect("it is there");
    assert_eq!(kept, history, "nothing was written");
    fs::remove_file(path).expect("it is there");
}

/// Returns the title in the data of a page.
fn title(page: &str) -> &str {
    let (_, rest) = page.split_once("{\"title\":\"").expect("a title");
    rest.split_once('"').expect("its end").0
}

#[test]
fn a_report_shows_a_run_of_the_sweep() {
    let file = format!("onionskin-simulate-{}.html", std::process::id());
    let path = std::env::temp_dir().join(file);
    let path = path.to_str().expect("it is UTF-8");
    let report = ["--report", path];
    for (arguments, expected) in [
        (&["calm", "--seeds", "7"][..], "calm, seed 7, core"),
        (&["calm", "--seeds", "7", "--trace"], "calm, seed 7, core"),
        (
            &["calm", "--seeds", "0..3", "--shard", "2/3"],
            "calm, seed 2, core",
        ),
        (
            &["calm", "--seeds", "4", "--way", "runtime"],
            "calm, seed 4, runtime",
        ),
    ] {
        let output = simulate(&[arguments, &report].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains(&format!("report: {path}")));
        let page = fs::read_to_string(path).expect("a page");
        assert_eq!(title(&page), expected);
    }
    fs::remove_file(path).expect("it is there");
}

#[test]
fn a_report_that_cannot_be_written_does_not_hide_the_verdict() {
    let output = simulate(&["calm", "--seeds", "1", "--report", "/nowhere/x.html"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stdout), "", "no run has begun");
    let empty = ["calm", "--seeds", "0..1", "--shard", "3/7"];
    let path = std::env::temp_dir().join(format!("onionskin-empty-{}.html", std::process::id()));
    let report = ["--report", path.to_str().expect("it is UTF-8")];
    let output = simulate(&[&empty[..], &report].concat());
    assert!(text(&output.stderr).contains("there is no report: no seed has run"));
    fs::remove_file(path).expect("it is there");
    if cfg!(target_os = "linux") {
        let output = simulate(&["calm", "--seeds", "1", "--report", "/dev/full"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains("there is no report: /dev/full"));
        assert!(text(&output.stdout).contains("1 of 1 seeds"), "{output:?}");
    }
}

#[test]
fn a_violated_expectation_is_printed_with_its_replay() {
    for way in ["core", "runtime"] {
        for (least, code) in [("1", 0), ("1000000", 5)] {
            let content = format!("{SHORT}[expect]\nsucceeded = {least}\n");
            let scenario = file(&format!("expected-{way}-{least}.toml"), &content);
            let scenario = scenario.to_str().expect("text");
            let output = simulate(&[scenario, "--seeds", "4..6", "--way", way]);
            let errors = text(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{way} {least}: {errors}");
            if code == 0 {
                continue;
            }
            assert!(errors.contains("and not 1000000 or more"), "{errors}");
            let replay = errors.lines().find_map(|line| line.split_once("simulate "));
            let replay: Vec<&str> = replay.expect("a replay").1.split(' ').collect();
            let again = simulate(&replay);
            assert_eq!(again.status.code(), Some(code));
            assert!(text(&again.stdout).contains("Liveness at"));
        }
    }
    let shown = simulate(&["--show", "many-clients"]);
    let shown = text(&shown.stdout);
    assert!(shown.contains("[expect]\nsucceeded = 100\n"), "{shown}");
}

#[test]
fn neither_threads_nor_a_report_change_a_run() {
    let file = format!("onionskin-digest-{}.html", std::process::id());
    let path = std::env::temp_dir().join(file);
    let path = path.to_str().expect("it is UTF-8");
    for way in ["core", "runtime"] {
        let run = |options: &[&str]| {
            let output = simulate(&[&["failover", "--way", way][..], options].concat());
            assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
            text(&output.stdout).to_owned()
        };
        let digest = |options: &[&str]| {
            let verdict: Value = serde_json::from_str(&run(options)).expect("JSON");
            let digest = verdict["digest"].as_str().expect("a text").to_owned();
            assert_eq!(digest.len(), 64, "{digest}");
            digest
        };
        let sweep = ["--json", "--seeds", "0..4", "--jobs"];
        let one = digest(&[&sweep[..], &["1"]].concat());
        assert_eq!(one, digest(&[&sweep[..], &["2"]].concat()), "{way}");
        let reported = digest(&[&sweep[..], &["2", "--report", path]].concat());
        assert_eq!(one, reported, "{way}");
        // The run of the page itself is the same as well.
        let alone = digest(&["--json", "--seeds", "3"]);
        let shown = run(&["--seeds", "3", "--trace", "--report", path]);
        let found = format!("; trace {}", &alone[..16]);
        assert!(shown.contains(&found), "{way}: {found}");
    }
    fs::remove_file(path).expect("it is there");
}
