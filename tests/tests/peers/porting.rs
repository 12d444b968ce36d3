//! Programs for the official driver that run with Onionskin after a change of their `use` lines.

use onionskin_tests::peers;
use std::{path::Path, process::Command, time::Duration};

/// The programs in `tests/peers/porting/src`.
const PROGRAMS: [&str; 5] = [
    "documentation",
    "synchronous",
    "service",
    "queue",
    "importer",
];

/// The time limit of one run of a program.
const RUN_TIMEOUT: Duration = Duration::from_secs(60);

fn output_of(binary: &Path, program: &str, uri: &str) -> String {
    let mut command = Command::new(binary);
    command.args([program, uri]);
    let output = peers::run(command, RUN_TIMEOUT).expect("the program runs");
    assert!(output.status.success(), "{program}: {output:?}");
    output.stdout
}

#[test]
fn the_programs_print_the_same_with_both_drivers() {
    let Some([official, ours]) = peers::porting_binaries() else {
        return;
    };
    let server = peers::serve(["--server-version", "8.0"]).expect("onionskin serve starts");
    for program in PROGRAMS {
        let expected = output_of(&official, program, server.uri());
        assert!(!expected.is_empty(), "{program}");
        assert_eq!(
            output_of(&ours, program, server.uri()),
            expected,
            "{program}"
        );
    }
}

/// Returns the lines with the feature `ours` that do not change an import. `driver.rs` has nothing
/// but imports.
fn other_places(source: &str) -> usize {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let pairs = lines.iter().zip(lines.iter().skip(1));
    let is_place = |(line, next): &(&&str, &&str)| {
        line.contains("cfg(feature = \"ours\")")
            && !next.starts_with("use ")
            && !next.starts_with("pub use ")
    };
    pairs.filter(is_place).count()
}

fn collect_sources(folder: &Path, sources: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("the programs are there") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => collect_sources(&path, sources),
            false => sources.push(std::fs::read_to_string(path).expect("a text")),
        }
    }
}

#[test]
fn the_programs_differ_only_in_imports() {
    let mut sources = Vec::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/porting/src");
    collect_sources(&folder, &mut sources);
    for source in sources {
        assert_eq!(
            source.matches("cfg(feature").count(),
            source.matches("#[cfg(feature = ").count(),
            "each place is an attribute"
        );
        assert_eq!(other_places(&source), 0, "another place than a `use` line");
    }
}
