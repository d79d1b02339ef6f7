//! Choice of an I/O's path: each policy, and access states before all policies.

use scsi::application_client::target_port_groups::AccessState;

use super::super::*;
use super::host::{Host, READ, settings};

fn round_robin(limit_type: LimitType, iops: u32, bytes: u64) -> Settings {
    let limits = RoundRobin {
        limit_type,
        iops,
        bytes,
        use_ano: false,
    };
    Settings {
        round_robin: limits,
        ..settings(Psp::RoundRobin)
    }
}

fn next_paths(host: &mut Host, count: usize) -> Vec<u32> {
    (0..count).map(|_| host.path_of_next()).collect()
}

#[test]
fn mru_stays_where_it_is() {
    let mut host = Host::with_psp(2, Psp::Mru);
    assert_eq!(host.path_of_next(), 0);
    host.dead(0);
    assert_eq!(host.path_of_next(), 1);
    host.up(0);
    assert_eq!(host.path_of_next(), 1, "it does not go back by itself");
}

#[test]
fn mru_leaves_a_path_for_a_better_one() {
    let mut host = Host::with_psp(2, Psp::Mru);
    host.alua(0, AccessState::ActiveNonOptimized);
    assert_eq!(host.path_of_next(), 1);
    host.dead(1);
    assert_eq!(host.path_of_next(), 0);
    host.up(1);
    assert_eq!(host.path_of_next(), 1, "optimized goes before most recent");
}

#[test]
fn fixed_returns_to_the_path_it_found_first() {
    let mut host = Host::with_psp(2, Psp::Fixed);
    assert_eq!(host.path_of_next(), 0);
    host.dead(0);
    assert_eq!(host.path_of_next(), 1);
    host.up(0);
    assert_eq!(host.path_of_next(), 0);
}

#[test]
fn fixed_prefers_what_was_set_even_if_it_is_not_optimized() {
    let mut host = Host::new(
        3,
        Settings {
            preferred_path: Some("vmhba64:C2:T0:L4".to_owned()),
            ..settings(Psp::Fixed)
        },
    );
    assert_eq!(host.path_of_next(), 2);
    host.alua(2, AccessState::ActiveNonOptimized);
    assert_eq!(host.path_of_next(), 2);
    host.alua(2, AccessState::Standby);
    assert_eq!(host.path_of_next(), 0);
    host.alua(2, AccessState::ActiveOptimized);
    assert_eq!(host.path_of_next(), 2);
}

#[test]
fn fixed_that_found_its_path_leaves_it_when_it_is_not_optimized_any_more() {
    let mut host = Host::with_psp(2, Psp::Fixed);
    host.alua(0, AccessState::ActiveNonOptimized);
    assert_eq!(host.path_of_next(), 1);
    host.alua(0, AccessState::ActiveOptimized);
    assert_eq!(host.path_of_next(), 0);
}

#[test]
fn round_robin_moves_on_after_so_many_ios() {
    let mut host = Host::new(3, round_robin(LimitType::Iops, 2, 1));
    assert_eq!(next_paths(&mut host, 8), [0, 0, 1, 1, 2, 2, 0, 0]);
}

#[test]
fn round_robin_moves_on_after_so_many_bytes() {
    let mut host = Host::new(2, round_robin(LimitType::Bytes, 1, 8192));
    assert_eq!(next_paths(&mut host, 6), [0, 0, 1, 1, 0, 0]);
}

#[test]
fn round_robin_by_default_takes_the_limit_that_comes_first() {
    let mut host = Host::new(2, round_robin(LimitType::Default, 3, 8192));
    assert_eq!(next_paths(&mut host, 4), [0, 0, 1, 1]);
    let mut host = Host::new(2, round_robin(LimitType::Default, 1, 8192));
    assert_eq!(next_paths(&mut host, 4), [0, 1, 0, 1]);
}

#[test]
fn round_robin_has_limits_of_1000_ios_and_10_mib() {
    let mut host = Host::with_psp(2, Psp::RoundRobin);
    let paths = next_paths(&mut host, 2001);
    assert!(paths[..1000].iter().all(|path| *path == 0));
    assert!(paths[1000..2000].iter().all(|path| *path == 1));
    assert_eq!(paths[2000], 0);
    assert_eq!(RoundRobin::default().bytes, 10_485_760);
}

