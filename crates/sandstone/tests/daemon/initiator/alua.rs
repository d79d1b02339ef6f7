//! Asymmetric access from both ends of the wire.
//!
//! The real target's states decide which paths of the real initiator carry I/O. If only standby is
//! left, the initiator asks for a group.

use std::net::SocketAddr;
use std::time::Duration;

use block::{Pages, Request};
use initiator::connection::Connection;

use super::driver::{Driver, round_robin_without_settling, target};
use crate::process::Process;
use crate::served::{TARGET, free_portal, log_in, sense, settings, test_unit_ready};

const BLOCK: usize = 4096;

/// Starts a target with two ports, each in a target port group of its own, and a unit behind both.
fn two_groups() -> (Process, SocketAddr, Driver) {
    let process = Process::start();
    let (first, second) = (free_portal(), free_portal());
    process.done(&format!("target create {TARGET} --portal {first}"));
    process.done(&format!(
        "target portal add {TARGET} {second} --tag 2 --target-port-group 2 --alua-state active-non-optimized"
    ));
    process.done("lu create vm --memory --size 1M");
    process.done("map add vm --every-host");
    let url = format!("iscsi://{first}/{TARGET}/0?portal={second}");
    let driver = Driver::open_with(target(&url), round_robin_without_settling()).unwrap();
    (process, first, driver)
}

/// Returns the group states of the paths through the first and second port, and the number of paths
/// with I/O.
fn states(driver: &Driver) -> ([String; 2], usize) {
    let (view, _) = driver.device.view();
    let mut states: Vec<_> = view
        .ways
        .iter()
        .zip(&view.nmp.paths)
        .map(|(way, path)| (path.uid.contains(",t,2"), way, path.group_state.clone()))
        .collect();
    states.sort_by_key(|(second, ..)| *second);
    let states = states.into_iter().map(|(_, _, state)| state);
    let states: Vec<String> = states.collect();
    (states.try_into().unwrap(), view.nmp.working_paths.len())
}

/// Writes and reads until the paths have these states: the initiator hears of a change with its
/// next command.
fn wait_for(driver: &mut Driver, expected: [&str; 2], round: u8) {
    let data = [round; BLOCK];
    while states(driver).0 != expected {
        driver.write(0, &data, false).expect("no I/O fails");
    }
    driver
        .write(BLOCK as u64, &data, true)
        .expect("no I/O fails");
    assert_eq!(driver.read(BLOCK as u64, BLOCK as u32), data);
}

#[test]
fn paths_follow_the_states_that_an_administrator_sets() {
    let (process, _, mut driver) = two_groups();
    wait_for(&mut driver, ["active", "active unoptimized"], 1);
    assert_eq!(states(&driver).1, 1, "the optimized path alone carries I/O");
    for (round, (group, state, expected)) in [
        (2, "active-optimized", ["active", "active"]),
        (1, "standby", ["standby", "active"]),
        (1, "unavailable", ["unavailable", "active"]),
        (1, "active-non-optimized", ["active unoptimized", "active"]),
        (2, "unavailable", ["active unoptimized", "unavailable"]),
        (1, "active-optimized", ["active", "unavailable"]),
    ]
    .into_iter()
    .enumerate()
    {
        process.done(&format!("target alua-state {group} {state}"));
        wait_for(&mut driver, expected, round as u8);
        let optimized = expected.iter().filter(|it| **it == "active").count();
        assert_eq!(states(&driver).1, optimized.max(1), "{expected:?}");
    }
}

/// Sends SET TARGET PORT GROUPS that puts both groups to standby.
fn park(session: &mut Connection) -> Option<[u8; 3]> {
    let list = vec![0, 0, 0, 0, 2, 0, 0, 1, 2, 0, 0, 2];
    let mut cdb = [0; 12];
    (cdb[0], cdb[1], cdb[9]) = (0xa4, 0x0a, list.len() as u8);
    sense(&session.write(0, &cdb, list).unwrap())
}

#[test]
fn where_only_standby_is_left_a_group_is_asked_for_and_io_waits() {
    let (_process, first, mut driver) = two_groups();
    wait_for(&mut driver, ["active", "active unoptimized"], 1);
    let mut other = log_in(first, settings(7));
    assert_eq!(park(&mut other), None);
    assert_eq!(test_unit_ready(&mut other), Some([2, 4, 0x0b]));
    // Nothing is active when this comes: it waits for the result of the initiator's own request.
    let data = [3; BLOCK];
    driver
        .write(0, &data, true)
        .expect("it waits, it does not fail");
    assert_eq!(driver.read(0, BLOCK as u32), data);
    let (states, working) = states(&driver);
    assert!(states.contains(&"active".to_owned()), "{states:?}");
    assert_eq!(working, 1);
}

#[test]
fn a_group_that_an_administrator_closed_is_not_opened_by_an_initiator() {
    let (process, _, mut driver) = two_groups();
    wait_for(&mut driver, ["active", "active unoptimized"], 1);
    process.done("target alua-state 1 standby");
    wait_for(&mut driver, ["standby", "active unoptimized"], 2);
    process.done("target alua-state 2 standby");
    let data = [3; BLOCK];
    driver.submit(
        0,
        Request::Write {
            offset: 0,
            data: Pages::from_bytes(&data),
            durable: true,
        },
    );
    driver.idle(Duration::from_millis(300));
    process.done("target alua-state 1 active-optimized");
    let ended = driver.take();
    assert!(matches!(ended[..], [(0, Ok(_))]), "{ended:?}");
    wait_for(&mut driver, ["active", "standby"], 4);
}
