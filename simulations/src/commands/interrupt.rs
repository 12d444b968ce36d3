//! SIGINT and SIGTERM.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// The exit code of a program that was interrupted, as shells report SIGINT.
pub(crate) const INTERRUPTED: u8 = 130;

/// The signals of the process from the time when this was made.
pub(crate) struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(windows)]
    interrupt: tokio::signal::windows::CtrlC,
}

impl Signals {
    /// Makes the process live on after SIGINT and SIGTERM. Must be called within a tokio runtime.
    pub(crate) fn new() -> io::Result<Self> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            Ok(Self {
                interrupt: signal(SignalKind::interrupt())?,
                terminate: signal(SignalKind::terminate())?,
            })
        }
        #[cfg(windows)]
        Ok(Self {
            interrupt: tokio::signal::windows::ctrl_c()?,
        })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) {
        #[cfg(unix)]
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
        #[cfg(windows)]
        self.interrupt.recv().await;
    }
}

/// Sets `stop` after the first signal, so that work can end in order. That can take long, so the
/// second signal ends the program at once.
pub(crate) fn stop_when_interrupted(stop: Arc<AtomicBool>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut signals = runtime.block_on(async { Signals::new() })?;
    std::thread::spawn(move || {
        runtime.block_on(signals.next());
        stop.store(true, Ordering::Relaxed);
        runtime.block_on(signals.next());
        std::process::exit(INTERRUPTED.into());
    });
    Ok(())
}
