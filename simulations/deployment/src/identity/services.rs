//! The services of an identity server: the metadata services of EC2, ECS, EKS, Azure and Google,
//! and the AWS Security Token Service.

use super::{
    AwsIdentities, AwsIdentity, TokenClaims, TokenIssuer,
    date::{compact, extended},
    hex,
    http::{HttpRequest, Response, value},
};
use onionskin_core::{random::Random, time::WallTime};
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

/// The longest lifetime of a token of the EC2 metadata service, in seconds.
const MAX_TOKEN_SECONDS: u64 = 21_600;

/// The largest number of tokens of the EC2 metadata service. A further one replaces one of them.
const MAX_TOKENS: usize = 1_000;

/// The path of the EC2 metadata service for the credentials of a role.
const EC2_CREDENTIALS: &str = "/latest/meta-data/iam/security-credentials/";

/// The path of the EKS pod identity agent.
const POD_CREDENTIALS: &str = "/v1/credentials";

/// The options of an identity server.
#[derive(Clone, Debug)]
pub struct IdentityOptions {
    /// The table to which issued AWS credentials are added. The deployment under test has a clone.
    /// Default: an empty table.
    pub aws: AwsIdentities,
    /// The issuer of tokens for Azure and Google, which also verifies the tokens of web identities.
    /// The deployment under test has a clone. `None`: the services of Azure and Google do not
    /// exist, and each web identity token is accepted. Default: `None`.
    pub issuer: Option<TokenIssuer>,
    /// The name of the AWS role of the machine or container. Default: `onionskin`.
    pub role: String,
    /// The value of `AWS_CONTAINER_CREDENTIALS_RELATIVE_URI`. Default: `/v2/credentials/onionskin`.
    pub container_path: String,
    /// The authorization token that requests for the credentials of containers must have. `None`:
    /// any or none. Default: `None`.
    pub container_authorization: Option<String>,
    /// The subject of tokens of Azure and Google. Default: `machine`.
    pub subject: String,
    /// The client id that requests to Azure may name. `None`: any. Default: `None`.
    pub azure_client_id: Option<String>,
    /// The lifetime of issued credentials and tokens. Default: 1 hour.
    pub lifetime: Duration,
}

impl Default for IdentityOptions {
    fn default() -> Self {
        Self {
            aws: AwsIdentities::default(),
            issuer: None,
            role: "onionskin".to_owned(),
            container_path: "/v2/credentials/onionskin".to_owned(),
            container_authorization: None,
            subject: "machine".to_owned(),
            azure_client_id: None,
            lifetime: Duration::from_secs(3600),
        }
    }
}

/// The state of the services.
#[derive(Debug)]
pub(super) struct Services {
    pub(super) options: IdentityOptions,
    /// The tokens of the EC2 metadata service, with the time at which each expires.
    tokens: BTreeMap<String, WallTime>,
    random: Random,
}

impl Services {
    pub(super) const fn new(options: IdentityOptions, random: Random) -> Self {
        Self {
            options,
            tokens: BTreeMap::new(),
            random,
        }
    }

    /// Answers a request.
    pub(super) fn answer(&mut self, now: WallTime, request: &HttpRequest) -> Response {
        let path = request.path.as_str();
        match (request.method.as_str(), path) {
            ("PUT", "/latest/api/token") => self.ec2_token(now, request),
            ("GET", path) if path.starts_with(EC2_CREDENTIALS) => self.ec2(now, request),
            ("GET", path) if path == self.options.container_path || path == POD_CREDENTIALS => {
                self.container(now, request)
            }
            ("POST", "/") => self.web_identity(now, request),
            ("GET", "/metadata/identity/oauth2/token") => self.azure(now, request),
            ("GET", "/computeMetadata/v1/instance/service-accounts/default/identity") => {
                self.google(now, request)
            }
            ("GET" | "PUT" | "POST", _) => Response::error(404, "no such path"),
            _ => Response::error(405, "no such method"),
        }
    }

