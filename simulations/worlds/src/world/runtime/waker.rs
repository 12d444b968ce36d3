//! The wakers of tasks.

use super::executor::lock;
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    task::{Wake, Waker},
};

/// The numbers of the tasks that are ready.
pub(super) type Ready = Arc<Mutex<BTreeSet<u64>>>;

/// Returns the waker of the task with this number.
pub(super) fn task_waker(number: u64, ready: &Ready) -> Waker {
    Waker::from(Arc::new(TaskWaker {
        number,
        ready: ready.clone(),
    }))
}

struct TaskWaker {
    number: u64,
    ready: Ready,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        lock(&self.ready).insert(self.number);
    }
}
