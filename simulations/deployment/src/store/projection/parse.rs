//! Parses projections, with the server's error codes.

use bson::{Bson, Document};

use super::tree::{Collision, Tree, add, check, too_long};
use super::{Answer, Field, Mode};
use crate::store::error::StoreError;
use crate::store::matcher::Matcher;
use crate::store::order::{display, display_document, type_name};
use crate::store::release::Release;
use crate::store::{expression, number, path};

/// The kind of a projection, as far as its fields have told it.
#[derive(Debug, Default)]
struct Parser {
    of_find: bool,
    release: Release,
    mode: Option<Mode>,
    /// Whether the projection keeps `_id` as a whole.
    id: Option<bool>,
    names_id: bool,
    has_slice: bool,
    has_element_match: bool,
    has_positional: bool,
}

/// Parses a projection of `find` or `$project`.
pub(super) fn projection(
    specification: &Document,
    of_find: bool,
    release: Release,
) -> Answer<(Mode, Tree)> {
    let mut parser = Parser {
        of_find,
        release,
        ..Parser::default()
    };
    let mut tree = Tree::default();
    for (name, value) in specification {
        parser.names_id |= name == "_id" || name.starts_with("_id.");
        parser.element(name, value, &mut tree, true)?;
    }
    let mode = parser.mode();
    if mode == Mode::Include && !parser.names_id {
        add(&mut tree, "_id", Field::Keep)?;
    }
    Ok((mode, tree))
}

impl Parser {
    /// Returns the kind of the projection. If its fields leave it open, `$slice` makes it
    /// excluding, and `$elemMatch` makes it including.
    fn mode(&self) -> Mode {
        let by_default = match (self.id, self.has_slice, self.has_element_match) {
            (Some(true), ..) | (_, false, true) => Mode::Include,
            _ => Mode::Exclude,
        };
        self.mode.unwrap_or(by_default)
    }

    /// Parses one field of a projection, or of a document within it.
    fn element(&mut self, name: &str, value: &Bson, tree: &mut Tree, is_root: bool) -> Answer<()> {
        let positional = name.strip_suffix(".$");
        if positional.is_some() && !self.of_find {
            let text = "Cannot use positional projection in aggregation projection";
            return Err(StoreError::new(31324, text));
        }
        if self.of_find && name.contains(".$.") {
            let text = "Positional projection may only be used at the end, for example: a.b.$. If \
                        the query previously used a form like a.b.$.d, remove the parts following \
                        the '$' and the results will be equivalent.";
            return Err(StoreError::new(31394, text));
        }
        path::check_field(positional.unwrap_or(name))?;
        let is_id = is_root && name == "_id";
        match (value, positional) {
            (Bson::Document(_), Some(_)) => {
                let text = "positional projection cannot be used with an expression or sub object";
                Err(StoreError::new(31271, text))
            }
            (Bson::Document(inner), None) => self.nested(name, inner, tree, is_root),
            _ if is_flag(value) => match (expression::truthy(value), positional) {
                (true, Some(path)) => self.positional(name, path, tree),
                (false, Some(_)) => {
                    let text = "positional projection cannot be used with exclusion";
                    Err(StoreError::new(31395, text))
                }
                (keeps, None) => self.flag(name, keeps, tree, is_id),
            },
            (_, Some(_)) => {
                let text = "positional projection cannot be used with a literal";
                Err(StoreError::new(31308, text))
            }
            (literal, None) => {
                expression::check(literal, self.release)?;
                add(tree, name, Field::Computed(literal.clone()))?;
                let text = || {
                    let shown = display(literal);
                    format!("Cannot use an expression {name}: {shown} in an exclusion projection")
                };
                self.wants(Mode::Include, 31310, text)
            }
        }
    }

    /// Notes that the projection is of a kind. It is an error if it is of another kind already.
    fn wants(&mut self, mode: Mode, code: i32, text: impl FnOnce() -> String) -> Answer<()> {
        match self.mode {
            Some(other) if other != mode => Err(StoreError::new(code, text())),
            _ => {
                self.mode = Some(mode);
                Ok(())
            }
        }
    }

