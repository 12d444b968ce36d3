//! Random commands, many of which fail, on a set whose members fail as well. After each command
//! that fails, the members must have the same data.
//!
//! `ONIONSKIN_RANDOM_COMMANDS` sets the number of commands of each seed, and
//! `ONIONSKIN_RANDOM_SEED` the only seed.

use super::world::{World, set_of};
use crate::deployment::{ConnId, Deployment, MemberEvent, MemberState};
use bson::{Bson, Document, doc};
use onionskin_core::random::{Random, Seed};
use std::time::Duration;

const COMMANDS: u64 = 2_000;

const SEEDS: [u8; 3] = [1, 2, 3];

/// The number of commands between two disturbances.
const CALM: u64 = 40;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The source of random commands.
struct Source(Random);

impl Source {
    fn below(&mut self, n: u64) -> i32 {
        i32::try_from(self.0.below(n)).expect("small numbers")
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.0.below(of.len() as u64) as usize].clone()
    }

    fn collection(&mut self) -> &'static str {
        self.one(&["a", "b", "c", "capped"])
    }

    fn value(&mut self) -> Bson {
        match self.below(6) {
            0 => "text".into(),
            1 => Bson::Null,
            2 => vec![Bson::from(self.below(4)), self.below(4).into()].into(),
            3 => doc! { "n": self.below(3) }.into(),
            _ => self.below(4).into(),
        }
    }

    fn document(&mut self) -> Document {
        let mut document = doc! { "x": self.value(), "y": self.value() };
        match self.below(20) {
            0 => document.insert("_id", Bson::Array(vec![])),
            1 => document.insert("_id", doc! { "$x": 1 }),
            2 => None,
            _ => document.insert("_id", self.below(30)),
        };
        document
    }

    fn filter(&mut self) -> Document {
        match self.below(5) {
            0 => doc! {},
            1 => doc! { "_id": { "$lt": self.below(30) } },
            2 => doc! { "x": self.value() },
            3 => doc! { "$expr": { "$eq": [{ "$add": ["$x", 1] }, 2] } },
            _ => doc! { "_id": self.below(30) },
        }
    }

    /// Returns an update, which fails on some documents.
    fn update(&mut self) -> Bson {
        let field = self.one(&["x", "y", "z"]);
        match self.below(9) {
            0 => doc! { "$inc": { field: 1 } }.into(),
            1 => doc! { "$push": { field: self.below(4) } }.into(),
            2 => doc! { "$rename": { "x": "y.n" } }.into(),
            3 => doc! { "$set": { field: self.value() } }.into(),
            4 => doc! { "$set": { "_id": self.below(30) } }.into(),
            5 => doc! { "$mul": { field: 2 }, "$unset": { "y": 1 } }.into(),
            6 => vec![Bson::from(
                doc! { "$set": { "z": { "$divide": [6, "$x"] } } },
            )]
            .into(),
            7 => doc! { "$pop": { field: 1 } }.into(),
            _ => doc! { "x": self.value() }.into(),
        }
    }

    fn stage(&mut self) -> Document {
        match self.below(5) {
            0 => doc! { "$set": { "y": { "$divide": [1, "$x"] } } },
            1 => doc! { "$set": { "_id": "$x" } },
            2 => doc! { "$match": self.filter() },
            3 => doc! { "$unset": "_id" },
            _ => doc! { "$limit": 1 + self.below(5) },
        }
    }

    fn output(&mut self) -> Document {
        let into = self.collection();
        if self.below(3) == 0 {
            return doc! { "$out": into };
        }
        let matched = self.one(&["merge", "replace", "fail", "keepExisting"]);
        let other = self.one(&["insert", "discard", "fail"]);
        doc! { "$merge": { "into": into, "whenMatched": matched, "whenNotMatched": other } }
    }

    fn catalog_command(&mut self) -> Document {
        let collection = self.collection();
        match self.below(8) {
            0 => doc! { "create": "capped", "capped": true, "size": 2000, "max": 5 },
            1 => doc! { "drop": collection },
            2 if self.below(4) == 0 => doc! { "dropDatabase": 1 },
            3 => {
                let from = format!("d.{}", self.collection());
                let to = format!("d.{collection}");
                let dropped = self.below(2) == 0;
                doc! { "renameCollection": from, "to": to, "dropTarget": dropped, "$db": "admin" }
            }
            4 => doc! { "dropIndexes": collection, "index": self.one(&["*", "x_1", "none"]) },
            5 => doc! { "collMod": collection, "validationLevel": "off" },
            _ => {
                let unique = self.below(2) == 0;
                let field = self.one(&["x", "y", "z"]);
                let indexes = vec![
                    doc! { "key": { "w": 1 }, "name": "w_1" },
                    doc! { "key": { field: 1 }, "name": format!("{field}_1"), "unique": unique },
                ];
                doc! { "createIndexes": collection, "indexes": indexes }
            }
        }
    }

    fn command(&mut self) -> Document {
        let collection = self.collection();
        let ordered = self.below(2) == 0;
        match self.below(12) {
            0..=2 => {
                let documents: Vec<_> = (0..=self.below(4)).map(|_| self.document()).collect();
                doc! { "insert": collection, "documents": documents, "ordered": ordered }
            }
            3..=5 => {
                let update = |source: &mut Self| {
                    let (q, u) = (source.filter(), source.update());
                    let (multi, upsert) = (source.below(3) > 0, source.below(4) == 0);
                    doc! { "q": q, "u": u, "multi": multi, "upsert": upsert }
                };
                let updates: Vec<_> = (0..=self.below(3)).map(|_| update(self)).collect();
                doc! { "update": collection, "updates": updates, "ordered": ordered }
            }
            6 => {
                let deletes = vec![doc! { "q": self.filter(), "limit": self.below(2) }];
                doc! { "delete": collection, "deletes": deletes, "ordered": ordered }
            }
            7 | 8 => {
                let mut command = doc! { "findAndModify": collection, "query": self.filter() };
                match self.below(3) {
                    0 => command.extend(doc! { "remove": true }),
                    _ => {
                        let (update, upsert) = (self.update(), self.below(2) == 0);
                        let new = self.below(2) == 0;
                        command.extend(doc! { "update": update, "upsert": upsert, "new": new });
                    }
                }
                if self.below(2) == 0 {
                    command.insert("fields", doc! { "q": { "$divide": [1, "$x"] } });
                }
                command
            }
            9 | 10 => {
                let mut pipeline: Vec<_> = (0..self.below(3)).map(|_| self.stage()).collect();
                pipeline.push(self.output());
                doc! { "aggregate": collection, "pipeline": pipeline, "cursor": {} }
            }
            _ => self.catalog_command(),
        }
    }
}

