//! Pool that runs full: initiators are warned, then stunned, never told of a medium error.
//!
//! The space that they free can be used again.

use std::time::{Duration, Instant};

use testing::wait;

use super::*;

/// Sends LOG SENSE of the logical block provisioning page; returns the available and used threshold
/// sets.
fn provisioning(session: &mut Session) -> (u32, u32) {
    let data = ask(session, 0, &[0x4d, 0, 0x4c, 0, 0, 0, 0, 1, 0, 0]);
    assert_eq!(data[..2], [0x0c, 0]);
    let number = |at: usize| u32::from_be_bytes(data[at..at + 4].try_into().unwrap());
    assert_eq!(
        (data[4..7].to_vec(), data[16..19].to_vec()),
        (vec![0, 1, 3], vec![0, 2, 3])
    );
    // Shared by all units of the pool; this unit's own.
    assert_eq!((data[12], data[24]), (0b10, 0b01));
    (number(8), number(20))
}

#[test]
fn a_full_pool_warns_stuns_and_recovers() {
    let bench = Bench::new("--size 256M a");
    bench.unit(0, "vm --size 1G --threshold 50");
    bench.unit(1, "other --size 1G");
    let mut session = bench.log_in(1, 2);
    let start = Instant::now();
    let (mut mebibyte, mut was_warned) = (0, false);
    let stunned = loop {
        let told = write(&mut session, 0, mebibyte * 2048, &noise(2048, mebibyte));
        match sense(&told) {
            None => mebibyte += 1,
            // THIN PROVISIONING SOFT THRESHOLD REACHED; the count of the threshold became known.
            Some([6, 0x38, 0x07]) => was_warned = true,
            Some([6, 0x2a, 0x01]) => {}
            Some(stunned) => break stunned,
        }
        assert!(start.elapsed() < Duration::from_secs(300), "it never fills");
        // The monitor looks once a second, and shall see the threshold before the end.
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(stunned, [7, 0x27, 0x07]);
    assert!(was_warned, "at {mebibyte} MiB");
    assert!((150..250).contains(&mebibyte), "{mebibyte} MiB");
    // The other unit is stunned too; all written data is there.
    let told = write(&mut session, 1, 0, &noise(2048, 1000));
    assert_eq!(sense(&told), Some([7, 0x27, 0x07]));
    let hindrances = |bench: &Bench| bench.process.done("lu list -H -o name,state,hindrances");
    assert_eq!(
        hindrances(&bench),
        "vm\tonline,full\tthreshold,full\nother\tonline,full\tfull\n"
    );
    let told = bench.process.done("status");
    assert!(told.contains("sandstone pool add tank VDEV"), "{told}");
    for at in [0, mebibyte / 2, mebibyte - 1] {
        assert_eq!(read(&mut session, 0, at * 2048, 2048), noise(2048, at));
    }
    let counts = || provisioning(&mut session);
    wait::until_seen("little is available", counts, |(available, _)| {
        *available <= 8
    });
    // Freed space is used again, by either unit.
    assert_eq!(sense(&unmap(&mut session, 0, 0, 64 * 2048)), None);
    assert_eq!(sense(&write(&mut session, 1, 0, &noise(2048, 1000))), None);
    assert_eq!(
        sense(&write(&mut session, 0, 2048, &noise(2048, 2000))),
        None
    );
    assert_eq!(read(&mut session, 1, 0, 2048), noise(2048, 1000));
    assert_eq!(read(&mut session, 0, 0, 1), vec![0; BLOCK]);
    // The counts follow.
    let counts = || provisioning(&mut session);
    wait::at_most(Duration::from_secs(90)).until_seen(
        "they follow",
        counts,
        |(available, used)| *available > 32 && (64..200).contains(used),
    );
    let told = hindrances(&bench);
    assert!(!told.contains("full"), "{told}");
}