    /// Issues a token of the EC2 metadata service, version 2 (AUTH-93).
    fn ec2_token(&mut self, now: WallTime, request: &HttpRequest) -> Response {
        let seconds = request.header("x-aws-ec2-metadata-token-ttl-seconds");
        let seconds = seconds.and_then(|seconds| seconds.parse::<u64>().ok());
        let Some(seconds) = seconds.filter(|s| (1..=MAX_TOKEN_SECONDS).contains(s)) else {
            return Response::error(400, "the header with the lifetime is missing or wrong");
        };
        let mut bytes = [0; 20];
        self.random.fill(&mut bytes);
        let token = hex(&bytes);
        if self.tokens.len() >= MAX_TOKENS {
            self.tokens.pop_first();
        }
        let end = now.as_unix_millis().saturating_add(seconds * 1000);
        self.tokens
            .insert(token.clone(), WallTime::from_unix_millis(end));
        let lifetime = ("X-aws-ec2-metadata-token-ttl-seconds", seconds.to_string());
        Response {
            headers: vec![lifetime],
            ..Response::text(token)
        }
    }

    /// Returns the name of the machine's role, or the credentials of the role.
    fn ec2(&self, now: WallTime, request: &HttpRequest) -> Response {
        let token = request.header("x-aws-ec2-metadata-token");
        let end = token.and_then(|token| self.tokens.get(token));
        if end.is_none_or(|end| *end <= now) {
            return Response::error(401, "the token is missing or not valid");
        }
        let role = &self.options.role;
        match request.path.strip_prefix(EC2_CREDENTIALS) {
            Some("") => Response::text(role),
            Some(name) if name == role => {
                let identity = self.issue(now, "instance");
                let mut body = credentials(&identity);
                body["Code"] = "Success".into();
                body["Type"] = "AWS-HMAC".into();
                body["LastUpdated"] = extended(now).into();
                Response::json(&body)
            }
            _ => Response::error(404, "no such role"),
        }
    }

    /// Returns the credentials of a container (AUTH-92), also for the EKS pod identity agent.
    fn container(&self, now: WallTime, request: &HttpRequest) -> Response {
        let wanted = self.options.container_authorization.as_deref();
        if wanted.is_some() && request.header("authorization") != wanted {
            return Response::error(401, "the authorization token is missing or wrong");
        }
        let mut body = credentials(&self.issue(now, "container"));
        body["RoleArn"] = format!("arn:aws:iam::123456789012:role/{}", self.options.role).into();
        Response::json(&body)
    }

