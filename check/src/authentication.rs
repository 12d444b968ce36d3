//! Authentication with the servers that a client would use.

use crate::{
    advice,
    drive::{Clock, drive},
    hello::strings,
    report::{Stage, Step},
    server::{Visit, probe},
};
use onionskin::Runtime;
use onionskin_core::{
    description::{ServerType, TopologyDescription},
    error::{Error, ErrorKind},
    options::{AuthMechanism, ClientOptions, Credential},
    probe::Probe,
};

/// Splits the servers that answered `hello`: first those with which the client authenticates, then
/// the steps of the others.
///
/// The password must not reach a server outside of the deployment, for example a member of another
/// replica set. The core decides which servers belong to the deployment: those that are left in the
/// topology description after each server was checked. The reply of one server proves nothing,
/// because a server can announce any address as a member.
pub(crate) fn split<'a>(
    topology: &TopologyDescription,
    visits: &'a [Visit],
) -> (Vec<&'a Visit>, Vec<Step>) {
    let (mut trusted, mut others) = (Vec::new(), Vec::new());
    for visit in visits {
        let Some(hello) = &visit.hello else { continue };
        let known = topology.servers.get(&visit.address);
        let is_used = known.is_some_and(|server| server.server_type.is_data_bearing());
        if is_used && topology.compatibility_error.is_none() {
            trusted.push(visit);
            continue;
        }
        let mut step = Step::new(Stage::Authentication, Some(visit.address.to_string()));
        step.skip(match hello.description.server_type {
            ServerType::RsArbiter => "an arbiter has no users",
            _ => "the client does not use this server, so it gets no credential",
        });
        others.push(step);
    }
    (trusted, others)
}

/// Connects to a server once more and authenticates.
pub(crate) async fn authenticate<R: Runtime>(
    clock: &Clock<R>,
    options: &ClientOptions,
    credential: &Credential,
    visit: &Visit,
) -> Step {
    let mut step = Step::new(Stage::Authentication, Some(visit.address.to_string()));
    if let Some(user) = &credential.username {
        step.fact("user", user.clone());
    }
    step.fact("authSource", credential.source().to_owned());
    let begun = clock.now();
    let connected = async {
        let probe = probe(clock, options.clone(), &visit.address, Probe::new)?;
        let limit = options.connect_timeout();
        let stream = clock.dial(probe.dial_address(), limit).await?;
        Ok::<_, Error>((stream, probe))
    };
    let (stream, probe) = match connected.await {
        Ok(both) => both,
        Err(error) => {
            step.duration = clock.now() - begun;
            step.fail(error.to_string(), advice::connection_lost(&error));
            return step;
        }
    };
    let findings = drive(clock, probe, stream, options.tls().is_some()).await;
    step.duration = clock.now() - begun;
    let hello = findings.hello.as_ref();
    let offered = hello.and_then(|hello| strings(&hello.reply, "saslSupportedMechs"));
    if let Some(mechanisms) = &offered {
        step.fact("mechanisms of the user", mechanisms.clone());
    }
    step.fact("credential", source(credential, findings.source.as_deref()));
    match findings.result {
        Ok(mechanism) => {
            if let Some(mechanism) = mechanism {
                step.fact("mechanism", mechanism.name());
            }
        }
        Err((_, error)) => {
            let mechanism = match error.kind() {
                ErrorKind::Authentication { mechanism, .. } => Some(*mechanism),
                _ => credential.mechanism.map(AuthMechanism::name),
            };
            if let Some(mechanism) = mechanism {
                step.fact("mechanism", mechanism);
            }
            let offered = offered.as_deref();
            let hints = match &findings.awaited {
                Some(awaited) => advice::authentication::unanswered(awaited, credential),
                None => advice::authentication::refused(&error, credential, options, offered),
            };
            step.fail(error.to_string(), hints);
        }
    }
    step
}

/// Returns the place from which the secret part of the credential comes, never the secret itself.
fn source(credential: &Credential, outside: Option<&str>) -> String {
    let place = match (credential.mechanism, outside) {
        (_, Some(outside)) => outside,
        (Some(AuthMechanism::MongoDbX509), None) => "the TLS certificate of the client",
        (Some(AuthMechanism::MongoDbAws | AuthMechanism::MongoDbOidc), None) => "none was found",
        (Some(AuthMechanism::Gssapi), None) if credential.password.is_none() => {
            "the Kerberos ticket cache or client keytab"
        }
        (_, None) => "the connection string",
    };
    place.to_owned()
}

#[cfg(test)]
mod tests;
