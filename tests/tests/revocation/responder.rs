//! An OCSP responder on a socket, whose answers are those of `openssl ocsp` or faulty.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

/// Returns the response in DER form to a request.
pub(crate) type Answer = Box<dyn Fn(&[u8]) -> Vec<u8> + Send + Sync>;

/// The way in which a responder treats a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// Sends the answer.
    Honest,
    /// Sends the answer with the status 500.
    Status500,
    /// Redirects to itself.
    Redirect,
    /// Closes the connection at once.
    Close,
    /// Never answers.
    Silent,
    /// Sends half of the answer.
    Truncated,
    /// Sends the answer with another byte in the part that is signed.
    Changed,
    /// Sends a body that never ends.
    Endless,
    /// Sends something that is not HTTP.
    Garbage,
}

impl Behaviour {
    /// All that give no valid answer.
    pub(crate) const FAULTS: [Self; 8] = [
        Self::Status500,
        Self::Redirect,
        Self::Close,
        Self::Silent,
        Self::Truncated,
        Self::Changed,
        Self::Endless,
        Self::Garbage,
    ];
}

/// A responder. Dropping the value ends it.
pub(crate) struct Responder {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    behaviour: Behaviour,
    answer: OnceLock<Answer>,
    requests: AtomicUsize,
    is_over: AtomicBool,
}

impl Responder {
    /// Starts a responder. It answers once [`set_answer`](Self::set_answer) was called.
    pub(crate) fn start(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(Shared {
            behaviour,
            answer: OnceLock::new(),
            requests: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        });
        let kept = shared.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if shared.is_over.load(Ordering::SeqCst) {
                    break;
                }
                let shared = shared.clone();
                // The client may close the connection at any time.
                thread::spawn(move || drop(shared.serve(stream)));
            }
        });
        Self { port, shared: kept }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn set_answer(&self, answer: Answer) {
        assert!(self.shared.answer.set(answer).is_ok(), "set once");
    }

    /// Returns the number of requests.
    pub(crate) fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::SeqCst)
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts connections.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

impl Shared {
    fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let body = read_request(&mut stream)?;
        self.requests.fetch_add(1, Ordering::SeqCst);
        let answer = self.answer.get().map(|answer| answer(&body));
        let mut answer = answer.unwrap_or_default();
        let mut status = "200 OK";
        match self.behaviour {
            Behaviour::Honest => {}
            Behaviour::Status500 => status = "500 Internal Server Error",
            Behaviour::Redirect => {
                let port = self.port_of(&stream);
                let head = format!(
                    "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{port}/\r\n\
                     Content-Length: 0\r\n\r\n"
                );
                return stream.write_all(head.as_bytes());
            }
            Behaviour::Close => return Ok(()),
            Behaviour::Silent => {
                // Until the client gives up.
                return stream.read(&mut [0]).map(drop);
            }
            Behaviour::Truncated => answer.truncate(answer.len() / 2),
            Behaviour::Changed => {
                // The headers before the signed part have about 40 bytes, and that part has more
                // than 200.
                answer[100] ^= 1;
            }
            Behaviour::Endless => {
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
                loop {
                    stream.write_all(&[0x30; 4096])?;
                }
            }
            Behaviour::Garbage => return stream.write_all(&[0x30; 4096]),
        }
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/ocsp-response\r\n\
             Content-Length: {}\r\n\r\n",
            answer.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(&answer)
    }

    fn port_of(&self, stream: &TcpStream) -> u16 {
        stream.local_addr().map_or(0, |address| address.port())
    }
}

/// Returns the body of a request.
fn read_request(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&buffer[..count]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        assert!(head.starts_with("post / http/1.1"), "{head}");
        assert!(
            head.contains("content-type: application/ocsp-request"),
            "{head}"
        );
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.and_then(|text| text.parse().ok()).expect("a length");
        if bytes.len() >= end + 4 + length {
            return Ok(bytes.split_off(end + 4));
        }
    }
}
