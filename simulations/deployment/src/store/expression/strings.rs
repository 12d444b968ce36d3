//! Expressions on strings.

use bson::{Bson, doc};

use super::operators::{argument, bounds_of_search, is_null, list};
use super::sets::kind_of;
use super::values::text_of_operand;
use super::{Evaluated, Scope, evaluate as eval};
use crate::store::error::StoreError;
use crate::store::order::{display, type_name};
use crate::store::pattern::Pattern;
use crate::store::{Answer, number, size};

pub(super) fn strings(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    let string = |s: String| Ok(Some(Bson::String(s)));
    match name {
        "$trim" | "$ltrim" | "$rtrim" => return trim(name, operand, scope),
        "$regexMatch" | "$regexFind" | "$regexFindAll" => return regex(name, operand, scope),
        "$replaceOne" | "$replaceAll" => return replace(name, operand, scope),
        _ => {}
    }
    let values = list(operand, scope)?;
    match name {
        "$concat" => return concat(&values, scope),
        "$indexOfBytes" | "$indexOfCP" => return index_of(name, &values),
        _ => {}
    }
    match name {
        "$strLenCP" | "$strLenBytes" => return length(name, values.first()),
        "$split" => return split(&values, scope),
        _ => {}
    }
    let subject = coerced(values.first())?;
    match name {
        "$toUpper" => string(subject.to_ascii_uppercase()),
        "$toLower" => string(subject.to_ascii_lowercase()),
        "$strcasecmp" => {
            let other = coerced(values.get(1))?.to_ascii_uppercase();
            let order = subject.to_ascii_uppercase().cmp(&other);
            Ok(Some(Bson::Int32(order as i32)))
        }
        "$substrCP" => substring_of_characters(&subject, &values),
        _ => substring_of_bytes(&subject, &values),
    }
}

/// Returns an operand as a string. Null and missing are an empty string.
fn coerced(value: Option<&Option<Bson>>) -> Answer<String> {
    let Some(value) = value.and_then(Option::as_ref) else {
        return Ok(String::new());
    };
    text_of_operand(value).ok_or_else(|| {
        let kind = type_name(value);
        let text = format!("can't convert from BSON type {kind} to String");
        StoreError::new(16007, text)
    })
}

fn length(name: &str, value: Option<&Option<Bson>>) -> Evaluated {
    match value.and_then(Option::as_ref) {
        Some(Bson::String(text)) if name == "$strLenCP" => Ok(Some(count(text.chars().count()))),
        Some(Bson::String(text)) => Ok(Some(count(text.len()))),
        other => {
            let kind = kind_of(other);
            let text = format!("{name} requires a string argument, found: {kind}");
            let code = if name == "$strLenCP" { 34471 } else { 34473 };
            Err(StoreError::new(code, text))
        }
    }
}

fn substring_of_characters(subject: &str, values: &[Option<Bson>]) -> Evaluated {
    let read = |place: usize, what: &str, codes: [i32; 3]| {
        let value = values.get(place).and_then(Option::as_ref);
        let Some(value) = value.filter(|value| number::is_number(value)) else {
            let kind = kind_of(value);
            let text = format!("$substrCP: {what} must be a numeric type (is BSON type {kind})");
            return Err(StoreError::new(codes[0], text));
        };
        let whole = number::as_int32(value).ok_or_else(|| {
            let shown = display(value);
            let text = format!(
                "$substrCP: {what} cannot be represented as a 32-bit integral value: {shown}"
            );
            StoreError::new(codes[1], text)
        })?;
        usize::try_from(whole).map_err(|_| {
            let text = format!("$substrCP: {what} must be a nonnegative integer.");
            StoreError::new(codes[2], text)
        })
    };
    let start = read(1, "starting index", [34450, 34451, 34455])?;
    let length = read(2, "length", [34452, 34453, 34454])?;
    let part = subject.chars().skip(start).take(length).collect();
    Ok(Some(Bson::String(part)))
}

