//! The documents of `$out` and `$merge`, which are written in parts.
//!
//! `$merge` writes to its target. `$out` writes to a collection of its own, which then replaces the
//! target in one step. Nobody else sees that collection before, so a failure changes nothing.

use std::sync::Arc;

use bson::Document;

use super::change::Change;
use super::collection::Collection;
use super::error::StoreError;
use super::index::out_of_space;
use super::names::check_name;
use super::output::{self, Destination};
use super::queue::Queue;
use super::types::{Environment, Namespace, Shared};
use super::{Answer, Store, stages};

/// The documents that `$out` or `$merge` has yet to write.
#[derive(Clone, Debug)]
pub(crate) struct Outputs {
    /// The collection of the pipeline.
    source: Namespace,
    destination: Destination,
    rest: Queue<Shared>,
    /// The new contents of the target of `$out`, alone in a store; `None` for `$merge`.
    contents: Option<Box<Store>>,
    /// True if the target existed at the start.
    has_target: bool,
    is_complete: bool,
}

impl Outputs {
    /// True for `$out`, of which nothing is done before its last part.
    pub(crate) const fn is_out(&self) -> bool {
        self.destination.is_out
    }

    /// True if all documents are written.
    pub(crate) const fn is_complete(&self) -> bool {
        self.is_complete
    }
}

impl Store {
    /// Returns an error if a stage of a pipeline is unknown or at the wrong place, or if its last
    /// stage, which is `$out` or `$merge`, is malformed.
    pub(crate) fn check_output(&self, pipeline: &[Document]) -> Answer<()> {
        stages::check(pipeline, self.release)?;
        let last = pipeline.last();
        last.map_or(Ok(()), |last| output::check(last, self.release))
    }

    /// Prepares the stage `$out` or `$merge` for the documents of its pipeline.
    ///
    /// # Errors
    ///
    /// If the target cannot be written.
    pub(crate) fn outputs(
        &self,
        source: Namespace,
        stage: &Document,
        documents: Vec<Shared>,
    ) -> Answer<Outputs> {
        let destination = self.destination(&source.database, stage)?;
        let contents = match destination.is_out {
            true => Some(Box::new(self.emptied(&destination.target)?)),
            false => None,
        };
        Ok(Outputs {
            source,
            has_target: self.contains(&destination.target),
            destination,
            rest: documents.into(),
            contents,
            is_complete: false,
        })
    }

    /// Returns a store that has a collection with the options and indexes of the given one, without
    /// its documents. The documents of the store may take the room that they would have here.
    fn emptied(&self, target: &Namespace) -> Answer<Self> {
        self.check_writable(target)?;
        check_name(target)?;
        self.check_case(&target.database)?;
        let existing = self.collection(target);
        let bytes = existing.map_or(0, Collection::memory);
        let mut emptied = self.without_data();
        emptied.limit = self.limit.map(|_| self.room().saturating_add(bytes));
        let mut empty = match existing {
            None => Collection::new(Arc::default(), 0),
            Some(existing) => Collection::new(existing.options.clone(), existing.serial),
        };
        for index in existing.into_iter().flat_map(|existing| &existing.indexes) {
            empty.add_index(usize::MAX, index.specification.clone());
        }
        emptied.data.place(target, Arc::new(empty));
        Ok(emptied)
    }

    /// Writes documents of `$out` or `$merge`, as many as a part may have. A `$merge` that fails on
    /// a document keeps the changes of the documents before it, and a failed `$out` changes
    /// nothing.
    pub(crate) fn write_some(
        &mut self,
        outputs: &mut Outputs,
        environment: &mut Environment<'_>,
    ) -> Answer<()> {
        let release = self.release;
        let Destination {
            target, options, ..
        } = &outputs.destination;
        while let Some(document) = outputs.rest.take() {
            let written = match &mut outputs.contents {
                None => self.merge_one(target, options, &document, environment),
                Some(contents) => {
                    let document = Document::clone(&document);
                    let inserted = contents.insert_one(target, document, environment);
                    // Only the filled collection becomes a change of this store.
                    let _ = contents.take_changes();
                    inserted.map(drop)
                }
            };
            written.map_err(|error| output::in_output(error, &outputs.source, release))?;
            environment.parts.count_document();
            if environment.parts.is_over() && !outputs.rest.is_empty() {
                return Ok(());
            }
        }
        if let Some(contents) = outputs.contents.take() {
            self.replace(target, *contents, outputs.has_target)?;
        }
        outputs.is_complete = true;
        Ok(())
    }

    /// Replaces the target of `$out` by the collection of another store. As on a server, this is
    /// the renaming of a temporary collection.
    fn replace(&mut self, target: &Namespace, mut by: Self, has_target: bool) -> Answer<()> {
        let is_same = match has_target {
            true => self.has_catalog_of(&by, target),
            false => !self.contains(target),
        };
        if !is_same {
            let text = format!(
                "collection options or indexes of target collection {target} changed during \
                 processing; run the pipeline again"
            );
            return Err(StoreError::new(125, text));
        }
        let Some(mut contents) = by.data.displace(target) else {
            return Ok(());
        };
        let before = self.collection(target).map_or(0, Collection::memory);
        if contents.memory() > self.room().saturating_add(before) {
            return Err(out_of_space());
        }
        let serial = self.data.serial + 1;
        // No one else has this collection, so that nothing is copied.
        Arc::make_mut(&mut contents).serial = serial;
        let name = format!("tmp.agg_out.{serial}");
        let temporary = Namespace::new(target.database.clone(), name);
        self.atomically(|store| {
            store.commit(Change::CreateCollection {
                namespace: temporary.clone(),
                options: contents.options.clone(),
                serial,
            })?;
            store.commit(Change::FillCollection {
                namespace: temporary.clone(),
                contents,
            })?;
            store.rename_collection(&temporary, target, true)
        })
    }
}
