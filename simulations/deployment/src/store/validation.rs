//! Validators, which the documents of a collection must match.

use bson::{Bson, Document, doc};

use super::Answer;
use super::error::StoreError;
use super::expression::EvaluationContext;
use super::matcher::{Matcher, Reporter};
use super::order::type_name;
use super::path;
use super::release::Release;

/// The operators of queries that a validator must not have.
const NOT_ALLOWED: &[&str] = &["$where", "$text", "$near", "$nearSphere", "$geoNear"];

/// The validator of a collection.
#[derive(Clone, Debug)]
pub(crate) struct Validator {
    given: Document,
    /// The matchers of the fields of the validator, in their order.
    clauses: Vec<Matcher>,
    /// True if updates of documents that do not match are permitted (`moderate`).
    is_moderate: bool,
}

impl PartialEq for Validator {
    fn eq(&self, other: &Self) -> bool {
        (&self.given, self.is_moderate) == (&other.given, other.is_moderate)
    }
}

impl Validator {
    /// Returns the validator of a collection with these options, or `None` if the collection has
    /// none, or none with an effect.
    pub(crate) fn of(options: &Document) -> Option<Self> {
        let given = options.get_document("validator").ok()?;
        let is = |name: &str, word: &str| options.get_str(name).is_ok_and(|own| own == word);
        if given.is_empty() || is("validationLevel", "off") || is("validationAction", "warn") {
            return None;
        }
        Some(Self {
            given: given.clone(),
            clauses: Matcher::clauses(given).ok()?,
            is_moderate: is("validationLevel", "moderate"),
        })
    }

    /// Returns an error if options have a malformed validator.
    pub(crate) fn check_options(options: &Document, release: Release) -> Answer<()> {
        let Ok(given) = options.get_document("validator") else {
            return Ok(());
        };
        check_allowed(given, NOT_ALLOWED, release)?;
        Matcher::new(given, release).map(|_| ())
    }

    /// Returns an error if the new form of a document does not match. `before` is its old form.
    pub(crate) fn validate(
        &self,
        document: &Document,
        before: Option<&Document>,
        context: &EvaluationContext,
    ) -> Answer<()> {
        if self.matches(document, context)? {
            return Ok(());
        }
        if let Some(before) = before.filter(|_| self.is_moderate)
            && !self.matches(before, context)?
        {
            return Ok(());
        }
        let id = document.get("_id").cloned().unwrap_or(Bson::Null);
        let details = self.details(document, context)?;
        let information = doc! { "failingDocumentId": id, "details": details };
        Err(StoreError::new(121, "Document failed validation").with("errInfo", information))
    }

    fn matches(&self, document: &Document, context: &EvaluationContext) -> Answer<bool> {
        for clause in &self.clauses {
            if !clause.matches(document, context)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the description of the parts of the validator that a document does not match.
    fn details(&self, document: &Document, context: &EvaluationContext) -> Answer<Document> {
        let reporter = Reporter::new(context);
        let mut clauses = Vec::new();
        let parts = self.given.iter().zip(&self.clauses);
        for (index, ((name, operand), clause)) in (0_i32..).zip(parts) {
            if clause.matches(document, context)? {
                continue;
            }
            let details = match (clause.schema(), operand) {
                (Some(schema), _) => {
                    let mut details = doc! { "operatorName": name };
                    details.extend(schema.notes(&reporter));
                    let whole = Bson::Document(document.clone());
                    let failures = schema.failures(&whole, &reporter);
                    details.insert("schemaRulesNotSatisfied", failures);
                    details
                }
                _ => describe(name, operand, document, &reporter),
            };
            clauses.push((index, details));
        }
        if self.given.len() == 1
            && let Some((_, details)) = clauses.pop()
        {
            return Ok(details);
        }
        let clauses = clauses.into_iter();
        let clauses = clauses.map(|(index, details)| doc! { "index": index, "details": details });
        let clauses: Vec<Document> = clauses.collect();
        Ok(doc! { "operatorName": "$and", "clausesNotSatisfied": clauses })
    }
}

/// Describes a part of a validator that is not a schema.
fn describe(name: &str, operand: &Bson, document: &Document, reporter: &Reporter<'_>) -> Document {
    if name.starts_with('$') {
        let mut details = doc! { "operatorName": name };
        details.insert("specifiedAs", doc! { name: reporter.copy(operand) });
        details.insert("reason", "expression did not match");
        return details;
    }
    let operator = match operand {
        Bson::Document(inner) => inner.keys().next().filter(|key| key.starts_with('$')),
        _ => None,
    };
    let operator = operator.map_or("$eq", String::as_str);
    let mut details = doc! { "operatorName": operator };
    details.insert("specifiedAs", doc! { name: reporter.copy(operand) });
    match path::exact(document, name) {
        None if operator == "$exists" => details.insert("reason", "path does not exist"),
        None => details.insert("reason", "field was missing"),
        Some(value) => {
            let reason = match operator {
                "$type" => "type did not match",
                "$in" => "no matching value found in array",
                "$regex" => "regular expression did not match",
                _ => "comparison failed",
            };
            details.insert("reason", reason);
            details.insert("consideredValue", reporter.copy(value));
            match operator {
                "$type" => details.insert("consideredType", type_name(value)),
                _ => None,
            }
        }
    };
    details
}

/// Returns an error if a filter has one of these operators, which its use does not permit.
pub(super) fn check_allowed(filter: &Document, names: &[&str], release: Release) -> Answer<()> {
    let Some(name) = forbidden(filter, names) else {
        return Ok(());
    };
    let text = format!("{name} is not allowed in this context");
    let near = "$geoNear, $near, and $nearSphere are not allowed in this context";
    Err(match name {
        "$expr" | "$jsonSchema" => StoreError::new(224, text),
        "$where" | "$text" => StoreError::bad_value(text),
        _ if release < Release([5, 0, 0]) => StoreError::bad_value(near),
        _ => {
            let text = format!(
                "{near}, as these operators require sorting geospatial data. If you do not need \
                 sort, consider using $geoWithin instead."
            );
            StoreError::new(5_626_500, text)
        }
    })
}

/// Returns one of these operators in a filter.
fn forbidden<'a>(filter: &'a Document, names: &[&str]) -> Option<&'a str> {
    filter.iter().find_map(|(name, value)| {
        if names.contains(&name.as_str()) {
            return Some(name.as_str());
        }
        match value {
            Bson::Document(inner) => forbidden(inner, names),
            Bson::Array(items) => items
                .iter()
                .filter_map(Bson::as_document)
                .find_map(|item| forbidden(item, names)),
            _ => None,
        }
    })
}
