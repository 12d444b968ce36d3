//! Tests of patterns.

mod case;
mod work;

use super::*;

fn new(pattern: &str, options: &str) -> Result<Pattern, StoreError> {
    new_at(Release::default(), pattern, options, &Budget::default())
}

fn new_at(
    release: Release,
    pattern: &str,
    options: &str,
    budget: &Budget,
) -> Result<Pattern, StoreError> {
    Pattern::new(pattern, options, release, usize::MAX, budget)
}

fn is_match(pattern: &str, text: &str) -> bool {
    let pattern = new(pattern, "").expect(pattern);
    pattern.is_match(text, &Budget::default()).expect(text)
}

fn groups(pattern: &str, options: &str, text: &str) -> Groups {
    let compiled = new(pattern, options).expect(pattern);
    let found = compiled.captures(text, 0, &Budget::default());
    found.expect(text).expect(pattern)
}

fn check<'a>(cases: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>) {
    for (pattern, fitting, other) in cases {
        assert!(is_match(pattern, fitting), "{pattern} {fitting}");
        assert!(!is_match(pattern, other), "{pattern} {other}");
    }
}

#[test]
fn patterns_have_the_syntax_of_the_server() {
    check([
        (r"^\d+$", "12", "١٢"),
        (r"^\w$", "a", "ä"),
        (r"^[\w-]+$", "a-b", "a b"),
        (r"^[^\s]$", "\u{a0}", " "),
        (r"^\S\W\D$", "a-b", "a-1"),
        (r"\bfoo\b", "a foo b", "afoob"),
        (r"end\Z", "the end\n", "the end\n\n"),
        ("^[a[b]$", "[", "]"),
        ("^[]a]$", "]", "["),
        ("^[a&&b]$", "&", "c"),
        ("^[[:alpha:]]+$", "abc", "a1"),
        ("foo(?=bar)", "foobar", "foobaz"),
        ("(?<!a)b", "cb", "ab"),
        (r"(a|b)\1", "xaa", "ab"),
        (r"^(?>a+)b", "aab", "aac"),
        ("^[+--]$", ",", "a"),
        (r"^\Qa.b*\E+$", "a.b**", "axb"),
        ("ab$", "ab\n", "ab\n\n"),
        ("^(ab|c$)", "c\n", "c\n\n"),
        (r"a$\n", "a\n", "a"),
        (r"(a$)\n", "a\n", "a"),
        (r"((a)$)\s", "a\n", "a"),
        (r"(a$|b)\n", "a\n", "a"),
        ("(a$|b$)", "b\n", "b\n\n"),
        (r"\(?m$", "m\n", "m\n\n"),
        (r"^a\z", "a", "a\n"),
        (r"(a\z|b$)", "b\n", "a\n"),
        ("(?m)a$", "a\nb", "ab"),
        ("[$]", "$", "a"),
        (r"a(?=b$)", "ab\n", "ab\nc"),
        ("^a{,3}$", "a{,3}", "aaa"),
        ("^a{2,3}$", "aaa", "a"),
        ("^{a}$", "{a}", "a"),
        (r"^\x{61}\p{Lu}$", "aB", "ab"),
    ]);
}

#[test]
fn classes_have_the_syntax_of_the_server() {
    check([
        ("^[--/]$", ".", "a"),
        ("^[a[:]b]$", "[b]", "["),
        ("^[a[:x]b]$", "xb]", "x"),
        ("^[[:^digit:]-]$", "-", "1"),
        ("^[[-a]$", "`", "b"),
        ("^[]-a]$", "^", "["),
        ("^[a-]b]$", "-b]", "b"),
        ("^[a-c-e]$", "-", "d"),
        ("^[a&&b~~c]$", "~", "d"),
        (r"^[a\Qb-d]\E-f]$", "^", "g"),
        (r"^[a-\Ec]$", "b", "-"),
        (r"^[\Q-\E-a]$", "A", "b"),
        (r"^[\d-]$", "-", "a"),
        (r"^[-\d]$", "-", "a"),
        (r"^[\x{61}-\N{U+63}\p{^L}]$", "b", "d"),
        ("^(?x)[ #]$", "#", "a"),
    ]);
}

