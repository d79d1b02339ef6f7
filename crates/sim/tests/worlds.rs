//! Tests of whole worlds from seeds, around the product's own target. Every command ends once,
//! reads return the written data, order is kept, and no write lands that must not, whatever the
//! network, the disks and the administrator do. `SANDSTONE_SEED=<seed>` runs one seed alone, and
//! `SANDSTONE_TIMES=<n>` n times as many seeds.

use std::ops::Range;

use sim::world::{Climate, Report, run};

fn all(test: &'static str, seeds: Range<u64>, climate: Climate) -> Vec<Report> {
    let seeds = match std::env::var("SANDSTONE_SEED") {
        Ok(seed) => vec![seed.parse().expect("SANDSTONE_SEED is a number")],
        Err(_) => {
            let times =
                std::env::var("SANDSTONE_TIMES").map_or(1, |it| it.parse().expect("a number"));
            (seeds.start..seeds.start + (seeds.end - seeds.start) * times).collect()
        }
    };
    let run_one = |seed| {
        let named = NamedOnPanic(test, seed);
        let report = run(seed, climate);
        drop(named);
        assert_eq!(report.ended, (3 + climate.hogs as u64) * climate.commands);
        report
    };
    seeds.into_iter().map(run_one).collect()
}

/// Reports whether a count is above zero in all worlds together. A single seed always passes.
fn met(reports: &[Report], count: impl Fn(&Report) -> u64) -> bool {
    reports.len() == 1 || reports.iter().map(count).sum::<u64>() > 0
}

struct NamedOnPanic(&'static str, u64);

impl Drop for NamedOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self(test, seed) = self;
            eprintln!("again: SANDSTONE_SEED={seed} cargo test -p sim --test worlds {test}");
        }
    }
}

#[test]
fn calm_weather_needs_one_connection_each() {
    let test = "calm_weather_needs_one_connection_each";
    for report in all(test, 0..30, Climate::CALM) {
        assert_eq!((report.connections, report.given_up), (3, 0));
        assert_eq!(report.refusals, 0, "no command is refused in calm weather");
    }
}

#[test]
fn bytes_that_come_one_by_one_are_enough() {
    let climate = Climate {
        commands: 25,
        single_bytes: true,
        ..Climate::CALM
    };
    all("bytes_that_come_one_by_one_are_enough", 100..105, climate);
}

#[test]
fn connections_are_cut_at_any_byte() {
    let climate = Climate {
        cuts_per_mille: 60,
        ..Climate::CALM
    };
    let reports = all("connections_are_cut_at_any_byte", 200..240, climate);
    assert!(met(&reports, |it| it.connections.saturating_sub(10)));
}

#[test]
fn silent_peers_are_noticed_in_time_and_slow_ones_are_not_given_up() {
    let climate = Climate {
        silences_per_mille: 40,
        cuts_per_mille: 10,
        ..Climate::CALM
    };
    let test = "silent_peers_are_noticed_in_time_and_slow_ones_are_not_given_up";
    assert!(met(&all(test, 300..340, climate), |it| it.given_up));
}

/// A host closes a connection under its writes, and sends them again by another path.
#[test]
fn old_writes_of_a_closed_path_stay_behind_those_of_the_next() {
    let climate = Climate {
        paths: 2,
        partings_per_mille: 150,
        slow_per_mille: 200,
        ..Climate::CALM
    };
    let test = "old_writes_of_a_closed_path_stay_behind_those_of_the_next";
    assert!(met(&all(test, 400..430, climate), |it| it.partings));
}

/// A session comes back while a disk still writes for the one before.
#[test]
fn a_session_that_comes_back_waits_for_the_one_before() {
    let climate = Climate {
        cuts_per_mille: 80,
        slow_per_mille: 200,
        ..Climate::CALM
    };
    let test = "a_session_that_comes_back_waits_for_the_one_before";
    assert!(met(&all(test, 500..530, climate), |it| it.told_of_loss));
}

