//! The characters that differ only in their case.

use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Returns the characters that have others which differ only in their case, with these others.
fn cases() -> &'static BTreeMap<char, Vec<char>> {
    static CASES: OnceLock<BTreeMap<char, Vec<char>>> = OnceLock::new();
    CASES.get_or_init(|| {
        let mut groups: BTreeMap<char, Vec<char>> = BTreeMap::new();
        for c in '\0'..='\u{1ffff}' {
            let folded = folded(c);
            if folded != c {
                groups.entry(folded).or_insert_with(|| vec![folded]).push(c);
            }
        }
        let mut cases = BTreeMap::new();
        for group in groups.values() {
            for c in group {
                let others = group.iter().copied().filter(|other| other != c);
                cases.insert(*c, others.collect());
            }
        }
        cases
    })
}

/// Returns the character that stands for all cases of a character.
fn folded(c: char) -> char {
    fn only(mut characters: impl Iterator<Item = char>, otherwise: char) -> char {
        match (characters.next(), characters.next()) {
            (Some(one), None) => one,
            _ => otherwise,
        }
    }
    match c {
        // The upper case of the dotless i is that of the dotted one, but they are not the same.
        '\u{131}' => c,
        _ => {
            let upper = only(c.to_uppercase(), c);
            only(upper.to_lowercase(), upper)
        }
    }
}

/// Returns the characters that differ only in their case from one in these ranges, as ranges.
pub(super) fn other_cases(ranges: &[(char, char)]) -> Vec<(char, char)> {
    let mut others: Vec<char> = Vec::new();
    for (first, last) in ranges {
        for (_, cases) in cases().range(*first..=*last) {
            let is_outside = |c: &&char| !(first..=last).contains(c);
            others.extend(cases.iter().filter(is_outside));
        }
        // Many ranges of one class mostly have the same other cases.
        if others.len() > 10_000 {
            others.sort_unstable();
            others.dedup();
        }
    }
    others.sort_unstable();
    others.dedup();
    let mut result: Vec<(char, char)> = Vec::new();
    for c in others {
        match result.last_mut() {
            Some((_, last)) if u32::from(*last) + 1 == u32::from(c) => *last = c,
            _ => result.push((c, c)),
        }
    }
    result
}
