//! The search for AWS credentials in the order of the specification (AUTH-88).
//!
//! ```text
//! provider ─► done
//! environment ─► keys of the environment ─► done
//!      │
//!      ├─► AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN: file ─► STS ─► done
//!      ├─► AWS_CONTAINER_CREDENTIALS_…_URI: (token file) ─► endpoint ─► done
//!      └─► EC2: session token ─► role name ─► credentials ─► done
//! ```
//!
//! Inside a container there is no fallback to the metadata service of EC2 (AUTH-97). The files of
//! the AWS command line (`~/.aws/credentials`) are not read, because the driver does not use an AWS
//! SDK (AUTH-96). A provider of the application can call an SDK.

mod answer;

use super::AwsSource;
use crate::{
    auth::fetch::{CallLimits, ENDPOINT_LIMIT, FetchStep, Finding, Inquiry, WRONG_KIND},
    http::{HttpRequest, Method, percent_encode},
    options::{Credential, CredentialProvider, Secret, Supplied},
};
use answer::{Found, parse, success};
use std::net::IpAddr;

/// The environment variables that the search reads, in the order of `Variables`.
const VARIABLES: &[&str] = &[
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_ENDPOINT_URL_STS",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_EC2_METADATA_SERVICE_ENDPOINT",
    "AWS_EC2_METADATA_DISABLED",
];

/// The endpoint of STS (AUTH-91), unless `AWS_ENDPOINT_URL_STS` names another one.
const STS: &str = "https://sts.amazonaws.com/";

/// The endpoint of ECS (AUTH-92).
const ECS: &str = "http://169.254.170.2";

/// The endpoint of EC2 (AUTH-93), unless `AWS_EC2_METADATA_SERVICE_ENDPOINT` names another one.
const EC2: &str = "http://169.254.169.254";

/// The addresses of `AWS_CONTAINER_CREDENTIALS_FULL_URI` to which the authorization token is sent
/// without TLS, beside those of the loopback interface: ECS and EKS.
const CONTAINER_HOSTS: [&str; 3] = ["169.254.170.2", "169.254.170.23", "fd00:ec2::23"];

/// The path below which the metadata service of EC2 has the names of roles and their credentials.
const EC2_ROLES: &str = "/latest/meta-data/iam/security-credentials/";

/// The time for which the session token of the metadata service is valid, in seconds (AUTH-93).
const EC2_TOKEN_SECONDS: &str = "30";

/// The header with the session token of the metadata service.
const EC2_TOKEN_HEADER: &str = "X-aws-ec2-metadata-token";

/// The maximum length of the name of a role, in bytes. Names of IAM roles have at most 64.
const MAX_ROLE_BYTES: usize = 512;

/// The values of [`VARIABLES`].
#[derive(Debug)]
struct Variables(Vec<Option<Secret>>);

impl Variables {
    fn get(&self, name: &str) -> Option<&str> {
        let place = VARIABLES.iter().position(|known| *known == name)?;
        self.0.get(place)?.as_ref().map(Secret::expose)
    }
}

#[derive(Debug)]
enum State {
    Provider,
    Environment,
    WebIdentityFile {
        variables: Variables,
    },
    ContainerTokenFile {
        request: HttpRequest,
    },
    /// A response with credentials is awaited. `sent` are the secrets of the request.
    Credentials {
        origin: AwsSource,
        endpoint: String,
        sent: Vec<Secret>,
    },
    Ec2Token {
        base: String,
    },
    Ec2Role {
        base: String,
        token: Secret,
    },
    Over,
}

impl State {
    /// The error of a question that this state asked and that failed with `reason`.
    fn explain(&self, reason: &str) -> String {
        match self {
            Self::Provider => format!("the provider failed: {reason}"),
            Self::Environment => reason.to_owned(),
            Self::WebIdentityFile { .. } => {
                format!("the file of AWS_WEB_IDENTITY_TOKEN_FILE: {reason}")
            }
            Self::ContainerTokenFile { .. } => {
                format!("the file of AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: {reason}")
            }
            Self::Credentials { origin, .. } => format!("{} failed: {reason}", origin.name()),
            Self::Ec2Token { .. } | Self::Ec2Role { .. } => format!(
                "no access key is in the environment, and {} failed: {reason}",
                AwsSource::Instance.name()
            ),
            Self::Over => WRONG_KIND.to_owned(),
        }
    }
}

/// The search for AWS credentials.
#[derive(Debug)]
pub(in crate::auth) struct Sources {
    state: State,
    /// The source from which earlier credentials came. The search begins with this source, so that
    /// variables that have appeared since do not replace it (AUTH-90).
    earlier: Option<AwsSource>,
    session_name: String,
}

impl Sources {
    pub(in crate::auth) fn begin(
        credential: &Credential,
        earlier: Option<AwsSource>,
        limits: CallLimits,
        session_name: String,
    ) -> (Self, FetchStep) {
        let (state, step) = match &credential.provider {
            Some(CredentialProvider::Aws(provider)) => {
                let call = Inquiry::Call(provider.call());
                (State::Provider, FetchStep::Ask(call, limits.machine))
            }
            _ => {
                // The environment is read for each search (AUTH-89).
                let inquiry = Inquiry::Environment(VARIABLES);
                (State::Environment, FetchStep::Ask(inquiry, ENDPOINT_LIMIT))
            }
        };
        let sources = Self {
            state,
            earlier,
            session_name,
        };
        (sources, step)
    }

