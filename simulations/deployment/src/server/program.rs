//! The program of a member: the release that its process claims to be, and its upgrade.

use super::Member;
use crate::deployment::{DeploymentOptions, ServerVersion};

/// The `maxWireVersion` of 4.4, the first release that has awaitable hellos.
const FIRST_STREAMING_WIRE_VERSION: i32 = 9;

/// The program of a member.
#[derive(Clone, Copy, Debug)]
pub(super) struct Program {
    /// The release of the process.
    pub(super) version: ServerVersion,
    /// The release that the process has from its next start on.
    installed: ServerVersion,
    /// True if the member has the streaming protocol of its release.
    streaming: bool,
}

impl Program {
    /// Creates the program with which a member starts.
    pub(super) fn new(options: &DeploymentOptions, member: usize) -> Self {
        let version = options.version_of(member);
        Self {
            version,
            installed: version,
            streaming: options.member(member).is_none_or(|member| member.streaming),
        }
    }

    /// Begins a process of the installed release.
    pub(super) const fn start(&mut self) {
        self.version = self.installed;
    }

    /// True if the process has `topologyVersion` and awaitable hellos.
    pub(super) const fn streams(&self) -> bool {
        self.streaming && self.version.max_wire >= FIRST_STREAMING_WIRE_VERSION
    }
}

impl Member {
    /// Returns the release of the process. A member that does not run has that of its last process.
    pub(crate) const fn version(&self) -> ServerVersion {
        self.program.version
    }

    /// Returns the release that the process has from its next start on.
    pub(crate) const fn installed_version(&self) -> ServerVersion {
        self.program.installed
    }

    /// Sets the release that the process has from its next start on.
    pub(crate) const fn set_installed_version(&mut self, version: ServerVersion) {
        self.program.installed = version;
    }
}
