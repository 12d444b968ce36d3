//! A client announces the compressors that it was compiled with, and warns of the others.

use onionskin_core::{
    client::{Action, Client, ClientConfig},
    options::Compressor,
    random::Seed,
    time::Instant,
    uri::{ineffective_options, parse},
};

const URI: &str = "mongodb://localhost/?directConnection=true&compressors=zstd,zlib,snappy";

#[test]
fn a_client_announces_only_available_compressors() {
    // COMP-2, COMP-23.
    let options = parse(URI).expect("a connection string").options;
    let mut client = Client::new(ClientConfig::new(options, Seed::new([7; 32])).expect("options"));
    client.open(Instant::ZERO);
    let mut hello = None;
    while let Some(action) = client.poll_action() {
        match action {
            Action::Dial { socket, .. } => {
                let _ = client.handle_connected(Instant::ZERO, socket);
            }
            Action::Transmit { bytes, .. } => hello = Some(bytes),
            _ => {}
        }
    }
    let hello = hello.expect("a hello");
    let contains = |part: &[u8]| hello.windows(part.len()).any(|window| window == part);
    assert!(contains(b"compression\0"));
    for compressor in Compressor::ALL {
        let announced = contains(compressor.name().as_bytes());
        assert_eq!(announced, compressor.is_available(), "{compressor:?}");
    }
}

#[test]
fn a_compressor_that_is_not_available_causes_a_warning() {
    let options = parse(URI).expect("a connection string").options;
    let warnings = ineffective_options(&options);
    let texts: Vec<_> = warnings.iter().map(ToString::to_string).collect();
    for compressor in Compressor::ALL {
        let is_named = texts.iter().any(|text| text.contains(compressor.name()));
        assert_eq!(is_named, !compressor.is_available(), "{texts:?}");
    }
}
