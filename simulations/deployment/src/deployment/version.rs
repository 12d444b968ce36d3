//! The releases that servers claim to be.

use std::fmt;

/// The release that a server claims to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerVersion {
    /// The major version, the minor version and the patch version.
    pub release: [u16; 3],
    /// The `minWireVersion` in hello replies.
    pub min_wire: i32,
    /// The `maxWireVersion` in hello replies.
    pub max_wire: i32,
}

impl ServerVersion {
    /// The names of the releases that [`named`](Self::named) knows.
    pub const NAMES: [&str; 7] = ["4.2", "4.4", "5.0", "6.0", "7.0", "8.0", "8.2"];

    /// Returns a release by its name, such as `8.0`, with its wire versions. The commands, their
    /// fields and their errors follow the release as far as `docs/simulated-server.md` says.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let (release, max_wire) = match name {
            "4.2" => ([4, 2, 25], 8),
            "4.4" => ([4, 4, 29], 9),
            "5.0" => ([5, 0, 31], 13),
            "6.0" => ([6, 0, 20], 17),
            "7.0" => ([7, 0, 24], 21),
            "8.0" => ([8, 0, 4], 25),
            "8.2" => ([8, 2, 1], 27),
            _ => return None,
        };
        Some(Self {
            release,
            min_wire: 0,
            max_wire,
        })
    }

    /// True if servers of both releases can be members of one replica set. The releases are of one
    /// series, such as 7.0, or of two that follow each other in [`NAMES`](Self::NAMES), as during
    /// an upgrade.
    #[must_use]
    pub fn works_with(self, other: Self) -> bool {
        let places = self.place().zip(other.place());
        let follows = places.is_some_and(|(own, other)| own.abs_diff(other) <= 1);
        follows || self.series() == other.series()
    }

    /// Returns the place of the release in [`NAMES`](Self::NAMES), if its series is there.
    pub(super) fn place(self) -> Option<usize> {
        let series = self.series();
        Self::NAMES.iter().position(|name| *name == series)
    }

    /// Returns the major and the minor version, such as `7.0`.
    pub(crate) fn series(self) -> String {
        let [major, minor, _] = self.release;
        format!("{major}.{minor}")
    }
}

impl Default for ServerVersion {
    /// Returns release 7.0.24 with the wire versions 0 to 21.
    fn default() -> Self {
        Self {
            release: [7, 0, 24],
            min_wire: 0,
            max_wire: 21,
        }
    }
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.release;
        write!(f, "{major}.{minor}.{patch}")
    }
}
