//! Paths lost and restored: I/Os that are repeated at once, I/Os that wait, and the moment at which
//! a device is down.

use scsi::application_client::sense::Reaction;
use scsi::application_client::target_port_groups::AccessState;

use super::super::*;
use super::host::{Host, READ, WRITE, failed, good, probe, send, settings};

const FENCE: Action = Action::Fence { path: PathId(0) };

#[test]
fn reads_of_a_lost_path_are_repeated_at_once() {
    let mut host = Host::with_psp(2, Psp::Mru);
    host.submit(0, READ, 0);
    host.submit(1, READ, 8);
    host.out.clear();
    host.dead(0);
    assert_eq!(host.actions(), [send(0, 1), send(1, 1)]);
}

#[test]
fn a_write_of_a_lost_path_waits_for_the_fence() {
    let mut host = Host::with_psp(2, Psp::Mru);
    host.submit(0, WRITE, 0);
    host.out.clear();
    host.dead(0);
    assert_eq!(host.actions(), [FENCE]);
    host.fenced(0);
    assert_eq!(host.actions(), [send(0, 1)]);
}

#[test]
fn what_overlaps_a_write_that_may_land_waits_with_it_and_all_else_goes_on() {
    let mut host = Host::with_psp(2, Psp::Mru);
    host.submit(0, WRITE, 4);
    host.dead(0);
    host.out.clear();
    host.submit(1, WRITE, 4);
    host.submit(2, Direction::Unmap, 4);
    assert_eq!(host.actions(), []);
    host.submit(3, WRITE, 5);
    host.submit(4, READ, 4);
    assert_eq!(host.actions(), [send(3, 1), send(4, 1)]);
    let queue = host.device.queue_snapshot();
    assert_eq!((queue.held, queue.ghosts, queue.qued), (3, 1, 3));
    host.fenced(0);
    assert_eq!(host.actions(), [send(0, 1), send(1, 1), send(2, 1)]);
}

#[test]
fn a_flush_is_repeated_at_once() {
    let mut host = Host::with_psp(2, Psp::Mru);
    let flush = IoShape {
        direction: Direction::Other,
        bytes: 0,
        range: None,
        durable: true,
    };
    host.device.submit(IoId(0), flush, 0, &mut host.out);
    host.out.clear();
    host.dead(0);
    assert_eq!(host.actions(), [send(0, 1)]);
}

#[test]
fn without_a_fence_a_write_waits_for_the_timeout() {
    let mut host = Host::with_psp(2, Psp::Mru);
    host.submit(0, WRITE, 0);
    host.dead(0);
    host.out.clear();
    let timeout = host.device.settings().fence_timeout_us.expect("a limit");
    host.pass(timeout - 1);
    assert_eq!(host.actions(), []);
    host.pass(1);
    assert_eq!(host.actions(), [send(0, 1)]);
}

#[test]
fn a_write_waits_less_where_nobody_could_confirm_and_longer_where_the_target_answers() {
    let mut host = Host::with_psp(2, Psp::Mru);
    host.submit(0, WRITE, 0);
    host.dead(0);
    host.out.clear();
    let begun = host.now_us;
    host.device
        .fence_cannot_be_confirmed(PathId(0), begun + 1_000);
    host.device.fence_is_asked_for(PathId(0), begun + 5_000);
    host.pass(4_999);
    assert_eq!(host.actions(), []);
    host.pass(1);
    assert_eq!(host.actions(), [send(0, 1)]);
}

#[test]
fn without_a_timeout_only_the_fence_ends_the_wait() {
    let settings = Settings {
        fence_timeout_us: None,
        ..settings(Psp::Mru)
    };
    let mut host = Host::new(2, settings);
    host.submit(0, WRITE, 0);
    host.dead(0);
    host.out.clear();
    host.pass(3_600_000_000);
    assert_eq!(host.actions(), []);
    host.fenced(0);
    assert_eq!(host.actions(), [send(0, 1)]);
}

