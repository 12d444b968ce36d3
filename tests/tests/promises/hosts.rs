//! The four adapters, for tests that run on each of them.

use onionskin_async_std::AsyncStdRuntime;
use onionskin_blocking::BlockingRuntime;
use onionskin_smol::SmolRuntime;
use onionskin_tests::conformance::Host;
use onionskin_tokio::TokioRuntime;

macro_rules! hosts {
    ($($name:ident: $runtime:ty, $block_on:expr;)*) => {$(
        pub(super) struct $name;

        impl Host for $name {
            type R = $runtime;

            fn runtime() -> $runtime {
                <$runtime>::default()
            }

            fn block_on(future: impl Future<Output = ()>) {
                $block_on(future);
            }
        }
    )*};
}

hosts! {
    Tokio: TokioRuntime, |future| {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(future);
    };
    AsyncStd: AsyncStdRuntime, async_std::task::block_on;
    Smol: SmolRuntime, smol::block_on;
}

thread_local! {
    /// The runtime of the test that runs on this thread.
    static BLOCKING: BlockingRuntime = BlockingRuntime::default();
}

/// The blocking adapter.
pub(super) struct Blocking;

impl Host for Blocking {
    type R = BlockingRuntime;

    fn runtime() -> BlockingRuntime {
        BLOCKING.with(Clone::clone)
    }

    fn block_on(future: impl Future<Output = ()>) {
        Self::runtime().block_on(future);
    }
}
