//! The adapters, for suites that run on each of them.

use onionskin::Runtime;
use onionskin_async_std::AsyncStdRuntime;
use onionskin_smol::SmolRuntime;
use onionskin_tokio::TokioRuntime;

/// One runtime, and how futures run on it.
pub(crate) trait Adapter {
    /// What connects, waits and spawns.
    type R: Runtime + Default;

    /// Its name in reports.
    const NAME: &'static str;

    /// Runs a future to its end.
    fn block_on<T>(future: impl Future<Output = T>) -> T;
}

/// On tokio.
pub(crate) struct Tokio;

impl Adapter for Tokio {
    type R = TokioRuntime;
    const NAME: &'static str = "tokio";

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(future)
    }
}

/// On async-std.
pub(crate) struct AsyncStd;

impl Adapter for AsyncStd {
    type R = AsyncStdRuntime;
    const NAME: &'static str = "async-std";

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        async_std::task::block_on(future)
    }
}

/// On smol.
pub(crate) struct Smol;

impl Adapter for Smol {
    type R = SmolRuntime;
    const NAME: &'static str = "smol";

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        smol::block_on(future)
    }
}
