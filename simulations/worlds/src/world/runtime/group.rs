//! Tasks whose end is awaited together.

use super::{SimRuntime, executor::lock};
use onionskin::Runtime;
use std::{
    future::{Future, poll_fn},
    sync::{Arc, Mutex},
    task::{Poll, Waker},
};

/// A group of tasks whose end can be awaited.
#[derive(Clone, Default)]
pub(super) struct Group(Arc<Mutex<(usize, Option<Waker>)>>);

impl Group {
    pub(super) fn spawn(
        &self,
        runtime: &SimRuntime,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        lock(&self.0).0 += 1;
        let group = self.clone();
        runtime.spawn(async move {
            task.await;
            let mut group = lock(&group.0);
            group.0 -= 1;
            if group.0 == 0
                && let Some(waker) = group.1.take()
            {
                waker.wake();
            }
        });
    }

    pub(super) async fn wait(&self) {
        poll_fn(|context| {
            let mut group = lock(&self.0);
            if group.0 == 0 {
                return Poll::Ready(());
            }
            group.1 = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}
