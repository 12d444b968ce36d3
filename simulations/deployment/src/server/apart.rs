//! Large messages, which jobs decode and encode so that other clients are served meanwhile. The
//! connection of such a message waits for its job.

use super::{
    Member, Output, commands, compression,
    connection::Request,
    decode::{self, Frame},
    fault::{Fault, interrupted},
    job::Job,
    reply::{Envelope, Reply},
};
use crate::deployment::ConnId;
use onionskin_core::{options::Compressor, time::Instant, unstable::wire::Header};
use std::ops::Range;

/// The size from which on a message is decoded or encoded by a job, in bytes. A smaller one takes a
/// few milliseconds at most.
pub(super) const LARGE: usize = 256 * 1024;

/// The message of a connection that a job decodes or encodes.
#[derive(Debug)]
pub(super) struct Apart {
    /// The number of the job.
    number: u64,
    is_request: bool,
    /// True if an error follows; see [`end`](Self::end).
    is_ended: bool,
    /// `None` once the job has it.
    task: Option<Box<Task>>,
}

impl Apart {
    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    pub(super) const fn is_request(&self) -> bool {
        self.is_request
    }

    /// Lets an error follow: as the answer to a write that is being decoded, or after the reply of
    /// a stream that is being encoded.
    pub(super) const fn end(&mut self) {
        self.is_ended = true;
    }
}

/// The work of a job on a message.
#[derive(Debug)]
pub(super) enum Task {
    Decode(Encoded),
    Encode(Outgoing),
}

/// A received message, with what its decoding needs.
#[derive(Debug)]
pub(super) struct Encoded {
    pub(super) header: Header,
    pub(super) negotiated: Vec<Compressor>,
    /// The largest size of a message in bytes.
    pub(super) limit: usize,
    pub(super) release: [u16; 3],
    pub(super) buffer: Vec<u8>,
    /// The place of the message in the buffer.
    pub(super) range: Range<usize>,
}

/// A reply, with what its encoding needs.
#[derive(Debug)]
pub(super) struct Outgoing {
    content: Content,
    compressor: Option<u8>,
    /// The size of the smallest reply that is compressed, in bytes.
    threshold: usize,
}

#[derive(Debug)]
pub(super) enum Content {
    Reply(Box<(Envelope, Reply)>),
    /// A message that is not compressed yet.
    Message(Vec<u8>),
}

/// The result of a task.
#[derive(Debug)]
pub(super) enum TaskDone {
    /// The content of a message; `None` if it violates the protocol.
    Decoded(Option<Box<Frame>>),
    /// A message, and the number of its compressor if it is compressed.
    Encoded(Vec<u8>, Option<u8>),
}

impl Task {
    pub(super) fn run(self) -> TaskDone {
        match self {
            Self::Decode(message) => TaskDone::Decoded(message.decode().map(Box::new)),
            Self::Encode(reply) => reply.encode(),
        }
    }
}

impl Encoded {
    /// Decodes the message, and checks the form of its command.
    fn decode(self) -> Option<Frame> {
        let frame = &self.buffer[self.range];
        let mut frame = decode::read(self.header, frame, &self.negotiated, self.limit)?;
        if let Frame::Request(request) = &mut frame {
            request.checked = Some(commands::check(request, self.release));
        }
        Some(frame)
    }
}

impl Outgoing {
    fn encode(self) -> TaskDone {
        let mut bytes = match self.content {
            Content::Reply(reply) => {
                let (envelope, reply) = *reply;
                let mut bytes = Vec::new();
                envelope.write(&mut bytes, &reply);
                bytes
            }
            Content::Message(bytes) => bytes,
        };
        let compressor = self.compressor.filter(|_| bytes.len() >= self.threshold);
        if let Some(id) = compressor {
            compression::pack(&mut bytes, 0, id);
        }
        TaskDone::Encoded(bytes, compressor)
    }
}

impl Member {
    /// Lets a job decode a message.
    pub(super) fn decode_apart(&mut self, conn: ConnId, message: Encoded) {
        if let Some(connection) = self.connections.get_mut(&conn) {
            connection.undecoded = message.range.len();
            self.buffered += connection.undecoded;
            self.set_apart(conn, true, Task::Decode(message));
            self.limit_buffered();
        }
    }

    /// Lets a job encode a reply. The request had the compressor with the number `requested`, if
    /// any.
    pub(super) fn encode_apart(&mut self, conn: ConnId, content: Content, requested: Option<u8>) {
        let reply = Outgoing {
            content,
            compressor: self.reply_compressor(conn, requested),
            threshold: self.options.compression.threshold,
        };
        self.set_apart(conn, false, Task::Encode(reply));
    }

    fn set_apart(&mut self, conn: ConnId, is_request: bool, task: Task) {
        let number = self.jobs.next_number();
        if let Some(connection) = self.connections.get_mut(&conn) {
            connection.apart = Some(Apart {
                number,
                is_request,
                is_ended: false,
                task: Some(Box::new(task)),
            });
            self.outputs.push_back(Output::Task(conn));
        }
    }

    /// Checks the form of a command, unless the job that decoded it has checked it. The statements
    /// of a command that has paused were checked and taken before.
    pub(super) fn check_form(&self, request: &mut Request) -> Result<(), Fault> {
        if request.progress.is_none() {
            match request.checked.take() {
                Some(checked) => checked?,
                None => commands::check(request, self.program.version.release)?,
            }
            request.checked = Some(Ok(()));
        }
        Ok(())
    }

    /// Drops a request that was answered, whose documents a job frees if they are large.
    pub(super) fn discard(&mut self, request: Request) {
        let bytes = match &request.progress {
            Some(_) => request.bytes.max(LARGE),
            None => request.bytes,
        };
        self.garbage.add(bytes, request);
    }

    /// Returns the job for the message of a connection, if it still waits for one.
    pub(crate) fn task_of(&mut self, conn: ConnId) -> Option<Job> {
        let apart = self.connections.get_mut(&conn)?.apart.as_mut()?;
        Some(Job::of_task(conn, apart.number, apart.task.take()?))
    }

    /// Goes on with the message of a job, if its connection still waits for it. If the job ended in
    /// a panic, closes the connection.
    pub(super) fn handle_task_done(
        &mut self,
        now: Instant,
        conn: ConnId,
        number: u64,
        done: Option<TaskDone>,
    ) {
        let Some(connection) = self.connections.get_mut(&conn) else {
            return;
        };
        let Some(apart) = connection.apart.take_if(|apart| apart.number == number) else {
            return;
        };
        self.buffered -= std::mem::take(&mut connection.undecoded);
        if connection.closing {
            return;
        }
        match done {
            None => self.close(conn),
            Some(TaskDone::Decoded(frame)) => match frame.map(|frame| *frame) {
                Some(Frame::Request(request)) if apart.is_ended && self.is_write(&request) => {
                    self.respond(conn, &request, Err(interrupted()));
                    self.discard(request);
                }
                frame => self.on_decoded(now, conn, frame),
            },
            Some(TaskDone::Encoded(bytes, compressor)) => {
                match connection.out.is_empty() {
                    true => connection.out = bytes,
                    false => connection.out.extend(bytes),
                }
                if !std::mem::replace(&mut connection.announced, true) {
                    self.outputs.push_back(Output::Transmit(conn));
                }
                // The next reply of a stream waits for a turn.
                if connection.is_resting {
                    self.outputs.push_back(Output::Turn(conn));
                }
                self.count_reply(compressor);
                if apart.is_ended {
                    self.end_waiting(now, conn, interrupted());
                }
            }
        }
        self.advance(now, conn);
    }
}
