//! Tests of a reader that reads one range after another through a volume.

use store::cache::{Cache, Key};

use super::*;
use model::pool::vdev_request::VdevKind;

/// Size of a volume: twice the cache, and far more than the cache's share for the small queue.
const SIZE: u64 = 32 << 20;
const READ: usize = 64 << 10;
const STEP: usize = 1 << 20;
const BLOCK: u64 = 16 << 10;

/// Returns the bytes that are written at a place.
fn of(at: u64) -> Vec<u8> {
    pattern(STEP, (at >> 20) as u8)
}

fn fill(volume: &PoolVolume, lane: &mut Lane) {
    for at in (0..SIZE).step_by(STEP) {
        write(volume, lane, at, &of(at), false);
    }
}

/// Returns the number of a volume's blocks in memory.
fn held(cache: &Cache, volume: u64) -> usize {
    let is_held = |block: &u64| {
        cache.holds(Key {
            volume,
            block: *block,
        })
    };
    (0..SIZE / BLOCK).filter(is_held).count()
}

#[test]
fn a_long_reader_leaves_memory_to_others_and_reads_what_was_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut lane = Lane::standing().expect("a lane");
    let (first, volume) = with_volume(folder.path(), (VdevKind::Disk, 1), SIZE, 4096);
    create_volume(&first, "tank/b", SIZE);
    fill(&volume, &mut lane);
    fill(
        &first.open_volume("tank/b", 4096).expect("opens"),
        &mut lane,
    );
    drop(volume);
    first.close();
    // From here on nothing is written, so the whole cache is for reads.
    let second = pools(folder.path());
    let (_, pool) = second.all().pop().expect("a pool");
    let cache = pool.host.cache();
    let number = |name: &'static str| -> u64 {
        let found = move |pool: &store::engine::Pool| pool.catalog().find(name).map(|of| of.id);
        let id = pool.host.ask(found).expect("it answers");
        id.expect("there is one").0.into()
    };
    let (a, b) = (number("a"), number("b"));
    // The cache fills with blocks of another, random reader.
    let other = second.open_volume("tank/b", 4096).expect("opens");
    for start in (0..STEP).step_by(READ) {
        for at in (0..SIZE).step_by(STEP) {
            read(&other, &mut lane, at + start as u64, READ as u32);
        }
    }
    let before = held(cache, b);
    assert!(before as u64 * BLOCK > cache.cap() as u64 / 2, "{before}");
    let volume = second.open_volume("tank/a", 4096).expect("opens");
    for at in (0..SIZE).step_by(STEP) {
        let right = of(at);
        for start in (0..STEP).step_by(READ) {
            let bytes = read(&volume, &mut lane, at + start as u64, READ as u32);
            assert!(bytes == right[start..][..READ], "at {at} + {start}");
        }
    }
    // The reader keeps the blocks of its beginning. The other's blocks are those that went before
    // the cache was full.
    let (kept, left) = (held(cache, a), held(cache, b));
    assert!(
        kept < before / 4 && left > before * 3 / 4,
        "{kept} of its blocks are kept, and of {before} of another {left} are left"
    );
}
