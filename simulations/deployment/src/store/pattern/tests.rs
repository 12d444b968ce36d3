//! Tests of patterns.

use super::*;

fn is_match(pattern: &str, text: &str) -> bool {
    let pattern = Pattern::new(pattern, "", usize::MAX).expect(pattern);
    pattern.is_match(text, &Budget::default()).expect(text)
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
        (r"^[\w-.]+@", "a-b.c@", "a b@"),
        (r"^[\s-a]$", "-", "5"),
        (r"^[\w-|]$", "-", "`"),
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
    ]);
}

#[test]
fn a_match_before_the_last_newline_has_the_bounds_of_the_server() {
    let options = Pattern::new("A . b # c", "isx", usize::MAX).expect("a pattern");
    assert_eq!(options.is_match("a\nB", &Budget::default()), Ok(true));
    let end = Pattern::new("a\\n?$", "", usize::MAX).expect("a pattern");
    let lazy = Pattern::new("a\\n??$", "", usize::MAX).expect("a pattern");
    let found = |pattern: &Pattern| {
        let found = pattern
            .captures("a\n", 0, &Budget::default())
            .expect("no error");
        found.expect("a match")[0]
    };
    assert_eq!((found(&end), found(&lazy)), (Some((0, 2)), Some((0, 1))));
    let word = Pattern::new(r"(\w+)\.$", "", usize::MAX).expect("a pattern");
    let budget = Budget::default();
    for _ in 0..20_000 {
        let found = word.captures("line 7 some text ends here.\n", 0, &budget);
        let groups = found.expect("within the limit").expect("a match");
        assert_eq!(groups, [Some((22, 27)), Some((22, 26))]);
    }
}

#[test]
fn malformed_patterns_are_refused() {
    let commented = Pattern::new("a # [x\n[b]c", "x", usize::MAX).expect("a pattern");
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
        (r"\X", "", 238),
        ("(?R)", "", 238),
        ("(?1)", "", 238),
        ("(*ACCEPT)", "", 238),
        (r"(a)\g<1>", "", 238),
    ] {
        let error = Pattern::new(pattern, options, usize::MAX).expect_err(pattern);
        assert_eq!(error.code, code, "{pattern}");
    }
}

#[test]
fn the_work_of_a_pattern_is_charged_or_refused() {
    let text = "a".repeat(5_000);
    for pattern in [
        "(a{1,100}){1,100}b",
        "(a{1,30}){1,30}b",
        "(a*)*(?=b)c",
        r"(a+)+\1b",
    ] {
        let budget = Budget::default();
        let Ok(pattern) = Pattern::new(pattern, "", usize::MAX) else {
            continue;
        };
        let attempts = 100_000;
        let over = (0..attempts).position(|_| pattern.is_match(&text, &budget).is_err());
        assert!(over.is_some_and(|at| at < 2_000), "{pattern:?} {over:?}");
    }
    let short = Pattern::new(r"(a*)*\1b", "", usize::MAX).expect("a pattern");
    let budget = Budget::default();
    let over = (0..10_000).position(|_| short.is_match("aaaaaaaaaaaaaa", &budget).is_err());
    assert!(over.is_some_and(|at| at < 3_000), "{over:?}");
    let small = Pattern::new("ab", "", usize::MAX).expect("a pattern");
    let budget = Budget::default();
    for _ in 0..100_000 {
        assert_eq!(small.is_match("a short text", &budget), Ok(false));
    }
}
