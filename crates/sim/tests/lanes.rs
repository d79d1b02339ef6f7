//! Tests of the rules that readers and writers beside the engine live by. Each runs the history in
//! which the laboratory notices that its rule is gone.
//!
//! `cargo xtask mutate NAME` takes the rule away, and tells when its histories were found.

use sim::pool::families::Family;

/// Runs a history of lanes.
#[track_caller]
fn holds(seed: u64) {
    if let Err(failure) = Family::Lanes.run(seed) {
        panic!("{failure}");
    }
}

/// Rule of `change-not-noted`.
#[test]
fn no_reader_finds_the_place_that_a_block_had_before_an_acknowledged_change() {
    holds(0);
}

/// Rule of `published-as-unchanged`.
#[test]
fn a_leaf_is_published_with_the_changes_that_its_node_does_not_have() {
    holds(2);
}

/// Rule of `reader-believes-bytes`. It stands for an epoch that would keep places from being freed
/// while they are read.
#[test]
fn a_place_that_was_freed_and_written_anew_while_it_was_read_proves_nothing() {
    holds(197);
}

/// Rule of `reader-ticket-ignored`.
#[test]
fn bytes_that_were_read_before_a_change_do_not_come_into_the_cache_after_it() {
    holds(224);
}

/// Rule of `waiting-bytes-believed`.
#[test]
fn bytes_that_were_read_in_advance_serve_only_while_their_blocks_lie_there() {
    holds(0);
}

/// Rule of `lock-overlooked`.
#[test]
fn changes_of_a_block_from_several_lanes_enter_the_log_one_after_the_other() {
    holds(2);
}

/// Rule of `prepared-by-old-settings`.
#[test]
fn what_a_lane_prepared_is_used_only_if_it_was_prepared_as_the_volume_is_now() {
    holds(12);
}
