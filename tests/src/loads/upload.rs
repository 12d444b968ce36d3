//! A program that takes input piece by piece, like the upload of a file.

use bson::{Binary, rawdoc, spec::BinarySubtype};
use onionskin_core::operation::{Command, CommandKind, Exchange, Program, Step};

/// The size of a chunk in bytes: 255 KiB, as in GridFS.
pub const CHUNK: usize = 255 * 1024;

/// A program that stores the pieces that it gets in documents of [`CHUNK`] bytes. Its result is the
/// number of documents.
#[derive(Debug, Default)]
pub struct Upload {
    /// The bytes that were not sent.
    buffer: Vec<u8>,
    chunks: i32,
    is_closed: bool,
}

impl Upload {
    /// Adds a piece. The program takes the next one when it waits for it.
    pub fn push(&mut self, piece: &[u8]) {
        self.buffer.extend_from_slice(piece);
    }

    /// Ends the input.
    pub fn close(&mut self) {
        self.is_closed = true;
    }
}

impl Program for Upload {
    type Output = i32;

    fn start(&mut self) -> Step<i32> {
        self.handle_input()
    }

    fn handle_input(&mut self) -> Step<i32> {
        let size = match self.buffer.len() {
            0 if self.is_closed => return Step::Done(Ok(self.chunks)),
            size if size < CHUNK && !self.is_closed => return Step::Wait,
            size => size.min(CHUNK),
        };
        let bytes = self.buffer.drain(..size).collect();
        let subtype = BinarySubtype::Generic;
        let chunk = rawdoc! { "n": self.chunks, "data": Binary { subtype, bytes } };
        self.chunks += 1;
        let mut insert = Command::new("insert", "app", CommandKind::RetryableWrite);
        insert.body().str("insert", "chunks");
        insert.set_sequence("documents", chunk.into_bytes());
        Step::Run(insert)
    }

    fn handle_reply(&mut self, _: &mut Exchange) -> Step<i32> {
        self.handle_input()
    }
}
