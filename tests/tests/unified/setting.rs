//! The deployments on which tests run, and which of them meets the requirements of a test.

use bson::{Bson, Document};
use std::{cmp::Ordering, fmt};

/// The kinds of deployments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Topology {
    Single,
    ReplicaSet,
    Sharded,
    LoadBalanced,
}

impl Topology {
    pub(crate) const ALL: [Self; 4] = [
        Self::Single,
        Self::ReplicaSet,
        Self::Sharded,
        Self::LoadBalanced,
    ];

    /// Returns the name in requirements.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::ReplicaSet => "replicaset",
            Self::Sharded => "sharded",
            Self::LoadBalanced => "load-balanced",
        }
    }
}

/// The versions that a simulated deployment claims, the newest first, with the numbers that
/// requirements are compared with.
const VERSIONS: [(&str, [u32; 3]); 7] = [
    ("8.2", [8, 2, 1]),
    ("8.0", [8, 0, 4]),
    ("7.0", [7, 0, 0]),
    ("6.0", [6, 0, 20]),
    ("5.0", [5, 0, 31]),
    ("4.4", [4, 4, 29]),
    ("4.2", [4, 2, 25]),
];

/// The number of routers of a sharded cluster, and of services behind a load balancer.
pub(crate) const ROUTERS: usize = 2;

/// How clients authenticate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Authentication {
    None,
    /// With a password, by SCRAM.
    Password,
    /// With a password or a token, by SCRAM or MONGODB-OIDC.
    Oidc,
}

impl Authentication {
    const ALL: [Self; 3] = [Self::None, Self::Password, Self::Oidc];
}

/// The properties of a deployment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Setting {
    pub(crate) topology: Topology,
    pub(crate) version: &'static str,
    pub(crate) authentication: Authentication,
}

impl Setting {
    /// True if FerretDB, a single server without authentication, can take the place of this
    /// deployment.
    pub(crate) fn is_like_ferretdb(&self) -> bool {
        self.topology == Topology::Single && self.authentication == Authentication::None
    }

    pub(crate) fn has_oidc(&self) -> bool {
        self.authentication == Authentication::Oidc
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            topology,
            version,
            authentication,
        } = self;
        write!(f, "{} {version}", topology.name())?;
        f.write_str(match authentication {
            Authentication::None => "",
            Authentication::Password => " with authentication",
            Authentication::Oidc => " with OIDC",
        })
    }
}

/// Returns the deployments on which a test runs: for each topology that the requirements allow, the
/// newest version that meets them. Both lists must be met, each by one of its requirements.
pub(crate) fn settings(file: &[Document], test: &[Document]) -> Vec<Setting> {
    let mut found = Vec::new();
    for topology in Topology::ALL {
        let candidates = Authentication::ALL.into_iter().flat_map(|authentication| {
            VERSIONS.iter().map(move |&(version, numbers)| {
                (
                    Setting {
                        topology,
                        version,
                        authentication,
                    },
                    numbers,
                )
            })
        });
        let mut meeting = candidates
            .filter(|(setting, numbers)| exists(setting, *numbers))
            .filter(|(setting, numbers)| meets(file, setting, *numbers))
            .filter(|(setting, numbers)| meets(test, setting, *numbers));
        found.extend(meeting.next().map(|(setting, _)| setting));
    }
    found
}

fn meets(requirements: &[Document], setting: &Setting, numbers: [u32; 3]) -> bool {
    let mut all = requirements.iter();
    requirements.is_empty() || all.any(|one| meets_one(one, setting, numbers))
}

/// True if there are such deployments: drivers use load balancers with servers from 5.0 on only.
fn exists(setting: &Setting, numbers: [u32; 3]) -> bool {
    setting.topology != Topology::LoadBalanced || numbers[0] >= 5
}

fn meets_one(requirement: &Document, setting: &Setting, numbers: [u32; 3]) -> bool {
    requirement.iter().all(|(key, value)| match key.as_str() {
        "minServerVersion" => compared(numbers, value).is_some_and(Ordering::is_ge),
        "maxServerVersion" => compared(numbers, value).is_some_and(Ordering::is_le),
        "topologies" => value.as_array().is_some_and(|names| {
            names.iter().filter_map(Bson::as_str).any(|name| {
                name == setting.topology.name()
                    || (name == "sharded-replicaset" && setting.topology == Topology::Sharded)
            })
        }),
        "auth" => value.as_bool() == Some(setting.authentication != Authentication::None),
        "authMechanism" => match value.as_str() {
            Some("SCRAM-SHA-1" | "SCRAM-SHA-256") => setting.authentication != Authentication::None,
            Some("MONGODB-OIDC") => setting.authentication == Authentication::Oidc,
            _ => false,
        },
        "serverless" => value.as_str() != Some("require"),
        "serverParameters" => value.as_document().is_some_and(|parameters| {
            parameters.iter().all(|(name, value)| {
                name == "enableTestCommands"
                    && matches!(value, Bson::Boolean(true) | Bson::Int32(1))
            })
        }),
        // Client-side encryption, and whatever a newer format adds.
        _ => false,
    })
}

/// Compares a version with a required one. Components that the required one lacks are not compared
/// (a maximum of 4.2 includes all of its patch releases).
fn compared(numbers: [u32; 3], required: &Bson) -> Option<Ordering> {
    let mut order = Ordering::Equal;
    for (have, want) in numbers.iter().zip(required.as_str()?.split('.')) {
        order = order.then(have.cmp(&want.parse().ok()?));
    }
    Some(order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::doc;

    fn names(requirements: &[Document]) -> Vec<String> {
        settings(requirements, &[])
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn each_topology_gets_the_newest_version_that_meets_the_requirements() {
        let all = [
            "single 8.2",
            "replicaset 8.2",
            "sharded 8.2",
            "load-balanced 8.2",
        ];
        assert_eq!(names(&[]), all);
        let old = doc! { "maxServerVersion": "4.4.99", "topologies": ["single", "sharded"] };
        assert_eq!(names(&[old]), ["single 4.4", "sharded 4.4"]);
        let either = [
            doc! { "minServerVersion": "4.0", "topologies": ["replicaset"] },
            doc! { "maxServerVersion": "5.0", "topologies": ["sharded-replicaset"], "auth": true },
        ];
        assert_eq!(
            names(&either),
            ["replicaset 8.2", "sharded 5.0 with authentication"]
        );
        assert_eq!(names(&[doc! { "maxServerVersion": "3.6" }]), [""; 0]);
        assert_eq!(names(&[doc! { "csfle": true }]), [""; 0]);
        assert_eq!(names(&[doc! { "serverless": "require" }]), [""; 0]);
        assert_eq!(names(&[doc! { "serverless": "forbid" }]).len(), 4);
    }
}
