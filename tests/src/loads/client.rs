//! A client with very many idle connections, without sockets and in virtual time.

use super::harness::{self, Parts, Peer};
use bson::{Bson, RawDocumentBuf, doc, rawdoc};
use onionskin_core::{
    client::{AfterExchange, Client, ClientConfig, Outcome, Progress},
    operation::{Command, CommandKind, Exchange, OperationId, SessionUse},
    random::Seed,
    time::Instant,
    unstable::{
        compression::{Compression, CompressionPlan},
        connection::SocketId,
        wire::{Header, MAX_MESSAGE_BYTES, MessageWriter, OpCode},
    },
    uri,
};
use onionskin_deployment::legacy::LegacyReply;
use std::time::Duration;

/// A client, and a server that answers all requests at once.
#[derive(Debug)]
pub struct Idle {
    client: Client,
    now: Instant,
    hello: RawDocumentBuf,
    reply: RawDocumentBuf,
    text: String,
    /// The compression of the replies, with the first compressor of the client.
    compression: Option<Compression>,
    /// Exchanges of operations that had to wait for their connection.
    granted: Vec<Exchange>,
}

impl Idle {
    /// Creates a client with one connection. `options` are options of its connection string. The
    /// request and the reply of each operation have a text of `bytes` bytes, and are compressed if
    /// the client has compressors.
    #[must_use]
    pub fn new(options: &str, bytes: usize) -> Self {
        let text = format!("mongodb://db.example.net/?maxPoolSize=0&{options}");
        let options = uri::parse(&text).expect("a connection string").options;
        let compressors = options.compressors().into_iter();
        let names: Vec<String> = compressors.map(|c| c.name().to_owned()).collect();
        let compression = (!names.is_empty()).then(|| {
            let plan = CompressionPlan::new(&options).expect("available compressors");
            let mut compression = Compression::new(plan);
            compression.negotiate(&names);
            compression
        });
        let config = ClientConfig::new(options, Seed::new([7; 32])).expect("a configuration");
        let mut hello = doc! {
            "ok": 1, "isWritablePrimary": true, "helloOk": true, "maxWireVersion": 21,
            "minWireVersion": 0, "maxBsonObjectSize": 16_777_216,
            "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000,
            "logicalSessionTimeoutMinutes": 30, "connectionId": 7,
        };
        if compression.is_some() {
            let names = names.into_iter().map(Bson::String).collect();
            hello.insert("compression", Bson::Array(names));
        }
        let text = "x".repeat(bytes);
        let mut this = Self {
            client: Client::new(config),
            now: Instant::ZERO,
            hello: RawDocumentBuf::try_from(&hello).expect("a document"),
            reply: rawdoc! { "ok": 1, "text": text.as_str() },
            text,
            compression,
            granted: Vec::new(),
        };
        this.client.open(this.now);
        this.settle();
        this.connect(1);
        this
    }

    /// Opens `count` more connections. Each connection runs one operation before it is idle.
    pub fn connect(&mut self, count: usize) {
        let exchanges = (0..self.idle() + count)
            .map(|_| self.start())
            .collect::<Vec<_>>();
        for exchange in exchanges {
            // Each connection becomes idle at a different time.
            self.now = self.now + Duration::from_micros(1);
            self.exchange(exchange);
        }
    }

    /// Returns the number of idle connections: all sockets except for the monitor's and those in
    /// use.
    #[must_use]
    pub fn idle(&self) -> usize {
        let counts = self.client.counts();
        counts.sockets.saturating_sub(1) - counts.in_use
    }

    /// Runs one operation.
    pub fn operation(&mut self) {
        let exchange = self.start();
        self.exchange(exchange);
    }

    /// Calls `handle_timeout` and `deadline` of the client.
    pub fn tick(&mut self) {
        self.client.handle_timeout(self.now);
        std::hint::black_box(self.client.deadline());
    }

