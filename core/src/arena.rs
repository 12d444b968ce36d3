//! An arena: values in slots, each with an id, and doubly linked lists through them.
//!
//! Every operation except [`Arena::iter`] and [`Arena::iter_mut`] takes constant time, apart from
//! allocations. Memory is allocated only when the number of values exceeds its previous maximum. An
//! id together with its slot finds a value without a search.

mod numbered;

pub(crate) use numbered::Numbered;

/// The index that stands for no node, at the ends of a list and of the chain of free nodes.
const NONE: u32 = u32::MAX;

/// The place of a value in the arena, valid until the value is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(pub(crate) u32);

/// A doubly linked list through some of the values of one arena.
#[derive(Clone, Debug)]
pub(crate) struct List {
    first: u32,
    last: u32,
    len: u32,
}

impl List {
    pub(crate) const fn new() -> Self {
        Self {
            first: NONE,
            last: NONE,
            len: 0,
        }
    }

    pub(crate) const fn len(&self) -> u32 {
        self.len
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn first(&self) -> Option<Slot> {
        (self.first != NONE).then_some(Slot(self.first))
    }

    pub(crate) fn last(&self) -> Option<Slot> {
        (self.last != NONE).then_some(Slot(self.last))
    }
}

#[derive(Clone, Debug)]
struct Node<T> {
    id: u64,
    /// The index of the neighbour towards the first value of the list. In a free node, the index of
    /// the next free node.
    before: u32,
    /// The index of the neighbour towards the last value of the list.
    after: u32,
    value: Option<T>,
}

/// Values in slots. After the removal of its value, a slot can hold another value.
#[derive(Clone, Debug)]
pub(crate) struct Arena<T> {
    nodes: Vec<Node<T>>,
    free: u32,
    len: u32,
}

impl<T> Arena<T> {
    pub(crate) const fn new() -> Self {
        Self {
            nodes: Vec::new(),
            free: NONE,
            len: 0,
        }
    }

    /// Adds a value. The value is in no list.
    pub(crate) fn insert(&mut self, id: u64, value: T) -> Slot {
        let node = Node {
            id,
            before: NONE,
            after: NONE,
            value: Some(value),
        };
        let slot = if self.free == NONE {
            let slot = u32::try_from(self.nodes.len()).unwrap_or(NONE);
            assert!(slot != NONE, "fewer than 2^32 connections and waiters");
            self.nodes.push(node);
            slot
        } else {
            let slot = self.free;
            let place = &mut self.nodes[slot as usize];
            self.free = place.before;
            *place = node;
            slot
        };
        self.len += 1;
        Slot(slot)
    }

    /// Removes a value and returns it; `None` if the slot has none. The value must not be in a
    /// list.
    #[inline]
    pub(crate) fn remove(&mut self, slot: Slot) -> Option<T> {
        let node = &mut self.nodes[slot.0 as usize];
        let value = node.value.take()?;
        node.before = self.free;
        self.free = slot.0;
        self.len -= 1;
        Some(value)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: Slot) -> &mut T {
        let value = self.nodes[slot.0 as usize].value.as_mut();
        value.expect("slots are held only while their value lives")
    }

    /// Returns all values, in the order of their slots.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.nodes.iter_mut().filter_map(|node| node.value.as_mut())
    }

    pub(crate) fn push_first(&mut self, list: &mut List, slot: Slot) {
        self.node(slot.0).before = NONE;
        self.node(slot.0).after = list.first;
        if list.first == NONE {
            list.last = slot.0;
        } else {
            self.node(list.first).before = slot.0;
        }
        list.first = slot.0;
        list.len += 1;
    }

    #[inline]
    pub(crate) fn push_last(&mut self, list: &mut List, slot: Slot) {
        self.node(slot.0).before = list.last;
        self.node(slot.0).after = NONE;
        if list.last == NONE {
            list.first = slot.0;
        } else {
            self.node(list.last).after = slot.0;
        }
        list.last = slot.0;
        list.len += 1;
    }

    /// Removes a value from `list`, which must contain it.
    #[inline]
    pub(crate) fn unlink(&mut self, list: &mut List, slot: Slot) {
        let Node { before, after, .. } = self.nodes[slot.0 as usize];
        if before == NONE {
            list.first = after;
        } else {
            self.node(before).after = after;
        }
        if after == NONE {
            list.last = before;
        } else {
            self.node(after).before = before;
        }
        list.len -= 1;
    }

    /// Returns the value in the slot if it has this id.
    #[inline]
    pub(crate) fn find_mut(&mut self, id: u64, slot: Slot) -> Option<&mut T> {
        let node = self.nodes.get_mut(slot.0 as usize)?;
        node.value.as_mut().filter(|_| node.id == id)
    }

