//! The model of errors of operations and of new connections (section A.7 and table A.8).

use super::{ExpectedError, Facts, Mistake, Model, hello, topology};
use bson::{RawDocument, oid::ObjectId};
use onionskin_core::{address::Address, error::TopologyVersion, unstable::sdam::Phase};
use onionskin_worlds::strategies::{Cause, Failure};

/// The kind of a state change error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StateChange {
    /// A "not writable primary" error (SDAM-90), or a "node is recovering" error (SDAM-89) that is
    /// no shutdown.
    Ordinary,
    /// A "node is shutting down" error (SDAM-91).
    ShutDown,
}

/// An error, classified by the rows of table A.8.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Class {
    /// The connection failed, could not be established, or transported an invalid message.
    Network,
    /// The reply or the connection did not come within its time limit.
    Timeout,
    /// A state change error, with its text.
    State(StateChange, String),
    /// Any other reply with an error.
    Command,
    /// An error that the driver itself made, or no error.
    Nothing,
}

impl Model {
    /// Handles an error of an operation or of a new connection. `life` is the result of
    /// [`Model::life`] when the connection was made, and `generation` is the generation of the
    /// connection. `service` is the connection's service behind a load balancer.
    pub fn on_application_error(
        &mut self,
        address: &Address,
        life: u64,
        generation: u64,
        service: Option<ObjectId>,
        failure: &Failure,
    ) {
        let Some(server) = self.servers.get(address).filter(|s| s.life == life) else {
            return;
        };
        // An error of an older generation is stale (SDAM-86). Behind a load balancer the generation
        // of the service decides (SDAM-114).
        let current = match &service {
            Some(service) => server.services.get(service).copied().unwrap_or(0),
            None => server.generation,
        };
        if generation < current && !self.makes(Mistake::StaleGenerationCounts) {
            return;
        }
        // An error with an equal or older `topologyVersion` is stale (SDAM-87).
        let version = failure.reply().and_then(hello::version);
        let order = topology::compare(server.facts.version, version);
        let accepted = match order {
            topology::Order::NewIsNewer => true,
            topology::Order::Equal => self.makes(Mistake::EqualErrorAccepted),
            topology::Order::CurrentIsNewer => false,
        };
        if !accepted {
            return;
        }
        let class = self.classify(failure);
        // With the label `SystemOverloadedError`, a network error or an error before the end of the
        // handshake changes nothing (SDAM-104).
        let network = matches!(class, Class::Network | Class::Timeout);
        if failure.is_overloaded()
            && (network || failure.phase != Phase::Operation)
            && !self.makes(Mistake::OverloadCounts)
        {
            return;
        }
        if self.config.load_balanced {
            return self.on_error_behind_load_balancer(address, service, failure.phase, &class);
        }
        self.on_classified(address, failure.phase, class, version);
    }

    /// Applies the rows of table A.8 that are not about load balancers.
    fn on_classified(
        &mut self,
        address: &Address,
        phase: Phase,
        class: Class,
        version: Option<TopologyVersion>,
    ) {
        let young = phase != Phase::Operation;
        match class {
            Class::Nothing => {}
            Class::Network => self.lose(address),
            Class::Timeout if young || self.makes(Mistake::OperationTimeoutCounts) => {
                self.lose(address);
            }
            Class::Command if young => self.lose(address),
            Class::Timeout | Class::Command => {}
            Class::State(change, text) => {
                let mut facts = Facts::unknown(ExpectedError::Text(text));
                if !self.makes(Mistake::ErrorVersionForgotten) {
                    facts.version = version;
                }
                self.update(address, facts);
                let shut_down =
                    change == StateChange::ShutDown && !self.makes(Mistake::ShutdownDoesNotClear);
                // A state change error in an incomplete handshake always clears the pool (A.12,
                // point 3).
                if young || shut_down {
                    self.clear(address, None, false);
                }
                if !self.makes(Mistake::NoCheckAfterStateChange) {
                    self.request_check_of(address);
                }
            }
        }
    }

