//! The process is another one: a child that was forked.

use super::{Life, Sdam, step::PoolOrder};
use crate::{description::ServerId, error::Error, time::Instant};

impl Sdam {
    /// All connections are those of the parent, which uses them on. They are given up, pools are
    /// cleared, and all servers are looked at anew, on connections of this process (CMAP-103).
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
                self.replace_balancer(now, id, cause);
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

    /// Nobody checks a load balancer, so that nothing would ever find it usable again. It begins
    /// another life at once, with another pool.
    fn replace_balancer(&mut self, now: Instant, id: ServerId, cause: &Error) {
        let Some(server) = self.servers.remove(&id) else {
            return;
        };
        let address = server.address.clone();
        self.ids.remove(&address);
        server.stop(now, &mut self.out, id, cause);
        self.add_server(address.clone());
        self.version += 1;
        self.add_balancer(now, address);
    }
}
