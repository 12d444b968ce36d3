//! The channel by which the actions of the core reach the task or exchange that has the stream of a
//! socket.

use crate::user_code::catch_panic;
use atomic_waker::AtomicWaker;
use onionskin_core::error::Error;
use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::Waker,
};

/// The instructions for the task or exchange that has the stream of one socket, and the waker of
/// that task.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    /// True if there are new instructions. Read without the lock.
    raised: AtomicBool,
    waker: AtomicWaker,
    commands: Mutex<SocketCommands>,
}

/// The instructions for the owner of a stream, which are made of actions of the core.
#[derive(Debug, Default)]
pub(crate) struct SocketCommands {
    /// The bytes to write.
    pub(crate) bytes: Vec<u8>,
    /// True if the socket must be closed.
    pub(crate) close: bool,
    /// The error with which the exchange must end early; `None` to continue.
    pub(crate) interrupt: Option<Error>,
}

impl Signal {
    /// Changes the instructions. The caller must [wake](Self::wake) the owner afterwards.
    pub(crate) fn write(&self, write: impl FnOnce(&mut SocketCommands)) {
        write(&mut self.commands.lock().unwrap_or_else(PoisonError::into_inner));
        self.raised.store(true, Ordering::Release);
    }

    /// Wakes the owner of the stream.
    pub(crate) fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            catch_panic(|| waker.wake());
        }
    }

    /// Registers the waker of the owner.
    #[inline]
    pub(crate) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    /// Takes the instructions; `None` if there are no new ones.
    #[inline]
    pub(crate) fn take(&self) -> Option<SocketCommands> {
        match self.raised.load(Ordering::Acquire) {
            true => self.take_raised(),
            false => None,
        }
    }

    fn take_raised(&self) -> Option<SocketCommands> {
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        self.raised.store(false, Ordering::Release);
        Some(std::mem::take(&mut commands))
    }
}
