//! The steps of Kerberos of a client: those that run in the shell, and those in the queue.

use super::{Action, Order, QUESTION_LIMIT, Question, QuestionId, Questions};
use crate::{auth::KerberosStep, connection::SocketId, time::Instant};
use std::collections::{BTreeMap, VecDeque};

/// The highest number of steps of Kerberos of one client that run at once: 4. Each occupies a
/// thread until the Kerberos library returns, even if the connection has failed meanwhile.
pub const MAX_KERBEROS_STEPS: usize = 4;

/// The steps of Kerberos that were asked for, and those that were not asked for yet.
#[derive(Debug, Default)]
pub(super) struct KerberosSteps {
    /// The steps that run, each with the connection that waits. `None` after the connection has
    /// failed, because the thread of its step still runs.
    running: BTreeMap<QuestionId, Option<SocketId>>,
    /// The steps that were not asked for yet, oldest first.
    queued: VecDeque<(SocketId, KerberosStep)>,
}

impl KerberosSteps {
    /// Removes all steps. Returns the questions that were asked.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = QuestionId> + use<> {
        self.queued.clear();
        std::mem::take(&mut self.running).into_keys()
    }

    /// Removes the queued step of a connection that is no longer driven. Returns its running steps,
    /// which continue.
    pub(super) fn forget(&mut self, socket: SocketId) -> Vec<QuestionId> {
        self.queued.retain(|(queued, _)| *queued != socket);
        let running = self.running.iter_mut();
        let forgotten = running.filter_map(|(id, waiting)| {
            waiting.take_if(|waiting| *waiting == socket)?;
            Some(*id)
        });
        forgotten.collect()
    }

    /// Returns the questions that were asked and not answered.
    #[cfg(any(test, feature = "unstable-machines"))]
    pub(super) fn asked(&self) -> impl Iterator<Item = &QuestionId> {
        self.running.keys()
    }

    /// Returns the number of connections that wait.
    #[cfg(any(test, feature = "unstable-machines"))]
    pub(super) fn waiting(&self) -> usize {
        self.running.values().flatten().count() + self.queued.len()
    }
}

impl Questions {
    /// Asks for a step of Kerberos, now or when other steps have ended.
    pub(in crate::client) fn ask_kerberos(
        &mut self,
        now: Instant,
        socket: SocketId,
        step: KerberosStep,
    ) {
        self.kerberos.queued.push_back((socket, step));
        self.ask_kerberos_steps(now);
    }

    /// Ends a step of Kerberos, because of its answer. Returns the connection that waits for it;
    /// `None` if the connection has failed, and for another question.
    pub(in crate::client) fn end_kerberos_step(
        &mut self,
        now: Instant,
        id: QuestionId,
    ) -> Option<SocketId> {
        let waiting = self.kerberos.running.remove(&id)?;
        if waiting.is_some() {
            self.orders.push_back(Order::Limit(id, None));
        }
        self.ask_kerberos_steps(now);
        waiting
    }

    /// Handles the limit of a step of Kerberos. Returns the connection that waits for it, which the
    /// caller has to fail. The step still counts as running, because its thread cannot be stopped.
    pub(in crate::client) fn give_up_kerberos_step(&mut self, id: QuestionId) -> Option<SocketId> {
        self.kerberos.running.get_mut(&id)?.take()
    }

    /// Asks the oldest questions of the queue, as long as the number of running steps permits it.
    fn ask_kerberos_steps(&mut self, now: Instant) {
        while self.kerberos.running.len() < MAX_KERBEROS_STEPS
            && let Some((socket, step)) = self.kerberos.queued.pop_front()
        {
            let id = self.next_id();
            self.kerberos.running.insert(id, Some(socket));
            let question = Question::KerberosStep(step);
            self.orders
                .push_back(Order::Act(Action::Ask { id, question }));
            let limit = now.checked_add(QUESTION_LIMIT);
            self.orders.push_back(Order::Limit(id, limit));
        }
    }
}