#[test]
fn round_robin_uses_non_optimized_paths_only_if_told_or_alone() {
    let mut host = Host::new(3, round_robin(LimitType::Iops, 1, 1));
    host.alua(1, AccessState::ActiveNonOptimized);
    assert_eq!(next_paths(&mut host, 4), [0, 2, 0, 2]);
    let mut told = round_robin(LimitType::Iops, 1, 1);
    told.round_robin.use_ano = true;
    host.device.set_settings(told, host.now_us, &mut host.out);
    let mut used = next_paths(&mut host, 3);
    used.sort_unstable();
    assert_eq!(used, [0, 1, 2]);
    let told_no_more = round_robin(LimitType::Iops, 1, 1);
    host.device
        .set_settings(told_no_more, host.now_us, &mut host.out);
    host.dead(0);
    host.alua(2, AccessState::Unavailable);
    assert_eq!(next_paths(&mut host, 2), [1, 1]);
}

#[test]
fn no_policy_uses_a_path_that_is_not_active() {
    for psp in Psp::ALL {
        for state in [
            AccessState::Standby,
            AccessState::Unavailable,
            AccessState::Offline,
            AccessState::Transitioning,
        ] {
            let mut host = Host::with_psp(2, psp);
            host.alua(0, state);
            assert_eq!(next_paths(&mut host, 3), [1, 1, 1], "{psp:?} {state:?}");
        }
    }
}

#[test]
fn the_state_of_a_group_is_that_of_its_paths() {
    let mut host = Host::with_psp(2, Psp::Mru);
    let state = AccessState::Standby;
    let now_us = host.now_us;
    host.device
        .alua_group(0, state, false, now_us, &mut host.out);
    assert_eq!(host.path_of_next(), 1);
}

#[test]
fn a_group_that_the_array_prefers_is_found_first() {
    let mut host = Host::with_psp(2, Psp::Mru);
    let active = AccessState::ActiveOptimized;
    host.dead(0);
    host.dead(1);
    let now_us = host.now_us;
    host.device
        .alua_group(1, active, true, now_us, &mut host.out);
    host.suspect(0);
    host.up(1);
    host.up(0);
    assert_eq!(host.path_of_next(), 1);
}

#[test]
fn least_queue_takes_the_emptier_path() {
    let mut host = Host::with_psp(2, Psp::LeastQueue);
    for io in 0..4 {
        host.submit(io, READ, 0);
    }
    let mut paths: Vec<_> = host.sent().into_iter().map(|(_, path)| path).collect();
    paths.sort_unstable();
    assert_eq!(paths, [0, 0, 1, 1]);
    // All I/Os on path 1 are answered, so that it is the emptier path.
    for io in 0..4 {
        host.ended(io, 1, Ended::Good);
    }
    host.out.clear();
    host.submit(4, READ, 0);
    host.submit(5, READ, 0);
    assert_eq!(host.sent(), [(4, 1), (5, 1)]);
}

/// Answers one I/O after the latency of the path that it took.
fn one_io(host: &mut Host, latency_us: [u64; 2]) -> u32 {
    host.submit(0, READ, 0);
    let [(0, path)] = host.sent()[..] else {
        panic!("was not sent");
    };
    host.now_us += latency_us[path as usize];
    host.ended(0, path, Ended::Good);
    host.out.clear();
    path
}

#[test]
fn lowest_latency_takes_the_faster_path_and_finds_one_again_that_recovered() {
    let mut host = Host::with_psp(2, Psp::LowestLatency);
    let slow = |host: &mut Host, count, latency_us| {
        (0..count).filter(|_| one_io(host, latency_us) == 0).count()
    };
    slow(&mut host, 10, [5_000, 100]);
    // Path 0 is 50 times slower: it gets only the one I/O a second that tries it.
    let tried = slow(&mut host, 10_000, [5_000, 100]);
    assert!((1..=2).contains(&tried), "{tried} I/Os on the slow path");
    // Path 0 recovers, and is ten times faster now. The same tries find this; ten seconds are
    // enough.
    slow(&mut host, 100_000, [10, 100]);
    assert!(slow(&mut host, 1_000, [10, 100]) >= 999);
}
