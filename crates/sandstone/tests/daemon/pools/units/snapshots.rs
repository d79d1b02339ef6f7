//! Snapshots and clones as logical units.

use super::*;

#[test]
fn a_snapshot_is_a_unit_that_nobody_writes_and_a_clone_is_one_of_its_own() {
    let mut bench = Bench::new("--size 512M a");
    bench.unit(0, "vm --size 64M");
    let mut session = bench.log_in(1, 1);
    let monday = noise(64, 1);
    assert_eq!(sense(&write(&mut session, 0, 3, &monday)), None);
    bench.process.done("volume snapshot tank/vm@monday");
    bench.process.done("volume clone tank/vm@monday tank/copy");
    bench.unit(1, "monday --volume tank/vm@monday");
    bench.unit(2, "copy --volume tank/copy");
    let mut session = bench.log_in(1, 3);
    let tuesday = noise(64, 2);
    assert_eq!(sense(&write(&mut session, 0, 3, &tuesday)), None);
    assert_eq!(sense(&write(&mut session, 2, 30, &tuesday)), None);
    let look = |session: &mut Session| {
        assert_eq!(read(session, 0, 3, 64), tuesday);
        assert_eq!(read(session, 1, 3, 64), monday);
        assert_eq!(read(session, 2, 3, 27), monday[..27 * BLOCK]);
        assert_eq!(read(session, 2, 30, 64), tuesday);
        assert_eq!(lba_status(session, 1, 0)[0], (0, 96, 0));
        // WP.
        assert_eq!(
            [0, 1, 2].map(|lun| caching(session, lun, 0).1 & 0x80),
            [0, 0x80, 0]
        );
        for told in [
            write(session, 1, 3, &tuesday),
            unmap(session, 1, 0, 64),
            session.write(1, &cdb(0x93, 0, 8), vec![0; BLOCK]).unwrap(),
        ] {
            assert_eq!(sense(&told), Some([7, 0x27, 0]), "WRITE PROTECTED");
        }
    };
    look(&mut session);
    bench.process.kill();
    bench.process.restart();
    look(&mut bench.log_in(1, 3));

    let listed = bench.process.done("lu list -H -o name,state,backend");
    let expected =
        "copy\tonline\ttank/copy\nmonday\tonline,ro\ttank/vm@monday\nvm\tonline\ttank/vm\n";
    let mut lines: Vec<&str> = listed.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines.join("\n") + "\n", expected);
    let text = bench.process.refused("lu modify monday --read-only no");
    assert!(
        text.contains("is a snapshot, which cannot be written"),
        "{text}"
    );
    for line in [
        "volume destroy -y -R tank/vm@monday",
        "volume destroy -y -r tank/copy",
    ] {
        let text = bench.process.refused(line);
        assert!(text.contains("serves it"), "{text}");
    }
}

/// A `-R` destroys clones too: none of them may be served, whichever dataset is named.
#[test]
fn what_a_unit_serves_does_not_go_with_what_it_was_cloned_of() {
    let bench = Bench::new("--size 512M a");
    bench.process.done("volume create -V 64M tank/vm");
    bench.process.done("volume snapshot tank/vm@monday");
    bench.process.done("volume clone tank/vm@monday tank/copy");
    bench.process.done("volume snapshot tank/copy@now");
    bench.unit(0, "copy --volume tank/copy@now");
    for line in [
        "volume destroy -y -R tank/vm",
        "volume destroy -y -R tank/vm@monday",
        "volume destroy -y -r tank/copy",
        "volume rollback -R tank/vm@monday",
    ] {
        let (is_done, text) = bench.process.verb(line);
        let is_harmless = line.contains("rollback");
        assert_eq!(is_done, is_harmless, "{line}: {text}");
        let reason = "tank/copy@now is busy: lu copy serves it";
        assert!(is_done || text.contains(reason), "{line}: {text}");
    }
    let mut session = bench.log_in(1, 1);
    assert_eq!(read(&mut session, 0, 0, 8), vec![0; 8 * BLOCK]);
    bench.process.done("lu delete -y copy");
    bench.process.done("volume destroy -y -R tank/vm");
    assert_eq!(bench.process.done("volume list -H -o name"), "tank\n");
}

/// A unit on a snapshot follows it, whichever dataset is renamed.
#[test]
fn a_served_snapshot_is_followed_to_its_new_name() {
    let mut bench = Bench::new("--size 512M a");
    bench.process.done("volume create tank/vms");
    bench.process.done("volume create -V 64M tank/vms/vm");
    bench.process.done("volume snapshot tank/vms/vm@daily");
    bench
        .process
        .done("volume clone tank/vms/vm@daily tank/copy");
    bench.unit(0, "daily --volume tank/vms/vm@daily");
    let backend = |bench: &Bench| bench.process.done("lu list -H -o backend daily");
    for (line, name) in [
        (
            "volume rename tank/vms/vm@daily @older",
            "tank/vms/vm@older",
        ),
        ("volume rename -r tank/vms@older @old", "tank/vms/vm@old"),
        ("volume rename -r tank@old @daily", "tank/vms/vm@daily"),
        ("volume rename tank/vms tank/others", "tank/others/vm@daily"),
        ("volume promote tank/copy", "tank/copy@daily"),
    ] {
        bench.process.done(line);
        assert_eq!(backend(&bench).trim(), name, "{line}");
    }
    bench.process.kill();
    bench.process.restart();
    assert_eq!(backend(&bench).trim(), "tank/copy@daily");
    let mut session = bench.log_in(1, 1);
    assert_eq!(read(&mut session, 0, 0, 8), vec![0; 8 * BLOCK]);
    let refused = bench.process.refused("volume destroy -y -R tank/copy");
    assert!(
        refused.contains("tank/copy@daily is busy: lu daily serves it"),
        "{refused}"
    );
}