    fn flag(&mut self, name: &str, keeps: bool, tree: &mut Tree, is_id: bool) -> Answer<()> {
        add(tree, name, if keeps { Field::Keep } else { Field::Drop })?;
        if is_id {
            // Both kinds of projections can keep or leave out `_id`.
            self.id = Some(keeps);
            return Ok(());
        }
        match keeps {
            true => self.wants(Mode::Include, 31253, || {
                format!("Cannot do inclusion on field {name} in exclusion projection")
            }),
            false => self.wants(Mode::Exclude, 31254, || {
                format!("Cannot do exclusion on field {name} in inclusion projection")
            }),
        }
    }

    fn positional(&mut self, name: &str, path: &str, tree: &mut Tree) -> Answer<()> {
        if self.has_positional {
            let text = "Cannot specify more than one positional projection per query.";
            return Err(StoreError::new(31276, text));
        }
        if self.has_element_match {
            let text = "Cannot specify positional operator and $elemMatch.";
            return Err(StoreError::new(31256, text));
        }
        self.has_positional = true;
        add(tree, path, Field::Positional)?;
        self.wants(Mode::Include, 31253, || {
            format!("Cannot do inclusion on field {name} in exclusion projection")
        })
    }

    /// Parses a document in a projection: an operator, or a projection of the fields below `name`.
    fn nested(
        &mut self,
        name: &str,
        inner: &Document,
        tree: &mut Tree,
        is_root: bool,
    ) -> Answer<()> {
        let operator = inner.iter().next().filter(|(key, _)| key.starts_with('$'));
        match operator.filter(|_| inner.len() == 1) {
            Some((key, operand)) if self.of_find && key == "$elemMatch" => {
                return self.element_match(name, operand, tree, is_root);
            }
            Some((key, operand)) if self.of_find && key == "$slice" => {
                if let Some(field) = find_slice(operand) {
                    self.has_slice = true;
                    return add(tree, name, field);
                }
                if !matches!(operand, Bson::Array(items) if matches!(items.len(), 2 | 3)) {
                    let shown = display_document(inner);
                    let text = format!(
                        "Invalid $slice syntax. The given syntax {shown} did not match the find() \
                         syntax"
                    );
                    return Err(StoreError::new(28667, text));
                }
                return self.expression(name, inner, tree);
            }
            Some(_) => return self.expression(name, inner, tree),
            None => {}
        }
        if inner.is_empty() {
            let text = "An empty sub-projection is not a valid value. Found empty object at path";
            return Err(StoreError::new(51270, text));
        }
        let below = tree.enter(name, true).map_err(|found| check(name, found))?;
        for (name, value) in inner {
            self.element(name, value, below, false)?;
        }
        Ok(())
    }

    fn expression(&mut self, name: &str, inner: &Document, tree: &mut Tree) -> Answer<()> {
        self.wants(Mode::Include, 31252, || {
            "Cannot use expression other than $meta in exclusion projection".to_owned()
        })?;
        let expression = Bson::Document(inner.clone());
        expression::check(&expression, self.release)?;
        add(tree, name, Field::Computed(expression))
    }

    fn element_match(
        &mut self,
        name: &str,
        operand: &Bson,
        tree: &mut Tree,
        is_root: bool,
    ) -> Answer<()> {
        let Bson::Document(condition) = operand else {
            let kind = type_name(operand);
            let text = format!("elemMatch: Invalid argument, object required, but got {kind}");
            return Err(StoreError::new(31274, text));
        };
        if self.has_positional {
            let text = "Cannot specify positional operator and $elemMatch.";
            return Err(StoreError::new(31255, text));
        }
        if !is_root || name.contains('.') {
            let text = "Cannot use $elemMatch projection on a nested field.";
            return Err(StoreError::new(31275, text));
        }
        self.has_element_match = true;
        let filter = bson::doc! { "e": { "$elemMatch": condition.clone() } };
        let matcher = Box::new(Matcher::new(&filter, self.release)?);
        add(tree, name, Field::ElementMatch(matcher))
    }
}

