//! Tests of sessions: code of the application that a session calls.

use crate::{
    scene::{play, standalone},
    transactions::session,
};
use bson::{Timestamp, rawdoc};
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
        session.end().await;
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
        session.end().await;
        watched.end().await;
    });
}
