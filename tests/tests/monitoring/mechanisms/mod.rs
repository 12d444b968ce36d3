//! Authentication by each mechanism, with a simulated deployment in virtual time.

mod aws;
mod callbacks;
mod hostile;
mod human;
mod oidc;
mod others;
mod scram;

use crate::scene::{Scene, Watched, authenticated, replica_set_of};
use bson::{Document, doc};
use onionskin::Runtime;
use onionskin_core::{
    options::{
        AuthMechanism as Mechanism, AwsCredentialProvider, AwsCredentials, Credential,
        CredentialProvider, OidcCallback, OidcFlow, OidcRequest, OidcTokens,
    },
    random::Seed,
    time::WallTime,
};
use onionskin_deployment::{
    deployment::{AuthMechanism, DeploymentOptions, User},
    identity::{AwsIdentities, AwsIdentity, IssuerOptions, TokenClaims, TokenIssuer},
};
use onionskin_worlds::world::SimRuntime;
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// The lifetime of tokens, which is shorter than that of idle cursors.
const LIFETIME: Duration = Duration::from_secs(300);

/// The subject of the client's certificate.
const SUBJECT: &str = "CN=client,OU=Drivers,O=MongoDB,C=IS";

/// The name of the application of clients whose commands fail points let fail. Fail points with
/// this name do not concern the operator.
const APP: &str = "mechanisms";

/// Returns the options of a deployment of one server that accepts all mechanisms.
fn open_to_all() -> DeploymentOptions {
    let mut options = authenticated(replica_set_of(1));
    options.auth.mechanisms = AuthMechanism::ALL.to_vec();
    options
}

/// Returns the options of a deployment that accepts tokens, and the issuer of these tokens.
fn with_issuer() -> (DeploymentOptions, TokenIssuer) {
    let seed = Seed::new([7; 32]);
    let issuer = TokenIssuer::new(IssuerOptions::default(), &seed);
    let mut options = open_to_all();
    options.auth.issuers = vec![issuer.clone()];
    (options, issuer)
}

/// Returns the options of a deployment that accepts each mechanism, the issuer of its tokens, and
/// the table of its AWS credentials.
fn everything() -> (DeploymentOptions, TokenIssuer, AwsIdentities) {
    let (mut options, issuer) = with_issuer();
    let identities = AwsIdentities::new(&Seed::new([5; 32]));
    let identity = AwsIdentity::new("AKIDONE", "secret one");
    options.users.push(identity.user());
    identities.add(identity);
    options.auth.aws = identities.clone();
    options.auth.certificate_subject = Some(SUBJECT.to_owned());
    options.users.push(User::external(SUBJECT));
    options.users.push(User::ldap("ldap", "sesame"));
    (options, issuer, identities)
}

/// Returns a credential of each mechanism for [`everything`].
fn all_credentials(
    scene: &Scene,
    issuer: &TokenIssuer,
    identities: &AwsIdentities,
) -> Vec<(Mechanism, Credential)> {
    identities.add(AwsIdentity::new("AKIDONE", "secret one"));
    let (issuer, runtime) = (issuer.clone(), scene.runtime.clone());
    let oidc = OidcCallback::machine(move |_| {
        let token = issue(&issuer, &runtime);
        async move { Ok(OidcTokens::new(token)) }
    });
    let aws =
        AwsCredentialProvider::new(|| async { Ok(AwsCredentials::new("AKIDONE", "secret one")) });
    let scram = |mechanism| {
        let mut credential = Credential::password("user", "sesame");
        credential.mechanism = Some(mechanism);
        credential
    };
    let mut plain = Credential::password("ldap", "sesame");
    plain.mechanism = Some(Mechanism::Plain);
    let mut x509 = Credential::builder().source("$external".to_owned()).build();
    x509.mechanism = Some(Mechanism::MongoDbX509);
    vec![
        (Mechanism::ScramSha1, scram(Mechanism::ScramSha1)),
        (Mechanism::ScramSha256, scram(Mechanism::ScramSha256)),
        (Mechanism::MongoDbX509, x509),
        (Mechanism::Plain, plain),
        (
            Mechanism::MongoDbAws,
            Credential::with_provider(CredentialProvider::Aws(aws)),
        ),
        (Mechanism::MongoDbOidc, Credential::with_oidc_callback(oidc)),
    ]
}

fn wall_time(runtime: &SimRuntime) -> WallTime {
    WallTime::from_unix(runtime.wall_time())
}

/// Issues a token that is valid.
fn issue(issuer: &TokenIssuer, runtime: &SimRuntime) -> String {
    issuer.issue(&TokenClaims::new("me", wall_time(runtime), LIFETIME))
}

/// Lets the next command with this name fail, if a client with the name [`APP`] sends it.
async fn fail_once(scene: &Scene, command: &str, effect: Document) {
    let mut data = doc! { "failCommands": [command], "appName": APP };
    data.extend(effect);
    scene.fail(0, doc! { "times": 1 }, data).await;
}

/// Lets the next find lose its connection, so that the find after it authenticates.
async fn reconnect(scene: &Scene, watched: &Watched) {
    fail_once(scene, "find", doc! { "closeConnection": true }).await;
    watched.find().await.expect_err("the connection is closed");
}

/// A callback, and a record of its calls.
#[derive(Clone)]
struct Calls {
    count: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<OidcRequest>>>,
}

impl Calls {
    /// Returns the record of a callback, which returns what `reply` gives for the number of the
    /// call (1 for the first) and its input.
    fn of<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        flow: OidcFlow,
        reply: impl Fn(usize, &OidcRequest) -> Result<OidcTokens, E> + Send + Sync + 'static,
    ) -> (Self, OidcCallback) {
        let calls = Self {
            count: Arc::default(),
            requests: Arc::default(),
        };
        let inside = calls.clone();
        let call = move |request: OidcRequest| {
            let number = inside.count.fetch_add(1, Ordering::Relaxed) + 1;
            let tokens = reply(number, &request).map_err(Into::into);
            let requests = inside.requests.lock();
            let mut requests = requests.unwrap_or_else(PoisonError::into_inner);
            requests.push(request);
            tokens
        };
        let call = Arc::new(call);
        let callback = match flow {
            OidcFlow::Machine => OidcCallback::machine(move |request| {
                let call = call.clone();
                async move { call(request) }
            }),
            OidcFlow::Human => OidcCallback::human(move |request| {
                let call = call.clone();
                async move { call(request) }
            }),
        };
        (calls, callback)
    }

    fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn requests(&self) -> Vec<OidcRequest> {
        let requests = self.requests.lock();
        requests.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Scene {
    /// Creates a client with this credential.
    fn client_as(&self, options: &str, credential: Credential) -> Watched {
        let hosts = self.options.addresses[0].to_string();
        let options = format!("directConnection=true&{options}");
        self.client_with(&hosts, &options, |options| {
            options.credential = Some(credential);
        })
    }

    /// Creates a client whose tokens come from this callback.
    fn client_by(&self, options: &str, callback: OidcCallback) -> Watched {
        let credential = Credential::with_oidc_callback(callback);
        self.client_as(options, credential)
    }
}
