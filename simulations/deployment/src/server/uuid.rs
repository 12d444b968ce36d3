//! The field `collectionUUID`, by which a client makes sure that a name still means the same
//! collection.

use super::{
    Member,
    connection::Request,
    dispatch::namespace,
    fault::{Fault, bad_value, fault},
};
use crate::store::StoreError;
use bson::Bson;

impl Member {
    /// Returns an error if a command gives the UUID of another collection than the one it names.
    pub(super) fn check_uuid(&self, request: &Request) -> Result<(), Fault> {
        let Some(uuid @ Bson::Binary(_)) = request.command.get("collectionUUID") else {
            return Ok(());
        };
        let value = request.command.get_str(&request.name);
        let name = match (request.name.as_str(), value) {
            ("renameCollection", value) => Self::full_name(value.unwrap_or_default())?,
            (_, Ok(_)) => namespace(request)?,
            _ => {
                let path = format!("{}.collectionUUID", request.name);
                let text = format!("BSON field '{path}' is an unknown field.");
                let what = "collectionUUID without the name of a collection";
                return Err(fault(40415, text).not_simulated(what));
            }
        };
        let store = self.replica.store();
        if store.uuid(&name).as_ref() == Some(uuid) {
            return Ok(());
        }
        let actual = store.collection_of_uuid(&name.database, uuid);
        let actual = actual.map_or(Bson::Null, |actual| actual.collection.into());
        let error = StoreError::new(361, "Collection UUID does not match that specified")
            .with("db", name.database)
            .with("collectionUUID", uuid.clone())
            .with("expectedCollection", name.collection)
            .with("actualCollection", actual);
        Err(error.into())
    }
}

/// Returns an error if a command has a UUID in place of its collection's name.
pub(super) fn refuse_uuid(request: &Request) -> Result<(), Fault> {
    if let Some(Bson::Binary(_)) = request.command.get(&request.name) {
        let text = "Collection name must be provided. UUID is not valid in this context";
        let what = format!(
            "{} with a UUID in place of the collection's name",
            request.name
        );
        return Err(bad_value(text).not_simulated(&what));
    }
    Ok(())
}
