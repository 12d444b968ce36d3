//! Runtimes that change some methods of another runtime.

/// Implements methods of [`Runtime`](onionskin::Runtime) by those of the runtime in a field. The
/// other methods keep their defaults.
///
/// ```
/// use onionskin::Runtime;
/// use std::time::Duration;
///
/// struct Late<R>(R);
///
/// impl<R: Runtime> Runtime for Late<R> {
///     type Stream = R::Stream;
///     type Sleep = R::Sleep;
///
///     onionskin_tests::forward_runtime!(
///         0: connect, connect_unix, resolve, sleep, spawn, wall_time, entropy
///     );
///
///     fn now(&self) -> Duration {
///         self.0.now() + Duration::from_secs(1)
///     }
/// }
/// ```
#[macro_export]
macro_rules! forward_runtime {
    (@ $inner:tt connect) => {
        fn connect(
            &self,
            address: ::std::net::SocketAddr,
        ) -> impl Future<Output = ::std::io::Result<Self::Stream>> + Send {
            self.$inner.connect(address)
        }
    };
    (@ $inner:tt connect_datagram) => {
        fn connect_datagram(
            &self,
            server: ::std::net::SocketAddr,
        ) -> impl Future<Output = ::std::io::Result<Self::Stream>> + Send {
            self.$inner.connect_datagram(server)
        }
    };
    (@ $inner:tt connect_unix) => {
        fn connect_unix(
            &self,
            path: &::std::path::Path,
        ) -> impl Future<Output = ::std::io::Result<Self::Stream>> + Send {
            self.$inner.connect_unix(path)
        }
    };
    (@ $inner:tt resolve) => {
        fn resolve(
            &self,
            host: &str,
            port: u16,
        ) -> impl Future<Output = ::std::io::Result<Vec<::std::net::SocketAddr>>> + Send {
            self.$inner.resolve(host, port)
        }
    };
    (@ $inner:tt sleep) => {
        fn sleep(&self, duration: ::std::time::Duration) -> Self::Sleep {
            self.$inner.sleep(duration)
        }
    };
    (@ $inner:tt spawn) => {
        fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
            self.$inner.spawn(task);
        }
    };
    (@ $inner:tt spawn_blocking) => {
        fn spawn_blocking(&self, work: impl FnOnce() + Send + 'static) {
            self.$inner.spawn_blocking(work);
        }
    };
    (@ $inner:tt spawn_thread) => {
        fn spawn_thread(&self, work: impl FnOnce() + Send + 'static) {
            self.$inner.spawn_thread(work);
        }
    };
    (@ $inner:tt variable) => {
        fn variable(&self, name: &str) -> Option<String> {
            self.$inner.variable(name)
        }
    };
    (@ $inner:tt read_file) => {
        fn read_file(
            &self,
            path: &::std::path::Path,
            most: usize,
        ) -> impl Future<Output = ::std::io::Result<String>> + Send {
            self.$inner.read_file(path, most)
        }
    };
    (@ $inner:tt spawn_cleanup) => {
        fn spawn_cleanup(
            &self,
            task: impl ::std::future::Future<Output = ()> + Send + 'static,
        ) {
            self.$inner.spawn_cleanup(task);
        }
    };
    (@ $inner:tt run_ready) => {
        fn run_ready(&self) {
            self.$inner.run_ready();
        }
    };
    (@ $inner:tt now) => {
        fn now(&self) -> ::std::time::Duration {
            self.$inner.now()
        }
    };
    (@ $inner:tt wall_time) => {
        fn wall_time(&self) -> ::std::time::Duration {
            self.$inner.wall_time()
        }
    };
    (@ $inner:tt process_id) => {
        fn process_id(&self) -> Option<u32> {
            self.$inner.process_id()
        }
    };
    (@ $inner:tt entropy) => {
        fn entropy(&self, bytes: &mut [u8]) -> ::std::io::Result<()> {
            self.$inner.entropy(bytes)
        }
    };
    ($inner:tt: $($method:ident),* $(,)?) => {
        $($crate::forward_runtime!(@ $inner $method);)*
    };
}
