//! Tests of the end of a client, by `shutdown` and by dropping the last handle.

use super::{
    Host, Stepper, client, end, find, ping,
    server::{Gate, Server, Step, answer},
    things, until, wait_until_idle, within,
};
use bson::{Bson, doc};
use onionskin::Runtime;
use onionskin_core::{client::Counts, error::ErrorKind};
use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread,
    time::Duration,
};

/// `shutdown` closes idle connections and ends sessions. Later operations fail.
pub async fn shutdown_closes_an_idle_pool<H: Host>() {
    let server = Server::plain::<H>();
    let client = client::<H>(&server.uri("minPoolSize=3"));
    find(&client, 1).await.expect("a reply");
    until::<H>("the pool to fill", || server.open() == 4).await;
    let clone = client.clone();
    end::<H>(client, &server).await;
    assert_eq!(server.seen("endSessions").len(), 1);
    assert_eq!(clone.counts(), Counts::default());
    let error = find(&clone, 2).await.expect_err("it is closed");
    assert_eq!(error, ErrorKind::Shutdown);
    within::<H, _>(H::SLACK, "a second shutdown", clone.shutdown()).await;
}

/// `shutdown` fails operations that wait for a server to become available.
pub async fn shutdown_fails_operations_that_wait_for_a_server<H: Host>() {
    let listener = H::listener();
    let address = listener.address();
    let client = client::<H>(&format!("mongodb://{address}/"));
    let things = things(&client);
    let mut waiters = Vec::new();
    for n in 0..5 {
        let mut waiter = Stepper::new(things.find_one(doc! { "n": n }));
        assert!(waiter.step().await.is_none());
        waiters.push(waiter);
    }
    assert_eq!(client.counts().waiting, 5);
    within::<H, _>(H::SLACK, "shutdown", client.clone().shutdown()).await;
    for mut waiter in waiters {
        waiter.woken().await;
        let error = waiter.step().await.expect("an end").expect_err("no server");
        assert_eq!(error, ErrorKind::Shutdown);
    }
    assert_eq!(client.counts(), Counts::default());
}

/// `shutdown` fails operations that wait for a connection, while the pool's only connection is
/// being established.
pub async fn shutdown_fails_operations_that_wait_for_a_connection<H: Host>() {
    let gate = Gate::new();
    let server_gate = gate.clone();
    let server = Server::scripted::<H>(move |request| match request.connection {
        0 => answer(request),
        _ => vec![Step::Hold(server_gate.clone())],
    });
    let client = client::<H>(&server.uri("maxPoolSize=1"));
    let things = things(&client);
    let mut waiters: Vec<_> = (0..5)
        .map(|n| Stepper::new(things.find_one(doc! { "n": n })))
        .collect();
    for waiter in &mut waiters {
        assert!(waiter.step().await.is_none());
    }
    // The first connection is the monitor's. The pool opens the second one after the monitor's
    // check.
    until::<H>("a connection", || server.accepted() == 2).await;
    within::<H, _>(H::SLACK, "shutdown", client.clone().shutdown()).await;
    for mut waiter in waiters {
        waiter.woken().await;
        let error = waiter
            .step()
            .await
            .expect("an end")
            .expect_err("no connection");
        assert_eq!(error, ErrorKind::Shutdown);
    }
    assert_eq!(client.counts(), Counts::default());
    gate.open();
    until::<H>("the closing of all sockets", || server.open() == 0).await;
}

/// `shutdown` waits for operations that are using a connection.
pub async fn shutdown_waits_for_running_exchanges<H: Host>() {
    let gate = Gate::new();
    let server_gate = gate.clone();
    let server = Server::scripted::<H>(move |request| match request.n() {
        Some(1) => [vec![Step::Hold(server_gate.clone())], answer(request)].concat(),
        _ => answer(request),
    });
    let client = client::<H>(&server.uri(""));
    let things = things(&client);
    let mut running = Stepper::new(things.find_one(doc! { "n": 1 }));
    while server.seen("find").is_empty() {
        assert!(running.step().await.is_none());
        super::pause::<H>(Duration::from_millis(1)).await;
    }
    let mut shutdown = Stepper::new(client.clone().shutdown());
    for _ in 0..20 {
        assert!(shutdown.step().await.is_none(), "an operation still runs");
        super::pause::<H>(Duration::from_millis(1)).await;
    }
    gate.open();
    let found = loop {
        running.woken().await;
        if let Some(found) = running.step().await {
            break found;
        }
    };
    assert_eq!(found, Ok(Some(doc! { "n": 1 })));
    let over = async {
        while shutdown.step().await.is_none() {
            shutdown.woken().await;
        }
    };
    within::<H, _>(H::SLACK, "shutdown", over).await;
    until::<H>("the closing of all sockets", || server.open() == 0).await;
    assert_eq!(client.counts(), Counts::default());
}

