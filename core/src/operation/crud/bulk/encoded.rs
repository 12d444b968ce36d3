//! The operations of a client's bulk write as the command `bulkWrite` has them.

use super::{
    super::{Namespace, check_name, encode_insert},
    models::{InsertOneModel, Kind, OPERATION, WriteModel},
};
use crate::{bson::DocumentWriter, error::Error, operation::Operations};
use bson::{Bson, oid::ObjectId};
use std::{collections::BTreeMap, fmt};

/// The encoded operations of a bulk write.
#[derive(Default)]
pub struct EncodedModels {
    pub(super) operations: Operations,
    pub(super) kinds: Vec<Kind>,
    /// The `_id` of each inserted document with the index of its operation, in ascending order.
    pub(super) ids: Vec<(usize, Bson)>,
    /// The place of each namespace that was used.
    places: BTreeMap<Namespace, u32>,
}

/// Shows the number of operations. Their documents can be secret.
impl fmt::Debug for EncodedModels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EncodedModels")
            .field("operations", &self.kinds.len())
            .finish_non_exhaustive()
    }
}

impl EncodedModels {
    /// Encodes operations one after the other, so that only one of them is in memory as a model.
    /// `new_id` returns the `_id` of a document without one.
    ///
    /// Fails without an operation, and for an operation that cannot be encoded or is not valid.
    pub fn of(
        models: impl IntoIterator<Item = impl Into<WriteModel>>,
        mut new_id: impl FnMut() -> ObjectId,
    ) -> Result<Self, Error> {
        let mut encoded = Self::default();
        for model in models {
            encoded.add(&model.into(), &mut new_id)?;
        }
        match encoded.kinds.is_empty() {
            true => Err(Error::argument("there is no operation in the bulk write")),
            false => Ok(encoded),
        }
    }

    /// Adds an operation. Fails for an invalid namespace, an update without operators, a
    /// replacement with operators, and a document that cannot be encoded.
    fn add(&mut self, model: &WriteModel, new_id: impl FnOnce() -> ObjectId) -> Result<(), Error> {
        let place = self.place(model.namespace())?;
        let index = self.kinds.len();
        let mut id = None;
        let start = self.operations.bytes.len();
        let mut writer = DocumentWriter::begin(&mut self.operations.bytes);
        let at = i32::try_from(place).unwrap_or(i32::MAX);
        let (key, kind) = match model.kind() {
            kind @ Kind::Insert => ("insert", kind),
            kind @ Kind::Update => ("update", kind),
            kind @ Kind::Delete => ("delete", kind),
        };
        writer.i32(key, at);
        let written = match model {
            WriteModel::InsertOne(model) => {
                insert(&mut writer, model, new_id).map(|made| id = Some(made))
            }
            WriteModel::UpdateOne(model) => model.write(&mut writer, &OPERATION),
            WriteModel::UpdateMany(model) => model.write(&mut writer, &OPERATION),
            WriteModel::ReplaceOne(model) => model.write(&mut writer, &OPERATION),
            WriteModel::DeleteOne(model) => model.write(&mut writer, &OPERATION),
            WriteModel::DeleteMany(model) => model.write(&mut writer, &OPERATION),
        };
        match written {
            Ok(()) => {
                writer.end();
                self.kinds.push(kind);
                self.operations.places.push(place);
                self.ids.extend(id.map(|id| (index, id)));
                if model.is_multi() {
                    self.operations.multi.push(start);
                }
                Ok(())
            }
            Err(error) => {
                self.operations.bytes.truncate(start);
                Err(error)
            }
        }
    }

    fn place(&mut self, namespace: &Namespace) -> Result<u32, Error> {
        if let Some(&place) = self.places.get(namespace) {
            return Ok(place);
        }
        check_name("database", &namespace.db)?;
        check_name("collection", &namespace.coll)?;
        let place = u32::try_from(self.operations.namespaces.len()).unwrap_or(u32::MAX);
        let mut bytes = Vec::new();
        let mut writer = DocumentWriter::begin(&mut bytes);
        writer.str("ns", &namespace.to_string());
        writer.end();
        self.operations.namespaces.push(bytes);
        self.places.insert(namespace.clone(), place);
        Ok(place)
    }
}

fn insert(
    writer: &mut DocumentWriter<'_>,
    model: &InsertOneModel,
    new_id: impl FnOnce() -> ObjectId,
) -> Result<Bson, Error> {
    writer.appended("document", |bytes| {
        encode_insert(&model.document, bytes, new_id)
    })
}