    /// Advances the time by `time`. Returns how often a deadline was reached.
    pub fn pass(&mut self, time: Duration) -> usize {
        let end = self.now + time;
        let mut count = 0;
        while let Some(due) = self.client.deadline().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.client.handle_timeout(self.now);
            self.settle();
            count += 1;
        }
        self.now = end;
        count
    }

    /// Abandons an operation whose request is sent, so that a connection waits for a late reply.
    pub fn leave(&mut self) {
        let mut exchange = self.start();
        self.begin(&mut exchange);
        let after = self.client.check_in(self.now, exchange, Outcome::Abandoned);
        assert!(matches!(after, AfterExchange::Done(Ok(()))), "{after:?}");
        self.settle();
    }

    fn start(&mut self) -> Exchange {
        let mut command = Command::new("insert", "app", CommandKind::Write);
        command
            .body()
            .str("insert", "things")
            .str("text", &self.text);
        command.set_session(SessionUse::None);
        match self.client.start(self.now, command) {
            Progress::Asking { .. } | Progress::Answered(_) => panic!("nothing is asked here"),
            Progress::Exchange(exchange) => exchange,
            Progress::Waiting(_) => {
                self.settle();
                self.granted.pop().expect("the server is quick")
            }
            Progress::Failed(error) => unreachable!("{error}"),
        }
    }

    fn begin(&mut self, exchange: &mut Exchange) {
        exchange.begin(self.now).expect("a request");
        let count = exchange.output().len();
        exchange.sent(count);
    }

    fn exchange(&mut self, mut exchange: Exchange) {
        let id = {
            exchange.begin(self.now).expect("a request");
            header(exchange.output()).request_id
        };
        let count = exchange.output().len();
        exchange.sent(count);
        let mut frame = Vec::new();
        MessageWriter::begin(&mut frame, 1, id)
            .body(&self.reply)
            .end();
        if let Some(compression) = &mut self.compression {
            let plain = std::mem::take(&mut frame);
            compression.pack(&plain, MAX_MESSAGE_BYTES, &mut frame);
        }
        let mut rest = frame.as_slice();
        loop {
            let room = exchange.input().expect("room");
            let count = room.len().min(rest.len());
            room[..count].copy_from_slice(&rest[..count]);
            rest = &rest[count..];
            let mut is_complete = exchange.received(count).expect("a reply");
            while exchange.is_unpacking() {
                is_complete = exchange.unpack().expect("a reply");
            }
            if is_complete {
                break;
            }
        }
        let after = self.client.check_in(self.now, exchange, Outcome::Completed);
        assert!(matches!(after, AfterExchange::Done(Ok(()))), "{after:?}");
        self.settle();
    }

    /// Carries out the actions of the client. All of them succeed at once.
    fn settle(&mut self) {
        harness::drain(self);
    }

    /// Answers a `hello`.
    fn answer_hello(&mut self, socket: SocketId, request: &[u8]) {
        let Header {
            request_id,
            op_code,
            ..
        } = header(request);
        if op_code != OpCode::Query {
            let hello = self.hello.clone();
            self.respond(socket, request, &hello);
            return;
        }
        let mut frame = Vec::new();
        LegacyReply { body: &self.hello }.encode(&mut frame, 1, request_id);
        self.receive(socket, &frame);
    }
}

impl Peer for Idle {
    fn parts(&mut self) -> Parts<'_> {
        Parts {
            client: &mut self.client,
            // The harness would record all actions in a `Contract`. This record would use memory,
            // and only the memory of the client is to be measured.
            contract: None,
            now: self.now,
        }
    }

    fn transmitted(&mut self, socket: SocketId, bytes: Vec<u8>) {
        self.answer_hello(socket, &bytes);
    }

    fn woken(&mut self, operation: OperationId) {
        if let Progress::Exchange(exchange) = self.client.resume(self.now, operation) {
            self.granted.push(exchange);
        }
    }
}

fn header(frame: &[u8]) -> Header {
    Header::decode(frame, MAX_MESSAGE_BYTES).expect("a frame")
}
