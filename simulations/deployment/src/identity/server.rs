//! An identity server that performs no I/O: bytes of requests come in, answers go out.

use super::{
    faults::{Answer, IdentityFault},
    http::{Parsed, Response, parse},
    services::{IdentityOptions, Services},
};
use onionskin_core::{
    random::{Random, Seed},
    time::WallTime,
};
use std::collections::VecDeque;

/// The largest number of requests in the list of [`IdentityServer::requests`].
const MAX_REQUESTS: usize = 1_000;

/// A server with the services that give credentials to machines: the metadata services of EC2, ECS,
/// EKS, Azure and Google, and `AssumeRoleWithWebIdentity` of the AWS Security Token Service.
///
/// The paths of the services differ, so one server has them all. Each connection carries one
/// request.
#[derive(Debug)]
pub struct IdentityServer {
    services: Services,
    fault: Option<IdentityFault>,
    /// The number of answers out of 1000 that have a drawn fault.
    fault_rate: u16,
    requests: VecDeque<String>,
    random: Random,
}

/// A connection of a client to an [`IdentityServer`].
#[derive(Debug)]
pub struct IdentityConnection {
    received: Vec<u8>,
    is_answered: bool,
}

impl IdentityServer {
    /// Creates a server without faults.
    #[must_use]
    pub fn new(options: IdentityOptions, seed: &Seed) -> Self {
        Self {
            services: Services::new(options, seed.split("services").random()),
            fault: None,
            fault_rate: 0,
            requests: VecDeque::new(),
            random: seed.split("faults").random(),
        }
    }

    /// Sets the fault of all further answers. Default: `None`.
    pub const fn set_fault(&mut self, fault: Option<IdentityFault>) {
        self.fault = fault;
    }

    /// Sets the number of answers out of 1000 that have a fault, which is drawn. Default: 0.
    pub const fn set_fault_rate(&mut self, per_mille: u16) {
        self.fault_rate = per_mille;
    }

    /// Returns the options.
    #[must_use]
    pub const fn options(&self) -> &IdentityOptions {
        &self.services.options
    }

    /// Returns the options for a change, which applies to further requests.
    pub const fn options_mut(&mut self) -> &mut IdentityOptions {
        &mut self.services.options
    }

    /// Returns the latest requests, at most 1000, the oldest one first: the method, the path and
    /// the status of the answer without a fault, such as `PUT /latest/api/token 200`.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        self.requests.iter().cloned().collect()
    }

    /// Creates the server's end of a new connection.
    #[must_use]
    pub const fn connect(&self) -> IdentityConnection {
        IdentityConnection {
            received: Vec::new(),
            is_answered: false,
        }
    }

    /// Handles bytes that a client sent on a connection. Returns the answer when the request is
    /// complete or malformed. Bytes after the request are ignored. The server knows nothing of TLS,
    /// so a caller with TLS decrypts the bytes, and encrypts those of the answer.
    pub fn handle_received(
        &mut self,
        now: WallTime,
        connection: &mut IdentityConnection,
        bytes: &[u8],
    ) -> Option<Answer> {
        if connection.is_answered {
            return None;
        }
        connection.received.extend_from_slice(bytes);
        let (response, summary) = match parse(&connection.received) {
            Parsed::Incomplete => return None,
            Parsed::Malformed => {
                let response = Response::error(400, "malformed request");
                (response, "malformed 400".to_owned())
            }
            Parsed::Request(request) => {
                let response = self.services.answer(now, &request);
                let summary = format!("{} {} {}", request.method, request.path, response.status);
                (response, summary)
            }
        };
        connection.is_answered = true;
        connection.received = Vec::new();
        if self.requests.len() == MAX_REQUESTS {
            self.requests.pop_front();
        }
        self.requests.push_back(summary);
        let rate = u64::from(self.fault_rate);
        let is_drawn = rate > 0 && self.random.chance(rate, 1000);
        let drawn = is_drawn.then(|| IdentityFault::drawn(&mut self.random));
        Some(Answer::of(response, self.fault.or(drawn)))
    }
}
