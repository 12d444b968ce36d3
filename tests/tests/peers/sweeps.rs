//! A sweep on many machines, as the guide of the simulation shows it.

use onionskin_tests::peers::{Scratch, onionskin_binary, parallel};
use std::{env, fs, os::unix::fs::symlink, path::Path, process::Command};

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
    // The command can have another name here.
    let program = onionskin_binary().expect("the command");
    symlink(program, folder.path().join("onionskin")).expect("a link");
    let tools = parallel.parent().expect("a folder");
    let path = env::var_os("PATH").unwrap_or_default();
    let path = [folder.path().as_os_str(), tools.as_os_str(), &path].join(":".as_ref());
    let output = Command::new("sh")
        .args(["-c", &example])
        .current_dir(folder.path())
        .env("HOME", folder.path())
        .env("PATH", path)
        .output()
        .expect("a shell");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{output:?}");
    assert!(text.contains("8 of 8 seeds, 0 failed"), "{text}");
}
