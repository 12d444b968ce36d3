//! Patterns of the server in the syntax of the engines.

use std::iter::Peekable;
use std::str::Chars;

/// Returns a pattern in the syntax of the engines: with ASCII classes, with `boundary` for `\b` and
/// `end` for `\Z` and for a `$` that is no end of a line, with braces as text if they hold no
/// numbers, and without the set operations that the engines have in classes.
pub(super) fn translated(pattern: &str, options: &str, (boundary, end): (&str, &str)) -> String {
    let is_verbose = options.contains('x');
    let has_lines = options.contains('m') || sets_lines(pattern);
    let mut out = String::with_capacity(pattern.len());
    let mut characters = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(c) = characters.next() {
        match c {
            '\\' => match characters.next() {
                Some('Q') => quote(&mut characters, &mut out),
                Some(escaped) => {
                    escape(escaped, in_class, (boundary, end), &mut out);
                    if matches!(escaped, 'p' | 'P' | 'x' | 'k' | 'g') {
                        name(&mut characters, &mut out);
                    }
                }
                None => out.push('\\'),
            },
            '$' if !in_class && !has_lines => out.push_str(end),
            '{' if !in_class && !is_repetition(characters.clone()) => out.push_str(r"\{"),
            '#' if is_verbose && !in_class => while characters.next_if(|c| *c != '\n').is_some() {},
            '[' if !in_class => {
                in_class = true;
                out.push('[');
                if characters.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                if characters.next_if_eq(&']').is_some() {
                    out.push_str(r"\]");
                }
            }
            '[' if characters.peek() != Some(&':') => out.push_str(r"\["),
            '[' => {
                // A class such as `[:alpha:]` inside a class.
                out.push('[');
                for inner in characters.by_ref() {
                    out.push(inner);
                    if inner == ']' {
                        break;
                    }
                }
            }
            ']' => {
                in_class = false;
                out.push(']');
            }
            '&' | '~' if in_class => out.extend(['\\', c]),
            '-' if in_class && out.ends_with('-') => out.push_str(r"\-"),
            other => out.push(other),
        }
    }
    out
}

/// True if a pattern turns the option `m` on.
fn sets_lines(pattern: &str) -> bool {
    let mut groups = pattern.match_indices("(?");
    groups.any(|(at, start)| {
        let mut parts = pattern[at + start.len()..].split(|c: char| !c.is_ascii_lowercase());
        let sets_lines = parts.next().is_some_and(|flags| flags.contains('m'));
        sets_lines && !pattern[..at].ends_with('\\')
    })
}

/// True if the characters after a brace are the bounds of a repetition. The lower one must be
/// given.
fn is_repetition(mut characters: Peekable<Chars<'_>>) -> bool {
    let mut has_digits = false;
    while characters.next_if(char::is_ascii_digit).is_some() {
        has_digits = true;
    }
    if characters.next_if_eq(&',').is_some() {
        while characters.next_if(char::is_ascii_digit).is_some() {}
    }
    has_digits && characters.next() == Some('}')
}

/// Appends the name in braces after an escaped character, if there is one.
fn name(characters: &mut Peekable<Chars<'_>>, out: &mut String) {
    if characters.peek() != Some(&'{') {
        return;
    }
    for c in characters.by_ref() {
        out.push(c);
        if c == '}' {
            return;
        }
    }
}

/// Appends an escaped character.
fn escape(escaped: char, in_class: bool, (boundary, end): (&str, &str), out: &mut String) {
    match (escaped, in_class) {
        ('d', _) => out.push_str("[0-9]"),
        ('w', _) => out.push_str("[0-9A-Za-z_]"),
        ('s', _) => out.push_str(r"[\t\n\x0B\x0C\r\x20]"),
        ('D', _) => out.push_str("[^0-9]"),
        ('W', _) => out.push_str("[^0-9A-Za-z_]"),
        ('S', _) => out.push_str(r"[^\t\n\x0B\x0C\r\x20]"),
        ('b', false) => out.push_str(boundary),
        ('Z', false) => out.push_str(end),
        (other, _) => out.extend(['\\', other]),
    }
}

/// Appends the text up to `\E` as it is.
fn quote(characters: &mut Peekable<Chars<'_>>, out: &mut String) {
    while let Some(c) = characters.next() {
        if c == '\\' && characters.next_if_eq(&'E').is_some() {
            return;
        }
        out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
    }
}
