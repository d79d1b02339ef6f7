//! Tests of the store's pool in the crash laboratory: a bounded run of families of honest disks,
//! and of disks that fail and say so. The pool is proven offline (invariant 6) at the end of each
//! history, and in every eighth one after each crash.
//!
//! A third of the seeds are from 0 on, a third from [`HARD`] and a third from [`HARDER`] on.
//! `SANDSTONE_HISTORIES=<count>` runs this number of seeds of each family, from
//! `SANDSTONE_FIRST=<seed>` on. A failure names its family and seed; the example `soak` replays it
//! and tells every step.

use std::collections::BTreeSet;
use std::thread;
use std::time::Instant;

use sim::laboratory::Summary;
use sim::pool::families::{BESIDE, FAMILIES, Family, HARD, HARDER};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Reports whether no other seeds were asked for. The counts of the default seeds are equal each
/// time.
fn has_its_own_seeds() -> bool {
    number("SANDSTONE_HISTORIES")
        .or(number("SANDSTONE_FIRST"))
        .is_none()
}

/// Returns the seeds of `histories` histories.
fn seeds(histories: u64) -> Vec<u64> {
    let count = number("SANDSTONE_HISTORIES").unwrap_or(histories);
    let third = count / 3;
    match number("SANDSTONE_FIRST") {
        Some(first) => (first..first + count).collect(),
        None => (0..third)
            .chain(HARD..HARD + third)
            .chain(HARDER..HARDER + count - 2 * third)
            .collect(),
    }
}

/// Describes the seeds.
fn told(seeds: &[u64]) -> String {
    let first = |at: u64| seeds.iter().filter(move |seed| **seed >= at).min();
    let firsts = [0, HARD, HARDER].into_iter().filter_map(first);
    let firsts: BTreeSet<&u64> = firsts.collect();
    format!("{} from {firsts:?} on", seeds.len())
}

/// Runs `histories` histories of a family, on two threads.
fn withstands(family: Family, histories: u64) -> Summary {
    let begun = Instant::now();
    let seeds = seeds(histories);
    let told = told(&seeds);
    let run = move |seeds: Vec<u64>| {
        let mut summary = Summary::default();
        for seed in seeds {
            match family.run(seed) {
                Ok(report) => summary.add(&report),
                Err(failure) => panic!("{}: {failure}", family.name()),
            }
        }
        summary
    };
    let (some, others) = seeds.into_iter().partition(|seed| seed.is_multiple_of(2));
    let other = thread::spawn(move || run(others));
    let mut summary = run(some);
    summary += other
        .join()
        .unwrap_or_else(|_| panic!("{} fails", family.name()));
    let (name, took) = (family.name(), begun.elapsed().as_secs_f64());
    println!("{name}, seeds {told}: {summary}, in {took:.1} s");
    summary
}

#[test]
fn power_cuts_and_kills_at_any_moment_lose_nothing_that_was_durable() {
    let summary = withstands(Family::PowerCuts, 2200);
    assert_eq!(summary.total.errors, 0);
    assert!(summary.total.crashes >= 2 * summary.histories, "{summary}");
    if has_its_own_seeds() {
        assert!(summary.tearing > summary.histories / 10, "{summary}");
    }
}

/// The power fails during long work. It fails so often that a change of histories or of the store
/// cannot silently empty the attack: the bound is half of the moments counted when this test was
/// written.
#[test]
fn snapshots_clones_and_destruction_survive_power_cuts() {
    let summary = withstands(Family::Datasets, 1200);
    let (total, histories) = (&summary.total, summary.histories);
    assert_eq!(total.errors, 0);
    if has_its_own_seeds() {
        assert!(total.cut.scrubs > histories, "{summary}");
        assert!(5 * total.cut.freeing > 4 * histories, "{summary}");
        assert!(total.cut.checkpoints > 3 * histories, "{summary}");
        assert!(summary.tearing > histories / 8, "{summary}");
        assert!(total.mixed_extents > histories / 8, "{summary}");
    }
}

/// Volumes and snapshots are destroyed below folders and by the name of snapshots, in one
/// operation.
#[test]
fn what_is_destroyed_together_is_all_there_or_all_gone() {
    let summary = withstands(Family::Destroying, 150);
    assert_eq!(summary.total.errors, 0);
    if has_its_own_seeds() {
        assert!(summary.total.destructions > summary.histories, "{summary}");
        assert!(summary.total.cut.freeing > summary.histories, "{summary}");
    }
}

