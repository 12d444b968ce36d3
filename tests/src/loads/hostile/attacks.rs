//! The list of attacks. Each attack repeats a part of a message, in a form that costs the client
//! much for each byte.

use super::{Attack, Target, blocks};
use bson::{RawArrayBuf, RawDocument, oid::ObjectId};
use onionskin_core::{
    bson::DocumentWriter,
    unstable::wire::{Flags, MessageWriter},
};

/// The adapters read up to 4 KiB at once while a connection is not ready.
const READ: Target = Target::Hello(4096);

/// All attacks.
pub const ATTACKS: [Attack; 39] = [
    attack("sections", READ, sections),
    attack("documents of a section", READ, section_documents),
    attack("fields", READ, |n| hello(|w| fields(w, n))),
    attack("fields of an error", READ, |n| body(|w| fields(w, n))),
    attack("nested documents", READ, |n| hello(|w| nested(w, "x", n))),
    attack("hosts", READ, |n| hello(|w| names(w, "hosts", n))),
    attack("hosts, passives and arbiters", READ, members),
    attack("long hosts", READ, |n| hello(|w| long_names(w, "hosts", n))),
    attack("one host", READ, |n| hello(|w| text(w, "primary", n))),
    attack("set name", READ, |n| body_ok(|w| text(w, "setName", n))),
    attack("tags", READ, |n| hello(|w| tags(w, n, 1))),
    attack("long tags", READ, |n| hello(|w| tags(w, n, n / 64))),
    attack("mechanisms", READ, |n| {
        hello(|w| names(w, "saslSupportedMechs", n))
    }),
    attack("compressors", READ, |n| {
        hello(|w| long_names(w, "compression", n))
    }),
    attack("topologyVersion", READ, |n| {
        hello(|w| within(w, "topologyVersion", n))
    }),
    attack("lastWrite", READ, |n| hello(|w| within(w, "lastWrite", n))),
    attack("speculativeAuthenticate", READ, |n| {
        hello(|w| within(w, "speculativeAuthenticate", n))
    }),
    attack("errmsg of a hello", READ, |n| {
        body(|w| text(w, "errmsg", n))
    }),
    attack("labels of a hello", READ, |n| {
        body(|w| names(w, "errorLabels", n))
    }),
    attack("long labels of a hello", READ, |n| {
        body(|w| long_names(w, "errorLabels", n))
    }),
    attack("hosts, byte by byte", Target::Hello(1), |n| {
        hello(|w| names(w, "hosts", n))
    }),
    attack("pushed hellos", Target::Pushes(4096, false), pushes),
    attack(
        "pushed hellos, with a listener",
        Target::Pushes(4096, true),
        pushes,
    ),
    attack("sections of a reply", Target::Operation, sections),
    attack("fields of a reply", Target::Operation, |n| {
        body(|w| fields(w, n))
    }),
    attack("labels, again and again", Target::Operation, labels),
    attack("cluster times", Target::Operation, cluster_times),
    attack("write errors", Target::Operation, |n| {
        body_ok(|w| empties(w, "writeErrors", n))
    }),
    attack("details of write errors", Target::Operation, details),
    attack("errmsg of a write error", Target::Operation, |n| {
        body_ok(|w| {
            w.nested("writeConcernError", |w| text(w, "errmsg", n));
        })
    }),
    attack("batch of a cursor", Target::Operation, batch),
    attack("empty blocks of zlib", READ, blocks::empty_zlib),
    attack("tables of zlib", READ, blocks::zlib_tables),
    attack("most blocks of zlib", READ, blocks::most_zlib_handshake),
    attack("most blocks of zstd", READ, blocks::most_zstd_handshake),
    attack("empty blocks of zlib in a reply", Target::Operation, |n| {
        blocks::empty_zlib(n)
    }),
    attack("most blocks of zlib in a reply", Target::Operation, |n| {
        blocks::most_zlib_reply(n)
    }),
    attack("most blocks of zstd in a reply", Target::Operation, |n| {
        blocks::most_zstd_reply(n)
    }),
    attack("literals of snappy in a reply", Target::Operation, |n| {
        blocks::snappy_literals(n)
    }),
];

const fn attack(name: &'static str, target: Target, frame: fn(usize) -> Vec<u8>) -> Attack {
    Attack {
        name,
        target,
        frame,
    }
}

