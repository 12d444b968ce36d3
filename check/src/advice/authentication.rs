//! Hints about failed authentication, for each mechanism.

use super::{connection_lost, out_of_time, texts};
use crate::awaited::Awaited;
use onionskin_core::{
    error::{Error, ErrorKind},
    options::{AuthMechanism, ClientOptions, Credential},
};

/// The code of a failed authentication.
const AUTHENTICATION_FAILED: i32 = 18;

/// The code of a mechanism that the server does not permit.
const MECHANISM_UNAVAILABLE: i32 = 334;

/// Returns hints about a failed authentication. `offered` are the mechanisms that the server has
/// for the user, if it names any.
pub(crate) fn refused(
    error: &Error,
    credential: &Credential,
    options: &ClientOptions,
    offered: Option<&[String]>,
) -> Vec<String> {
    use AuthMechanism::{
        Gssapi, MongoDbAws, MongoDbOidc, MongoDbX509, Plain, ScramSha1, ScramSha256,
    };
    if is_forbidden_password(error) {
        return forbidden_password();
    }
    let ErrorKind::Authentication { cause, .. } = error.kind() else {
        return connection_lost(error);
    };
    let code = cause.as_ref().and_then(|cause| cause.code());
    match (code, credential.mechanism) {
        (Some(MECHANISM_UNAVAILABLE), mechanism) => not_permitted(mechanism),
        (Some(AUTHENTICATION_FAILED), None | Some(ScramSha1 | ScramSha256)) => {
            wrong_password(credential, offered)
        }
        (Some(AUTHENTICATION_FAILED), Some(MongoDbX509)) => wrong_certificate(options),
        (Some(AUTHENTICATION_FAILED), Some(Plain)) => texts([
            "the LDAP server refused the user name or the password, or the server of MongoDB \
             cannot reach it; the log of that server says which",
            "the user must exist in the database $external",
        ]),
        (Some(AUTHENTICATION_FAILED), Some(MongoDbAws)) => wrong_identity(),
        (Some(AUTHENTICATION_FAILED), Some(MongoDbOidc)) => wrong_token(),
        (Some(AUTHENTICATION_FAILED), Some(Gssapi)) => wrong_principal(),
        (None, Some(_)) => no_credential(credential),
        _ => Vec::new(),
    }
}

/// Returns hints about a credential that was not obtained.
fn no_credential(credential: &Credential) -> Vec<String> {
    match credential.mechanism {
        Some(AuthMechanism::MongoDbAws) => no_identity(),
        Some(AuthMechanism::MongoDbOidc) => no_token(credential),
        Some(AuthMechanism::Gssapi) => no_ticket(),
        _ => Vec::new(),
    }
}

/// Returns hints about a source other than the server, or a computation, that took too long.
pub(crate) fn unanswered(awaited: &Awaited, credential: &Credential) -> Vec<String> {
    let mut hints = match awaited {
        Awaited::Responders(_) => {
            let mut hints = texts([
                "the server is not the cause: the OCSP responder of its certificate does not \
                 answer; tlsDisableOCSPEndpointCheck=true omits the request",
            ]);
            hints.extend(out_of_time());
            return hints;
        }
        Awaited::Source(_) => texts([
            "the server is not the cause: the credential comes from elsewhere, and that place does \
             not answer; check its address or path, and whether this machine can reach it",
        ]),
        Awaited::Kerberos => texts([
            "the server is not the cause: the key distribution center probably does not answer",
        ]),
        Awaited::Keys => texts([
            "the server is not the cause: this machine is slow or overloaded, and the server asks \
             for many iterations",
        ]),
    };
    hints.extend(no_credential(credential));
    hints.extend(out_of_time());
    hints
}

/// Returns hints about the user name and the password of a connection string, which the mechanism
/// refuses or requires. `message` is that of the error, which names the mechanism.
pub(super) fn invalid_user(message: &str) -> Vec<String> {
    if message.contains(AuthMechanism::MongoDbAws.name()) {
        return texts([
            "AWS credentials are not written in the connection string: they come from environment \
             variables (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), from an endpoint of EC2, ECS \
             or EKS, or from a provider in code; see docs/authentication.md",
        ]);
    }
    if message.contains(AuthMechanism::MongoDbOidc.name()) {
        return texts([
            "the token comes from an environment, which authMechanismProperties names, or from a \
             callback in code; see docs/authentication.md",
        ]);
    }
    if message.contains(AuthMechanism::Gssapi.name()) {
        return texts(["the user name is the principal, for example mongodb://user%40REALM@host/"]);
    }
    if message.contains("SASLprep") {
        return forbidden_password();
    }
    match message.contains("needs") {
        true => texts(["for example mongodb://user:password@host/"]),
        // The error says what is to be left out.
        false => Vec::new(),
    }
}

/// Returns hints about options of a credential that the mechanism refuses or requires. `message` is
/// that of the error, which begins with the name of the option. There are no hints about an error
/// that says itself what to do.
pub(super) fn invalid_option(message: &str) -> Vec<String> {
    if !message.starts_with("authMechanismProperties: ") {
        return Vec::new();
    }
    if message.contains(AuthMechanism::MongoDbAws.name()) {
        return texts([
            "the session token of AWS comes from the environment variable AWS_SESSION_TOKEN, \
             beside AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; see docs/authentication.md",
        ]);
    }
    if message.contains("needs TOKEN_RESOURCE") {
        return texts([
            "TOKEN_RESOURCE is the audience of the token, written as in \
             authMechanismProperties=ENVIRONMENT:azure,TOKEN_RESOURCE:AUDIENCE",
        ]);
    }
    if message.contains("needs ENVIRONMENT") {
        return texts([
            "for example authMechanismProperties=ENVIRONMENT:k8s; a connection string cannot have \
             a callback",
        ]);
    }
    Vec::new()
}

