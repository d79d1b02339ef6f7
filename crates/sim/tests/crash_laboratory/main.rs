//! The crash laboratory proves itself: a correct toy withstands it, each broken one is caught, and
//! the catching history is short.
//!
//! `SANDSTONE_SEED=<seed>` with one of these tests runs that seed alone and prints its events.
//! `SANDSTONE_HISTORIES=<count>` sets the number of seeds of each test.

mod toy;

use std::ops::Range;
use std::time::Instant;

use sim::disk::Chances;
use sim::history::{Climate, generate};
use sim::laboratory::{Defeat, FailureKind, Summary, attack, run, trace};
use sim::model::{Order, Rules};
use toy::{Bug, Toy};

fn seeds(default: u64) -> Range<u64> {
    let number = |name| std::env::var(name).ok()?.parse().ok();
    if let Some(seed) = number("SANDSTONE_SEED") {
        return seed..seed + 1;
    }
    0..number("SANDSTONE_HISTORIES").unwrap_or(default)
}

fn withstands(climate: &Climate, histories: u64) -> Summary {
    let seeds = seeds(histories);
    if seeds.end - seeds.start == 1 {
        let (result, lines) = trace::<Toy>(&Bug::None, &generate(seeds.start, climate));
        println!("{}\n{result:?}", lines.join("\n"));
    }
    let begun = Instant::now();
    let summary = attack::<Toy>(&Bug::None, climate, |_| {}, seeds);
    let summary = summary.unwrap_or_else(|defeat| panic!("{defeat}"));
    let per_s = summary.histories as f64 / begun.elapsed().as_secs_f64();
    println!("{summary}; {per_s:.0} histories/s");
    summary
}

fn honest() -> Climate {
    Climate::default()
}

/// Devices fail, and report it.
fn failing() -> Climate {
    let mut climate = Climate {
        tolerates_errors: true,
        troubles_per_mille: 30,
        ..honest()
    };
    climate.behaviour.chances = Chances {
        failed_flush: 30,
        failed_write: 5,
        failed_read: 5,
        ..Chances::default()
    };
    climate
}

#[test]
fn a_correct_store_withstands_power_cuts_and_kills() {
    let summary = withstands(&honest(), 600);
    let total = summary.total;
    assert!(total.crashes >= 2 * summary.histories, "{summary}");
    assert!(total.tried_cuts > 0 || summary.histories == 1, "{summary}");
    assert_eq!(total.errors, 0);
}

#[test]
fn disks_lose_their_power_together_but_each_in_its_way() {
    let climate = Climate {
        disks: 3,
        cut_histories_per_mille: 1000,
        ..honest()
    };
    withstands(&climate, 100);
}

#[test]
fn a_correct_store_keeps_the_order_of_submission() {
    let mut climate = honest();
    climate.rules.order = Order::AsSubmitted;
    withstands(&climate, 200);
}

#[test]
fn a_correct_store_withstands_devices_that_fail_and_say_so() {
    let summary = withstands(&failing(), 400);
    let struck = summary.total.struck;
    let all = summary.histories > 1;
    assert!(!all || struck.failed_flushes > 0 && struck.failed_writes > 0);
    assert!(!all || summary.total.errors > 0 && struck.failed_reads > 0);
}

#[test]
fn lies_of_the_disk_never_become_wrong_bytes() {
    let mut climate = failing();
    climate.rules = Rules {
        order: Order::AfterAcknowledged,
        durability: false,
    };
    climate.admin_per_mille = 0;
    climate.behaviour.chances = Chances {
        lying_flush: 200,
        lost_write: 10,
        misdirected_write: 10,
        misdirected_read: 10,
        bit_rot: 10,
        ruin: 5,
        ..climate.behaviour.chances
    };
    let struck = withstands(&climate, 400).total.struck;
    let lies = [
        struck.lying_flushes,
        struck.lost_writes,
        struck.misdirected_writes,
        struck.misdirected_reads,
        struck.rotten_bits,
        struck.ruined_sectors,
    ];
    let all = seeds(2).end - seeds(2).start > 1;
    assert!(!all || lies.iter().all(|count| *count > 0), "{struck:?}");
}

