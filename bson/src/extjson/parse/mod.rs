//! The parser of Extended JSON. It reads the text once, and writes BSON.
//!
//! An object is written as a document first. If it has the name of a type representation, the
//! document is replaced at its end by the value of that type, because the names can come in any
//! order (EJSON-7). A scope is moved once for each level of nesting, of which there are at most
//! [`MAX_DEPTH`]; all other representations are small or moved once.

mod lex;
mod wrapper;

use crate::{
    MAX_DEPTH,
    error::{Error, ErrorKind, Result},
    read::{kind, zero},
};
use lex::{Cursor, Number};
use wrapper::{Special, Wrapper};

/// The maximum number of nested JSON objects and arrays. A code with scope has two objects for one
/// level of BSON, and the innermost value can be a DBPointer, which has three for none.
const MAX_JSON_DEPTH: usize = 2 * MAX_DEPTH + 2;

/// Parses a document (EJSON-7). Its outermost object is always a document.
pub(super) fn document(text: &[u8], legacy: bool) -> Result<Vec<u8>> {
    let mut parser = Parser::new(text, legacy)?;
    parser.document().map_err(|error| parser.locate(error))?;
    Ok(parser.out)
}

/// Parses a value. Returns a document with the value in a field whose name is empty.
pub(super) fn framed_value(text: &[u8], legacy: bool) -> Result<Vec<u8>> {
    let mut parser = Parser::new(text, legacy)?;
    parser.frame().map_err(|error| parser.locate(error))?;
    Ok(parser.out)
}

/// The form of a [`Frame`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// An object that is always a document.
    Document,
    /// An object that can represent another type.
    Object,
    Array,
    /// A document around a single value, which is not a part of the text.
    Single,
}

/// An object or array that is being read.
#[derive(Debug)]
struct Frame {
    form: Form,
    /// The offset of its opening bracket in the text.
    offset: usize,
    /// The place of its length in the output.
    start: usize,
    /// The place of the type of the current element in the output. `None` between elements.
    element: Option<usize>,
    /// The number of elements that were begun.
    count: usize,
    /// The number of levels of the deepest document or array in it.
    height: usize,
    /// The type representation whose name the object has.
    special: Option<Special>,
    /// True if a value was an object that represents another type.
    has_wrapper: bool,
    /// True if a value is a document or array for which `has_wrapper` was true.
    has_inner_wrapper: bool,
}

