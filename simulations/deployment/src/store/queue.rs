//! A queue whose copies share their items.

use std::collections::VecDeque;
use std::sync::Arc;

/// The number of items of a chunk.
const CHUNK: usize = 1000;

/// A queue whose copies share their items in chunks, so that a copy takes little time. A chunk is
/// freed when all copies have taken its items.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue<T> {
    /// The chunks, each with the place of the next item. No chunk is at its end.
    chunks: VecDeque<(Arc<[T]>, usize)>,
}

impl<T: Clone> Queue<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Takes the first item.
    pub(super) fn take(&mut self) -> Option<T> {
        let (chunk, next) = self.chunks.front_mut()?;
        let item = chunk.get(*next).cloned();
        *next += 1;
        if *next >= chunk.len() {
            self.chunks.pop_front();
        }
        item
    }

    /// Adds items before all others.
    pub(super) fn put_back(&mut self, items: Arc<[T]>) {
        if !items.is_empty() {
            self.chunks.push_front((items, 0));
        }
    }
}

impl<T: Clone> From<Vec<T>> for Queue<T> {
    fn from(items: Vec<T>) -> Self {
        let chunks = items.chunks(CHUNK).map(|chunk| (Arc::from(chunk), 0));
        Self {
            chunks: chunks.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest<T: Clone>(mut queue: Queue<T>) -> Vec<T> {
        std::iter::from_fn(|| queue.take()).collect()
    }

    #[test]
    fn items_come_in_their_order() {
        let mut queue = Queue::from((0..2500).collect::<Vec<_>>());
        let taken: Vec<i32> = std::iter::from_fn(|| queue.take()).take(1500).collect();
        assert_eq!(taken, (0..1500).collect::<Vec<_>>());
        let copy = queue.clone();
        queue.put_back(Arc::from(&taken[1400..]));
        queue.put_back(Arc::from([]));
        assert_eq!(rest(queue), (1400..2500).collect::<Vec<_>>());
        assert_eq!(rest(copy), (1500..2500).collect::<Vec<_>>());
        assert!(Queue::<i32>::from(Vec::new()).is_empty());
    }

    #[test]
    fn copies_share_the_items_and_free_them_in_chunks() {
        let items: Vec<Arc<usize>> = (0..2500).map(Arc::new).collect();
        let known = Arc::downgrade(&items[0]);
        let mut queue = Queue::from(items);
        let mut copy = queue.clone();
        assert_eq!(known.strong_count(), 1);
        (0..1000).for_each(|_| drop(queue.take()));
        assert_eq!(known.strong_count(), 1, "the copy has the chunk");
        (0..1000).for_each(|_| drop(copy.take()));
        assert_eq!(known.strong_count(), 0);
        assert!(!queue.is_empty());
    }
}