fn is_level(deployment: &Deployment) -> bool {
    let progress = deployment.progress(0);
    progress.is_some_and(|(commit, last)| commit == last)
        && (1..deployment.members()).all(|member| deployment.progress(member) == progress)
}

fn disturb(world: &mut World, source: &mut Source) {
    let member = source.below(3) as usize;
    match source.below(4) {
        0 => world.deployment.kill(world.now, member),
        1 => world.deployment.partition(world.now, &[member]),
        2 => {
            world.deployment.step_down(world.now);
        }
        _ => return,
    }
    world.run_for(Duration::from_millis(1000 * source.0.below(20)));
}

fn restore(world: &mut World) {
    world.deployment.heal(world.now);
    for member in 0..3 {
        world.deployment.restart(world.now, member);
    }
    world.drain();
}

/// Runs until the members are level, and compares them.
fn compare(world: &mut World, what: &str) {
    restore(world);
    for _ in 0..1_000 {
        if is_level(&world.deployment) {
            let checked = world.deployment.check_members();
            return checked.unwrap_or_else(|difference| panic!("{difference} after {what}"));
        }
        world.run_for(Duration::from_millis(50));
        let failed = |(_, event): &(_, MemberEvent)| matches!(event, MemberEvent::Failed { .. });
        if let Some(event) = world.events.iter().find(|event| failed(event)) {
            panic!("{event:?} after {what}");
        }
    }
    panic!("the members did not catch up after {what}");
}

/// Returns a connection to the primary.
fn connect(world: &mut World) -> ConnId {
    restore(world);
    let (primary, _) = world
        .until_primary(Duration::from_secs(120))
        .expect("a primary");
    world.connect(primary)
}

fn run(seed: u8, commands: u64) -> (u64, u64) {
    let mut options = set_of(3);
    // Members can fall behind the oplog, and then copy all data.
    options.limits.max_oplog_entries = if seed.is_multiple_of(2) { 50 } else { 10_000 };
    let mut world = World::new(options, seed);
    let mut source = Source(Seed::new([seed; 32]).split("commands").random());
    let mut conn = connect(&mut world);
    let (mut done, mut failed) = (0, 0);
    for count in 0..commands {
        let mut command = source.command();
        if !command.contains_key("$db") {
            command.insert("$db", "d");
        }
        if count % CALM == 0 {
            disturb(&mut world, &mut source);
        }
        let reply = world.send_command(conn, &command);
        let succeeded = reply.as_ref().is_some_and(|reply| {
            reply.get_f64("ok").is_ok_and(|ok| ok == 1.0) && !reply.contains_key("writeErrors")
        });
        if succeeded {
            done += 1;
            continue;
        }
        failed += 1;
        let what = format!("command {count} of seed {seed}, {command}: {reply:?}");
        compare(&mut world, &what);
        let closed = world.closed.contains(&conn);
        let primary = world.deployment.primary();
        let leads = |member| world.deployment.state(member) == Some(MemberState::Primary);
        if closed || reply.is_none_or(|reply| is_not_primary(&reply)) || !primary.is_some_and(leads)
        {
            conn = connect(&mut world);
        }
        // The bytes are kept for comparisons of runs, which these tests do not make.
        world.sent.clear();
        world.events.clear();
    }
    compare(&mut world, &format!("all commands of seed {seed}"));
    (done, failed)
}

/// True if a reply says that the member is no primary, or stops being one.
fn is_not_primary(reply: &Document) -> bool {
    matches!(reply.get_i32("code"), Ok(10107 | 11602 | 189 | 91))
}

#[test]
fn members_are_equal_after_each_command_that_fails() {
    let commands = number("ONIONSKIN_RANDOM_COMMANDS").unwrap_or(COMMANDS);
    let only = number("ONIONSKIN_RANDOM_SEED").and_then(|seed| u8::try_from(seed).ok());
    for seed in only.map_or_else(|| SEEDS.to_vec(), |seed| vec![seed]) {
        let (done, failed) = run(seed, commands);
        println!("seed {seed}: {done} commands succeeded, {failed} failed");
        assert!(
            done > commands / 4 && failed > commands / 20,
            "{done} and {failed}"
        );
    }
}
