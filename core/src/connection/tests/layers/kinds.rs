//! Layers for tests: one that changes bytes, both sides of a conversation with a proxy, and the
//! server's side of TLS.

use crate::{
    address::Address,
    connection::{Layer, LayerPlan, LayerProgress, Phase, types::lost_early},
    error::{Error, NetworkFault},
};
use rustls::ServerConnection;
use std::io::{Read, Write};

/// The largest number of bytes that the proxy may send without the end of its answer.
pub(crate) const MAX_ANSWER_BYTES: usize = 64;

/// Moves the first bytes of `from` into `buffer`. Returns their number.
fn take(from: &mut Vec<u8>, buffer: &mut [u8]) -> usize {
    let count = from.len().min(buffer.len());
    buffer[..count].copy_from_slice(&from[..count]);
    from.drain(..count);
    count
}

/// Moves all bytes of `from` to the end of `out`. Returns true if there were any.
fn give(from: &mut Vec<u8>, out: &mut Vec<u8>) -> bool {
    let is_any = !from.is_empty();
    out.append(from);
    is_any
}

/// A layer that changes each byte, in both directions.
#[derive(Debug, Default)]
pub(crate) struct Xor {
    above: Vec<u8>,
    below: Vec<u8>,
}

impl Layer for Xor {
    fn name(&self) -> &'static str {
        "XOR"
    }

    fn handle_received(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.above.extend(bytes.iter().map(|byte| byte ^ 0x55));
        Ok(())
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        Ok(take(&mut self.above, buffer))
    }

    fn write(&mut self, bytes: &[u8]) {
        self.below.extend(bytes.iter().map(|byte| byte ^ 0x55));
    }

    fn poll_transmit(&mut self, out: &mut Vec<u8>) -> bool {
        give(&mut self.below, out)
    }

    fn progress(&self) -> LayerProgress {
        LayerProgress::Open
    }
}

/// Makes a layer [`Xor`] for each connection.
#[derive(Debug)]
pub(crate) struct XorPlan;

impl LayerPlan for XorPlan {
    fn layer(&self, _address: &Address) -> Result<Option<Box<dyn Layer>>, Error> {
        Ok(Some(Box::new(Xor::default())))
    }
}

/// A layer that is the client's side of a conversation with a proxy. Sends the line `TO address`,
/// and waits for the line `OK`.
#[derive(Debug)]
pub(crate) struct ProxyClient {
    below: Vec<u8>,
    /// The bytes of the answer so far; after the answer, the bytes that follow it.
    received: Vec<u8>,
    is_over: bool,
}

impl ProxyClient {
    pub(crate) fn new(address: &Address) -> Self {
        Self {
            below: format!("TO {address}\n").into_bytes(),
            received: Vec::new(),
            is_over: false,
        }
    }
}

impl Layer for ProxyClient {
    fn name(&self) -> &'static str {
        "proxy"
    }

    fn handle_received(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.received.extend_from_slice(bytes);
        let Some(end) = self.received.iter().position(|&byte| byte == b'\n') else {
            if self.received.len() > MAX_ANSWER_BYTES {
                return Err(Error::protocol("the proxy's answer has no end"));
            }
            return Ok(());
        };
        let line: Vec<u8> = self.received.drain(..=end).collect();
        if line != b"OK\n" {
            let line = String::from_utf8_lossy(&line[..end]).into_owned();
            let message = format!("the proxy refused to connect: {line}");
            return Err(Error::network(NetworkFault::Refused, message));
        }
        self.is_over = true;
        Ok(())
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        Ok(if self.is_over {
            take(&mut self.received, buffer)
        } else {
            0
        })
    }

    fn write(&mut self, _bytes: &[u8]) {
        panic!("nothing passes before the answer, and nothing is told to the layer after it");
    }

    fn poll_transmit(&mut self, out: &mut Vec<u8>) -> bool {
        give(&mut self.below, out)
    }

    fn progress(&self) -> LayerProgress {
        if self.is_over {
            LayerProgress::PassThrough
        } else {
            LayerProgress::Opening
        }
    }

    fn phase(&self) -> Phase {
        Phase::Proxy
    }

    fn describe_loss(&self, error: Error) -> Error {
        lost_early(error, "in the proxy handshake; is it a proxy?")
    }
}

/// Makes a layer [`ProxyClient`] for each connection. Holds the address of the proxy.
#[derive(Debug)]
pub(crate) struct ProxyPlan(pub(crate) Address);

impl LayerPlan for ProxyPlan {
    fn layer(&self, address: &Address) -> Result<Option<Box<dyn Layer>>, Error> {
        Ok(Some(Box::new(ProxyClient::new(address))))
    }

    fn dial_address(&self, _server: &Address) -> Option<&Address> {
        Some(&self.0)
    }
}

/// A layer that is the proxy's side of the conversation. Takes the line of the client, which does
/// not reach the layers above, and sends `answer`.
#[derive(Debug)]
pub(super) struct ProxyServer {
    answer: &'static [u8],
    received: Vec<u8>,
    below: Vec<u8>,
    is_over: bool,
}

impl ProxyServer {
    pub(super) fn new(answer: &'static [u8]) -> Self {
        Self {
            answer,
            received: Vec::new(),
            below: Vec::new(),
            is_over: false,
        }
    }
}

impl Layer for ProxyServer {
    fn name(&self) -> &'static str {
        "proxied"
    }

    fn handle_received(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.received.extend_from_slice(bytes);
        if let Some(end) = self.received.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.received.drain(..=end).collect();
            assert_eq!(line, b"TO db.example.net:27017\n");
            assert!(self.received.is_empty(), "the client waits for the answer");
            self.below.extend_from_slice(self.answer);
            self.is_over = true;
        }
        Ok(())
    }

    fn read(&mut self, _buffer: &mut [u8]) -> Result<usize, Error> {
        Ok(0)
    }

    fn write(&mut self, _bytes: &[u8]) {
        panic!("the layer is gone");
    }

    fn poll_transmit(&mut self, out: &mut Vec<u8>) -> bool {
        give(&mut self.below, out)
    }

    fn progress(&self) -> LayerProgress {
        if self.is_over {
            LayerProgress::PassThrough
        } else {
            LayerProgress::Opening
        }
    }
}

/// A layer that is the server's side of TLS.
#[derive(Debug)]
pub(super) struct ServerTls(pub(super) ServerConnection);

impl Layer for ServerTls {
    fn name(&self) -> &'static str {
        "server's TLS"
    }

    fn handle_received(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            self.0.read_tls(&mut bytes).expect("room");
            let result = self.0.process_new_packets();
            result.map_err(|error| Error::protocol(error.to_string()))?;
        }
        Ok(())
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        // Without plaintext, `read` of the library returns an error.
        Ok(self.0.reader().read(buffer).unwrap_or(0))
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.writer().write_all(bytes).expect("no limit");
    }

    fn poll_transmit(&mut self, out: &mut Vec<u8>) -> bool {
        let before = out.len();
        while self.0.wants_write() {
            self.0.write_tls(out).expect("a vector");
        }
        out.len() > before
    }

    fn progress(&self) -> LayerProgress {
        if self.0.is_handshaking() {
            LayerProgress::Opening
        } else {
            LayerProgress::Open
        }
    }
}
