//! What to serve, and where.

use crate::deployment::{Limits, MemberOptions, NetworkOptions, User};
use std::{path::PathBuf, time::Duration};

/// Options of a deployment on real sockets.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The replica set's name. `None`: a standalone, or routers.
    pub replica_set: Option<String>,
    /// Whether the members are routers in front of one shard. Default: false.
    pub sharded: bool,
    /// Whether the members are services, which are such routers behind a load balancer. Each has
    /// a port of its own as well, for another load balancer, which may speak the PROXY protocol.
    /// Default: false.
    pub load_balanced: bool,
    /// The members; a standalone has one.
    pub members: Vec<MemberOptions>,
    /// The first port, that of the load balancer or of the first member; the others follow.
    /// `None`: ports that are free. Default: none.
    pub port: Option<u16>,
    /// Whether connections are encrypted. Default: false.
    pub tls: bool,
    /// Where the certificates are written. `None`: a new directory for temporary files.
    pub tls_directory: Option<PathBuf>,
    /// Who may log in. Empty: no login is asked for.
    pub users: Vec<User>,
    /// Where chance comes from. Default: 0.
    pub seed: u64,
    /// Default: 1 s, so that a failover takes about that long.
    pub election_timeout: Duration,
    /// Default: 200 ms.
    pub heartbeat_interval: Duration,
    /// The network between members. Default: instant.
    pub network: NetworkOptions,
    /// What servers accept and keep.
    pub limits: Limits,
}

impl ServeOptions {
    /// A replica set of equal members.
    #[must_use]
    pub fn replica_set(name: &str, members: usize) -> Self {
        Self {
            replica_set: Some(name.to_owned()),
            sharded: false,
            load_balanced: false,
            members: vec![MemberOptions::default(); members],
            port: None,
            tls: false,
            tls_directory: None,
            users: Vec::new(),
            seed: 0,
            election_timeout: Duration::from_secs(1),
            heartbeat_interval: Duration::from_millis(200),
            network: NetworkOptions::default(),
            limits: Limits::default(),
        }
    }

    /// One server alone.
    #[must_use]
    pub fn standalone() -> Self {
        Self {
            replica_set: None,
            ..Self::replica_set("", 1)
        }
    }

    /// Routers in front of one shard.
    #[must_use]
    pub fn sharded(routers: usize) -> Self {
        Self {
            replica_set: None,
            sharded: true,
            ..Self::replica_set("", routers)
        }
    }

    /// Services behind a load balancer.
    #[must_use]
    pub fn load_balanced(services: usize) -> Self {
        Self {
            replica_set: None,
            load_balanced: true,
            ..Self::replica_set("", services)
        }
    }
}
