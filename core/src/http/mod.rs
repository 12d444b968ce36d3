//! HTTP/1.1 (RFC 9112): one request and its response, without I/O.
//!
//! Some authentication mechanisms obtain their credentials from a service outside of MongoDB, such
//! as the metadata service of a cloud. [`HttpRequest`] is a request to such a service,
//! [`HttpExchange`] the machine that sends it and reads the response. Redirects are not followed,
//! and the size of a response is bounded.

mod exchange;
mod request;
mod response;
#[cfg(test)]
mod tests;

pub use exchange::HttpExchange;
pub(crate) use request::percent_encode;
pub use request::{HttpRequest, Method};
pub use response::{HttpBody, HttpResponse, MAX_BODY_BYTES, MAX_HEAD_BYTES, MAX_HEADERS};
