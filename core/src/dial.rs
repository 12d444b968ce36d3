//! Dialling a host with several addresses: Happy Eyeballs (RFC 8305), as a state machine. And the
//! turns that limit how many hosts are looked up and dialled at once.

mod turns;

pub use turns::{TurnId, TurnLimits, Turns, UNANSWERED_AFTER};

use crate::{
    error::{Error, ErrorKind, IoError, NetworkFault},
    time::Instant,
};
use std::{collections::VecDeque, net::SocketAddr, time::Duration};

/// The time after which the next address is tried as well, if the attempts under way have neither
/// succeeded nor failed: 250 milliseconds (RFC 8305 section 8, Connection Attempt Delay).
pub const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// The maximum number of addresses of one host that are tried. Further addresses are ignored.
pub const MAX_ADDRESSES: usize = 64;

/// The maximum number of attempts under way at once. A host with more addresses that never answer
/// would occupy a socket for each of them.
pub const MAX_ATTEMPTS: usize = 6;

/// The attempts to connect to the addresses of one host. The first attempt that succeeds wins.
///
/// The caller connects to each address that [`poll`](Self::poll) returns. Earlier attempts go on,
/// but at most [`MAX_ATTEMPTS`] at once: the caller then ends the oldest one. The caller reports
/// each failure by [`handle_failed`](Self::handle_failed). At [`deadline`](Self::deadline) it polls
/// again. When an attempt succeeds, the caller drops the others and this value. The client limits
/// the whole dial by `connectTimeoutMS`.
///
/// ```
/// use onionskin_core::{dial::{ATTEMPT_DELAY, Dial}, time::Instant};
///
/// let addresses = ["192.0.2.1:27017", "192.0.2.2:27017", "[2001:db8::1]:27017"];
/// let mut dial = Dial::new(addresses.iter().map(|text| text.parse().unwrap()));
/// let now = Instant::ZERO;
/// assert_eq!(dial.poll(now), Some("192.0.2.1:27017".parse()?));
/// assert_eq!((dial.poll(now), dial.deadline()), (None, Some(now + ATTEMPT_DELAY)));
/// // The families of addresses alternate.
/// assert_eq!(dial.poll(now + ATTEMPT_DELAY), Some("[2001:db8::1]:27017".parse()?));
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Dial {
    /// The addresses that were not tried yet, in the order in which they are tried.
    untried: VecDeque<SocketAddr>,
    /// The number of attempts under way.
    running: usize,
    /// The time at which the next address is tried although attempts are under way. `None` before
    /// the first attempt and after a failure: the next address is tried at once.
    next: Option<Instant>,
    /// The error to report if all attempts fail.
    failure: Option<Error>,
}

impl Dial {
    /// Creates the dial of a host with these addresses, in the order in which the resolver returned
    /// them. The families of addresses alternate, beginning with that of the first address
    /// (RFC 8305 section 4).
    #[must_use]
    pub fn new(addresses: impl IntoIterator<Item = SocketAddr>) -> Self {
        let addresses: Vec<SocketAddr> = addresses.into_iter().collect();
        let is_first_family = addresses.first().map(SocketAddr::is_ipv4);
        let (first, second): (VecDeque<_>, VecDeque<_>) = addresses
            .into_iter()
            .partition(|address| Some(address.is_ipv4()) == is_first_family);
        let mut untried = alternate(first, second);
        untried.truncate(MAX_ADDRESSES);
        Self {
            untried,
            running: 0,
            next: None,
            failure: None,
        }
    }

    /// Returns the next address to connect to; `None` if none is due at `now`. Call this until it
    /// returns `None`. If [`MAX_ATTEMPTS`] are under way, the caller ends the oldest one without
    /// reporting it.
    pub fn poll(&mut self, now: Instant) -> Option<SocketAddr> {
        if self.running > 0 && self.next.is_some_and(|next| now < next) {
            return None;
        }
        let address = self.untried.pop_front()?;
        self.running = MAX_ATTEMPTS.min(self.running + 1);
        self.next = Some(now + ATTEMPT_DELAY);
        Some(address)
    }

    /// Returns the time at which [`poll`](Self::poll) returns the next address; `None` if no
    /// address is left, or if the next address is due now.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.next.filter(|_| !self.untried.is_empty())
    }

    /// Handles the failure of an attempt. The next address is due at once (RFC 8305 section 5).
    pub fn handle_failed(&mut self, error: Error) {
        self.running = self.running.saturating_sub(1);
        self.next = None;
        // The error of another address says more about the host than a shortage of sockets in this
        // process.
        if self.failure.is_none() || !is_out_of_sockets(&error) {
            self.failure = Some(error);
        }
    }

    /// Returns the error of the dial once all attempts have failed; `None` before. A host without
    /// addresses fails at once.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        let is_over = self.running == 0 && self.untried.is_empty();
        is_over.then(|| {
            self.failure.clone().unwrap_or_else(|| {
                Error::network(NetworkFault::NotResolved, "the host name has no address")
            })
        })
    }
}

