//! Inputs and reports of a deployment that concern authentication.

use super::{AuthFault, AuthMechanism, ConnId, Deployment};

/// The numbers of authentications, since the start of the deployment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthCounts {
    /// The number of commands `saslStart` and `authenticate`. Speculative ones are not counted.
    pub starts: u64,
    /// The number of commands `saslContinue`.
    pub continues: u64,
    /// The number of hellos with speculative authentication.
    pub speculative: u64,
    /// The number of successful authentications, speculative or not.
    pub successes: u64,
}

impl Deployment {
    /// States the subject of the TLS client certificate of a connection, for MONGODB-X509. The form
    /// is that of RFC 2253, such as `CN=client,OU=Drivers,O=MongoDB`. The caller terminates TLS and
    /// verifies the certificate, and calls this before it hands over the first bytes.
    pub fn handle_certificate(&mut self, connection: ConnId, subject: &str) {
        if let Some(&member) = self.homes.get(&connection) {
            self.members[member].set_certificate(connection, subject);
        }
    }

    /// Makes all clients that have authenticated do so again. Until then, each of their commands
    /// fails with the error 391, `ReauthenticationRequired` (AUTH-37).
    pub fn require_reauthentication(&mut self) {
        for member in &mut self.members {
            member.require_reauthentication();
        }
    }

    /// Sets the fault of all further SASL conversations with all members. Default: `None`.
    pub fn set_auth_fault(&mut self, fault: Option<AuthFault>) {
        for member in &mut self.members {
            member.set_auth_fault(fault);
        }
    }

    /// Returns the numbers of authentications with all members.
    #[must_use]
    pub fn auth_counts(&self) -> AuthCounts {
        let mut sum = AuthCounts::default();
        for member in &self.members {
            let counts = member.auth_counts();
            sum.starts += counts.starts;
            sum.continues += counts.continues;
            sum.speculative += counts.speculative;
            sum.successes += counts.successes;
        }
        sum
    }

    /// Returns the mechanism by which each open connection with a user has authenticated, for all
    /// members.
    #[must_use]
    pub fn login_mechanisms(&self) -> Vec<AuthMechanism> {
        let members = self.members.iter();
        members
            .flat_map(|member| member.login_mechanisms())
            .collect()
    }
}
