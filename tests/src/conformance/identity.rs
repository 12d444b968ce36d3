//! Tests of TLS certificates and of passwords.

use super::{
    Host, client,
    dialing::expect_selection_error,
    end, find, impatient,
    server::{Request, Server, Step, answer, hello},
    within,
};
use crate::peers::Scratch;
use bson::{Binary, doc, spec::BinarySubtype};
use onionskin_core::error::{Error, ErrorKind, IoError, NetworkFault, TlsFault};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use std::{
    io::{Read, Write},
    net::TcpStream,
    path::PathBuf,
    sync::Arc,
};

/// Starts a TLS server with a certificate for `name`. Returns the server and the path of the
/// authority's certificate.
pub(crate) fn secure_server(name: &str, scratch: &Scratch) -> (Server, PathBuf) {
    scripted_secure_server(name, scratch, answer)
}

/// Starts a TLS server like [`secure_server`] that answers as `script` says.
pub(crate) fn scripted_secure_server(
    name: &str,
    scratch: &Scratch,
    script: impl Fn(&Request) -> Vec<Step> + Send + Sync + 'static,
) -> (Server, PathBuf) {
    let authority_key = KeyPair::generate().expect("a key");
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let signed = authority
        .self_signed(&authority_key)
        .expect("a certificate");
    let file = format!("{name}.pem");
    let file = scratch.write(&file, &signed.pem()).expect("a file");
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    let certificate = params.signed_by(&key, &issuer).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .expect("they belong together");
    (Server::tls(config, script), file)
}

fn tls_fault(error: &Error) -> Option<TlsFault> {
    match error.kind() {
        ErrorKind::Tls { fault, .. } => Some(*fault),
        _ => None,
    }
}

/// A certificate for the right name by a trusted authority is accepted.
pub async fn a_valid_certificate_is_accepted<H: Host>() {
    let scratch = Scratch::new().expect("a directory");
    let (server, ca) = secure_server("127.0.0.1", &scratch);
    let uri = server.uri(&format!("tls=true&tlsCAFile={}", ca.display()));
    let client = client::<H>(&uri);
    for n in 0..3 {
        find(&client, n).await.expect("a reply");
    }
    super::things(&client)
        .insert_one(&doc! { "text": "x".repeat(3_000_000) })
        .await
        .expect("many records");
    end::<H>(client, &server).await;
}

/// An untrusted authority and a wrong host name give different errors. For each there is an option
/// with which the client connects nevertheless.
pub async fn an_invalid_certificate_is_reported_unless_its_check_is_disabled<H: Host>() {
    let scratch = Scratch::new().expect("a directory");
    let (here, _) = secure_server("127.0.0.1", &scratch);
    let (elsewhere, ca) = secure_server("elsewhere.example.net", &scratch);
    let known = format!("&tlsCAFile={}", ca.display());
    let cases = [
        (
            &here,
            String::new(),
            TlsFault::Certificate,
            "tlsAllowInvalidCertificates",
        ),
        (&here, known.clone(), TlsFault::Certificate, "tlsInsecure"),
        (
            &elsewhere,
            known,
            TlsFault::HostName,
            "tlsAllowInvalidHostnames",
        ),
    ];
    for (server, options, fault, relaxed) in cases {
        let options = impatient::<H>("tls=true") + &options;
        let strict = client::<H>(&server.uri(&options));
        let cause = expect_selection_error::<H>(&strict, &server.address()).await;
        assert_eq!(tls_fault(&cause), Some(fault), "{cause:?}");
        end::<H>(strict, server).await;
        let lax = client::<H>(&server.uri(&format!("{options}&{relaxed}=true")));
        find(&lax, 1).await.expect("a reply");
        end::<H>(lax, server).await;
    }
}

