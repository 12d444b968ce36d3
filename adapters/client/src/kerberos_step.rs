//! Steps of Kerberos, which run on threads of their own because they may block for a long time.

use crate::{Runtime, lookup::Asked, signal::Signal, user_code::catch_panic};
use futures_channel::oneshot;
use onionskin_core::client::{Answer, KerberosStep, KerberosStepResult};
use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
};

/// Runs a step of Kerberos and gives its result to the core. Ends without a result if the core
/// withdraws the question; the thread of the step then runs on by itself.
pub(crate) async fn run<R: Runtime>(asked: Asked<R>, step: KerberosStep, signal: Arc<Signal>) {
    let result = {
        let mut result = pin!(run_kerberos_step(&asked.shared.runtime, step));
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
        Some(Some(result)) => asked.answer(Answer::KerberosStep(result)),
        Some(None) => asked.answer(Answer::None),
        None => {}
    }
}

/// Runs a step of Kerberos of a [`Probe`](onionskin_core::probe::Probe) on a thread of this
/// runtime. `None` if the Kerberos library panicked or the runtime has no thread for it. The caller
/// limits the time.
pub async fn run_kerberos_step<R: Runtime>(
    runtime: &R,
    step: KerberosStep,
) -> Option<KerberosStepResult> {
    let (sender, receiver) = oneshot::channel();
    runtime.spawn_thread(move || {
        catch_panic(|| drop(sender.send(step.run())));
    });
    receiver.await.ok()
}
