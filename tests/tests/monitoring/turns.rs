//! Tests the limit on the number of reads in one poll of an operation's future.

use crate::scene::{play, standalone};
use bson::{Document, doc};
use onionskin::{Client, Runtime};
use onionskin_core::unstable::hello::Environment;
use onionskin_tests::compressors::noise;
use onionskin_worlds::world::{
    SimRuntime,
    runtime::{SimSleep, SimStream},
};
use smol::io::{AsyncRead, AsyncWrite};
use std::{
    future::{Future, IntoFuture, poll_fn},
    io,
    net::SocketAddr,
    path::Path,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

/// A runtime whose streams return one byte per read, and count the reads.
#[derive(Clone)]
struct OneByteRuntime {
    inner: SimRuntime,
    reads: Arc<AtomicUsize>,
}

struct OneByteStream {
    inner: SimStream,
    reads: Arc<AtomicUsize>,
}

impl AsyncRead for OneByteStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.inner).poll_read(context, &mut buffer[..1])
    }
}

impl AsyncWrite for OneByteStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_close(context)
    }
}

impl Runtime for OneByteRuntime {
    type Stream = OneByteStream;
    type Sleep = SimSleep;

    async fn connect(&self, address: SocketAddr) -> io::Result<OneByteStream> {
        let inner = self.inner.connect(address).await?;
        let reads = self.reads.clone();
        Ok(OneByteStream { inner, reads })
    }

    async fn connect_unix(&self, _: &Path) -> io::Result<OneByteStream> {
        Err(io::ErrorKind::Unsupported.into())
    }

    onionskin_tests::forward_runtime!(
        inner: resolve, sleep, spawn, now, wall_time, entropy
    );
}

/// One poll of an operation's future makes at most 32 reads, however many bytes are available. So a
/// server that sends all the time does not block the other tasks of the thread.
#[test]
fn one_poll_of_an_operation_makes_at_most_32_reads() {
    play([standalone()], |scene| async move {
        let reads = Arc::new(AtomicUsize::new(0));
        let runtime = OneByteRuntime {
            inner: scene.runtime.clone(),
            reads: reads.clone(),
        };
        let client = Client::builder_from_uri(runtime, &scene.uri("member0", "appname=drops"))
            .expect("a connection string")
            .environment(Environment::default())
            .build()
            .expect("a client");
        let things = client.database("app").collection::<Document>("things");
        let text = noise(4_000);
        let insert = things.insert_one(doc! { "_id": 1, "text": &text });
        insert.await.expect("inserted");
        let mut find = pin!(things.find_one(doc! { "_id": 1 }).into_future());
        let mut turns = 0;
        let mut longest = 0;
        let found = poll_fn(|context| {
            let before = reads.load(Ordering::Relaxed);
            let polled = find.as_mut().poll(context);
            longest = longest.max(reads.load(Ordering::Relaxed) - before);
            turns += 1;
            polled
        });
        let found = found.await.expect("a reply").expect("a document");
        assert_eq!(found.get_str("text").ok(), Some(&*text));
        assert!(longest <= 32, "{longest} reads in one turn");
        assert!(turns > 2_000 / 32, "{turns} turns");
        client.shutdown().await;
    });
}
