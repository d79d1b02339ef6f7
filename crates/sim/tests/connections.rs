//! Tests of sessions of several connections to the product's own target, from seeds: order,
//! windows, answers and data are right, whatever happens to the connections.
//! `SANDSTONE_SEED=<seed>` runs one seed alone. `SANDSTONE_TIMES=<n>` runs n times as many seeds.

use std::ops::Range;

use sim::mcs::{Climate, Report, run};

const CALM: Climate = Climate {
    jobs: 150,
    cuts: 0,
    silences: 0,
    functions: 0,
    logouts: 0,
    session_logouts: 0,
    careless: 0,
};

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
        assert_eq!(report.ended, climate.jobs);
        report
    };
    seeds.into_iter().map(run_one).collect()
}

struct NamedOnPanic(&'static str, u64);

impl Drop for NamedOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self(test, seed) = self;
            eprintln!("again: SANDSTONE_SEED={seed} cargo test -p sim --test connections {test}");
        }
    }
}

#[test]
fn commands_on_several_connections_keep_their_order() {
    for report in all(
        "commands_on_several_connections_keep_their_order",
        0..60,
        CALM,
    ) {
        assert_eq!((report.aborted, report.sent_again), (0, 0));
        assert!(report.connections <= 4);
    }
}

#[test]
fn functions_reach_what_was_sent_before_them() {
    let climate = Climate {
        functions: 200,
        ..CALM
    };
    let reports = all(
        "functions_reach_what_was_sent_before_them",
        1000..1060,
        climate,
    );
    assert!(reports.len() == 1 || reports.iter().any(|report| report.aborted > 0));
}

#[test]
fn connections_are_logged_out_and_come_again() {
    let climate = Climate {
        logouts: 100,
        session_logouts: 10,
        ..CALM
    };
    all(
        "connections_are_logged_out_and_come_again",
        2000..2060,
        climate,
    );
}

#[test]
fn connections_are_lost_at_any_byte() {
    let climate = Climate {
        cuts: 60,
        silences: 10,
        ..CALM
    };
    let reports = all("connections_are_lost_at_any_byte", 3000..3060, climate);
    assert!(reports.len() == 1 || reports.iter().any(|report| report.sent_again > 0));
}

/// The logout of the session is lost with its connection, after functions were answered.
#[test]
fn the_logout_of_a_session_is_lost_with_its_connection() {
    let climate = Climate {
        jobs: 60,
        cuts: 60,
        silences: 40,
        functions: 20,
        session_logouts: 100,
        ..CALM
    };
    all(
        "the_logout_of_a_session_is_lost_with_its_connection",
        17_930..17_990,
        climate,
    );
}

#[test]
fn all_of_it_at_once() {
    let climate = Climate {
        cuts: 40,
        silences: 10,
        functions: 150,
        logouts: 40,
        session_logouts: 5,
        ..CALM
    };
    all("all_of_it_at_once", 4000..4060, climate);
}

#[test]
fn a_gap_that_nobody_fills_ends_the_session() {
    let climate = Climate {
        cuts: 40,
        functions: 50,
        careless: 300,
        ..CALM
    };
    all(
        "a_gap_that_nobody_fills_ends_the_session",
        5000..5060,
        climate,
    );
}

#[test]
fn a_seed_is_one_world() {
    let climate = Climate {
        cuts: 40,
        functions: 100,
        logouts: 40,
        ..CALM
    };
    assert_eq!(run(7, climate), run(7, climate));
}
