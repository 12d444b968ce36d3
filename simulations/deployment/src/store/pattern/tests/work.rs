//! Tests of the charged work of patterns.

use super::*;

#[test]
fn the_work_of_a_pattern_is_charged_or_refused() {
    const STEPS: u64 = 10_000_000;
    let text = "a".repeat(500);
    for pattern in [
        "(a{1,100}){1,100}b",
        "(a{1,30}){1,30}b",
        "(a*)*(?=b)c",
        r"(a+)+\1b",
    ] {
        let budget = Budget::new(STEPS);
        let Ok(pattern) = new(pattern, "") else {
            continue;
        };
        let attempts = 100_000;
        let over = (0..attempts).position(|_| pattern.is_match(&text, &budget).is_err());
        assert!(over.is_some_and(|at| at < 400), "{pattern:?} {over:?}");
    }
    let short = new(r"(a*)*\1b", "").expect("a pattern");
    let budget = Budget::new(STEPS);
    let over = (0..10_000).position(|_| short.is_match("aaaaaaaaaaaaaa", &budget).is_err());
    assert!(over.is_some_and(|at| at < 600), "{over:?}");
    let small = new("ab", "").expect("a pattern");
    let budget = Budget::default();
    for _ in 0..100_000 {
        assert_eq!(small.is_match("a short text", &budget), Ok(false));
    }
}

#[test]
fn the_compilation_of_a_pattern_is_charged_by_its_size() {
    for (pattern, most) in [
        ("ab".to_owned(), 6_000),
        (r"\R".repeat(1_000), 700_000),
        ("(?>a)".repeat(1_000), 150_000),
        (r"\p{L}".repeat(50), 3_500_000),
        (r"\p{L}{1,100}".to_owned(), 3_000_000),
        ("(?=a)(b$|c)".repeat(100), 90_000),
    ] {
        let is_over = |steps: u64| {
            let compiled = new_at(Release::default(), &pattern, "", &Budget::new(steps));
            compiled.is_err_and(|error| error.code == 50)
        };
        assert!(is_over(most / 2) && !is_over(most), "{pattern:.10}");
    }
}

/// Returns the steps of a call, or `None` if they are more than a budget has.
fn steps_of(call: impl Fn(&Budget) -> Result<(), StoreError>) -> Option<u64> {
    let is_enough = |steps: u64| call(&Budget::new(steps)).is_ok();
    let (mut too_few, mut enough) = (0, 1 << 26);
    if !is_enough(enough) {
        return None;
    }
    while enough - too_few > 1 + too_few / 10 {
        let middle = u64::midpoint(too_few, enough);
        match is_enough(middle) {
            true => enough = middle,
            false => too_few = middle,
        }
    }
    Some(enough)
}

fn steps_of_match(pattern: &str, options: &str, text: &str) -> Option<u64> {
    let compiled = new(pattern, options).expect(pattern);
    steps_of(|budget| compiled.is_match(text, budget).map(|_| ()))
}

#[test]
fn very_long_repetitions_are_charged_in_full() {
    for pattern in [
        "(?:a|b){65535}",
        "(?:a|b){65535}cc",
        "(?:a|b){60000}(?:a|b){60000}",
    ] {
        // A refusal is in order as well.
        if let Ok(compiled) = new(pattern, "") {
            let steps = steps_of(|budget| compiled.is_match("abab", budget).map(|_| ()));
            assert!(
                steps.is_none_or(|steps| steps > 1_000),
                "{pattern}: {steps:?}"
            );
        }
    }
}

#[test]
fn nested_repetitions_of_empty_parts_are_refused() {
    for pattern in [
        r"()(?:(?:(?:\1{60000}){60000}){60000}){60000}",
        "(?:(?:(?=)(?=)){9999}){9999}",
        "(?:(?=(?:(?!b)){300}){300}){300}",
    ] {
        let error = new(pattern, "").expect_err(pattern);
        assert_eq!(error.code, 51091, "{pattern}");
        assert!(error.message.contains("too large"), "{}", error.message);
    }
    let steps = steps_of_match("(?:(?=)(?=)){60000}", "", "a");
    assert!(steps.is_none_or(|steps| steps > 100_000), "{steps:?}");
    let nested = r"^(?=.{1,254}$)(?:(?!-)[a-z0-9-]{1,63}\.){1,8}[a-z]{2,63}$";
    assert!(is_match(nested, "www.example.com"));
}