/// Returns the host of a target that ends a session while its threads are still at the session's
/// writes.
fn settling(fence_timeout_us: Option<u64>) -> Host {
    let settings = Settings {
        fence_timeout_us,
        fence_settle_us: 1_000_000,
        ..settings(Psp::Mru)
    };
    Host::new(2, settings)
}

#[test]
fn what_overlaps_a_write_waits_until_it_has_settled_after_the_fence_and_all_else_goes_on() {
    let mut host = settling(Some(140_000_000));
    host.submit(0, WRITE, 4);
    host.dead(0);
    host.submit(1, WRITE, 4);
    host.out.clear();
    host.fenced(0);
    assert_eq!(host.actions(), [send(0, 1)], "an old copy writes the same");
    host.ended(0, 1, Ended::Good);
    assert_eq!(
        host.actions(),
        [good(0)],
        "whoever waits for it waits no longer"
    );
    host.submit(2, WRITE, 5);
    host.submit(3, READ, 4);
    assert_eq!(host.actions(), [send(2, 1), send(3, 1)]);
    let settled_us = host.now_us + 1_000_000;
    let deadline_us = host.device.next_deadline();
    assert!(deadline_us.is_some_and(|due_us| due_us <= settled_us));
    host.pass(999_999);
    assert_eq!(host.actions(), [], "an old copy would undo it");
    host.pass(1);
    assert_eq!(host.actions(), [send(1, 1)]);
}

#[test]
fn a_lost_write_passes_copies_of_itself_and_nothing_else() {
    let mut host = settling(None);
    host.submit(0, WRITE, 4);
    host.submit(1, WRITE, 4);
    host.dead(0);
    host.out.clear();
    host.fenced(0);
    assert_eq!(host.actions(), [], "which of both copies is the last?");
    host.pass(1_000_000);
    assert_eq!(host.actions(), [send(0, 1), send(1, 1)]);
}

#[test]
fn a_lost_write_waits_for_what_writes_the_same_blocks_at_this_moment() {
    let mut host = settling(None);
    host.submit(0, WRITE, 4);
    host.suspect(0);
    host.submit(1, WRITE, 4);
    host.submit(2, WRITE, 8);
    host.dead(0);
    host.out.clear();
    host.fenced(0);
    assert_eq!(host.actions(), [], "the target may perform it after ours");
    host.ended(2, 1, Ended::Good);
    assert_eq!(host.actions(), [good(2)]);
    host.ended(1, 1, Ended::Busy);
    assert_eq!(host.actions(), [send(0, 1)]);
    host.pass(999_999);
    assert_eq!(host.actions(), [], "what was refused is new now");
    host.pass(1);
    assert_eq!(host.actions(), [send(1, 1)]);
}

#[test]
fn what_is_promised_to_be_durable_waits_until_nothing_can_undo_it() {
    let mut host = settling(None);
    host.submit(0, WRITE, 4);
    host.submit_durable(1, WRITE, 8);
    host.submit_durable(2, WRITE, 12);
    host.ended(2, 0, Ended::Good);
    host.dead(0);
    host.out.clear();
    host.submit_durable(3, Direction::Other, 0);
    assert_eq!(
        host.actions(),
        [send(3, 1)],
        "it promises nothing of what was not reported"
    );
    host.fenced(0);
    assert_eq!(
        host.actions(),
        [send(0, 1)],
        "another host may write where 1 writes, once 1 is done"
    );
    host.submit_durable(4, Direction::Other, 0);
    assert_eq!(host.actions(), [send(4, 1)]);
    host.ended(0, 1, Ended::Good);
    host.out.clear();
    host.submit_durable(5, Direction::Other, 0);
    host.submit(6, Direction::Other, 0);
    host.submit_durable(7, WRITE, 16);
    assert_eq!(host.actions(), [send(6, 1), send(7, 1)]);
    host.pass(999_999);
    assert_eq!(
        host.actions(),
        [],
        "a copy of 0 may land on what another host wrote"
    );
    host.pass(1);
    assert_eq!(host.actions(), [send(1, 1), send(5, 1)]);
}

