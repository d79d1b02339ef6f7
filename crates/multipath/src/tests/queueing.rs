//! The queue: its depth, its order, a smaller share after TASK SET FULL, cancelling.

use super::super::*;
use super::host::{Host, READ, WRITE, good, settings};

fn with_depth(depth: u32) -> Host {
    let settings = Settings {
        queue_depth: depth,
        ..settings(Psp::Mru)
    };
    Host::new(1, settings)
}

#[test]
fn what_exceeds_the_depth_waits_in_order() {
    let mut host = with_depth(2);
    for io in 0..4 {
        host.submit(io, READ, 0);
    }
    assert_eq!(host.sent(), [(0, 0), (1, 0)]);
    let queue = host.device.queue_snapshot();
    assert_eq!((queue.dqlen, queue.actv, queue.qued), (2, 2, 2));
    assert_eq!((queue.used_percent, queue.load), (100.0, 2.0));
    host.ended(1, 0, Ended::Good);
    assert_eq!(host.actions(), [good(1), super::host::send(2, 0)]);
    host.ended(0, 0, Ended::Good);
    assert_eq!(host.actions(), [good(0), super::host::send(3, 0)]);
}

#[test]
fn the_usual_depth_is_128() {
    let mut host = Host::with_psp(2, Psp::RoundRobin);
    for io in 0..200 {
        host.submit(io, READ, 0);
    }
    assert_eq!(host.sent().len(), 128);
    assert_eq!(host.device.queue_snapshot().qued, 72);
}

#[test]
fn a_deeper_queue_lets_those_who_wait_go() {
    let mut host = with_depth(1);
    host.submit(0, READ, 0);
    host.submit(1, READ, 0);
    host.out.clear();
    let deeper = Settings {
        queue_depth: 2,
        ..settings(Psp::Mru)
    };
    host.device.set_settings(deeper, host.now_us, &mut host.out);
    assert_eq!(host.sent(), [(1, 0)]);
}

#[test]
fn a_path_gets_less_after_task_set_full_and_recovers() {
    let mut host = with_depth(16);
    for io in 0..16 {
        host.submit(io, READ, 0);
    }
    host.out.clear();
    // ESXi's sample: the fourth refusal halves the share.
    for io in 0..4 {
        assert_eq!(host.device.snapshot().paths[0].window, 16);
        host.ended(io, 0, Ended::TaskSetFull);
    }
    // 12 I/Os are still there, and the refused one counts: 13 / 2.
    assert_eq!(host.device.snapshot().paths[0].window, 6);
    assert_eq!(host.actions(), [], "the refused wait for their delay");
    host.pass(1_000);
    assert_eq!(host.actions(), [], "nothing more fits on the path");
    for io in 4..12 {
        host.ended(io, 0, Ended::Good);
    }
    // Eight good answers make room for one more I/O.
    assert_eq!(host.device.snapshot().paths[0].window, 7);
    let window = |host: &mut Host| host.device.snapshot().paths[0].window;
    for _ in 0..1_000 {
        let actions = host.actions();
        for action in actions {
            if let Action::Send { io, .. } = action {
                host.ended(io.0, 0, Ended::Good);
            }
        }
        host.submit(100, READ, 0);
        host.submit(101, READ, 0);
        for io in [100, 101] {
            host.ended(io, 0, Ended::Good);
        }
    }
    assert_eq!(window(&mut host), 16);
}

#[test]
fn round_robin_goes_past_a_path_that_is_full() {
    let settings = Settings {
        queue_full_sample_size: 1,
        ..settings(Psp::RoundRobin)
    };
    let mut host = Host::new(2, settings);
    host.submit(0, READ, 0);
    host.ended(0, 0, Ended::TaskSetFull);
    host.out.clear();
    assert_eq!(host.device.snapshot().paths[0].window, 1);
    for io in 1..4 {
        host.submit(io, READ, 0);
    }
    assert_eq!(host.sent(), [(1, 0), (2, 1), (3, 1)]);
}

#[test]
fn only_what_waits_can_be_given_up() {
    let mut host = with_depth(1);
    host.submit(0, READ, 0);
    host.submit(1, READ, 0);
    assert!(!host.device.cancel(IoId(0)), "it is at the target");
    assert!(host.device.cancel(IoId(1)));
    assert!(!host.device.cancel(IoId(1)));
    assert!(!host.device.cancel(IoId(77)));
    host.out.clear();
    host.ended(0, 0, Ended::Good);
    assert_eq!(host.actions(), [good(0)]);
}

#[test]
fn the_sums_tell_queue_and_device_apart() {
    let mut host = with_depth(1);
    host.submit(0, READ, 0);
    host.submit(1, WRITE, 0);
    host.now_us += 100;
    host.ended(0, 0, Ended::Good);
    host.now_us += 30;
    host.ended(1, 0, Ended::Good);
    let sums = |guest_us, device_us, queue_us| IoSums {
        commands: 1,
        bytes: 4096,
        guest_us,
        device_us,
        queue_us,
    };
    let expected = Counters {
        commands: 2,
        reads: sums(100, 100, 0),
        writes: sums(130, 30, 100),
        ..Counters::default()
    };
    assert_eq!(host.device.counters(), expected);
    let path = host.device.path_sums(PathId(0)).expect("a path");
    assert_eq!((path.reads, path.writes), (expected.reads, expected.writes));
}

/// Checks a queue that is deeper than the target's command window: its I/Os wait in the session,
/// and this wait is no time of the device.
#[test]
fn the_wait_for_the_window_of_the_target_is_a_wait_in_the_queue() {
    let mut host = with_depth(2);
    host.submit(0, READ, 0);
    host.submit(1, READ, 0);
    host.now_us += 100;
    host.ended(0, 0, Ended::Good);
    host.device.sent_late(IoId(1), PathId(0), host.now_us);
    // The I/O is not on the path any more.
    host.device.sent_late(IoId(0), PathId(0), host.now_us);
    host.now_us += 30;
    host.ended(1, 0, Ended::Good);
    let counters = host.device.counters();
    assert_eq!(counters.device_us(), 100 + 30);
    assert_eq!((counters.guest_us(), counters.queue_us()), (100 + 130, 100));
}
