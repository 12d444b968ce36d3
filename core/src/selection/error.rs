//! The error of a server selection that found no suitable server.

use super::Criteria;
use crate::{
    description::{ServerDescription, ServerType, TopologyDescription},
    error::{Error, ErrorKind, cause_text},
};
use std::{fmt::Write, sync::Arc};

/// The maximum number of servers that the text of an error lists. The text gives only the number of
/// the others.
const MAX_LISTED_SERVERS: usize = 10;

/// Returns the error of a failed server selection. If a server is available, the text lists the
/// servers. Otherwise the text contains the error that all servers with an error share, or the
/// error of each of them. The text says so if no server is known or if none has replied yet
/// ([SEL-60]).
///
/// [SEL-60]: crate::requirements::server_selection#SEL-60
#[must_use]
pub fn selection_error(description: &TopologyDescription, criteria: &Criteria) -> Error {
    let servers = || description.servers.values();
    let kind = description.topology_type;
    let cause = servers().find_map(|s| Some(s.error.clone()?.with_server(&s.address)));
    let message = if description.servers.is_empty() {
        match &description.set_name {
            // Discovery removes servers of another replica set and servers that belong to none.
            Some(name) => format!(
                "no server is known: no host of the connection string belongs to replica set \
                 \"{name}\"; check the hosts and replicaSet"
            ),
            None => {
                "no server is known; the hosts of the connection string must be one standalone \
                     server, or belong to one replica set or to one sharded cluster"
                    .to_owned()
            }
        }
    } else if servers().any(|s| s.server_type.is_available()) {
        let all = listed(description, |s| {
            let name = s.server_type.name();
            Some(match &s.error {
                Some(error) => format!("{name}, {}", cause_text(error.kind())),
                None => name.to_owned(),
            })
        });
        let advice = match servers().all(|s| s.server_type == ServerType::RsGhost) {
            true => {
                "; without a configuration, a member of a replica set is starting, was removed \
                 from the set, or waits for rs.initiate()"
            }
            false => "",
        };
        format!("No servers are suitable for {criteria}; the topology is {kind}: {all}{advice}")
    } else {
        let mut errors = servers().filter_map(|s| s.error.as_ref());
        match errors.next() {
            None => {
                let all = listed(description, |_| Some(String::new()));
                format!("no server has replied to a check yet; the topology is {kind}: {all}")
            }
            Some(first) if errors.all(|e| e.kind() == first.kind()) => {
                let all = listed(description, |s| s.error.as_ref().map(|_| String::new()));
                format!(
                    "{}, at {all}; the topology is {kind}",
                    cause_text(first.kind())
                )
            }
            Some(_) => listed(description, |s| Some(cause_text(s.error.as_ref()?.kind()))),
        }
    };
    let error = Error::new(ErrorKind::ServerSelection { message, cause });
    match servers().next() {
        Some(only) if description.servers.len() == 1 => error.with_server(&only.address),
        _ => error,
    }
}

/// Returns the addresses of servers, each with its remark. Servers without a remark are left out.
fn listed(
    description: &TopologyDescription,
    remark: impl Fn(&Arc<ServerDescription>) -> Option<String>,
) -> String {
    let mut text = String::new();
    let mut more = 0;
    let remarks = description
        .servers
        .values()
        .filter_map(|s| Some((s, remark(s)?)));
    for (number, (server, remark)) in remarks.enumerate() {
        if number >= MAX_LISTED_SERVERS {
            more += 1;
            continue;
        }
        let separator = if number == 0 { "" } else { ", " };
        let colon = if remark.is_empty() { "" } else { ": " };
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}{}{colon}{remark}", server.address);
    }
    if more > 0 {
        let _ = write!(text, " and {more} more");
    }
    text
}