#[test]
fn a_hyphen_beside_a_set_is_text_before_6_1() {
    for pattern in [
        r"^[\w-.]$",
        r"^[.-\w]$",
        "^[[:alpha:]-.]$",
        "^[.-[:alpha:]]$",
    ] {
        let old = new_at(Release([6, 0, 20]), pattern, "", &Budget::default()).expect(pattern);
        for (text, expected) in [("-", true), (".", true), ("a", true), ("/", false)] {
            let found = old.is_match(text, &Budget::default());
            assert_eq!(found, Ok(expected), "{pattern} {text}");
        }
        let error = new_at(Release([6, 1, 0]), pattern, "", &Budget::default()).expect_err(pattern);
        assert_eq!(error.code, 51091, "{pattern}");
    }
}

#[test]
fn a_line_does_not_start_after_the_last_newline() {
    check([
        ("(?m)^$", "a\n\nb", "a\n"),
        ("(?m)^$", "\n", "a\n"),
        ("(?m)^b?$", "a\nb\n", "a\n"),
        ("(?m:^)$", "", "a\n"),
        ("(?m)^(b|)$", "a\nb", "a\n"),
    ]);
}

#[test]
fn escapes_are_those_of_the_server() {
    check([
        (r"^\h\H\v\V$", "\u{2003}a\u{2028}b", "aaaa"),
        (r"^[\h]+$", " \u{a0}", "f"),
        (r"^\<\>\@\_\/$", "<>@_/", "<>@_"),
        (r"^\101\07\0$", "A\u{7}\0", "A1"),
        (r"^[\101-\103]$", "B", "1"),
        (r"^(a)\11$", "a\t", "aa1"),
        (r"^(a)\1$", "aa", "a\u{1}"),
        (
            r"^(a)(b)(c)(d)(e)(f)(g)(h)(i)(j)\10$",
            "abcdefghijj",
            "abcdefghij\u{8}",
        ),
        (r"^\o{101}\x41\x4g\x$", "AA\u{4}g\0", "AA"),
        (r"^\cA\e\a[\b]$", "\u{1}\u{1b}\u{7}\u{8}", "A"),
        (r"^(a)(b)\g{-1}\g1\g{2}$", "abbab", "abb"),
        (r"^(?<n>a)(?'m'b)\k{n}\k'm'\k<n>$", "ababa", "ab"),
        (r"^\N\R$", "a\r\n", "\n\n"),
        (r"^\N{2}$", "ab", "a"),
        (r"^a?\N{0,1}+$", "ab", "abc"),
        (r"^\N{U+41}$", "A", "N"),
        (r"^(a)(b)\g{2}1$", "abb1", "ab1"),
        (r"^(a)(?x:\1 1)$", "aa1", "a1"),
        (r"^(?:b|\g{+1}c|(a))+$", "aac", "aca"),
        (r"^(?<n>a)(?P=n)(?(1)b|c)(?(<n>)d|e)$", "aabd", "aac"),
        (r"^\p{^L}$", "1", "a"),
        (r"^a\Q\E+$", "aa", "b"),
        (r"^a\Eb$", "ab", "a"),
    ]);
}

#[test]
fn possessive_quantifiers_and_comments_are_read() {
    check([
        (r"^a++b$", "aab", "aa"),
        (r"^(a*+a|b)$", "b", "aaa"),
        (r"^a(?#comment)b$", "ab", "a"),
        (r"^(?x)a b # c", "ab", "a b"),
        (r"^(?x:[ #])a b", "#a b", "#ab"),
        (r"^(?x)\Qa b#\E\ $", "a b# ", "ab"),
        ("^(?x)a \u{a0} + +b\u{85}$", "a\u{a0}b", "ab"),
        ("^(?i-s:A.)b$", "axb", "axB"),
        ("^(?)a(?:b)$", "ab", "a"),
    ]);
}

#[test]
fn a_match_before_the_last_newline_has_the_bounds_of_the_server() {
    let options = new("A . b # c", "isx").expect("a pattern");
    assert_eq!(options.is_match("a\nB", &Budget::default()), Ok(true));
    let end = new("a\\n?$", "").expect("a pattern");
    let lazy = new("a\\n??$", "").expect("a pattern");
    let found = |pattern: &Pattern| {
        let found = pattern
            .captures("a\n", 0, &Budget::default())
            .expect("no error");
        found.expect("a match")[0]
    };
    assert_eq!((found(&end), found(&lazy)), (Some((0, 2)), Some((0, 1))));
    let word = new(r"(\w+)\.$", "").expect("a pattern");
    let budget = Budget::default();
    for _ in 0..20_000 {
        let found = word.captures("line 7 some text ends here.\n", 0, &budget);
        let groups = found.expect("within the limit").expect("a match");
        assert_eq!(groups, [Some((22, 27)), Some((22, 26))]);
    }
}