    /// Makes the server `Unknown`, clears its pool, cancels its check (SDAM-100) and drops its
    /// round trip times.
    fn lose(&mut self, address: &Address) {
        self.update(address, Facts::unknown(ExpectedError::Text(String::new())));
        self.clear(address, None, false);
        if !self.makes(Mistake::NetworkErrorDoesNotCancel) {
            self.cancel_check(address);
            if let Some(server) = self.servers.get_mut(address) {
                server.forget_round_trips();
            }
        }
        if self.makes(Mistake::CheckAfterNetworkError) {
            self.request_check_of(address);
        }
    }

    /// Applies rows 16 to 19 of table A.8, which are about load balancers.
    fn on_error_behind_load_balancer(
        &mut self,
        address: &Address,
        service: Option<ObjectId>,
        phase: Phase,
        class: &Class,
    ) {
        let clears = match phase {
            Phase::Proxy | Phase::Hello => false,
            // Row 17 of table A.8, for every command error.
            Phase::Authentication => !matches!(class, Class::Nothing),
            Phase::Operation => matches!(
                class,
                Class::Network | Class::State(StateChange::ShutDown, _)
            ),
        };
        if clears {
            self.clear(address, service, false);
        }
    }

    fn classify(&self, failure: &Failure) -> Class {
        match &failure.cause {
            Cause::Network(_) | Cause::Tls(_) | Cause::Nonsense => Class::Network,
            Cause::Timeout => Class::Timeout,
            Cause::Client(_) => Class::Nothing,
            Cause::Reply(reply) | Cause::Refused(reply) => self.classify_reply(reply),
        }
    }

    fn classify_reply(&self, reply: &RawDocument) -> Class {
        if hello::number(reply, "ok") != Some(1) {
            return match self.state_change(reply) {
                Some((change, text)) => Class::State(change, text),
                None => Class::Command,
            };
        }
        // A `writeConcernError` is examined (SDAM-93), `writeErrors` are not (SDAM-94).
        if let Ok(error) = reply.get_document("writeConcernError")
            && !self.makes(Mistake::NoWriteConcernError)
            && let Some((change, text)) = self.state_change(error)
        {
            return Class::State(change, text);
        }
        if self.makes(Mistake::WriteErrorsCount)
            && let Ok(errors) = reply.get_array("writeErrors")
        {
            for error in errors.into_iter().flatten().filter_map(|e| e.as_document()) {
                if let Some((change, text)) = self.state_change(error) {
                    return Class::State(change, text);
                }
            }
        }
        Class::Nothing
    }

    /// Returns the kind and the text of a state change error. The code decides, or, without a code,
    /// the text (SDAM-88 to SDAM-92). The code 0 counts as no code (A.12, point 7).
    fn state_change(&self, error: &RawDocument) -> Option<(StateChange, String)> {
        let text = error.get_str("errmsg").unwrap_or_default();
        let code = hello::number(error, "code").filter(|&code| code != 0);
        let by_text = text.contains("node is recovering") || text.contains("not master");
        let change = match code {
            Some(11600 | 91) => Some(StateChange::ShutDown),
            Some(189) if self.makes(Mistake::StepDownClears) => Some(StateChange::ShutDown),
            Some(11602 | 13436 | 189) => Some(StateChange::Ordinary),
            Some(10107 | 13435 | 10058) => Some(StateChange::Ordinary),
            Some(_) if self.makes(Mistake::TextOverrulesCode) && by_text => {
                Some(StateChange::Ordinary)
            }
            Some(_) => None,
            None if by_text && !self.makes(Mistake::NoTextWithoutCode) => {
                Some(StateChange::Ordinary)
            }
            None => None,
        };
        change.map(|change| (change, text.to_owned()))
    }
}
