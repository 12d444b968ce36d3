//! Values under numbers that the core chose, each with its place in one linked list.
//!
//! Everything here takes constant time and allocates only when the number of values passes its
//! highest mark so far. That is why pools use it: a tree would cost a walk for each check out.

/// Marks the end of a list and an empty cell.
const NONE: u32 = u32::MAX;

/// Where a value lives while it is in the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(u32);

/// A doubly linked list through some of the values of one arena.
#[derive(Clone, Debug)]
pub(super) struct List {
    first: u32,
    last: u32,
    len: u32,
}

impl List {
    pub(super) const fn new() -> Self {
        Self {
            first: NONE,
            last: NONE,
            len: 0,
        }
    }

    pub(super) const fn len(&self) -> u32 {
        self.len
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn first(&self) -> Option<Slot> {
        (self.first != NONE).then_some(Slot(self.first))
    }

    pub(super) fn last(&self) -> Option<Slot> {
        (self.last != NONE).then_some(Slot(self.last))
    }
}

#[derive(Clone, Debug)]
struct Node<T> {
    id: u64,
    /// Towards the first; in a free node, the next free one.
    before: u32,
    /// Towards the last.
    after: u32,
    value: Option<T>,
}

/// Values by number.
#[derive(Clone, Debug)]
pub(super) struct Arena<T> {
    nodes: Vec<Node<T>>,
    free: u32,
    len: u32,
    index: Index,
}

impl<T> Arena<T> {
    pub(super) const fn new() -> Self {
        Self {
            nodes: Vec::new(),
            free: NONE,
            len: 0,
            index: Index::new(),
        }
    }

    /// Adds a value, in no list. The caller has made sure that `id` is not there yet.
    pub(super) fn insert(&mut self, id: u64, value: T) -> Slot {
        debug_assert!(self.find(id).is_none(), "a number is used once at a time");
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
        self.index.insert(id, slot);
        Slot(slot)
    }

