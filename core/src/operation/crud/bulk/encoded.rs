//! The operations of a client's bulk write as the command `bulkWrite` has them.

use super::{
    super::{Namespace, check_collection_name, check_database_name, encode_insert},
    models::{InsertOneModel, Kind, OPERATION, WriteModel},
};
use crate::{bson::DocumentWriter, error::Error, operation::Operations, wire::MAX_MESSAGE_BYTES};
use bson::oid::ObjectId;
use std::{collections::BTreeMap, fmt};

/// The number of operations whose size tells how large the other ones are expected to be.
const SAMPLE: usize = 32;

/// The encoded operations of a bulk write.
#[derive(Default)]
pub struct EncodedModels {
    pub(super) operations: Operations,
    pub(super) kinds: Vec<Kind>,
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
        let models = models.into_iter();
        let (expected, _) = models.size_hint();
        for model in models {
            encoded.add(&model.into(), &mut new_id)?;
            if encoded.kinds.len() == SAMPLE {
                encoded.reserve(expected);
            }
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
            WriteModel::InsertOne(model) => insert(&mut writer, model, new_id),
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

    /// Makes room for this number of operations, if they are as large as the first ones. Otherwise
    /// the bytes would be moved several times while they grow.
    fn reserve(&mut self, expected: usize) {
        let more = expected.saturating_sub(self.kinds.len());
        let bytes = more.saturating_mul(self.operations.bytes.len() / SAMPLE);
        self.operations.bytes.reserve(bytes.min(MAX_MESSAGE_BYTES));
    }

    fn place(&mut self, namespace: &Namespace) -> Result<u32, Error> {
        if let Some(&place) = self.places.get(namespace) {
            return Ok(place);
        }
        check_database_name(&namespace.db)?;
        check_collection_name(&namespace.coll)?;
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
) -> Result<(), Error> {
    writer.appended("document", |bytes| {
        encode_insert(&model.document, bytes, new_id).map(drop)
    })
}