#[test]
fn whoever_ends_knows_how_long_a_copy_of_what_was_reported_may_land() {
    let mut host = settling(None);
    host.submit(0, WRITE, 4);
    host.submit_durable(1, WRITE, 8);
    host.dead(0);
    host.fenced(0);
    assert_eq!(
        host.device.unsettled_until_us(),
        None,
        "nobody was told yet"
    );
    host.ended(0, 1, Ended::Good);
    let until_us = host.now_us + 1_000_000;
    assert_eq!(host.device.unsettled_until_us(), Some(until_us));
    host.pass(1_000_000);
    assert_eq!(host.device.unsettled_until_us(), None);
}

#[test]
fn a_write_that_is_lost_again_waits_for_the_end_of_that_session_too() {
    let mut host = settling(None);
    host.submit(0, WRITE, 4);
    host.dead(0);
    host.fenced(0);
    host.up(0);
    host.out.clear();
    host.dead(1);
    assert_eq!(host.actions(), [Action::Fence { path: PathId(1) }]);
    host.pass(1_000_000);
    assert_eq!(host.actions(), []);
    host.fenced(1);
    assert_eq!(host.actions(), [send(0, 0)]);
}

#[test]
fn a_write_settles_once_however_often_its_end_is_confirmed_asked_for_or_despaired_of() {
    for fence_timeout_us in [Some(140_000_000), None] {
        let mut host = settling(fence_timeout_us);
        host.submit(0, WRITE, 0);
        host.dead(0);
        host.submit(1, WRITE, 0);
        host.fenced(0);
        host.out.clear();
        host.device
            .fence_cannot_be_confirmed(PathId(0), host.now_us + 10);
        host.pass(500_000);
        host.fenced(0);
        host.device
            .fence_is_asked_for(PathId(0), host.now_us + 5_000_000);
        host.pass(499_999);
        assert_eq!(host.actions(), [], "not cut");
        host.fenced(0);
        host.pass(1);
        assert_eq!(host.actions(), [send(1, 1)], "not made longer");
    }
}

#[test]
fn a_fence_at_the_last_moment_leaves_the_whole_time_to_settle() {
    let mut host = settling(None);
    host.submit(0, WRITE, 0);
    host.dead(0);
    host.submit(1, WRITE, 0);
    host.out.clear();
    // This is longer than a ghost may last without confirmation.
    host.pass(20_000_000);
    host.fenced(0);
    host.pass(999_999);
    assert_eq!(host.actions(), [send(0, 1)]);
    host.pass(1);
    assert_eq!(host.actions(), [send(1, 1)]);

    let mut host = settling(Some(5_000_000));
    host.submit(0, WRITE, 0);
    host.dead(0);
    host.submit(1, WRITE, 0);
    host.out.clear();
    host.pass(4_999_999);
    host.fenced(0);
    host.out.clear();
    host.pass(999_999);
    assert_eq!(host.actions(), [], "the target stood still just now");
    host.pass(1);
    assert_eq!(host.actions(), [send(1, 1)]);
}

#[test]
fn what_settles_needs_no_fence_but_keeps_its_number_and_a_later_write_has_its_own_time() {
    let mut host = settling(None);
    host.submit(0, WRITE, 0);
    host.dead(0);
    assert!(host.device.needs_fence(PathId(0)));
    host.fenced(0);
    assert!(!host.device.needs_fence(PathId(0)));
    host.ended(0, 1, Ended::Good);
    host.submit(2, WRITE, 0);
    host.dead(1);
    host.up(0);
    host.out.clear();
    host.dead(0);
    assert_eq!(host.actions(), [], "nothing was on it in this life");
    host.up(0);
    host.submit(1, WRITE, 8);
    host.out.clear();
    host.pass(600_000);
    host.dead(0);
    assert_eq!(host.actions(), [FENCE]);
    host.fenced(0);
    host.up(1);
    host.ended(1, 1, Ended::Good);
    host.submit(3, WRITE, 8);
    host.out.clear();
    host.pass(400_000);
    assert_eq!(host.actions(), [send(2, 1)], "the first has settled");
    let now_us = host.now_us;
    host.device.remove_path(PathId(0), now_us, &mut host.out);
    assert!(!host.device.is_free(PathId(0)));
    host.pass(599_999);
    assert_eq!(host.actions(), []);
    host.pass(1);
    assert_eq!(host.actions(), [send(3, 1)]);
    assert!(host.device.is_free(PathId(0)));
}

