//! Snapshots of several units are of one moment.
//!
//! Each writer writes to the second unit only after the first unit has acknowledged its write. No
//! snapshot has the second write without the first one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;

const SNAPSHOTS: usize = 12;
/// Number of writers; each counts in a block of the volume of its own.
const WRITERS: u64 = 3;

/// Returns a block filled with a number.
fn numbered(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(BLOCK / 8)
}

fn number_in(data: &[u8]) -> u64 {
    let number = u64::from_le_bytes(data[..8].try_into().unwrap());
    assert_eq!(data, numbered(number), "torn");
    number
}

fn lba_of(writer: u64) -> u64 {
    // The blocks are apart from each other, and not at the start of a volume's block.
    writer * 4096 + 3
}

/// Counts in the first unit, then in the second, until it is told to stop.
fn count(mut session: Session, writer: u64, is_over: &AtomicBool, counted: &AtomicU64) {
    let mut number = 0;
    while !is_over.load(Ordering::Relaxed) {
        number += 1;
        for lun in [0, 1] {
            let told = write(&mut session, lun, lba_of(writer), &numbered(number));
            assert_eq!(sense(&told), None);
        }
        counted.store(number, Ordering::SeqCst);
    }
}

#[test]
fn snapshots_of_a_group_are_of_one_moment_under_load() {
    let bench = Bench::new("--size 512M disk-a disk-b");
    bench.unit(0, "a --size 32M");
    bench.unit(1, "b --size 32M --write-cache");
    let is_over = Arc::new(AtomicBool::new(false));
    let counts: Vec<Arc<AtomicU64>> = (0..WRITERS).map(|_| Arc::default()).collect();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let session = bench.log_in(1 + writer as u8, 2);
            let (is_over, counted) = (is_over.clone(), counts[writer as usize].clone());
            std::thread::spawn(move || count(session, writer, &is_over, &counted))
        })
        .collect();
    // Numbers that both units had acknowledged before each snapshot was asked for.
    let mut acknowledged = Vec::new();
    for number in 0..SNAPSHOTS {
        acknowledged.push(counts.each_of());
        // Every second one by its folder.
        if number % 2 == 0 {
            let line = format!("volume snapshot tank/b@s{number} tank/a@s{number}");
            bench.process.done(&line);
        } else {
            bench
                .process
                .done(&format!("volume snapshot -r tank@s{number}"));
        }
    }
    is_over.store(true, Ordering::Relaxed);
    writers
        .into_iter()
        .for_each(|writer| writer.join().unwrap());
    for number in 0..SNAPSHOTS {
        for (at, name) in ["a", "b"].into_iter().enumerate() {
            let lun = 2 + 2 * number as u16 + at as u16;
            bench.unit(
                lun,
                &format!("{name}{number} --volume tank/{name}@s{number}"),
            );
        }
    }
    let mut session = bench.log_in(9, 2 + 2 * SNAPSHOTS as u64);
    let mut is_between = false;
    for (number, before) in acknowledged.iter().enumerate() {
        for (writer, before) in (0..WRITERS).zip(before) {
            let [a, b] = [0, 1].map(|at| {
                let lun = 2 + 2 * number as u64 + at;
                number_in(&read(&mut session, lun, lba_of(writer), 1))
            });
            assert!(a >= b, "snapshot {number}: {b} of b without {a} of a");
            assert!(a <= b + 1, "snapshot {number}: {a} of a, {b} of b");
            assert!(b >= *before, "snapshot {number}: {before} was acknowledged");
            is_between |= a > b;
        }
    }
    assert!(counts.each_of().iter().all(|count| *count > 20), "no load");
    assert!(
        is_between,
        "no snapshot was taken while writes were under way"
    );
}

/// Reader of the present values of several counters.
trait EachOf {
    fn each_of(&self) -> Vec<u64>;
}

impl EachOf for Vec<Arc<AtomicU64>> {
    fn each_of(&self) -> Vec<u64> {
        self.iter()
            .map(|count| count.load(Ordering::SeqCst))
            .collect()
    }
}
