//! What the sockets of all runtimes have in common: options, and the system's errors.

use rustix::{
    fd::AsFd,
    io::Errno,
    net::{AddressFamily, SocketType, socket, sockopt},
};
use std::{error::Error, io, time::Duration};

/// Time without traffic after which a TCP connection is probed.
pub const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(120);

/// Time between two probes that are not answered.
pub const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// Probes that are not answered, after which the connection counts as broken.
pub const KEEP_ALIVE_PROBES: u32 = 9;

/// Makes the system probe a TCP connection that is silent, so that an operation without a time
/// limit ends where the path to its server is dead. A runtime calls it for each socket that it
/// connects.
///
/// Where the system's own values are shorter than these, they stay. An option that the system does
/// not know is left out: a connection without it is better than none.
pub fn keep_alive(socket: impl AsFd) {
    let _ = sockopt::set_socket_keepalive(&socket, true);
    if sockopt::tcp_keepidle(&socket).is_ok_and(|idle| idle > KEEP_ALIVE_IDLE) {
        let _ = sockopt::set_tcp_keepidle(&socket, KEEP_ALIVE_IDLE);
    }
    if sockopt::tcp_keepintvl(&socket).is_ok_and(|interval| interval > KEEP_ALIVE_INTERVAL) {
        let _ = sockopt::set_tcp_keepintvl(&socket, KEEP_ALIVE_INTERVAL);
    }
    if sockopt::tcp_keepcnt(&socket).is_ok_and(|probes| probes > KEEP_ALIVE_PROBES) {
        let _ = sockopt::set_tcp_keepcnt(&socket, KEEP_ALIVE_PROBES);
    }
}

/// Returns the system's number of an error, also where a runtime has wrapped the error.
pub(crate) fn code_of(error: &io::Error) -> Option<i32> {
    let own = error.raw_os_error();
    let inner = || error.get_ref().and_then(|inner| code_in(inner));
    own.or_else(inner)
}

fn code_in(error: &(dyn Error + 'static)) -> Option<i32> {
    match error.downcast_ref::<io::Error>() {
        Some(error) => code_of(error),
        None => error.source().and_then(code_in),
    }
}

/// True for the numbers of errors that tell of a lack in this process or this system: of
/// descriptors, or of memory for sockets.
pub(crate) fn is_lack(code: i32) -> bool {
    [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM]
        .into_iter()
        .any(|errno| errno.raw_os_error() == code)
}

/// True if a socket can be made at this moment.
pub(crate) fn has_descriptor() -> bool {
    !socket(AddressFamily::INET, SocketType::DGRAM, None)
        .is_err_and(|errno| is_lack(errno.raw_os_error()))
}