/// `shutdown` works after 0 to 11 polls of the first operation of a client.
pub async fn shutdown_works_while_the_client_connects<H: Host>() {
    let server = Server::plain::<H>();
    for polls in 0..12 {
        let client = client::<H>(&server.uri("minPoolSize=2"));
        let things = things(&client);
        let mut find = Stepper::new(things.find_one(doc! { "n": 1 }));
        for _ in 0..polls {
            if find.step().await.is_some() {
                break;
            }
            find.woken().await;
        }
        drop(find);
        end::<H>(client.clone(), &server).await;
        assert_eq!(client.counts(), Counts::default());
    }
}

/// If no server is available, `shutdown` does not wait for one to end sessions there.
pub async fn shutdown_does_not_wait_for_an_unavailable_server<H: Host>() {
    let server = Server::plain::<H>();
    let client = client::<H>(&server.uri("heartbeatFrequencyMS=500"));
    find(&client, 1).await.expect("a reply");
    drop(server);
    until::<H>("the loss", || {
        client
            .topology()
            .servers
            .values()
            .any(|s| s.error.is_some())
    })
    .await;
    let limit = Duration::from_millis(500);
    within::<H, _>(limit, "shutdown", client.shutdown()).await;
}

/// Dropping the last handle of a client, here a collection, closes all sockets.
pub async fn dropping_the_last_handle_closes_all_sockets<H: Host>() {
    let server = Server::plain::<H>();
    let client = client::<H>(&server.uri("minPoolSize=2"));
    find(&client, 1).await.expect("a reply");
    until::<H>("the pool to fill", || server.open() == 3).await;
    let things = things(&client);
    drop(client);
    things
        .find_one(doc! { "n": 2 })
        .await
        .expect("a collection is a handle");
    drop(things);
    until::<H>("the closing of all sockets", || server.open() == 0).await;
}

/// A cursor keeps its client open after the last client handle was dropped.
pub async fn a_cursor_keeps_its_client_open<H: Host>() {
    let server = Server::plain::<H>();
    let client = client::<H>(&server.uri(""));
    let filter = doc! { "n": 7, "open": true };
    let mut cursor = things(&client).find(filter).await.expect("a cursor");
    drop(client);
    for _ in 0..3 {
        let document = cursor.next().await.expect("it never ends");
        assert_eq!(document, Ok(doc! { "n": 7 }));
    }
    drop(cursor);
    until::<H>("the cursor's end", || server.seen("killCursors").len() == 1).await;
    until::<H>("the closing of all sockets", || server.open() == 0).await;
}

/// An operation that was created but not polled keeps its client open.
pub async fn an_operation_keeps_its_client_open<H: Host>() {
    let server = Server::plain::<H>();
    let operation = {
        let client = client::<H>(&server.uri(""));
        things(&client).find_one(doc! { "n": 7 }).into_future()
    };
    assert_eq!(operation.await, Ok(Some(doc! { "n": 7 })));
    until::<H>("the closing of all sockets", || server.open() == 0).await;
}

/// Dropping an open cursor ends it on the server with `killCursors`. An exhausted cursor needs no
/// `killCursors`.
pub async fn dropping_an_open_cursor_sends_kill_cursors<H: Host>() {
    let server = Server::plain::<H>();
    let client = client::<H>(&server.uri("maxPoolSize=1"));
    let things = things(&client);
    let mut ended = things.find(doc! { "n": 5 }).await.expect("a cursor");
    while ended.next().await.is_some() {}
    drop(ended);
    let filter = doc! { "n": 7, "open": true };
    let mut open = things.find(filter).await.expect("a cursor");
    assert_eq!(open.next().await, Some(Ok(doc! { "n": 7 })));
    drop(open);
    until::<H>("the cursor's end", || server.seen("killCursors").len() == 1).await;
    let kill = server.seen("killCursors").remove(0).body;
    assert_eq!(kill.get_str("killCursors").ok(), Some("things"));
    assert_eq!(kill.get_array("cursors").ok(), Some(&vec![8_i64.into()]));
    wait_until_idle::<H>(&client).await;
    end::<H>(client, &server).await;
}

