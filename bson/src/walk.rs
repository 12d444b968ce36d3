//! A walk over nested documents and arrays without recursion.

use crate::{
    MAX_DEPTH,
    error::{Error, ErrorKind, Result},
    read::{Element, Elements},
};

/// The container of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Container {
    Document,
    Array,
    /// The scope of a code with scope.
    Scope,
    /// A document around a single value, which is not a part of the data.
    Frame,
}

/// A document or array that is being read.
#[derive(Debug)]
pub(crate) struct Level<'de> {
    elements: Elements<'de>,
    /// The name of the field that holds the document or array; empty for the outermost.
    key: &'de [u8],
    /// The number of elements that were read.
    pub(crate) count: usize,
    pub(crate) container: Container,
}

/// The documents and arrays around the current element, at most [`MAX_DEPTH`].
#[derive(Debug)]
pub(crate) struct Levels<'de> {
    /// The bytes of the outermost document, or of the single value.
    bytes: &'de [u8],
    stack: Vec<Level<'de>>,
    /// The number of levels at the start of the stack whose names are not a part of the path.
    unnamed: usize,
}

impl<'de> Levels<'de> {
    /// Enters a whole document. Fails unless `bytes` are exactly one document.
    pub(crate) fn of_document(bytes: &'de [u8]) -> Result<Self> {
        let elements = Elements::of_document(bytes).map_err(|error| error.in_bytes(bytes))?;
        Ok(Self::new(bytes, elements, Container::Document))
    }

    /// Enters a document with one element, whose name is empty and whose value is the data.
    pub(crate) fn of_frame(bytes: &'de [u8]) -> Result<Self> {
        let elements = Elements::of_document(bytes)?;
        // The length, the type and the terminator of the name come before the value.
        let value = bytes.get(6..bytes.len() - 1).unwrap_or_default();
        Ok(Self::new(value, elements, Container::Frame))
    }

    fn new(bytes: &'de [u8], elements: Elements<'de>, container: Container) -> Self {
        let outermost = Level {
            elements,
            key: &[],
            count: 0,
            container,
        };
        Self {
            bytes,
            stack: vec![outermost],
            unnamed: 1 + usize::from(container == Container::Frame),
        }
    }

    /// Enters the document or array `bytes` of the field `key`. Its length and its terminator must
    /// be right. Fails if it is nested too deeply.
    pub(crate) fn enter(
        &mut self,
        key: &'de [u8],
        bytes: &'de [u8],
        container: Container,
    ) -> Result<()> {
        if self.stack.len() > MAX_DEPTH - 2 + self.unnamed {
            return Err(Error::new(ErrorKind::Depth).at(bytes).within(key));
        }
        self.stack.push(Level {
            elements: Elements::of_checked(bytes),
            key,
            count: 0,
            container,
        });
        Ok(())
    }

    /// Returns the innermost document or array; `None` after the outermost was left.
    pub(crate) fn innermost(&mut self) -> Option<&mut Level<'de>> {
        self.stack.last_mut()
    }

    /// Leaves the innermost document or array.
    pub(crate) fn leave(&mut self) {
        self.stack.pop();
    }

    /// Adds the path and the offset to an error about an element of the innermost document or
    /// array. The error has the name of the element.
    #[cold]
    pub(crate) fn locate(&self, mut error: Error) -> Error {
        for level in self.stack.iter().skip(self.unnamed).rev() {
            error = error.within(level.key);
        }
        error.in_bytes(self.bytes)
    }
}

impl<'de> Level<'de> {
    /// Reads the next element; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Element<'de>>> {
        let element = self.elements.next()?;
        self.count += 1;
        Ok(element)
    }
}