#[test]
fn a_path_that_came_back_does_not_free_a_write_before_the_fence() {
    let mut host = Host::with_psp(1, Psp::Mru);
    host.submit(0, WRITE, 0);
    host.dead(0);
    host.up(0);
    host.out.clear();
    host.submit(1, READ, 0);
    assert_eq!(host.actions(), [send(1, 0)]);
    host.fenced(0);
    assert_eq!(host.actions(), [send(0, 0)]);
}

#[test]
fn a_write_that_failed_upwards_still_haunts() {
    let settings = Settings {
        apd_timeout_us: 1_000,
        fence_timeout_us: None,
        ..settings(Psp::Mru)
    };
    let mut host = Host::new(1, settings);
    host.submit(0, WRITE, 0);
    host.dead(0);
    host.pass(1_000);
    assert_eq!(
        host.actions()[2..],
        [failed(0, Failure::AllPathsDown)],
        "after the Send and the Fence"
    );
    host.up(0);
    host.out.clear();
    host.submit(1, WRITE, 0);
    assert_eq!(host.actions(), [], "its late copy may still land");
    host.fenced(0);
    assert_eq!(host.actions(), [send(1, 0)]);
}

#[test]
fn a_silent_path_gets_nothing_new_and_loses_nothing() {
    let mut host = Host::with_psp(2, Psp::Mru);
    host.submit(0, WRITE, 0);
    host.out.clear();
    host.suspect(0);
    assert_eq!(host.actions(), []);
    host.submit(1, WRITE, 8);
    assert_eq!(host.actions(), [send(1, 1)]);
    host.up(0);
    host.ended(0, 0, Ended::Good);
    assert_eq!(host.actions(), [good(0)]);
}

#[test]
fn the_first_io_that_is_lost_takes_its_path_with_it() {
    let mut host = Host::with_psp(2, Psp::Mru);
    host.submit(0, READ, 0);
    host.submit(1, WRITE, 8);
    host.out.clear();
    host.ended(0, 0, Ended::TransportLost);
    assert_eq!(host.actions(), [FENCE, send(0, 1)]);
    host.dead(0);
    host.ended(1, 0, Ended::TransportLost);
    assert_eq!(host.actions(), [], "all of it is known already");
    assert_eq!(host.device.link(PathId(0)), Some(Link::Dead));
}

#[test]
fn an_answer_of_a_lost_session_changes_nothing() {
    let mut host = Host::with_psp(2, Psp::Mru);
    host.submit(0, READ, 0);
    host.dead(0);
    host.out.clear();
    host.ended(0, 0, Ended::Good);
    host.ended(5, 0, Ended::Good);
    host.ended(0, 7, Ended::Good);
    assert_eq!(host.actions(), []);
}

#[test]
fn all_paths_down_waits_140_seconds_then_fails_until_one_is_back() {
    let mut host = Host::with_psp(2, Psp::Mru);
    host.submit(0, READ, 0);
    host.dead(0);
    host.dead(1);
    let until_us = host.now_us + 140_000_000;
    host.submit(1, READ, 0);
    host.out.clear();
    assert_eq!(host.device.next_deadline(), Some(until_us));
    host.pass(139_999_999);
    assert_eq!(host.actions(), []);
    host.pass(1);
    let down = Failure::AllPathsDown;
    assert_eq!(host.actions(), [failed(0, down), failed(1, down)]);
    host.submit(2, READ, 0);
    assert_eq!(host.actions(), [failed(2, down)], "at once from now on");
    host.up(1);
    host.out.clear();
    host.submit(3, READ, 0);
    assert_eq!(host.actions(), [send(3, 1)]);
}

