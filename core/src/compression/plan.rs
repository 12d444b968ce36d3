//! The compressors of a client.

use crate::options::{ClientOptions, Compressor};
use std::sync::Arc;

/// The compressors that each connection of a client announces, in order of preference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressionPlan {
    announced: Vec<Compressor>,
    names: Vec<&'static str>,
    pub(super) zlib_level: i32,
}

impl CompressionPlan {
    /// Returns the plan for these options. `None` if no compressor is configured and
    /// [available](Compressor::is_available). Compressors that are not available are left out
    /// ([COMP-23]).
    ///
    /// [COMP-23]: crate::requirements::compression#COMP-23
    #[must_use]
    pub fn new(options: &ClientOptions) -> Option<Arc<Self>> {
        let configured = options.compressors().into_iter();
        let announced: Vec<_> = configured.filter(|c| c.is_available()).collect();
        let plan = Self {
            names: announced.iter().map(|c| c.name()).collect(),
            announced,
            zlib_level: options.zlib_compression_level(),
        };
        (!plan.announced.is_empty()).then(|| Arc::new(plan))
    }

    /// Returns the names of the compressors in the order of the options ([COMP-3]).
    ///
    /// [COMP-3]: crate::requirements::compression#COMP-3
    #[must_use]
    pub fn names(&self) -> &[&'static str] {
        &self.names
    }

    /// Returns the first compressor of the client that the server also has ([COMP-5]).
    ///
    /// [COMP-5]: crate::requirements::compression#COMP-5
    #[must_use]
    pub fn choose(&self, server: &[String]) -> Option<Compressor> {
        let is_common = |c: &&Compressor| server.iter().any(|name| name == c.name());
        self.announced.iter().find(is_common).copied()
    }

    /// Returns the announced compressor with this number.
    pub(super) fn announced(&self, id: u8) -> Option<Compressor> {
        self.announced.iter().copied().find(|c| c.id() == id)
    }
}