    pub(in crate::auth) fn handle_finding(
        &mut self,
        finding: Result<Finding, String>,
    ) -> FetchStep {
        match self.next(finding) {
            Ok(step) => step,
            Err(reason) => FetchStep::Failed(format!("no AWS credentials: {reason}")),
        }
    }

    fn next(&mut self, finding: Result<Finding, String>) -> Result<FetchStep, String> {
        let state = std::mem::replace(&mut self.state, State::Over);
        match finding {
            Ok(finding) => self.on_found(state, finding),
            Err(reason) => Err(state.explain(&reason)),
        }
    }

    fn on_found(&mut self, state: State, finding: Finding) -> Result<FetchStep, String> {
        match (state, finding) {
            (State::Provider, Finding::Supplied(Supplied::Aws(found))) => {
                let found = Found {
                    id: found.access_key_id,
                    secret: found.secret_access_key,
                    token: found.session_token,
                    expires_at: found.expires_at,
                };
                found.into_step(AwsSource::Provider)
            }
            (State::Environment, Finding::Environment(values)) => {
                self.on_environment(Variables(values))
            }
            (State::WebIdentityFile { variables }, Finding::File(token)) => {
                self.ask_sts(&variables, &token)
            }
            (State::ContainerTokenFile { request }, Finding::File(token)) => {
                self.ask_container(request, Some(token.expose().trim()))
            }
            (State::Ec2Token { base }, Finding::Http(response)) => {
                let token = Secret::new(success(&response, &[])?.trim());
                let url = format!("{base}{EC2_ROLES}");
                let request = HttpRequest::new(Method::Get, &url)?
                    .with_header(EC2_TOKEN_HEADER, token.clone())?;
                self.state = State::Ec2Role { base, token };
                Ok(ask(request))
            }
            (State::Ec2Role { base, token }, Finding::Http(response)) => {
                let role = success(&response, std::slice::from_ref(&token))?
                    .lines()
                    .next()
                    .unwrap_or_default()
                    .trim();
                if role.is_empty() || role.len() > MAX_ROLE_BYTES {
                    return Err("the EC2 instance has no role".to_owned());
                }
                let mut url = format!("{base}{EC2_ROLES}");
                percent_encode(&mut url, role);
                let request = HttpRequest::new(Method::Get, &url)?
                    .with_header(EC2_TOKEN_HEADER, token.clone())?;
                Ok(self.ask_for_credentials(AwsSource::Instance, request, vec![token]))
            }
            (
                State::Credentials {
                    origin,
                    endpoint,
                    sent,
                },
                Finding::Http(response),
            ) => {
                let found = success(&response, &sent).and_then(|body| parse(body, origin));
                let found = found.map_err(|reason| format!("{endpoint}: {reason}"))?;
                found.into_step(origin)
            }
            _ => Err(WRONG_KIND.to_owned()),
        }
    }

