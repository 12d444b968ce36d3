//! The steps of a lookup: the names and name servers that it asks, and what it makes of replies.

use super::{Lookup, LookupAction, LookupSocket, MAX_ALIASES, Try};
use crate::{
    dns::{
        DnsAnswer, DnsData, RecordKind,
        message::{self, Reply},
    },
    error::{DnsFailure, Error, ErrorKind},
    time::Instant,
};
use hickory_proto::rr::Name;
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

impl Lookup {
    pub(super) fn begin(&mut self, now: Instant) {
        let is_address = match self.query.kind {
            RecordKind::A | RecordKind::Aaaa => true,
            RecordKind::Srv | RecordKind::Txt => false,
        };
        if is_address && let Some(known) = self.known_addresses() {
            self.finish_with_addresses(&known);
            return;
        }
        if self.query.name.trim_end_matches('.').is_empty() {
            self.note(DnsFailure::NoSuchName, "the name is empty".to_owned());
            self.fail();
            return;
        }
        if self.config.name_servers.is_empty() {
            let message = "no name server is configured".to_owned();
            self.note(DnsFailure::Refused, message);
            self.fail();
            return;
        }
        // The host of a seed list is looked up as it is: hosts that the search list completed would
        // lie outside of the domain of the connection string (DNS-19).
        self.candidates = match is_address {
            true => self.config.candidates(&self.query.name).into(),
            false => [format!("{}.", self.query.name.trim_end_matches('.'))].into(),
        };
        self.ask_for_candidate(now);
    }

    /// Returns the addresses of a name that needs no name server.
    fn known_addresses(&self) -> Option<Vec<IpAddr>> {
        let name = self.query.name.trim_end_matches('.');
        if let Ok(address) = name.parse::<IpAddr>() {
            return Some(vec![address]);
        }
        let listed = self.config.hosts.addresses(name);
        if !listed.is_empty() {
            return Some(listed.to_vec());
        }
        let is_local = name == "localhost" || name.ends_with(".localhost");
        is_local.then(|| vec![Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()])
    }

    fn finish_with_addresses(&mut self, known: &[IpAddr]) {
        let is_wanted = |address: &&IpAddr| address.is_ipv4() == (self.query.kind == RecordKind::A);
        let addresses = known.iter().filter(is_wanted);
        let records: Vec<DnsData> = addresses.copied().map(DnsData::Address).collect();
        if records.is_empty() {
            let message = "the hosts file has no such address of the name".to_owned();
            self.note(DnsFailure::NoRecords, message);
            self.fail();
        } else {
            self.finish(Ok(DnsAnswer { records, ttl: None }));
        }
    }

    /// Asks for the next complete name, or ends the lookup.
    fn ask_for_candidate(&mut self, now: Instant) {
        self.alias_ttl = Duration::MAX;
        while let Some(candidate) = self.candidates.pop_front() {
            // The rules of `from_utf8` for international names refuse underscores.
            let name = match candidate.is_ascii() {
                true => Name::from_ascii(&candidate),
                false => Name::from_utf8(&candidate),
            };
            match name {
                Ok(name) => {
                    self.ask_for(now, name);
                    return;
                }
                Err(error) => {
                    let message = format!("{candidate:?} is no DNS name: {error}");
                    self.deny(DnsFailure::NoSuchName, message, Duration::MAX);
                }
            }
        }
        self.failure = self.denial.take();
        self.fail();
    }

    fn ask_for(&mut self, now: Instant, name: Name) {
        self.close_all();
        self.name = name;
        self.name.set_fqdn(true);
        self.tries = 0;
        self.try_next(now);
    }

    /// Asks the next name server, or ends the lookup if all were asked often enough. The next
    /// candidate is not asked for then, because its host can be another one than the host that the
    /// unanswered candidate has.
    pub(super) fn try_next(&mut self, now: Instant) {
        let servers = u32::try_from(self.config.name_servers.len()).unwrap_or(u32::MAX);
        let all = servers.saturating_mul(self.config.attempts.max(1));
        if self.tries >= all {
            // The reply to an earlier try can still come, until the time of the last try is over.
            let is_waiting = !self.sockets.is_empty() && self.next_try.is_some_and(|at| now < at);
            if !is_waiting {
                self.fail();
            }
            return;
        }
        let place = (self.first + self.tries as usize) % self.config.name_servers.len();
        let server = self.config.name_servers[place];
        let mut pause = self.config.try_timeout;
        if let Some((end, _)) = self.limit {
            pause = pause.min(end.saturating_since(now) / (all - self.tries));
        }
        self.tries += 1;
        self.next_try = Some(now + pause);
        self.send(server, true, self.config.use_tcp);
    }

    fn send(&mut self, server: SocketAddr, has_edns: bool, is_stream: bool) {
        let id = self.random.next_u32() as u16;
        let query = message::encode(id, &self.name, self.query.kind, has_edns);
        self.last_socket += 1;
        let socket = LookupSocket(self.last_socket);
        let action = if is_stream {
            let length = u16::try_from(query.len()).unwrap_or(u16::MAX);
            let bytes = [&length.to_be_bytes()[..], &query].concat();
            LookupAction::SendStream {
                socket,
                server,
                bytes,
            }
        } else {
            LookupAction::SendDatagram {
                socket,
                server,
                bytes: query,
            }
        };
        self.actions.push_back(action);
        let tried = Try {
            server,
            id,
            has_edns,
            received: is_stream.then(Vec::new),
            ignored: 0,
        };
        self.sockets.insert(socket, tried);
    }

