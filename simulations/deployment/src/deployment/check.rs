//! A check that the members of a set have the same data.

use super::Deployment;
use crate::store::{Collection, Namespace, Store, identical};
use std::{collections::BTreeMap, sync::Arc};

impl Deployment {
    /// Checks that members with the same oplog have the same data: collections, options, documents
    /// in natural order, and indexes, whose keys are compared with the documents. Members whose
    /// last entry no majority has are left out.
    ///
    /// # Errors
    ///
    /// Returns the first difference, or the failure of a member, as text for reports. A difference
    /// is a defect of the simulated server.
    pub fn check_members(&self) -> Result<(), String> {
        let mut level = BTreeMap::new();
        for (index, member) in self.members.iter().enumerate() {
            if member.has_failed() {
                return Err(format!("member {index} has failed"));
            }
            let (commit, last) = member.progress();
            if !member.holds_data() || commit != last {
                continue;
            }
            check_indexes(member.store()).map_err(|what| format!("member {index}: {what}"))?;
            let place = (member.shard(), last);
            let (first, store) = *level
                .entry(place)
                .or_insert_with(|| (index, member.store()));
            compare(store, member.store())
                .map_err(|what| format!("members {first} and {index}: {what}"))?;
        }
        Ok(())
    }
}

fn check_indexes(store: &Store) -> Result<(), String> {
    store.collections().try_for_each(|(name, collection)| {
        let result = collection.check_indexes();
        result.map_err(|what| format!("{name}: {what}"))
    })
}

fn compare(one: &Store, other: &Store) -> Result<(), String> {
    let mut others: BTreeMap<Namespace, &Collection> = other.collections().collect();
    for (name, collection) in one.collections() {
        let Some(other) = others.remove(&name) else {
            return Err(format!("only the first one has {name}"));
        };
        compare_collections(collection, other).map_err(|what| format!("{name}: {what}"))?;
    }
    match others.keys().next() {
        Some(name) => Err(format!("only the second one has {name}")),
        None => Ok(()),
    }
}

fn compare_collections(one: &Collection, other: &Collection) -> Result<(), String> {
    if one.serial != other.serial {
        return Err("the UUIDs differ".to_owned());
    }
    if !identical(&one.options, &other.options) {
        return Err("the options differ".to_owned());
    }
    let indexes = |collection: &Collection| {
        let indexes = collection.indexes.iter();
        indexes.map(|index| index.specification.clone()).collect()
    };
    let (own, theirs): (Vec<_>, Vec<_>) = (indexes(one), indexes(other));
    let same = |(one, other): (&Arc<_>, &Arc<_>)| identical(one, other);
    if own.len() != theirs.len() || !own.iter().zip(&theirs).all(same) {
        return Err("the indexes differ".to_owned());
    }
    if one.records.len() != other.records.len() {
        let (own, theirs) = (one.records.len(), other.records.len());
        return Err(format!("one has {own} documents, the other one {theirs}"));
    }
    for ((record, document), (number, found)) in one.records.iter().zip(&other.records) {
        let same = Arc::ptr_eq(document, found) || identical(document, found);
        if record != number || !same {
            return Err(format!(
                "record {record} is {document}, record {number} is {found}"
            ));
        }
    }
    Ok(())
}