#[test]
fn each_failure_is_charged_by_the_text_that_is_read_again() {
    let long = "a".repeat(15_000) + &"b".repeat(200_000);
    let short = "ab".repeat(200);
    for pattern in ["(?>[a-z]*)9", r"(\w)\1[a-z]*9", "(?=(?=[a-z]*)[a-z]*9)a"] {
        assert_eq!(steps_of_match(pattern, "", &long), None, "{pattern}");
        let steps = steps_of_match(pattern, "", &short).expect(pattern);
        assert!((20_000..20_000_000).contains(&steps), "{pattern} {steps}");
    }
    // The failure-free pass of this loop reads the text once for each character.
    let steps = steps_of_match("^(?:(?=[a-z]*)[a-z])*", "", &short);
    assert!(steps.is_some_and(|steps| steps > 10_000), "{steps:?}");
    assert_eq!(
        steps_of_match("(?>[ab]*a[ab]{120}c)", "", &short.repeat(20)),
        None
    );
}

#[test]
fn many_groups_beside_a_back_reference_are_charged() {
    let pattern = format!(r"(?:{}\1a)*9", "()".repeat(200));
    let steps = steps_of_match(&pattern, "", &"a".repeat(30)).expect("steps");
    assert!(steps > 1_000_000, "{steps}");
}

#[test]
fn searches_with_look_around_that_fail_seldom_cost_little() {
    for (pattern, text) in [
        (r"^(?=.*\d)(?=.*[a-z])(?=.*[A-Z]).{8,32}$", "lkjhSdf8A"),
        (
            r"\b(\w+)\s+\1\b",
            "the quick brown fox jumps over the dog dog",
        ),
        (r#"(["'])(?:\\.|(?!\1).)*\1"#, r#"say "hello world""#),
        ("(?<!a)b", "aaaaaaaaaaaaaaaaaaaaaaab"),
    ] {
        let steps = steps_of_match(pattern, "", text);
        assert!(
            steps.is_some_and(|steps| steps < 5_000),
            "{pattern} {steps:?}"
        );
    }
    let text = "some text ".repeat(50) + "<b>bold</b>";
    let steps = steps_of_match("<b>(?:(?!</b>).)*</b>", "", &text);
    assert!(steps.is_some_and(|steps| steps < 50_000), "{steps:?}");
}

#[test]
fn a_pattern_with_very_many_states_is_charged_by_its_size() {
    let text = "ab".repeat(5_000);
    let cheap = steps_of_match("[ab]*a[ab]{3}c", "", &text).expect("steps");
    let many = steps_of_match("[ab]*a[ab]{20}c", "", &text).expect("steps");
    let more = steps_of_match("[ab]*a[ab]{120}c", "", &text).expect("steps");
    assert!(
        cheap < 200 && many > 40_000 && more > 4 * many,
        "{cheap} {many} {more}"
    );
}

#[test]
fn usual_searches_are_within_the_limits() {
    let names = ["Żółwińskabcdefghijk"; 5_000];
    for (pattern, options) in [
        (r"^\p{L}+$", ""),
        ("^.{1,1000}$", ""),
        ("^[^<>]{1,500}$", ""),
        (r"^\p{L}{1,50}$", ""),
        (r"^[\p{L}\p{M} '-]{1,100}$", ""),
        ("[a-z0-9]{1,2000}", "i"),
        (r"(żół|foo|bar|baz|qux|quux).{0,20}$", "i"),
    ] {
        let compiled = new(pattern, options).expect(pattern);
        let budget = Budget::default();
        for name in names {
            assert_eq!(compiled.is_match(name, &budget), Ok(true), "{pattern}");
        }
    }
    let (words, budget) = ("words ".repeat(17_000), Budget::default());
    let compiled = new("[a-z]+", "").expect("a pattern");
    let (mut start, mut count) = (0, 0);
    while let Some(found) = compiled.captures(&words, start, &budget).expect("steps") {
        start = found[0].expect("bounds").1;
        count += 1;
    }
    assert_eq!(count, 17_000);
}

#[test]
fn the_compilation_of_classes_without_case_is_charged_or_cheap() {
    let wide = "[a-\u{10ffff}]".repeat(100);
    let properties = format!("[{}]", r"\p{L}".repeat(3_000));
    for (pattern, least) in [(wide, 5_000), (properties, 15_000_000)] {
        let steps =
            steps_of(|budget| new_at(Release::default(), &pattern, "i", budget).map(|_| ()));
        assert!(steps.is_some_and(|steps| steps > least), "{steps:?}");
    }
}
