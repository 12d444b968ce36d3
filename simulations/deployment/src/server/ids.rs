//! The ids that a member generates.

use bson::oid::ObjectId;

/// Generates ObjectIds: the `_id`s of documents that have none, process ids and service ids.
#[derive(Debug)]
pub(super) struct ObjectIds {
    pub(super) unique: [u8; 5],
    pub(super) count: u32,
}

impl ObjectIds {
    pub(super) fn next(&mut self, wall_millis: u64) -> ObjectId {
        let seconds = u32::try_from(wall_millis / 1000).unwrap_or(u32::MAX);
        self.count = self.count.wrapping_add(1);
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&seconds.to_be_bytes());
        bytes[4..9].copy_from_slice(&self.unique);
        bytes[9..].copy_from_slice(&self.count.to_be_bytes()[1..]);
        ObjectId::from_bytes(bytes)
    }
}
