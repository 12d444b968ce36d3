//! The description of an update in a change stream: the fields that it set and removed.

use bson::{Bson, Document};
use std::collections::BTreeMap;

use super::super::change::{OperatorPath, UpdateStyle};
use super::super::order::identical;
use super::super::size;

/// The differences between a document before and after an update.
#[derive(Debug, Default)]
pub(super) struct Delta {
    /// The paths that have new values.
    pub(super) updated: Document,
    /// The paths that are gone.
    pub(super) removed: Vec<String>,
    /// The arrays that were shortened, with their new sizes.
    pub(super) truncated: Vec<(String, usize)>,
    /// The components of each path above that has a field name with a dot or of digits.
    pub(super) ambiguous: Document,
}

/// One component of a path.
#[derive(Clone, Copy, Debug)]
enum Part<'a> {
    Field(&'a str),
    Index(usize),
}

/// Returns the differences that an update has made. Returns `None` if the server records the update
/// as a replacement of the whole document.
pub(super) fn delta(before: &Document, after: &Document, style: &UpdateStyle) -> Option<Delta> {
    let targets = match style {
        UpdateStyle::Replacement => return None,
        UpdateStyle::Pipeline => None,
        UpdateStyle::Operators(targets) => Some(Target::tree(targets)),
    };
    let is_pipeline = targets.is_none();
    let mut comparison = Comparison {
        targets,
        path: Vec::new(),
        delta: Delta::default(),
    };
    if is_pipeline && is_reordered(before, after) {
        return None;
    }
    comparison.documents(before, after);
    let delta = comparison.delta;
    // A pipeline whose differences are larger than the document is recorded as a replacement.
    let is_larger = size::of(&delta.updated) > size::of(after);
    (!is_pipeline || !is_larger).then_some(delta)
}

/// True if fields of both documents have another order.
fn is_reordered(before: &Document, after: &Document) -> bool {
    let old = before.keys().filter(|name| after.contains_key(name));
    let new = after.keys().filter(|name| before.contains_key(name));
    !old.eq(new)
}

/// The paths of update operators, as a tree of their components.
#[derive(Default)]
struct Target<'a> {
    /// The next components. All those that stand for any element of an array, such as `$[]`, are
    /// one, with the name [`ANY`].
    next: BTreeMap<&'a str, Self>,
    /// True if an operator sets the value here.
    sets: bool,
    /// True if an operator appends to the array here.
    appends: bool,
}

/// The name of the component that stands for any element of an array.
const ANY: &str = "$";

impl<'a> Target<'a> {
    fn tree(paths: &'a [OperatorPath]) -> Self {
        let mut root = Self::default();
        for OperatorPath { path, appends } in paths {
            let mut at = &mut root;
            for name in path.split('.') {
                let name = if name.starts_with('$') { ANY } else { name };
                at = at.next.entry(name).or_default();
            }
            at.sets |= !appends;
            at.appends |= appends;
        }
        root
    }
}

/// A walk through two documents.
struct Comparison<'a> {
    /// The paths of the update operators; `None` for a pipeline.
    targets: Option<Target<'a>>,
    path: Vec<Part<'a>>,
    delta: Delta,
}

impl<'a> Comparison<'a> {
    fn documents(&mut self, before: &'a Document, after: &'a Document) {
        for name in before.keys().filter(|name| !after.contains_key(name)) {
            self.path.push(Part::Field(name));
            let path = self.note();
            self.delta.removed.push(path);
            self.path.pop();
        }
        for (name, new) in after {
            self.path.push(Part::Field(name));
            match before.get(name) {
                Some(old) => self.values(old, new),
                None => self.set(new),
            }
            self.path.pop();
        }
    }

    fn values(&mut self, old: &'a Bson, new: &'a Bson) {
        if identical(old, new) {
            return;
        }
        match (old, new) {
            _ if self.is_set(old, new) => self.set(new),
            (Bson::Document(old), Bson::Document(new))
                if self.targets.is_some() || !is_reordered(old, new) =>
            {
                self.documents(old, new);
            }
            (Bson::Array(old), Bson::Array(new)) if old.len() <= new.len() => {
                self.items(old, new);
            }
            (Bson::Array(old), Bson::Array(new)) if self.targets.is_none() => {
                self.items(old, new);
                let path = self.note();
                self.delta.truncated.push((path, new.len()));
            }
            _ => self.set(new),
        }
    }

    fn items(&mut self, old: &'a [Bson], new: &'a [Bson]) {
        for (index, item) in new.iter().enumerate() {
            self.path.push(Part::Index(index));
            match old.get(index) {
                Some(old) => self.values(old, item),
                None => self.set(item),
            }
            self.path.pop();
        }
    }