#[test]
fn io_waits_through_an_outage_that_ends_in_time() {
    let mut host = Host::with_psp(1, Psp::Mru);
    host.dead(0);
    host.submit(0, READ, 0);
    host.pass(100_000_000);
    host.up(0);
    assert_eq!(host.actions(), [probe(0), send(0, 0)]);
    // The next outage gets the full time again.
    host.ended(0, 0, Ended::Good);
    host.dead(0);
    assert_eq!(host.device.next_deadline(), Some(host.now_us + 140_000_000));
}

#[test]
fn another_timeout_holds_for_an_outage_under_way() {
    let with = |seconds: u64| Settings {
        apd_timeout_us: seconds * 1_000_000,
        ..settings(Psp::Mru)
    };
    let mut host = Host::new(1, with(140));
    host.dead(0);
    let began_us = host.now_us;
    host.submit(0, READ, 0);
    host.pass(100_000_000);
    host.device
        .set_settings(with(300), host.now_us, &mut host.out);
    let until_us = began_us + 300_000_000;
    assert_eq!(host.device.next_deadline(), Some(until_us));
    host.pass(100_000_000);
    assert_eq!(host.actions(), [], "longer: it goes on waiting");
    host.device
        .set_settings(with(150), host.now_us, &mut host.out);
    let failed = failed(0, Failure::AllPathsDown);
    assert_eq!(host.actions(), [failed], "shorter: it was over long ago");
}

#[test]
fn a_device_that_never_had_a_path_is_down() {
    let mut host = Host::with_psp(0, Psp::Mru);
    host.submit(0, READ, 0);
    host.pass(140_000_000);
    assert_eq!(host.actions(), [failed(0, Failure::AllPathsDown)]);
}

#[test]
fn a_unit_that_is_gone_from_every_path_is_lost() {
    let gone = Ended::Sense(Reaction::UnitGone);
    let mut host = Host::with_psp(2, Psp::Mru);
    host.submit(0, READ, 0);
    host.ended(0, 0, gone);
    assert_eq!(host.actions(), [send(0, 0), send(0, 1)]);
    host.ended(0, 1, gone);
    assert_eq!(host.actions(), [failed(0, Failure::DeviceLost)]);
    host.submit(1, READ, 0);
    assert_eq!(host.actions(), [failed(1, Failure::DeviceLost)]);
    let now_us = host.now_us;
    host.device.unit_present(PathId(1), now_us, &mut host.out);
    host.out.clear();
    host.submit(2, READ, 0);
    assert_eq!(host.actions(), [send(2, 1)]);
}

#[test]
fn a_unit_that_is_gone_stays_lost_when_its_last_path_is_taken_away() {
    let mut host = Host::with_psp(1, Psp::Mru);
    host.submit(0, READ, 0);
    host.ended(0, 0, Ended::Sense(Reaction::UnitGone));
    host.actions();
    let now_us = host.now_us;
    host.device.remove_path(PathId(0), now_us, &mut host.out);
    host.submit(1, READ, 0);
    assert_eq!(host.actions(), [failed(1, Failure::DeviceLost)]);
}

#[test]
fn a_unit_gone_from_one_path_and_another_path_dead_is_an_outage_not_a_loss() {
    let mut host = Host::with_psp(2, Psp::Mru);
    host.submit(0, READ, 0);
    host.dead(1);
    host.out.clear();
    host.ended(0, 0, Ended::Sense(Reaction::UnitGone));
    assert_eq!(host.actions(), []);
    host.up(1);
    assert_eq!(host.actions(), [probe(1), send(0, 1)]);
}

