//! MIT's key distribution center, with two realms on one port of `127.0.0.1`.

use super::{
    START_TIMEOUT, Scratch, built, or_skip, print_line,
    process::{Output, Peer, Stream, run},
};
use crate::name_server;
use std::{
    fs, io,
    net::{SocketAddr, TcpListener, UdpSocket},
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    time::{Duration, Instant},
};

/// The realm of the users and of most services.
pub const REALM: &str = "ONION.TEST";

/// The realm of another service. Users of [`REALM`] can get tickets for its services.
pub const OTHER_REALM: &str = "PEEL.TEST";

/// The password of the user `ada`.
pub const PASSWORD: &str = "pencil";

/// The time limit of a tool of Kerberos, and of the end of the center.
const PATIENCE: Duration = Duration::from_secs(60);

/// The number of ports to try, because another process can take a free port.
const PORTS: usize = 5;

/// A key distribution center. It ends when it is dropped.
///
/// The realm [`REALM`] has the user `ada`, and the services `mongodb/127.0.0.1`,
/// `mongodb/localhost`, `mongodb/db.onion.test` and `custom/localhost`. The realm [`OTHER_REALM`]
/// has the service `mongodb/db.peel.test`. A keytab has the keys of all services.
#[derive(Debug)]
pub struct Kdc {
    /// The directory of the programs.
    programs: PathBuf,
    directory: Scratch,
    address: SocketAddr,
    peer: Option<Peer>,
}

/// Sockets that receive requests at the address of a center and answer none.
#[derive(Debug)]
pub struct SilentKdc {
    _udp: UdpSocket,
    _tcp: TcpListener,
}