struct Parser<'a> {
    cursor: Cursor<'a>,
    legacy: bool,
    out: Vec<u8>,
    frames: Vec<Frame>,
    /// The value of a type representation, before it replaces its document.
    scratch: Vec<u8>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a [u8], legacy: bool) -> Result<Self> {
        if simdutf8::basic::from_utf8(text).is_err() {
            let valid = text.utf8_chunks().next();
            let offset = valid.map_or(0, |chunk| chunk.valid().len());
            return Err(Error::extended_json("the text is not UTF-8").at_offset(offset));
        }
        Ok(Self {
            cursor: Cursor::new(text),
            legacy,
            out: Vec::with_capacity(text.len().min(1 << 16)),
            frames: Vec::new(),
            scratch: Vec::new(),
        })
    }

    fn document(&mut self) -> Result<()> {
        if self.cursor.peek() != Some(b'{') {
            return Err(self.cursor.expected("an object"));
        }
        self.open(Form::Document)?;
        self.elements(0)
    }

    fn frame(&mut self) -> Result<()> {
        self.frames.push(Frame::new(Form::Single, 0, 0));
        self.out.extend_from_slice(&[0; 4]);
        self.header(b"")?;
        self.value()?;
        self.elements(1)?;
        self.out.push(0);
        self.set_length(0)
    }

    /// Reads elements until only `remaining` frames are open, and then the end of the text.
    fn elements(&mut self, remaining: usize) -> Result<()> {
        while self.frames.len() > remaining {
            if self.next_element()? {
                self.value()?;
            } else {
                self.close()?;
            }
        }
        match self.cursor.peek() {
            None => Ok(()),
            Some(_) => Err(self.cursor.expected("the end of the text")),
        }
    }

    /// Reads up to the next value, and writes the type and the name of its element. Returns false
    /// at the closing bracket, which it consumes.
    fn next_element(&mut self) -> Result<bool> {
        let Some(frame) = self.frames.last_mut() else {
            return Ok(false);
        };
        frame.element = None;
        let is_array = frame.form == Form::Array;
        let closing = if is_array { b']' } else { b'}' };
        let mut next = self.cursor.peek();
        if next == Some(closing) {
            self.cursor.skip();
            return Ok(false);
        }
        if frame.count > 0 {
            if next != Some(b',') {
                let what = if is_array { "`,` or `]`" } else { "`,` or `}`" };
                return Err(self.cursor.expected(what));
            }
            self.cursor.skip();
            next = self.cursor.peek();
        }
        if is_array {
            let index = frame.count;
            self.header(Index::new(index).digits())?;
        } else if next == Some(b'"') {
            self.key()?;
        } else {
            return Err(self.cursor.expected("the name of a field"));
        }
        Ok(true)
    }

    /// Reads the name of a field and the colon, and writes the start of the element.
    fn key(&mut self) -> Result<()> {
        let place = self.out.len();
        // The type is written with the value.
        self.out.push(0);
        // BSON-5.
        if let Some(offset) = self.cursor.string(&mut self.out)? {
            let message = "the name of a field contains a null character";
            return Err(Error::extended_json(message).at_offset(offset));
        }
        if let Some(frame) = self.frames.last_mut() {
            let special = Special::of_key(&self.out[place + 1..], self.legacy);
            frame.begin(place, special);
        }
        self.out.push(0);
        if self.cursor.peek() != Some(b':') {
            return Err(self.cursor.expected("`:`"));
        }
        self.cursor.skip();
        Ok(())
    }

    /// Writes the start of an element with a name of this parser.
    fn header(&mut self, name: &[u8]) -> Result<()> {
        let place = self.out.len();
        self.out.push(0);
        self.out.extend_from_slice(name);
        self.out.push(0);
        if let Some(frame) = self.frames.last_mut() {
            frame.begin(place, None);
        }
        Ok(())
    }

    /// Reads a value, or the opening bracket of an object or array.
    fn value(&mut self) -> Result<()> {
        match self.cursor.peek() {
            Some(b'"') => self.string(),
            Some(b'{') => self.open(Form::Object),
            Some(b'[') => self.open(Form::Array),
            Some(b'-' | b'0'..=b'9') => {
                match self.cursor.number()? {
                    Number::Int32(number) => self.scalar(kind::INT32, &number.to_le_bytes()),
                    Number::Int64(number) => self.scalar(kind::INT64, &number.to_le_bytes()),
                    Number::Double(number) => self.scalar(kind::DOUBLE, &number.to_le_bytes()),
                }
                Ok(())
            }
            Some(b't') => self.named("true", kind::BOOLEAN, &[1]),
            Some(b'f') => self.named("false", kind::BOOLEAN, &[0]),
            Some(b'n') => self.named("null", kind::NULL, &[]),
            _ => Err(self.cursor.expected("a value")),
        }
    }

    fn named(&mut self, name: &str, kind: u8, bytes: &[u8]) -> Result<()> {
        self.cursor.literal(name)?;
        self.scalar(kind, bytes);
        Ok(())
    }

    fn scalar(&mut self, kind: u8, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
        self.set_kind(kind);
    }

    fn string(&mut self) -> Result<()> {
        let start = self.out.len();
        self.out.extend_from_slice(&[0; 4]);
        self.cursor.string(&mut self.out)?;
        self.out.push(0);
        let length = length(self.out.len() - start - 4)?;
        self.out[start..start + 4].copy_from_slice(&length);
        self.set_kind(kind::STRING);
        Ok(())
    }

    /// Writes the type of the current element.
    fn set_kind(&mut self, kind: u8) {
        let place = self.frames.last().and_then(|frame| frame.element);
        if let Some(byte) = place.and_then(|place| self.out.get_mut(place)) {
            *byte = kind;
        }
    }

    fn open(&mut self, form: Form) -> Result<()> {
        if self.frames.len() > MAX_JSON_DEPTH {
            return Err(Error::new(ErrorKind::Depth).at_offset(self.cursor.offset()));
        }
        let frame = Frame::new(form, self.cursor.offset(), self.out.len());
        self.frames.push(frame);
        self.cursor.skip();
        self.out.extend_from_slice(&[0; 4]);
        Ok(())
    }

    /// Ends an object or array.
    fn close(&mut self) -> Result<()> {
        let Some(frame) = self.frames.pop() else {
            return Ok(());
        };
        self.out.push(0);
        let offset = frame.offset;
        self.set_length(frame.start)
            .map_err(|error| error.at_offset(offset))?;
        let converted = self
            .convert(&frame)
            .map_err(|error| error.at_offset(offset))?;
        let (kind, height) = match converted {
            Some(kind::CODE_WITH_SCOPE) => (kind::CODE_WITH_SCOPE, frame.height),
            // The objects of other representations are no levels.
            Some(kind) => (kind, 0),
            None if frame.form == Form::Array => (kind::ARRAY, frame.height + 1),
            None => (kind::DOCUMENT, frame.height + 1),
        };
        if height > MAX_DEPTH {
            return Err(Error::new(ErrorKind::Depth).at_offset(offset));
        }
        if let Some(parent) = self.frames.last_mut() {
            parent.height = parent.height.max(height);
            parent.has_wrapper |= converted.is_some();
            parent.has_inner_wrapper |= converted.is_none() && frame.has_wrapper;
        }
        self.set_kind(kind);
        Ok(())
    }

    /// Replaces the document of an object by the value that the object represents. Returns the type
    /// of that value; `None` if the object is a document.
    fn convert(&mut self, frame: &Frame) -> Result<Option<u8>> {
        let (Form::Object, Some(special)) = (frame.form, frame.special) else {
            return Ok(None);
        };
        let wrapper = Wrapper {
            document: self.out.get(frame.start..).unwrap_or_default(),
            count: frame.count,
            has_wrapper: frame.has_wrapper,
            has_inner_wrapper: frame.has_inner_wrapper,
            legacy: self.legacy,
        };
        self.scratch.clear();
        let kind = wrapper.convert(special, &mut self.scratch)?;
        if kind.is_some() {
            self.out.truncate(frame.start);
            self.out.extend_from_slice(&self.scratch);
        }
        Ok(kind)
    }

    /// Writes the length of the document or array from `start` to the end of the output.
    fn set_length(&mut self, start: usize) -> Result<()> {
        let length = length(self.out.len() - start)?;
        self.out[start..start + 4].copy_from_slice(&length);
        Ok(())
    }

    /// Adds the path to an error.
    #[cold]
    fn locate(&self, mut error: Error) -> Error {
        for frame in self.frames.iter().rev() {
            let Some(place) = frame.element else {
                continue;
            };
            if frame.form == Form::Single {
                continue;
            }
            let name = self.out.get(place + 1..).unwrap_or_default();
            let end = zero(name).unwrap_or(name.len());
            error = error.within(&name[..end]);
        }
        error
    }
}