#[test]
fn what_log_vdevs_promised_survives_power_cuts() {
    assert_eq!(withstands(Family::Logs, 500).total.errors, 0);
}

#[test]
fn log_vdevs_that_fail_hang_and_vanish_cost_nothing_that_was_promised() {
    withstands(Family::FailingLogs, 500);
}

#[test]
fn disks_that_grow_make_the_pool_larger_and_cost_nothing() {
    let summary = withstands(Family::Growing, 120);
    if has_its_own_seeds() {
        assert!(
            summary.total.moves.growths > summary.histories / 4,
            "{summary}"
        );
        let cut = &summary.total.cut;
        assert!(cut.growths > summary.histories / 4, "{summary}");
    }
}

/// A trim of anything that an opening reaches would make a block that nobody can read.
#[test]
fn trims_of_free_space_cost_nothing_at_whatever_moment_the_power_fails() {
    let summary = withstands(Family::Trimming, 100);
    let (total, histories) = (&summary.total, summary.histories);
    if has_its_own_seeds() {
        assert!(total.moves.trimmed > 1_000 * histories, "{summary}");
        assert!(total.crashes > histories, "{summary}");
    }
}

/// An error is reported if the disk that is away was the only one with some data. Nothing is
/// missing silently.
#[test]
fn disks_that_return_while_another_is_away_take_nothing_back_without_a_word() {
    let summary = withstands(Family::Parting, 24);
    let (attempts, histories) = (&summary.total.attempts, summary.histories);
    if has_its_own_seeds() {
        assert!(attempts.partings > 5 * histories, "{summary}");
        assert!(attempts.untold > histories, "{summary}");
    }
}

#[test]
fn log_vdevs_with_little_room_that_are_pulled_lose_nothing_without_a_word() {
    let summary = withstands(Family::PulledLogs, 45);
    let (attempts, histories) = (&summary.total.attempts, summary.histories);
    if has_its_own_seeds() {
        assert!(attempts.cuts > histories, "{summary}");
        assert!(attempts.partings > histories, "{summary}");
    }
}

/// Blocks that the last two checkpoints reach are neither overwritten nor trimmed.
#[test]
fn a_newest_checkpoint_that_is_lost_in_all_labels_costs_nothing() {
    let summary = withstands(Family::LostRoots, 45);
    let (attempts, histories) = (&summary.total.attempts, summary.histories);
    if has_its_own_seeds() {
        assert!(attempts.lost_roots > histories, "{summary}");
        assert!(summary.total.lost_labels > histories, "{summary}");
        assert!(summary.total.moves.trimmed > histories, "{summary}");
    }
}

#[test]
fn what_an_opening_gave_up_does_not_come_back_when_it_is_written_again() {
    let summary = withstands(Family::Repeating, 45);
    let (attempts, histories) = (&summary.total.attempts, summary.histories);
    if has_its_own_seeds() {
        assert!(attempts.repeats > 5 * histories, "{summary}");
        assert!(attempts.lost_marks > histories, "{summary}");
        assert!(attempts.needless_marks > 0, "{summary}");
    }
}

#[test]
fn space_that_is_kept_is_there_whatever_was_kept_before() {
    let summary = withstands(Family::Reserving, 120);
    // The pool is full, and much is reserved.
    assert!(summary.total.kept > summary.histories, "{summary}");
    assert!(summary.total.errors > summary.histories, "{summary}");
}

/// The reservations are tested in a pool where another volume took all space that nobody reserved.
#[test]
fn space_that_is_kept_is_there_in_a_pool_that_is_full_to_the_brim() {
    let summary = withstands(Family::Pressed, 15);
    assert!(summary.total.kept > 5 * summary.histories, "{summary}");
    assert!(summary.total.errors > 20 * summary.histories, "{summary}");
}

/// Nobody chooses between a disk and its copy. A copy of all disks becomes a pool that has all that
/// was promised.
#[test]
fn copies_of_disks_are_never_taken_for_them() {
    let summary = withstands(Family::Twins, 120);
    let (total, histories) = (&summary.total, summary.histories);
    assert_eq!(total.errors, 0);
    if has_its_own_seeds() {
        assert!(total.refused_twins > 2 * histories, "{summary}");
        assert!(total.strangers > histories / 10, "{summary}");
        assert!(total.separated > histories * 9 / 10, "{summary}");
        assert!(total.torn_separations > histories, "{summary}");
        assert!(total.moves.reshapes > histories / 2, "{summary}");
    }
}

