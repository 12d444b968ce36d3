//! A table for what a shell keeps beside the client.

use super::{QuestionId, SocketId};
use crate::{arena::Numbered, operation::OperationId};
use std::marker::PhantomData;

/// Values that a shell keeps of its sockets, its operations or its questions, by their ids. A value
/// is found in constant time on average.
///
/// ```
/// use onionskin_core::{client::Table, operation::OperationId};
///
/// let mut wakers = Table::default();
/// assert_eq!(wakers.insert(OperationId(7), "first"), None);
/// assert_eq!(wakers.insert(OperationId(7), "second"), Some("first"));
/// assert_eq!(wakers.remove(OperationId(7)), Some("second"));
/// assert!(wakers.is_empty());
/// ```
#[derive(Clone, Debug)]
pub struct Table<K, V> {
    values: Numbered<V>,
    key: PhantomData<fn(K)>,
}

/// An id by which a [`Table`] finds a value.
pub trait Key: Copy {
    /// Returns a number that no other id of the same client and type has.
    fn number(self) -> u64;
}

impl Key for SocketId {
    #[inline]
    fn number(self) -> u64 {
        Self::number(self)
    }
}

impl Key for OperationId {
    #[inline]
    fn number(self) -> u64 {
        self.0
    }
}

impl Key for QuestionId {
    #[inline]
    fn number(self) -> u64 {
        self.0
    }
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self {
            values: Numbered::new(),
            key: PhantomData,
        }
    }
}

impl<K: Key, V> Table<K, V> {
    /// Adds a value. Returns the one that it replaces; `None` if the id had none.
    pub fn insert(&mut self, id: K, value: V) -> Option<V> {
        if let Some(known) = self.get_mut(id) {
            return Some(std::mem::replace(known, value));
        }
        self.values.insert(id.number(), value);
        None
    }

    /// Removes a value and returns it; `None` if the id has none.
    pub fn remove(&mut self, id: K) -> Option<V> {
        let slot = self.values.find(id.number())?;
        self.values.remove(slot)
    }

    /// Returns the value of this id.
    #[must_use]
    #[inline]
    pub fn get(&self, id: K) -> Option<&V> {
        Some(self.values.get(self.values.find(id.number())?))
    }

    /// Returns the value of this id, to change it.
    #[inline]
    pub fn get_mut(&mut self, id: K) -> Option<&mut V> {
        let slot = self.values.find(id.number())?;
        Some(self.values.get_mut(slot))
    }

    /// True if the table has no values.
    #[must_use]
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}
