//! An arena whose values are found by their ids alone.

use super::{Arena, NONE, Slot};
use std::ops::{Deref, DerefMut};

/// An odd number near 2^64 divided by the golden ratio. The upper bits of its products with ids
/// that have equal distances are distributed evenly.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The number of slots from which on the memory of an empty arena is freed.
const FREED_SLOTS: usize = 1024;

/// An [`Arena`] that finds a value by its id, in constant time on average if the ids are numbers
/// that the client gives out. No two values have the same id.
#[derive(Clone, Debug)]
pub(crate) struct Numbered<T> {
    values: Arena<T>,
    /// The first slot of each chain of values. The id of a value decides on its chain. The number
    /// of chains is a power of two, or zero before the first value.
    heads: Vec<u32>,
    /// For each slot, the next slot of its chain.
    next: Vec<u32>,
}

impl<T> Numbered<T> {
    pub(crate) const fn new() -> Self {
        Self {
            values: Arena::new(),
            heads: Vec::new(),
            next: Vec::new(),
        }
    }

    pub(crate) fn insert(&mut self, id: u64, value: T) -> Slot {
        debug_assert_eq!(self.find(id), None, "the id {id} is not used yet");
        let slot = self.values.insert(id, value);
        if self.next.len() <= slot.0 as usize {
            self.next.resize(slot.0 as usize + 1, NONE);
        }
        if self.heads.len() < self.next.len() {
            self.chain_all();
        } else {
            self.link(id, slot);
        }
        slot
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.values.len() == 0
    }

    #[inline]
    pub(crate) fn find(&self, id: u64) -> Option<Slot> {
        let mut slot = *self.heads.get(self.chain(id))?;
        while slot != NONE {
            if self.values.id(Slot(slot)) == id {
                return Some(Slot(slot));
            }
            slot = self.next[slot as usize];
        }
        None
    }

    /// Removes a value and returns it; `None` if the slot has none. The value must not be in a
    /// list.
    pub(crate) fn remove(&mut self, slot: Slot) -> Option<T> {
        let chain = self.chain(self.values.id(slot));
        let value = self.values.remove(slot)?;
        if self.is_empty() && self.next.len() >= FREED_SLOTS {
            *self = Self::new();
            return Some(value);
        }
        let after = self.next[slot.0 as usize];
        let mut before = self.heads[chain];
        if before == slot.0 {
            self.heads[chain] = after;
            return Some(value);
        }
        while self.next[before as usize] != slot.0 {
            before = self.next[before as usize];
        }
        self.next[before as usize] = after;
        Some(value)
    }

    /// Makes as many chains as there are slots, at least, and puts all values into them.
    fn chain_all(&mut self) {
        self.heads = vec![NONE; self.next.len().next_power_of_two()];
        let all: Vec<_> = self.values.iter().map(|(id, slot, _)| (id, slot)).collect();
        for (id, slot) in all {
            self.link(id, slot);
        }
    }

    fn link(&mut self, id: u64, slot: Slot) {
        let chain = self.chain(id);
        self.next[slot.0 as usize] = self.heads[chain];
        self.heads[chain] = slot.0;
    }

    /// Returns the index of the chain of an id.
    #[inline]
    const fn chain(&self, id: u64) -> usize {
        // The number of chains is 2^bits.
        let bits = self.heads.len().trailing_zeros();
        id.wrapping_mul(SPREAD).unbounded_shr(64 - bits) as usize
    }
}

impl<T> Deref for Numbered<T> {
    type Target = Arena<T>;

    fn deref(&self) -> &Arena<T> {
        &self.values
    }
}

/// The values and their lists can be changed. `Numbered::insert` and `Numbered::remove` hide those
/// of the arena.
impl<T> DerefMut for Numbered<T> {
    fn deref_mut(&mut self) -> &mut Arena<T> {
        &mut self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn an_arena_that_is_empty_again_has_no_memory() {
        let mut values = Numbered::new();
        for round in 0..3 {
            let slots: Vec<Slot> = (0..5000)
                .map(|n| values.insert(round * 5000 + n, n))
                .collect();
            for (n, slot) in (0..).zip(slots) {
                assert_eq!(values.remove(slot), Some(n));
            }
            assert_eq!((values.heads.capacity(), values.next.capacity()), (0, 0));
        }
    }

    #[test]
    fn the_chains_of_ids_with_equal_distances_are_short() {
        for distance in [1, 2, 16, 1000, 1024, 1 << 20, 1 << 32, 1 << 40] {
            let mut values = Numbered::new();
            for n in 0..4096 {
                values.insert(n * distance, ());
            }
            let mut longest = 0;
            for &head in &values.heads {
                let (mut slot, mut length) = (head, 0);
                while slot != NONE {
                    slot = values.next[slot as usize];
                    length += 1;
                }
                longest = longest.max(length);
            }
            assert!(longest <= 8, "{longest} with the distance {distance}");
        }
    }

    proptest! {
        #[test]
        fn a_numbered_arena_behaves_like_a_map(
            steps in prop::collection::vec((0_u64..48, any::<bool>()), 0..400),
        ) {
            let mut values = Numbered::new();
            let mut model = BTreeMap::new();
            for (n, (id, add)) in steps.into_iter().enumerate() {
                match (add, values.find(id)) {
                    (true, None) => {
                        values.insert(id, n);
                        model.insert(id, n);
                    }
                    (false, Some(slot)) => prop_assert_eq!(values.remove(slot), model.remove(&id)),
                    _ => {}
                }
                prop_assert_eq!(values.len() as usize, model.len());
                for id in 0..48 {
                    let found = values.find(id).map(|slot| *values.get(slot));
                    prop_assert_eq!(found, model.get(&id).copied());
                }
            }
        }
    }
}
