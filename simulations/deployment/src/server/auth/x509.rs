//! The server's side of MONGODB-X509: the certificate of the client's TLS connection identifies the
//! user.

use super::{failed, roles::Login};
use crate::{
    deployment::{AuthMechanism, ConnId, EXTERNAL},
    server::{
        Member,
        connection::Request,
        fault::{Fault, fault},
        reply::Reply,
    },
};
use bson::{Document, doc};

impl Member {
    /// States the subject of the TLS client certificate of a connection.
    pub(crate) fn set_certificate(&mut self, conn: ConnId, subject: &str) {
        if let Some(connection) = self.connections.get_mut(&conn) {
            connection.certificate = Some(subject.to_owned());
        }
    }

    /// Executes the command `authenticate`.
    pub(in crate::server) fn authenticate(
        &mut self,
        conn: ConnId,
        request: &Request,
    ) -> Result<Reply, Fault> {
        self.auth_counts.starts += 1;
        let reply = self.authenticate_x509(conn, &request.command, &request.database)?;
        Ok(reply.into())
    }

    /// Authenticates the user whose name is the subject of the client's certificate. A name in the
    /// command must be the same (AUTH-62).
    pub(super) fn authenticate_x509(
        &mut self,
        conn: ConnId,
        command: &Document,
        database: &str,
    ) -> Result<Document, Fault> {
        let name = command.get_str("mechanism").unwrap_or_default();
        if self.enabled_mechanism(name)? != AuthMechanism::X509 {
            let text = format!("The command authenticate does not support mechanism {name}");
            return Err(fault(334, text));
        }
        if database != EXTERNAL {
            let text = "X.509 authentication must always use the $external database.";
            return Err(fault(17, text));
        }
        let connection = self.connections.get_mut(&conn).ok_or_else(failed)?;
        let own = self.options.auth.certificate_subject.as_ref();
        let subject = connection.certificate.as_ref().or(own);
        let subject = subject.ok_or_else(failed)?.clone();
        if command.get_str("user").is_ok_and(|user| user != subject) {
            return Err(failed());
        }
        let account = self.accounts.find(EXTERNAL, &subject);
        let account = account.filter(|account| account.can_use(AuthMechanism::X509));
        let account = account.ok_or_else(failed)?;
        connection.conversation = None;
        connection.mechanism = Some(AuthMechanism::X509);
        connection.login = Some(Login::of(&account.user));
        self.auth_counts.successes += 1;
        Ok(doc! { "dbname": EXTERNAL, "user": subject })
    }
}