#[test]
fn a_record_that_was_durable_and_is_gone_is_missed() {
    let summary = withstands(Family::LosingRecords, 150);
    let total = &summary.total;
    assert_eq!(total.errors, 0);
    if has_its_own_seeds() {
        assert!(total.missed_records > summary.histories, "{summary}");
        assert!(total.missed_by_signposts > 20, "{summary}");
        assert!(total.needless_records > 0, "{summary}");
    }
}

#[test]
fn a_sector_of_metadata_that_rots_on_a_disk_without_redundancy_takes_nothing() {
    let summary = withstands(Family::RottenMetadata, 150);
    let total = &summary.total;
    assert_eq!(total.errors, 0);
    if has_its_own_seeds() {
        assert!(total.rotten_metadata > 2 * summary.histories, "{summary}");
    }
}

#[test]
fn bits_that_turned_over_are_healed_where_redundancy_covers_them() {
    let summary = withstands(Family::Rotting, 120);
    let total = &summary.total;
    assert_eq!(total.errors, 0);
    assert_eq!(total.heals, 2 * summary.histories);
    assert!(
        total.struck.rotten_bits > 50 * summary.histories,
        "{summary}"
    );
}

#[test]
fn old_copies_that_come_back_do_not_count_before_they_are_rebuilt() {
    let summary = withstands(Family::OldCopies, 300);
    let total = &summary.total;
    assert_eq!(total.errors, 0);
    if has_its_own_seeds() {
        assert!(total.old_copies > summary.histories, "{summary}");
        assert!(
            total.rebuilt_old_copies > summary.histories / 4,
            "{summary}"
        );
    }
}

#[test]
fn labels_that_are_lost_cost_nothing_while_one_of_each_disk_is_left() {
    let summary = withstands(Family::LostLabels, 200);
    let total = &summary.total;
    assert_eq!(total.errors, 0);
    if has_its_own_seeds() {
        assert!(total.lost_labels > 3 * summary.histories, "{summary}");
    }
}

#[test]
fn disks_that_lose_all_their_labels_get_them_back_and_nothing_is_lost() {
    let summary = withstands(Family::RebuiltLabels, 40);
    let total = &summary.total;
    assert_eq!(total.errors, 0);
    if has_its_own_seeds() {
        assert!(total.rebuilt_labels > summary.histories, "{summary}");
        assert!(total.torn_rebuilds > summary.histories / 4, "{summary}");
    }
}

#[test]
fn a_disk_that_shrinks_costs_nothing_that_others_have() {
    let summary = withstands(Family::ShortDevices, 200);
    let total = &summary.total;
    assert_eq!(total.errors, 0);
    if has_its_own_seeds() {
        assert!(total.short_disks > summary.histories / 2, "{summary}");
    }
}

#[test]
fn a_full_pool_survives_power_cuts() {
    let summary = withstands(Family::Full, 200);
    // The pool is full, and not so full that nothing can be made on it.
    let total = &summary.total;
    assert!(total.errors > summary.histories, "{summary}");
    assert!(summary.refused < summary.histories / 20, "{summary}");
}

#[test]
fn disks_that_fail_and_say_so_cost_errors_and_nothing_else() {
    let summary = withstands(Family::Failing, 1400);
    assert!(summary.total.struck.failed_writes > 0, "{summary}");
}

#[test]
fn a_disk_that_was_lost_and_is_back_is_not_believed() {
    withstands(Family::Apart, 800);
}

#[test]
fn disks_that_are_replaced_while_datasets_come_and_go_take_nothing_with_them() {
    let summary = withstands(Family::Reshaped, 600);
    assert_eq!(summary.total.errors, 0);
    if has_its_own_seeds() {
        assert!(
            summary.total.cut.resilvers > 3 * summary.histories,
            "{summary}"
        );
    }
    assert!(
        summary.total.moves.reshapes > summary.histories,
        "{summary}"
    );
}

#[test]
fn disks_that_fail_while_others_take_their_places_cost_errors_and_nothing_else() {
    let summary = withstands(Family::FailingReshaped, 500);
    assert!(
        summary.total.moves.reshapes > summary.histories,
        "{summary}"
    );
}

/// Damage that redundancy covers loses nothing.
#[test]
fn damage_that_redundancy_covers_costs_nothing() {
    let summary = withstands(Family::Covered, 800);
    assert_eq!(summary.total.errors, 0);
    assert!(summary.total.struck.lost_writes > 0, "{summary}");
}

