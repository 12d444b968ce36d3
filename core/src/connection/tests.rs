//! How a young connection ends.

use super::{Connection, HandshakeOptions, Output, Purpose, closed_by_peer};
use crate::{
    address::Address,
    error::{Error, ErrorKind, NetworkFault},
    options::TlsOptions,
    random::Seed,
    time::Instant,
    tls::TlsContext,
};
use std::sync::Arc;

/// What a connection reports whose peer hangs up as soon as it was reached.
fn hung_up_on(tls: Option<TlsContext>) -> Error {
    let options = HandshakeOptions {
        tls,
        metadata: bson::RawDocumentBuf::new(),
        credential: None,
        legacy_hello: true,
        load_balanced: false,
        server_api: None,
        connect_timeout: None,
    };
    let address = Address::Tcp {
        host: "localhost".into(),
        port: 27017,
    };
    let now = Instant::from_nanos(0);
    let mut connection = Connection::new(now, address, Purpose::Monitor, Arc::new(options));
    connection.handle_connected(now, &mut Seed::new([0; 32]).random());
    connection.handle_failed(closed_by_peer());
    match connection.poll_output() {
        Some(Output::Failed { error, .. }) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_peer_that_hangs_up_early_is_suspected_of_wanting_tls_or_not_knowing_it() {
    let context = TlsContext::new(&TlsOptions::default()).expect("a context");
    for (tls, hint) in [
        (None, "does the server ask for TLS?"),
        (Some(context), "does the server speak TLS?"),
    ] {
        let error = hung_up_on(tls);
        assert!(error.to_string().contains(hint), "{error}");
        let is_closed = matches!(
            error.kind(),
            ErrorKind::Network {
                fault: NetworkFault::Closed,
                ..
            }
        );
        assert!(is_closed, "{error:?}");
    }
}
