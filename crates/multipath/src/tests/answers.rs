//! Consequences of each way in which an attempt can end.

use scsi::application_client::sense::Reaction;
use scsi::application_client::target_port_groups::AccessState;

use super::super::*;
use super::host::{Host, READ, WRITE, failed, good, probe, send};

/// Returns a device with one read on path 0.
fn asked(paths: u32) -> Host {
    let mut host = Host::with_psp(paths, Psp::Mru);
    host.submit(0, READ, 0);
    assert_eq!(host.sent(), [(0, 0)]);
    host
}

/// Lets path 0 give one answer until the I/O fails. Returns the number of attempts, the time they
/// took, and the failure.
fn insist(how: Ended) -> (u32, u64, Failure) {
    let mut host = asked(1);
    let begun_us = host.now_us;
    let mut attempts = 1;
    host.ended(0, 0, how);
    loop {
        for action in host.actions() {
            match action {
                Action::Send { .. } => {
                    attempts += 1;
                    host.ended(0, 0, how);
                }
                Action::Finish { outcome, .. } => {
                    let Outcome::Failed(failure) = outcome else {
                        panic!("{how:?} became Good");
                    };
                    return (attempts, host.now_us - begun_us, failure);
                }
                _ => {}
            }
        }
        if host.out.is_empty() {
            let due_us = host
                .device
                .next_deadline()
                .expect("something is to be done");
            host.pass(due_us - host.now_us);
        }
    }
}

#[test]
fn good_and_recovered_finish() {
    for how in [Ended::Good, Ended::Sense(Reaction::Succeeded)] {
        let mut host = asked(1);
        host.ended(0, 0, how);
        assert_eq!(host.actions(), [good(0)]);
    }
}

#[test]
fn what_repeating_does_not_help_fails_at_once() {
    for reaction in [
        Reaction::NoSpace,
        Reaction::WriteProtected,
        Reaction::MediumError,
        Reaction::IllegalRequest,
        Reaction::Miscompare,
        Reaction::Other,
    ] {
        let mut host = asked(2);
        host.ended(0, 0, Ended::Sense(reaction));
        assert_eq!(host.actions(), [failed(0, Failure::Sense(reaction))]);
    }
    let mut host = asked(2);
    host.ended(0, 0, Ended::ReservationConflict);
    assert_eq!(host.actions(), [failed(0, Failure::ReservationConflict)]);
}

#[test]
fn a_unit_attention_is_repeated_at_once() {
    let mut host = asked(1);
    host.ended(0, 0, Ended::Sense(Reaction::UnitAttention));
    assert_eq!(host.actions(), [send(0, 0)]);
}

#[test]
fn what_changed_is_read_again() {
    let path = PathId(0);
    let mut host = asked(1);
    host.ended(0, 0, Ended::Sense(Reaction::CapacityChanged));
    let what = Refresh::Capacity;
    assert_eq!(host.actions(), [Action::Refresh { path, what }, send(0, 0)]);
    let mut host = asked(1);
    host.ended(0, 0, Ended::Sense(Reaction::AccessStateChanged));
    assert_eq!(host.actions(), [probe(0), send(0, 0)]);
}

#[test]
fn a_path_whose_unit_may_be_another_is_not_used_before_it_is_known_again() {
    for (reaction, what) in [
        (Reaction::LunsChanged, Refresh::Luns),
        (Reaction::IdentityChanged, Refresh::Identity),
    ] {
        let mut host = asked(1);
        host.ended(0, 0, Ended::Sense(reaction));
        let path = PathId(0);
        assert_eq!(host.actions(), [Action::Refresh { path, what }]);
        host.pass(10_000_000);
        assert_eq!(host.actions(), []);
        host.device.path_up(path, host.now_us, &mut host.out);
        assert_eq!(host.actions(), [send(0, 0)]);
        let mut host = asked(2);
        host.ended(0, 0, Ended::Sense(reaction));
        assert_eq!(host.actions(), [Action::Refresh { path, what }, send(0, 1)]);
    }
}

#[test]
fn a_state_that_refuses_io_sends_it_to_another_path_at_once() {
    for state in [
        AccessState::Transitioning,
        AccessState::Standby,
        AccessState::Unavailable,
    ] {
        let mut host = asked(2);
        host.ended(0, 0, Ended::Sense(Reaction::AccessState(state)));
        assert_eq!(host.actions(), [probe(0), send(0, 1)]);
    }
}

#[test]
fn a_write_that_was_refused_needs_no_fence() {
    let mut host = Host::with_psp(2, Psp::Mru);
    host.submit(0, WRITE, 0);
    host.out.clear();
    let standby = Ended::Sense(Reaction::AccessState(AccessState::Standby));
    host.ended(0, 0, standby);
    assert_eq!(host.actions(), [probe(0), send(0, 1)]);
}

