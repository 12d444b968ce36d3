//! Questions of the core: the work for their answers, each in a task or on a thread of its own.

use crate::{
    Runtime, inquiry, lookup::Services, shared::Shared, signal::Signal, user_code::catch_panic,
};
use futures_channel::oneshot;
use onionskin_core::client::{
    Answer, KerberosStep, KerberosStepResult, KeyDerivation, Question, QuestionId,
};
use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::Arc,
    task::Poll,
};

/// Begins the work for the answer to a question. `signal` is closed when the core withdraws the
/// question. A derivation has no signal: it cannot be stopped, and later connections can use its
/// keys.
pub(crate) fn begin<R: Runtime>(
    shared: &Arc<Shared<R>>,
    id: QuestionId,
    question: Question,
    signal: Arc<Signal>,
) {
    let asked = Asked {
        shared: shared.clone(),
        id,
    };
    match question {
        Question::DeriveKeys(derivation) => {
            let work = move || asked.answer(derive(derivation));
            shared.runtime.spawn_blocking(work);
        }
        // A lookup delays nothing else (SRV-27).
        Question::LookUp { query, limit } => shared.spawn(answer(
            asked,
            signal,
            async move |services: &Services<'_, R>| {
                Answer::Records(services.look_up(query, limit).await)
            },
        )),
        Question::Inquire(inquiry) => shared.spawn(answer(
            asked,
            signal,
            async move |services: &Services<'_, R>| {
                Answer::Found(inquiry::answer(services, inquiry).await)
            },
        )),
        Question::KerberosStep(step) => shared.spawn(answer(
            asked,
            signal,
            async move |services: &Services<'_, R>| {
                let result = run_kerberos_step(services.runtime, step).await;
                result.map_or(Answer::None, Answer::KerberosStep)
            },
        )),
    }
}

/// A question of the core that a task or a thread answers. If the question is dropped without an
/// answer, for example because its task panicked or the runtime has ended, it answers that there is
/// none.
struct Asked<R: Runtime> {
    shared: Arc<Shared<R>>,
    id: QuestionId,
}

impl<R: Runtime> Asked<R> {
    /// Gives an answer to the core. Once the question was answered or withdrawn, gives only keys,
    /// which later connections can use.
    fn answer(&self, answer: Answer) {
        self.shared.with(|inner, now| {
            let is_open = inner.asked.remove(self.id).is_some();
            if is_open || matches!(answer, Answer::Keys(_)) {
                inner.core.handle_answer(now, self.id, answer);
            }
        });
    }
}

impl<R: Runtime> Drop for Asked<R> {
    fn drop(&mut self) {
        self.answer(Answer::None);
    }
}

/// Answers a question, unless the core withdraws it. A thread that works on the answer then runs on
/// by itself.
async fn answer<R: Runtime>(
    asked: Asked<R>,
    signal: Arc<Signal>,
    find: impl AsyncFnOnce(&Services<'_, R>) -> Answer,
) {
    let answer = {
        let services = Services::of(&asked.shared);
        let mut work = pin!(find(&services));
        poll_fn(|context| {
            signal.register(context.waker());
            if signal.take().is_some_and(|commands| commands.close) {
                return Poll::Ready(None);
            }
            work.as_mut().poll(context).map(Some)
        })
        .await
    };
    if let Some(answer) = answer {
        asked.answer(answer);
    }
}

/// Derives keys from a password. This can take long, so do not call it in an async task.
fn derive(derivation: KeyDerivation) -> Answer {
    let work = || Answer::Keys(derivation.derive());
    // The core must get an answer also if the work panics, because connections wait for it.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Answer::None)
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
