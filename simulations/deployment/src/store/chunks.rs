//! A sorted map whose clones share their entries.
//!
//! The entries are in chunks. A clone copies the list of chunks, and a change copies one chunk if a
//! clone has it as well. So neither a copy of the data for a query nor a write beside the query
//! takes a time that all the entries determine.

use std::borrow::Borrow;
use std::collections::{BTreeMap, btree_map};
use std::ops::Bound;
use std::slice;
use std::sync::Arc;

/// The largest number of entries in a chunk. A copy of a chunk takes some microseconds.
const MAX_ENTRIES: usize = 128;

/// The number of entries below which a chunk is merged with a small one beside it.
const MIN_ENTRIES: usize = MAX_ENTRIES / 4;

type Chunk<K, V> = Arc<Vec<(K, V)>>;

/// A sorted map whose clones share their entries.
#[derive(Clone, Debug)]
pub(crate) struct Chunks<K, V> {
    /// The chunks, each by a key that is not greater than its keys, and greater than those of the
    /// chunk before it. Only the last chunk that is left can be empty.
    chunks: BTreeMap<K, Chunk<K, V>>,
    len: usize,
}

impl<K, V> Default for Chunks<K, V> {
    fn default() -> Self {
        Self {
            chunks: BTreeMap::new(),
            len: 0,
        }
    }
}

impl<K: Ord + Clone, V: PartialEq + Clone> PartialEq for Chunks<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<K: Ord + Clone, V: Clone> Chunks<K, V> {
    /// Sets the value of a key. Returns the value that it had.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let bounds = (Bound::Unbounded, Bound::Included(&key));
        let Some((_, chunk)) = self.chunks.range_mut::<K, _>(bounds).next_back() else {
            self.insert_first(key, value);
            return None;
        };
        let at = match chunk.binary_search_by(|(own, _)| own.cmp(&key)) {
            Ok(at) => {
                let entry = &mut Arc::make_mut(chunk)[at];
                return Some(std::mem::replace(&mut entry.1, value));
            }
            Err(at) => at,
        };
        self.len += 1;
        let entries = Arc::make_mut(chunk);
        entries.insert(at, (key, value));
        if entries.len() > MAX_ENTRIES {
            // Keys that come in their order fill the chunks.
            let is_last = at + 1 == entries.len();
            let middle = if is_last { at } else { entries.len() / 2 };
            let right = entries.split_off(middle);
            if let Some(head) = right.first().map(|(key, _)| key.clone()) {
                self.chunks.insert(head, Arc::new(right));
            }
        }
        None
    }

    /// Adds a key that precedes those of all chunks.
    fn insert_first(&mut self, key: K, value: V) {
        let mut chunk = Chunk::default();
        if let Some((head, first)) = self.chunks.pop_first() {
            if first.len() < MAX_ENTRIES {
                chunk = first;
            } else {
                self.chunks.insert(head, first);
            }
        }
        Arc::make_mut(&mut chunk).insert(0, (key.clone(), value));
        self.chunks.insert(key, chunk);
        self.len += 1;
    }

    /// Removes a key. Returns the value that it had.
    pub(crate) fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let is_alone = self.chunks.len() == 1;
        let bounds = (Bound::Unbounded, Bound::Included(key));
        let (head, chunk) = self.chunks.range_mut::<Q, _>(bounds).next_back()?;
        let at = place(chunk, key)?;
        let (_, value) = Arc::make_mut(chunk).remove(at);
        self.len -= 1;
        if chunk.len() < MIN_ENTRIES && !is_alone {
            let head = head.clone();
            self.merge(head);
        }
        Some(value)
    }

    /// Merges a small chunk with the chunk before it, or with the next one, if that is small too.
    fn merge(&mut self, head: K) {
        let Some(mut chunk) = self.chunks.remove(&head) else {
            return;
        };
        if chunk.is_empty() {
            return;
        }
        let fits = |other: &Chunk<K, V>, own: usize| other.len() + own <= MAX_ENTRIES / 2;
        let bounds = (Bound::Unbounded, Bound::Excluded(&head));
        let before = self.chunks.range_mut::<K, _>(bounds).next_back();
        if let Some((_, before)) = before
            && fits(before, chunk.len())
        {
            Arc::make_mut(before).extend(chunk.iter().cloned());
            return;
        }
        let bounds = (Bound::Excluded(&head), Bound::Unbounded);
        let next = self.chunks.range::<K, _>(bounds).next();
        let next = next.filter(|(_, next)| fits(next, chunk.len()));
        let next = next.map(|(key, _)| key.clone());
        if let Some(next) = next.and_then(|next| self.chunks.remove(&next)) {
            Arc::make_mut(&mut chunk).extend(next.iter().cloned());
        }
        self.chunks.insert(head, chunk);
    }

    pub(crate) fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let bounds = (Bound::Unbounded, Bound::Included(key));
        let (_, chunk) = self.chunks.range::<Q, _>(bounds).next_back()?;
        Some(&chunk[place(chunk, key)?].1)
    }

    pub(crate) fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.get(key).is_some()
    }

    /// Returns the greatest key with its value.
    pub(crate) fn last_key_value(&self) -> Option<(&K, &V)> {
        let (_, chunk) = self.chunks.last_key_value()?;
        chunk.last().map(|(key, value)| (key, value))
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the entries in the order of their keys.
    pub(crate) fn iter(&self) -> Iter<'_, K, V> {
        Iter {
            current: slice::Iter::default(),
            rest: self.chunks.range::<K, _>(..),
        }
    }

    /// Returns the values in the order of their keys.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// Returns the entries from a key on, in the order of their keys.
    pub(crate) fn iter_from<Q>(&self, first: &Q) -> Iter<'_, K, V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let bounds = (Bound::Unbounded, Bound::Included(first));
        let Some((head, chunk)) = self.chunks.range::<Q, _>(bounds).next_back() else {
            return self.iter();
        };
        let at = chunk.partition_point(|(key, _)| {
            let key: &Q = key.borrow();
            key < first
        });
        Iter {
            current: chunk[at..].iter(),
            rest: self
                .chunks
                .range::<K, _>((Bound::Excluded(head), Bound::Unbounded)),
        }
    }
}

