//! The conformance suite on every runtime that has an adapter.

use onionskin_async_std::AsyncStdRuntime;
use onionskin_smol::SmolRuntime;
use onionskin_tests::conformance::Host;
use onionskin_tokio::TokioRuntime;

/// Declares a module with the suite on one runtime.
macro_rules! host {
    ($name:ident, $runtime:ty, $block_on:expr) => {
        mod $name {
            use super::*;

            struct This;

            impl Host for This {
                type R = $runtime;

                fn runtime() -> $runtime {
                    <$runtime>::default()
                }

                fn block_on(future: impl Future<Output = ()>) {
                    $block_on(future);
                }
            }

            onionskin_tests::conformance_suite!(This);
        }
    };
}

fn on_tokio(mut builder: tokio::runtime::Builder, future: impl Future<Output = ()>) {
    let runtime = builder.enable_all().build().expect("a runtime");
    runtime.block_on(future);
}

host!(tokio_current_thread, TokioRuntime, |future| {
    on_tokio(tokio::runtime::Builder::new_current_thread(), future)
});

host!(tokio_multi_thread, TokioRuntime, |future| {
    on_tokio(tokio::runtime::Builder::new_multi_thread(), future)
});

host!(async_std, AsyncStdRuntime, ::async_std::task::block_on);

host!(smol, SmolRuntime, ::smol::block_on);
