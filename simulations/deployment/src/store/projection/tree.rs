//! The paths of a projection as a tree, so that paths with a common beginning share it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Answer, Field};
use crate::store::error::StoreError;
use crate::store::path::MAX_PARTS;

/// The fields of a document that a projection names, in the order of the projection.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    children: Vec<(Arc<str>, Node)>,
    places: BTreeMap<Arc<str>, usize>,
    /// The number of parts of the path to this tree.
    depth: usize,
    computes: bool,
    is_positional: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Node {
    Field(Field),
    Tree(Tree),
}

/// The reason why a path cannot be added to a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Collision {
    /// A beginning of the path, of this many bytes, is named already.
    Above(usize),
    /// The path itself is named already, or a longer path that begins with it.
    Same,
    /// The path has too many parts.
    TooLong,
}

impl Tree {
    /// Returns what the projection does with a field.
    pub(super) fn get(&self, name: &str) -> Option<&Node> {
        let place = self.places.get(name)?;
        self.children.get(*place).map(|(_, node)| node)
    }

    /// Returns the fields in the order of the projection.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.children.iter().map(|(name, node)| (&**name, node))
    }

    pub(super) const fn len(&self) -> usize {
        self.children.len()
    }

    /// True if the projection computes a field in this tree.
    pub(super) const fn computes(&self) -> bool {
        self.computes
    }

    /// True if a field in this tree has the positional operator.
    pub(super) const fn is_positional(&self) -> bool {
        self.is_positional
    }

    /// Adds a field at a path.
    pub(super) fn add(&mut self, path: &str, field: Field) -> Result<(), Collision> {
        let (above, last) = match path.rsplit_once('.') {
            Some((above, last)) => (self.descend(above)?, last),
            None => (self, path),
        };
        if above.depth >= MAX_PARTS {
            return Err(Collision::TooLong);
        }
        if above.places.contains_key(last) {
            return Err(Collision::Same);
        }
        above.push(last, Node::Field(field));
        Ok(())
    }

    /// Returns the tree at a path, which is made if there is none. With `is_new`, an existing tree
    /// is a collision.
    pub(super) fn enter(&mut self, path: &str, is_new: bool) -> Result<&mut Self, Collision> {
        let (above, last) = match path.rsplit_once('.') {
            Some((above, last)) => (self.descend(above)?, last),
            None => (self, path),
        };
        if is_new && above.places.contains_key(last) {
            return Err(Collision::Same);
        }
        above.descend(last)
    }

    fn descend(&mut self, path: &str) -> Result<&mut Self, Collision> {
        let mut tree = self;
        let mut end = 0;
        for part in path.split('.') {
            end += part.len();
            let depth = tree.depth + 1;
            if depth > MAX_PARTS {
                return Err(Collision::TooLong);
            }
            let place = match tree.places.get(part) {
                Some(place) => *place,
                None => tree.push(
                    part,
                    Node::Tree(Self {
                        depth,
                        ..Self::default()
                    }),
                ),
            };
            tree = match tree.children.get_mut(place) {
                Some((_, Node::Tree(inner))) => inner,
                _ => return Err(Collision::Above(end)),
            };
            end += 1;
        }
        Ok(tree)
    }

    fn push(&mut self, name: &str, node: Node) -> usize {
        let (name, place) = (Arc::<str>::from(name), self.children.len());
        self.places.insert(name.clone(), place);
        self.children.push((name, node));
        place
    }

    /// Returns the path of the first field of this tree.
    pub(super) fn first_path(&self) -> String {
        let mut parts = Vec::new();
        let mut tree = self;
        while let Some((name, node)) = tree.children.first() {
            parts.push(&**name);
            match node {
                Node::Tree(inner) => tree = inner,
                Node::Field(_) => break,
            }
        }
        parts.join(".")
    }

    /// Notes in each tree what its fields need. Called once, when the tree is complete.
    pub(super) fn settle(&mut self) {
        for (_, node) in &mut self.children {
            let (computes, is_positional) = match node {
                Node::Tree(inner) => {
                    inner.settle();
                    (inner.computes, inner.is_positional)
                }
                Node::Field(field) => (
                    matches!(field, Field::Computed(_)),
                    matches!(field, Field::Positional),
                ),
            };
            self.computes |= computes;
            self.is_positional |= is_positional;
        }
    }
}

/// Returns an error for a collision in a projection.
pub(super) fn check(path: &str, collision: Collision) -> StoreError {
    match collision {
        Collision::Above(_) => {
            let tail = path.split_once('.').map_or(path, |(_, tail)| tail);
            let text = format!("Path collision at {path} remaining portion {tail}");
            StoreError::new(31249, text)
        }
        Collision::Same => StoreError::new(31250, format!("Path collision at {path}")),
        Collision::TooLong => too_long(),
    }
}

pub(super) fn too_long() -> StoreError {
    StoreError::new(15, "FieldPath is too long")
}

/// Adds a field to a projection.
pub(super) fn add(tree: &mut Tree, path: &str, field: Field) -> Answer<()> {
    tree.add(path, field).map_err(|found| check(path, found))
}