#[test]
fn spares_that_take_over_and_stand_ready_again_cost_nothing() {
    let summary = withstands(Family::Spared, 500);
    assert!(
        summary.total.moves.takeovers > summary.histories / 20,
        "{summary}"
    );
}

/// Damage is greater than redundancy covers.
#[test]
fn damage_beyond_redundancy_costs_errors_and_never_wrong_bytes() {
    withstands(Family::Beyond, 500);
}

#[test]
fn disks_that_lie_in_every_way_cost_errors_and_never_wrong_bytes() {
    let struck = withstands(Family::Lying, 1000).total.struck;
    let lies = [
        struck.lying_flushes,
        struck.lost_writes,
        struck.misdirected_writes,
        struck.misdirected_reads,
        struck.rotten_bits,
        struck.ruined_sectors,
    ];
    assert!(lies.iter().all(|count| *count > 0), "{struck:?}");
}

/// Several lanes read beside the engine, and others prepare writes, between any two of its events.
#[test]
fn lanes_that_read_and_write_beside_the_engine_see_what_was_acknowledged() {
    let summary = withstands(Family::Lanes, 450);
    let (total, histories) = (&summary.total, summary.histories);
    assert_eq!(total.errors, 0);
    if has_its_own_seeds() {
        assert!(total.moves.read_beside > histories, "{summary}");
        assert!(total.moves.waited_for > histories / 10, "{summary}");
        assert!(total.moves.from_cache > histories, "{summary}");
    }
}

#[test]
fn lanes_get_no_wrong_bytes_from_disks_that_lie() {
    let summary = withstands(Family::CoveredLanes, 200);
    assert_eq!(summary.total.errors, 0);
    if has_its_own_seeds() {
        let (total, histories) = (&summary.total, summary.histories);
        assert!(total.moves.read_beside > histories, "{summary}");
    }
}

/// Lanes read and write beside the engine in all families, from [`BESIDE`] on.
#[test]
fn every_family_withstands_lanes_beside_the_engine() {
    let mut summary = Summary::default();
    for family in FAMILIES {
        for seed in BESIDE..BESIDE + number("SANDSTONE_HISTORIES").unwrap_or(6) {
            match family.run(seed) {
                Ok(report) => summary.add(&report),
                Err(failure) => panic!("{}: {failure}", family.name()),
            }
        }
    }
    println!("all families, from seed {BESIDE} on: {summary}");
    assert!(
        summary.total.moves.read_beside > summary.histories,
        "{summary}"
    );
}

