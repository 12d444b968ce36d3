//! The options of sessions and transactions.

use super::{ANY, Calls, MINUTE, is, sends};
use bson::{Document, Timestamp, doc};
use onionskin::{
    Client, Collection, Error, Runtime, StartSession, StartTransaction,
    options::{ReadConcern, TransactionOptions, WriteConcern},
};

/// Reads in a session with these options, and reads again.
async fn read<R: Runtime>(
    start: StartSession<'_, R>,
    things: &Collection<R, Document>,
) -> Result<(), Error> {
    let mut session = start.await?;
    for _ in 0..2 {
        things.find_one(doc! {}).session(&mut session).await?;
    }
    Ok(())
}

/// Commits a transaction in a session with these options.
async fn commit<R: Runtime>(
    start: StartSession<'_, R>,
    things: &Collection<R, Document>,
) -> Result<(), Error> {
    let mut session = start.await?;
    run(session.start_transaction(), things).await
}

/// Runs a transaction with these options.
async fn run<R: Runtime>(
    start: StartTransaction<'_, R>,
    things: &Collection<R, Document>,
) -> Result<(), Error> {
    let write = async |session: &mut _| {
        let insert = things.insert_one(doc! {});
        insert.session(session).await.map(drop)
    };
    start.and_run2(write).await
}

pub(super) async fn sessions<R: Runtime>(calls: &mut Calls<R>, client: &Client<R>) {
    let things = &calls.things.clone();
    let (reads, commits) = (|start| read(start, things), |start| commit(start, things));
    let ping = calls.database.run_command(doc! { "ping": 1 }).await;
    // FerretDB has no times.
    let time = ping.expect("a reply").get_timestamp("operationTime");
    let time = time.unwrap_or(Timestamp {
        time: 1,
        increment: 1,
    });
    let durable = TransactionOptions::builder().write_concern(WriteConcern::majority());
    sends!(calls, "find", StartSession: client.start_session(), with reads, {
        causal_consistency(true) => "readConcern.afterClusterTime" = ANY;
        snapshot(true) => "readConcern.level" = is("snapshot");
    });
    let snapshot = || client.start_session().snapshot(true);
    sends!(calls, "find", StartSession: snapshot(), with reads, {
        snapshot_time(time) => "readConcern.atClusterTime" = is(time);
    });
    sends!(calls, "commitTransaction", StartSession: client.start_session(), with commits, {
        default_timeout(MINUTE) => "maxTimeMS" = ANY;
        default_transaction_options(durable.build()) => "writeConcern.w" = is("majority");
    });
}

pub(super) async fn transactions<R: Runtime>(calls: &mut Calls<R>, client: &Client<R>) {
    let things = &calls.things.clone();
    let mut session = client.start_session().await.expect("a session");
    sends!(calls, "insert", StartTransaction: session.start_transaction(),
        with |s| run(s, things), {
        read_concern(ReadConcern::majority()) => "readConcern.level" = is("majority");
    });
    sends!(calls, "commitTransaction", StartTransaction: session.start_transaction(),
        with |s| run(s, things), {
        max_commit_time(MINUTE) => "maxTimeMS" = is(60_000);
        write_concern(WriteConcern::majority()) => "writeConcern.w" = is("majority");
    });
}
