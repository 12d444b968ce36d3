//! A sweep on many machines, as the guide of the simulation shows it.

use onionskin_tests::peers::{Scratch, onionskin_binary, parallel};
use std::{env, ffi::OsString, fs, path::Path, process::Command};

/// The beginning of the example with GNU parallel.
const EXAMPLE: &str = "mkdir -p verdicts\nseq 0 3 | parallel";

/// The example runs as it is written, but with fewer seeds, and each shard on this machine.
#[test]
fn the_example_with_gnu_parallel_gives_one_verdict() {
    let Some(parallel) = parallel() else {
        return;
    };
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/simulation.md");
    let guide = fs::read_to_string(guide).expect("the guide");
    let start = guide.find(EXAMPLE).expect("the example");
    let (example, _) = guide[start..].split_once("```").expect("its end");
    let [machines, seeds] = [":,alpha,beta,gamma", "0..100000"];
    assert!(
        example.contains(machines) && example.contains(seeds),
        "{example}"
    );
    let example = example.replace(machines, ":").replace(seeds, "0..8");
    let folder = Scratch::new().expect("a directory");
    let program = onionskin_binary().expect("the command");
    let programs =
        [program.as_path(), &parallel].map(|program| program.parent().expect("a folder"));
    let path = env::var_os("PATH").unwrap_or_default();
    let path = programs.map(OsString::from).into_iter().chain(Some(path));
    let path: Vec<OsString> = path.collect();
    let output = Command::new("sh")
        .args(["-c", &example])
        .current_dir(folder.path())
        .env("HOME", folder.path())
        .env("PATH", path.join(&OsString::from(":")))
        .output()
        .expect("a shell");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{output:?}");
    assert!(text.contains("8 of 8 seeds, 0 failed"), "{text}");
}
