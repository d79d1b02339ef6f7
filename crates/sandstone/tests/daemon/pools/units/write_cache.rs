//! The unit reports its real write cache: its own choice, or the result of the volume's `sync`.

use testing::wait;

use super::*;

/// Waits until the unit reports that its mode parameters changed.
fn told_of_change(session: &mut Session) {
    let told = wait::until_some("the unit tells something", || {
        sense(&session.read(0, &[0; 6], 0).unwrap())
    });
    assert_eq!(told, [6, 0x2a, 1]);
}

/// Returns the current, changeable, default and saved WCE.
fn wce(session: &mut Session) -> [u8; 4] {
    [0, 1, 2, 3].map(|control| caching(session, 0, control).0)
}

fn select(session: &mut Session, wce: u8) -> Option<[u8; 3]> {
    let mut list = vec![0; 4];
    list.extend_from_slice(&[0x08, 18, wce]);
    list.resize(24, 0);
    let told = session.write(0, &[0x15, 0x10, 0, 0, 24, 0], list);
    sense(&told.unwrap())
}

#[test]
fn sync_decides_what_is_told_of_the_write_cache() {
    let bench = Bench::new("--size 256M a");
    bench.unit(0, "vm --size 64M");
    let mut session = bench.log_in(1, 1);
    assert_eq!(wce(&mut session), [0, 4, 0, 0], "write-through by default");
    assert_eq!(select(&mut session, 4), None);
    assert_eq!(wce(&mut session), [4, 4, 0, 0]);
    bench.process.done("volume set sync=always tank/vm");
    told_of_change(&mut session);
    assert_eq!(wce(&mut session), [0; 4]);
    assert_eq!(select(&mut session, 4), Some([5, 0x26, 0]));
    let shown = bench.process.done("lu list -H -o name,cache");
    assert_eq!(shown, "vm\twrite-through\n");
    bench.process.done("volume set sync=disabled tank/vm");
    told_of_change(&mut session);
    assert_eq!(wce(&mut session), [4, 0, 4, 4], "nothing is durable");
    assert_eq!(select(&mut session, 0), Some([5, 0x26, 0]));
    let shown = bench.process.done("lu list -H -o name,cache");
    assert_eq!(shown, "vm\twrite-back\n");
    bench.process.done("volume inherit sync tank/vm");
    told_of_change(&mut session);
    assert_eq!(wce(&mut session), [4, 4, 0, 0], "what was asked for before");
}

/// Data acknowledged as durable outlives a kill: write-through, FUA, and before SYNCHRONIZE CACHE.
#[test]
fn what_is_durable_outlives_a_kill() {
    let mut bench = Bench::new("--size 256M a b");
    bench.unit(0, "through --size 32M");
    bench.unit(1, "back --size 32M --write-cache");
    bench.unit(2, "always --size 32M --write-cache");
    bench.process.done("volume set sync=always tank/always");
    for round in 0..4_u64 {
        let mut session = bench.log_in(1, 3);
        let data = |lun: u64| noise(24, 100 * round + lun);
        let lba = 5 + 31 * round;
        assert_eq!(sense(&write(&mut session, 0, lba, &data(0))), None);
        // FUA, alone.
        let mut fua = cdb(0x8a, lba, 24);
        fua[1] = 0x08;
        let told = session.write(1, &fua, data(1)).unwrap();
        assert_eq!(sense(&told), None);
        // Written, then SYNCHRONIZE CACHE(16).
        assert_eq!(sense(&write(&mut session, 1, lba + 1000, &data(2))), None);
        let told = session.read(1, &cdb(0x91, 0, 0), 0).unwrap();
        assert_eq!(sense(&told), None);
        assert_eq!(sense(&write(&mut session, 2, lba, &data(3))), None);
        bench.process.kill();
        bench.process.restart();
        let mut session = bench.log_in(2, 3);
        assert_eq!(read(&mut session, 0, lba, 24), data(0), "{round}");
        assert_eq!(read(&mut session, 1, lba, 24), data(1), "{round}");
        assert_eq!(read(&mut session, 1, lba + 1000, 24), data(2), "{round}");
        assert_eq!(read(&mut session, 2, lba, 24), data(3), "{round}");
    }
}
