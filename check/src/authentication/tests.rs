use super::*;
use crate::{
    report::{Status, Value},
    server::Origin,
};
use onionskin::bson::rawdoc;
use onionskin_core::{
    address::Address,
    options::{CanonicalizeHostName, Kerberos, KerberosTarget, SecurityContext},
};
use onionskin_tokio::TokioRuntime;
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Duration,
};

/// A library whose calls return when the other end of the channel is dropped.
struct Blocked(Mutex<mpsc::Receiver<()>>);

impl Kerberos for Blocked {
    fn canonical_name(&self, host: &str, _: CanonicalizeHostName) -> Result<String, String> {
        Ok(host.to_owned())
    }

    fn begin(&self, _: &KerberosTarget) -> Result<Box<dyn SecurityContext>, String> {
        let _ = self.0.lock().expect("no panic before").recv();
        Err("released".to_owned())
    }
}

/// Starts a server that answers one `hello`, and then waits until the connection is closed.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        answer(&mut stream);
        let _ = stream.read(&mut [0; 1]);
    });
    address
}

fn answer(stream: &mut TcpStream) {
    let mut head = [0; 16];
    stream.read_exact(&mut head).expect("a header");
    let length = u32::from_le_bytes(head[..4].try_into().expect("4 bytes"));
    let mut rest = vec![0; length as usize - head.len()];
    stream.read_exact(&mut rest).expect("a request");
    let reply = rawdoc! {
        "ok": 1, "isWritablePrimary": true, "minWireVersion": 0, "maxWireVersion": 21,
        "maxBsonObjectSize": 16_777_216, "maxMessageSizeBytes": 48_000_000,
        "maxWriteBatchSize": 100_000,
    };
    // OP_QUERY is answered by OP_REPLY with one document, and OP_MSG by OP_MSG.
    let is_query = head[12..] == 2004_i32.to_le_bytes();
    let (opcode, prefix) = match is_query {
        true => (
            1_i32,
            [[0; 4], [0; 4], [0; 4], [0; 4], [1, 0, 0, 0]].concat(),
        ),
        false => (2013, vec![0; 5]),
    };
    let length = head.len() + prefix.len() + reply.as_bytes().len();
    let mut message = i32::try_from(length).expect("few").to_le_bytes().to_vec();
    message.extend([0; 4]);
    message.extend(&head[4..8]);
    message.extend(opcode.to_le_bytes());
    message.extend(prefix);
    message.extend(reply.as_bytes());
    stream.write_all(&message).expect("the reply is sent");
}

/// Authenticates with a library that hangs, within these limits of the check and of the handshake.
async fn step_of(limit: Duration, connect: Duration) -> Step {
    let (release, blocked) = mpsc::channel();
    let address = server();
    let text = format!(
        "mongodb://ada%40R@{address}/?authMechanism=GSSAPI&connectTimeoutMS={}",
        connect.as_millis()
    );
    let mut options = ClientOptions::parse(&text)
        .run()
        .expect("a connection string");
    options.set_kerberos(Some(Arc::new(Blocked(Mutex::new(blocked)))));
    let credential = options.credential.as_ref().expect("a credential").clone();
    let clock = Clock::new(TokioRuntime::default(), limit);
    let visit = Visit {
        address: Address::tcp(&address.ip().to_string(), address.port()),
        origin: Origin::Seed,
        steps: Vec::new(),
        hello: None,
        failure: None,
    };
    let step = authenticate(&clock, &options, &credential, &visit).await;
    drop(release);
    step
}

/// A Kerberos library that hangs is named, whether the time of the check or that of the handshake
/// ends first, and the server is not blamed.
#[tokio::test]
async fn a_kerberos_library_that_hangs_is_named() {
    let (short, long) = (Duration::from_millis(200), Duration::from_secs(20));
    for (limit, connect) in [(short, long), (long, short)] {
        let step = step_of(limit, connect).await;
        assert_eq!(step.status, Status::Failed, "{step:?}");
        let mechanism = Some(&Value::Text("GSSAPI".to_owned()));
        assert_eq!(step.value("mechanism"), mechanism, "{step:?}");
        let problem = &step.problems[0];
        assert!(problem.message.contains("Kerberos"), "{problem:?}");
        let hints = problem.hints.join(" ");
        assert!(hints.contains("KRB5_TRACE"), "{hints}");
        assert!(!hints.contains("the server does not answer"), "{hints}");
    }
}
