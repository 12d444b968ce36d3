//! Tests of sessions: code of the application that a session calls, and cursors of other sessions.

use crate::{
    scene::{play, replica_set, standalone},
    transactions::session,
};
use bson::{Timestamp, doc, rawdoc};
use onionskin::{
    Client,
    error::{Error, Label},
    options::ClusterTime,
};
use onionskin_worlds::world::SimRuntime;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

/// A value of the application that calls its client when it is dropped or converted.
struct Caller {
    client: Client<SimRuntime>,
    time: ClusterTime,
    /// The number of calls that returned.
    returned: Arc<AtomicUsize>,
}

impl Caller {
    fn new(client: &Client<SimRuntime>, returned: &Arc<AtomicUsize>) -> Self {
        let time = Timestamp {
            time: 7,
            increment: 1,
        };
        let time = ClusterTime::from_document(&rawdoc! { "clusterTime": time });
        Self {
            client: client.clone(),
            time: time.expect("a time"),
            returned: returned.clone(),
        }
    }

    /// Calls the client in a thread of its own, because a call under the lock of the client never
    /// returns.
    fn call(&self) {
        let client = self.client.clone();
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            drop(client.topology());
            drop(client);
            let _ = sender.send(());
        });
        if receiver.recv_timeout(Duration::from_secs(5)).is_ok() {
            self.returned.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl AsRef<ClusterTime> for Caller {
    fn as_ref(&self) -> &ClusterTime {
        self.call();
        &self.time
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.call();
    }
}

#[test]
fn a_time_of_the_application_is_converted_and_dropped_without_the_lock() {
    play([standalone()], |scene| async move {
        let watched = scene.client("");
        let mut session = session(&watched).await;
        let returned = Arc::default();
        session.advance_cluster_time(Caller::new(&watched.client, &returned));
        assert_eq!(returned.load(Ordering::Relaxed), 2);
        assert!(session.cluster_time().is_some());
        session.end().await.expect("ended");
        watched.end().await;
    });
}

#[test]
fn errors_of_the_application_are_dropped_without_the_lock() {
    play([standalone()], |scene| async move {
        let watched = scene.client("");
        let mut session = session(&watched).await;
        let returned = Arc::default();
        let mut calls = 0;
        let run = session.with_transaction(async |_| {
            calls += 1;
            if calls == 3 {
                return Ok(());
            }
            let error = Error::custom(Caller::new(&watched.client, &returned));
            Err(error.with_label(Label::TransientTransactionError))
        });
        run.await.expect("the third attempt succeeds");
        assert_eq!(returned.load(Ordering::Relaxed), 2);
        session.end().await.expect("ended");
        watched.end().await;
    });
}

#[test]
fn streams_end_after_the_error_of_a_foreign_session() {
    play([replica_set()], |scene| async move {
        let watched = scene.client("");
        watched.insert_many([1, 2]).await.expect("two new ones");
        let things = watched.things();
        let mut own = session(&watched).await;
        let mut other = session(&watched).await;
        let find = things.find(doc! {}).session(&mut own);
        let mut cursor = find.await.expect("a cursor");
        let find = things.find(doc! {}).session(&mut own);
        let mut batches = find.batch().await.expect("a cursor");
        let watch = things.watch().session(&mut own);
        let mut changes = watch.await.expect("a stream");
        macro_rules! assert_refused {
            ($stream:expr) => {
                let mut stream = $stream;
                let refused = stream.next().await.expect("an error");
                refused.expect_err("another session");
                assert!(stream.next().await.is_none());
            };
        }
        assert_refused!(cursor.stream(&mut other));
        assert_refused!(batches.stream(&mut other));
        assert_refused!(changes.values(&mut other));
        let first = cursor.stream(&mut own).next().await.expect("a document");
        first.expect("a document");
        cursor.close().await;
        batches.close().await;
        changes.close().await;
        own.end().await.expect("ended");
        other.end().await.expect("ended");
        watched.end().await;
    });
}
