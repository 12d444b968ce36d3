//! TLS of a deployment, and the server's side of its connections.

use super::{certificate, subject};
use crate::ServeOptions;
use rustls::{ServerConfig, ServerConnection};
use std::{
    collections::VecDeque,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

/// The number of temporary directories for certificates so far. The number is part of the name of
/// the next directory.
static DIRECTORIES: AtomicU64 = AtomicU64::new(0);

/// TLS of a deployment.
pub(crate) struct Tls {
    config: Arc<ServerConfig>,
    /// The directory of the certificates.
    directory: PathBuf,
    /// Removes the directory at the end, unless the options name it.
    _temporary: Option<TemporaryDirectory>,
}

/// A directory that is removed at the end.
struct TemporaryDirectory(PathBuf);

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Tls {
    /// Creates the certificates, if the options ask for TLS.
    pub(crate) fn of(options: &ServeOptions) -> io::Result<Option<Self>> {
        if !options.tls {
            return Ok(None);
        }
        let (directory, temporary) = match &options.tls_directory {
            Some(directory) => (directory.clone(), None),
            None => {
                let number = DIRECTORIES.fetch_add(1, Ordering::Relaxed);
                let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                let nanos = since.unwrap_or_default().as_nanos();
                let name = format!("onionskin-tls-{}-{number}-{nanos}", std::process::id());
                let directory = std::env::temp_dir().join(name);
                // A directory that exists belongs to another process.
                std::fs::create_dir(&directory)?;
                let temporary = TemporaryDirectory(directory.clone());
                (directory, Some(temporary))
            }
        };
        let config = certificate::generate(&directory, options.tls_ca_file.as_deref())?;
        Ok(Some(Self {
            config,
            directory,
            _temporary: temporary,
        }))
    }

    /// Returns the directory of the certificates.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Creates the server's side of a connection.
    pub(crate) fn accept(&self) -> Option<TlsSession> {
        let connection = ServerConnection::new(Arc::clone(&self.config)).ok()?;
        Some(TlsSession {
            connection,
            received: VecDeque::new(),
            is_certificate_taken: false,
        })
    }
}

/// The TLS state of a socket.
pub(crate) struct TlsSession {
    connection: ServerConnection,
    /// Bytes that were read from the socket and not decrypted yet.
    received: VecDeque<u8>,
    /// True after [`take_subject`](Self::take_subject) has looked for a client certificate.
    is_certificate_taken: bool,
}

impl TlsSession {
    /// Encrypts bytes, which [`take_output`](Self::take_output) then returns.
    pub(crate) fn write(&mut self, plain: &[u8]) -> io::Result<()> {
        self.connection.set_buffer_limit(None);
        self.connection.writer().write_all(plain)
    }

    /// Returns the bytes to send, such as messages of the handshake, encrypted data, or an alert.
    pub(crate) fn take_output(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.connection.wants_write() {
            if self.connection.write_tls(&mut bytes).is_err() {
                break;
            }
        }
        bytes
    }

    /// Returns decrypted data. The error `WouldBlock` means that there is none yet.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.connection.reader().read(buffer)
    }

    /// Takes bytes that were read from the socket.
    pub(crate) fn push_received(&mut self, bytes: &[u8]) {
        self.received.extend(bytes);
    }

    /// Decrypts some of the received bytes. Returns false if there are none.
    pub(crate) fn advance(&mut self) -> io::Result<bool> {
        if self.received.is_empty() {
            return Ok(false);
        }
        self.connection.read_tls(&mut self.received)?;
        self.connection
            .process_new_packets()
            .map_err(|_| io::ErrorKind::InvalidData)?;
        Ok(true)
    }

    /// Returns the subject of the client's certificate, if there is one. Returns `None` at each
    /// further call. The TLS handshake must be complete.
    pub(crate) fn take_subject(&mut self) -> Option<String> {
        if std::mem::replace(&mut self.is_certificate_taken, true) {
            return None;
        }
        subject::of(self.connection.peer_certificates()?.first()?)
    }
}
