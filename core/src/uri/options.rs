//! Parses the options of a connection string, by the kinds and fields of the option table.

use super::{
    Result,
    draft::Draft,
    invalid,
    nearest::one_of,
    pairs::{Pair, may_end_a_password},
    split::BAD_PERCENT,
    table::{self, Kind, OptionSpec, Repeat, Set},
    value::{OptionValue, Refusal, boolean, integer, key_values},
};
use crate::{
    description::Tags,
    error::{Error, UriPart},
    options::{ClientOptions, Compressor, Monitoring, REDACTED, Secret, TLS_CONFLICTS, Warning},
};
use std::{collections::BTreeMap, num::IntErrorKind, time::Duration};

/// The state of a parser of options, and its results.
pub(super) struct OptionsParser {
    pub(super) draft: Draft,
    pub(super) warnings: Vec<Warning>,
    /// The parsed values of the options that were given and not ignored, by option name.
    pub(super) values: BTreeMap<&'static str, OptionValue>,
}

/// An option with its decoded values, in the order of the string.
pub(super) struct GivenOption<'a> {
    pub(super) spec: &'static OptionSpec,
    /// The values before the last one, if all values count (`Repeat::Each`).
    earlier: Vec<&'a str>,
    last: Option<&'a str>,
    /// How often the option occurs, values that cannot be decoded included.
    occurrences: usize,
}

impl<'a> GivenOption<'a> {
    /// Returns the values that count, in the order of the string.
    fn values(&self) -> impl Iterator<Item = &'a str> {
        self.earlier.iter().copied().chain(self.last)
    }
}

/// Finds each key in the option table, and joins the occurrences of an option. Unknown options are
/// left out with a warning.
pub(super) fn collect_options<'a>(
    pairs: &'a [Pair],
    warnings: &mut Vec<Warning>,
) -> Result<Vec<GivenOption<'a>>> {
    let most = pairs.len().min(table::LEN);
    let hides_keys = may_end_a_password(pairs);
    let mut given: Vec<GivenOption<'a>> = Vec::with_capacity(most);
    // An unknown key after a secret can be a part of it in which `&` was not encoded.
    let mut follows_secret = false;
    for pair in pairs {
        let Some(spec) = pair.spec() else {
            let key = match hides_keys || follows_secret {
                true => REDACTED.to_owned(),
                false => pair.key.clone(),
            };
            let nearest = table::nearest_name(&key);
            warnings.push(Warning::Unknown { key, nearest });
            continue;
        };
        follows_secret = spec.is_secret();
        let index = match given.iter().position(|g| g.spec.name == spec.name) {
            Some(index) => index,
            None => {
                given.push(GivenOption {
                    spec,
                    earlier: Vec::new(),
                    last: None,
                    occurrences: 0,
                });
                given.len() - 1
            }
        };
        let option = &mut given[index];
        option.occurrences += 1;
        if pair.is_malformed {
            let reason = BAD_PERCENT;
            warnings.push(ignored(spec, reason.to_owned())?);
        } else {
            let earlier = option.last.replace(pair.value.expose());
            if spec.repeat == Repeat::Each {
                option.earlier.extend(earlier);
            }
        }
    }
    for option in given.iter().filter(|option| option.occurrences > 1) {
        let name = option.spec.name;
        match option.spec.repeat {
            Repeat::Last => warnings.push(Warning::Repeated { option: name }),
            Repeat::Each => {}
            Repeat::Refused => {
                let message = format!("{name} is given several times; keep one");
                return Err(invalid(UriPart::Options, message));
            }
        }
    }
    Ok(given)
}

/// Returns the warning about a value that cannot be read. Fails for an option without which
/// connections would be less protected. This deviates from the rule for other options (CS-32).
fn ignored(spec: &OptionSpec, reason: String) -> Result<Warning> {
    let option = spec.name;
    match spec.is_protection {
        true => Err(refused(option, &reason)),
        false => Ok(Warning::Ignored { option, reason }),
    }
}

