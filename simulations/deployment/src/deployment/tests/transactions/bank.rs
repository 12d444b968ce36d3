//! Random transfers between accounts, whose sum never changes.

use super::{
    super::world::{World, send, set_of},
    Client, batch, client, find_all, insert,
};
use crate::deployment::ConnId;
use bson::{Document, doc};
use onionskin_core::random::{Random, Seed};
use std::time::Duration;

const ACCOUNTS: i32 = 6;
const SUM: i64 = 600;

/// A client with the statements that its open transaction has left.
struct Teller {
    client: Client,
    left: Vec<Document>,
    is_open: bool,
    commits: usize,
    failures: usize,
}

fn add(account: i32, n: i32) -> Document {
    doc! { "update": "c", "updates": [{ "q": { "_id": account }, "u": { "$inc": { "n": n } } }] }
}

/// Returns the statements of a transfer. Some delete an account and insert it again.
fn transfer(random: &mut Random) -> Vec<Document> {
    let account = |random: &mut Random| random.below(ACCOUNTS as u64) as i32;
    let (from, to) = (account(random), account(random));
    let n = random.below(50) as i32;
    let mut statements = vec![find_all(), add(from, -n), add(to, n), find_all()];
    if random.below(4) == 0 {
        let modify = doc! {
            "findAndModify": "c", "query": { "_id": from }, "update": { "$inc": { "n": 1 } },
        };
        statements.extend([modify, add(from, -1)]);
    }
    if random.below(4) == 0 {
        let extra = doc! { "insert": "extra", "documents": [{ "of": from }] };
        statements.push(extra);
    }
    statements.reverse();
    statements
}

fn check_sum(reply: &Document, of: &str) {
    let documents = batch(reply);
    let sum = documents
        .iter()
        .map(|d| i64::from(d.get_i32("n").expect("a number")));
    assert_eq!(sum.sum::<i64>(), SUM, "{of}: {reply}");
}

impl Teller {
    /// Sends the next command, and gives up the transaction if it fails.
    fn step(&mut self, world: &mut World, random: &mut Random) {
        if !self.is_open {
            self.client.number += 1;
            self.left = transfer(random);
        }
        let mut commits = false;
        let (reply, is_end) = match self.left.pop() {
            None => {
                commits = random.below(5) > 0;
                let name = match commits {
                    true => "commitTransaction",
                    false => "abortTransaction",
                };
                let end = self.client.part(doc! { name: 1, "$db": "admin" });
                (world.send_command(self.client.conn, &end), true)
            }
            Some(mut statement) => {
                statement.insert("$db", "d");
                let statement = match self.is_open {
                    true => self.client.part(statement),
                    false => self.client.starting(statement),
                };
                (world.send_command(self.client.conn, &statement), false)
            }
        };
        let is_ok = reply
            .as_ref()
            .is_some_and(|r| r.get_f64("ok").ok() == Some(1.0));
        self.is_open = is_ok && !is_end;
        self.commits += usize::from(is_ok && commits);
        self.failures += usize::from(!is_ok);
        if let Some(reply) = reply.filter(|reply| reply.contains_key("cursor")) {
            // A transfer is complete or has not begun when its transaction reads all accounts.
            check_sum(&reply, "in a transaction");
        }
    }
}

fn connect(world: &mut World) -> ConnId {
    let (primary, _) = world
        .until_primary(Duration::from_secs(120))
        .expect("a primary");
    world.connect(primary)
}

fn run(seed: u8) -> Vec<(ConnId, Vec<u8>)> {
    let mut random = Seed::new([seed; 32]).split("bank").random();
    let mut world = World::new(set_of(3), seed);
    let conn = connect(&mut world);
    let accounts = (0..ACCOUNTS).map(|id| doc! { "_id": id, "n": 100 });
    send(&mut world, conn, insert(&accounts.collect::<Vec<_>>()));
    let tellers = (1..=4).map(|session| Teller {
        client: client(conn, session),
        left: Vec::new(),
        is_open: false,
        commits: 0,
        failures: 0,
    });
    let mut tellers: Vec<Teller> = tellers.collect();
    for _ in 0..300 {
        let at = random.below(tellers.len() as u64) as usize;
        tellers[at].step(&mut world, &mut random);
        if random.below(8) == 0 {
            check_sum(
                &send(&mut world, tellers[at].client.conn, find_all()),
                "outside",
            );
        }
        let event = random.below(100);
        if event == 0 {
            world.deployment.step_down(world.now);
            world.run_for(Duration::from_secs(15));
        } else if event == 1 {
            let primary = world.deployment.primary().expect("a primary");
            world.deployment.kill(world.now, primary);
            world.drain();
            world.run_for(Duration::from_secs(30));
            world.deployment.restart(world.now, primary);
        }
        if event < 2 {
            let conn = connect(&mut world);
            tellers.iter_mut().for_each(|t| t.client.conn = conn);
        }
    }
    world.run_for(Duration::from_secs(120));
    let conn = connect(&mut world);
    check_sum(&send(&mut world, conn, find_all()), "at the end");
    world.run_for(Duration::from_secs(30));
    world.deployment.check_members().expect("equal members");
    let commits: usize = tellers.iter().map(|teller| teller.commits).sum();
    let failures: usize = tellers.iter().map(|teller| teller.failures).sum();
    assert!(
        commits >= 10 && failures >= 10,
        "{commits} commits, {failures} failures"
    );
    world.sent
}

#[test]
fn the_sum_of_all_accounts_never_changes() {
    for seed in 1..=6 {
        run(seed);
    }
}

#[test]
fn the_same_seed_gives_the_same_replies() {
    assert!(run(9) == run(9));
}