    /// Takes a value out. It must be in no list.
    pub(super) fn remove(&mut self, slot: Slot) -> Option<T> {
        let node = &mut self.nodes[slot.0 as usize];
        let value = node.value.take()?;
        self.index.remove(node.id);
        node.before = self.free;
        self.free = slot.0;
        self.len -= 1;
        Some(value)
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> &mut T {
        let value = self.nodes[slot.0 as usize].value.as_mut();
        value.expect("slots are held only while their value lives")
    }

    pub(super) fn push_first(&mut self, list: &mut List, slot: Slot) {
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

    pub(super) fn push_last(&mut self, list: &mut List, slot: Slot) {
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

    /// Takes a value out of the list that it is in.
    pub(super) fn unlink(&mut self, list: &mut List, slot: Slot) {
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

    pub(super) fn find(&self, id: u64) -> Option<Slot> {
        self.index.find(id).map(Slot)
    }

    pub(super) fn get(&self, slot: Slot) -> &T {
        let value = self.nodes[slot.0 as usize].value.as_ref();
        value.expect("slots are held only while their value lives")
    }

    pub(super) fn id(&self, slot: Slot) -> u64 {
        self.nodes[slot.0 as usize].id
    }

    pub(super) const fn len(&self) -> u32 {
        self.len
    }

    /// All values with their numbers, in no useful order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, Slot, &T)> {
        self.nodes.iter().zip(0..).filter_map(|(node, slot)| {
            let value = node.value.as_ref()?;
            Some((node.id, Slot(slot), value))
        })
    }

    fn node(&mut self, slot: u32) -> &mut Node<T> {
        &mut self.nodes[slot as usize]
    }
}

/// From numbers to slots: open addressing with linear probing. Numbers come from the core itself,
/// so that nobody can choose them to collide.
#[derive(Clone, Debug)]
struct Index {
    cells: Vec<(u64, u32)>,
    used: usize,
}

impl Index {
    const SMALLEST: usize = 16;

    const fn new() -> Self {
        Self {
            cells: Vec::new(),
            used: 0,
        }
    }

    fn home(&self, id: u64) -> usize {
        // Fibonacci hashing: the high bits of the product are well mixed.
        let mixed = id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> (64 - self.cells.len().trailing_zeros())) as usize
    }

    fn position(&self, id: u64) -> Option<usize> {
        if self.cells.is_empty() {
            return None;
        }
        let mask = self.cells.len() - 1;
        let mut at = self.home(id);
        loop {
            match self.cells[at] {
                (_, NONE) => return None,
                (found, _) if found == id => return Some(at),
                _ => at = (at + 1) & mask,
            }
        }
    }

    fn find(&self, id: u64) -> Option<u32> {
        self.position(id).map(|at| self.cells[at].1)
    }

    fn insert(&mut self, id: u64, slot: u32) {
        if (self.used + 1) * 2 > self.cells.len() {
            let larger = (self.cells.len() * 2).max(Self::SMALLEST);
            let old = std::mem::replace(&mut self.cells, vec![(0, NONE); larger]);
            for (id, slot) in old.into_iter().filter(|cell| cell.1 != NONE) {
                self.place(id, slot);
            }
        }
        self.place(id, slot);
        self.used += 1;
    }

    fn place(&mut self, id: u64, slot: u32) {
        let mask = self.cells.len() - 1;
        let mut at = self.home(id);
        while self.cells[at].1 != NONE {
            at = (at + 1) & mask;
        }
        self.cells[at] = (id, slot);
    }

    fn remove(&mut self, id: u64) {
        let Some(mut hole) = self.position(id) else {
            return;
        };
        let mask = self.cells.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            if self.cells[at].1 == NONE {
                break;
            }
            // A cell may move into the hole if its home does not lie behind the hole.
            let distance = at.wrapping_sub(self.home(self.cells[at].0)) & mask;
            if distance >= (at.wrapping_sub(hole) & mask) {
                self.cells[hole] = self.cells[at];
                hole = at;
            }
        }
        self.cells[hole].1 = NONE;
        self.used -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, VecDeque};

    #[test]
    fn a_list_keeps_its_order_when_the_middle_leaves() {
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
    fn it_is_as_large_as_its_highest_mark_needs() {
        let mut arena = Arena::new();
        for id in 0..100_u64 {
            let slot = arena.insert(id, ());
            // Its cells are at most half full.
            let cells = (arena.nodes.len() * 2).next_power_of_two();
            assert_eq!(arena.index.cells.len(), cells.max(Index::SMALLEST));
            for passing in 1000..1100 {
                arena.remove(slot);
                arena.insert(passing, ());
                arena.remove(arena.find(passing).expect("it was inserted"));
                arena.insert(id, ());
            }
        }
        assert_eq!((arena.nodes.len(), arena.index.cells.len()), (100, 256));
    }

    #[test]
    fn numbers_in_a_row_do_not_crowd() {
        let mut index = Index::new();
        for id in 1..=1000 {
            index.insert(id, 0);
        }
        let mask = index.cells.len() - 1;
        let way = |id| {
            index
                .position(id)
                .map(|at| at.wrapping_sub(index.home(id)) & mask)
        };
        let longest = (1..=1000).filter_map(way).max();
        assert!(longest < Some(4), "{longest:?}");
    }

    proptest! {
        #[test]
        fn a_list_has_the_order_of_a_deque(
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
        fn an_arena_finds_what_a_map_finds(
            steps in prop::collection::vec((0_u64..64, any::<bool>()), 0..400),
        ) {
            let mut arena = Arena::new();
            let mut model = BTreeMap::new();
            for (n, (id, add)) in steps.into_iter().enumerate() {
                match (add, arena.find(id)) {
                    (true, None) => {
                        arena.insert(id, n);
                        model.insert(id, n);
                    }
                    (false, Some(slot)) => prop_assert_eq!(arena.remove(slot), model.remove(&id)),
                    _ => {}
                }
                prop_assert_eq!(arena.len() as usize, model.len());
                for id in 0..64 {
                    let found = arena.find(id).map(|slot| *arena.get(slot));
                    prop_assert_eq!(found, model.get(&id).copied());
                }
            }
        }
    }
}