/// Returns a message with one body.
fn body(fill: impl FnOnce(&mut DocumentWriter<'_>)) -> Vec<u8> {
    let mut frame = Vec::new();
    MessageWriter::begin(&mut frame, 1, 0).body_with(fill).end();
    frame
}

fn body_ok(fill: impl FnOnce(&mut DocumentWriter<'_>)) -> Vec<u8> {
    body(|w| {
        w.i32("ok", 1).i32("maxWireVersion", 21);
        fill(w);
    })
}

/// Returns the reply of a primary to `hello`, with the fields that `fill` writes.
fn hello(fill: impl FnOnce(&mut DocumentWriter<'_>)) -> Vec<u8> {
    body_ok(|w| {
        w.bool("isWritablePrimary", true).str("setName", "rs");
        fill(w);
    })
}

/// Returns a name of four letters. Numbers below 26 to the fourth power have different names.
fn name(number: usize) -> String {
    let letter = |place: u32| char::from(b'a' + (number / 26_usize.pow(place) % 26) as u8);
    (0..4).map(letter).collect()
}

fn sections(bytes: usize) -> Vec<u8> {
    let mut frame = Vec::new();
    let mut message = MessageWriter::begin(&mut frame, 1, 0);
    message = message.body(&bson::rawdoc! { "ok": 1, "maxWireVersion": 21 });
    for number in 0..bytes / 10 {
        message = message.sequence(&name(number), &[]);
    }
    message.end();
    frame
}

fn section_documents(bytes: usize) -> Vec<u8> {
    let empty = [5, 0, 0, 0, 0].repeat(bytes / 5);
    let mut frame = Vec::new();
    MessageWriter::begin(&mut frame, 1, 0)
        .body(&bson::rawdoc! { "ok": 1, "maxWireVersion": 21 })
        .sequence("documents", &empty)
        .end();
    frame
}

/// Writes null elements with empty names, which take two bytes each.
fn fields(writer: &mut DocumentWriter<'_>, bytes: usize) {
    writer.elements(&[0x0a, 0].repeat(bytes / 2));
}

fn within(writer: &mut DocumentWriter<'_>, key: &str, bytes: usize) {
    writer.nested(key, |inner| fields(inner, bytes));
}

/// Writes documents that are nested in each other, seven bytes per level.
fn nested(writer: &mut DocumentWriter<'_>, key: &str, bytes: usize) {
    let levels = bytes / 7;
    let mut inner = Vec::with_capacity(bytes);
    for level in 0..levels {
        let length = i32::try_from(5 + 7 * (levels - 1 - level)).expect("it fits");
        inner.extend_from_slice(&length.to_le_bytes());
        if level + 1 < levels {
            inner.extend_from_slice(&[3, 0]);
        }
    }
    inner.resize(inner.len() + levels, 0);
    writer.document(key, RawDocument::from_bytes(&inner).expect("a document"));
}

/// Writes an array of short names.
fn names(writer: &mut DocumentWriter<'_>, key: &str, bytes: usize) {
    let mut array = RawArrayBuf::new();
    for number in 0..bytes / 17 {
        array.push(name(number));
    }
    writer.array(key, &array);
}

/// Writes an array of at most 1,024 names, which are as long as `bytes` permits.
fn long_names(writer: &mut DocumentWriter<'_>, key: &str, bytes: usize) {
    let mut array = RawArrayBuf::new();
    let count = (bytes / 32).min(1024);
    for number in 0..count {
        array.push(format!(
            "{}{}",
            name(number),
            "X".repeat(bytes / count - 16)
        ));
    }
    writer.array(key, &array);
}

fn text(writer: &mut DocumentWriter<'_>, key: &str, bytes: usize) {
    writer.str(key, &"X".repeat(bytes));
}

fn tags(writer: &mut DocumentWriter<'_>, bytes: usize, length: usize) {
    writer.nested("tags", |tags| {
        for number in 0..bytes / (11 + length) {
            tags.str(&name(number), &"x".repeat(length));
        }
    });
}

fn members(bytes: usize) -> Vec<u8> {
    hello(|w| {
        for (place, key) in ["hosts", "passives", "arbiters"].into_iter().enumerate() {
            let mut array = RawArrayBuf::new();
            for number in 0..bytes / 51 {
                array.push(name(number * 3 + place));
            }
            w.array(key, &array);
        }
    })
}

/// Returns replies to `hello` that a server streams. Each one changes the server description.
fn pushes(bytes: usize) -> Vec<u8> {
    let mut frame = Vec::new();
    let mut number = 1;
    while frame.len() < bytes {
        MessageWriter::begin(&mut frame, number + 1, number)
            .flags(Flags::MORE_TO_COME)
            .body_with(|w| {
                w.i32("ok", 1)
                    .i32("maxWireVersion", 21)
                    .str("setName", "rs");
                w.bool(if number % 2 == 0 { "x" } else { "hidden" }, true);
                w.nested("topologyVersion", |w| {
                    w.value("processId", ObjectId::from_bytes([7; 12]).into())
                        .i64("counter", number.into());
                });
            })
            .end();
        number += 1;
    }
    frame
}

fn labels(bytes: usize) -> Vec<u8> {
    let mut array = RawArrayBuf::new();
    for number in 0..16 {
        array.push(name(number));
    }
    body(|w| {
        for _ in 0..bytes / (array.as_bytes().len() + 13) {
            w.array("errorLabels", &array);
        }
    })
}

fn cluster_times(bytes: usize) -> Vec<u8> {
    body_ok(|w| {
        for number in 0..bytes / 41 {
            let increment = u32::try_from(number).unwrap_or(u32::MAX);
            let time = bson::Timestamp { time: 5, increment };
            w.nested("$clusterTime", |w| {
                w.value("clusterTime", time.into());
            });
        }
    })
}

/// Writes an array of empty documents with empty names.
fn empties(writer: &mut DocumentWriter<'_>, key: &str, bytes: usize) {
    let mut array = i32::to_le_bytes(i32::try_from(5 + bytes / 7 * 7).expect("it fits")).to_vec();
    array.extend_from_slice(&[3, 0, 5, 0, 0, 0, 0].repeat(bytes / 7));
    array.push(0);
    writer
        .elements(&[4])
        .elements(key.as_bytes())
        .elements(&[0]);
    writer.elements(&array);
}

fn details(bytes: usize) -> Vec<u8> {
    body_ok(|w| {
        w.documents("writeErrors", 0..1, |w, _: usize| {
            within(w, "errInfo", bytes);
        });
    })
}

fn batch(bytes: usize) -> Vec<u8> {
    body_ok(|w| {
        w.nested("cursor", |w| {
            w.i64("id", 0).str("ns", "app.things");
            empties(w, "firstBatch", bytes);
        });
    })
}
