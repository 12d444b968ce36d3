//! The names of the stages of pipelines, and their positions.

use bson::Document;

use super::Answer;
use super::error::StoreError;
use super::release::{Name, Release, name};

/// The largest number of stages of a pipeline.
const MAX_STAGES: usize = 1000;

/// The place of a stage in pipelines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Place {
    Any,
    First,
    Last,
    /// No place, because a server has the stage and the simulated server does not.
    Refused,
}

/// The stages of pipelines.
pub(crate) const STAGES: &[Name<Place>] = &[
    name("$match", Place::Any),
    name("$project", Place::Any),
    name("$addFields", Place::Any),
    name("$set", Place::Any),
    name("$unset", Place::Any),
    name("$sort", Place::Any),
    name("$limit", Place::Any),
    name("$skip", Place::Any),
    name("$group", Place::Any),
    name("$count", Place::Any),
    name("$unwind", Place::Any),
    name("$sample", Place::Any),
    name("$replaceRoot", Place::Any),
    name("$replaceWith", Place::Any),
    name("$facet", Place::Any),
    name("$lookup", Place::Any),
    name("$sortByCount", Place::Any),
    name("$out", Place::Last),
    name("$merge", Place::Last),
    name("$collStats", Place::First),
    name("$indexStats", Place::First),
    name("$documents", Place::First).since(5, 1, 0),
    name(GIVEN, Place::First),
    name("$unionWith", Place::Any).since(4, 4, 0),
    name("$bucket", Place::Any),
    name("$bucketAuto", Place::Any),
    name("$redact", Place::Any),
    name("$currentOp", Place::Refused),
    name("$densify", Place::Refused).since(5, 1, 0),
    name("$fill", Place::Refused).since(5, 3, 0),
    name("$geoNear", Place::Refused),
    name("$graphLookup", Place::Refused),
    name("$listCatalog", Place::Refused).since(6, 0, 0),
    name("$listSampledQueries", Place::Refused).since(7, 0, 0),
    name("$listSessions", Place::Refused),
    name("$planCacheStats", Place::Refused),
    name("$querySettings", Place::Refused).since(8, 0, 0),
    name("$queryStats", Place::Refused).since(7, 0, 0),
    name("$rankFusion", Place::Refused).since(8, 1, 0),
    name("$scoreFusion", Place::Refused).since(8, 2, 0),
    name("$setWindowFields", Place::Refused).since(5, 0, 0),
    name("$shardedDataDistribution", Place::Refused).since(6, 0, 3),
];

/// The stage by which a member gives documents to a pipeline. Clients cannot use it.
pub(crate) const GIVEN: &str = "$_given";

const OF_UPDATES: &[&str] = &[
    "$addFields",
    "$set",
    "$project",
    "$unset",
    "$replaceRoot",
    "$replaceWith",
];

/// Returns an error if there are too many stages, or if a stage is unknown to the release, is not
/// alone in its document, or is at a wrong position.
pub(crate) fn check(stages: &[Document], release: Release) -> Answer<()> {
    check_length(stages)?;
    for (i, stage) in stages.iter().enumerate() {
        let name = stage_name(stage)?;
        if name == "$listSearchIndexes" {
            let text = "$listSearchIndexes stage is only allowed on MongoDB Atlas";
            return Err(StoreError::new(6_047_401, text));
        }
        if name == "$changeStream" {
            return Err(not_first(name));
        }
        match Name::find(STAGES, name, release) {
            None => return Err(unrecognized(name)),
            Some(Place::Refused) => return Err(unrecognized(name).not_simulated(name)),
            Some(Place::Last) if i + 1 < stages.len() => {
                let text = format!("{name} can only be the final stage in the pipeline");
                return Err(StoreError::new(40601, text));
            }
            Some(Place::First) if i > 0 => return Err(not_first(name)),
            Some(_) => {}
        }
    }
    Ok(())
}

fn not_first(name: &str) -> StoreError {
    let text = format!("{name} is only valid as the first stage in a pipeline");
    StoreError::new(40602, text)
}

/// True if the first stage of a pipeline makes the documents.
pub(super) fn makes_documents(stages: &[Document]) -> bool {
    let first = stages.first().and_then(|stage| stage.keys().next());
    first.is_some_and(|first| Name::find(STAGES, first, Release::default()) == Some(Place::First))
}

/// Returns an error if [`check`] does, or if a stage is not permitted in an update.
pub(crate) fn check_update(stages: &[Document], release: Release) -> Answer<()> {
    check(stages, release)?;
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

/// True if a server of a release has this stage.
pub(super) fn is_known(name: &str, release: Release) -> bool {
    Name::find(STAGES, name, release).is_some()
}

pub(crate) fn unrecognized(name: &str) -> StoreError {
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