#[test]
fn a_transition_is_asked_after_until_it_is_over() {
    let mut host = asked(1);
    let transitioning = Ended::Sense(Reaction::AccessState(AccessState::Transitioning));
    host.ended(0, 0, transitioning);
    assert_eq!(host.actions(), [probe(0)]);
    host.pass(200_000);
    assert_eq!(host.actions(), [probe(0)]);
    host.alua(0, AccessState::ActiveOptimized);
    assert_eq!(host.actions(), [send(0, 0)]);
    assert_eq!(host.device.next_deadline(), None);
}

#[test]
fn a_target_without_port_groups_that_is_ready_again_serves_again() {
    let mut host = Host::with_psp(0, Psp::Mru);
    let plain = PathIdentity {
        tpgs: 0,
        ..super::host::identity(0)
    };
    host.device.add_path(PathId(0), plain);
    host.up(0);
    host.submit(0, READ, 0);
    let standby = Ended::Sense(Reaction::AccessState(AccessState::Standby));
    host.ended(0, 0, standby);
    host.out.clear();
    host.pass(10_000_000);
    assert_eq!(host.actions(), [probe(0)]);
    let now_us = host.now_us;
    host.device.unit_present(PathId(0), now_us, &mut host.out);
    assert_eq!(host.actions(), [send(0, 0)]);
}

#[test]
fn busy_is_repeated_more_and_more_slowly_up_to_the_time_limit() {
    for how in [Ended::Busy, Ended::TaskSetFull] {
        let mut host = asked(1);
        host.ended(0, 0, how);
        assert_eq!(host.actions(), []);
        host.pass(999);
        assert_eq!(host.actions(), []);
        host.pass(1);
        assert_eq!(host.actions(), [send(0, 0)]);
        let (attempts, after_us, failure) = insist(how);
        assert_eq!(failure, Failure::Busy);
        assert!((180_000_000..182_000_000).contains(&after_us));
        assert!((180..200).contains(&attempts), "{attempts}");
    }
}

#[test]
fn becoming_ready_is_waited_for() {
    let (attempts, after_us, failure) = insist(Ended::Sense(Reaction::Later));
    assert_eq!(failure, Failure::Sense(Reaction::Later));
    assert!((180_000_000..182_000_000).contains(&after_us));
    assert!(attempts < 200);
}

#[test]
fn broken_hardware_and_units_that_are_not_ready_get_three_more_chances() {
    for reaction in [Reaction::HardwareError, Reaction::NotReady] {
        let (attempts, after_us, failure) = insist(Ended::Sense(reaction));
        assert_eq!((attempts, failure), (4, Failure::Sense(reaction)));
        assert_eq!(after_us, 10_000 + 20_000 + 40_000);
    }
}

#[test]
fn aborted_commands_get_ten_more_chances() {
    let aborted = Ended::Sense(Reaction::Aborted);
    let (attempts, _, failure) = insist(aborted);
    assert_eq!((attempts, failure), (11, Failure::Sense(Reaction::Aborted)));
    assert_eq!(insist(Ended::TaskAborted).0, 11);
}

#[test]
fn a_target_with_endless_unit_attentions_is_not_flooded() {
    let (attempts, _, failure) = insist(Ended::Sense(Reaction::UnitAttention));
    assert_eq!(failure, Failure::Sense(Reaction::UnitAttention));
    assert!(attempts < 200, "{attempts}");
}

#[test]
fn a_path_that_may_not_take_part_in_the_reservation_is_looked_at_first() {
    let path = PathId(0);
    let doubt = Action::Refresh {
        path,
        what: Refresh::Reservation,
    };
    for how in [
        Ended::ReservationConflict,
        Ended::Sense(Reaction::ReservationsChanged),
    ] {
        let mut host = asked(1);
        host.device.set_hold(Hold::Held, host.now_us, &mut host.out);
        host.ended(0, 0, how);
        assert_eq!(host.actions(), [doubt]);
        // The path takes part again.
        host.device.path_up(path, host.now_us, &mut host.out);
        assert_eq!(host.actions(), [send(0, 0)]);
        host.ended(0, 0, how);
        assert_eq!(host.actions(), [doubt]);
        assert!(host.device.is_path_idle(path));
        // Another host has the device: no I/O is sent any more.
        host.device.set_hold(Hold::Lost, host.now_us, &mut host.out);
        assert_eq!(host.actions(), [failed(0, Failure::ReservationConflict)]);
        host.device.path_up(path, host.now_us, &mut host.out);
        assert_eq!(host.actions(), []);
    }
    // Without a reservation of its own, the device ignores other hosts' reservations.
    let mut host = asked(1);
    host.ended(0, 0, Ended::Sense(Reaction::ReservationsChanged));
    assert_eq!(host.actions(), [send(0, 0)]);
}
