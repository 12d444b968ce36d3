//! Tests of the identity server.

use super::{
    AwsIdentities, IdentityFault, IdentityOptions, IdentityServer, IssuerOptions, TokenClaims,
    TokenIssuer,
};
use onionskin_core::{random::Seed, time::WallTime};
use serde_json::Value;
use std::time::Duration;

const NOW: WallTime = WallTime::from_unix_millis(1_750_000_000_000);

fn seed() -> Seed {
    Seed::new([5; 32])
}

fn issuer() -> TokenIssuer {
    TokenIssuer::new(IssuerOptions::default(), &seed())
}

fn server(issuer: Option<&TokenIssuer>) -> IdentityServer {
    let options = IdentityOptions {
        issuer: issuer.cloned(),
        ..IdentityOptions::default()
    };
    IdentityServer::new(options, &seed())
}

/// Sends a request with these headers, and returns the status and the body of the answer.
fn send(server: &mut IdentityServer, at: WallTime, line: &str, headers: &[&str]) -> (u16, String) {
    send_form(server, at, line, headers, "")
}

fn send_form(
    server: &mut IdentityServer,
    at: WallTime,
    line: &str,
    headers: &[&str],
    body: &str,
) -> (u16, String) {
    let mut request = format!("{line} HTTP/1.1\r\nHost: h\r\n");
    for header in headers {
        request.push_str(&format!("{header}\r\n"));
    }
    request.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
    let mut connection = server.connect();
    let answer = server.handle_received(at, &mut connection, request.as_bytes());
    let bytes: Vec<u8> = answer.expect("an answer").pieces.remove(0).bytes;
    let text = String::from_utf8(bytes).expect("text");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).expect("a status").parse();
    (status.expect("a number"), body.to_owned())
}

fn json(body: &str) -> Value {
    serde_json::from_str(body).expect("JSON")
}

#[test]
fn the_ec2_service_gives_credentials_for_a_token() {
    let mut server = server(None);
    let path = "GET /latest/meta-data/iam/security-credentials/";
    assert_eq!(send(&mut server, NOW, path, &[]).0, 401);
    for wrong in ["0", "21601", "x", ""] {
        let header = format!("X-aws-ec2-metadata-token-ttl-seconds: {wrong}");
        assert_eq!(
            send(&mut server, NOW, "PUT /latest/api/token", &[&header]).0,
            400
        );
    }
    assert_eq!(send(&mut server, NOW, "PUT /latest/api/token", &[]).0, 400);
    let header = "X-aws-ec2-metadata-token-ttl-seconds: 30";
    let (status, token) = send(&mut server, NOW, "PUT /latest/api/token", &[header]);
    assert_eq!(status, 200);
    let token = format!("X-aws-ec2-metadata-token: {token}");
    assert_eq!(
        send(&mut server, NOW, path, &[&token]),
        (200, "onionskin".to_owned())
    );
    let of_role = format!("{path}onionskin");
    let (status, body) = send(&mut server, NOW, &of_role, &[&token]);
    let body = json(&body);
    assert_eq!((status, body["Code"].as_str()), (200, Some("Success")));
    assert_eq!(body["Expiration"], "2025-06-15T16:06:40Z");
    let id = body["AccessKeyId"].as_str().expect("an id");
    let identity = server.options().aws.find(id).expect("an identity");
    assert_eq!(body["Token"].as_str(), identity.session_token.as_deref());
    assert_eq!(body["SecretAccessKey"], identity.secret_access_key.as_str());
    assert_eq!(
        send(&mut server, NOW, &format!("{path}other"), &[&token]).0,
        404
    );
    let late = WallTime::from_unix_millis(NOW.as_unix_millis() + 30_000);
    assert_eq!(send(&mut server, late, path, &[&token]).0, 401);
    assert_eq!(
        server.requests().last().map(String::as_str),
        Some(&*format!("{path} 401"))
    );
}

#[test]
fn the_container_services_can_demand_an_authorization_token() {
    let mut server = server(None);
    let path = "GET /v2/credentials/onionskin";
    let (status, body) = send(&mut server, NOW, path, &[]);
    assert_eq!(status, 200);
    assert!(
        json(&body)["RoleArn"]
            .as_str()
            .is_some_and(|arn| arn.ends_with("/onionskin"))
    );
    server.options_mut().container_authorization = Some("secret".to_owned());
    for path in [path, "GET /v1/credentials"] {
        assert_eq!(send(&mut server, NOW, path, &[]).0, 401);
        assert_eq!(
            send(&mut server, NOW, path, &["Authorization: other"]).0,
            401
        );
        assert_eq!(
            send(&mut server, NOW, path, &["Authorization: secret"]).0,
            200
        );
    }
    assert_eq!(
        send(&mut server, NOW, "GET /v2/credentials/other", &[]).0,
        404
    );
    assert_eq!(send(&mut server, NOW, "DELETE /", &[]).0, 405);
}

