//! Tests of whole storage networks: the product's initiator over its target, on simulated disks or
//! over its store. `SANDSTONE_SEED=<seed>` runs one seed alone.

use std::ops::Range;

use sim::san::{Family, Report};

/// Runs the worlds of these seeds, or the one that was asked for.
fn all(seeds: Range<u64>, family: Family) -> Report {
    let seeds = match std::env::var("SANDSTONE_SEED") {
        Ok(seed) => vec![seed.parse().expect("SANDSTONE_SEED is a number")],
        Err(_) => seeds.collect(),
    };
    let mut sum = Report::default();
    for seed in seeds {
        match family.run(seed) {
            Ok(report) => sum += report,
            Err(why) => panic!("again: SANDSTONE_SEED={seed}: {why}"),
        }
    }
    println!("{}: {sum}", family.name());
    sum
}

#[test]
fn calm_worlds_lose_no_session() {
    let sum = all(0..10, Family::Calm);
    assert_eq!((sum.faults, sum.logins), (0, sum.connections), "{sum}");
}

#[test]
fn old_writes_of_lost_sessions_never_land_over_newer_ones() {
    let sum = all(100..130, Family::Storm);
    assert!(sum.logins > 4 * sum.worlds, "sessions come back: {sum}");
}

#[test]
fn hosts_that_hand_blocks_to_each_other_find_what_was_made_durable() {
    let sum = all(400..420, Family::Hosts);
    assert!(sum.handed_over > sum.worlds, "{sum}");
}

#[test]
fn writes_that_a_crashed_target_left_to_its_disk_have_time_to_settle() {
    let sum = all(200..220, Family::LateDisk);
    assert!(sum.logins > 4 * sum.worlds, "{sum}");
}

#[test]
fn hosts_hand_blocks_to_each_other_although_old_writes_land_late() {
    let sum = all(300..308, Family::LateDiskHosts);
    assert!(sum.handed_over > sum.worlds, "{sum}");
}

#[test]
fn a_store_keeps_what_its_target_acknowledged_when_the_power_fails() {
    let sum = all(500..515, Family::Store);
    assert!(sum.logins > 4 * sum.worlds, "{sum}");
}

#[test]
fn hosts_hand_blocks_of_a_store_to_each_other() {
    let sum = all(600..610, Family::StoreHosts);
    assert!(sum.handed_over > sum.worlds, "{sum}");
}

#[test]
fn a_host_that_lost_its_reservation_writes_no_more() {
    let sum = all(700..708, Family::Reservations);
    assert!(sum.takeovers > 2 * sum.worlds, "{sum}");
}

#[test]
fn a_seed_is_one_world() {
    for family in Family::ALL {
        assert_eq!(family.run(107), family.run(107), "{}", family.name());
    }
}
