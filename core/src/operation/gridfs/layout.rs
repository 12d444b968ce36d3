//! The rules for the chunks of a file.

use super::FilesCollectionDocument;
use crate::{
    bson::integer,
    error::{Error, GridFsErrorKind},
};
use bson::{RawBsonRef, RawDocument};
use std::ops::Range;

/// The chunks that a file must have.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Layout {
    length: u64,
    chunk_bytes: u64,
}

impl Layout {
    /// Returns the layout of a file. Fails if it has bytes, but chunks of size zero.
    pub(super) fn new(file: &FilesCollectionDocument) -> Result<Self, Error> {
        if file.length > 0 && file.chunk_size_bytes == 0 {
            let message = format!("length is {}, but chunkSize is 0", file.length);
            return Err(Error::gridfs(GridFsErrorKind::InvalidFile { message }));
        }
        Ok(Self {
            length: file.length,
            chunk_bytes: file.chunk_size_bytes.into(),
        })
    }

    /// Returns the number of chunks.
    pub(super) fn chunks(self) -> u64 {
        match self.chunk_bytes {
            0 => 0,
            size => self.length.div_ceil(size),
        }
    }

    /// Returns the size of the chunk `n`, which is one of the file.
    fn size_of(self, n: u64) -> u64 {
        let before = n.saturating_mul(self.chunk_bytes);
        self.length.saturating_sub(before).min(self.chunk_bytes)
    }

    /// Checks that a chunk document is that of the chunk `next`: its index and the size of its
    /// data. Returns the place of the data in the document, so that no read looks for it again.
    pub(super) fn check(self, next: u64, document: &RawDocument) -> Result<Range<usize>, Error> {
        self.find_mistake(next, document).map_err(Error::gridfs)
    }

    fn find_mistake(
        self,
        next: u64,
        document: &RawDocument,
    ) -> Result<Range<usize>, GridFsErrorKind> {
        let invalid = |message: &str| GridFsErrorKind::InvalidChunk {
            n: next,
            message: message.to_owned(),
        };
        let n = document.get("n").ok().flatten().and_then(integer);
        let n = n.ok_or_else(|| invalid("its field n is no whole number"))?;
        match u64::try_from(n) {
            Ok(n) if n == next && n < self.chunks() => {}
            Ok(n) if n > next && next < self.chunks() => {
                return Err(GridFsErrorKind::MissingChunk { n: next });
            }
            _ => return Err(GridFsErrorKind::ExtraChunk { n }),
        }
        let data = data_of(document).ok_or_else(|| invalid("its field data is not binary"))?;
        let expected_size = self.size_of(next);
        if data.len() as u64 != expected_size {
            return Err(GridFsErrorKind::WrongSizeChunk {
                actual_size: data.len(),
                expected_size,
                n: next,
            });
        }
        let start = data.as_ptr().addr() - document.as_bytes().as_ptr().addr();
        Ok(start..start + data.len())
    }

    /// Checks the end of the chunks, of which `count` were read.
    pub(super) fn check_end(self, count: u64) -> Result<(), Error> {
        match count < self.chunks() {
            true => Err(Error::gridfs(GridFsErrorKind::MissingChunk { n: count })),
            false => Ok(()),
        }
    }
}

/// Returns the data of a chunk document.
fn data_of(document: &RawDocument) -> Option<&[u8]> {
    match document.get("data") {
        Ok(Some(RawBsonRef::Binary(binary))) => Some(binary.bytes),
        _ => None,
    }
}
