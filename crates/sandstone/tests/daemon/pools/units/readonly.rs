//! A volume's `readonly` is the unit's write protection: reported, and enforced.

use super::*;

/// Reports the WP bit of MODE SENSE.
fn is_protected(session: &mut Session) -> bool {
    caching(session, 0, 0).1 & 0x80 != 0
}

fn hears(session: &mut Session) -> Option<[u8; 3]> {
    sense(&session.read(0, &[0; 6], 0).unwrap())
}

#[test]
fn readonly_is_told_as_write_protection_and_kept() {
    let mut bench = Bench::new("--size 256M a");
    bench.unit(0, "vm --size 64M");
    let mut session = bench.log_in(1, 1);
    let (old, new) = (noise(8, 1), noise(8, 2));
    assert_eq!(sense(&write(&mut session, 0, 0, &old)), None);
    assert!(!is_protected(&mut session));
    bench.process.done("volume set readonly=on tank/vm");
    assert_eq!(
        hears(&mut session),
        Some([6, 0x2a, 1]),
        "it is told at once"
    );
    assert_eq!(hears(&mut session), None, "and once");
    assert!(is_protected(&mut session));
    assert_eq!(sense(&write(&mut session, 0, 0, &new)), Some([7, 0x27, 0]));
    assert_eq!(sense(&unmap(&mut session, 0, 0, 8)), Some([7, 0x27, 0]));
    assert_eq!(read(&mut session, 0, 0, 8), old);
    let state = |bench: &Bench| bench.process.done("lu list -H -o name,state");
    assert_eq!(state(&bench), "vm\tonline,ro\n");
    let told = bench.process.done("lu list");
    let end = "read-only-beneath: its backend takes no writes; to end it: sandstone volume set readonly=off tank/vm\n";
    assert!(told.contains(end), "{told}");
    // The output of another change does not mention it.
    bench.process.done("volume set compression=off tank/vm");
    assert_eq!(hears(&mut session), None);
    bench.process.kill();
    bench.process.restart();
    let mut session = bench.log_in(2, 1);
    assert!(is_protected(&mut session), "from the beginning");
    assert_eq!(sense(&write(&mut session, 0, 0, &new)), Some([7, 0x27, 0]));
    bench.process.done("volume inherit readonly tank/vm");
    assert_eq!(hears(&mut session), Some([6, 0x2a, 1]));
    assert!(!is_protected(&mut session));
    assert_eq!(sense(&write(&mut session, 0, 0, &new)), None);
    assert_eq!(read(&mut session, 0, 0, 8), new);
    assert_eq!(state(&bench), "vm\tonline\n");
    // Set from above, and beside the unit's own protection.
    bench.process.done("lu modify vm --read-only yes --yes");
    assert_eq!(hears(&mut session), Some([6, 0x2a, 1]));
    bench.process.done("volume set readonly=on tank");
    assert_eq!(hears(&mut session), None, "it was protected before");
    bench.process.done("lu modify vm --read-only no");
    assert_eq!(hears(&mut session), None, "and is after");
    assert_eq!(sense(&write(&mut session, 0, 0, &old)), Some([7, 0x27, 0]));
    bench.process.done("volume inherit readonly tank");
    assert_eq!(hears(&mut session), Some([6, 0x2a, 1]));
    assert_eq!(sense(&write(&mut session, 0, 0, &old)), None);
}