impl<'a, K: Ord + Clone, V: Clone> IntoIterator for &'a Chunks<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Iter<'a, K, V> {
        self.iter()
    }
}

/// Returns the place of a key in a chunk.
fn place<K, V, Q>(chunk: &[(K, V)], key: &Q) -> Option<usize>
where
    K: Borrow<Q>,
    Q: Ord + ?Sized,
{
    let compare = |(own, _): &(K, V)| {
        let own: &Q = own.borrow();
        own.cmp(key)
    };
    chunk.binary_search_by(compare).ok()
}

/// The entries of a map, in the order of their keys.
#[derive(Debug)]
pub(crate) struct Iter<'a, K, V> {
    current: slice::Iter<'a, (K, V)>,
    /// The chunks after the current one.
    rest: btree_map::Range<'a, K, Chunk<K, V>>,
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((key, value)) = self.current.next() {
                return Some((key, value));
            }
            let (_, chunk) = self.rest.next()?;
            self.current = chunk.iter();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onionskin_core::random::Seed;

    fn same(chunks: &Chunks<u64, u64>, model: &BTreeMap<u64, u64>) {
        assert_eq!(chunks.len(), model.len());
        assert!(chunks.iter().eq(model.iter()), "{chunks:?}");
        assert_eq!(chunks.last_key_value(), model.last_key_value());
        for first in [0_u64, 7, 500, 999, 2000] {
            assert!(chunks.iter_from(&first).eq(model.range(first..)));
        }
        let sizes = chunks.chunks.values().map(|chunk| chunk.len());
        assert!(sizes.clone().all(|size| size <= MAX_ENTRIES));
        assert!(sizes.count() <= 1 || chunks.chunks.values().all(|chunk| !chunk.is_empty()));
    }

    #[test]
    fn the_map_has_the_entries_of_a_sorted_map() {
        let mut random = Seed::new([1; 32]).random();
        for most in [100, 1000] {
            let (mut chunks, mut model) = (Chunks::default(), BTreeMap::new());
            for step in 0..20_000_u64 {
                let key = random.next_u64() % most;
                // Phases of more inserts and of more removals follow each other.
                let inserts = random.next_u64() % 10 < if step / 2000 % 2 == 0 { 8 } else { 1 };
                if inserts {
                    assert_eq!(chunks.insert(key, step), model.insert(key, step));
                } else {
                    assert_eq!(chunks.remove(&key), model.remove(&key));
                }
                assert_eq!(chunks.get(&key), model.get(&key));
                if step % 500 == 0 {
                    same(&chunks, &model);
                }
            }
            for key in 0..most {
                assert_eq!(chunks.remove(&key), model.remove(&key));
            }
            same(&chunks, &model);
        }
    }

    #[test]
    fn keys_in_order_fill_the_chunks_and_few_that_are_left_share_some() {
        for is_descending in [false, true] {
            let mut chunks = Chunks::default();
            for n in 0..10_000_u64 {
                chunks.insert(if is_descending { 10_000 - n } else { n }, n);
            }
            assert_eq!(chunks.chunks.len(), 10_000_usize.div_ceil(MAX_ENTRIES));
            let left = |n: &u64| n.is_multiple_of(100);
            let keys: Vec<u64> = chunks.iter().map(|(key, _)| *key).collect();
            for key in keys.iter().filter(|key| !left(key)) {
                chunks.remove(key);
            }
            assert_eq!(chunks.len(), keys.iter().filter(|key| left(key)).count());
            assert!(chunks.chunks.len() <= 10, "{}", chunks.chunks.len());
        }
    }

    #[test]
    fn a_change_of_a_clone_copies_one_chunk() {
        let mut chunks: Chunks<u64, u64> = Chunks::default();
        for n in 0..10_000 {
            chunks.insert(n, n);
        }
        let before = chunks.clone();
        chunks.insert(5000, 1);
        chunks.insert(5001, 1);
        chunks.remove(&5002);
        let pairs = chunks.chunks.values().zip(before.chunks.values());
        let copied = pairs.filter(|(own, before)| !Arc::ptr_eq(own, before));
        assert_eq!(copied.count(), 1);
        assert_eq!(
            (before.get(&5000), before.get(&5002)),
            (Some(&5000), Some(&5002))
        );
        assert_ne!(chunks, before);
    }
}