    fn on_environment(&mut self, variables: Variables) -> Result<FetchStep, String> {
        let keys = [
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
        ];
        let begins_at = |origin| self.earlier.is_none_or(|earlier| earlier <= origin);
        if begins_at(AwsSource::Environment) {
            match keys.map(|name| variables.get(name)) {
                [None, None, None] => {}
                [Some(id), Some(secret), token] => {
                    let found = Found {
                        id: id.to_owned(),
                        secret: Secret::new(secret),
                        token: token.map(Secret::new),
                        expires_at: None,
                    };
                    return found.into_step(AwsSource::Environment);
                }
                // Other combinations are errors (AUTH-87).
                [None, Some(_), _] => return Err("AWS_ACCESS_KEY_ID is not set".to_owned()),
                [Some(_), None, _] => return Err("AWS_SECRET_ACCESS_KEY is not set".to_owned()),
                [None, None, Some(_)] => {
                    return Err("AWS_SESSION_TOKEN is set without AWS_ACCESS_KEY_ID".to_owned());
                }
            }
        }
        if begins_at(AwsSource::WebIdentity)
            && let (Some(file), Some(_)) = (
                variables.get("AWS_WEB_IDENTITY_TOKEN_FILE"),
                variables.get("AWS_ROLE_ARN"),
            )
        {
            let inquiry = Inquiry::File(file.to_owned());
            self.state = State::WebIdentityFile { variables };
            return Ok(FetchStep::Ask(inquiry, ENDPOINT_LIMIT));
        }
        if begins_at(AwsSource::Container)
            && let Some(request) = container(&variables)?
        {
            let file = variables.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
            if let Some(file) = file {
                let inquiry = Inquiry::File(file.to_owned());
                self.state = State::ContainerTokenFile { request };
                return Ok(FetchStep::Ask(inquiry, ENDPOINT_LIMIT));
            }
            let token = variables.get("AWS_CONTAINER_AUTHORIZATION_TOKEN");
            return self.ask_container(request, token);
        }
        let disabled = variables.get("AWS_EC2_METADATA_DISABLED");
        if disabled.is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Err(
                "no access key is in the environment, and AWS_EC2_METADATA_DISABLED is set"
                    .to_owned(),
            );
        }
        let base = variables.get("AWS_EC2_METADATA_SERVICE_ENDPOINT");
        let base = base.unwrap_or(EC2).trim_end_matches('/').to_owned();
        let request = HttpRequest::new(Method::Put, &format!("{base}/latest/api/token"))
            .map_err(in_variable("AWS_EC2_METADATA_SERVICE_ENDPOINT"))?
            .with_header(
                "X-aws-ec2-metadata-token-ttl-seconds",
                Secret::new(EC2_TOKEN_SECONDS),
            )?;
        self.state = State::Ec2Token { base };
        Ok(ask(request))
    }

    /// Asks STS for the credentials of a role (AUTH-91). The parameters go in the body, so that the
    /// token is in no URL.
    fn ask_sts(&mut self, variables: &Variables, token: &Secret) -> Result<FetchStep, String> {
        let session = variables.get("AWS_ROLE_SESSION_NAME");
        let mut body = "Action=AssumeRoleWithWebIdentity&Version=2011-06-15".to_owned();
        for (name, value) in [
            ("RoleSessionName", session.unwrap_or(&self.session_name)),
            ("RoleArn", variables.get("AWS_ROLE_ARN").unwrap_or_default()),
            ("WebIdentityToken", token.expose().trim()),
        ] {
            body.push('&');
            body.push_str(name);
            body.push('=');
            percent_encode(&mut body, value);
        }
        let url = variables.get("AWS_ENDPOINT_URL_STS").unwrap_or(STS);
        let request = HttpRequest::new(Method::Post, url)
            .map_err(in_variable("AWS_ENDPOINT_URL_STS"))?
            .with_header("Accept", Secret::new("application/json"))?
            .with_body("application/x-www-form-urlencoded", body.into_bytes());
        let sent = vec![Secret::new(token.expose().trim())];
        Ok(self.ask_for_credentials(AwsSource::WebIdentity, request, sent))
    }

    /// Asks the endpoint of a container, with its authorization token if it has one.
    fn ask_container(
        &mut self,
        request: HttpRequest,
        token: Option<&str>,
    ) -> Result<FetchStep, String> {
        let parts = request.path().split(['/', '?', '&', '=']);
        let mut sent: Vec<_> = parts.filter(may_be_secret).map(Secret::new).collect();
        let request = match token {
            Some(token) => {
                sent.push(Secret::new(token));
                request.with_header("Authorization", Secret::new(token))?
            }
            None => request,
        };
        Ok(self.ask_for_credentials(AwsSource::Container, request, sent))
    }

    fn ask_for_credentials(
        &mut self,
        origin: AwsSource,
        request: HttpRequest,
        sent: Vec<Secret>,
    ) -> FetchStep {
        self.state = State::Credentials {
            origin,
            endpoint: request.to_string(),
            sent,
        };
        ask(request)
    }
}

/// True for a part of a URL that is no word, such as the id of the credentials of a container.
fn may_be_secret(part: &&str) -> bool {
    part.len() >= 16 || (part.len() >= 8 && part.contains(|c: char| c.is_ascii_digit()))
}

/// Returns a function that adds the name of the variable to the reason why its URL is not valid.
fn in_variable(name: &'static str) -> impl Fn(String) -> String {
    move |reason| format!("{name}: {reason}")
}

fn ask(request: HttpRequest) -> FetchStep {
    FetchStep::Ask(Inquiry::Http(request), ENDPOINT_LIMIT)
}

/// Returns the request to the endpoint of a container (AUTH-92); `None` outside of a container.
fn container(variables: &Variables) -> Result<Option<HttpRequest>, String> {
    if let Some(path) = variables.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") {
        let slash = if path.starts_with('/') { "" } else { "/" };
        let request = HttpRequest::new(Method::Get, &format!("{ECS}{slash}{path}"))
            .map_err(in_variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"))?;
        return Ok(Some(request));
    }
    let Some(url) = variables.get("AWS_CONTAINER_CREDENTIALS_FULL_URI") else {
        return Ok(None);
    };
    let request = HttpRequest::new(Method::Get, url)
        .map_err(in_variable("AWS_CONTAINER_CREDENTIALS_FULL_URI"))?;
    let address = request.address();
    let host = address.host();
    let is_loopback = host
        .parse::<IpAddr>()
        .map_or(host == "localhost", |ip| ip.is_loopback());
    if request.is_secure() || is_loopback || CONTAINER_HOSTS.contains(&host) {
        return Ok(Some(request));
    }
    Err(format!(
        "AWS_CONTAINER_CREDENTIALS_FULL_URI names {host}, to which credentials would go without \
         TLS; use https or an address of ECS, EKS or the loopback interface"
    ))
}

#[cfg(test)]
mod tests;
