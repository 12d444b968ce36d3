//! Transfers between accounts, whose sum is always the same.

use super::{Application, SimRuntime, database_of, lists};
use crate::world::{options::index, report::FailureKind, workload::counter};
use bson::{Document, doc};
use onionskin::{Client, ClientSession, Collection};
use onionskin_core::error::Error;

/// The collection of the accounts.
pub(super) const COLLECTION: &str = "accounts";

const ACCOUNTS: i64 = 6;

/// The money of each account at the beginning.
const MONEY: i64 = 100;

/// The transfers of a run.
#[derive(Debug, Default)]
pub(super) struct Bank {
    /// The number of acknowledged transfers.
    pub(super) transfers: usize,
    /// The change of each account by acknowledged transfers.
    known: [i64; ACCOUNTS as usize],
    /// The most that each account can have lost by transfers with an unknown end.
    lost: [i64; ACCOUNTS as usize],
    /// The most that each account can have won by transfers with an unknown end.
    won: [i64; ACCOUNTS as usize],
}

impl Bank {
    fn add(&mut self, transfer: Transfer, is_acknowledged: bool) {
        let Transfer { from, to, money } = transfer;
        let (from, to) = (from as usize, to as usize);
        if is_acknowledged {
            self.transfers += 1;
            self.known[from] -= money;
            self.known[to] += money;
        } else {
            self.lost[from] += money;
            self.won[to] += money;
        }
    }

    /// Checks that the accounts have the money that the transfers left them.
    pub(super) fn check_end(&self, accounts: &[Document]) -> Result<(), String> {
        check(accounts, self.transfers > 0)?;
        for account in accounts {
            let place = account.get_i64("_id").unwrap_or_default() as usize;
            let middle = MONEY + self.known[place];
            let possible = middle - self.lost[place]..=middle + self.won[place];
            if !possible.contains(&money(account)) {
                return Err(format!("an account is not within {possible:?}: {account}"));
            }
        }
        Ok(())
    }
}

fn money(account: &Document) -> i64 {
    counter(account).unwrap_or_default()
}

/// Checks that the accounts have all the money. If none was opened before, there can be none.
fn check(accounts: &[Document], are_open: bool) -> Result<(), String> {
    let sum: i64 = accounts.iter().map(money).sum();
    let is_whole = accounts.len() as i64 == ACCOUNTS && sum == ACCOUNTS * MONEY;
    match is_whole || (accounts.is_empty() && !are_open) {
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

/// The collections with the accounts: one in each database.
#[derive(Clone)]
struct Accounts {
    /// The accounts with an even `_id`, and the others as well if there is one shard.
    even: Collection<SimRuntime, Document>,
    odd: Option<Collection<SimRuntime, Document>>,
}

impl Accounts {
    fn new(client: &Client<SimRuntime>, has_shards: bool) -> Self {
        let of = |id| {
            client
                .database(database_of(has_shards, id))
                .collection(COLLECTION)
        };
        Self {
            even: of(0),
            odd: has_shards.then(|| of(1)),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Collection<SimRuntime, Document>> {
        std::iter::once(&self.even).chain(&self.odd)
    }

    /// Returns the collection of an account.
    fn of(&self, account: i64) -> &Collection<SimRuntime, Document> {
        let odd = self.odd.as_ref().filter(|_| account % 2 == 1);
        odd.unwrap_or(&self.even)
    }
}

impl Transfer {
    /// Makes the transfer in a transaction that has begun, and returns the accounts before it.
    /// Opens them first if there are none.
    async fn make(
        self,
        accounts: &Accounts,
        session: &mut ClientSession<SimRuntime>,
    ) -> Result<Vec<Document>, Error> {
        let mut found = Vec::new();
        for accounts in accounts.all() {
            let find = accounts.find(doc! {}).batch_size(2);
            let mut cursor = find.session(session).await?;
            while let Some(account) = cursor.next(session).await {
                found.push(account?);
            }
        }
        if found.is_empty() {
            for (place, part) in accounts.all().enumerate() {
                let ids = (0..ACCOUNTS).filter(|id| match accounts.odd {
                    Some(_) => id % 2 == place as i64,
                    None => true,
                });
                let new: Vec<Document> = ids.map(|id| doc! { "_id": id, "n": MONEY }).collect();
                part.insert_many(&new).session(session).await?;
            }
        }
        for (account, money) in [(self.from, -self.money), (self.to, self.money)] {
            let change = doc! { "$inc": { "n": money } };
            let update = accounts
                .of(account)
                .update_one(doc! { "_id": account }, change);
            update.session(session).await?;
        }
        Ok(found)
    }
}

impl Application {
    pub(super) async fn transfer(mut self) {
        let accounts = Accounts::new(&self.client, self.has_shards);
        while let Some(is_late) = self.next_step().await {
            let limit = self.limit(is_late);
            let mut are_open = self.runtime.shared.lock().applications.bank.transfers > 0;
            let found = if self.random.chance(1, 4) {
                // A member that was the primary can have an older snapshot.
                are_open = false;
                let client = self.client.clone();
                let read = async {
                    let mut session = client.start_session().snapshot(true).await?;
                    let mut found = Vec::new();
                    for accounts in accounts.all() {
                        let find = accounts.find(doc! {}).timeout(limit);
                        let mut cursor = find.session(&mut session).await?;
                        while let Some(account) = cursor.next(&mut session).await {
                            found.push(account?);
                        }
                    }
                    Ok(found)
                };
                // Each of the finds has a limit of its own.
                let longest = limit * u32::try_from(accounts.all().count()).unwrap_or(1);
                let read = self.attempt("a read in a snapshot", longest, is_late, read);
                read.await
            } else {
                let transfer = Transfer {
                    from: index(&mut self.random, ACCOUNTS as usize) as i64,
                    to: index(&mut self.random, ACCOUNTS as usize) as i64,
                    money: self.random.below(50) as i64,
                };
                let client = self.client.clone();
                // The abort after the limit has the same limit again.
                let run = async {
                    let mut session = client.start_session().await?;
                    let run = session
                        .start_transaction()
                        .with_options(lists::options())
                        .timeout(limit);
                    run.and_run(accounts.clone(), |session, accounts| {
                        Box::pin(transfer.make(accounts, session))
                    })
                    .await
                };
                let ended = self.attempt("a transfer", limit * 2, is_late, run).await;
                let mut state = self.runtime.shared.lock();
                state.applications.bank.add(transfer, ended.is_ok());
                drop(state);
                ended
            };
            match found.map(|found| check(&found, are_open)) {
                Ok(Ok(())) => {}
                Ok(Err(what)) => self.fail(FailureKind::Correctness, "a wrong sum was read", &what),
                Err(left) if self.goes_on(&left, is_late) => {}
                Err(_) => return,
            }
        }
    }
}