fn refused(option: &str, reason: &str) -> Error {
    invalid(UriPart::Options, format!("{option}: {reason}"))
}

/// Returns the number that a text is; one that exceeds an `i64` counts as the largest. `None` for
/// any other text.
fn whole_number(text: &str) -> Option<i64> {
    text.parse::<i64>().map_or_else(
        |error| match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => Some(i64::MAX),
            _ => None,
        },
        Some,
    )
}

impl OptionsParser {
    /// Returns a parser that changes these options.
    pub(super) fn new(options: ClientOptions) -> Self {
        Self {
            draft: Draft::new(options),
            warnings: Vec::new(),
            values: BTreeMap::new(),
        }
    }

    /// Parses the options of a connection string. `srv` is true for `mongodb+srv`.
    pub(super) fn parse(&mut self, pairs: &[Pair], srv: bool) -> Result<()> {
        let mut given = collect_options(pairs, &mut self.warnings)?;
        self.drop_scanning_options(&mut given);
        let present = |name: &str| given.iter().any(|g| g.spec.name == name);
        for (a, b) in TLS_CONFLICTS {
            if present(a) && present(b) {
                let message = format!("{a} conflicts with {b}, whatever their values; keep one");
                return Err(invalid(UriPart::Options, message));
            }
        }
        for name in ["srvAllowedHostsSuffix", "srvMaxHosts", "srvServiceName"] {
            if !srv && present(name) {
                // These options are errors without `mongodb+srv`, with any value (URI-16, DNS-44).
                let message = format!("{name} requires mongodb+srv://; remove it");
                return Err(invalid(UriPart::Options, message));
            }
        }
        for option in &given {
            if let Some(instead) = option.spec.renamed {
                self.warnings.push(Warning::Renamed {
                    option: option.spec.name,
                    instead,
                });
                if present(instead) {
                    continue;
                }
            }
            self.apply(option)?;
        }
        Ok(())
    }

    /// Warns of options of a credential that have no effect. Without a user name and a mechanism,
    /// connections do not authenticate (AUTH-5 to AUTH-7).
    pub(super) fn warn_of_unused_credential(&mut self) {
        let unused = self.draft.unused_credential_options();
        self.warnings
            .extend(unused.map(|option| Warning::WithoutEffect {
                option,
                consequence: "there is neither a user name nor a mechanism, so connections do not \
                              authenticate",
            }));
    }

    /// Unless the client scans, drops the option that only a client that scans has. A warning calls
    /// the option unknown (SEL-6). Its value is kept aside ([`ClientOptions::scan_on_demand`]).
    fn drop_scanning_options(&mut self, given: &mut Vec<GivenOption<'_>>) {
        if self.draft.options.monitoring == Monitoring::Scanning {
            return;
        }
        given.retain(|option| {
            if option.spec.scanning_only {
                let (key, nearest) = (option.spec.name.to_owned(), None);
                self.warnings.push(Warning::Unknown { key, nearest });
                let read = |value| boolean(option.spec.name, value, &mut Vec::new()).ok();
                self.draft.options.unused_try_once = option.last.and_then(read);
            }
            !option.spec.scanning_only
        });
    }

    /// Parses an option and stores its value in the draft: all values if the option may be repeated
    /// (`Repeat::Each`), otherwise the last one. A value that is not valid gives a warning or an
    /// error.
    pub(super) fn apply(&mut self, given: &GivenOption<'_>) -> Result<()> {
        let option = given.spec.name;
        let mut values = given.values();
        let outcome = match &given.spec.kind {
            _ if given.last.is_none() => Ok(None),
            Kind::Compressors(set) => self.compressors(values, *set).map(Some),
            Kind::TagSets(set) => self.tag_sets(values, *set).map(Some),
            _ => values.try_fold(None, |_, value| {
                self.parse_value(given.spec, value).map(Some)
            }),
        };
        match outcome {
            Ok(None) => {}
            Ok(Some(value)) => {
                self.values.insert(option, value);
            }
            Err(Refusal::Ignore(reason)) => {
                self.draft.properties_dropped |= matches!(given.spec.kind, Kind::Properties(_));
                self.warnings.push(ignored(given.spec, reason)?);
            }
            Err(Refusal::Fatal(reason)) => return Err(refused(option, &reason)),
        }
        Ok(())
    }

