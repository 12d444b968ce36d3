//! How the rest of the client reaches whoever holds a socket.

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

/// One per socket, for its whole life: what its holder is to do next, and how to wake it.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    /// True if there is something to look at; checked without the lock.
    raised: AtomicBool,
    waker: AtomicWaker,
    commands: Mutex<SocketCommands>,
}

/// What is to be done.
#[derive(Debug, Default)]
pub(crate) struct SocketCommands {
    /// Bytes to write.
    pub(crate) bytes: Vec<u8>,
    /// Stop, and close the socket.
    pub(crate) close: bool,
    /// Stop the exchange, with this error.
    pub(crate) interrupt: Option<Error>,
}

impl Signal {
    /// Adds to what is to be done. The holder is to be [woken](Self::wake) afterwards.
    pub(crate) fn write(&self, write: impl FnOnce(&mut SocketCommands)) {
        write(&mut self.commands.lock().unwrap_or_else(PoisonError::into_inner));
        self.raised.store(true, Ordering::Release);
    }

    /// Wakes the holder.
    pub(crate) fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            catch_panic(|| waker.wake());
        }
    }

    /// Asks to be woken.
    pub(crate) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    /// Takes what is to be done; `None` if there is nothing new.
    pub(crate) fn take(&self) -> Option<SocketCommands> {
        if !self.raised.load(Ordering::Acquire) {
            return None;
        }
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        self.raised.store(false, Ordering::Release);
        Some(std::mem::take(&mut commands))
    }
}
