//! The models of a collection's bulk write as statements of its commands.

use super::{
    super::{Namespace, SharedNamespace},
    WriteModel,
    models::{Kind, STATEMENT},
};
use crate::{
    bson::DocumentWriter,
    error::Error,
    operation::{DocumentList, MultiOffsets, crud::encode_insert},
};
use bson::{Bson, oid::ObjectId};
use std::collections::BTreeMap;

/// Statements of one kind, which commands of one name send.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) kind: Kind,
    pub(super) statements: DocumentList,
    /// The index of the model of each statement.
    pub(super) models: Vec<usize>,
    /// True if a statement has a hint.
    pub(super) has_hint: bool,
}

/// The statements of all models.
#[derive(Debug)]
pub(super) struct Statements {
    pub(super) groups: Vec<Group>,
    /// The `_id` of each document to insert, by the index of its model.
    pub(super) ids: BTreeMap<usize, Bson>,
}

/// A group before its last statement is known.
#[derive(Default)]
struct Draft {
    bytes: Vec<u8>,
    /// The offsets of the statements that can affect several documents.
    multi: MultiOffsets,
    models: Vec<usize>,
    has_hint: bool,
}

impl Statements {
    /// Encodes the models. Fails without a model, for a model of another collection, for an update
    /// without operators, for a replacement with operators, and for a document that cannot be
    /// encoded.
    pub(super) fn of(
        models: &[WriteModel],
        namespace: &SharedNamespace,
        is_ordered: bool,
        mut new_id: impl FnMut() -> ObjectId,
    ) -> Result<Self, Error> {
        if models.is_empty() {
            return Err(Error::argument("there is no operation in the bulk write"));
        }
        let mut drafts: Vec<(Kind, Draft)> = Vec::new();
        let mut ids = BTreeMap::new();
        for (index, model) in models.iter().enumerate() {
            check_namespace(index, model, namespace)?;
            let kind = model.kind();
            let place = match is_ordered {
                true => drafts
                    .len()
                    .checked_sub(1)
                    .filter(|&at| drafts[at].0 == kind),
                false => drafts.iter().position(|(drafted, _)| *drafted == kind),
            };
            let place = place.unwrap_or_else(|| {
                drafts.push((kind, Draft::default()));
                drafts.len() - 1
            });
            let draft = &mut drafts[place].1;
            draft.models.push(index);
            draft.has_hint |= model.has_hint();
            if model.is_multi() {
                draft.multi.push(draft.bytes.len());
            }
            ids.extend(draft.add(model, &mut new_id)?.map(|id| (index, id)));
        }
        if !is_ordered {
            drafts.sort_by_key(|(kind, _)| *kind);
        }
        let groups = drafts.into_iter().map(|(kind, draft)| Group {
            kind,
            statements: DocumentList::with_multi(draft.bytes, draft.multi),
            models: draft.models,
            has_hint: draft.has_hint,
        });
        Ok(Self {
            groups: groups.collect(),
            ids,
        })
    }
}

fn check_namespace(index: usize, model: &WriteModel, own: &SharedNamespace) -> Result<(), Error> {
    let namespace = model.namespace();
    let is_own = namespace.db == own.database() && namespace.coll == own.collection();
    if is_own || *namespace == Namespace::default() {
        return Ok(());
    }
    Err(Error::argument(format!(
        "operation {index} of the bulk write is for {namespace}, and the bulk write for {own}; use \
         `Client::bulk_write` for several collections"
    )))
}

impl Draft {
    /// Adds a statement. Returns the `_id` of a document to insert.
    fn add(
        &mut self,
        model: &WriteModel,
        new_id: impl FnOnce() -> ObjectId,
    ) -> Result<Option<Bson>, Error> {
        if let WriteModel::InsertOne(model) = model {
            return encode_insert(&model.document, &mut self.bytes, new_id).map(Some);
        }
        let mut writer = DocumentWriter::begin(&mut self.bytes);
        match model {
            WriteModel::InsertOne(_) => {}
            WriteModel::UpdateOne(model) => model.write(&mut writer, &STATEMENT)?,
            WriteModel::UpdateMany(model) => model.write(&mut writer, &STATEMENT)?,
            WriteModel::ReplaceOne(model) => model.write(&mut writer, &STATEMENT)?,
            WriteModel::DeleteOne(model) => model.write(&mut writer, &STATEMENT)?,
            WriteModel::DeleteMany(model) => model.write(&mut writer, &STATEMENT)?,
        }
        writer.end();
        Ok(None)
    }
}
