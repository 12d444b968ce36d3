//! Transfers between accounts, whose sum is always the same.

use super::{Application, SimRuntime};
use crate::world::{options::index, report::FailureKind, workload::DATABASE};
use bson::{Bson, Document, doc};
use onionskin::{
    ClientSession, Collection,
    options::{ReadConcern, TransactionOptions, WriteConcern},
};
use onionskin_core::error::Error;

/// The collection of the accounts.
pub(super) const COLLECTION: &str = "accounts";

const ACCOUNTS: i64 = 6;

/// The money of each account at the beginning.
const MONEY: i64 = 100;

/// Checks that the accounts have all the money, or that there are none yet.
pub(super) fn check(accounts: &[Document]) -> Result<(), String> {
    let money = |account: &Document| match account.get("n") {
        Some(Bson::Int32(n)) => i64::from(*n),
        Some(Bson::Int64(n)) => *n,
        _ => 0,
    };
    let sum: i64 = accounts.iter().map(money).sum();
    let is_whole = accounts.len() as i64 == ACCOUNTS && sum == ACCOUNTS * MONEY;
    match is_whole || accounts.is_empty() {
        true => Ok(()),
        false => Err(format!("the accounts are {accounts:?}")),
    }
}

/// A transfer.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    from: i64,
    to: i64,
    money: i64,
}

type Accounts = Collection<SimRuntime, Document>;

impl Transfer {
    /// Makes the transfer in a transaction that has begun, and returns the accounts before it.
    /// Opens them first if there are none.
    async fn make(
        self,
        accounts: &Accounts,
        session: &mut ClientSession<SimRuntime>,
    ) -> Result<Vec<Document>, Error> {
        let mut cursor = accounts
            .find(doc! {})
            .batch_size(2)
            .session(session)
            .await?;
        let mut found = Vec::new();
        while let Some(account) = cursor.next(session).await {
            found.push(account?);
        }
        if found.is_empty() {
            let new = (0..ACCOUNTS).map(|id| doc! { "_id": id, "n": MONEY });
            let new: Vec<Document> = new.collect();
            accounts.insert_many(&new).session(session).await?;
        }
        for (account, money) in [(self.from, -self.money), (self.to, self.money)] {
            let change = doc! { "$inc": { "n": money } };
            let update = accounts.update_one(doc! { "_id": account }, change);
            update.session(session).await?;
        }
        Ok(found)
    }
}

impl Application {
    pub(super) async fn transfer(mut self) {
        let database = self.client.database(DATABASE);
        let accounts = database.collection::<Document>(COLLECTION);
        while let Some(is_late) = self.next_step().await {
            let limit = self.limit(is_late);
            let found = if self.random.chance(1, 4) {
                let client = self.client.clone();
                let read = async {
                    let mut session = client.start_session().snapshot(true).await?;
                    let find = accounts.find(doc! {}).timeout(limit);
                    let mut cursor = find.session(&mut session).await?;
                    let mut found = Vec::new();
                    while let Some(account) = cursor.next(&mut session).await {
                        found.push(account?);
                    }
                    Ok(found)
                };
                self.attempt("a read in a snapshot", limit, is_late, read)
                    .await
            } else {
                let transfer = Transfer {
                    from: index(&mut self.random, ACCOUNTS as usize) as i64,
                    to: index(&mut self.random, ACCOUNTS as usize) as i64,
                    money: self.random.below(50) as i64,
                };
                let options = TransactionOptions::builder()
                    .read_concern(ReadConcern::snapshot())
                    .write_concern(WriteConcern::majority())
                    .build();
                let client = self.client.clone();
                // The abort after the limit has the same limit again.
                let run = async {
                    let mut session = client.start_session().await?;
                    let run = session
                        .start_transaction()
                        .with_options(options)
                        .timeout(limit);
                    run.and_run(accounts.clone(), |session, accounts| {
                        Box::pin(transfer.make(accounts, session))
                    })
                    .await
                };
                self.attempt("a transfer", limit * 2, is_late, run).await
            };
            match found.map(|found| check(&found)) {
                Ok(Ok(())) => {}
                Ok(Err(what)) => self.fail(FailureKind::Correctness, &format!("read: {what}")),
                Err(left) if self.goes_on(&left, is_late) => {}
                Err(_) => return,
            }
        }
    }
}
