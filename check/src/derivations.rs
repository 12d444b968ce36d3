//! Key derivations from passwords, a few at a time.

use futures_channel::oneshot;
use futures_util::{
    future::{Either, select},
    lock::{Mutex, OwnedMutexGuard},
};
use onionskin::Runtime;
use std::sync::Arc;

/// The places of the derivations that run at the same time. A client runs as many, those of
/// `maxConnecting`. Servers choose the number of iterations, so that one derivation can take a
/// second, and many at once would take all processors.
#[derive(Clone, Debug, Default)]
pub(crate) struct Derivations([Arc<Mutex<()>>; 2]);

impl Derivations {
    /// Runs the work of a derivation on a thread of its own, so that no time limit waits for its
    /// end. Waits for a free place before. Work whose future is dropped keeps its place until it
    /// ends. Returns `None` if the thread could not be started.
    pub(crate) async fn run<R: Runtime, T: Send + 'static>(
        &self,
        runtime: &R,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let place = self.place().await;
        let (sender, receiver) = oneshot::channel();
        runtime.spawn_thread(move || {
            let _ = sender.send(work());
            drop(place);
        });
        receiver.await.ok()
    }

    async fn place(&self) -> OwnedMutexGuard<()> {
        let [one, other] = self.0.each_ref().map(|place| place.clone().lock_owned());
        match select(one, other).await {
            Either::Left((place, _)) | Either::Right((place, _)) => place,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::{FutureExt, future::join_all};
    use onionskin_tokio::TokioRuntime;
    use std::sync::{
        Mutex as StdMutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    };

    /// Jobs that wait until the sender is dropped, and count those that run.
    fn job(
        counts: &Arc<[AtomicUsize; 2]>,
        end: &Arc<StdMutex<mpsc::Receiver<()>>>,
    ) -> impl FnOnce() + use<> {
        let (counts, end) = (counts.clone(), end.clone());
        move || {
            let running = counts[0].fetch_add(1, Ordering::SeqCst) + 1;
            counts[1].fetch_max(running, Ordering::SeqCst);
            let _ = end.lock().expect("no panic before").recv();
            counts[0].fetch_sub(1, Ordering::SeqCst);
        }
    }

    #[tokio::test]
    async fn two_derivations_run_at_once_and_dropped_ones_keep_their_places() {
        let (derivations, runtime) = (Derivations::default(), TokioRuntime::default());
        let (release, end) = mpsc::channel::<()>();
        let end = Arc::new(StdMutex::new(end));
        let counts = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        for _ in 0..10 {
            let run = derivations.run(&runtime, job(&counts, &end));
            assert!(
                run.now_or_never().is_none(),
                "it runs or waits, and is dropped"
            );
        }
        let more = (0..10).map(|_| derivations.run(&runtime, job(&counts, &end)));
        let mut more = Box::pin(join_all(more));
        assert!((&mut more).now_or_never().is_none(), "the places are taken");
        drop(release);
        assert_eq!(more.await, vec![Some(()); 10]);
        assert!(counts[1].load(Ordering::SeqCst) <= 2, "{counts:?}");
    }
}
