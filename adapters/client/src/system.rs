//! Functions of the system for all runtimes: socket options, the clock and errors.

pub use crate::threads::run_on_thread;
use onionskin_core::{
    error::{Error, NetworkFault},
    options::Kerberos,
};
#[cfg(target_os = "linux")]
use rustix::time::{ClockId, clock_gettime};
use rustix::{
    fd::AsFd,
    io::Errno,
    net::{AddressFamily, SocketType, socket, sockopt},
};
use std::{
    error::Error as StdError,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    sync::Arc,
    time::Duration,
};

/// The time without traffic after which the system probes a TCP connection.
pub const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(120);

/// The time between two unanswered probes.
pub const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// The number of unanswered probes after which the connection counts as broken.
pub const KEEP_ALIVE_PROBES: u32 = 9;

/// Enables TCP keep-alive probes. They detect the loss of the path to the server while an operation
/// waits for a reply. A runtime calls this for each TCP socket that it connects.
///
/// Settings of the system that do not exceed these constants stay unchanged. An option that the
/// system does not support is ignored.
///
/// ```no_run
/// use onionskin::system::keep_alive;
/// use std::net::TcpStream;
///
/// # fn connect() -> std::io::Result<TcpStream> {
/// let socket = TcpStream::connect("127.0.0.1:27017")?;
/// socket.set_nodelay(true)?;
/// keep_alive(&socket);
/// # Ok(socket)
/// # }
/// ```
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

/// Returns the time of the clock of [`std::time::Instant`], measured from a fixed start.
///
/// ```
/// use onionskin::system::monotonic_time;
///
/// let start = monotonic_time();
/// assert!(monotonic_time() >= start);
/// ```
#[cfg(target_os = "linux")]
#[must_use]
pub fn monotonic_time() -> Duration {
    // `Instant::elapsed` would also subtract the start, which costs as much as the reading.
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Returns the time of the clock of [`std::time::Instant`], measured from a fixed start.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub fn monotonic_time() -> Duration {
    static START: std::sync::LazyLock<std::time::Instant> =
        std::sync::LazyLock::new(std::time::Instant::now);
    START.elapsed()
}

/// Returns a UDP socket in non-blocking mode, on a random free port of this machine, that is
/// connected to `server`: from then on it receives only datagrams of this address. None of this
/// waits.
///
/// ```no_run
/// use onionskin::system::datagram_socket;
///
/// # fn ask(query: &[u8], server: std::net::SocketAddr) -> std::io::Result<()> {
/// let socket = datagram_socket(server)?;
/// socket.send(query)?;
/// # Ok(())
/// # }
/// ```
pub fn datagram_socket(server: SocketAddr) -> io::Result<UdpSocket> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(server)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Returns the GSSAPI library of the system, for one client. `None` without the Cargo feature
/// `gssapi`, and on systems other than Unix. Clients of this crate use it by themselves, unless
/// their options have another library.
///
/// ```
/// use onionskin::system::kerberos;
///
/// if kerberos().is_none() {
///     println!("this program has no GSSAPI");
/// }
/// ```
#[must_use]
pub fn kerberos() -> Option<Arc<dyn Kerberos>> {
    #[cfg(all(feature = "gssapi", unix))]
    {
        Some(Arc::new(crate::kerberos::SystemKerberos::default()))
    }
    #[cfg(not(all(feature = "gssapi", unix)))]
    {
        None
    }
}

/// Converts an error of a socket, for example of [`Runtime::connect`](crate::Runtime::connect), to
/// an error of the driver.
///
/// ```
/// use onionskin::system::socket_error;
/// use std::io;
///
/// let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
/// assert!(socket_error(&refused).is_network());
/// ```
#[must_use]
pub fn socket_error(error: &io::Error) -> Error {
    Error::network(fault_of(error), error.to_string())
}

/// Returns the way in which the network failed.
pub(crate) fn fault_of(error: &io::Error) -> NetworkFault {
    use io::ErrorKind as Kind;
    match error.kind() {
        _ if is_local(error) => NetworkFault::OutOfSockets,
        Kind::ConnectionRefused | Kind::NotFound => NetworkFault::Refused,
        Kind::ConnectionReset | Kind::ConnectionAborted | Kind::BrokenPipe => NetworkFault::Reset,
        Kind::UnexpectedEof => NetworkFault::Closed,
        Kind::HostUnreachable | Kind::NetworkUnreachable => NetworkFault::Unreachable,
        _ => NetworkFault::Other,
    }
}

/// True if this system lacks something for a socket: descriptors, memory, or a local port or
/// address. Such an error is unrelated to the load of the server (CMAP-46).
pub(crate) fn is_local(error: &io::Error) -> bool {
    let mut kinds = [io::ErrorKind::OutOfMemory, io::ErrorKind::AddrNotAvailable].into_iter();
    kinds.any(|kind| error.kind() == kind) || code_of(error).is_some_and(is_lack)
}

/// Returns the error code of the system, also if a runtime has wrapped the error.
fn code_of(error: &io::Error) -> Option<i32> {
    let own = error.raw_os_error();
    let inner = || error.get_ref().and_then(|inner| code_in(inner));
    own.or_else(inner)
}

fn code_in(error: &(dyn StdError + 'static)) -> Option<i32> {
    match error.downcast_ref::<io::Error>() {
        Some(error) => code_of(error),
        None => error.source().and_then(code_in),
    }
}

/// True for error codes that mean a shortage in this process or system: of file descriptors, or of
/// memory for sockets.
fn is_lack(code: i32) -> bool {
    [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM]
        .into_iter()
        .any(|errno| errno.raw_os_error() == code)
}

/// False if no socket can be created now, for lack of descriptors or memory.
pub(crate) fn has_descriptor() -> bool {
    !socket(AddressFamily::INET, SocketType::DGRAM, None)
        .is_err_and(|errno| is_lack(errno.raw_os_error()))
}