/// If only one side uses TLS, server selection fails with the reason.
pub async fn tls_on_only_one_side_fails_server_selection<H: Host>() {
    let scratch = Scratch::new().expect("a directory");
    let (secure, _) = secure_server("127.0.0.1", &scratch);
    let plain = client::<H>(&secure.uri(&impatient::<H>("")));
    let cause = expect_selection_error::<H>(&plain, &secure.address()).await;
    let is_peer = matches!(
        cause.kind(),
        ErrorKind::InvalidResponse { .. }
            | ErrorKind::Io(IoError {
                fault: NetworkFault::Closed | NetworkFault::Reset,
                ..
            })
    );
    assert!(is_peer, "{cause:?}");
    end::<H>(plain, &secure).await;

    let chatty = Server::raw(|mut stream: TcpStream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let tls_client = client::<H>(&chatty.uri(&impatient::<H>("tls=true")));
    let cause = expect_selection_error::<H>(&tls_client, &chatty.address()).await;
    assert_eq!(tls_fault(&cause), Some(TlsFault::Handshake), "{cause:?}");
    end::<H>(tls_client, &chatty).await;

    let server = Server::plain::<H>();
    let tls_client = client::<H>(&server.uri(&impatient::<H>("tls=true")));
    expect_selection_error::<H>(&tls_client, &server.address()).await;
    end::<H>(tls_client, &server).await;
}

/// Starts a server that supports SCRAM and answers `saslStart` as `treat` says.
fn server_with_scram<H: Host>(
    treat: impl Fn(&Request) -> Vec<Step> + Send + Sync + 'static,
) -> Server {
    Server::scripted::<H>(move |request| match request.name.as_str() {
        _ if request.is_hello() => {
            let mut reply = hello(request.connection);
            if request.body.contains_key("saslSupportedMechs") {
                reply.insert("saslSupportedMechs", vec!["SCRAM-SHA-256", "SCRAM-SHA-1"]);
            }
            request.reply(&reply)
        }
        "saslStart" => treat(request),
        _ => answer(request),
    })
}

/// Asserts that authentication fails in time. The error contains the server's address and not the
/// password. Returns the text of the error.
async fn expect_authentication_error<H: Host>(server: &Server) -> String {
    let uri = server.uri(&impatient::<H>(""));
    let uri = uri.replace("mongodb://", "mongodb://user:sesame@");
    let client = client::<H>(&uri);
    let result = within::<H, _>(H::SLACK, "the refusal", find(&client, 1)).await;
    let error = result.expect_err("nobody is let in");
    let is_authentication = matches!(error.kind(), ErrorKind::Authentication { .. });
    assert!(is_authentication, "{error:?}");
    assert_eq!(
        error.server().map(ToString::to_string),
        Some(server.address())
    );
    let text = format!("{error} {error:?} {client:?} {:?}", client.options());
    assert!(!text.contains("sesame"), "{text} has the password");
    assert!(server.seen("find").is_empty(), "it went on without proof");
    end::<H>(client, server).await;
    error.to_string()
}

/// The server refuses the credentials, and the operation fails with the server's text.
pub async fn a_wrong_password_is_reported_with_the_servers_message<H: Host>() {
    let server = server_with_scram::<H>(|request| {
        request.reply(&doc! {
            "ok": 0,
            "code": 18,
            "codeName": "AuthenticationFailed",
            "errmsg": "Authentication failed.",
        })
    });
    let text = expect_authentication_error::<H>(&server).await;
    assert!(text.contains("Authentication failed."), "{text}");
}

/// The server's nonce does not begin with the client's nonce, so the client refuses to continue.
pub async fn a_server_with_a_wrong_nonce_fails_authentication<H: Host>() {
    let server = server_with_scram::<H>(|request| {
        let payload = Binary {
            subtype: BinarySubtype::Generic,
            bytes: b"r=somebodyelses,s=c2FsdHNhbHRzYWx0c2FsdA==,i=4096".to_vec(),
        };
        request.reply(&doc! { "ok": 1, "conversationId": 1, "done": false, "payload": payload })
    });
    expect_authentication_error::<H>(&server).await;
}
