//! Tests of connecting to a server, and of failures to connect.

use super::{Host, client, end, find, impatient, ping, until, within};
use crate::conformance::server::{Server, answer};
use onionskin::Client;
use onionskin_core::error::{Error, ErrorKind, IoError, NetworkFault};

/// Returns the error in the description of the client's only server.
pub(crate) fn server_error<H: Host>(client: &Client<H::R>) -> Error {
    let topology = client.topology();
    let server = topology.servers.values().next().expect("one server");
    let error = server.error.clone().expect("an error");
    assert_eq!(error.server(), Some(&server.address), "{error}");
    error
}

/// Asserts that server selection fails in time and that its error names `address` and the reason.
/// Returns the error of the server description.
pub(crate) async fn expect_selection_error<H: Host>(client: &Client<H::R>, address: &str) -> Error {
    let limit = client.options().server_selection_timeout() + H::SLACK;
    let result = within::<H, _>(limit, "selection", ping(client)).await;
    let error = result.expect_err("there is no server");
    let is_selection = matches!(error.kind(), ErrorKind::ServerSelection { .. });
    assert!(is_selection, "{error}");
    let text = error.to_string();
    assert!(text.contains(address), "{text} does not name {address}");
    let cause = server_error::<H>(client);
    let reason = cause.kind().to_string();
    assert!(text.contains(&reason), "{text} does not say {reason}");
    cause
}

/// A client finds a server, runs two operations on it, and closes all sockets at shutdown.
pub async fn a_client_connects_runs_operations_and_closes_all_sockets<H: Host>() {
    let server = Server::plain::<H>();
    let client = client::<H>(&server.uri(""));
    ping(&client).await.expect("a reply");
    find(&client, 7).await.expect("a reply");
    assert_eq!(server.seen("ping").len(), 1);
    end::<H>(client, &server).await;
}

/// No process listens on the port, so connections are refused.
pub async fn a_refused_connection_is_reported_with_its_address<H: Host>() {
    let port = H::closed_port();
    let address = port.address().to_string();
    let uri = format!("mongodb://{address}/?{}", impatient::<H>(""));
    let client = client::<H>(&uri);
    let cause = expect_selection_error::<H>(&client, &address).await;
    let fault = NetworkFault::Refused;
    assert!(
        matches!(cause.kind(), ErrorKind::Io(IoError { fault: f, .. }) if *f == fault),
        "{cause}"
    );
    within::<H, _>(H::SLACK, "shutdown", client.shutdown()).await;
}

/// The connection is accepted, but no server answers on it.
pub async fn a_server_that_does_not_reply_causes_a_connect_timeout<H: Host>() {
    let listener = H::listener();
    let address = listener.address().to_string();
    let options = impatient::<H>("connectTimeoutMS=100");
    let client = client::<H>(&format!("mongodb://{address}/?{options}"));
    let cause = expect_selection_error::<H>(&client, &address).await;
    assert!(cause.is_timeout(), "{cause}");
    within::<H, _>(H::SLACK, "shutdown", client.shutdown()).await;
}

/// A label of a host name has at most 63 characters. The name in this test has a label of 64
/// characters, so it cannot be resolved.
pub async fn an_unresolvable_host_name_is_reported<H: Host>() {
    let host = "x".repeat(64) + ".invalid";
    let uri = format!("mongodb://{host}/?{}", impatient::<H>(""));
    let client = client::<H>(&uri);
    let cause = expect_selection_error::<H>(&client, &host).await;
    let fault = NetworkFault::NotResolved;
    assert!(
        matches!(cause.kind(), ErrorKind::Io(IoError { fault: f, .. }) if *f == fault),
        "{cause}"
    );
    within::<H, _>(H::SLACK, "shutdown", client.shutdown()).await;
}

/// `localhost` can have several addresses, and the server listens on only one of them.
pub async fn every_address_of_a_host_name_is_tried<H: Host>() {
    let server = Server::plain::<H>();
    let client = client::<H>(&format!("mongodb://localhost:{}/", server.port()));
    find(&client, 1).await.expect("a reply");
    end::<H>(client, &server).await;
}

/// A client can use a server on a Unix domain socket.
pub async fn a_client_connects_over_a_unix_socket<H: Host>() {
    let server = Server::unix(answer);
    let uri = server.uri("");
    let connected = client::<H>(&uri);
    for n in 0..10 {
        find(&connected, n).await.expect("a reply");
    }
    end::<H>(connected, &server).await;
    let address = server.address();
    drop(server);
    let client = client::<H>(&(uri + &impatient::<H>("")));
    expect_selection_error::<H>(&client, &address).await;
    within::<H, _>(H::SLACK, "shutdown", client.shutdown()).await;
}

/// A server that starts after its first check failed is found by a later check.
pub async fn a_server_that_starts_after_a_failed_check_is_found<H: Host>() {
    let port = H::closed_port();
    let address = port.address();
    let limit = H::LIMIT.as_millis();
    let uri = format!("mongodb://{address}/?connectTimeoutMS={limit}&heartbeatFrequencyMS=500");
    let client = client::<H>(&uri);
    until::<H>("the first failed check", || {
        client
            .topology()
            .servers
            .values()
            .any(|s| s.error.is_some())
    })
    .await;
    let server = Server::on(port);
    let result = within::<H, _>(H::WAIT_LIMIT, "the next check", ping(&client)).await;
    result.expect("a reply");
    end::<H>(client, &server).await;
}
