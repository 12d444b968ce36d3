//! Steps of Kerberos, which run on threads of their own because they may block for a long time.

use crate::{Runtime, lookup::Asked, signal::Signal, user_code::catch_panic};
use futures_channel::oneshot;
use onionskin_core::client::{Answer, Negotiated, Negotiation};
use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
};

/// Runs a step of Kerberos and gives its result to the core. Ends without a result if the core
/// withdraws the question; the thread of the step then runs on by itself.
pub(crate) async fn run<R: Runtime>(
    asked: Asked<R>,
    negotiation: Negotiation,
    signal: Arc<Signal>,
) {
    let result = {
        let mut result = pin!(run_negotiation(&asked.shared.runtime, negotiation));
        poll_fn(|context| {
            signal.register(context.waker());
            if signal.take().is_some_and(|commands| commands.close) {
                return Poll::Ready(None);
            }
            result.as_mut().poll(context).map(Some)
        })
        .await
    };
    match result {
        Some(Some(negotiated)) => asked.answer(Answer::Negotiated(negotiated)),
        Some(None) => asked.answer(Answer::None),
        None => {}
    }
}

/// Runs a step of Kerberos of a [`Probe`](onionskin_core::probe::Probe) on a thread of this
/// runtime. `None` if the Kerberos library panicked or the runtime has no thread for it. The caller
/// limits the time.
pub async fn run_negotiation<R: Runtime>(
    runtime: &R,
    negotiation: Negotiation,
) -> Option<Negotiated> {
    let (sender, receiver) = oneshot::channel();
    runtime.spawn_thread(move || {
        catch_panic(|| drop(sender.send(negotiation.run())));
    });
    receiver.await.ok()
}
