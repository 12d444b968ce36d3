//! Large messages, which jobs decode, forward, encode and compress so that other clients are served
//! meanwhile. The connection of such a message waits for its job.

use super::{
    Member, Output, commands, compression,
    connection::Request,
    decode::{self, Frame},
    fault::{Fault, interrupted},
    forward::{Forwarded, Forwarding},
    job::Job,
    reply::{Envelope, Reply},
    router::Relayed,
};
use crate::deployment::ConnId;
use onionskin_core::{options::Compressor, time::Instant, unstable::wire::Header};
use std::ops::Range;

/// The size from which on a job works on a message, in bytes. The work on a smaller one takes a few
/// milliseconds at most.
pub(super) const LARGE: usize = 256 * 1024;

/// The message of a connection that a job works on.
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

    /// Lets an error follow: as the answer to a write that is being decoded or forwarded, or after
    /// the reply of a stream that is being encoded.
    pub(super) const fn end(&mut self) {
        self.is_ended = true;
    }
}

/// The work of a job on a message.
#[derive(Debug)]
pub(super) enum Task {
    Decode(Encoded),
    /// Encodes a request for other members.
    Forward(Box<Forwarding>),
    /// Encodes a reply. The request had the compressor with this number, if any.
    Encode(Box<(Envelope, Reply)>, Option<u8>),
    /// Encodes the reply of a shard for the client, whose request had the compressor with this
    /// number, if any.
    Relay(Box<Relayed>, Option<u8>),
    /// Compresses a message by the compressor with this number.
    Pack(Vec<u8>, u8),
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

/// The result of a task.
#[derive(Debug)]
pub(super) enum TaskDone {
    /// The content of a message; `None` if it violates the protocol.
    Decoded(Option<Box<Frame>>),
    Forwarded(Box<Forwarded>),
    /// A message, and the compressor of its request; `None` if the reply of the shard is malformed.
    Encoded(Option<Vec<u8>>, Option<u8>),
    /// A message that was compressed.
    Packed(Vec<u8>),
}

impl Task {
    const fn is_request(&self) -> bool {
        matches!(self, Self::Decode(_) | Self::Forward(_))
    }

    pub(super) fn run(self) -> TaskDone {
        match self {
            Self::Decode(message) => TaskDone::Decoded(message.decode().map(Box::new)),
            Self::Forward(request) => TaskDone::Forwarded(Box::new(request.encode())),
            Self::Encode(reply, requested) => {
                let (envelope, reply) = *reply;
                let mut bytes = Vec::new();
                envelope.write(&mut bytes, &reply);
                TaskDone::Encoded(Some(bytes), requested)
            }
            Self::Relay(reply, requested) => TaskDone::Encoded(reply.encode(), requested),
            Self::Pack(mut bytes, id) => {
                compression::pack(&mut bytes, 0, id);
                TaskDone::Packed(bytes)
            }
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

impl Member {
    /// Lets a job decode a message.
    pub(super) fn decode_apart(&mut self, conn: ConnId, message: Encoded) {
        if let Some(connection) = self.connections.get_mut(&conn) {
            connection.undecoded = message.range.len();
            self.buffered += connection.undecoded;
            self.set_apart(conn, Task::Decode(message));
            self.limit_buffered();
        }
    }

    /// Lets a job work on a message of a connection.
    pub(super) fn set_apart(&mut self, conn: ConnId, task: Task) {
        let number = self.jobs.next_number();
        if let Some(connection) = self.connections.get_mut(&conn) {
            connection.apart = Some(Apart {
                number,
                is_request: task.is_request(),
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
        let is_ended = apart.is_ended;
        match done {
            None => self.close(conn),
            Some(TaskDone::Decoded(frame)) => match frame.map(|frame| *frame) {
                Some(Frame::Request(request)) if is_ended && self.is_write(&request) => {
                    self.refuse_ended(conn, request);
                }
                frame => self.on_decoded(now, conn, frame),
            },
            Some(TaskDone::Forwarded(request)) => {
                match is_ended && self.is_write(&request.request) {
                    true => self.refuse_ended(conn, request.request),
                    false => self.send_forwarded(conn, *request),
                }
            }
            Some(TaskDone::Encoded(None, _)) => self.close(conn),
            Some(TaskDone::Encoded(Some(mut bytes), requested)) => {
                match self.next_compressor(conn, requested, bytes.len()) {
                    Some(id) if compression::is_long(id, bytes.len()) => {
                        self.set_apart(conn, Task::Pack(bytes, id));
                        let connection = self.connections.get_mut(&conn);
                        if let Some(apart) = connection.and_then(|c| c.apart.as_mut()) {
                            apart.is_ended = is_ended;
                        }
                        return;
                    }
                    Some(id) => compression::pack(&mut bytes, 0, id),
                    None => {}
                }
                self.send_encoded(now, conn, bytes, is_ended);
            }
            Some(TaskDone::Packed(bytes)) => self.send_encoded(now, conn, bytes, is_ended),
        }
        self.advance(now, conn);
    }

    /// Refuses a write that a job worked on while [`Apart::end`] was called.
    fn refuse_ended(&mut self, conn: ConnId, request: Request) {
        self.respond(conn, &request, Err(interrupted()));
        self.discard(request);
    }

    /// Sends a reply. With `is_ended`, an error follows.
    fn send_encoded(&mut self, now: Instant, conn: ConnId, bytes: Vec<u8>, is_ended: bool) {
        let Some(connection) = self.connections.get_mut(&conn) else {
            return;
        };
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
        if is_ended {
            self.end_waiting(now, conn, interrupted());
        }
    }
}
