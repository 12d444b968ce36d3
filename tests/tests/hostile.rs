//! The cost of a hostile server grows at most linearly with the bytes that it sends. The tests
//! count allocations and their bytes, the bytes that the frame decoder moves, and the steps of the
//! message decoder.

use bson::rawdoc;
use onionskin_core::unstable::wire::{FrameDecoder, Message};
use onionskin_tests::loads::hostile::{ATTACKS, Attack, Target, message};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Returns the number of allocations, and their bytes, that an attack of about `bytes` bytes
/// causes.
fn cost(attack: &Attack, bytes: usize) -> (usize, usize) {
    let act = attack.prepare(bytes);
    let region = Region::new(ALLOCATOR);
    act();
    let change = region.change();
    (
        change.allocations + change.reallocations,
        change.bytes_allocated,
    )
}

/// The allocations, and their bytes, that an attack may cause in addition to those for its own
/// bytes. A reply to `hello` can name as many servers as a topology can have. Each server gets a
/// monitor, a connection and events.
const BASE: (usize, usize) = (12_000, 6 << 20);

fn assert_linear(attack: &Attack) {
    // A debug build needs about a second for a tenth of the longest reply to an operation.
    let parts = match attack.target {
        Target::Operation => [1000, 100, 10],
        Target::Hello(_) | Target::Pushes(..) => [100, 10, 1],
    };
    // For each `sent` bytes of an attack two allocations are permitted, and for each byte
    // `allocated` bytes. With a listener, each streamed reply of a few hundred bytes makes a new
    // map of the servers.
    let (sent, allocated) = match attack.target {
        Target::Hello(_) => (100, 4),
        Target::Pushes(_, false) => (20, 8),
        Target::Pushes(_, true) => (4, 200),
        Target::Operation => (40, 16),
    };
    for part in parts {
        let bytes = attack.target.bound() / part;
        let (count, size) = cost(attack, bytes);
        println!("{attack:?}: {bytes} bytes, {count} allocations of {size} bytes");
        let shown = format!("{attack:?}: {count} allocations, {size} bytes for {bytes} sent");
        assert!(count <= BASE.0 + 2 * bytes / sent, "{shown}");
        assert!(size <= BASE.1 + allocated * bytes, "{shown}");
    }
}

/// Asserts that the number of steps in which the message of an attack is decoded is linear in the
/// size of the message.
fn assert_steps(attack: &Attack) {
    for bytes in [1 << 10, 1 << 14, 1 << 18] {
        let frame = (attack.frame)(bytes);
        if let Ok(message) = Message::decode(&frame) {
            let steps = message.steps();
            assert!(
                steps <= frame.len() / 4 + 100,
                "{attack:?}: {steps} for {bytes}"
            );
        }
    }
}

/// Returns the number of bytes that a decoder moves for `stream`, which arrives in pieces of size
/// `piece`. With `copied`, each piece is copied into the decoder; without it, the pieces are read
/// into the decoder's spare room.
fn moved(stream: &[u8], piece: usize, copied: bool) -> u64 {
    let mut decoder = FrameDecoder::new();
    for piece in stream.chunks(piece) {
        let mut rest = piece;
        while !rest.is_empty() {
            let mut count = rest.len();
            if copied {
                decoder.extend(rest);
            } else {
                let room = decoder.spare().expect("valid");
                count = count.min(room.len());
                room[..count].copy_from_slice(&rest[..count]);
                decoder.filled(count);
            }
            rest = &rest[count..];
            while let Some((header, _)) = decoder.frame().expect("valid") {
                decoder.consume(header.length);
            }
        }
    }
    assert!(decoder.is_empty());
    decoder.moved()
}

fn assert_frames() {
    let small = message(&rawdoc! { "ok": 1 });
    let large = message(&rawdoc! { "ok": 1, "x": "x".repeat(700_000) });
    for copies in [1, 10, 100] {
        for frames in [&[small.clone()][..], &[small.clone(), large.clone()]] {
            let many = if frames.len() == 1 {
                100 * copies
            } else {
                copies / 10 + 1
            };
            let stream = frames.concat().repeat(many);
            for piece in [1, 7, 4096, stream.len()] {
                for copied in [true, false] {
                    let moved = moved(&stream, piece, copied);
                    // Each small frame can find an empty decoder, which then makes room for one
                    // read.
                    let room = 1024 * (stream.len() / small.len()) as u64;
                    let bound = 8 * stream.len() as u64 + room;
                    assert!(moved <= bound, "{moved} for {} in {piece}", stream.len());
                }
            }
        }
    }
}

/// A single test, because the counters include the allocations of all threads.
#[test]
fn work_and_memory_grow_at_most_linearly_with_the_bytes_a_server_sends() {
    assert_frames();
    for attack in &ATTACKS {
        assert_steps(attack);
        assert_linear(attack);
    }
}
