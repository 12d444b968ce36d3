//! The source of tokens: the callback of the application, or the environment.

use super::{Token, TokenCache};
use crate::{
    auth::{
        fetch::{CallLimits, ENDPOINT_LIMIT, FetchStep, Finding, Inquiry, WRONG_KIND, quote},
        need::Provided,
    },
    http::{HttpRequest, HttpResponse, Method, percent_encode},
    options::{Credential, IdpInfo, OidcFlow, OidcRequest, OidcTokens, Secret, Supplied},
};
use std::{sync::Arc, time::Duration};

/// The limit of a callback in the human flow: 5 minutes (AUTH-119).
const HUMAN_LIMIT: Duration = Duration::from_secs(5 * 60);

/// The file of the environment `k8s` if no variable names one (AUTH-113).
const KUBERNETES_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// The variables that name the file with the token: of the environments `k8s` and `test`.
const KUBERNETES_VARIABLES: &[&str] =
    &["AZURE_FEDERATED_TOKEN_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE"];
const TEST_VARIABLES: &[&str] = &["OIDC_TOKEN_FILE"];

/// The variable that names another endpoint than that of Azure, as in Azure's own libraries.
const AZURE_VARIABLES: &[&str] = &["AZURE_POD_IDENTITY_AUTHORITY_HOST"];

/// The variable that names another host than that of Google Cloud, as in Google's own libraries.
const GCP_VARIABLES: &[&str] = &["GCE_METADATA_HOST"];

/// The endpoint of Azure (AUTH-111).
const AZURE: &str = "http://169.254.169.254";

/// The host of the endpoint of Google Cloud (AUTH-112).
const GCP_HOST: &str = "metadata";

/// The environment that provides tokens: the mechanism property `ENVIRONMENT` (AUTH-104).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Environment {
    Test,
    Azure,
    Gcp,
    Kubernetes,
}

impl Environment {
    fn of(credential: &Credential) -> Option<Self> {
        match credential.property("ENVIRONMENT")?.expose() {
            "test" => Some(Self::Test),
            "azure" => Some(Self::Azure),
            "gcp" => Some(Self::Gcp),
            "k8s" => Some(Self::Kubernetes),
            _ => None,
        }
    }

    const fn variables(self) -> &'static [&'static str] {
        match self {
            Self::Test => TEST_VARIABLES,
            Self::Azure => AZURE_VARIABLES,
            Self::Gcp => GCP_VARIABLES,
            Self::Kubernetes => KUBERNETES_VARIABLES,
        }
    }
}

#[derive(Debug)]
enum State {
    /// The callback was called, in the human flow with this identity provider and this refresh
    /// token.
    Callback {
        idp_info: Option<Arc<IdpInfo>>,
        refresh: Option<Secret>,
    },
    /// The variables of the environment are awaited.
    Variables {
        environment: Environment,
        resource: String,
        client_id: Option<String>,
    },
    File,
    Response(Environment),
    Over,
}

/// The fetch of one token.
#[derive(Debug)]
pub(in crate::auth) struct TokenSource {
    state: State,
    limit: Duration,
}

impl TokenSource {
    /// Begins a fetch. In the human flow, `idp_info` is the identity provider that the server named
    /// in a two-step conversation. Without it, the cached refresh token is used (AUTH-129).
    pub(in crate::auth) fn begin(
        credential: &Credential,
        idp_info: Option<Arc<IdpInfo>>,
        cache: &TokenCache,
        limits: CallLimits,
    ) -> (Self, FetchStep) {
        if credential.oidc_callback.is_set() {
            return Self::call(credential, idp_info, cache, limits);
        }
        let limit = limits.machine;
        let Some(environment) = Environment::of(credential) else {
            let source = Self {
                state: State::Over,
                limit,
            };
            let reason = "the credential has neither ENVIRONMENT nor a callback".to_owned();
            return (source, FetchStep::Failed(reason));
        };
        let resource = credential.property("TOKEN_RESOURCE");
        let source = Self {
            state: State::Variables {
                environment,
                resource: resource.map_or(String::new(), |r| r.expose().to_owned()),
                client_id: credential.username.clone().filter(|name| !name.is_empty()),
            },
            limit,
        };
        let inquiry = Inquiry::Environment(environment.variables());
        (source, FetchStep::Ask(inquiry, ENDPOINT_LIMIT))
    }

    fn call(
        credential: &Credential,
        idp_info: Option<Arc<IdpInfo>>,
        cache: &TokenCache,
        limits: CallLimits,
    ) -> (Self, FetchStep) {
        let callback = &credential.oidc_callback;
        let limit = match callback.flow() {
            OidcFlow::Machine => limits.machine,
            OidcFlow::Human => HUMAN_LIMIT,
        };
        let username = credential.username.clone().filter(|name| !name.is_empty());
        let mut request = OidcRequest::new(limit, username);
        let mut idp_info = idp_info;
        if callback.flow() == OidcFlow::Human {
            // A refresh token is not passed in a two-step conversation (AUTH-129).
            if idp_info.is_none()
                && let Some((refresh, cached)) = cache.refresh()
            {
                request.refresh_token = Some(refresh.clone());
                idp_info = Some(cached.clone());
            }
            request.idp_info = idp_info.as_deref().cloned();
        }
        let refresh = request.refresh_token.clone();
        let source = Self {
            state: State::Callback { idp_info, refresh },
            limit,
        };
        let step = match callback.call(request) {
            Some(call) => FetchStep::Ask(Inquiry::Call(call), limit),
            None => FetchStep::Failed("the credential has no callback".to_owned()),
        };
        (source, step)
    }