/// Returns a length as BSON stores it.
fn length(bytes: usize) -> Result<[u8; 4]> {
    let limit = i32::MAX as usize;
    let length = i32::try_from(bytes).map_err(|_| Error::new(ErrorKind::Size { limit }))?;
    Ok(length.to_le_bytes())
}

impl Frame {
    const fn new(form: Form, offset: usize, start: usize) -> Self {
        Self {
            form,
            offset,
            start,
            element: None,
            count: 0,
            height: 0,
            special: None,
            has_wrapper: false,
            has_inner_wrapper: false,
        }
    }

    /// Begins an element, whose type is at `place` in the output.
    fn begin(&mut self, place: usize, special: Option<Special>) {
        self.element = Some(place);
        self.count += 1;
        // The other names with a `$` are no part of a representation with `$regex`.
        if special.is_some() && matches!(self.special, None | Some(Special::Regex)) {
            self.special = special;
        }
    }
}

/// The digits of an index, which is the name of an array's element.
struct Index {
    bytes: [u8; 20],
    start: usize,
}

impl Index {
    fn new(mut index: usize) -> Self {
        let (mut bytes, mut start) = ([b'0'; 20], 20);
        loop {
            start -= 1;
            // The remainder of a division by ten is a digit.
            bytes[start] = b'0' + (index % 10) as u8;
            index /= 10;
            if index == 0 {
                return Self { bytes, start };
            }
        }
    }

    fn digits(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}
