//! Tests of the program `onionskin check`.

use onionskin_deployment::deployment::User;
use onionskin_serve::{Embedded, ServeOptions};
use std::{
    io::Write as _,
    process::{Command, Output, Stdio},
};

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onionskin"));
    command.arg("check").args(arguments);
    command
}

fn text_of(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

#[test]
fn the_exit_code_is_that_of_the_failed_step() {
    let members = Embedded::start(ServeOptions::replica_set("rs0", 3)).expect("members");
    for runtime in ["tokio", "async-std", "smol", "blocking"] {
        let arguments = [members.uri(), "--runtime", runtime];
        let output = program(&arguments).output().expect("it runs");
        let text = text_of(&output);
        assert_eq!(output.status.code(), Some(0), "{runtime}: {text}");
        assert!(text.ends_with("ms).\n") && !text.contains('\x1b'), "{text}");
        assert!(
            text.contains("(0 failed, 0 with warnings"),
            "{runtime}: {text}"
        );
    }
    let deployment = Embedded::start(ServeOptions::standalone()).expect("a server");
    let uri = deployment.uri();
    for (uri, code) in [
        ("mongo://db".to_owned(), 10),
        ("mongodb://db.invalid/".to_owned(), 11),
        (format!("{uri}?tls=true"), 13),
        (uri.replace("mongodb://", "mongodb://user:pencil@"), 15),
        (format!("{uri}?replicaSet=rs"), 16),
    ] {
        let output = program(&[&uri]).output().expect("it runs");
        assert_eq!(
            output.status.code(),
            Some(code),
            "{uri}: {}",
            text_of(&output)
        );
        let output = program(&[&uri, "--json"]).output().expect("it runs");
        let json = text_of(&output);
        assert!(
            json.starts_with('{') && json.contains(&format!("\"exitCode\": {code}")),
            "{json}"
        );
    }
}

#[test]
fn a_connection_string_is_read_from_the_standard_input() {
    let mut options = ServeOptions::standalone();
    options.users.push(User::new("alice", "pencil"));
    let deployment = Embedded::start(options).expect("a server");
    let mut command = program(&["-", "--color", "always"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    let mut input = child.stdin.take().expect("a pipe");
    writeln!(
        input,
        "mongodb://alice:pencil@{}/",
        deployment.addresses()[0]
    )
    .expect("a pipe");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    let text = text_of(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(
        text.contains("\x1b[32mok") && !text.contains("pencil"),
        "{text}"
    );
}

#[test]
fn certificate_authorities_of_the_system_are_trusted() {
    let mut options = ServeOptions::standalone();
    options.tls = true;
    let deployment = Embedded::start(options).expect("a server");
    let directory = deployment.tls_directory().expect("it has certificates");
    let uri = format!(
        "mongodb://localhost:{}/?tls=true",
        deployment.addresses()[0].port()
    );
    let output = program(&[&uri]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(13), "{}", text_of(&output));
    let mut command = program(&[&uri]);
    command.env("SSL_CERT_FILE", directory.join("ca.pem"));
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    let mut command = program(&[&uri]);
    command.env("SSL_CERT_FILE", directory.join("missing.pem"));
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(13), "{}", text_of(&output));
    assert!(
        text_of(&output).contains("SSL_CERT_FILE"),
        "{}",
        text_of(&output)
    );
}

#[test]
fn a_closed_pipe_changes_no_exit_code() {
    let deployment = Embedded::start(ServeOptions::standalone()).expect("a server");
    let mut command = program(&[deployment.uri()]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    assert!(
        output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn odd_bytes_on_the_standard_input_are_no_connection_string() {
    for (bytes, code) in [(&b"\xff\xfe\n"[..], 2), (b"", 10), (b"\n", 10)] {
        let mut command = program(&["-"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it runs");
        let mut input = child.stdin.take().expect("a pipe");
        input.write_all(bytes).expect("a pipe");
        // Only an empty input has to end before the first line is complete.
        let kept = (!bytes.is_empty()).then_some(input);
        let output = child.wait_with_output().expect("it ends");
        drop(kept);
        assert_eq!(output.status.code(), Some(code), "{}", text_of(&output));
    }
}