/// True if the value of a field in a projection says that the field is kept or left out.
fn is_flag(value: &Bson) -> bool {
    matches!(value, Bson::Boolean(_)) || number::is_number(value)
}

/// Returns the `$slice` of a `find`, or `None` if the operand does not have its form.
fn find_slice(operand: &Bson) -> Option<Field> {
    match operand {
        Bson::Array(items) => match items.as_slice() {
            [skip, take] => {
                let skip = number::truncated(skip)?;
                let take = number::truncated(take).filter(|take| *take > 0)?;
                Some(Field::Slice(Some(skip), take))
            }
            _ => None,
        },
        other => number::truncated(other).map(|take| Field::Slice(None, take)),
    }
}

/// Parses the fields of `$addFields` or `$set`.
pub(super) fn added(stage: &str, specification: &Document, release: Release) -> Answer<Tree> {
    let mut tree = Tree::default();
    let parser = Added {
        stage,
        specification,
        release,
    };
    for (name, value) in specification {
        parser.check(path::check_field(name))?;
        parser.element(name, value, &mut tree, &mut Vec::new())?;
    }
    Ok(tree)
}

/// The stage whose fields are parsed, for messages.
struct Added<'a> {
    stage: &'a str,
    specification: &'a Document,
    release: Release,
}

impl<'a> Added<'a> {
    /// Parses one field. A document without an operator has further fields, and `above` has the
    /// names of the documents around the field.
    fn element(
        &self,
        name: &'a str,
        value: &'a Bson,
        tree: &mut Tree,
        above: &mut Vec<&'a str>,
    ) -> Answer<()> {
        let fields = value.as_document().filter(|inner| {
            let first = inner.keys().next();
            first.is_some_and(|first| !first.starts_with('$'))
        });
        let Some(fields) = fields else {
            if let Bson::Document(inner) = value
                && inner.len() > 1
            {
                let text = format!(
                    "an expression specification must contain exactly one field, the name of the \
                     expression. Found {} fields in {}",
                    inner.len(),
                    display_document(inner)
                );
                return Err(self.invalid(40181, &text));
            }
            self.check(expression::check(value, self.release))?;
            let field = Field::Computed(value.clone());
            let added = tree.add(name, field);
            return added.map_err(|found| self.collision(name, tree, found, above));
        };
        let entered = tree.enter(name, false).map(|_| ());
        entered.map_err(|found| self.collision(name, tree, found, above))?;
        let Ok(below) = tree.enter(name, false) else {
            return Err(too_long());
        };
        above.push(name);
        for (name, value) in fields {
            if name.contains('.') {
                let text = format!("cannot use dotted field name '{name}' in a sub object");
                return Err(self.invalid(40183, &text));
            }
            self.check(path::check_field(name))?;
            self.element(name, value, below, above)?;
        }
        above.pop();
        Ok(())
    }

    fn collision(
        &self,
        name: &str,
        tree: &mut Tree,
        found: Collision,
        above: &[&str],
    ) -> StoreError {
        let other = match found {
            Collision::TooLong => return too_long(),
            Collision::Above(end) => name.get(..end).unwrap_or(name).to_owned(),
            Collision::Same => match tree.enter(name, false) {
                Ok(below) => format!("{name}.{}", below.first_path()),
                Err(_) => name.to_owned(),
            },
        };
        let prefix: String = above.iter().flat_map(|part| [*part, "."]).collect();
        let text = format!(
            "specification contains two conflicting paths. Cannot specify both '{prefix}{name}' \
             and '{prefix}{other}': {}",
            display_document(self.specification)
        );
        self.invalid(40176, &text)
    }

    /// Adds the name of the stage to an error.
    fn check(&self, checked: Answer<()>) -> Answer<()> {
        checked.map_err(|error| error.within(&format!("Invalid {}", self.stage)))
    }

    fn invalid(&self, code: i32, text: &str) -> StoreError {
        StoreError::new(code, text).within(&format!("Invalid {}", self.stage))
    }
}
