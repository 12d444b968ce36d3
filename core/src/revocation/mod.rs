//! The status of certificates: a cache of OCSP responses, and the requests to OCSP responders.
//!
//! [`StatusChecks`] answers the queries of TLS sessions.

mod cache;
mod checks;

pub(crate) use checks::{Begun, StatusChecks};

use crate::{
    http::{HttpRequest, HttpResponse, Method},
    tls::{OcspStatement, StatusQuery},
};
use std::time::Duration;

/// How long OCSP responders may take for their answers: 5 seconds (OCSP-12).
const LIMIT: Duration = Duration::from_secs(5);

/// The maximum number of OCSP responders that are asked about one certificate.
const MAX_RESPONDERS: usize = 4;

/// Returns how long responders usually may take: at most half of `connectTimeoutMS` and of
/// `timeoutMS`, which is no limit if it is zero. A connection whose responders do not answer is
/// used (OCSP-14).
pub(crate) fn usual_limit(
    connect_timeout: Option<Duration>,
    timeout: Option<Duration>,
) -> Duration {
    let timeout = timeout.filter(|timeout| !timeout.is_zero());
    let limits = connect_timeout.into_iter().chain(timeout);
    limits.map(|limit| limit / 2).fold(LIMIT, Duration::min)
}

/// Returns the requests to the OCSP responders of a certificate; none if they must not be asked.
pub(crate) fn requests(query: &StatusQuery) -> Vec<HttpRequest> {
    let body = query.request();
    let request = |url: &String| {
        // A responder with TLS could need an OCSP response about its own certificate.
        let request = HttpRequest::new(Method::Post, url).ok();
        let request = request.filter(|request| !request.is_secure())?;
        Some(request.with_body("application/ocsp-request", body.clone()))
    };
    if body.is_empty() {
        return Vec::new();
    }
    let requests = query.responders().iter().filter_map(request);
    requests.take(MAX_RESPONDERS).collect()
}

/// Returns what the response of a responder states. The error is the reason why it is not valid.
fn read(query: &StatusQuery, response: &HttpResponse) -> Result<OcspStatement, String> {
    match response.status {
        200 => query.read(response.body.bytes()),
        status => Err(format!("the response has the status {status}")),
    }
}
