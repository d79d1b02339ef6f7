//! Whole worlds from seeds.
//!
//! Every command ends once, reads return the bytes that were written, and windows and order are
//! kept, whatever the network does. `SANDSTONE_SEED=<seed>` runs one seed alone.

use std::ops::Range;

use sim::world::{Climate, Report, run};

const CALM: Climate = Climate {
    commands: 120,
    cuts_per_mille: 0,
    silences_per_mille: 0,
    single_bytes: false,
};

fn all(seeds: Range<u64>, climate: Climate) -> Vec<Report> {
    let seeds = match std::env::var("SANDSTONE_SEED") {
        Ok(seed) => vec![seed.parse().expect("SANDSTONE_SEED is a number")],
        Err(_) => seeds.collect(),
    };
    let run_one = |seed| {
        let named = NamedOnPanic(seed);
        let report = run(seed, climate);
        drop(named);
        assert_eq!(report.good, 3 * climate.commands);
        report
    };
    seeds.into_iter().map(run_one).collect()
}

struct NamedOnPanic(u64);

impl Drop for NamedOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with SANDSTONE_SEED={}", self.0);
        }
    }
}

#[test]
fn calm_weather_needs_one_connection_each() {
    for report in all(0..40, CALM) {
        assert_eq!((report.connections, report.given_up), (3, 0));
    }
}

#[test]
fn bytes_that_come_one_by_one_are_enough() {
    let commands = 25;
    all(
        100..110,
        Climate {
            commands,
            single_bytes: true,
            ..CALM
        },
    );
}

#[test]
fn connections_are_cut_at_any_byte() {
    let reports = all(
        200..260,
        Climate {
            cuts_per_mille: 60,
            ..CALM
        },
    );
    assert!(reports.iter().any(|report| report.connections > 10));
}

#[test]
fn silent_peers_are_noticed_in_time_and_slow_ones_are_not_given_up() {
    let reports = all(
        300..360,
        Climate {
            silences_per_mille: 40,
            cuts_per_mille: 10,
            ..CALM
        },
    );
    assert!(reports.iter().any(|report| report.given_up > 0));
}

#[test]
fn a_seed_is_one_world() {
    let climate = Climate {
        cuts_per_mille: 30,
        silences_per_mille: 20,
        ..CALM
    };
    assert_eq!(run(7, climate), run(7, climate));
}
