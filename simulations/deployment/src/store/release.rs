//! The release that a server claims to be, and the names that it does not have yet.

/// A release of the server: the major, the minor and the patch version. The default is a release
/// that has everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release(pub [u16; 3]);

impl Default for Release {
    fn default() -> Self {
        Self([u16::MAX; 3])
    }
}

/// An entry of a table of names: the name, its meaning, and the releases that have it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name<T> {
    pub(crate) name: &'static str,
    pub(crate) meaning: T,
    /// The first release with the name. `[0; 3]` stands for all before those that can be claimed.
    since: Release,
    /// The first release in which the name no longer has this meaning.
    until: Option<Release>,
}

/// Makes the entry of a name that all releases have.
pub(crate) const fn name<T>(name: &'static str, meaning: T) -> Name<T> {
    Name {
        name,
        meaning,
        since: Release([0; 3]),
        until: None,
    }
}

impl<T: Copy> Name<T> {
    pub(crate) const fn since(mut self, major: u16, minor: u16, patch: u16) -> Self {
        self.since = Release([major, minor, patch]);
        self
    }

    pub(crate) const fn until(mut self, major: u16, minor: u16, patch: u16) -> Self {
        self.until = Some(Release([major, minor, patch]));
        self
    }

    /// Returns the meaning of a name in a release, or `None` if the release does not have the name.
    pub(crate) fn find(table: &[Self], name: &str, release: Release) -> Option<T> {
        let exists = |entry: &&Self| {
            entry.since <= release && entry.until.is_none_or(|until| release < until)
        };
        let mut entries = table.iter().filter(|entry| entry.name == name);
        entries.find(exists).map(|entry| entry.meaning)
    }
}

#[cfg(test)]
impl<T> Name<T> {
    /// Returns the name with its first release, as the page of the server shows it.
    pub(crate) fn shown(&self) -> String {
        let Release([major, minor, patch]) = self.since;
        match (major, patch) {
            (0, _) => format!("`{}`", self.name),
            (_, 0) => format!("`{}` ({major}.{minor})", self.name),
            _ => format!("`{}` ({major}.{minor}.{patch})", self.name),
        }
    }
}