/// Evaluates `$substrBytes` and its older name `$substr`. A negative length is the rest of the
/// string.
fn substring_of_bytes(subject: &str, values: &[Option<Bson>]) -> Evaluated {
    let read = |place: usize, what: &str, code: i32| {
        let value = values.get(place).and_then(Option::as_ref);
        let whole = value.and_then(number::truncated);
        whole.ok_or_else(|| {
            let kind = kind_of(value);
            let text = format!("$substrBytes: {what} must be a numeric type (is BSON type {kind})");
            StoreError::new(code, text)
        })
    };
    let start = read(1, "starting index", 16034)?;
    let length = read(2, "length", 16035)?;
    let Ok(start) = usize::try_from(start) else {
        let text = format!("$substrBytes: starting index must be non-negative (got: {start})");
        return Err(StoreError::new(50752, text));
    };
    let end = usize::try_from(length).map_or(usize::MAX, |length| start.saturating_add(length));
    for (place, code) in [(start, 28656), (end, 28657)] {
        if place < subject.len() && !subject.is_char_boundary(place) {
            let text = "$substrBytes: Invalid range, starting or ending index is in the middle of \
                        a UTF-8 character.";
            return Err(StoreError::new(code, text));
        }
    }
    let part = subject.get(start..end.min(subject.len()));
    Ok(Some(Bson::String(part.unwrap_or_default().to_owned())))
}

fn count(n: usize) -> Bson {
    Bson::Int32(i32::try_from(n).unwrap_or(i32::MAX))
}

fn split(values: &[Option<Bson>], scope: &Scope<'_>) -> Evaluated {
    let (subject, separator) = (values.first(), values.get(1));
    if subject.is_none_or(is_null) || separator.is_none_or(is_null) {
        return Ok(Some(Bson::Null));
    }
    let read = |value: Option<&'_ Option<Bson>>, place: &str, code: i32| {
        let value = value.and_then(Option::as_ref);
        let text = value.and_then(Bson::as_str).map(str::to_owned);
        text.ok_or_else(|| {
            let kind = kind_of(value);
            let text = format!(
                "$split requires an expression that evaluates to a string as a {place} argument, \
                 found: {kind}"
            );
            StoreError::new(code, text)
        })
    };
    let subject = read(subject, "first", 40085)?;
    let separator = read(separator, "second", 40086)?;
    if separator.is_empty() {
        let text = "$split requires a non-empty separator";
        return Err(StoreError::new(40087, text));
    }
    let budget = &scope.context.budget;
    let parts = subject.split(&separator).count();
    budget.charge(subject.len().saturating_add(parts * size_of::<Bson>()))?;
    let parts = subject.split(&separator);
    let parts = parts.map(|part| Bson::String(part.to_owned()));
    Ok(Some(Bson::Array(parts.collect())))
}

/// Evaluates a named argument that must be a string. Returns `None` if it is null or missing.
fn named_text(
    name: &str,
    operand: &Bson,
    key: &str,
    code: i32,
    scope: &Scope<'_>,
) -> Answer<Option<String>> {
    match eval(argument(name, operand, key)?, scope)? {
        Some(Bson::String(text)) => Ok(Some(text)),
        value if is_null(&value) => Ok(None),
        other => {
            let kind = other.as_ref().map_or("missing", type_name);
            let text = format!("{name} requires that '{key}' be a string, found: {kind}");
            Err(StoreError::new(code, text))
        }
    }
}

