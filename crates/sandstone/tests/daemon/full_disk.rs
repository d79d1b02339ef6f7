//! Thin unit on a file system that fills up, over a real session.
//!
//! Initiators are warned at the threshold. A full disk is reported as 07/27/07 and nothing else.
//! Nothing acknowledged is lost, and writes go on when there is space again.

use std::path::Path;
use std::time::Duration;

use crate::served::{self, BLOCK, Served, read, sense, test_unit_ready, unit, write};
use crate::small_folder::inside_small_folder;
use initiator::connection::Connection;
use model::config::{BackendSpec, UnitSpec};
use testing::wait;

const SPACE_ALLOCATION_FAILED: Option<[u8; 3]> = Some([0x07, 0x27, 0x07]);
const SOFT_THRESHOLD_REACHED: [u8; 3] = [0x06, 0x38, 0x07];
const CHUNK: usize = 256 << 10;
const CHUNK_BLOCKS: u64 = (CHUNK / BLOCK) as u64;

#[test]
fn a_full_disk_pauses_writers_and_loses_nothing() {
    let name = "full_disk::a_full_disk_pauses_writers_and_loses_nothing";
    let Some(folder) = inside_small_folder(name) else {
        return;
    };
    for write_cache in [false, true] {
        fill(&folder, write_cache);
    }
}

fn fill(folder: &Path, write_cache: bool) {
    let file = folder.join("unit.img");
    let _ = std::fs::remove_file(&file);
    std::fs::File::create(&file)
        .unwrap()
        .set_len(64 << 20)
        .unwrap();
    // A file of another user; space comes back when it goes.
    let ballast = folder.join("ballast");
    std::fs::write(&ballast, vec![1; 4 << 20]).unwrap();
    let mut served = Served::start(vec![UnitSpec {
        threshold_percent: Some(75),
        write_cache,
        ..unit(
            "unit",
            1,
            BackendSpec::File {
                path: file.clone(),
                size: 64 << 20,
                preallocate: false,
            },
        )
    }]);
    let mut session = served.log_in(1);
    wait::throughout(Duration::from_secs(2), || {
        let is_told = tells_threshold(&mut session);
        assert!(!is_told, "told before the threshold was reached");
    });
    // 4 MiB of ballast and 8 MiB of ours are three quarters of 16 MiB.
    for chunk in 0..33 {
        assert_eq!(sense(&store(&mut session, chunk)), None, "chunk {chunk}");
    }
    hear_threshold(&mut session);
    let mut acknowledged = 33;
    let refused = loop {
        let outcome = store(&mut session, acknowledged);
        if outcome.status != Some(0) {
            break outcome;
        }
        acknowledged += 1;
        assert!(acknowledged < 64, "16 MiB hold no more");
    };
    assert_eq!(sense(&refused), SPACE_ALLOCATION_FAILED, "{refused:?}");
    for _ in 0..8 {
        let again = store(&mut session, acknowledged);
        assert_eq!(sense(&again), SPACE_ALLOCATION_FAILED, "{again:?}");
    }
    // Zeros that allocate, and all other commands that need space.
    let same = session.write(0, &served::cdb(0x93, 120_000, 4096), vec![7; BLOCK]);
    assert_eq!(sense(&same.unwrap()), SPACE_ALLOCATION_FAILED);
    assert_eq!(
        flush(&mut session),
        None,
        "what was acknowledged can be made durable"
    );
    // Blocks that have their space can be written, and everything can be read.
    assert_eq!(sense(&store(&mut session, 3)), None);
    verify(&mut session, acknowledged);
    std::fs::remove_file(&ballast).unwrap();
    assert_eq!(
        sense(&store(&mut session, acknowledged)),
        None,
        "space again"
    );
    acknowledged += 1;
    verify(&mut session, acknowledged);
    // UNMAP gives space back, and the threshold can be reached anew.
    let mut list = vec![0, 22, 0, 16, 0, 0, 0, 0];
    list.extend(0_u64.to_be_bytes());
    list.extend(((acknowledged * CHUNK_BLOCKS) as u32).to_be_bytes());
    list.extend([0; 4]);
    let unmap = session.write(0, &[0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0], list);
    assert_eq!(sense(&unmap.unwrap()), None);
    // Nothing shows that the monitor, which looks once a second, has seen the space.
    std::thread::sleep(Duration::from_secs(3));
    let mut heard = false;
    for chunk in 0..acknowledged {
        let outcome = store(&mut session, chunk);
        if sense(&outcome) == Some(SOFT_THRESHOLD_REACHED) {
            heard = true;
            assert_eq!(sense(&store(&mut session, chunk)), None);
        }
    }
    if !heard {
        hear_threshold(&mut session);
    }
    drop(session);
    // None of it depends on the daemon that saw it.
    served.restart();
    let mut session = served.log_in(1);
    hear_threshold(&mut session);
    verify(&mut session, acknowledged);
}

/// Waits for the unit attention of the threshold.
fn hear_threshold(session: &mut Connection) {
    wait::until("the threshold is told", || tells_threshold(session));
}

fn tells_threshold(session: &mut Connection) -> bool {
    match test_unit_ready(session) {
        Some(SOFT_THRESHOLD_REACHED) => true,
        // The threshold's count became known.
        None | Some([0x06, 0x2a, 0x01]) => false,
        other => panic!("{other:02x?}"),
    }
}

fn content(chunk: u64) -> Vec<u8> {
    (0..CHUNK)
        .map(|at| (chunk as usize * 31 + at / BLOCK * 7 + at) as u8 | 1)
        .collect()
}

/// Writes a chunk. A unit attention that comes instead is taken, and the write is repeated.
fn store(session: &mut Connection, chunk: u64) -> initiator::connection::Outcome {
    loop {
        let outcome = write(session, chunk * CHUNK_BLOCKS, &content(chunk));
        match outcome.status {
            Some(2) if outcome.sense[2] & 0x0f == 6 && outcome.sense[12] == 0x2a => {}
            _ => return outcome,
        }
    }
}

fn flush(session: &mut Connection) -> Option<[u8; 3]> {
    sense(&session.read(0, &served::cdb(0x91, 0, 0), 0).unwrap())
}

fn verify(session: &mut Connection, chunks: u64) {
    for chunk in 0..chunks {
        let data = read(session, chunk * CHUNK_BLOCKS, CHUNK_BLOCKS as u32);
        assert!(
            data == content(chunk),
            "chunk {chunk} is not what was written"
        );
    }
}