#[test]
fn a_removed_path_is_lost_like_a_dead_one() {
    let mut host = Host::with_psp(2, Psp::Mru);
    host.submit(0, READ, 0);
    host.submit(1, WRITE, 8);
    host.out.clear();
    let now_us = host.now_us;
    host.device.remove_path(PathId(0), now_us, &mut host.out);
    assert_eq!(host.actions(), [FENCE, send(0, 1)]);
    host.fenced(0);
    assert_eq!(host.actions(), [send(1, 1)]);
    assert_eq!(host.device.snapshot().paths.len(), 1);
}

#[test]
fn a_standby_group_is_activated_only_where_nothing_else_is_left_and_io_waits() {
    let activate = Action::ActivateGroup { path: PathId(1) };
    let mut host = Host::with_psp(2, Psp::Mru);
    host.alua(1, AccessState::Standby);
    host.dead(0);
    assert_eq!(host.actions(), [], "nobody waits");
    host.submit(0, READ, 0);
    assert_eq!(host.actions(), [activate]);
    host.submit(1, READ, 0);
    host.pass(4_999_999);
    assert_eq!(host.actions(), [], "it was asked for");
    host.pass(1);
    assert_eq!(host.actions(), [activate], "and is again");
    host.alua(1, AccessState::ActiveOptimized);
    assert_eq!(host.actions(), [send(0, 1), send(1, 1)]);
}

#[test]
fn no_group_is_activated_where_settings_array_or_type_forbid_it() {
    let forbidden = Settings {
        explicit_allow: false,
        ..settings(Psp::Mru)
    };
    let other_type = Settings {
        satp: Satp::DefaultAa,
        ..settings(Psp::Mru)
    };
    for (settings, tpgs) in [(forbidden, 3), (other_type, 3), (settings(Psp::Mru), 1)] {
        let mut host = Host::new(1, settings);
        let implicit = PathIdentity {
            tpgs,
            ..super::host::identity(0)
        };
        host.device.add_path(PathId(0), implicit);
        host.alua(0, AccessState::Standby);
        host.submit(0, READ, 0);
        assert_eq!(host.actions(), []);
    }
}

#[test]
fn io_without_an_active_path_waits_for_its_time_limit() {
    let mut host = Host::with_psp(1, Psp::Mru);
    host.alua(0, AccessState::Unavailable);
    host.submit(0, READ, 0);
    host.now_us += 179_999_999;
    host.device.tick(host.now_us, &mut host.out);
    assert_eq!(host.actions(), [probe(0)]);
    host.pass(1);
    assert_eq!(host.actions(), [failed(0, Failure::NoActivePath)]);
}

/// Guards against asking for ever: a target may break the session at one command.
#[test]
fn what_kills_every_path_fails_when_its_time_is_over() {
    let mut host = Host::with_psp(1, Psp::Mru);
    let limit_us = settings(Psp::Mru).command_time_limit_us;
    host.submit(0, READ, 0);
    let mut ended = None;
    for losses in 1..100 {
        host.out.clear();
        host.dead(0);
        if host.actions().contains(&failed(0, Failure::PathsKeepDying)) {
            ended = Some(losses);
            break;
        }
        host.pass(limit_us / 40);
        host.up(0);
    }
    // The time of the I/O is over at the 41st loss.
    assert_eq!(ended, Some(41));
    // The path and other I/Os go on.
    host.up(0);
    host.out.clear();
    host.submit(1, READ, 0);
    assert_eq!(host.actions(), [send(1, 0)]);
}

#[test]
fn a_few_lost_paths_fail_nothing_however_long_they_take() {
    let mut host = Host::with_psp(1, Psp::Mru);
    let limit_us = settings(Psp::Mru).command_time_limit_us;
    host.submit(0, READ, 0);
    for _ in 0..15 {
        host.dead(0);
        host.pass(limit_us / 2);
        host.up(0);
        host.out.clear();
    }
    host.ended(0, 0, Ended::Good);
    assert_eq!(host.actions(), [good(0)]);
}