/// If the future of `Cursor::close` is dropped, the cursor is ended on the server. The future
/// is dropped before its first poll, after one poll, or while it waits for a connection.
pub async fn dropping_the_future_of_close_still_ends_the_cursor<H: Host>() {
    let gate = Gate::new();
    let server_gate = gate.clone();
    let server = Server::scripted::<H>(move |request| match request.n() {
        Some(1) => [vec![Step::Hold(server_gate.clone())], answer(request)].concat(),
        _ => answer(request),
    });
    let client = client::<H>(&server.uri("maxPoolSize=1"));
    let things = things(&client);
    let filter = doc! { "n": 7, "open": true };
    for polls in [0, 1] {
        let cursor = things.find(filter.clone()).await.expect("a cursor");
        let mut close = Stepper::new(cursor.close());
        for _ in 0..polls {
            // After one poll the reply has usually not arrived.
            let _ = close.step().await;
        }
        drop(close);
        let sent = polls + 1;
        let is_ended = || server.seen("killCursors").len() == sent;
        until::<H>("the cursor's end", is_ended).await;
    }
    let cursor = things.find(filter).await.expect("a cursor");
    let mut first = Stepper::new(things.find_one(doc! { "n": 1 }));
    while client.counts().in_use == 0 {
        assert!(first.step().await.is_none(), "nobody answers");
    }
    let mut close = Stepper::new(cursor.close());
    assert!(
        close.step().await.is_none(),
        "the connection belongs to another"
    );
    drop(close);
    gate.open();
    while first.step().await.is_none() {
        first.woken().await;
    }
    let is_ended = || server.seen("killCursors").len() == 3;
    until::<H>("the cursor's end", is_ended).await;
    wait_until_idle::<H>(&client).await;
    end::<H>(client, &server).await;
}

/// If the future of `shutdown` is dropped while it waits, sessions are ended in the background.
pub async fn dropping_the_future_of_shutdown_still_ends_sessions<H: Host>() {
    let gate = Gate::new();
    let server_gate = gate.clone();
    let server = Server::scripted::<H>(move |request| match &*request.name {
        "getMore" => [vec![Step::Hold(server_gate.clone())], answer(request)].concat(),
        _ => answer(request),
    });
    let client = client::<H>(&server.uri("maxPoolSize=1"));
    let filter = doc! { "n": 7, "open": true };
    let mut cursor = things(&client).find(filter).await.expect("a cursor");
    // The cursor keeps its session, so this find uses another one, which then is in the session
    // pool.
    find(&client, 0).await.expect("a reply");
    let mut next = Stepper::new(cursor.next());
    while client.counts().in_use == 0 {
        let _ = next.step().await;
        drop(next);
        next = Stepper::new(cursor.next());
    }
    let mut shutdown = Stepper::new(client.clone().shutdown());
    assert!(
        shutdown.step().await.is_none(),
        "the connection belongs to the cursor"
    );
    drop(shutdown);
    gate.open();
    while next.step().await.is_none() {
        next.woken().await;
    }
    drop(next);
    drop(cursor);
    let is_ended = || server.seen("endSessions").len() == 1;
    until::<H>("the end of sessions", is_ended).await;
    wait_until_idle::<H>(&client).await;
    end::<H>(client, &server).await;
}

/// A shutdown ends the session of a cursor that is open. The server then ends the cursor.
pub async fn shutdown_ends_the_sessions_of_open_cursors<H: Host>() {
    let server = Server::plain::<H>();
    let client = client::<H>(&server.uri(""));
    let filter = doc! { "n": 7, "open": true };
    let cursor = things(&client).find(filter).await.expect("a cursor");
    end::<H>(client, &server).await;
    let of_cursor = server.seen("find").remove(0).body;
    let of_cursor = of_cursor.get_document("lsid").expect("a session");
    let ended = server.seen("endSessions").remove(0).body;
    let ended = ended.get_array("endSessions").expect("sessions");
    assert_eq!(ended, &[Bson::from(of_cursor.clone())]);
    assert_eq!(server.seen("endSessions").len(), 1);
    drop(cursor);
}

/// A waker that unparks a thread.
struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on a thread that belongs to no runtime.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Operations can be awaited, and clients and cursors dropped, on threads that do not belong to the
/// runtime.
pub async fn any_thread_may_use_and_drop_a_client<H: Host>() {
    let server = Server::plain::<H>();
    let client = client::<H>(&server.uri(""));
    let thread = thread::spawn(move || {
        block_on(async {
            ping(&client).await.expect("a reply");
            let filter = doc! { "n": 7, "open": true };
            let mut cursor = things(&client).find(filter).await.expect("a cursor");
            assert_eq!(cursor.next().await, Some(Ok(doc! { "n": 7 })));
            drop(cursor);
        });
    });
    until::<H>("the thread", || thread.is_finished()).await;
    thread.join().expect("no panic");
    until::<H>("the cursor's end", || server.seen("killCursors").len() == 1).await;
    until::<H>("the closing of all sockets", || server.open() == 0).await;
}

/// A task that was given to the runtime runs to its end without being awaited.
pub async fn a_spawned_task_runs_without_being_awaited<H: Host>() {
    let (sender, receiver) = std::sync::mpsc::channel();
    H::runtime().spawn(async move {
        let runtime = H::runtime();
        runtime.sleep(Duration::from_millis(1)).await;
        let _ = sender.send(());
    });
    until::<H>("the task", || receiver.try_recv().is_ok()).await;
}
