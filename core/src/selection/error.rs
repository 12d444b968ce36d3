//! The error of a selection that found nothing in time.

use super::Criteria;
use crate::{
    description::TopologyDescription,
    error::{Error, ErrorKind},
};
use std::fmt::Write;

/// Why nothing suited (SEL-60): servers that can be reached but do not suit, the one error that all
/// of them share, or all errors.
#[must_use]
pub fn selection_error(description: &TopologyDescription, criteria: &Criteria) -> Error {
    let servers = || description.servers.values();
    let message = if description.servers.is_empty() {
        match &description.set_name {
            // SDAM drops servers that answer for another set, or for none.
            Some(name) => format!(
                "no server is known: of the hosts of the connection string none belongs to the \
                 replica set \"{name}\""
            ),
            None => "no server is known; check the hosts of the connection string".to_owned(),
        }
    } else if servers().any(|s| s.server_type.is_available()) {
        format!("No servers are suitable for {criteria}; the topology is {description}")
    } else {
        let mut errors = servers().filter_map(|s| s.error.as_ref());
        match errors.next() {
            None => format!("no server has answered yet; the topology is {description}"),
            Some(first) if errors.all(|e| e.kind() == first.kind()) => {
                format!("{}; the topology is {description}", first.kind())
            }
            Some(_) => joined(description),
        }
    };
    Error::new(ErrorKind::ServerSelection { message })
}

fn joined(description: &TopologyDescription) -> String {
    let mut text = String::new();
    for server in description.servers.values() {
        if let Some(error) = &server.error {
            let separator = if text.is_empty() { "" } else { ", " };
            let address = &server.address;
            // Writing to a string cannot fail.
            let _ = write!(text, "{separator}{address}: {}", error.kind());
        }
    }
    text
}