    pub(in crate::auth) fn handle_finding(
        &mut self,
        finding: Result<Finding, String>,
    ) -> FetchStep {
        match self.next(finding) {
            Ok(step) => step,
            Err(reason) => FetchStep::Failed(format!("no OIDC token: {reason}")),
        }
    }

    fn next(&mut self, finding: Result<Finding, String>) -> Result<FetchStep, String> {
        match (std::mem::replace(&mut self.state, State::Over), finding) {
            (
                State::Callback { idp_info, refresh },
                Ok(Finding::Supplied(Supplied::Oidc(mut tokens))),
            ) => {
                // A refresh token stays valid unless a new one replaces it (RFC 6749, section 6).
                tokens.refresh_token = tokens.refresh_token.or(refresh);
                done(tokens, idp_info, "the OIDC callback")
            }
            (State::Callback { .. }, Err(reason)) => {
                Err(format!("the OIDC callback failed: {reason}"))
            }
            (
                State::Variables {
                    environment,
                    resource,
                    client_id,
                },
                Ok(Finding::Environment(values)),
            ) => self.on_variables(environment, &resource, client_id.as_deref(), &values),
            (State::File, Ok(Finding::File(token))) => {
                let tokens = OidcTokens::new(token.expose().trim());
                done(tokens, None, "the token file")
            }
            (State::Response(environment), Ok(Finding::Http(response))) => {
                let token = token_of(environment, &response)?;
                done(OidcTokens::new(token), None, "the metadata service")
            }
            (State::Response(_), Err(reason)) => {
                Err(format!("the metadata service failed: {reason}"))
            }
            (State::Variables { .. } | State::File, Err(reason)) => Err(reason),
            (_, Ok(_)) | (State::Over, Err(_)) => Err(WRONG_KIND.to_owned()),
        }
    }

    fn on_variables(
        &mut self,
        environment: Environment,
        resource: &str,
        client_id: Option<&str>,
        values: &[Option<Secret>],
    ) -> Result<FetchStep, String> {
        let first = values.iter().flatten().next().map(Secret::expose);
        let request = match environment {
            Environment::Test => {
                let file = first.ok_or("the variable OIDC_TOKEN_FILE is not set")?;
                return Ok(self.read(file));
            }
            Environment::Kubernetes => return Ok(self.read(first.unwrap_or(KUBERNETES_FILE))),
            Environment::Azure => {
                let base = first.unwrap_or(AZURE).trim_end_matches('/');
                let mut url = format!(
                    "{base}/metadata/identity/oauth2/token?api-version=2018-02-01&resource="
                );
                percent_encode(&mut url, resource);
                if let Some(client_id) = client_id {
                    url.push_str("&client_id=");
                    percent_encode(&mut url, client_id);
                }
                let request = HttpRequest::new(Method::Get, &url)
                    .map_err(|reason| format!("{}: {reason}", AZURE_VARIABLES[0]))?;
                request
                    .with_header("Accept", Secret::new("application/json"))?
                    .with_header("Metadata", Secret::new("true"))?
            }
            Environment::Gcp => {
                let host = first.unwrap_or(GCP_HOST);
                let mut url = format!(
                    "http://{host}/computeMetadata/v1/instance/service-accounts/default/identity\
                     ?audience="
                );
                percent_encode(&mut url, resource);
                let request = HttpRequest::new(Method::Get, &url)
                    .map_err(|reason| format!("{}: {reason}", GCP_VARIABLES[0]))?;
                request.with_header("Metadata-Flavor", Secret::new("Google"))?
            }
        };
        self.state = State::Response(environment);
        Ok(FetchStep::Ask(Inquiry::Http(request), self.limit))
    }

    fn read(&mut self, file: &str) -> FetchStep {
        self.state = State::File;
        FetchStep::Ask(Inquiry::File(file.to_owned()), ENDPOINT_LIMIT)
    }
}

/// Returns the token in the response of a metadata service.
fn token_of(environment: Environment, response: &HttpResponse) -> Result<String, String> {
    let body = response.body.text()?;
    if response.status != 200 {
        // The error includes the body of the response (AUTH-111, AUTH-112).
        return Err(format!(
            "the metadata service replied with the status {}: {}",
            response.status,
            quote(body)
        ));
    }
    if environment == Environment::Gcp {
        return Ok(body.trim().to_owned());
    }
    let document: serde_json::Value = serde_json::from_str(body)
        .map_err(|_| "the response of the metadata service is not JSON".to_owned())?;
    let token = document["access_token"].as_str();
    let token = token.ok_or("the response of the metadata service has no access_token")?;
    Ok(token.to_owned())
}

fn done(
    tokens: OidcTokens,
    idp_info: Option<Arc<IdpInfo>>,
    source: &str,
) -> Result<FetchStep, String> {
    if tokens.access_token.expose().is_empty() {
        return Err(format!("{source} returned an empty access token"));
    }
    let token = Token {
        access: tokens.access_token,
        // Only the human flow has refresh tokens.
        refresh: tokens.refresh_token.filter(|_| idp_info.is_some()),
        idp_info,
    };
    Ok(FetchStep::Done(Provided::Token(Arc::new(token))))
}

#[cfg(test)]
mod tests;
