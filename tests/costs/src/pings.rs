//! Pings over bare sockets. No driver can need less.

use crate::files::{HEAD_BYTES, address, end, message};
use onionskin::{
    Client, Error, Runtime,
    bson::{RawDocument, oid::ObjectId, rawdoc},
};
use smol::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// The size of the buffer for replies, which are smaller.
const REPLY_BYTES: usize = 1024;

/// Connects a socket, and sends this number of pings over it, each after the reply to the one
/// before.
pub(crate) async fn send<R: Runtime>(client: &Client<R>, count: usize) -> Result<(), Error> {
    let mut stream = client.runtime().connect(address(client)?).await?;
    let id = [ObjectId::new().bytes().as_slice(), &[0; 4]].concat();
    let id = onionskin::bson::Binary {
        subtype: onionskin::bson::spec::BinarySubtype::Uuid,
        bytes: id,
    };
    // The driver sends the same fields to a server that is no member of a replica set.
    let body = rawdoc! { "ping": 1, "$db": "admin", "lsid": { "id": id } };
    let mut ping = Vec::new();
    message(&mut ping, &body);
    end(&mut ping);
    let mut reply = [0; REPLY_BYTES];
    for _ in 0..count {
        stream.write_all(&ping).await?;
        let mut size = 0;
        while size < 4 || size < length(&reply) {
            match stream.read(&mut reply[size..]).await? {
                0 => return Err(Error::argument("the server closed the connection")),
                count => size += count,
            }
        }
        let body = RawDocument::from_bytes(&reply[HEAD_BYTES..size])?;
        assert_eq!(body.get_f64("ok").ok(), Some(1.0), "{body:?}");
    }
    Ok(())
}

/// Returns the size of the message that begins with these bytes.
fn length(bytes: &[u8; REPLY_BYTES]) -> usize {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize
}
