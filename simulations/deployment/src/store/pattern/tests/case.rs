//! Tests of the option `i`.

use super::*;

#[test]
fn sets_have_the_same_characters_with_and_without_case() {
    for (pattern, text, expected) in [
        (r"^\w$", "\u{17f}", false),
        (r"^\W$", "\u{17f}", true),
        (r"^\w$", "\u{212a}", false),
        (r"^[\w-]+$", "a\u{17f}", false),
        (r"^[^\W_]$", "\u{212a}", false),
        (r"^[[:alpha:]]$", "\u{212a}", false),
        (r"^[[:^alpha:]]$", "\u{212a}", true),
        ("^[[:upper:]]$", "a", true),
        ("^[[:^lower:]]$", "A", false),
        (r"^\p{Lu}$", "a", false),
        (r"^[\p{Lu}]$", "a", false),
        (r"^[\p{Lu}b]$", "B", true),
        (r"^\P{Lu}$", "A", false),
        (r"(?=\w)\w", "\u{17f}", false),
        (r"^(?-i:[a-c])$", "B", false),
    ] {
        let compiled = new(pattern, "i").expect(pattern);
        let found = compiled.is_match(text, &Budget::default());
        assert_eq!(found, Ok(expected), "{pattern} {text}");
    }
    assert!(is_match(r"^a(?i:[b-c]\w)$", "aCK"));
    assert!(!is_match(r"^(?i:a(?-i)[b-c])$", "AC"));
}

#[test]
fn the_characters_of_a_class_have_all_their_cases() {
    for (pattern, fitting, other) in [
        ("^[k]$", "kK\u{212a}", "l"),
        ("^[^k]$", "l", "kK\u{212a}"),
        ("^[j-l]$", "jKL\u{212a}", "\u{17f}"),
        ("^[σ]$", "σςΣ", "s"),
        ("^[ß]$", "ß\u{1e9e}", "s"),
        ("^[ı]$", "ı", "iI"),
        ("^[i]$", "iI", "ıİ"),
        ("^[ǆ]$", "ǄǅǆǄ", "d"),
        ("^[à-ý]$", "ÀÝé", "ßÿ"),
        ("^[\u{e000}-\u{10ffff}]$", "\u{ff21}", "A"),
        ("^[Z-\u{10ffff}]$", "aBz", "@"),
        ("s", "sS\u{17f}", "k"),
    ] {
        let compiled = new(pattern, "i").expect(pattern);
        for (texts, expected) in [(fitting, true), (other, false)] {
            for c in texts.chars() {
                let found = compiled.is_match(&c.to_string(), &Budget::default());
                assert_eq!(found, Ok(expected), "{pattern} {c:?}");
            }
        }
    }
}