/// Each session's first command to a unit tells of the new nexus, and after a lost one of the loss.
#[test]
fn a_session_that_takes_over_is_told_of_the_lost_nexus() {
    let climate = Climate {
        cuts_per_mille: 100,
        ..Climate::CALM
    };
    let test = "a_session_that_takes_over_is_told_of_the_lost_nexus";
    assert!(met(&all(test, 600..620, climate), |it| it.told_of_loss));
}

#[test]
fn a_write_that_was_aborted_never_lands_after_the_answer() {
    let climate = Climate {
        aborts_per_mille: 300,
        slow_per_mille: 300,
        ..Climate::CALM
    };
    let test = "a_write_that_was_aborted_never_lands_after_the_answer";
    assert!(met(&all(test, 700..730, climate), |it| it.aborted));
}

#[test]
fn compare_and_write_is_atomic_among_writes() {
    let climate = Climate {
        counters_per_mille: 700,
        ..Climate::CALM
    };
    let reports = all(
        "compare_and_write_is_atomic_among_writes",
        800..830,
        climate,
    );
    assert!(met(&reports, |it| it.swapped) && met(&reports, |it| it.miscompared));
}

#[test]
fn a_host_that_is_fenced_off_writes_no_more() {
    let climate = Climate {
        paths: 2,
        fences_per_mille: 600,
        slow_per_mille: 100,
        cuts_per_mille: 20,
        ..Climate::CALM
    };
    let reports = all(
        "a_host_that_is_fenced_off_writes_no_more",
        900..930,
        climate,
    );
    assert!(met(&reports, |it| it.fenced) && met(&reports, |it| it.conflicts));
}

#[test]
fn a_path_that_has_left_service_writes_no_more() {
    let climate = Climate {
        paths: 2,
        changes_per_mille: 700,
        slow_per_mille: 50,
        ..Climate::CALM
    };
    let test = "a_path_that_has_left_service_writes_no_more";
    assert!(met(&all(test, 1000..1030, climate), |it| it.left_service));
}

#[test]
fn a_unit_that_is_deleted_under_commands_leaves_its_disk_alone() {
    let climate = Climate {
        scratch_per_mille: 500,
        changes_per_mille: 700,
        slow_per_mille: 20,
        cuts_per_mille: 20,
        ..Climate::CALM
    };
    let test = "a_unit_that_is_deleted_under_commands_leaves_its_disk_alone";
    let reports = all(test, 1100..1130, climate);
    assert!(met(&reports, |it| it.left_service) && met(&reports, |it| it.conflicts));
}

#[test]
fn a_session_has_its_floor_while_others_take_all_they_can() {
    let climate = Climate {
        commands: 40,
        hogs: 6,
        memory: 256 << 10,
        ..Climate::CALM
    };
    let test = "a_session_has_its_floor_while_others_take_all_they_can";
    assert!(met(&all(test, 1200..1212, climate), |it| it.refusals));
}

/// Everything at once.
const STORM: Climate = Climate {
    paths: 2,
    cuts_per_mille: 20,
    silences_per_mille: 5,
    partings_per_mille: 20,
    aborts_per_mille: 60,
    counters_per_mille: 100,
    fences_per_mille: 150,
    scratch_per_mille: 150,
    changes_per_mille: 300,
    dismissals_per_mille: 40,
    slow_per_mille: 30,
    failures_per_mille: 10,
    ..Climate::CALM
};

#[test]
fn all_of_it_at_once() {
    let reports = all("all_of_it_at_once", 2000..2040, STORM);
    assert!(met(&reports, |it| it.dismissed) && met(&reports, |it| it.aborted));
    assert!(met(&reports, |it| it.changes_refused));
}

/// The digest covers all events and all bytes.
#[test]
fn a_seed_is_one_world() {
    for seed in 7..10 {
        assert_eq!(run(seed, STORM), run(seed, STORM));
    }
}
