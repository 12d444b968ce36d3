//! The adapters for tokio, async-std and smol, for tests that run on each of them.

use onionskin::Runtime;
use onionskin_async_std::AsyncStdRuntime;
use onionskin_smol::SmolRuntime;
use onionskin_tokio::TokioRuntime;

/// An adapter: its `Runtime`, and a function that runs futures on it.
pub(crate) trait Adapter {
    /// The runtime of the adapter's clients.
    type R: Runtime + Default;

    /// The name of the adapter in the output of tests.
    const NAME: &'static str;

    /// Runs a future until it completes.
    fn block_on<T>(future: impl Future<Output = T>) -> T;
}

/// The tokio adapter.
pub(crate) struct Tokio;

impl Adapter for Tokio {
    type R = TokioRuntime;
    const NAME: &'static str = "tokio";

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(future)
    }
}

/// The async-std adapter.
pub(crate) struct AsyncStd;

impl Adapter for AsyncStd {
    type R = AsyncStdRuntime;
    const NAME: &'static str = "async-std";

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        async_std::task::block_on(future)
    }
}

/// The smol adapter.
pub(crate) struct Smol;

impl Adapter for Smol {
    type R = SmolRuntime;
    const NAME: &'static str = "smol";

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        smol::block_on(future)
    }
}
