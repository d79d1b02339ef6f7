//! Who reads one range after another through a volume.

use super::*;

/// More than the small queue's share of the cache, by far.
const SIZE: u64 = 32 << 20;
const READ: usize = 64 << 10;
const STEP: usize = 1 << 20;
const BLOCK: u64 = 16 << 10;

/// What is written at such a place.
fn of(at: u64) -> Vec<u8> {
    pattern(STEP, (at >> 20) as u8)
}

#[test]
fn a_long_reader_leaves_memory_to_others_and_reads_what_was_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut lane = Lane::standing().expect("a lane");
    let pools = pools(folder.path());
    pools
        .create(&request(folder.path(), VdevKind::Disk, 1))
        .expect("a pool");
    create_volume(&pools, "tank/a", SIZE);
    let volume = pools.open_volume("tank/a", 4096).expect("opens");
    for at in (0..SIZE).step_by(STEP) {
        write(&volume, &mut lane, at, &of(at), false);
    }
    let (_, pool) = pools.all().pop().expect("a pool");
    let cache = pool.host.cache();
    let found = |pool: &store::pool::Pool| pool.catalog().find("a").map(|of| of.id);
    let id = pool.host.ask(found).expect("it answers");
    let id = id.expect("there is one").0.into();
    // Writes filled it.
    ask(&volume, &mut lane, Request::Flush).expect("flushed");
    let held = cache.volume_statistics(id).block_bytes;
    assert!(held > cache.cap() as u64 / 2, "{held}");
    for at in (0..SIZE).step_by(STEP) {
        let right = of(at);
        for start in (0..STEP).step_by(READ) {
            let bytes = read(&volume, &mut lane, at + start as u64, READ as u32);
            assert!(bytes == right[start..][..READ], "at {at} + {start}");
        }
    }
    // It was long by then, and these were not in memory.
    let middle = SIZE / 4 / BLOCK..SIZE / 2 / BLOCK - 64;
    let kept = middle.filter(|block| {
        cache.holds(store::cache::Key {
            volume: id,
            block: *block,
        })
    });
    let kept = kept.count();
    assert!(
        kept < 32,
        "{kept} blocks of those that it has read are kept"
    );
}
