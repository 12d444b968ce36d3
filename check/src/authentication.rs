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
    description::ServerType,
    error::{Error, ErrorKind},
    options::{ClientOptions, Credential, Mechanism},
    probe::Probe,
};

/// Returns the servers with which a client would authenticate: those that hold data and belong to
/// the deployment. The password must not reach others, for example a member of another replica set.
pub(crate) fn servers<'a>(options: &ClientOptions, visits: &'a [Visit]) -> Vec<&'a Visit> {
    let wanted = options.replica_set();
    let hellos = visits.iter().filter_map(|visit| visit.hello.as_ref());
    let first = hellos
        .filter_map(|hello| hello.description.set_name.as_deref())
        .next();
    let is_member = |visit: &&Visit| {
        let Some(hello) = &visit.hello else {
            return false;
        };
        let server = &hello.description;
        let is_of_set = match server.set_name.as_deref() {
            Some(name) => Some(name) == wanted.or(first),
            None => wanted.is_none(),
        };
        let is_direct = options.direct_connection() == Some(true);
        server.server_type.is_data_bearing() && (is_of_set || (is_direct && wanted.is_none()))
    };
    visits.iter().filter(is_member).collect()
}

/// Returns the step for a server that has no users.
pub(crate) fn without_users(visit: &Visit) -> Option<Step> {
    let kind = visit.hello.as_ref()?.description.server_type;
    let mut step = Step::new(Stage::Authentication, Some(visit.address.to_string()));
    (kind == ServerType::RsArbiter).then(|| {
        step.skip("an arbiter has no users");
        step
    })
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
    step.fact("authSource", credential.source.clone());
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
    let findings = drive(clock, probe, stream, options.tls().enabled).await;
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
                _ => credential.mechanism.map(Mechanism::name),
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
        (Some(Mechanism::MongoDbX509), None) => "the TLS certificate of the client",
        (Some(Mechanism::MongoDbAws | Mechanism::MongoDbOidc), None) => "none was found",
        (Some(Mechanism::GssApi), None) if credential.password.is_none() => {
            "the Kerberos ticket cache or client keytab"
        }
        (_, None) => "the connection string",
    };
    place.to_owned()
}

#[cfg(test)]
mod tests;