#[test]
fn malformed_patterns_are_refused() {
    let commented = new("a # [x\n[b]c", "x").expect("a pattern");
    assert_eq!(commented.is_match("abc", &Budget::default()), Ok(true));
    for (pattern, options, code) in [
        ("a", "q", 51108),
        ("(", "", 51091),
        ("(?=a", "", 51091),
        ("a**", "", 51091),
        ("*a", "", 51091),
        (r"\y", "", 51091),
        (r"\u0041", "", 51091),
        ("\\", "", 51091),
        (r"\x{110000}", "", 51091),
        (r"\X", "", 51091),
        ("(?R)", "", 51091),
        ("(?1)", "", 51091),
        ("(*ACCEPT)", "", 51091),
        (r"(a)\g<1>", "", 51091),
    ] {
        let error = new(pattern, options).expect_err(pattern);
        assert_eq!(error.code, code, "{pattern}");
    }
}

#[test]
fn patterns_that_the_server_refuses_are_refused() {
    for (pattern, code) in [
        ("a{2}{3}", 51091),
        ("x{1,2}{3}", 51091),
        ("a*{2}", 51091),
        ("^*", 51091),
        ("$?", 51091),
        (r"\b+", 51091),
        (r"\A*", 51091),
        (r"\Z*", 51091),
        ("(?i)*", 51091),
        (r"\Q\E+", 51091),
        ("a(?#b", 51091),
        ("a{3,2}", 51091),
        ("a{65536}", 51091),
        ("(?(1)a|b)", 51091),
        (r"[\E^]", 51091),
        (r"[\Q\E^]", 51091),
        (r"(?=\K)", 51091),
        (r"(?<!a(\K))", 51091),
        ("(?(0)a)", 51091),
        ("()(?(1)a|b|c)", 51091),
        ("(?<a23456789012345678901234567890123>b)", 51091),
        ("a)", 51091),
        ("[[:foo:]]", 51091),
        ("[[:ALPHA:]]", 51091),
        ("[[:^^alpha:]]", 51091),
        ("[[=a=]]", 51091),
        ("[[.a.]]", 51091),
        ("[:alpha:]", 51091),
        ("[]", 51091),
        ("[a", 51091),
        ("[z-a]", 51091),
        (r"[a-\Q-\E]", 51091),
        (r"[\N]", 51091),
        (r"[\Z]", 51091),
        ("(?u)a", 51091),
        ("(?-u:a)", 51091),
        ("(?i-m-s)a", 51091),
        ("(?i", 51091),
        ("(?<a>a)(?<a>b)", 51091),
        ("(?P<a>a)(?'a'b)", 51091),
        ("(?<1a>b)", 51091),
        ("(?<>b)", 51091),
        ("(?<a", 51091),
        ("(?P=a)", 51091),
        (r"\N{name}", 51091),
        (r"\N{,3}", 51091),
        (r"\x{+41}", 51091),
        (r"\x{}", 51091),
        (r"\x{41", 51091),
        (r"\o{+1}", 51091),
        (r"\p{L", 51091),
        (r"\p{+L}", 51091),
        (r"\g{+0}", 51091),
        (r"\g{+1}", 51091),
        (r"\g{ 1}(a)", 51091),
        (r"(a)\g{-2}", 51091),
        (r"(a)\2", 51091),
        (r"\k{c}", 51091),
        ("[[:<:]]a", 51091),
        ("(?n)a", 51091),
        ("(?xx)a", 51091),
        ("(?(?=a)a|b)", 51091),
    ] {
        let error = new(pattern, "").expect_err(pattern);
        assert_eq!(error.code, code, "{pattern}");
    }
}

