//! A client whose credential a provider gives, with a server that accepts each login.

use super::*;

/// A client with a provider, and its server, which accepts each login by one command.
pub(super) struct CredentialScene {
    pub(super) client: Client,
    pub(super) contract: Contract,
    pub(super) now: Instant,
    /// The inquiries that the client made and the test has not answered.
    pub(super) inquiries: Vec<(QuestionId, Inquiry)>,
    /// The number of inquiries that the client made.
    pub(super) asked: usize,
    pub(super) withdrawn: Vec<QuestionId>,
    /// The commands of authentication, with their connections.
    pub(super) logins: Vec<(SocketId, String)>,
    /// The commands of authentication that were not answered.
    pub(super) unanswered: Vec<(SocketId, Vec<u8>)>,
    /// The replies to the next commands of authentication; `None` for silence.
    pub(super) replies: VecDeque<Option<RawDocumentBuf>>,
    pub(super) dialled: Vec<SocketId>,
    pub(super) closed: Vec<SocketId>,
    /// True while the server resets new connections.
    pub(super) is_dead: bool,
}

impl CredentialScene {
    pub(super) fn new(credential: Credential, more: &str) -> Self {
        let text = format!("mongodb://a/?maxConnecting=8{more}");
        let mut options = uri::parse(&text).expect("valid").options;
        options.credential = Some(credential);
        let config = ClientConfig::new(options, Seed::new([5; 32])).expect("options");
        let mut scene = Self {
            client: Client::new(config),
            contract: Contract::default(),
            now: Instant::ZERO,
            inquiries: Vec::new(),
            asked: 0,
            withdrawn: Vec::new(),
            logins: Vec::new(),
            unanswered: Vec::new(),
            replies: VecDeque::new(),
            dialled: Vec::new(),
            closed: Vec::new(),
            is_dead: false,
        };
        scene.client.open(scene.now);
        harness::drain(&mut scene);
        scene
    }

    pub(super) fn start(&mut self, command: Command) -> OperationId {
        let id = match self.client.start(self.now, command) {
            Progress::Waiting(id) => id,
            other => panic!("{other:?} before a connection is ready"),
        };
        harness::drain(self);
        id
    }

    /// Answers the oldest inquiry. Returns its question.
    pub(super) fn answer(&mut self, answer: Answer) -> QuestionId {
        let (id, _) = self.inquiries.remove(0);
        self.answer_to(id, answer);
        id
    }

    pub(super) fn answer_to(&mut self, id: QuestionId, answer: Answer) {
        self.client.handle_answer(self.now, id, answer);
        harness::drain(self);
    }

    pub(super) fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
        harness::time_out(self);
        harness::drain(self);
    }

    pub(super) fn exchange_of(&mut self, progress: Progress) -> Exchange {
        harness::drain(self);
        let progress = match progress {
            Progress::Waiting(id) => self.client.resume(self.now, id),
            other => other,
        };
        harness::drain(self);
        match progress {
            Progress::Exchange(mut exchange) => {
                exchange.begin(self.now).expect("it fits");
                exchange
            }
            other => panic!("{other:?} where an exchange was expected"),
        }
    }

    pub(super) fn resume(&mut self, id: OperationId) -> Exchange {
        self.exchange_of(Progress::Waiting(id))
    }

    pub(super) fn error_of(&mut self, id: OperationId) -> Error {
        match self.client.resume(self.now, id) {
            Progress::Failed(error) => error,
            other => panic!("{other:?} where an error was expected"),
        }
    }

    /// Answers the request of an exchange.
    pub(super) fn reply(&mut self, mut exchange: Exchange, reply: &RawDocument) -> AfterExchange {
        World::answer(&mut exchange, reply);
        let after = self.client.check_in(self.now, exchange, Outcome::Completed);
        harness::drain(self);
        after
    }

    /// Answers the request of an exchange. The operation continues.
    pub(super) fn reply_and_continue(
        &mut self,
        exchange: Exchange,
        reply: &RawDocument,
    ) -> Progress {
        match self.reply(exchange, reply) {
            AfterExchange::Again(progress) => progress,
            AfterExchange::Done(result) => panic!("it is over: {result:?}"),
        }
    }

    /// Runs a command on a connection that is ready after this.
    pub(super) fn log_in(&mut self, answer: Answer) -> SocketId {
        let operation = self.start(ping());
        self.answer(answer);
        let exchange = self.resume(operation);
        let socket = exchange.socket();
        self.reply(exchange, &rawdoc! { "ok": 1 });
        socket
    }

    /// Returns the passwords or tokens that were sent, in order.
    pub(super) fn sent(&self) -> Vec<&str> {
        let texts = self.logins.iter().map(|(_, text)| text.as_str());
        texts.collect()
    }

    pub(super) fn waiting(&self) -> usize {
        self.client.snapshot().waiting_for_answers
    }
}

impl Peer for CredentialScene {
    fn parts(&mut self) -> Parts<'_> {
        Parts {
            client: &mut self.client,
            contract: Some(&mut self.contract),
            now: self.now,
        }
    }

    fn dialled(&mut self, socket: SocketId, _: Address) {
        self.dialled.push(socket);
        if self.is_dead {
            let reset = Error::network(NetworkFault::Reset, "reset");
            self.client.handle_failed(self.now, socket, reset);
            return;
        }
        self.connect(socket);
    }

    fn transmitted(&mut self, socket: SocketId, bytes: Vec<u8>) {
        let command = World::decoded(&bytes);
        let Ok(payload) = command.get_binary_generic("payload") else {
            self.respond(socket, &bytes, &primary());
            return;
        };
        let text = String::from_utf8_lossy(payload);
        let last = text.rsplit('\0').find(|part| !part.is_empty());
        self.logins
            .push((socket, last.unwrap_or_default().to_owned()));
        let reply = self.replies.pop_front().unwrap_or_else(|| Some(accepted()));
        match reply {
            Some(reply) => drop(self.respond(socket, &bytes, &reply)),
            None => self.unanswered.push((socket, bytes)),
        }
    }

    fn closed(&mut self, socket: SocketId) {
        self.closed.push(socket);
    }

    fn asked(&mut self, id: QuestionId, question: Question) {
        let Question::Inquire(inquiry) = question else {
            panic!("{question:?} of another kind");
        };
        self.asked += 1;
        self.inquiries.push((id, inquiry));
    }

    fn withdrawn(&mut self, question: QuestionId) {
        self.inquiries.retain(|(id, _)| *id != question);
        self.withdrawn.push(question);
    }
}
