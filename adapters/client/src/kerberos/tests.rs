//! Tests without a key distribution center. `tests/tests/peers_kerberos.rs` has the others.

use super::*;
use CanonicalizeHostName::{Forward, ForwardAndReverse};

#[test]
fn localhost_has_a_canonical_name() {
    // `forward` and `forwardAndReverse` (AUTH-71).
    let library = SystemKerberos::default();
    for mode in [Forward, ForwardAndReverse] {
        let name = library.canonical_name("localhost", mode);
        assert!(name.as_ref().is_ok_and(|name| !name.is_empty()), "{name:?}");
    }
}

#[test]
fn a_host_without_addresses_has_no_canonical_name() {
    // The error lets the core use the given name (AUTH-72).
    let library = SystemKerberos::default();
    for mode in [Forward, ForwardAndReverse] {
        assert!(library.canonical_name("host.invalid", mode).is_err());
        assert!(library.canonical_name("zero\0byte", mode).is_err());
    }
}