fn trim(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    let input = named_text(name, operand, "input", 50699, scope)?;
    let has_chars = operand
        .as_document()
        .is_some_and(|d| d.contains_key("chars"));
    let chars = match has_chars {
        true => named_text(name, operand, "chars", 50700, scope)?,
        false => None,
    };
    let Some(input) = input.filter(|_| chars.is_some() || !has_chars) else {
        return Ok(Some(Bson::Null));
    };
    if let Some(chars) = &chars {
        let pairs = chars.len().saturating_mul(input.len());
        scope.context.budget.step(pairs as u64 / 16)?;
    }
    let is_trimmed = |c: char| match &chars {
        Some(chars) => chars.contains(c),
        None => is_blank(c),
    };
    let trimmed = match name {
        "$ltrim" => input.trim_start_matches(is_trimmed),
        "$rtrim" => input.trim_end_matches(is_trimmed),
        _ => input.trim_matches(is_trimmed),
    };
    Ok(Some(Bson::String(trimmed.to_owned())))
}

/// True for the characters that `$trim` removes by default: fewer than those of Unicode.
fn is_blank(c: char) -> bool {
    matches!(
        c,
        '\0' | '\t'..='\r' | ' ' | '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}'
    )
}

fn replace(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    let input = named_text(name, operand, "input", 51746, scope)?;
    let find = named_text(name, operand, "find", 51745, scope)?;
    let replacement = named_text(name, operand, "replacement", 51744, scope)?;
    let (Some(input), Some(find), Some(replacement)) = (input, find, replacement) else {
        return Ok(Some(Bson::Null));
    };
    let most = if name == "$replaceOne" { 1 } else { usize::MAX };
    scope.context.budget.step(input.len() as u64 / 16)?;
    let places = input.matches(find.as_str()).take(most).count();
    let bytes = input
        .len()
        .saturating_add(places.saturating_mul(replacement.len()));
    size::check_intermediate(bytes)?;
    scope.context.budget.charge(bytes)?;
    Ok(Some(Bson::String(input.replacen(
        &find,
        &replacement,
        most,
    ))))
}

/// Returns the place of the first occurrence of a text between two places, all in bytes. The two
/// places can lie within a character, as in a search of bytes.
fn find_within(input: &str, wanted: &str, first: usize, end: usize) -> Option<usize> {
    if wanted.is_empty() {
        return Some(first);
    }
    // Each occurrence begins and ends between characters.
    let is_between = |place: &usize| input.is_char_boundary(*place);
    let first = (first..=end).find(is_between)?;
    let end = (first..=end).rev().find(is_between)?;
    Some(first + input[first..end].find(wanted)?)
}

/// Evaluates `$indexOfBytes` and `$indexOfCP`.
fn index_of(name: &str, values: &[Option<Bson>]) -> Evaluated {
    let by_bytes = name == "$indexOfBytes";
    let wrong = |code: i32, place: &str, value: &Option<Bson>| {
        let kind = value.as_ref().map_or("missing", type_name);
        let text = format!("{name} requires a string as the {place} argument, found: {kind}");
        Err(StoreError::new(code, text))
    };
    let (Some(input), Some(wanted)) = (values.first(), values.get(1)) else {
        let text = format!("Expression {name} takes at least 2 arguments, and at most 4");
        return Err(StoreError::new(28667, text));
    };
    let input = match input {
        Some(Bson::String(input)) => input,
        value if is_null(value) => return Ok(Some(Bson::Null)),
        other => return wrong(if by_bytes { 40091 } else { 40093 }, "first", other),
    };
    let Some(Bson::String(wanted)) = wanted else {
        return wrong(if by_bytes { 40092 } else { 40094 }, "second", wanted);
    };
    let (start, end) = bounds_of_search(name, values)?;
    let byte_of = |place: usize| match by_bytes {
        true => place,
        false => input
            .char_indices()
            .nth(place)
            .map_or(input.len(), |(at, _)| at),
    };
    let end = byte_of(end.unwrap_or(usize::MAX)).min(input.len());
    let length = if by_bytes {
        input.len()
    } else {
        input.chars().count()
    };
    let first = byte_of(start);
    if start > length || end < first {
        return Ok(Some(Bson::Int32(-1)));
    }
    let Some(at) = find_within(input, wanted, first, end) else {
        return Ok(Some(Bson::Int32(-1)));
    };
    Ok(Some(count(match by_bytes {
        true => at,
        false => input[..at].chars().count(),
    })))
}