    pub(super) fn on_reply(&mut self, now: Instant, socket: LookupSocket, reply: Reply) {
        let Some((server, has_edns, is_stream)) = self.close(socket) else {
            return;
        };
        match reply {
            Reply::Foreign => {}
            Reply::Truncated => self.send(server, has_edns, true),
            Reply::NotUnderstood(_) if has_edns => self.send(server, false, is_stream),
            Reply::Records(mut answer) => {
                answer.ttl = answer.ttl.map(|ttl| ttl.min(self.alias_ttl));
                self.finish(Ok(answer));
            }
            Reply::Alias(target, ttl) if self.aliases < MAX_ALIASES => {
                self.aliases += 1;
                self.alias_ttl = self.alias_ttl.min(ttl);
                self.ask_for(now, target);
            }
            Reply::Alias(..) => {
                let message = format!("{server} has a chain of more than {MAX_ALIASES} aliases");
                self.note(DnsFailure::Malformed, message);
                self.fail();
            }
            Reply::NoSuchName(ttl) => {
                let message = format!("{server} says that the name does not exist (NXDOMAIN)");
                self.deny(DnsFailure::NoSuchName, message, ttl);
                self.ask_for_candidate(now);
            }
            Reply::NoRecords(ttl) => {
                let kind = self.query.kind;
                let message = format!("{server} says that the name has no {kind} record");
                self.deny(DnsFailure::NoRecords, message, ttl);
                self.ask_for_candidate(now);
            }
            Reply::NotUnderstood(code) | Reply::Refused(code) => {
                let message = format!("{server} answered: {code}");
                self.note(DnsFailure::Refused, message);
                self.try_next(now);
            }
            Reply::Malformed(reason) => {
                let message = format!("the reply of {server} cannot be used: {reason}");
                self.note(DnsFailure::Malformed, message);
                self.try_next(now);
            }
        }
    }

    pub(super) fn on_failure(
        &mut self,
        now: Instant,
        socket: LookupSocket,
        why: DnsFailure,
        message: &str,
    ) {
        if let Some((server, ..)) = self.close(socket) {
            self.note(why, format!("{server} {message}"));
            // Another try may be under way, whose reply can still come.
            if self.sockets.is_empty() {
                self.try_next(now);
            }
        }
    }

    /// Notes the failure of a try. A reply that cannot be used says more than the absence of one.
    pub(super) fn note(&mut self, failure: DnsFailure, message: String) {
        let is_reply = |failure: &DnsFailure| *failure != DnsFailure::Unreachable;
        let old = self.failure.as_ref();
        if is_reply(&failure) || old.is_none_or(|(old, _)| !is_reply(old)) {
            self.failure = Some((failure, message));
        }
    }

    /// Notes that a candidate does not have the records, which may be remembered for `ttl`. Of
    /// several candidates, one that exists is reported. The result of the lookup may be remembered
    /// as long as the result of each candidate.
    fn deny(&mut self, failure: DnsFailure, message: String, ttl: Duration) {
        self.failure = None;
        let ttl = ttl.min(self.alias_ttl);
        self.negative_ttl = Some(self.negative_ttl.map_or(ttl, |old| old.min(ttl)));
        let exists = |failure: &DnsFailure| *failure == DnsFailure::NoRecords;
        let old = self.denial.as_ref();
        if exists(&failure) || old.is_none_or(|(old, _)| !exists(old)) {
            self.denial = Some((failure, message));
        }
    }

    /// Returns the name servers that were asked for the current name.
    pub(super) fn asked_servers(&self) -> String {
        let servers = &self.config.name_servers;
        let asked = (self.tries as usize).min(servers.len());
        let places = (0..asked).map(|offset| (self.first + offset) % servers.len());
        let names: Vec<String> = places.map(|place| servers[place].to_string()).collect();
        names.join(", ")
    }

    pub(super) fn fail(&mut self) {
        let (failure, message) = self.failure.take().unwrap_or_else(|| {
            (
                DnsFailure::Refused,
                "no name server gave an answer".to_owned(),
            )
        });
        let is_negative = matches!(failure, DnsFailure::NoSuchName | DnsFailure::NoRecords);
        if !is_negative {
            self.negative_ttl = None;
        }
        let hint = match failure {
            DnsFailure::NoSuchName | DnsFailure::NoRecords => "check the host name",
            DnsFailure::Refused | DnsFailure::Unreachable => {
                "check the name servers of this machine and the network"
            }
            DnsFailure::Malformed => "ask the administrator of this DNS zone",
        };
        let message = format!("the lookup of {} failed: {message}; {hint}", self.query);
        self.finish(Err(Error::new(ErrorKind::DnsResolve { failure, message })));
    }

    fn finish(&mut self, result: Result<DnsAnswer, Error>) {
        self.close_all();
        self.is_over = true;
        self.result = Some(result);
    }

    fn close_all(&mut self) {
        for socket in std::mem::take(&mut self.sockets).into_keys() {
            self.actions.push_back(LookupAction::Close { socket });
        }
    }

    /// Closes a socket. Returns its server, whether the query had EDNS options, and whether it was
    /// a TCP connection.
    fn close(&mut self, socket: LookupSocket) -> Option<(SocketAddr, bool, bool)> {
        let tried = self.sockets.remove(&socket)?;
        self.actions.push_back(LookupAction::Close { socket });
        Some((tried.server, tried.has_edns, tried.received.is_some()))
    }
}
