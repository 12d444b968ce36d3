//! The reset of the discovery machine in a forked child process.

use super::{Life, Sdam, step::PoolOrder};
use crate::{description::ServerId, error::Error, time::Instant};

impl Sdam {
    /// Resets the machine in a forked child process. The open connections belong to the parent
    /// process, so the monitors close them. All servers become Unknown, and their pools are cleared
    /// ([CMAP-103]).
    ///
    /// With background monitoring, new checks begin at once. Behind a load balancer, the server and
    /// its pool are replaced instead.
    ///
    /// `cause` is the error of the cancelled checks, of the clears and of the Unknown servers.
    ///
    /// [CMAP-103]: crate::requirements::pool#CMAP-103
    pub fn handle_forked(&mut self, now: Instant, cause: &Error) {
        if self.phase != Life::Running {
            return;
        }
        self.drop_scan(now);
        let servers: Vec<ServerId> = self.servers.keys().copied().collect();
        for &id in &servers {
            self.with_monitor(id, |monitor, out| {
                monitor.cancel(now, out, cause);
                monitor.forget_last_check();
            });
            if self.is_load_balanced() {
                self.replace_load_balancer(now, id, cause);
            } else {
                let pool = PoolOrder::Clear {
                    cause,
                    interrupt: true,
                };
                self.mark_unknown(now, id, cause, None, pool);
            }
        }
        if !self.scans() {
            for id in servers {
                self.with_monitor(id, |monitor, out| monitor.on_due(now, out));
            }
        }
        self.plan_scan(now);
    }

    /// Replaces the server of a load balancer by one with the same address, a new id and a new
    /// pool. An Unknown description would stay, because no monitor checks a load balancer.
    fn replace_load_balancer(&mut self, now: Instant, id: ServerId, cause: &Error) {
        let Some(server) = self.servers.remove(&id) else {
            return;
        };
        let address = server.address.clone();
        self.ids.remove(&address);
        server.stop(now, &mut self.out, id, cause);
        self.add_server(address.clone());
        self.version += 1;
        self.add_load_balancer(now, address);
    }
}
