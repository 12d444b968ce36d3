//! What a hostile peer can cost grows no faster than what it sends. Counted, not timed: allocations
//! and their bytes, bytes that the decoder of frames moves, steps of the decoder of messages. Wall
//! times are in `benches/hostile.rs`.

use bson::rawdoc;
use onionskin_core::wire::{FrameDecoder, Message};
use onionskin_tests::loads::hostile::{ATTACKS, Attack, Place, message};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Allocations, and their bytes, for an attack with so many bytes.
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

/// What an attack may cost beside what its bytes cost. A hello may name as many servers as a
/// topology can have, each with a monitor, its connection and the events that tell of them.
const BASE: (usize, usize) = (12_000, 6 << 20);

fn assert_linear(attack: &Attack) {
    // A tenth of the bound of operations is as much as a test build reads in a second.
    let parts = match attack.place {
        Place::Operation => [1000, 100, 10],
        Place::Hello(_) | Place::Pushes(..) => [100, 10, 1],
    };
    // Bytes sent for one allocation, and bytes allocated for each byte sent. With a listener each
    // push makes a new map of the servers, for some hundred bytes sent.
    let (sent, allocated) = match attack.place {
        Place::Hello(_) => (100, 4),
        Place::Pushes(_, false) => (20, 8),
        Place::Pushes(_, true) => (4, 200),
        Place::Operation => (40, 16),
    };
    for part in parts {
        let bytes = attack.place.bound() / part;
        let (count, size) = cost(attack, bytes);
        println!("{attack:?}: {bytes} bytes, {count} allocations of {size} bytes");
        let shown = format!("{attack:?}: {count} allocations, {size} bytes for {bytes} sent");
        assert!(count <= BASE.0 + 2 * bytes / sent, "{shown}");
        assert!(size <= BASE.1 + allocated * bytes, "{shown}");
    }
}

/// The steps of decoding a message of the worst kind.
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

/// Bytes that a decoder moves for `stream`, which arrives in pieces of this size.
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
    let large = message(&rawdoc! { "ok": 1, "x": "x".repeat(200_000) });
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
                    // Each small frame may find an empty decoder, which makes room for one read.
                    let room = 1024 * (stream.len() / small.len()) as u64;
                    let bound = 8 * stream.len() as u64 + room;
                    assert!(moved <= bound, "{moved} for {} in {piece}", stream.len());
                }
            }
        }
    }
}

/// One test, because the allocations of all threads are counted.
#[test]
fn what_a_peer_sends_costs_no_more_than_in_proportion() {
    assert_frames();
    for attack in &ATTACKS {
        assert_steps(attack);
        assert_linear(attack);
    }
}