    /// Answers `AssumeRoleWithWebIdentity` (AUTH-91).
    fn web_identity(&self, now: WallTime, request: &HttpRequest) -> Response {
        let form = request.form().unwrap_or_default();
        let is_form = request
            .header("content-type")
            .is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded"));
        let is_action = value(&form, "Action") == Some("AssumeRoleWithWebIdentity")
            && value(&form, "Version") == Some("2011-06-15");
        let fields = ["RoleArn", "RoleSessionName", "WebIdentityToken"];
        let [role, session, token] = fields.map(|name| value(&form, name).unwrap_or_default());
        let is_session = (2..=64).contains(&session.len())
            && session
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "_=,.@-".contains(c));
        if !is_form || !is_action || !role.starts_with("arn:") || !is_session {
            return sts_error("ValidationError", "a field is missing or not valid");
        }
        let is_known = match &self.options.issuer {
            None => !token.is_empty(),
            Some(issuer) => issuer.verify(token, now).is_some(),
        };
        if !is_known {
            return sts_error(
                "InvalidIdentityToken",
                "the web identity token is not valid",
            );
        }
        let (aws, lifetime) = (&self.options.aws, self.options.lifetime);
        let identity = aws.issue(role, session, now, lifetime);
        // Without this header, the service answers in XML.
        if request.header("accept") != Some("application/json") {
            return Response {
                kind: "text/xml",
                ..Response::text(credentials_as_xml(&identity))
            };
        }
        let seconds = identity.expires_at.map(|end| end.as_unix_millis() / 1000);
        Response::json(&json!({ "AssumeRoleWithWebIdentityResponse": {
            "AssumeRoleWithWebIdentityResult": {
                "AssumedRoleUser": { "Arn": identity.user_arn },
                "Credentials": {
                    "AccessKeyId": identity.access_key_id,
                    "SecretAccessKey": identity.secret_access_key,
                    "SessionToken": identity.session_token,
                    "Expiration": seconds,
                },
            },
            "ResponseMetadata": { "RequestId": compact(now) },
        } }))
    }

    /// Returns a token of a managed identity (AUTH-111).
    fn azure(&self, now: WallTime, request: &HttpRequest) -> Response {
        let error = |text: &str| {
            let body = json!({ "error": "invalid_request", "error_description": text });
            Response {
                status: 400,
                ..Response::json(&body)
            }
        };
        let Some(issuer) = &self.options.issuer else {
            return Response::error(404, "no such path");
        };
        if request.header("metadata") != Some("true") {
            return error("Required metadata header not specified");
        }
        if request.header("accept") != Some("application/json") {
            return error("The header Accept is not application/json");
        }
        let resource = request
            .parameter("resource")
            .filter(|text| !text.is_empty());
        let Some(resource) = resource else {
            return error("The parameter resource is missing");
        };
        if request.parameter("api-version") != Some("2018-02-01") {
            return error("The parameter api-version is missing or not supported");
        }
        let id = request.parameter("client_id");
        let wanted = self.options.azure_client_id.as_deref();
        if id.is_some() && wanted.is_some() && id != wanted {
            return error("Identity not found");
        }
        let seconds = self.options.lifetime.as_secs();
        let end = now.as_unix_millis() / 1000 + seconds;
        Response::json(&json!({
            "access_token": self.token(issuer, now, resource),
            "client_id": id.or(wanted).unwrap_or_default(),
            "expires_in": seconds.to_string(),
            "expires_on": end.to_string(),
            "resource": resource,
            "token_type": "Bearer",
        }))
    }

    /// Returns a token of a service account (AUTH-112).
    fn google(&self, now: WallTime, request: &HttpRequest) -> Response {
        let Some(issuer) = &self.options.issuer else {
            return Response::error(404, "no such path");
        };
        if request.header("metadata-flavor") != Some("Google") {
            return Response::error(403, "Missing Metadata-Flavor:Google header.");
        }
        match request
            .parameter("audience")
            .filter(|text| !text.is_empty())
        {
            None => Response::error(400, "non-empty audience parameter required"),
            Some(audience) => Response {
                headers: vec![("Metadata-Flavor", "Google".to_owned())],
                ..Response::text(self.token(issuer, now, audience))
            },
        }
    }

    fn token(&self, issuer: &TokenIssuer, now: WallTime, audience: &str) -> String {
        let mut claims = TokenClaims::new(&self.options.subject, now, self.options.lifetime);
        claims.audience = Some(audience.to_owned());
        issuer.issue(&claims)
    }

    fn issue(&self, now: WallTime, session: &str) -> AwsIdentity {
        let options = &self.options;
        options
            .aws
            .issue(&options.role, session, now, options.lifetime)
    }
}

/// Returns credentials as the metadata services of EC2 and ECS have them.
fn credentials(identity: &AwsIdentity) -> Value {
    json!({
        "AccessKeyId": identity.access_key_id,
        "SecretAccessKey": identity.secret_access_key,
        "Token": identity.session_token,
        "Expiration": identity.expires_at.map(extended),
    })
}

/// Returns the answer of the AWS Security Token Service in XML. No value has a character that XML
/// must escape.
fn credentials_as_xml(identity: &AwsIdentity) -> String {
    let end = identity.expires_at.map(extended).unwrap_or_default();
    let fields = [
        ("AccessKeyId", identity.access_key_id.as_str()),
        ("SecretAccessKey", &identity.secret_access_key),
        (
            "SessionToken",
            identity.session_token.as_deref().unwrap_or_default(),
        ),
        ("Expiration", &end),
    ];
    let fields: String = fields
        .iter()
        .map(|(name, value)| format!("<{name}>{value}</{name}>"))
        .collect();
    let result = "AssumeRoleWithWebIdentityResult";
    format!(
        "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\
         <{result}><Credentials>{fields}</Credentials></{result}>\
         </AssumeRoleWithWebIdentityResponse>"
    )
}

fn sts_error(code: &str, text: &str) -> Response {
    let error = json!({ "Error": { "Code": code, "Message": text, "Type": "Sender" } });
    Response {
        status: 400,
        ..Response::json(&error)
    }
}
