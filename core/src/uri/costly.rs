//! Warnings about options that cause much work.

use crate::options::{ClientOptions, Warning};

/// The largest number of connections per second that `minPoolSize` and `maxIdleTimeMS` may replace
/// in each pool without a warning.
const MAX_REPLACED_PER_SECOND: u128 = 1;

/// Returns warnings about options that cause much work: a pool whose `maxIdleTimeMS` is so short
/// that the pool replaces the connections of `minPoolSize` without end.
///
/// ```
/// use onionskin_core::uri;
///
/// let parsed = uri::parse("mongodb://localhost/?minPoolSize=50&maxIdleTimeMS=200")?;
/// let warnings = uri::costly_options(&parsed.options);
/// assert!(warnings[0].to_string().contains("250 connections per second"));
/// # Ok::<(), onionskin_core::error::Error>(())
/// ```
#[must_use]
pub fn costly_options(options: &ClientOptions) -> Vec<Warning> {
    let Some(idle) = options.max_idle_time() else {
        return Vec::new();
    };
    let connections = u128::from(options.min_pool_size());
    let millis = idle.as_millis().max(1);
    let is_costly = connections * 1000 > MAX_REPLACED_PER_SECOND * millis;
    let per_second = u64::try_from(connections * 1000 / millis).unwrap_or(u64::MAX);
    let warning = is_costly.then_some(Warning::Replacements { per_second });
    warning.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_idle_time_of_many_kept_connections_causes_a_warning() {
        for (text, per_second) in [
            ("minPoolSize=50&maxIdleTimeMS=200", Some(250)),
            ("minPoolSize=100&maxIdleTimeMS=10000", Some(10)),
            ("minPoolSize=2&maxIdleTimeMS=1999", Some(1)),
            ("minPoolSize=2&maxIdleTimeMS=2000", None),
            ("minPoolSize=50&maxIdleTimeMS=60000", None),
            ("minPoolSize=50&maxIdleTimeMS=0", None),
            ("minPoolSize=50", None),
            ("maxIdleTimeMS=1", None),
        ] {
            let parsed = crate::uri::parse(&format!("mongodb://localhost/?{text}"));
            let options = parsed.expect("a connection string").options;
            let expected = per_second.map(|per_second| Warning::Replacements { per_second });
            assert_eq!(costly_options(&options), Vec::from_iter(expected), "{text}");
        }
    }
}