    /// Returns the slot if the value in it has this id.
    #[inline]
    pub(crate) fn find(&self, id: u64, slot: Slot) -> Option<Slot> {
        let node = self.nodes.get(slot.0 as usize)?;
        (node.id == id && node.value.is_some()).then_some(slot)
    }

    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> &T {
        let value = self.nodes[slot.0 as usize].value.as_ref();
        value.expect("slots are held only while their value lives")
    }

    #[inline]
    pub(crate) fn id(&self, slot: Slot) -> u64 {
        self.nodes[slot.0 as usize].id
    }

    pub(crate) const fn len(&self) -> u32 {
        self.len
    }

    /// Returns an iterator over all values with their ids and slots, in the order of slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, Slot, &T)> {
        self.nodes.iter().zip(0..).filter_map(|(node, slot)| {
            let value = node.value.as_ref()?;
            Some((node.id, Slot(slot), value))
        })
    }

    fn node(&mut self, slot: u32) -> &mut Node<T> {
        &mut self.nodes[slot as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, VecDeque};

    #[test]
    fn a_list_keeps_its_order_when_a_middle_element_is_unlinked() {
        let mut arena = Arena::new();
        let mut list = List::new();
        let slots: Vec<Slot> = (0..4).map(|id| arena.insert(id, id)).collect();
        for &slot in &slots {
            arena.push_last(&mut list, slot);
        }
        arena.unlink(&mut list, slots[1]);
        arena.unlink(&mut list, slots[3]);
        assert_eq!(
            (list.first(), list.last()),
            (Some(slots[0]), Some(slots[2]))
        );
        arena.unlink(&mut list, slots[0]);
        arena.unlink(&mut list, slots[2]);
        assert!(list.is_empty() && list.first().is_none() && list.last().is_none());
    }

    #[test]
    fn an_arena_reuses_the_slots_of_removed_elements() {
        let mut arena = Arena::new();
        for id in 0..100_u64 {
            let slot = arena.insert(id, ());
            for passing in 1000..1100 {
                arena.remove(slot);
                let used_again = arena.insert(passing, ());
                assert_eq!(
                    arena.find(id, slot),
                    None,
                    "its slot has another number now"
                );
                arena.remove(arena.find(passing, used_again).expect("it was inserted"));
                arena.insert(id, ());
            }
        }
        assert_eq!(arena.nodes.len(), 100);
    }

    proptest! {
        #[test]
        fn a_list_behaves_like_a_deque(
            steps in prop::collection::vec((0_u64..6, any::<bool>()), 0..40),
        ) {
            let mut arena = Arena::new();
            let slots: Vec<Slot> = (0..6).map(|id| arena.insert(id, id)).collect();
            let mut list = List::new();
            let mut model = VecDeque::new();
            for (id, at_the_end) in steps {
                let slot = slots[usize::try_from(id).expect("small")];
                if model.contains(&id) {
                    arena.unlink(&mut list, slot);
                    model.retain(|other| *other != id);
                } else if at_the_end {
                    arena.push_last(&mut list, slot);
                    model.push_back(id);
                } else {
                    arena.push_first(&mut list, slot);
                    model.push_front(id);
                }
                let id_of = |slot| arena.id(slot);
                prop_assert_eq!(list.first().map(id_of), model.front().copied());
                prop_assert_eq!(list.last().map(id_of), model.back().copied());
                prop_assert_eq!(list.len() as usize, model.len());
                prop_assert_eq!(list.is_empty(), model.is_empty());
            }
        }

        #[test]
        fn an_arena_behaves_like_a_map(
            steps in prop::collection::vec((0_u64..64, any::<bool>()), 0..400),
        ) {
            let mut arena = Arena::new();
            let mut model = BTreeMap::new();
            let mut slots = BTreeMap::new();
            for (n, (id, add)) in steps.into_iter().enumerate() {
                let known = slots.get(&id).and_then(|&slot| arena.find(id, slot));
                match (add, known) {
                    (true, None) => {
                        slots.insert(id, arena.insert(id, n));
                        model.insert(id, n);
                    }
                    (false, Some(slot)) => prop_assert_eq!(arena.remove(slot), model.remove(&id)),
                    _ => {}
                }
                prop_assert_eq!(arena.len() as usize, model.len());
                // Slots that were used again are looked up by their former ids as well.
                for (&id, &slot) in &slots {
                    let found = arena.find(id, slot).map(|slot| *arena.get(slot));
                    prop_assert_eq!(found, model.get(&id).copied());
                }
            }
        }
    }
}
