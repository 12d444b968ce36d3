//! The names of the stages of pipelines, and their positions.

use bson::Document;

use super::Answer;
use super::error::StoreError;

/// The largest number of stages of a pipeline.
const MAX_STAGES: usize = 1000;

/// The stages that pipelines can have.
pub(crate) const STAGES: &[&str] = &[
    "$match",
    "$project",
    "$addFields",
    "$set",
    "$unset",
    "$sort",
    "$limit",
    "$skip",
    "$group",
    "$count",
    "$unwind",
    "$sample",
    "$replaceRoot",
    "$replaceWith",
    "$facet",
    "$lookup",
    "$sortByCount",
    "$out",
    "$merge",
    "$collStats",
    "$indexStats",
    "$documents",
    "$unionWith",
    "$bucket",
    "$bucketAuto",
    "$redact",
];

/// The stages that a server has and the simulated server does not.
const REFUSED: &[&str] = &[
    "$currentOp",
    "$densify",
    "$fill",
    "$geoNear",
    "$graphLookup",
    "$listCatalog",
    "$listSampledQueries",
    "$listSessions",
    "$planCacheStats",
    "$querySettings",
    "$queryStats",
    "$setWindowFields",
    "$shardedDataDistribution",
];

const OF_UPDATES: &[&str] = &[
    "$addFields",
    "$set",
    "$project",
    "$unset",
    "$replaceRoot",
    "$replaceWith",
];

/// Returns an error if there are too many stages, or if a stage is unknown, is not alone in its
/// document, or is at a wrong position.
pub(crate) fn check(stages: &[Document]) -> Answer<()> {
    check_length(stages)?;
    for (i, stage) in stages.iter().enumerate() {
        let name = stage_name(stage)?;
        if name == "$listSearchIndexes" {
            let text = "$listSearchIndexes stage is only allowed on MongoDB Atlas";
            return Err(StoreError::new(6_047_401, text));
        }
        if REFUSED.contains(&name) {
            let text = format!("this simulated server does not implement the stage '{name}'");
            return Err(StoreError::new(238, text));
        }
        if name == "$changeStream" {
            let text = format!("{name} is only valid as the first stage in a pipeline");
            return Err(StoreError::new(40602, text));
        }
        if !STAGES.contains(&name) {
            return Err(unrecognized(name));
        }
        if matches!(name, "$out" | "$merge") && i + 1 < stages.len() {
            let text = format!("{name} can only be the final stage in the pipeline");
            return Err(StoreError::new(40601, text));
        }
        if matches!(name, "$collStats" | "$indexStats" | "$documents") && i > 0 {
            let text = format!("{name} is only valid as the first stage in a pipeline");
            return Err(StoreError::new(40602, text));
        }
    }
    Ok(())
}

/// Returns an error if [`check`] does, or if a stage is not permitted in an update.
pub(crate) fn check_update(stages: &[Document]) -> Answer<()> {
    check(stages)?;
    for stage in stages {
        let name = stage_name(stage)?;
        if !OF_UPDATES.contains(&name) {
            let text = format!("{name} is not allowed to be used within an update");
            return Err(StoreError::new(72, text));
        }
    }
    Ok(())
}

/// Returns an error if there are too many stages.
pub(super) fn check_length(stages: &[Document]) -> Answer<()> {
    if stages.len() > MAX_STAGES {
        let text = format!("Pipeline length must be no longer than {MAX_STAGES} stages");
        return Err(StoreError::new(7_749_501, text));
    }
    Ok(())
}

/// True if a server has this stage.
pub(super) fn is_known(name: &str) -> bool {
    STAGES.contains(&name) || REFUSED.contains(&name)
}

pub(super) fn unrecognized(name: &str) -> StoreError {
    let text = format!("Unrecognized pipeline stage name: '{name}'");
    StoreError::new(40324, text)
}

/// Returns the name of a stage.
pub(super) fn stage_name(stage: &Document) -> Answer<&str> {
    match stage.keys().next() {
        Some(name) if stage.len() == 1 => Ok(name),
        _ => Err(StoreError::new(
            40323,
            "A pipeline stage specification object must contain exactly one field.",
        )),
    }
}