/// Each entry is a failure that the laboratory found, with the first line of the change that mended
/// it.
#[test]
fn histories_that_failed_once_do_not_fail_again() {
    let found = [
        // A change that waits keeps others from all its blocks
        (Family::PowerCuts, 41),
        (Family::PowerCuts, 200),
        // The model forgot what a rollback may bring back: it was wrong
        (Family::PowerCuts, 26_081),
        // A leaf whose newest root was not yet written when the power failed misses nothing
        (Family::PowerCuts, 11),
        (Family::PowerCuts, 209),
        // What an opening found is made durable, on all leaves, before anybody sees it
        (Family::PowerCuts, 77),
        (Family::PowerCuts, 78),
        // Where the log ends is told by the leaves that would have it
        (Family::Covered, 21),
        (Family::Covered, 57),
        (Family::Covered, 59),
        // The same: volumes made in the last groups go with them where flushes lie
        (Family::Lying, 41),
        // What cannot be read of a log vdev is not what was never there
        (Family::FailingLogs, 755),
        (Family::FailingLogs, 1679),
        // A leaf that missed a later epoch than the last record's does not say where the log ends
        (Family::Apart, 2435),
        // What could not be read after a power cut is not known to have survived it: the model was
        // wrong
        (Family::Failing, 261),
        (Family::Failing, 2547),
        // Nothing of a volume could be read that was being rolled back: it may be either, and the
        // model was wrong
        (Family::Failing, 1_000_775),
        // After an opening nothing is promised before a checkpoint leads behind the first group;
        // the end that was found is emptied, and asked for twice; groups count when all their
        // copies are right
        (Family::Covered, 116),
        (Family::Covered, 307),
        (Family::Covered, 347),
        (Family::Covered, 448),
        (Family::Covered, 845),
        (Family::Covered, 1659),
        (Family::Covered, 1804),
        (Family::Covered, 2333),
        // An opening ends when the labels tell of the leaves that it lost
        (Family::Covered, 1865),
        // No leaf takes the labels at the end of an opening
        (Family::Beyond, 149),
        // A root that is followed is brought into all labels first
        (Family::Covered, 3487),
        // The rings of all labels are made even: a newer root that was given up is not found later
        (Family::Covered, 14_484),
        // An opening marks the end of the log that it found: what it gave up does not come back
        (Family::Covered, 3_001_331),
        (Family::Covered, 4_001_002),
        (Family::Failing, 3_002_935),
        // A rotten bit of a label makes no later version of the format
        (Family::Covered, 1_004_303),
        // A change of datasets that no record was written of is not acknowledged
        (Family::Failing, 1_005_906),
        // Who waits is told when sealing their group suspends the pool
        (Family::Beyond, 2896),
        (Family::Failing, 1226),
        (Family::Failing, 2986),
        (Family::Lying, 198),
        (Family::Lying, 527),
        // A volume that a lying disk took away may be back after the next power cut: the model was
        // wrong
        (Family::Lying, 8_007_047),
        // A leaf with checkpoints that all others have was not used without them, wherever its
        // labels put these
        (Family::Covered, 50_044_239),
        // A record that is only looked for is not repaired: it may be that of a group that was
        // given up
        (Family::Covered, 70_027_237),
        // A mark that could not be written left a sector in use that nobody reached
        (Family::Failing, 46),
        (Family::Failing, 660),
        (Family::Lying, 46),
        // A snapshot reserves anew what its volume wrote since the last checkpoint
        (Family::Full, 1443),
        (Family::Full, 1672),
        (Family::Full, 1712),
        (Family::Full, 1952),
        (Family::Full, 2143),
        (Family::Full, 2178),
        // More disks were lost than redundancy covers, and blocks with them: the proof was wrong
        (Family::FailingReshaped, 90_001_907),
        (Family::FailingReshaped, 92_005_431),
        (Family::Failing, 300_003_885),
        // A check reads the very records that the log is made of: older ones of groups that were
        // given up fit as well
        (Family::FailingReshaped, 91_013_377),
        // A configuration that did not come to the second round of labels counts for nothing
        (Family::FailingReshaped, 93_000_444),
        (Family::FailingReshaped, 600_025_567),
        // What clearings take for maps is kept from what volumes with reserved space need while
        // they are overwritten
        (Family::Full, 400_004_522),
        // What builds on a snapshot of which a node is lost shares nobody knows what with it: the
        // check was wrong
        (Family::Failing, 900_001_602),
        (Family::Failing, 900_004_771),
        // A leaf that did not take what an opening brings onto all leaves is known to lack it
        (Family::FailingReshaped, 1_000_007_473),
        // A write within a reservation waits until what checkpoints leave is a run that is long
        // enough
        (Family::Pressed, 22),
        // Who waits for a leaf that is let go is answered by the one that took its place
        (Family::Reshaped, 9_000_001_578),
        // Only what is bad twice is written over
        (Family::FailingReshaped, 16_000_003_973),
        // A spare that left its place stands in for nobody before the labels say so
        (Family::FailingReshaped, 20_000_006_773),
        // A signpost that was on its way when the power failed is written by the opening that found
        // its record
        (Family::LosingRecords, 36_000_002_354),
        // A leaf that is added while a checkpoint is made is to have the root of that
        (Family::OldCopies, 4_294_967_308),
        // What lies behind a mark is promised by the next opening that finds it
        (Family::LosingRecords, 36_000_002_184),
    ];
    for (family, seed) in found {
        if let Err(failure) = family.run(seed) {
            panic!("{}: {failure}", family.name());
        }
    }
}

/// A received snapshot equals the sent one, and an interrupted receive goes on or vanishes
/// (invariant 8).
#[test]
fn receives_survive_power_cuts() {
    let mut total = sim::pool::receive::Report::default();
    let seeds = seeds(1000);
    let told = told(&seeds);
    let mut histories = 0;
    for seed in seeds {
        match sim::pool::receive::run(seed) {
            Ok(report) => total += report,
            Err(failure) => panic!("receive: {failure}"),
        }
        histories += 1;
    }
    println!("receive, seeds {told}: {histories} histories: {total}");
    assert!(total.crashes >= 2 * histories, "{total}");
    assert!(
        total.resumed > histories / 2 && total.given_up > 0,
        "{total}"
    );
    assert!(total.clones > histories / 3, "{total}");
}