    /// Parses one value and stores it in the draft.
    fn parse_value(
        &mut self,
        spec: &'static OptionSpec,
        text: &str,
    ) -> Result<OptionValue, Refusal> {
        let draft = &mut self.draft;
        Ok(match &spec.kind {
            Kind::Bool(set) => {
                let value = boolean(spec.name, text, &mut self.warnings)?;
                set(draft, value)?;
                OptionValue::Bool(value)
            }
            Kind::Int(min, max, set) => {
                let value = integer(text, *min, *max)?;
                set(draft, value)?;
                OptionValue::Int(value)
            }
            Kind::Millis(min, max, set) => {
                let value = integer(text, *min, *max)?;
                set(draft, Duration::from_millis(value.unsigned_abs()))?;
                OptionValue::Int(value)
            }
            Kind::Text(set) => {
                set(draft, text.to_owned())?;
                OptionValue::Text(text.to_owned())
            }
            Kind::Secret(set) => {
                let secret = Secret::new(text);
                set(draft, secret.clone())?;
                OptionValue::Secret(secret)
            }
            Kind::NumberOrText(_) if text.is_empty() => {
                return Refusal::ignore("it takes a number or a name");
            }
            Kind::NumberOrText(set) => match whole_number(text) {
                Some(number) => {
                    set(draft, Ok(number))?;
                    OptionValue::Int(number)
                }
                None => {
                    set(draft, Err(text.to_owned()))?;
                    OptionValue::Text(text.to_owned())
                }
            },
            Kind::Properties(set) => {
                let properties: BTreeMap<_, _> = key_values(text)?
                    .into_iter()
                    .map(|(key, value)| (key, Secret::new(value)))
                    .collect();
                set(draft, properties.clone())?;
                OptionValue::Properties(properties)
            }
            Kind::Compressors(_) | Kind::TagSets(_) => {
                return Refusal::ignore("it takes a list");
            }
        })
    }

    /// Parses the lists of compressors. Each unknown name is dropped with a warning.
    fn compressors<'v>(
        &mut self,
        values: impl Iterator<Item = &'v str>,
        set: Set<Vec<Compressor>>,
    ) -> Result<OptionValue, Refusal> {
        let mut list = Vec::new();
        for name in values.flat_map(|value| value.split(',')) {
            match Compressor::from_name(name) {
                Some(compressor) => list.push(compressor),
                None => self.warnings.push(Warning::Ignored {
                    option: "compressors",
                    reason: one_of(name, &["snappy", "zlib", "zstd"]),
                }),
            }
        }
        let names = list.iter().map(|c| c.name().to_owned()).collect();
        set(&mut self.draft, list)?;
        Ok(OptionValue::List(names))
    }

    /// Parses the tag sets, one in each value. A malformed tag set is dropped with a warning. An
    /// empty tag set matches every server.
    fn tag_sets<'v>(
        &mut self,
        values: impl Iterator<Item = &'v str>,
        set: Set<Vec<Tags>>,
    ) -> Result<OptionValue, Refusal> {
        let mut sets = Vec::new();
        for value in values {
            match key_values(value) {
                _ if value.is_empty() => sets.push(Tags::new()),
                Ok(pairs) => sets.push(pairs.into_iter().collect()),
                Err(Refusal::Ignore(reason)) => self.warnings.push(Warning::Ignored {
                    option: "readPreferenceTags",
                    reason,
                }),
                Err(fatal) => return Err(fatal),
            }
        }
        set(&mut self.draft, sets.clone())?;
        Ok(OptionValue::TagSets(sets))
    }
}
