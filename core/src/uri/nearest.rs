//! The name that a misspelt name probably means.

/// The maximum length of a name for which a similar one is looked for, in characters. The time
/// grows with the square of the length, and no known name is longer.
const MAX_CHARS: usize = 64;

/// Returns the reason why a value is none of these names, with the one that it probably means.
pub(super) fn one_of(text: &str, names: &[&'static str]) -> String {
    let known = names.join(", ");
    match nearest(text, names.iter().copied()) {
        Some(name) => format!("it is one of {known}; did you mean {name}?"),
        None => format!("it is one of {known}"),
    }
}

/// Returns the name that differs least from the text, without regard to the case of ASCII letters.
/// `None` if all names differ in more than a third of the characters of the text.
pub(super) fn nearest(
    text: &str,
    names: impl IntoIterator<Item = &'static str>,
) -> Option<&'static str> {
    let text: Vec<char> = text.chars().map(|c| c.to_ascii_lowercase()).collect();
    if text.len() > MAX_CHARS {
        return None;
    }
    let most = text.len() / 3;
    // A name that is much longer or shorter differs too much. A string can have many unknown
    // options, so this is tested first.
    let similar = |name: &&str| name.len().abs_diff(text.len()) <= most;
    let names = names.into_iter().filter(similar);
    let distances = names.map(|name| (distance(&text, name), name));
    let (distance, name) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= most).then_some(name)
}

/// Returns the number of characters that are to be added, removed, replaced or swapped with their
/// neighbour to turn one text into the other: the optimal string alignment distance.
fn distance(text: &[char], name: &str) -> usize {
    let name: Vec<char> = name.chars().map(|c| c.to_ascii_lowercase()).collect();
    let mut before_last = Vec::new();
    let mut last: Vec<usize> = (0..=name.len()).collect();
    for (row, own) in text.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, other) in name.iter().enumerate() {
            let replaced = last[column] + usize::from(own != other);
            let mut least = replaced.min(last[column + 1] + 1).min(current[column] + 1);
            if row > 0 && column > 0 && text[row - 1] == *other && name[column - 1] == *own {
                least = least.min(before_last[column - 1] + 1);
            }
            current.push(least);
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last[name.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 6] = [
        "tls",
        "ssl",
        "retryWrites",
        "retryReads",
        "w",
        "readPreference",
    ];

    #[test]
    fn a_misspelt_name_has_the_nearest_one() {
        for (text, expected) in [
            ("tsl", Some("tls")),
            ("TLSS", Some("tls")),
            ("retryWrite", Some("retryWrites")),
            ("retryRaeds", Some("retryReads")),
            ("readPrefrence", Some("readPreference")),
            ("x", None),
            ("", None),
            ("fsync", None),
            ("waitQueueSize", None),
        ] {
            assert_eq!(nearest(text, NAMES), expected, "{text}");
        }
        let long = "retryWrites".repeat(100_000);
        assert_eq!(nearest(&long, NAMES), None);
    }

    #[test]
    fn a_misspelt_value_has_the_known_ones() {
        let reason = one_of("polll", &["auto", "poll"]);
        assert_eq!(reason, "it is one of auto, poll; did you mean poll?");
        assert_eq!(
            one_of("secret", &["auto", "poll"]),
            "it is one of auto, poll"
        );
    }
}
