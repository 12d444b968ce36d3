//! Transactions that an application commits and aborts, and those that a callback repeats.

use super::*;
use crate::driver::options::TransactionOptions;
use futures::future::FutureExt;

/// Moves an amount from one account to another. Fails if there is too little money.
async fn transfer(
    accounts: &Collection<Document>,
    session: &mut ClientSession,
    amount: i32,
) -> Result<()> {
    let filter = doc! { "_id": "ada", "balance": { "$gte": amount } };
    let taken = accounts
        .update_one(filter, doc! { "$inc": { "balance": -amount } })
        .session(&mut *session)
        .await?;
    if taken.matched_count == 0 {
        return Err(Error::custom("too little money".to_string()));
    }
    accounts
        .update_one(
            doc! { "_id": "bob" },
            doc! { "$inc": { "balance": amount } },
        )
        .session(&mut *session)
        .await?;
    Ok(())
}

async fn print_balances(accounts: &Collection<Document>) -> Result<()> {
    let all: Vec<Document> = accounts
        .find(doc! {})
        .sort(doc! { "_id": 1 })
        .await?
        .try_collect()
        .await?;
    println!("{all:?}");
    Ok(())
}

pub(super) async fn transactions(client: &Client, db: &Database) -> Result<()> {
    let accounts = db.collection::<Document>("accounts");
    accounts
        .insert_many([
            doc! { "_id": "ada", "balance": 100 },
            doc! { "_id": "bob", "balance": 0 },
        ])
        .write_concern(WriteConcern::majority())
        .await?;
    let mut session = client.start_session().await?;
    session
        .start_transaction()
        .read_concern(ReadConcern::snapshot())
        .write_concern(WriteConcern::majority())
        .await?;
    transfer(&accounts, &mut session, 30).await?;
    session.commit_transaction().await?;
    print_balances(&accounts).await?;

    session.start_transaction().await?;
    transfer(&accounts, &mut session, 40).await?;
    let ada = accounts
        .find_one(doc! { "_id": "ada" })
        .session(&mut session)
        .await?;
    println!("within: {ada:?}");
    session.abort_transaction().await?;
    print_balances(&accounts).await?;

    match session.commit_transaction().await {
        Ok(()) => println!("committed"),
        Err(error) => println!(
            "transaction: {}",
            matches!(*error.kind, ErrorKind::Transaction { .. })
        ),
    }
    session.start_transaction().await?;
    let error = session.start_transaction().await.unwrap_err();
    println!("{}", matches!(*error.kind, ErrorKind::Transaction { .. }));
    session.commit_transaction().await
}

pub(super) async fn repeated_transactions(client: &Client, db: &Database) -> Result<()> {
    let accounts = db.collection::<Document>("accounts");
    let options = TransactionOptions::builder()
        .write_concern(WriteConcern::majority())
        .max_commit_time(Duration::from_secs(10))
        .build();
    let mut session = client
        .start_session()
        .default_transaction_options(options.clone())
        .await?;
    session
        .start_transaction()
        .with_options(options)
        .and_run((accounts.clone(), 20), |session, (accounts, amount)| {
            async move { transfer(accounts, session, *amount).await }.boxed()
        })
        .await?;
    print_balances(&accounts).await?;

    let number = session
        .start_transaction()
        .and_run2(async |session: &mut ClientSession| {
            transfer(&accounts, session, 5).await?;
            accounts.count_documents(doc! {}).session(session).await
        })
        .await?;
    println!("{number} accounts");

    let failed = session
        .start_transaction()
        .and_run(&accounts, |session, accounts| {
            transfer(accounts, session, 500).boxed()
        })
        .await;
    match failed {
        Ok(()) => println!("there was enough money"),
        Err(error) => println!("{:?}", error.get_custom::<String>()),
    }
    print_balances(&accounts).await
}
