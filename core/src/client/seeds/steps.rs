//! The lookups of a `mongodb+srv` client: when they begin, and what their answers change.

use super::list::{Found, RESCAN_PATIENCE};
use crate::{
    address::Address,
    client::{
        Client, Timer,
        attempts::{end::End, operations::Waiting, scanning::ScanRules},
        config::{self, set_seed_list},
        pools::Pools,
        questions::{question::QuestionId, table::Asker},
    },
    dns::DnsAnswer,
    error::{Error, ErrorKind},
    event::{EventKind, SdamEvent},
    operation::Operation,
    options::ClientOptions,
    sdam::Sdam,
    time::Instant,
    uri::Warning,
};
use std::collections::BTreeSet;

impl Client {
    /// Opens a client that knows no server yet. With background monitoring the lookup begins at
    /// once. A client that scans waits for its first operation.
    pub(in crate::client) fn open_unresolved(&mut self, now: Instant) {
        if self.settings.scanning.is_none() {
            self.look_up_seeds(now);
        }
    }

    /// Begins the first lookup if an operation waits for a server and no lookup is under way. True
    /// if a lookup begins.
    #[inline]
    pub(in crate::client) fn look_up_seeds_if_needed(&mut self, now: Instant) -> bool {
        if !self.seeds.list.is_idle()
            || self.life.is_closed()
            || !self.attempts.operations.want_servers()
        {
            return false;
        }
        self.look_up_seeds(now);
        true
    }

    fn look_up_seeds(&mut self, now: Instant) {
        let (srv, txt) = self.seeds.list.queries();
        let limit = self.seeds.list.limit();
        let srv = self.questions.look_up(now, srv, limit);
        let txt = self.questions.look_up(now, txt, limit);
        self.seeds.list.asked(srv, txt);
    }

    /// Tells the topology whether operations wait for a server. In a client that scans, a rescan
    /// that is due precedes the next scan (SRV-28). The scan waits for the rescan for
    /// [`RESCAN_PATIENCE`], so that name servers that do not answer do not delay operations longer.
    pub(in crate::client) fn want_servers(&mut self, now: Instant) {
        let wanted = self.attempts.operations.want_servers();
        let waits_for_rescan = wanted && self.topology.scans() && self.rescan_before_scan(now);
        self.topology.set_waiting(now, wanted && !waits_for_rescan);
    }

    /// Begins a rescan if one is due before a scan. True while the scan waits for a rescan.
    fn rescan_before_scan(&mut self, now: Instant) -> bool {
        if self.topology.is_scanning() {
            return false;
        }
        if self.seeds.list.due().is_some_and(|due| due <= now) {
            self.rescan(now);
        }
        // An operation that waits since the rescan began can have less time.
        if self.seeds.list.shorten_scan_wait(self.end_of_patience(now)) {
            self.arm_rescan();
        }
        let until = self.seeds.list.scan_waits_until();
        until.is_some_and(|until| now < until)
    }

    /// Returns the time until which a scan that is wanted now waits for a rescan. An operation with
    /// a time limit, for itself or for server selection, keeps half of its time for the scan and
    /// its attempts.
    fn end_of_patience(&self, now: Instant) -> Instant {
        let rules = self.settings.scanning.as_ref();
        let selection = rules.and_then(ScanRules::limit);
        let own = self.attempts.operations.deadline_without_server();
        let own = own.map(|deadline| deadline.saturating_since(now));
        let limits = [selection, own].into_iter().flatten();
        let patience = limits.fold(RESCAN_PATIENCE, |least, limit| least.min(limit / 2));
        now + patience
    }

    /// Handles the timer of the next rescan or, in a client that scans, the end of the wait for a
    /// rescan.
    pub(in crate::client) fn on_rescan_timer(&mut self, now: Instant) {
        match self.settings.scanning {
            Some(_) => self.want_servers(now),
            None => self.rescan(now),
        }
    }

    /// Looks up the SRV records again, unless the topology has a type without rescans (SRV-4).
    fn rescan(&mut self, now: Instant) {
        if self.life.is_closed() || self.seeds.list.due().is_none() {
            return;
        }
        if !self.may_rescan() {
            self.seeds.list.end_rescans();
            return;
        }
        let (srv, _) = self.seeds.list.queries();
        let question = self.questions.look_up(now, srv, self.seeds.list.limit());
        self.seeds.list.rescans(question, self.end_of_patience(now));
        self.arm_rescan();
    }