/// True if SASLprep forbids a character of the password, so that nothing was sent to the server.
fn is_forbidden_password(error: &Error) -> bool {
    error.to_string().contains("SASLprep")
}

fn forbidden_password() -> Vec<String> {
    texts([
        "SASLprep (RFC 4013) forbids control characters, for example a line break (%0A) that was \
         copied with the password, and some characters of Unicode: check the end of the password",
        "SCRAM-SHA-1 does not have this rule: authMechanism=SCRAM-SHA-1, if the server permits it \
         for the user",
    ])
}

fn not_permitted(mechanism: Option<AuthMechanism>) -> Vec<String> {
    let name = mechanism.map_or("this mechanism", AuthMechanism::name);
    vec![
        format!(
            "the server does not permit {name}; its parameter authenticationMechanisms lists the \
             permitted ones"
        ),
        "if the user has a password in the database, leave authMechanism out; client and server \
         then negotiate a mechanism"
            .to_owned(),
    ]
}

fn wrong_password(credential: &Credential, offered: Option<&[String]>) -> Vec<String> {
    let source = credential.source();
    let first = match offered {
        Some(_) => format!(
            "the server knows the user in the database {source}, so the password is probably wrong"
        ),
        None if credential.mechanism.is_none() => format!(
            "the server names no mechanism for the user, so the database {source} probably has no \
             such user: a user belongs to the database in which it was created, which authSource \
             names"
        ),
        None => format!(
            "either the password is wrong, or the database {source} (authSource) has no such user"
        ),
    };
    let encoding = "in a connection string, characters such as @ : / % of user name and password \
                    are written percent-encoded";
    vec![first, encoding.to_owned()]
}

fn wrong_certificate(options: &ClientOptions) -> Vec<String> {
    let Some(tls) = options.tls() else {
        return texts(["MONGODB-X509 needs TLS: add tls=true and tlsCertificateKeyFile"]);
    };
    if tls.cert_key_file_path.is_none() && tls.certificate_key_pem.is_none() {
        return texts(["the client has no certificate: add tlsCertificateKeyFile"]);
    }
    texts([
        "the subject of the client's certificate must be a user of the database $external, in the \
         form of RFC 2253: openssl x509 -in FILE -noout -subject -nameopt RFC2253",
        "a user name in the connection string must be exactly that subject; leave it out",
        "the server must trust the authority of the certificate (its option CAFile)",
    ])
}

fn wrong_identity() -> Vec<String> {
    texts([
        "the ARN of the AWS identity must be a user of the database $external; for a role, that is \
         arn:aws:sts::ACCOUNT:assumed-role/ROLE/*, and aws sts get-caller-identity shows it",
        "AWS refuses signatures with a time that is off by more than 5 minutes: check the clock of \
         this machine",
        "temporary credentials need AWS_SESSION_TOKEN as well, and expire",
    ])
}

fn no_identity() -> Vec<String> {
    texts([
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN of temporary \
         credentials); the files of the AWS command line are not read",
        "on EC2, ECS and EKS, attach a role to the instance, the task or the service account",
    ])
}

fn wrong_token() -> Vec<String> {
    texts([
        "the issuer, the audience (TOKEN_RESOURCE) and the claims of the token must be those of \
         the server's parameter oidcIdentityProviders",
        "the roles of the token must exist at the server, or its subject must be a user of the \
         database $external",
        "a token that has expired is refused: check the clocks",
    ])
}

fn wrong_principal() -> Vec<String> {
    texts([
        "the principal of the user, with its realm, must be a user of the database $external",
        "the keytab of the server must have the current key of its service: klist -k shows the \
         keytab, and kvno the number of the key",
    ])
}

fn no_ticket() -> Vec<String> {
    texts([
        "with KRB5_TRACE=/dev/stderr, MIT Kerberos writes what it does: the files that it reads, \
         the key distribution centers that it asks, and their answers",
        "the key distribution center must know the service: by default mongodb/HOST, with the host \
         name of the connection string; SERVICE_NAME, SERVICE_HOST, SERVICE_REALM and \
         CANONICALIZE_HOST_NAME change it",
    ])
}

fn no_token(credential: &Credential) -> Vec<String> {
    let environment = credential.property("ENVIRONMENT");
    match environment.map(|environment| environment.expose()) {
        Some("azure") => texts([
            "this works on a machine in Azure with a managed identity; if it has several, the user \
             name is the client id of one of them",
            "TOKEN_RESOURCE is the application id URI of the server, which Azure must know",
        ]),
        Some("gcp") => {
            texts(["this works on a machine in Google Cloud that has a service account"])
        }
        Some("k8s") => texts(["this works in a pod with a service account whose token is mounted"]),
        Some("test") => texts([
            "set OIDC_TOKEN_FILE to the path of a file with a token that this process can read",
            "ENVIRONMENT:test is for tests of drivers; use azure, gcp, k8s or a callback elsewhere",
        ]),
        _ => Vec::new(),
    }
}
