//! The GSSAPI library of the system, MIT or Heimdal, by which clients authenticate with Kerberos.
//!
//! The library chooses credentials as the configuration of the system says: `KRB5_CONFIG`, the
//! ticket cache of `KRB5CCNAME` and the client keytab of `KRB5_CLIENT_KTNAME`.

mod canonical;
mod failure;

#[cfg(test)]
mod tests;

use failure::{Failure, reason};
use libgssapi::{
    context::{ClientCtx, CtxFlags, SecurityContext as _},
    credential::{Cred, CredUsage},
    name::Name,
    oid::{GSS_MECH_KRB5, GSS_NT_KRB5_PRINCIPAL, OidSet},
};
use onionskin_core::options::{
    CanonicalizeHostName, Kerberos, KerberosTarget, Secret, SecurityContext,
};
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// The lifetime that is left to a ticket when it is replaced. A connection is established within
/// this time.
const MIN_LIFETIME: Duration = Duration::from_secs(60);

/// The flags of a context: the service proves its identity, and messages are protected against
/// changes.
const FLAGS: CtxFlags = CtxFlags::GSS_C_MUTUAL_FLAG.union(CtxFlags::GSS_C_INTEG_FLAG);

/// The GSSAPI library of the system, with the tickets of one client.
#[derive(Default)]
pub(crate) struct SystemKerberos {
    /// The tickets that were obtained with the password. Without a password, each connection reads
    /// the ticket cache, which other programs renew.
    obtained: Mutex<Option<Obtained>>,
}

/// Tickets that were obtained with a password.
#[derive(Clone)]
struct Obtained {
    username: String,
    password: Secret,
    credential: Cred,
}

impl Kerberos for SystemKerberos {
    fn canonical_name(&self, host: &str, mode: CanonicalizeHostName) -> Result<String, String> {
        canonical::name(host, mode)
    }

    /// Begins a context and makes its first token, for which the key distribution center may be
    /// asked. Tickets of the client that have expired are replaced.
    fn begin(&self, target: &KerberosTarget) -> Result<Box<dyn SecurityContext>, String> {
        let Some(password) = &target.password else {
            let credential = acquire(target)?;
            return Context::begin(credential, target).map_err(|failure| failure.reason());
        };
        if let Some(credential) = self.obtained(target, password) {
            match Context::begin(credential, target) {
                Err(failure) => {
                    *self.lock() = None;
                    if !failure.is_expiry() {
                        return Err(failure.reason());
                    }
                }
                Ok(context) => return Ok(context),
            }
        }
        // The lock is free meanwhile, because this can take as long as the key distribution center
        // does not answer.
        let credential = acquire(target)?;
        let context = Context::begin(credential.clone(), target).map_err(|f| f.reason())?;
        *self.lock() = Some(Obtained {
            username: target.username.clone(),
            password: password.clone(),
            credential,
        });
        Ok(context)
    }
}

impl SystemKerberos {
    /// Returns the tickets of the user, unless they expire soon.
    fn obtained(&self, target: &KerberosTarget, password: &Secret) -> Option<Cred> {
        let obtained = self.lock();
        let fits =
            |kept: &&Obtained| kept.username == target.username && kept.password == *password;
        let kept = obtained.as_ref().filter(fits)?;
        let lifetime = kept.credential.lifetime().unwrap_or_default();
        (lifetime >= MIN_LIFETIME).then(|| kept.credential.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Obtained>> {
        self.obtained.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Obtains tickets with the password, or finds those of the ticket cache or the client keytab.
fn acquire(target: &KerberosTarget) -> Result<Cred, String> {
    let name = Name::new(target.username.as_bytes(), Some(GSS_NT_KRB5_PRINCIPAL))
        .and_then(|name| name.canonicalize(Some(GSS_MECH_KRB5)))
        .map_err(reason("the user name is no principal"))?;
    let mechanisms =
        OidSet::singleton(GSS_MECH_KRB5).map_err(reason("the mechanism is not available"))?;
    match &target.password {
        Some(password) => Cred::acquire_with_password(
            Some(&name),
            password.expose(),
            None,
            CredUsage::Initiate,
            Some(&mechanisms),
        )
        .map_err(reason("no ticket was obtained with the password")),
        None => Cred::acquire(Some(&name), None, CredUsage::Initiate, Some(&mechanisms)).map_err(
            reason(
                "the user has no ticket; run kinit, set KRB5CCNAME or KRB5_CLIENT_KTNAME, or give \
                 a password",
            ),
        ),
    }
}

/// A context of the library. Its first token was made already.
struct Context {
    context: ClientCtx,
    first: Option<Vec<u8>>,
}

impl Context {
    fn begin(
        credential: Cred,
        target: &KerberosTarget,
    ) -> Result<Box<dyn SecurityContext>, Failure> {
        let service = Name::new(target.service.as_bytes(), Some(GSS_NT_KRB5_PRINCIPAL))
            .map_err(Failure::of("the name of the service is no principal"))?;
        let mut context = ClientCtx::new(Some(credential), service, FLAGS, Some(GSS_MECH_KRB5));
        let first = context
            .step(None, None)
            .map_err(Failure::of("no ticket for the service"))?;
        let first = first.map(|token| token.to_vec());
        Ok(Box::new(Self { context, first }))
    }
}

impl SecurityContext for Context {
    fn step(&mut self, token: Option<&[u8]>) -> Result<Option<Vec<u8>>, String> {
        let Some(token) = token else {
            return Ok(self.first.take());
        };
        let next = self.context.step(Some(token), None);
        let next = next.map_err(reason("the server's token was refused"))?;
        if self.context.is_complete() {
            let flags = self
                .context
                .flags()
                .map_err(reason("the context cannot be checked"))?;
            if !flags.contains(FLAGS) {
                return Err("the server did not prove its identity".to_owned());
            }
        }
        Ok(next.map(|token| token.to_vec()))
    }

    fn is_complete(&self) -> bool {
        self.context.is_complete()
    }

    fn unwrap(&mut self, message: &[u8]) -> Result<Vec<u8>, String> {
        let content = self.context.unwrap(message);
        let content = content.map_err(reason("the server's message was refused"))?;
        Ok(content.to_vec())
    }

    fn wrap(&mut self, content: &[u8]) -> Result<Vec<u8>, String> {
        let message = self.context.wrap(false, content);
        let message = message.map_err(reason("a message was not made"))?;
        Ok(message.to_vec())
    }
}