/// Returns the shortened failure of the first seed that catches the bug.
fn caught(bug: Bug, climate: &Climate, seeds: u64) -> Box<Defeat> {
    let defeat = match attack::<Toy>(&bug, climate, |_| {}, 0..seeds) {
        Ok(summary) => panic!("{bug:?} was not caught: {summary}"),
        Err(defeat) => defeat,
    };
    println!("{bug:?}: {defeat}\n");
    let again = run::<Toy>(&bug, &defeat.shortest).expect_err("it fails again");
    assert_eq!(again, defeat.shortest_failure, "to the letter");
    let history = generate(defeat.failure.seed, climate);
    let (again, lines) = trace::<Toy>(&bug, &history);
    assert_eq!(again.expect_err("it fails again"), defeat.failure);
    assert!(!lines.is_empty());
    assert!(
        run::<Toy>(&Bug::None, &defeat.shortest).is_ok(),
        "it is the bug that fails"
    );
    let panicked = matches!(defeat.failure.kind, FailureKind::Panicked(_));
    let wrong = matches!(defeat.failure.kind, FailureKind::Wrong(_));
    let panics = bug == Bug::PanicsAtTornRecords;
    assert!(panicked == panics && wrong != panics, "{defeat}");
    let steps = defeat.shortest.steps.len();
    assert!(steps <= 12, "{steps} steps are left: {defeat}");
    defeat
}

#[test]
fn acknowledging_before_the_flush_is_caught() {
    caught(Bug::AcksBeforeFlush, &honest(), 100);
}

#[test]
fn a_flush_asked_for_too_early_is_caught() {
    caught(Bug::FlushCoversInFlight, &honest(), 100);
}

#[test]
fn a_replay_out_of_order_is_caught() {
    caught(Bug::ReplaysOutOfOrder, &honest(), 20);
}

#[test]
fn a_torn_record_that_is_trusted_is_caught() {
    caught(Bug::TrustsTornRecords, &honest(), 100);
}

#[test]
fn a_flush_error_that_is_ignored_is_caught() {
    caught(Bug::IgnoresFlushErrors, &failing(), 300);
}

#[test]
fn a_stale_log_that_goes_on_is_caught() {
    caught(Bug::ForgetsTheChain, &honest(), 300);
}

#[test]
fn serving_what_was_replayed_before_it_is_safe_is_caught() {
    caught(Bug::ServesBeforeFlush, &honest(), 300);
}

#[test]
fn a_torn_volume_block_is_caught() {
    caught(Bug::SplitsVolumeBlocks, &honest(), 100);
}

#[test]
fn a_snapshot_that_changes_is_caught() {
    caught(Bug::SharesSnapshots, &honest(), 100);
}

#[test]
fn a_forgotten_unmap_is_caught() {
    caught(Bug::ForgetsUnmaps, &honest(), 100);
}

#[test]
fn a_panic_is_caught() {
    caught(Bug::PanicsAtTornRecords, &honest(), 100);
}

#[test]
fn a_seed_is_one_history() {
    for seed in 0..50 {
        let history = generate(seed, &failing());
        assert_eq!(history.steps, generate(seed, &failing()).steps);
        assert_eq!(
            trace::<Toy>(&Bug::None, &history),
            trace::<Toy>(&Bug::None, &history)
        );
    }
}

fn asking() -> Climate {
    Climate {
        extents_per_mille: 100,
        ..honest()
    }
}

#[test]
fn a_correct_store_tells_what_has_space() {
    let total = withstands(&asking(), 200).total;
    let all = seeds(2).end - seeds(2).start > 1;
    assert!(!all || total.mixed_extents > 50, "{total:?}");
}

#[test]
fn a_hole_where_something_was_written_is_caught() {
    caught(Bug::TellsHolesOnly, &asking(), 100);
}

#[test]
fn space_where_nothing_was_written_is_caught() {
    caught(Bug::TellsSpaceOnly, &asking(), 100);
}

/// Power cuts at flushes tear writes in half of the cases, since not every flush has something to
/// make safe.
#[test]
fn cuts_at_flushes_tear() {
    let climate = Climate {
        cuts_at_flushes: true,
        cut_histories_per_mille: 1000,
        cut_flushes_per_mille: 300,
        ..honest()
    };
    let summary = withstands(&climate, 200);
    let total = summary.total;
    let all = summary.histories > 1;
    assert!(
        !all || 5 * total.torn_cuts > 2 * total.flush_cuts,
        "{summary}"
    );
    assert!(
        !all || total.torn_sectors > total.torn_cuts / 2,
        "{total:?}"
    );
}
