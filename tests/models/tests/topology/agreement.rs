//! Compares the discovery machine with its model after each input of random scripts.

use crate::{
    bench::Bench,
    cases,
    script::{Deployment, Script, scripts},
};
use proptest::{prelude::*, test_runner::TestCaseError};

/// Plays the script on the machine and on the model. Fails if they differ, or if the watcher finds
/// a wrong order.
fn agrees(script: &Script) -> Result<(), TestCaseError> {
    let mut bench = Bench::paired(&script.config, None).map_err(TestCaseError::fail)?;
    script.play(&mut bench).map_err(TestCaseError::fail)
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn sdam_agrees_with_its_model_for_a_replica_set(script in scripts(Deployment::ReplicaSet)) {
        agrees(&script)?;
    }

    #[test]
    fn sdam_agrees_with_its_model_for_false_replies(script in scripts(Deployment::Lying)) {
        agrees(&script)?;
    }

    #[test]
    fn sdam_agrees_with_its_model_for_a_sharded_cluster(script in scripts(Deployment::Sharded)) {
        agrees(&script)?;
    }

    #[test]
    fn sdam_agrees_with_its_model_for_a_standalone(script in scripts(Deployment::Standalone)) {
        agrees(&script)?;
    }

    #[test]
    fn sdam_agrees_with_its_model_for_a_load_balancer(script in scripts(Deployment::LoadBalanced)) {
        agrees(&script)?;
    }
}
