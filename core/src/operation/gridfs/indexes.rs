//! The indexes of a bucket, which are created before its first write (GridFS Specification, *Before
//! write operations*).

use super::Bucket;
use crate::{
    bson::integer,
    error::Error,
    operation::{
        Abandoned, Command, Cursor, Exchange, Program as _, Step,
        crud::{
            self, CreateIndexOptions, FindOneOptions, IndexModel, IndexOptions, ListIndexesOptions,
            SharedNamespace, first_document, is_missing_namespace,
        },
    },
    options::ReadPreference,
};
use bson::{RawDocument, doc};

/// The check of the indexes, as a part of an upload. If the files collection is empty, the indexes
/// that do not exist are created, first that of the files and then that of the chunks.
#[derive(Debug)]
pub(super) struct IndexSetup {
    stage: Stage,
    /// The cursor of the listed indexes.
    cursor: Option<Cursor>,
    /// True once the wanted index was found.
    is_found: bool,
}

/// The command that runs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    /// The read that says whether the files collection is empty.
    Reading,
    Listing(Part),
    Creating(Part),
}

/// One of the two collections.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    Files,
    Chunks,
}

impl Part {
    const fn namespace(self, bucket: &Bucket) -> &SharedNamespace {
        match self {
            Self::Files => &bucket.files,
            Self::Chunks => &bucket.chunks,
        }
    }

    /// Returns the keys of the index, which are all ascending.
    const fn keys(self) -> [&'static str; 2] {
        match self {
            Self::Files => ["filename", "uploadDate"],
            Self::Chunks => ["files_id", "n"],
        }
    }

    fn index(self) -> IndexModel {
        let keys = self
            .keys()
            .into_iter()
            .map(|key| (key.to_owned(), 1.into()));
        let options = match self {
            Self::Files => None,
            Self::Chunks => Some(IndexOptions::builder().unique(true).build()),
        };
        IndexModel::builder()
            .keys(keys.collect::<bson::Document>())
            .options(options)
            .build()
    }
}

impl IndexSetup {
    /// Begins the check. Returns its first command, a read from the primary.
    pub(super) fn begin(bucket: &Bucket) -> Result<(Self, Command), Error> {
        let options = FindOneOptions {
            projection: Some(doc! { "_id": 1 }),
            selection_criteria: Some(ReadPreference::Primary.into()),
            ..FindOneOptions::default()
        };
        let command = crud::find_one(&bucket.files, &doc! {}, &options, &bucket.defaults)?;
        let setup = Self {
            stage: Stage::Reading,
            cursor: None,
            is_found: false,
        };
        Ok((setup, command))
    }

    /// Reads a reply. Returns the next command; `None` at the end of the check.
    pub(super) fn handle_reply(
        &mut self,
        bucket: &Bucket,
        exchange: &mut Exchange,
    ) -> Result<Option<Command>, Error> {
        match self.stage {
            Stage::Reading => {
                let reply = exchange.reply().map(first_document).transpose()?;
                match reply.flatten() {
                    None => self.list(bucket, Part::Files).map(Some),
                    Some(_) => Ok(None),
                }
            }
            Stage::Listing(part) => self.read_list(bucket, part, exchange),
            Stage::Creating(part) => self.after(bucket, part),
        }
    }

    /// Handles the failure of a command. Collections that do not exist have no indexes.
    pub(super) fn handle_error(
        &mut self,
        bucket: &Bucket,
        error: Error,
    ) -> Result<Option<Command>, Error> {
        if let Some(cursor) = &mut self.cursor {
            cursor.handle_failure(&error);
            return Err(error);
        }
        match self.stage {
            Stage::Listing(part) if is_missing_namespace(&error) => {
                self.create(bucket, part).map(Some)
            }
            _ => Err(error),
        }
    }

    /// Gives the cursor of the listed indexes up.
    pub(super) fn abandon(&mut self) -> Abandoned {
        let cursor = self.cursor.as_mut();
        cursor.map_or(Abandoned::Nothing, Cursor::abandon)
    }

    fn list(&mut self, bucket: &Bucket, part: Part) -> Result<Command, Error> {
        self.stage = Stage::Listing(part);
        self.is_found = false;
        let options = ListIndexesOptions::default();
        crud::list_indexes(part.namespace(bucket), &options, &bucket.defaults)
    }

    fn create(&mut self, bucket: &Bucket, part: Part) -> Result<Command, Error> {
        self.stage = Stage::Creating(part);
        let (namespace, options) = (part.namespace(bucket), CreateIndexOptions::default());
        crud::create_indexes(namespace, &[part.index()], &options, &bucket.defaults)
    }

    /// Returns the command that follows the check of a collection.
    fn after(&mut self, bucket: &Bucket, part: Part) -> Result<Option<Command>, Error> {
        match part {
            Part::Files => self.list(bucket, Part::Chunks).map(Some),
            Part::Chunks => Ok(None),
        }
    }

    fn read_list(
        &mut self,
        bucket: &Bucket,
        part: Part,
        exchange: &mut Exchange,
    ) -> Result<Option<Command>, Error> {
        let cursor = match &mut self.cursor {
            Some(cursor) => {
                if let Step::Done(Err(error)) = cursor.handle_reply(exchange) {
                    return Err(error);
                }
                cursor
            }
            None => {
                let database = bucket.files.shared_database().clone();
                self.cursor
                    .insert(Cursor::from_exchange(exchange, database)?)
            }
        };
        while let Some(next) = cursor.advance() {
            next?;
            let keys = cursor
                .current()
                .and_then(|index| index.get_document("key").ok());
            self.is_found |= keys.is_some_and(|keys| are_same(keys, part.keys()));
        }
        // The list is read to its end, so that its cursor need not be closed.
        match cursor.start() {
            Step::Run(command) => return Ok(Some(command)),
            _ => self.cursor = None,
        }
        match self.is_found {
            true => self.after(bucket, part),
            false => self.create(bucket, part).map(Some),
        }
    }
}

/// True if an index has these keys, all ascending. Their numbers can have any type.
fn are_same(keys: &RawDocument, wanted: [&str; 2]) -> bool {
    let mut keys = keys.iter();
    let has_wanted = wanted.into_iter().all(|name| match keys.next() {
        Some(Ok((key, value))) => key.as_str() == name && integer(value) == Some(1),
        _ => false,
    });
    has_wanted && keys.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn indexes_are_compared_by_the_values_of_their_keys() {
        let wanted = Part::Chunks.keys();
        assert!(are_same(&rawdoc! { "files_id": 1, "n": 1.0 }, wanted));
        assert!(are_same(&rawdoc! { "files_id": 1_i64, "n": 1 }, wanted));
        for other in [
            rawdoc! { "n": 1, "files_id": 1 },
            rawdoc! { "files_id": 1, "n": -1 },
            rawdoc! { "files_id": 1 },
            rawdoc! { "files_id": 1, "n": 1, "x": 1 },
            rawdoc! { "files_id": "hashed", "n": 1 },
            rawdoc! {},
        ] {
            assert!(!are_same(&other, wanted), "{other:?}");
        }
    }
}