/// Returns the elements of both lists, alternately, beginning with the first list.
fn alternate(
    mut first: VecDeque<SocketAddr>,
    mut second: VecDeque<SocketAddr>,
) -> VecDeque<SocketAddr> {
    let mut all = VecDeque::with_capacity(first.len() + second.len());
    while !first.is_empty() || !second.is_empty() {
        all.extend(first.pop_front());
        all.extend(second.pop_front());
    }
    all
}

fn is_out_of_sockets(error: &Error) -> bool {
    let fault = NetworkFault::OutOfSockets;
    matches!(error.kind(), ErrorKind::Io(IoError { fault: f, .. }) if *f == fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dial_of(hosts: &[&str]) -> Dial {
        let address = |host: &&str| SocketAddr::new(host.parse().expect("an address"), 27017);
        Dial::new(hosts.iter().map(address))
    }

    fn poll(dial: &mut Dial, millis: u64) -> Option<String> {
        let now = Instant::ZERO + Duration::from_millis(millis);
        dial.poll(now).map(|address| address.ip().to_string())
    }

    fn refused(text: &str) -> Error {
        Error::network(NetworkFault::Refused, text)
    }

    #[test]
    fn families_alternate_and_begin_with_that_of_the_first_address() {
        for (hosts, expected) in [
            (
                &["::1", "::2", "10.0.0.1"][..],
                &["::1", "10.0.0.1", "::2"][..],
            ),
            (&["10.0.0.1", "10.0.0.2"], &["10.0.0.1", "10.0.0.2"]),
            (
                &["10.0.0.1", "::1", "::2", "::3"],
                &["10.0.0.1", "::1", "::2", "::3"],
            ),
        ] {
            let mut dial = dial_of(hosts);
            let tried = (0..).map_while(|turn| poll(&mut dial, turn * 250));
            assert_eq!(tried.collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn the_next_address_is_tried_after_the_delay_or_after_a_failure() {
        let mut dial = dial_of(&["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
        assert_eq!(poll(&mut dial, 0).as_deref(), Some("10.0.0.1"));
        assert_eq!(poll(&mut dial, 249), None);
        let deadline = Instant::ZERO + ATTEMPT_DELAY;
        assert_eq!(dial.deadline(), Some(deadline));
        assert_eq!(poll(&mut dial, 250).as_deref(), Some("10.0.0.2"));
        assert_eq!(poll(&mut dial, 260), None);
        // The failure of any attempt makes the next address due, although the other one runs.
        dial.handle_failed(refused("the first"));
        assert_eq!(poll(&mut dial, 260).as_deref(), Some("10.0.0.3"));
        assert_eq!((poll(&mut dial, 10_000), dial.deadline()), (None, None));
        assert!(dial.failure().is_none(), "two attempts are under way");
        dial.handle_failed(refused("the third"));
        assert!(dial.failure().is_none());
        dial.handle_failed(refused("the second"));
        assert_eq!(dial.failure(), Some(refused("the second")));
    }

    #[test]
    fn a_lack_of_sockets_is_reported_only_if_no_attempt_failed_otherwise() {
        let lack = || Error::network(NetworkFault::OutOfSockets, "too many open files");
        for errors in [[lack(), refused("x")], [refused("x"), lack()]] {
            let mut dial = dial_of(&["10.0.0.1", "10.0.0.2"]);
            for error in errors {
                assert!(poll(&mut dial, 0).is_some());
                dial.handle_failed(error);
            }
            assert_eq!(dial.failure(), Some(refused("x")));
        }
        let mut dial = dial_of(&["10.0.0.1"]);
        assert!(poll(&mut dial, 0).is_some());
        dial.handle_failed(lack());
        assert_eq!(dial.failure(), Some(lack()));
    }

    #[test]
    fn the_number_of_attempts_under_way_is_bounded() {
        let address = SocketAddr::from(([10, 0, 0, 1], 1));
        let mut dial = Dial::new(std::iter::repeat_n(address, 10));
        for number in 0..10 {
            assert!(poll(&mut dial, number * 250).is_some());
        }
        // The caller has ended four of the attempts.
        for _ in 0..MAX_ATTEMPTS {
            assert_eq!(dial.failure(), None);
            dial.handle_failed(refused("x"));
        }
        assert_eq!(dial.failure(), Some(refused("x")));
    }

    #[test]
    fn a_host_without_addresses_fails_and_the_number_of_addresses_is_bounded() {
        let failure = dial_of(&[]).failure().expect("a failure");
        assert!(failure.to_string().contains("has no address"), "{failure}");
        let address = SocketAddr::from(([10, 0, 0, 1], 1));
        let mut dial = Dial::new(std::iter::repeat_n(address, 100_000));
        let mut tried = 0;
        while dial.poll(Instant::ZERO).is_some() {
            tried += 1;
            dial.handle_failed(refused("x"));
        }
        assert_eq!(tried, MAX_ADDRESSES);
    }
}