#[test]
fn properties_that_the_server_does_not_have_are_refused() {
    for (pattern, code) in [
        (r"\p{Letter}", 51091),
        (r"\p{gc=Lu}", 51091),
        (r"\p{sc!=Greek}", 51091),
        (r"\p{Age=3.0}", 51091),
        (r"\p{IsL}", 51091),
        (r"\p{IsGreek}", 51091),
        (r"\p{bc=L}", 51091),
        (r"\p{Xan}", 51091),
    ] {
        let error = new(pattern, "").expect_err(pattern);
        assert_eq!(error.code, code, "{pattern}");
    }
}

#[test]
fn elements_without_characters_are_read_and_repeated() {
    check([
        (r"^(a)?(?(1)|)b$", "b", "c"),
        (r"^(a)?(?(1))b$", "ab", "ac"),
        (r"^(a)?(?(1))*b$", "b", "c"),
        (r"^\Bé$", "é", "aé"),
        (r"(?=.)\bé", "aé", "é"),
        (r"^é(?=\b)a", "éa", "é"),
        (r"^(?i)\B\x{17f}", "\u{17f}", "s"),
        (r"^[\Q\E^a]$", "b", "a"),
        (r"^[\E\Q\E\E]a]$", "]", "b"),
        (r"^(?:$)?\n$", "\n", "a\n"),
        (r"(?:$)+\n", "a\n", "a"),
        (r"^a(?:$)*", "a\n", "b\n"),
        (r"^(?:(?=a)){2}a", "a", "b"),
        (r"^(?:(?!a))?a", "a", "b"),
        (r"^(?:)*(?=a)", "a", "b"),
    ]);
}

#[test]
fn the_option_for_lazy_repetitions_is_read() {
    for (pattern, expected) in [
        ("(?U)a+", 1),
        ("(?U)a+?", 3),
        ("(?U)a{2,}", 2),
        ("(?U)a{2,}?", 3),
        ("(?U)a++", 3),
        ("(?U:a+)a*", 3),
        ("(?U-U)a+", 3),
        ("(?=a)(?U)a+", 1),
        ("(?=a)(?U)a*?", 3),
    ] {
        let found = groups(pattern, "", "aaa");
        assert_eq!(found[0], Some((0, expected)), "{pattern}");
    }
}

#[test]
fn groups_have_the_bounds_of_the_server() {
    assert_eq!(groups("(a){0}b", "", "b"), [Some((0, 1)), None]);
    assert_eq!(groups("(?=b)(a){0}b", "", "b"), [Some((0, 1)), None]);
    assert_eq!(groups("(?=a)(?:a+?)*", "", "aaa"), [Some((0, 3))]);
}

#[test]
fn a_script_alone_has_the_characters_that_it_shares_since_6_1() {
    let is_match = |release: [u16; 3], pattern: &str, text: &str| {
        let pattern = new_at(Release(release), pattern, "", &Budget::default()).expect(pattern);
        pattern.is_match(text, &Budget::default())
    };
    for (pattern, text) in [
        (r"^\p{Katakana}$", "\u{30fc}"),
        (r"^[\p{Han}]$", "\u{3001}"),
    ] {
        assert_eq!(is_match([8, 0, 0], pattern, text), Ok(true), "{pattern}");
        assert_eq!(is_match([6, 0, 0], pattern, text), Ok(false), "{pattern}");
    }
    check([
        (r"^\p{sc=Katakana}$", "\u{30a2}", "\u{30fc}"),
        (r"^\p{Script_Extensions: kana}$", "\u{30fc}", "a"),
        (r"^\p{l u}\p{L&}\p{^Any}?$", "AA", "a1"),
        (r"^\p{White Space}\P{Emoji}$", " a", "aa"),
    ]);
}

#[test]
fn a_look_behind_with_several_lengths_is_refused() {
    for pattern in [
        "(?<=(?:a|(?=b)bc)+)d",
        "(?<!a?)b",
        "(?<=ab|c(?:d|ef))g",
        "(?<=(?:(?:a*)))b",
    ] {
        let error = new(pattern, "").expect_err(pattern);
        let is_told = error
            .message
            .contains("lookbehind assertion is not fixed length");
        assert!(is_told, "{}", error.message);
    }
    for pattern in ["(?<=ab|c)d", "(?<=(?=a+)[ab]{2})c", "(?<!(?:ab|cd){3})e"] {
        new(pattern, "").expect(pattern);
    }
}
