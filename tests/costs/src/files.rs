//! Files in GridFS, and the same bytes over a bare socket.

use onionskin::{
    Client, Error, Runtime,
    bson::{Bson, Document, RawDocument, doc, oid::ObjectId, rawdoc},
    gridfs::GridFsBucket,
};
use smol::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    lock::Mutex,
};
use std::net::{SocketAddr, ToSocketAddrs as _};

/// The size of a file. All of its chunks fit into one command, and into one batch of a cursor.
const FILE_BYTES: usize = 15 * 1024 * 1024;

/// The size of the chunks of the bare socket, which is the default of GridFS.
const CHUNK_BYTES: usize = 255 * 1024;

/// The size of the pieces in which a file is read.
const PIECE_BYTES: usize = 64 * 1024;

/// The bytes of a message before its first document: the header, the flags, and the kind of the
/// section.
pub(crate) const HEAD_BYTES: usize = 21;

/// The operation code of `OP_MSG`.
const OP_MSG: i32 = 2013;

/// A bucket with a file, and a socket over which the same commands go.
pub(crate) struct Files<R: Runtime> {
    bucket: GridFsBucket<R>,
    content: Vec<u8>,
    stored: Bson,
    socket: Mutex<Socket<R::Stream>>,
}

impl<R: Runtime> Files<R> {
    /// Stores a file, and connects the socket.
    pub(crate) async fn new(client: &Client<R>) -> Result<Self, Error> {
        let database = client.database("cost");
        let bucket = database.gridfs_bucket(None);
        bucket.drop().await?;
        for collection in ["chunks", "files"] {
            database.collection::<Document>(collection).drop().await?;
        }
        let content: Vec<u8> = (0..=u8::MAX).cycle().take(FILE_BYTES).collect();
        let stored = bucket.upload_from_stream("stored", &*content).await?;
        let mut socket = Socket::connect(client, &content).await?;
        socket.upload().await?;
        Ok(Self {
            bucket,
            content,
            stored,
            socket: Mutex::new(socket),
        })
    }

    /// Stores the file again.
    pub(crate) async fn upload(&self) -> Result<(), Error> {
        let mut upload = self.bucket.open_upload_stream("another").await?;
        upload.write_all(&self.content).await?;
        Ok(upload.close().await?)
    }

    /// Reads the stored file.
    pub(crate) async fn download(&self) -> Result<(), Error> {
        let download = self.bucket.open_download_stream(self.stored.clone());
        let mut download = download.await?;
        let (mut piece, mut all) = (vec![0; PIECE_BYTES], 0);
        while let count @ 1.. = download.read(&mut piece).await? {
            all += count;
        }
        assert_eq!(all, FILE_BYTES, "all chunks came");
        Ok(())
    }

    pub(crate) async fn socket_upload(&self) -> Result<(), Error> {
        self.socket.lock().await.upload().await
    }

    pub(crate) async fn socket_download(&self) -> Result<(), Error> {
        self.socket.lock().await.download().await
    }
}

/// A socket, and the messages that store and read a file.
struct Socket<S> {
    stream: S,
    chunks: Vec<u8>,
    file: Vec<u8>,
    find: Vec<u8>,
    /// The places of the ids in the messages, which differ each time.
    chunk_ids: Vec<usize>,
    file_id: usize,
    reply: Vec<u8>,
}