#[test]
fn a_web_identity_is_exchanged_for_credentials() {
    let issuer = issuer();
    let mut server = server(Some(&issuer));
    let token = issuer.issue(&TokenClaims::new("pod", NOW, Duration::from_secs(60)));
    let fields = [
        "Action=AssumeRoleWithWebIdentity",
        "Version=2011-06-15",
        "RoleArn=arn%3Aaws%3Aiam%3A%3A42%3Arole%2Fapp",
        "RoleSessionName=session",
        &format!("WebIdentityToken={token}"),
    ];
    let headers = [
        "Content-Type: application/x-www-form-urlencoded",
        "Accept: application/json",
    ];
    let form = fields.join("&");
    let (status, body) = send_form(&mut server, NOW, "POST /", &headers, &form);
    assert_eq!(status, 200, "{body}");
    let body = json(&body);
    let result = &body["AssumeRoleWithWebIdentityResponse"]["AssumeRoleWithWebIdentityResult"];
    let arn = result["AssumedRoleUser"]["Arn"].as_str();
    assert_eq!(arn, Some("arn:aws:sts::42:assumed-role/app/session"));
    assert_eq!(result["Credentials"]["Expiration"], 1_750_003_600);
    for missing in 0..fields.len() {
        let mut fewer = fields.to_vec();
        fewer.remove(missing);
        let form = fewer.join("&");
        assert_eq!(
            send_form(&mut server, NOW, "POST /", &headers, &form).0,
            400,
            "{form}"
        );
    }
    assert_eq!(
        send_form(&mut server, NOW, "POST /", &headers[1..], &form).0,
        400
    );
    let xml = send_form(&mut server, NOW, "POST /", &headers[..1], &form).1;
    assert!(
        xml.contains("<Expiration>2025-06-15T16:06:40Z</Expiration>"),
        "{xml}"
    );
    let forged = form.replace(&token, "a.b.c");
    assert_eq!(
        send_form(&mut server, NOW, "POST /", &headers, &forged).0,
        400
    );
}

#[test]
fn azure_gives_a_token_for_a_resource() {
    let issuer = issuer();
    let mut server = server(Some(&issuer));
    let path = "GET /metadata/identity/oauth2/token?api-version=2018-02-01&resource=onionskin";
    let headers = ["Metadata: true", "Accept: application/json"];
    let (status, body) = send(&mut server, NOW, path, &headers);
    assert_eq!(status, 200, "{body}");
    let body = json(&body);
    assert_eq!(body["expires_in"], "3600");
    let token = body["access_token"].as_str().expect("a token");
    let verified = issuer.verify(token, NOW).expect("a valid token");
    assert_eq!(verified.subject, "machine");
    assert_eq!(send(&mut server, NOW, path, &headers[1..]).0, 400);
    assert_eq!(send(&mut server, NOW, path, &headers[..1]).0, 400);
    let (path_only, _) = path.split_once('?').expect("a query");
    for wrong in [
        "",
        "?resource=x",
        "?api-version=2018-02-01",
        "?api-version=1&resource=x",
    ] {
        assert_eq!(
            send(&mut server, NOW, &format!("{path_only}{wrong}"), &headers).0,
            400
        );
    }
    server.options_mut().azure_client_id = Some("right".to_owned());
    let of = |id: &str| format!("{path}&client_id={id}");
    assert_eq!(send(&mut server, NOW, &of("bad"), &headers).0, 400);
    assert_eq!(send(&mut server, NOW, &of("right"), &headers).0, 200);
}

#[test]
fn google_gives_a_token_for_an_audience() {
    let issuer = issuer();
    let mut server = server(Some(&issuer));
    let path = "GET /computeMetadata/v1/instance/service-accounts/default/identity";
    let flavor = ["Metadata-Flavor: Google"];
    let (status, token) = send(
        &mut server,
        NOW,
        &format!("{path}?audience=onionskin"),
        &flavor,
    );
    assert_eq!(status, 200);
    assert!(issuer.verify(&token, NOW).is_some());
    let (_, token) = send(&mut server, NOW, &format!("{path}?audience=other"), &flavor);
    assert!(
        issuer.verify(&token, NOW).is_none(),
        "a token for another audience"
    );
    assert_eq!(
        send(&mut server, NOW, &format!("{path}?audience=onionskin"), &[]).0,
        403
    );
    assert_eq!(send(&mut server, NOW, path, &flavor).0, 400);
    server.options_mut().issuer = None;
    assert_eq!(
        send(
            &mut server,
            NOW,
            &format!("{path}?audience=onionskin"),
            &flavor
        )
        .0,
        404
    );
}

#[test]
fn each_fault_changes_the_answer_and_is_bounded() {
    let mut server = server(None);
    let request = b"GET /v2/credentials/onionskin HTTP/1.1\r\nHost: h\r\n\r\n";
    let mut answer = |fault| {
        // The same identity each time, so that only the fault makes a difference.
        server.options_mut().aws = AwsIdentities::default();
        server.set_fault(fault);
        let mut connection = server.connect();
        let answer = server.handle_received(NOW, &mut connection, request);
        assert_eq!(server.handle_received(NOW, &mut connection, request), None);
        answer.expect("an answer")
    };
    let honest = answer(None);
    for fault in IdentityFault::ALL {
        let faulty = answer(Some(fault));
        assert_ne!(faulty, honest, "{fault:?}");
        let pieces = faulty.pieces.iter();
        let bytes: usize = pieces
            .map(|piece| piece.bytes.len() * piece.times as usize)
            .sum();
        assert!(bytes <= 65 * 1024 * 1024, "{fault:?}: {bytes} bytes");
    }
}

#[test]
fn drawn_faults_depend_only_on_the_seed() {
    let run = || {
        let mut server = server(None);
        server.set_fault_rate(500);
        let mut answers = Vec::new();
        for _ in 0..50 {
            let mut connection = server.connect();
            let request = b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n";
            answers.push(server.handle_received(NOW, &mut connection, request));
        }
        answers
    };
    let answers = run();
    assert!(answers == run());
    assert!(answers.iter().any(|answer| *answer != answers[0]));
}
