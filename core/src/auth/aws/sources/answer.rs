//! The responses of endpoints with AWS credentials.

use super::super::{AwsKeys, AwsSource};
use crate::{
    auth::{
        fetch::{FetchStep, quote},
        need::Provided,
        redaction::redacted,
    },
    http::HttpResponse,
    options::Secret,
    time::WallTime,
};
use bson::DateTime;
use std::sync::Arc;

/// Returns the body of a response with the status 200. The error has the code and the message that
/// the endpoint gives, unless they repeat a part of the request in `sent`, as some endpoints and
/// proxies do.
pub(super) fn success<'a>(response: &'a HttpResponse, sent: &[Secret]) -> Result<&'a str, String> {
    match response.status {
        200 => response.body.text(),
        status => {
            let mut text = format!("the response has the status {status}");
            let body = response.body.text().unwrap_or_default();
            for part in reasons_in(body) {
                text = format!("{text}: {}", redacted(&quote(&part), sent));
            }
            Err(text)
        }
    }
}

/// Returns the code and the message in the JSON document of an error. The rest of a response is not
/// shown, because it can repeat the request.
fn reasons_in(body: &str) -> Vec<String> {
    let document: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    // STS has the fields in an object `Error`, and EC2 and the containers have them outside.
    let fields = match &document["Error"] {
        error if error.is_object() => error,
        _ => &document,
    };
    let text = |names: [&str; 2]| names.iter().find_map(|name| fields[*name].as_str());
    let parts = [text(["Code", "code"]), text(["Message", "message"])];
    parts.into_iter().flatten().map(str::to_owned).collect()
}

/// Credentials that a source returned, not checked yet.
pub(super) struct Found {
    pub(super) id: String,
    pub(super) secret: Secret,
    pub(super) token: Option<Secret>,
    pub(super) expires_at: Option<WallTime>,
}

impl Found {
    pub(super) fn into_step(self, origin: AwsSource) -> Result<FetchStep, String> {
        let is_printable =
            |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
        if !is_printable(&self.id) || self.secret.expose().is_empty() {
            let name = origin.name();
            return Err(format!("{name} returned no usable access key"));
        }
        let keys = AwsKeys {
            id: self.id,
            secret: self.secret,
            token: self.token.filter(|token| !token.expose().is_empty()),
            expires_at: self.expires_at,
            origin,
        };
        Ok(FetchStep::Done(Provided::AwsKeys(Arc::new(keys))))
    }
}

/// Parses the JSON document of an endpoint.
pub(super) fn parse(body: &str, origin: AwsSource) -> Result<Found, String> {
    let document: serde_json::Value =
        serde_json::from_str(body).map_err(|_| "the response is not JSON".to_owned())?;
    // STS wraps its answer in two objects, of which some services leave out the outer ones.
    let document = match origin {
        AwsSource::WebIdentity => {
            let response = &document["AssumeRoleWithWebIdentityResponse"];
            let result = &response["AssumeRoleWithWebIdentityResult"]["Credentials"];
            if result.is_object() {
                result
            } else {
                &document["Credentials"]
            }
        }
        _ => &document,
    };
    let text = |name: &str| document[name].as_str();
    let (Some(id), Some(secret)) = (text("AccessKeyId"), text("SecretAccessKey")) else {
        return Err("the response has no AccessKeyId or no SecretAccessKey".to_owned());
    };
    // Only STS calls the token `SessionToken` (AUTH-91).
    let token = match origin {
        AwsSource::WebIdentity => text("SessionToken"),
        _ => text("Token"),
    };
    let Some(token) = token else {
        return Err("the response has no session token".to_owned());
    };
    Ok(Found {
        id: id.to_owned(),
        secret: Secret::new(secret),
        token: Some(Secret::new(token)),
        expires_at: expiry(&document["Expiration"]),
    })
}

/// Returns the time of an `Expiration`: a text in the form of RFC 3339, or seconds since 1970, as
/// STS writes them in JSON. `None` for another value: such credentials are not cached.
pub(super) fn expiry(value: &serde_json::Value) -> Option<WallTime> {
    let millis = match value {
        serde_json::Value::String(text) => {
            DateTime::parse_rfc3339_str(text).ok()?.timestamp_millis()
        }
        serde_json::Value::Number(seconds) => {
            let seconds = seconds
                .as_f64()
                .filter(|seconds| (0.0..1e12).contains(seconds))?;
            (seconds * 1000.0) as i64
        }
        _ => return None,
    };
    Some(WallTime::from_unix_millis(u64::try_from(millis).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unusable_expiry_means_that_the_credentials_are_not_cached() {
        for (value, seconds) in [
            (r#""2026-11-22T17:00:00Z""#, Some(1_795_366_800)),
            (r#""2026-11-22T17:00:00.000+01:00""#, Some(1_795_363_200)),
            ("1795366800", Some(1_795_366_800)),
            (r#""tomorrow""#, None),
            (r#""1960-01-01T00:00:00Z""#, None),
            ("-5", None),
            ("1e300", None),
            ("null", None),
        ] {
            let value = serde_json::from_str(value).expect("JSON");
            let millis = expiry(&value).map(WallTime::as_unix_millis);
            assert_eq!(
                millis,
                seconds.map(|seconds: u64| seconds * 1000),
                "{value}"
            );
        }
    }
}