impl<S: smol::io::AsyncRead + smol::io::AsyncWrite + Unpin> Socket<S> {
    async fn connect<R: Runtime<Stream = S>>(
        client: &Client<R>,
        content: &[u8],
    ) -> Result<Self, Error> {
        let address = address(client)?;
        let files_id = ObjectId::new();
        let mut chunks = Vec::new();
        let mut chunk_ids = Vec::new();
        let head = rawdoc! { "insert": "chunks", "$db": "cost" };
        message(&mut chunks, &head);
        chunks.push(1);
        let section = chunks.len();
        chunks.extend([0; 4]);
        chunks.extend(b"documents\0");
        for (n, data) in (0..).zip(content.chunks(CHUNK_BYTES)) {
            let data = Bson::Binary(onionskin::bson::Binary {
                subtype: onionskin::bson::spec::BinarySubtype::Generic,
                bytes: data.to_vec(),
            });
            let chunk = doc! { "_id": files_id, "files_id": files_id, "n": n, "data": data };
            // Before the value of `_id` come the size of the document (4 bytes), the type of the
            // field (1 byte), and its name with a zero byte (4 bytes).
            chunk_ids.push(chunks.len() + 4 + 5);
            chunks.extend(chunk.to_vec()?);
        }
        let size = chunks.len() - section;
        chunks[section..section + 4].copy_from_slice(&length(size));
        end(&mut chunks);

        let mut file = Vec::new();
        let head = rawdoc! {
            "insert": "files",
            "$db": "cost",
            "documents": [{ "_id": files_id, "length": FILE_BYTES as i64, "filename": "another" }],
        };
        message(&mut file, &head);
        let ids = file
            .windows(12)
            .rposition(|bytes| *bytes == files_id.bytes());
        end(&mut file);

        let mut find = Vec::new();
        let head = rawdoc! {
            "find": "fs.chunks",
            "$db": "cost",
            "filter": { "files_id": stored(client).await? },
            "sort": { "n": 1 },
        };
        message(&mut find, &head);
        end(&mut find);
        Ok(Self {
            stream: client.runtime().connect(address).await?,
            chunks,
            file,
            find,
            chunk_ids,
            file_id: ids.expect("the message has the id"),
            reply: vec![0; 2 * FILE_BYTES],
        })
    }

    async fn upload(&mut self) -> Result<(), Error> {
        for place in &self.chunk_ids {
            let id = ObjectId::new().bytes();
            self.chunks[*place..place + id.len()].copy_from_slice(&id);
        }
        let id = ObjectId::new().bytes();
        self.file[self.file_id..self.file_id + id.len()].copy_from_slice(&id);
        for message in [&self.chunks, &self.file] {
            self.stream.write_all(message).await?;
            let reply = read(&mut self.stream, &mut self.reply).await?;
            assert_eq!(reply.get_array("writeErrors").ok(), None, "all are stored");
        }
        Ok(())
    }

    async fn download(&mut self) -> Result<(), Error> {
        self.stream.write_all(&self.find).await?;
        let reply = read(&mut self.stream, &mut self.reply).await?;
        assert!(reply.as_bytes().len() > FILE_BYTES, "all chunks came");
        Ok(())
    }
}

/// Returns the address of the first host of a client.
pub(crate) fn address<R: Runtime>(client: &Client<R>) -> Result<SocketAddr, Error> {
    let host = client.options().hosts()[0].to_string();
    let address = host.to_socket_addrs()?.next();
    address.ok_or_else(|| Error::argument("the host has no address"))
}

/// Returns the id of the stored file.
async fn stored<R: Runtime>(client: &Client<R>) -> Result<ObjectId, Error> {
    let files = client.database("cost").collection::<Document>("fs.files");
    let stored = files.find_one(doc! { "filename": "stored" }).await?;
    let id = stored.and_then(|file| file.get_object_id("_id").ok());
    id.ok_or_else(|| Error::argument("there is no stored file"))
}

/// Begins a message with its body.
pub(crate) fn message(out: &mut Vec<u8>, body: &RawDocument) {
    let header = [0, 1, 0, OP_MSG, 0];
    out.extend(header.iter().flat_map(|number| number.to_le_bytes()));
    out.push(0);
    out.extend(body.as_bytes());
}

/// Ends a message.
pub(crate) fn end(message: &mut [u8]) {
    let size = length(message.len());
    message[..4].copy_from_slice(&size);
}

fn length(size: usize) -> [u8; 4] {
    u32::try_from(size).unwrap_or_default().to_le_bytes()
}

/// Reads a reply, which must be a success.
async fn read<'a>(
    stream: &mut (impl smol::io::AsyncRead + Unpin),
    reply: &'a mut [u8],
) -> Result<&'a RawDocument, Error> {
    stream.read_exact(&mut reply[..4]).await?;
    let size = u32::from_le_bytes([reply[0], reply[1], reply[2], reply[3]]) as usize;
    stream.read_exact(&mut reply[4..size]).await?;
    let body = RawDocument::from_bytes(&reply[HEAD_BYTES..size])?;
    assert_eq!(body.get_f64("ok").ok(), Some(1.0), "{body:?}");
    Ok(body)
}