/// Starts a key distribution center.
///
/// If it is not installed and cannot be fetched, prints a line that begins with `SKIPPED:` and
/// returns `None`; with `CI=true` it panics.
pub fn kdc() -> io::Result<Option<Kdc>> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let found = BUILT.get_or_init(|| built("kerberos")).clone();
    let Some(program) = or_skip("MIT Kerberos", found) else {
        return Ok(None);
    };
    let mut failure = io::Error::other("no port was tried");
    for _ in 0..PORTS {
        match Kdc::start(&program) {
            Ok(center) => {
                print_line(&format!("PEER: MIT Kerberos at {}", center.address));
                return Ok(Some(center));
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Returns the Python interpreter of a virtual environment with PyMongo and its extra for GSSAPI.
pub fn python_with_gssapi() -> Option<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let found = BUILT.get_or_init(|| built("pymongo_gssapi")).clone();
    super::driver("PyMongo with GSSAPI", found)
}

impl Kdc {
    fn start(program: &Path) -> io::Result<Self> {
        let programs = program.parent().map(Path::to_owned).unwrap_or_default();
        let mut center = Self {
            programs,
            directory: Scratch::new()?,
            address: name_server::free_address(),
            peer: None,
        };
        center.configure()?;
        center.make_realms()?;
        center.restart()?;
        Ok(center)
    }

    fn configure(&self) -> io::Result<()> {
        let (place, address) = (self.directory.path().display(), self.address);
        let plugins = fs::read_to_string(self.programs.join("plugins"))?;
        let plugins = plugins.trim();
        let client = format!(
            "[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n\
             \x20dns_lookup_realm = false\n dns_canonicalize_hostname = false\n rdns = false\n\
             \x20default_ccache_name = FILE:{place}/no.ccache\n\
             [realms]\n {REALM} = {{\n  kdc = {address}\n }}\n\
             \x20{OTHER_REALM} = {{\n  kdc = {address}\n }}\n"
        );
        self.directory.write("krb5.conf", &client)?;
        let realm = |realm: &str| {
            format!(
                " {realm} = {{\n  database_module = {realm}\n  max_life = 10h\n\
                 \x20 key_stash_file = {place}/{realm}.stash\n\
                 \x20 supported_enctypes = aes256-cts-hmac-sha1-96:normal\n }}\n"
            )
        };
        let module = |realm: &str| {
            format!(
                " {realm} = {{\n  db_library = db2\n  database_name = {place}/{realm}.db\n }}\n"
            )
        };
        let center = format!(
            "[kdcdefaults]\n kdc_listen = {address}\n kdc_tcp_listen = {address}\n\
             [realms]\n{}{}[dbmodules]\n db_module_dir = {plugins}\n{}{}\
             [logging]\n kdc = FILE:{place}/kdc.log\n admin_server = FILE:{place}/admin.log\n",
            realm(REALM),
            realm(OTHER_REALM),
            module(REALM),
            module(OTHER_REALM)
        );
        self.directory.write("kdc.conf", &center).map(drop)
    }

    fn make_realms(&self) -> io::Result<()> {
        let keytab = self.keytab();
        let keytab = keytab.display();
        let other = "krbtgt/PEEL.TEST@ONION.TEST";
        let mut queries = vec![
            format!("addprinc -pw {PASSWORD} +requires_preauth ada"),
            format!("addprinc -pw shared {other}"),
            format!(
                "ktadd -norandkey -k {}/ada.keytab ada",
                self.directory.path().display()
            ),
        ];
        for service in [
            "mongodb/127.0.0.1",
            "mongodb/localhost",
            "mongodb/db.onion.test",
            "custom/localhost",
        ] {
            queries.push(format!("addprinc -randkey {service}"));
            queries.push(format!("ktadd -k {keytab} {service}"));
        }
        let others = [
            "addprinc -randkey mongodb/db.peel.test".to_owned(),
            format!("ktadd -k {keytab} mongodb/db.peel.test"),
            format!("addprinc -pw shared {other}"),
        ];
        for (realm, queries) in [(REALM, &queries[..]), (OTHER_REALM, &others[..])] {
            self.tool("kdb5_util", &["-r", realm, "create", "-s", "-P", "master"])?;
            for query in queries {
                self.tool("kadmin.local", &["-r", realm, "-q", query])?;
            }
        }
        Ok(())
    }

    /// Runs a tool of Kerberos to its end.
    fn tool(&self, name: &str, arguments: &[&str]) -> io::Result<Output> {
        let mut command = self.command(self.programs.join(name));
        command.args(arguments);
        let output = run(command, PATIENCE)?;
        match output.status.success() {
            true => Ok(output),
            false => Err(io::Error::other(format!(
                "{name} {arguments:?}: {output:?}"
            ))),
        }
    }

    /// Returns a command with the configuration of this center, without a ticket.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let place = self.directory.path();
        let mut command = Command::new(program);
        command
            .env("KRB5_CONFIG", place.join("krb5.conf"))
            .env("KRB5_KDC_PROFILE", place.join("kdc.conf"))
            .env("KRB5_KTNAME", self.keytab())
            .env("KRB5CCNAME", place.join("no.ccache"))
            .env("KRB5RCACHEDIR", place)
            .env_remove("KRB5_CLIENT_KTNAME");
        command
    }

    /// Starts a server that prints its URI after `mark`, with the keytab of the services.
    pub fn serve(&self, program: &Path, arguments: &[&str], mark: &str) -> io::Result<Peer> {
        let mut command = self.command(program);
        command.args(arguments);
        Peer::start(
            "the server",
            command,
            Stream::Output,
            START_TIMEOUT,
            |line| Some(line.split_once(mark)?.1.to_owned()),
        )
    }

    /// Gets a ticket for `ada` with this lifetime, such as `1h`. Returns the ticket cache.
    pub fn ticket(&self, name: &str, lifetime: &str) -> io::Result<PathBuf> {
        let cache = self.directory.path().join(name);
        let keytab = self.user_keytab();
        let (path, keytab) = (cache.display().to_string(), keytab.display().to_string());
        let user = format!("ada@{REALM}");
        let arguments = ["-c", &path, "-l", lifetime, "-k", "-t", &keytab, &user];
        self.tool("kinit", &arguments)?;
        Ok(cache)
    }

    /// Waits until the ticket of a cache has expired.
    pub fn wait_for_expiry(&self, cache: &Path) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let mut command = self.command(self.programs.join("klist"));
            command.arg("-s").arg(cache);
            if !run(command, PATIENCE)?.status.success() {
                return Ok(());
            }
        }
        Err(io::Error::other("the ticket did not expire"))
    }

    /// Returns the keytab of the user `ada`.
    pub fn user_keytab(&self) -> PathBuf {
        self.directory.path().join("ada.keytab")
    }

    fn keytab(&self) -> PathBuf {
        self.directory.path().join("services.keytab")
    }

    /// Returns the number of tickets that the center has issued for requests of this kind, such as
    /// `AS_REQ`.
    pub fn issued(&self, kind: &str) -> usize {
        let log = fs::read_to_string(self.directory.path().join("kdc.log")).unwrap_or_default();
        let is_issue = |line: &&str| line.contains(kind) && line.contains("ISSUE:");
        log.lines().filter(is_issue).count()
    }

    /// Ends the center, whose port then refuses connections.
    pub fn stop(&mut self) {
        if let Some(mut peer) = self.peer.take() {
            peer.end(PATIENCE);
        }
    }

    /// Replaces the center by sockets that answer nothing.
    pub fn silence(&mut self) -> io::Result<SilentKdc> {
        self.stop();
        Ok(SilentKdc {
            _udp: UdpSocket::bind(self.address)?,
            _tcp: TcpListener::bind(self.address)?,
        })
    }

    /// Starts the center again.
    pub fn restart(&mut self) -> io::Result<()> {
        let mut command = self.command(self.programs.join("krb5kdc"));
        // `-n` keeps the center in the foreground. It prints that it begins to work.
        command.args(["-n", "-r", REALM, "-r", OTHER_REALM]);
        let peer = Peer::start("krb5kdc", command, Stream::Error, START_TIMEOUT, |line| {
            line.contains("starting").then(String::new)
        })?;
        self.peer = Some(peer);
        Ok(())
    }
}

impl Drop for Kdc {
    fn drop(&mut self) {
        self.stop();
    }
}
