//! The conformance suite. It runs whole on the simulated runtime, in virtual time, and on two
//! runtimes with real sockets: tokio with several threads, and the blocking runtime, whose executor
//! is our own. The other runtimes run the tests that depend most on a runtime.
//!
//! The tests of authentication are in the same program, so that the suite, which mostly waits, runs
//! while they build a server the first time.

mod authentication;

use onionskin_async_std::AsyncStdRuntime;
use onionskin_smol::SmolRuntime;
use onionskin_tests::conformance::Host;
use onionskin_tokio::TokioRuntime;

/// Declares a module with the suite, or a part of it, on one runtime.
macro_rules! host {
    ($name:ident, $runtime:ty, $block_on:expr $(, $part:ident)?) => {
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

            onionskin_tests::conformance_suite!(This $(, $part)?);
        }
    };
}

fn on_tokio(mut builder: tokio::runtime::Builder, future: impl Future<Output = ()>) {
    let runtime = builder.enable_all().build().expect("a runtime");
    runtime.block_on(future);
}

host!(
    tokio_current_thread,
    TokioRuntime,
    |future| on_tokio(tokio::runtime::Builder::new_current_thread(), future),
    brief
);

host!(tokio_multi_thread, TokioRuntime, |future| {
    on_tokio(tokio::runtime::Builder::new_multi_thread(), future)
});

host!(
    async_std,
    AsyncStdRuntime,
    ::async_std::task::block_on,
    brief
);

host!(smol, SmolRuntime, ::smol::block_on, brief);

/// The blocking runtime runs on the calling thread and does nothing in the background, so its
/// clients check servers on demand.
mod blocking {
    use super::Host;
    use onionskin_blocking::BlockingRuntime;

    thread_local! {
        /// The runtime of the test that runs on this thread.
        static RUNTIME: BlockingRuntime = BlockingRuntime::default();
    }

    struct This;

    impl Host for This {
        type R = BlockingRuntime;

        fn runtime() -> BlockingRuntime {
            RUNTIME.with(Clone::clone)
        }

        fn block_on(future: impl Future<Output = ()>) {
            Self::runtime().block_on(future);
        }
    }

    onionskin_tests::conformance_suite!(This, scanning);
}

/// The suite in virtual time, without the tests that need the operating system.
mod on_simulated {
    use onionskin_tests::conformance::{concurrency, simulated::SimHost};

    onionskin_tests::conformance_suite!(SimHost, simulated);

    #[test]
    fn the_same_seed_gives_the_same_run_and_another_seed_a_different_one() {
        let digest = |seed| {
            let check =
                concurrency::concurrent_operations_get_their_replies_despite_resets_and_drops::<
                    SimHost,
                >();
            SimHost::run(seed, check)
        };
        assert_eq!(digest(1), digest(1));
        assert_ne!(digest(1), digest(2));
    }
}

/// The suite in virtual time, for clients that check servers on demand. Tests that need the
/// operating system are left out.
mod on_simulated_scanning {
    use onionskin_tests::conformance::simulated::ScanningSimHost;

    onionskin_tests::conformance_suite!(ScanningSimHost, simulated, scanning);
}