    /// True if an update operator has set the whole value at the current path.
    fn is_set(&self, old: &Bson, new: &Bson) -> bool {
        let mut targets: Vec<&Target<'_>> = self.targets.iter().collect();
        for part in &self.path {
            let mut next = Vec::new();
            for target in targets {
                match part {
                    Part::Field(name) => next.extend(target.next.get(name)),
                    Part::Index(index) => {
                        next.extend(target.next.get(&*index.to_string()));
                        next.extend(target.next.get(ANY));
                    }
                }
            }
            targets = next;
        }
        let sets = |target: &&Target<'_>| target.sets || target.appends && !extends(old, new);
        targets.iter().any(sets)
    }

    fn set(&mut self, value: &Bson) {
        let path = self.note();
        self.delta.updated.insert(path, value.clone());
    }

    /// Returns the current path as text, and records its components if the text is ambiguous.
    fn note(&mut self) -> String {
        let names = self.path.iter().map(|part| match part {
            Part::Field(name) => (*name).to_owned(),
            Part::Index(index) => index.to_string(),
        });
        let path = names.collect::<Vec<_>>().join(".");
        let is_unclear = |part: &Part<'_>| match part {
            Part::Field(name) => name.contains('.') || is_number(name),
            Part::Index(_) => false,
        };
        if self.path.iter().any(is_unclear) {
            let parts = self.path.iter().map(|part| match part {
                Part::Field(name) => Bson::from(*name),
                Part::Index(index) => i32::try_from(*index).unwrap_or(i32::MAX).into(),
            });
            let parts: Vec<Bson> = parts.collect();
            self.delta.ambiguous.insert(path.clone(), parts);
        }
        path
    }
}

/// True if a field name looks like the index of an array.
fn is_number(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit())
}

/// True if both values are arrays, and the new one starts with the elements of the old one.
fn extends(old: &Bson, new: &Bson) -> bool {
    match (old, new) {
        (Bson::Array(old), Bson::Array(new)) => {
            old.len() <= new.len() && old.iter().zip(new).all(|(old, new)| identical(old, new))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bson::doc;

    use super::*;

    fn operators(paths: &[(&str, bool)]) -> UpdateStyle {
        let paths = paths.iter().map(|(path, appends)| OperatorPath {
            path: (*path).to_owned(),
            appends: *appends,
        });
        UpdateStyle::Operators(Arc::new(paths.collect()))
    }

    fn of(before: Document, after: Document, style: &UpdateStyle) -> (Document, Vec<String>) {
        let delta = delta(&before, &after, style).expect("no replacement");
        (delta.updated, delta.removed)
    }

    #[test]
    fn an_operator_sets_the_whole_value_at_its_path() {
        let (before, after) = (doc! { "a": [1, 2, 3] }, doc! { "a": [1, 2, 4] });
        let set = of(before.clone(), after.clone(), &operators(&[("a", false)]));
        assert_eq!(set, (doc! { "a": [1, 2, 4] }, vec![]));
        let one = of(before.clone(), after.clone(), &operators(&[("a.2", false)]));
        assert_eq!(one, (doc! { "a.2": 4 }, vec![]));
        let any = of(before, after, &operators(&[("a.$[x]", false)]));
        assert_eq!(any, (doc! { "a.2": 4 }, vec![]));
    }

    #[test]
    fn an_operator_that_appends_describes_only_the_new_elements() {
        let push = operators(&[("a", true)]);
        let grown = of(doc! { "a": [1] }, doc! { "a": [1, 2] }, &push);
        assert_eq!(grown, (doc! { "a.1": 2 }, vec![]));
        let moved = of(doc! { "a": [1] }, doc! { "a": [2, 1] }, &push);
        assert_eq!(moved, (doc! { "a": [2, 1] }, vec![]));
    }

    #[test]
    fn a_pipeline_that_shortens_an_array_describes_its_new_size() {
        let (before, after) = (doc! { "a": [1, 2, 3] }, doc! { "a": [9] });
        let delta = delta(&before, &after, &UpdateStyle::Pipeline).expect("an update");
        assert_eq!(delta.truncated, [("a".to_owned(), 1)]);
        assert_eq!(delta.updated, doc! { "a.0": 9 });
    }

    #[test]
    fn fields_of_nested_documents_are_set_and_removed_by_their_paths() {
        let (before, after) = (doc! { "a": { "b": 1, "c": 2 } }, doc! { "a": { "c": 3 } });
        let style = operators(&[("a.b", false), ("a.c", false)]);
        assert_eq!(
            of(before, after, &style),
            (doc! { "a.c": 3 }, vec!["a.b".to_owned()])
        );
    }

    #[test]
    fn a_pipeline_that_changes_the_order_of_fields_is_a_replacement() {
        let (before, after) = (doc! { "a": 1, "b": 2 }, doc! { "b": 2, "a": 1 });
        assert!(delta(&before, &after, &UpdateStyle::Pipeline).is_none());
    }

    #[test]
    fn a_path_with_a_numeric_field_name_is_ambiguous() {
        let (before, after) = (doc! { "a": [{ "1": 1 }] }, doc! { "a": [{ "1": 2 }] });
        let delta = delta(&before, &after, &operators(&[("a.0.1", false)])).expect("an update");
        assert_eq!(delta.ambiguous, doc! { "a.0.1": ["a", 0, "1"] });
    }
}
