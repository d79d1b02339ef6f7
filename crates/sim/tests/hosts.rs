//! Tests of two hosts at one pool (`sim::hosts`): a bounded run of each family, with its counts and
//! seeds.
//!
//! `SANDSTONE_HISTORIES=<count>` runs this number of seeds of each family, from
//! `SANDSTONE_FIRST=<seed>` on.

use sim::hosts::{Tally, Trouble, run};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn withstands(trouble: Trouble, histories: u64) -> Tally {
    let first = number("SANDSTONE_FIRST").unwrap_or(0);
    let count = number("SANDSTONE_HISTORIES").unwrap_or(histories);
    let mut tally = Tally::default();
    for seed in first..first + count {
        tally += run(trouble, seed).unwrap_or_else(|broken| panic!("{broken}"));
    }
    assert!(tally.snapshots > tally.openings / 4, "{tally}");
    println!(
        "{}, seeds {first} to {}: {tally}",
        trouble.name(),
        first + count - 1
    );
    tally
}

#[test]
fn an_import_never_stops_the_host_that_has_the_pool() {
    let tally = withstands(Trouble::None, 40);
    assert_eq!((tally.silent, tally.foreign), (0, 0), "{tally}");
    assert!(tally.active > 2 * tally.histories, "{tally}");
}

#[test]
fn a_paused_or_killed_host_acknowledges_nothing_once_another_one_has_the_pool() {
    let tally = withstands(Trouble::Hosts, 60);
    assert!(tally.takeovers > tally.histories, "{tally}");
    assert!(
        tally.silent + tally.foreign > tally.histories / 2,
        "{tally}"
    );
}

#[test]
fn slow_disks_and_pulled_cables_never_give_a_pool_two_owners() {
    let tally = withstands(Trouble::HostsAndDisks, 60);
    assert!(tally.takeovers > tally.histories / 3, "{tally}");
    assert!(tally.cables > 0, "{tally}");
}

#[test]
fn two_hosts_that_import_at_once_do_not_both_win() {
    let tally = withstands(Trouble::Together, 60);
    assert!(tally.openings > tally.histories, "{tally}");
}

/// A short watch may take the pool from a clone that is only paused. The clone sees the claim when
/// it wakes.
#[test]
fn clones_of_one_machine_do_not_both_have_the_pool() {
    let tally = withstands(Trouble::Clones, 60);
    assert!(tally.openings > tally.histories, "{tally}");
    assert!(tally.foreign > 0, "{tally}");
}

/// Seeds that found faults of earlier builds.
#[test]
fn what_was_found_once_stays_mended() {
    let found = [
        // The only leaf of a vdev says where the log ends, also if it missed writes that failed.
        (Trouble::HostsAndDisks, 1_099_512_000_019),
    ];
    for (trouble, seed) in found {
        if let Err(broken) = run(trouble, seed) {
            panic!("{broken}");
        }
    }
}
