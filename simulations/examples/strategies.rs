//! Prints the history of a replica set as a client sees it, drawn from the strategies for property
//! tests.
//!
//! ```sh
//! cargo run -p onionskin-simulations --example strategies
//! ```

use onionskin_worlds::strategies::replica_set_histories;
use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::TestRunner,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut runner = TestRunner::deterministic();
    let tree = replica_set_histories().new_tree(&mut runner);
    let history = tree.map_err(|reason| reason.to_string())?.current();
    println!("seeds: {:?}", history.seeds);
    for hello in &history.hellos {
        match &hello.reply {
            Some(reply) => println!("{}: {}", hello.server, bson::Document::try_from(reply)?),
            None => println!("{}: nobody answers", hello.server),
        }
    }
    Ok(())
}