    fn may_rescan(&self) -> bool {
        !self.life.is_closed() && self.topology.may_rescan()
    }

    /// Arms the timer of the next rescan. In a client that scans, a rescan precedes a scan, and the
    /// timer ends the wait of the scan.
    pub(in crate::client) fn arm_rescan(&mut self) {
        let due = match self.settings.scanning {
            Some(_) => self.seeds.list.scan_waits_until(),
            None => self.seeds.list.due(),
        };
        self.arm(Timer::Rescan, due);
    }

    /// Handles the answer to a question for DNS records, or the reason why there is none.
    pub(in crate::client) fn on_records(
        &mut self,
        now: Instant,
        id: QuestionId,
        result: Result<DnsAnswer, Error>,
    ) {
        match self.seeds.list.handle_answer(now, id, result) {
            None => return,
            Some(Found::Seeds(options, warnings)) => self.on_seeds(now, &options, warnings),
            Some(Found::NoSeeds(error)) => {
                // Without SRV records the TXT record is not needed.
                self.questions
                    .withdraw(|asker| matches!(asker, Asker::Seeds));
                self.fail_without_servers(now, &error);
            }
            // The topology is closed, or its type no longer permits rescans (scenario 5).
            Some(Found::Hosts(..) | Found::NoHosts(_)) if !self.may_rescan() => {
                self.seeds.list.end_rescans();
            }
            Some(Found::Hosts(hosts, ignored)) => self.on_hosts(now, hosts, ignored),
            Some(Found::NoHosts(error)) => {
                let topology = self.topology().id;
                self.notice(now, SdamEvent::RescanFailed { topology, error });
            }
        }
        self.arm_rescan();
        self.want_servers(now);
    }

    /// Starts the topology with the seeds that were looked up. The client has no connection and no
    /// pool before.
    fn on_seeds(&mut self, now: Instant, options: &ClientOptions, warnings: Vec<Warning>) {
        let Some(mut sdam) = self.seeds.unresolved.take() else {
            return;
        };
        let topology = self.topology().id;
        for warning in &warnings {
            let warning = warning.to_string();
            self.notice(now, SdamEvent::TxtRecordIgnored { topology, warning });
        }
        self.seeds.txt_warnings = warnings;
        set_seed_list(&mut sdam, options);
        self.topology = Sdam::new(*sdam);
        self.pools = Pools::new(
            config::pool_options(options),
            self.settings.subscriptions.pool,
        );
        self.settings.set_seed_list(options);
        self.topology.start(now);
        self.attempts.reselect = true;
    }

    fn on_hosts(&mut self, now: Instant, hosts: Vec<Address>, ignored: Vec<Address>) {
        let topology = self.topology().id;
        for address in ignored {
            self.notice(now, SdamEvent::HostIgnored { topology, address });
        }
        let current: BTreeSet<Address> = self.topology().servers.keys().cloned().collect();
        let hosts = self.seeds.list.choose_hosts(hosts, &current);
        self.topology.handle_srv_hosts(now, &hosts);
    }

    /// Fails the operations that wait for a server, because the lookup of the seed list failed.
    fn fail_without_servers(&mut self, now: Instant, error: &Error) {
        let waits = |waiting: &Waiting| matches!(waiting, Waiting::ForServer(_));
        for id in self.attempts.operations.ids_where(waits) {
            self.end_waiting(now, id, End::Stopped(error.clone()));
        }
    }

    /// True if operations without a server wait for a scan.
    pub(in crate::client) fn scans_for_operations(&self) -> bool {
        self.settings.scanning.is_some() && !self.seeds.list.is_unresolved()
    }

    /// Returns the error of an operation for which no server was found in time.
    pub(in crate::client) fn no_server_error(&self, operation: &Operation) -> Error {
        if self.seeds.list.is_unresolved() {
            let message = format!(
                "no server is known: the SRV and TXT records of {} were not found in time",
                self.seeds.list.host()
            );
            return Error::new(ErrorKind::ServerSelection {
                message,
                cause: None,
            });
        }
        self.attempts
            .choice
            .no_suitable_server_error(&self.topology, operation)
    }

    fn notice(&mut self, now: Instant, event: SdamEvent) {
        let wanted = self.settings.subscriptions;
        if wanted.sdam || wanted.notices {
            self.out.emit(now, EventKind::Sdam(event));
        }
    }
}
