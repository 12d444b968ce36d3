//! The options of the stage `$changeStream`.

use super::types::{Field, Kind, field};
use crate::server::fault::Fault;
use bson::Bson;

const STREAM: &[Field] = &[
    field("resumeAfter", Kind::Object),
    field("startAfter", Kind::Object),
    // The stage itself checks the type.
    field("startAtOperationTime", Kind::Any),
    field(
        "fullDocument",
        Kind::OneOf(&["default", "updateLookup", "whenAvailable", "required"]),
    )
    .since(6, 0),
    field("fullDocument", Kind::OneOf(&["default", "updateLookup"])).until(6, 0),
    field(
        "fullDocumentBeforeChange",
        Kind::OneOf(&["off", "whenAvailable", "required"]),
    )
    .since(6, 0),
    field("allChangesForCluster", Kind::Bool),
    field("showExpandedEvents", Kind::Bool).since(6, 0),
    field("showSystemEvents", Kind::Bool).since(6, 0),
    field("showMigrationEvents", Kind::Bool).refused(),
    field("showRawUpdateDescription", Kind::Bool)
        .since(6, 0)
        .refused(),
];

/// Returns an error if the operand of a `$changeStream` has an option that the release does not
/// know, or one of a wrong type.
pub(in crate::server) fn check_change_stream(
    operand: &Bson,
    [major, minor, _]: [u16; 3],
) -> Result<(), Fault> {
    let stage = field("$changeStream", Kind::Nested(STREAM));
    stage.check("$changeStream", operand, (major, minor))
}
