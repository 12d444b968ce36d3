//! Authentication over real sockets with `onionskin serve` and TLS, by each mechanism, and with the
//! services that give AWS credentials.

use bson::{Document, doc};
use onionskin::{Client, Error};
use onionskin_core::{
    options::{
        AuthMechanism as Mechanism, Credential, OidcCallback, OidcRequest, OidcTokens, Secret,
    },
    random::Seed,
    time::WallTime,
    uri,
};
use onionskin_deployment::{
    deployment::{AuthMechanism, User},
    identity::{IdentityOptions, IssuerOptions, TokenClaims, TokenIssuer},
};
use onionskin_serve::{
    CLIENT_SUBJECT, Embedded, ServeOptions,
    identity::{IdentityEndpoint, IdentityTls},
};
use onionskin_tests::{
    compressors::with_compressors,
    peers::{self, EveryMechanism, FerretDb, Scratch, ferretdb},
    variables::WithVariables,
};
use onionskin_tokio::TokioRuntime;
use std::{
    fs,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The ARN of the server's AWS identities.
const ARN: &str = "arn:aws:iam::123456789012:user/test";

/// The role whose credentials the identity server issues.
const ROLE: &str = "arn:aws:sts::123456789012:assumed-role/onionskin";

type Runtime = WithVariables<TokioRuntime>;

fn runtime() -> Runtime {
    WithVariables::new(TokioRuntime::default())
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let builder = builder.worker_threads(2).enable_all();
    builder.build().expect("a runtime").block_on(future)
}

fn deployment() -> EveryMechanism {
    EveryMechanism::start().expect("onionskin serve starts")
}

fn token(deployment: &EveryMechanism, name: &str) -> String {
    fs::read_to_string(deployment.tokens.path().join(name)).expect("a token file")
}

/// Returns the name of the user who logs in, or the code of the error.
async fn log_in(
    deployment: &EveryMechanism,
    runtime: Runtime,
    with: Credential,
) -> Result<String, Option<i32>> {
    let uri = deployment.server.uri().replace("ada:pencil@", "");
    let mut options = uri::parse(&uri).expect("a connection string").options;
    if with.mechanism == Some(Mechanism::MongoDbX509) {
        let mut tls = options.tls().expect("the server has TLS").clone();
        let authority = tls.ca_file_path.as_ref();
        let authority = authority.expect("the authority's certificate");
        tls.cert_key_file_path = Some(authority.with_file_name("client.pem"));
        options.tls = Some(tls.into());
    }
    options.credential = Some(with);
    let client = Client::builder(runtime, options).build().expect("a client");
    let found = who(&client).await;
    client.shutdown().await;
    found.map_err(|error| error.code())
}

/// Returns the name of the authenticated user.
async fn who(client: &Client<Runtime>) -> Result<String, Error> {
    let things = client.database("peer").collection::<Document>("items");
    things.find_one(doc! {}).await?;
    let status = doc! { "connectionStatus": 1 };
    let status: Document = client.database("admin").run_command(status).await?;
    let info = status.get_document("authInfo").expect("it is there");
    let users = info.get_array("authenticatedUsers").expect("an array");
    let user = users.first().and_then(|user| user.as_document());
    let name = user.and_then(|user| user.get_str("user").ok());
    Ok(name.expect("a user").to_owned())
}

fn password(mechanism: Option<Mechanism>, password: &str) -> Credential {
    let mut credential = Credential::password("ada", password);
    credential.mechanism = mechanism;
    credential
}

fn external(mechanism: Mechanism) -> Credential {
    let mut credential = Credential::builder().source("$external".to_owned()).build();
    credential.mechanism = Some(mechanism);
    credential
}

#[test]
fn a_client_logs_in_over_tls_with_each_mechanism() {
    let deployment = deployment();
    block_on(async {
        let mechanisms = [
            None,
            Some(Mechanism::ScramSha1),
            Some(Mechanism::ScramSha256),
            Some(Mechanism::Plain),
        ];
        for mechanism in mechanisms {
            for (word, expected) in [("pencil", Ok("ada".to_owned())), ("crayon", Err(Some(18)))] {
                let found = log_in(&deployment, runtime(), password(mechanism, word)).await;
                assert_eq!(found, expected, "{mechanism:?} {word}");
            }
        }
        let x509 = external(Mechanism::MongoDbX509);
        let found = log_in(&deployment, runtime(), x509).await;
        assert_eq!(found, Ok(CLIENT_SUBJECT.to_owned()));
        for (id, secret, token, expected) in [
            ("AKIA1", "secret1", "", Ok(ARN.to_owned())),
            ("ASIA2", "secret2", "token/+=", Ok(ARN.to_owned())),
            ("ASIA2", "secret2", "", Err(Some(18))),
            ("AKIA1", "wrong", "", Err(Some(18))),
        ] {
            let runtime = runtime()
                .with("AWS_ACCESS_KEY_ID", id)
                .with("AWS_SECRET_ACCESS_KEY", secret)
                .with("AWS_SESSION_TOKEN", token);
            let aws = external(Mechanism::MongoDbAws);
            assert_eq!(
                log_in(&deployment, runtime, aws).await,
                expected,
                "{id} {token}"
            );
        }
        for (file, expected) in [
            ("test_user1", Ok("test1/test_user1".to_owned())),
            ("test_expired", Err(Some(18))),
        ] {
            let path = deployment.tokens.path().join(file);
            let path = path.to_str().expect("a path as text");
            let mut oidc = external(Mechanism::MongoDbOidc);
            let test = ("ENVIRONMENT".to_owned(), Secret::new("test"));
            oidc.mechanism_properties.extend([test]);
            let found = log_in(&deployment, runtime().with("OIDC_TOKEN_FILE", path), oidc).await;
            assert_eq!(found, expected, "{file}");
        }
    });
}

#[test]
fn a_client_logs_in_over_tls_with_callbacks_for_tokens() {
    let deployment = deployment();
    let calls = Arc::new(AtomicUsize::new(0));
    let call = |file: &str, calls: &Arc<AtomicUsize>| {
        let (token, calls) = (token(&deployment, file), calls.clone());
        move |request: OidcRequest| {
            calls.fetch_add(1, Ordering::Relaxed);
            let issuer = request.idp_info.map(|info| info.issuer);
            assert!(issuer.is_none_or(|issuer| issuer == "https://issuer.test"));
            let token = token.clone();
            async move { Ok(OidcTokens::new(token)) }
        }
    };
    let machine = OidcCallback::machine(call("test_machine", &calls));
    let human = OidcCallback::human(call("test_user1", &calls));
    for (callback, user) in [(machine, "test1/test_machine"), (human, "test1/test_user1")] {
        let credential = Credential::with_oidc_callback(callback);
        let found = block_on(log_in(&deployment, runtime(), credential));
        assert_eq!(found.as_deref(), Ok(user));
    }
    assert_eq!(calls.load(Ordering::Relaxed), 2);
}

/// Returns the result of a find on a server with these options in its connection string.
async fn find_with(uri: &str, options: &str) -> Result<(), Error> {
    let uri = format!("{uri}?{options}");
    let builder = Client::builder_from_uri(runtime(), &with_compressors(&uri));
    let client = builder
        .and_then(|builder| builder.build())
        .expect("a client");
    let things = client.database("peer").collection::<Document>("items");
    let found = things.find_one(doc! {}).await;
    drop(things);
    client.shutdown().await;
    found.map(drop)
}

/// A client logs in to FerretDB with each mechanism that FerretDB has. PLAIN is only there while
/// SCRAM is not, and then FerretDB passes the password to its database, SQLite, which has no users.
#[test]
fn a_client_logs_in_to_ferretdb_with_each_mechanism() {
    let options = FerretDb::default().with_authentication();
    let (Some(scram), Some(plain)) = (
        ferretdb(options).expect("it starts"),
        ferretdb(FerretDb::default()).expect("it starts"),
    ) else {
        return;
    };
    block_on(async {
        for mechanism in [
            "",
            "authMechanism=SCRAM-SHA-1",
            "authMechanism=SCRAM-SHA-256",
        ] {
            find_with(scram.uri(), mechanism).await.expect(mechanism);
            let wrong = scram.uri().replacen("pencil", "crayon", 1);
            let error = find_with(&wrong, mechanism).await.expect_err(mechanism);
            assert_eq!(error.code(), Some(18), "{mechanism}: {error}");
        }
        let uri = plain
            .uri()
            .replacen("mongodb://", "mongodb://ada:pencil@", 1);
        let options = "authMechanism=PLAIN&authSource=$external";
        find_with(&uri, options).await.expect("a login");
    });
}

/// A deployment that knows the role, the services that give its credentials, and a token file.
struct Services {
    server: Embedded,
    endpoint: IdentityEndpoint,
    scratch: Scratch,
}

impl Services {
    /// Starts the services, with TLS if there is a certificate.
    fn start(tls: Option<IdentityTls>) -> Self {
        let mut options = ServeOptions::standalone();
        options.users.push(User::external(&format!("{ROLE}/*")));
        options.auth.mechanisms = vec![AuthMechanism::Aws];
        let seed = Seed::new([1; 32]);
        let issuer = TokenIssuer::new(IssuerOptions::default(), &seed);
        let identity = IdentityOptions {
            aws: options.auth.aws.clone(),
            issuer: Some(issuer.clone()),
            container_authorization: Some("container token".to_owned()),
            ..IdentityOptions::default()
        };
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("after 1970");
        let now = WallTime::from_unix(since);
        let token = issuer.issue(&TokenClaims::new("pod", now, Duration::from_secs(600)));
        let scratch = Scratch::new().expect("a directory");
        scratch.write("token", &token).expect("a file");
        let endpoint = match tls {
            Some(tls) => IdentityEndpoint::start_with_tls(identity, tls, &seed),
            None => IdentityEndpoint::start(identity, &seed),
        };
        Self {
            server: Embedded::start(options).expect("a deployment"),
            endpoint: endpoint.expect("a free port"),
            scratch,
        }
    }

    fn uri(&self) -> String {
        format!("{}?authMechanism=MONGODB-AWS", self.server.uri())
    }

    fn token_file(&self) -> String {
        let path = self.scratch.path().join("token");
        path.to_str().expect("a path as text").to_owned()
    }
}

#[test]
fn aws_credentials_come_from_each_service() {
    let services = Services::start(None);
    let url = format!("http://{}", services.endpoint.address());
    let container = runtime()
        .with(
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            &format!("{url}/v2/credentials/onionskin"),
        )
        .with("AWS_CONTAINER_AUTHORIZATION_TOKEN", "container token");
    let instance = runtime().with("AWS_EC2_METADATA_SERVICE_ENDPOINT", &url);
    let web_identity = runtime()
        .with("AWS_WEB_IDENTITY_TOKEN_FILE", &services.token_file())
        .with("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/onionskin")
        .with("AWS_ENDPOINT_URL_STS", &url);
    let role = "GET /latest/meta-data/iam/security-credentials/onionskin 200";
    for (runtime, request) in [
        (container, "GET /v2/credentials/onionskin 200"),
        (instance, role),
        (web_identity, "POST / 200"),
    ] {
        let user = block_on(async {
            let builder = Client::builder_from_uri(runtime, &with_compressors(&services.uri()));
            let client = builder
                .and_then(|builder| builder.build())
                .expect("a client");
            let user = who(&client).await;
            client.shutdown().await;
            user
        });
        assert_eq!(user.expect("a login"), format!("{ROLE}/*"), "{request}");
        let requests = services.endpoint.server().requests();
        assert!(requests.iter().any(|made| made == request), "{requests:?}");
    }
}

/// STS is asked over TLS, and its certificate is checked: the program trusts the authority only if
/// the environment names its certificate.
#[test]
fn sts_is_asked_over_tls_with_a_checked_certificate() {
    let tls = IdentityTls::generate(&["localhost"]).expect("a certificate");
    let authority = tls.authority().to_owned();
    let services = Services::start(Some(tls));
    let file = services
        .scratch
        .write("authority.pem", &authority)
        .expect("a file");
    let binary = peers::onionskin_binary().expect("the command");
    let port = services.endpoint.address().port();
    for is_trusted in [true, false] {
        let mut command = Command::new(&binary);
        command.args(["check", &services.uri(), "--color", "never"]);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_")) {
            command.env_remove(name);
        }
        command
            .env("AWS_WEB_IDENTITY_TOKEN_FILE", services.token_file())
            .env("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/onionskin")
            .env("AWS_ENDPOINT_URL_STS", format!("https://localhost:{port}/"));
        if is_trusted {
            command.env("SSL_CERT_FILE", &file);
        }
        let output = peers::run(command, Duration::from_secs(60)).expect("it runs");
        assert_eq!(output.status.success(), is_trusted, "{output:?}");
        match is_trusted {
            true => assert!(
                output.stdout.contains("STS with AssumeRoleWithWebIdentity"),
                "{output:?}"
            ),
            false => assert!(output.stdout.contains("TLS"), "{output:?}"),
        }
    }
}
