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

/// Waits for SIGINT or SIGTERM.
pub(crate) async fn interrupted() -> io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            done = tokio::signal::ctrl_c() => done,
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}

/// Sets `stop` after the first signal, so that work can end in order. That can take long, so the
/// second signal ends the program at once.
pub(crate) fn stop_when_interrupted(stop: Arc<AtomicBool>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    std::thread::spawn(move || {
        if runtime.block_on(interrupted()).is_ok() {
            stop.store(true, Ordering::Relaxed);
        }
        if runtime.block_on(interrupted()).is_ok() {
            std::process::exit(INTERRUPTED.into());
        }
    });
    Ok(())
}