/// Evaluates `$regexMatch`, `$regexFind` and `$regexFindAll`.
fn regex(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    let input = named_text(name, operand, "input", 51104, scope)?;
    let pattern = pattern_of(name, operand, scope)?;
    let (Some(input), Some(pattern)) = (input, pattern) else {
        return Ok(Some(match name {
            "$regexMatch" => false.into(),
            "$regexFind" => Bson::Null,
            _ => Bson::Array(Vec::new()),
        }));
    };
    let budget = &scope.context.budget;
    if name == "$regexMatch" {
        return Ok(Some(pattern.is_match(&input, budget)?.into()));
    }
    let (mut found, mut start) = (Vec::new(), 0);
    while let Some(parts) = pattern.captures(&input, start, budget)? {
        let Some((from, to)) = parts.first().copied().flatten() else {
            break;
        };
        let text = |(from, to): (usize, usize)| Bson::String(input[from..to].to_owned());
        budget.step(from as u64 / 64)?;
        let captures = parts[1..].iter().map(|part| part.map_or(Bson::Null, text));
        let entry = doc! {
            "match": text((from, to)), "idx": count(input[..from].chars().count()),
            "captures": captures.collect::<Vec<_>>(),
        };
        budget.hold_document(&entry)?;
        if name == "$regexFind" {
            return Ok(Some(entry.into()));
        }
        found.push(Bson::Document(entry));
        // After an empty match, the search goes on behind the next character.
        let step = input[to..].chars().next().map_or(1, char::len_utf8);
        start = if to > from { to } else { to + step };
        if start >= input.len() {
            break;
        }
    }
    Ok(Some(match name {
        "$regexFind" => Bson::Null,
        _ => Bson::Array(found),
    }))
}

/// Returns the pattern of the arguments `regex` and `options`, or `None` if it is null.
fn pattern_of(name: &str, operand: &Bson, scope: &Scope<'_>) -> Answer<Option<Pattern>> {
    let given = match argument(name, operand, "regex")? {
        literal @ Bson::RegularExpression(_) => Some(literal.clone()),
        other => eval(other, scope)?,
    };
    let options = match operand
        .as_document()
        .is_some_and(|d| d.contains_key("options"))
    {
        true => named_text(name, operand, "options", 51106, scope)?,
        false => None,
    };
    match given {
        Some(Bson::RegularExpression(regex)) => {
            let own = regex.options.as_str();
            if !own.is_empty() && options.is_some() {
                let text = format!(
                    "{name}: found regex option(s) specified in both 'regex' and 'option' fields"
                );
                return Err(StoreError::new(51107, text));
            }
            let options = options.as_deref().unwrap_or(own);
            scope
                .context
                .pattern(regex.pattern.as_str(), options)
                .map(Some)
        }
        Some(Bson::String(text)) => {
            let options = options.unwrap_or_default();
            scope.context.pattern(&text, &options).map(Some)
        }
        value if is_null(&value) => Ok(None),
        _ => {
            let text = format!("{name} needs 'regex' to be of type string or regex");
            Err(StoreError::new(51105, text))
        }
    }
}

fn concat(values: &[Option<Bson>], scope: &Scope<'_>) -> Evaluated {
    let strings = values.iter().flatten().filter_map(Bson::as_str);
    let bytes = strings.map(str::len).sum();
    size::check_intermediate(bytes)?;
    scope.context.budget.charge(bytes)?;
    let mut joined = String::with_capacity(bytes);
    for value in values {
        match value {
            Some(Bson::String(s)) => joined.push_str(s),
            value if is_null(value) => return Ok(Some(Bson::Null)),
            other => {
                let kind = other.as_ref().map_or("missing", type_name);
                let message = format!("$concat only supports strings, not {kind}");
                return Err(StoreError::new(16702, message));
            }
        }
    }
    Ok(Some(Bson::String(joined)))
}
