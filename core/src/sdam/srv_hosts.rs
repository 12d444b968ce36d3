//! The hosts of SRV records that are looked up again while the client runs.

use super::{Life, MAX_SERVERS, Sdam};
use crate::{address::Address, description::TopologyType, event::NoServersCause, time::Instant};

impl Sdam {
    /// True if the SRV records of the client are looked up again: in the topology types Unknown and
    /// Sharded ([SRV-4], [SRV-5]).
    ///
    /// [SRV-4]: crate::requirements::srv_polling#SRV-4
    /// [SRV-5]: crate::requirements::srv_polling#SRV-5
    #[must_use]
    pub fn may_rescan(&self) -> bool {
        let topology_type = self.description().topology_type;
        self.phase == Life::Running
            && matches!(topology_type, TopologyType::Unknown | TopologyType::Sharded)
    }

    /// Replaces the hosts of the topology by those of new SRV records. Servers of hosts that stay
    /// keep their monitor, their pool and their description. New hosts are added as Unknown and
    /// checked, and hosts that are gone are removed ([SRV-18], [SRV-17], [SRV-31]).
    ///
    /// At most [`MAX_SERVERS`] hosts are used. Changes nothing if `hosts` is empty, and if the
    /// topology type has become another one since the lookup began ([SRV-4]).
    ///
    /// [SRV-4]: crate::requirements::srv_polling#SRV-4
    /// [SRV-17]: crate::requirements::srv_polling#SRV-17
    /// [SRV-18]: crate::requirements::srv_polling#SRV-18
    /// [SRV-31]: crate::requirements::srv_polling#SRV-31
    pub fn handle_srv_hosts(&mut self, now: Instant, hosts: &[Address]) {
        let hosts = &hosts[..hosts.len().min(MAX_SERVERS)];
        if hosts.is_empty() || !self.may_rescan() {
            return;
        }
        let previous = self.snapshot();
        let (added, removed) = self.topology.replace_hosts(hosts);
        if added.is_empty() && removed.is_empty() {
            return;
        }
        for address in &added {
            self.add_server(address.clone());
        }
        self.version += 1;
        self.stop_removed(now, &removed);
        self.publish();
        self.emit_opening(&added);
        self.emit_closed(&removed);
        self.emit_topology(previous);
        if self.servers.is_empty() {
            self.out.warn_of_no_servers(NoServersCause::LastRemoved);
        }
        self.start_monitors(now, &added, false);
        self.mark_stale(now);
        self.continue_scan(now);
        self.check_invariants();
    }
}
