//! Tests of SANITIZE: the blocks that it overwrites, the commands that it refuses, and that an
//! aborted one leaves nothing readable.

use scsi::{BlockError, BlockRange, Command, Input, Start, Status, Step, Task, TaskAttribute};

use crate::harness::*;

const TEST_UNIT_READY: [u8; 6] = [0; 6];
const EXIT_FAILURE_MODE: [u8; 10] = [0x48, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0];

fn overwrite_cdb(flags: u8, list_len: u16) -> Vec<u8> {
    let [high, low] = list_len.to_be_bytes();
    vec![0x48, flags | 1, 0, 0, 0, 0, 0, high, low, 0]
}

fn overwrite_list(first: u8, pattern: &[u8]) -> Vec<u8> {
    let [high, low] = (pattern.len() as u16).to_be_bytes();
    [&[first, 0, high, low], pattern].concat()
}

#[test]
fn overwrite_repeats_its_pattern_in_every_block() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    for pattern in [vec![0xaa; 512], vec![1, 2, 3], vec![7; 256]] {
        let list = overwrite_list(1, &pattern);
        assert_good(bench.run(&nexus, &overwrite_cdb(0, list.len() as u16), &list));
        let block: Vec<u8> = pattern.iter().copied().cycle().take(512).collect();
        let all = bench.disk().read(BlockRange::new(0, 2048).unwrap());
        assert!(all.chunks(512).all(|found| found == block));
        assert_good(bench.run(&nexus, &TEST_UNIT_READY, &[]));
    }
}

/// Tests inversion: with an even number of passes the first one is inverted, so that the last one
/// leaves the pattern as it was given.
#[test]
fn passes_are_flushed_and_inverted() {
    for passes in 1..=4 {
        let bench = Harness::new(config());
        let nexus = bench.login(1);
        let (mut task, _) = begun_with(&bench, &nexus, 0, 0x80 | passes);
        let mut input = Input::Done;
        let mut written = Vec::new();
        loop {
            match task.step(input) {
                Step::WritePattern { range, pattern, .. } => {
                    if range.start.0 == 0 {
                        written.push(pattern[0]);
                    }
                }
                Step::Flush => written.push(0xff),
                Step::Save { .. } => {}
                step => {
                    break assert!(
                        matches!(step, Step::Done(response) if response.status == Status::Good)
                    );
                }
            }
            input = Input::Done;
        }
        let first = if passes % 2 == 0 { 0x0f } else { 0xf0 };
        let expected =
            (0..passes).flat_map(|pass| [if pass % 2 == 0 { first } else { !first }, 0xff]);
        assert_eq!(written, expected.collect::<Vec<_>>(), "{passes} passes");
        assert_eq!(written[written.len() - 2], 0xf0);
    }
}

#[test]
fn bad_lists_are_refused_and_change_nothing() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    for list_len in [0, 1, 4, 517] {
        let list = vec![1; usize::from(list_len)];
        assert_sense(
            &bench.run(&nexus, &overwrite_cdb(0, list_len), &list),
            5,
            0x24,
            0x00,
        );
    }
    let no_passes = overwrite_list(0, &[1; 512]);
    assert_sense(
        &bench.run(&nexus, &overwrite_cdb(0, 516), &no_passes),
        5,
        0x26,
        0x00,
    );
    for lie in [[0, 0], [0x02, 0x04]] {
        let mut list = overwrite_list(1, &[1; 512]);
        list[2..4].copy_from_slice(&lie);
        assert_sense(
            &bench.run(&nexus, &overwrite_cdb(0, 516), &list),
            5,
            0x26,
            0x00,
        );
    }
    let immediate = overwrite_list(1, &[1]);
    assert_sense(
        &bench.run(&nexus, &overwrite_cdb(0x80, 5), &immediate),
        5,
        0x24,
        0x00,
    );
    for action in [0, 2, 3, 4, 0x1e] {
        let cdb = [0x48, action, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_sense(&bench.run(&nexus, &cdb, &[]), 5, 0x24, 0x00);
    }
    assert_good(bench.run(&nexus, &TEST_UNIT_READY, &[]));
    assert!(bench.disk().bytes.borrow().iter().all(|&byte| byte == 0));
}

#[test]
fn what_is_reserved_is_refused_in_every_service_action() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let list = overwrite_list(1, &[1; 512]);
    for (cdb, list) in [
        (overwrite_cdb(0, 516), &list[..]),
        (EXIT_FAILURE_MODE.to_vec(), &[]),
    ] {
        let mut zoned = cdb.clone();
        zoned[1] |= 0x40;
        let response = bench.run(&nexus, &zoned, list);
        assert_sense(&response, 5, 0x24, 0x00);
        assert_eq!(response.sense[15..18], [0xce, 0, 1], "points at ZNR");
        for at in 2..=6 {
            let mut cdb = cdb.clone();
            cdb[at] = at as u8;
            let response = bench.run(&nexus, &cdb, list);
            assert_sense(&response, 5, 0x24, 0x00);
            assert_eq!(response.sense[15..18], [0xc0, 0, at as u8]);
        }
    }
    assert!(bench.disk().bytes.borrow().iter().all(|&byte| byte == 0));
}

#[test]
fn a_unit_that_writes_elsewhere_does_not_offer_it() {
    let bench = Harness::new(scsi::logical_unit::UnitConfig {
        sanitize: false,
        ..config()
    });
    let nexus = bench.login(1);
    let list = overwrite_list(1, &[1; 512]);
    for (cdb, list) in [
        (overwrite_cdb(0, 516), &list[..]),
        (EXIT_FAILURE_MODE.to_vec(), &[]),
    ] {
        assert_sense(&bench.run(&nexus, &cdb, list), 5, 0x20, 0x00);
    }
    let all = [0xa3, 0x0c, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0];
    let told = assert_good(bench.run(&nexus, &all, &[]));
    assert!(told.len() > 4 + 8 * 40);
    assert!(told[4..].chunks(8).all(|command| command[0] != 0x48));
    for action in [1, 2, 3, 0x1f] {
        let one = [0xa3, 0x0c, 3, 0x48, 0, action, 0, 0, 0xff, 0xff, 0, 0];
        assert_eq!(
            assert_good(bench.run(&nexus, &one, &[])),
            [0, 1, 0, 0],
            "not supported"
        );
    }
}

/// Starts an OVERWRITE whose parameter list is still to come.
fn asked(
    bench: &Harness,
    nexus: &std::sync::Arc<scsi::itl_nexus::ItlNexus>,
    flags: u8,
) -> Box<dyn Task> {
    let cdb = overwrite_cdb(flags, 5);
    let command = Command {
        cdb: &cdb,
        attribute: TaskAttribute::Simple,
        data_out_len: Some(5),
        data_in_len: 0,
    };
    let Start::Task(task) = nexus.start(&command, &View(bench)) else {
        panic!("OVERWRITE is a task");
    };
    assert_eq!(task.exclusive(), BlockRange::new(0, 2048));
    task
}

/// Starts an OVERWRITE up to the step that stores its start, and returns the image to store.
fn begun_with(
    bench: &Harness,
    nexus: &std::sync::Arc<scsi::itl_nexus::ItlNexus>,
    flags: u8,
    first: u8,
) -> (Box<dyn Task>, Vec<u8>) {
    let mut task = asked(bench, nexus, flags);
    let list = overwrite_list(first, &[0xf0]);
    match task.step(Input::Begin { data_out: &list }) {
        Step::Save { image } => (task, image),
        step => panic!("it stores that it has begun before it writes: {step:?}"),
    }
}

/// Starts an OVERWRITE that is about to write.
fn begun(
    bench: &Harness,
    nexus: &std::sync::Arc<scsi::itl_nexus::ItlNexus>,
    flags: u8,
) -> Box<dyn Task> {
    let (mut task, _) = begun_with(bench, nexus, flags, 1);
    assert!(matches!(task.step(Input::Done), Step::WritePattern { .. }));
    task
}

/// Starts a unit from the image that was stored last, with a nexus that was told of the start.
fn restarted(image: &[u8]) -> (Harness, std::sync::Arc<scsi::itl_nexus::ItlNexus>) {
    let bench = Harness::new(config());
    assert_eq!(bench.unit().restore(image), Ok(()));
    let nexus = bench.login(1);
    (bench, nexus)
}

#[test]
fn a_restart_finds_a_sanitize_that_did_not_end() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    for (flags, may_exit) in [(0x20, true), (0, false)] {
        let (task, image) = begun_with(&bench, &nexus, flags, 1);
        // Images that others store meanwhile report the SANITIZE, too.
        let others = bench.unit().image_to_save();
        for image in [image, others] {
            let (again, nexus) = restarted(&image);
            assert_sense(&again.run(&nexus, &TEST_UNIT_READY, &[]), 3, 0x31, 0x03);
            if may_exit {
                assert_good(again.run(&nexus, &EXIT_FAILURE_MODE, &[]));
            } else {
                assert_sense(&again.run(&nexus, &EXIT_FAILURE_MODE, &[]), 5, 0x24, 0x00);
                let list = overwrite_list(1, &[9]);
                assert_good(again.run(&nexus, &overwrite_cdb(0, 5), &list));
            }
            assert_good(again.run(&nexus, &TEST_UNIT_READY, &[]));
            // The next restart finds no SANITIZE any more.
            let stored = again.saved.take().expect("the end was stored");
            let (again, nexus) = restarted(&stored);
            assert_good(again.run(&nexus, &TEST_UNIT_READY, &[]));
        }
        drop(task);
        let (again, nexus) = restarted(&bench.unit().image_to_save());
        assert_sense(&again.run(&nexus, &TEST_UNIT_READY, &[]), 3, 0x31, 0x03);
    }
}

#[test]
fn a_sanitize_whose_beginning_cannot_be_stored_overwrites_nothing() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let (mut task, _) = begun_with(&bench, &nexus, 0, 1);
    let failed = BlockError::Write { lba: None };
    let Step::Done(response) = task.step(Input::Failed(failed)) else {
        panic!("it goes on");
    };
    assert_sense(&response, 3, 0x0c, 0x00);
    drop(task);
    assert_good(bench.run(&nexus, &TEST_UNIT_READY, &[]));
    // An earlier failure still holds.
    drop(begun(&bench, &nexus, 0));
    let (mut task, _) = begun_with(&bench, &nexus, 0, 1);
    assert!(matches!(task.step(Input::Failed(failed)), Step::Done(_)));
    assert_sense(&bench.run(&nexus, &TEST_UNIT_READY, &[]), 3, 0x31, 0x03);
}

#[test]
fn a_failure_without_ause_is_not_left_by_way_of_a_sanitize_with_ause() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    drop(begun(&bench, &nexus, 0));
    let list = overwrite_list(1, &[9]);
    let refused = bench.run(&nexus, &overwrite_cdb(0x20, 5), &list);
    assert_sense(&refused, 5, 0x24, 0x00);
    assert_eq!(refused.sense[15..18], [0xcd, 0, 1], "points at AUSE");
    assert!(bench.disk().bytes.borrow().iter().all(|&byte| byte == 0));
    assert_good(bench.run(&nexus, &overwrite_cdb(0, 5), &list));
    assert_good(bench.run(&nexus, &TEST_UNIT_READY, &[]));
    // After a failure with AUSE, either command leads out.
    drop(begun(&bench, &nexus, 0x20));
    assert_good(bench.run(&nexus, &overwrite_cdb(0x20, 5), &list));
}

#[test]
fn while_it_runs_the_others_are_told_and_resets_do_not_end_it() {
    let bench = Harness::new(config());
    let (nexus, other) = (bench.login(1), bench.login(2));
    let task = begun(&bench, &nexus, 0);
    let _ = bench.unit().reset(scsi::logical_unit::Reset::LogicalUnit);
    let told = bench.run(&other, &TEST_UNIT_READY, &[]);
    assert_sense(&told, 6, 0x29, 0x03);
    for cdb in [
        TEST_UNIT_READY.to_vec(),
        cdb_10(0x28, 0, 0, 1),
        vec![0x1b, 1, 0, 0, 0x10, 0],
    ] {
        let response = bench.run(&other, &cdb, &[]);
        assert_sense(&response, 2, 0x04, 0x1b);
        assert_eq!(response.sense[15], 0x80, "progress is told");
    }
    assert_good(bench.run(&other, &[0x12, 0, 0, 0, 96, 0], &[]));
    let sense = assert_good(bench.run(&other, &[0x03, 0, 0, 0, 18, 0], &[]));
    assert_eq!((sense[2], sense[12], sense[13]), (2, 0x04, 0x1b));
    drop(task);
}

#[test]
fn an_aborted_sanitize_stays_failed_until_one_succeeds() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    drop(begun(&bench, &nexus, 0));
    assert_sense(
        &bench.run(&nexus, &cdb_10(0x28, 0, 0, 1), &[]),
        3,
        0x31,
        0x03,
    );
    assert_sense(&bench.run(&nexus, &EXIT_FAILURE_MODE, &[]), 5, 0x24, 0x00);
    let list = overwrite_list(1, &[9]);
    assert_good(bench.run(&nexus, &overwrite_cdb(0, 5), &list));
    assert_eq!(
        assert_good(bench.run(&nexus, &cdb_10(0x28, 0, 0, 1), &[])),
        vec![9; 512]
    );
}

#[test]
fn exit_failure_mode_works_where_ause_allowed_it() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    assert_good(bench.run(&nexus, &EXIT_FAILURE_MODE, &[]));
    drop(begun(&bench, &nexus, 0x20));
    assert_sense(&bench.run(&nexus, &TEST_UNIT_READY, &[]), 3, 0x31, 0x03);
    assert_good(bench.run(&nexus, &EXIT_FAILURE_MODE, &[]));
    assert_good(bench.run(&nexus, &TEST_UNIT_READY, &[]));
    let with_list = [0x48, 0x1f, 0, 0, 0, 0, 0, 0, 8, 0];
    assert_sense(&bench.run(&nexus, &with_list, &[0; 8]), 5, 0x24, 0x00);
}

#[test]
fn a_failed_write_fails_the_sanitize() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let mut task = begun(&bench, &nexus, 0);
    let failed = BlockError::Write { lba: Some(1) };
    let Step::Done(response) = task.step(Input::Failed(failed)) else {
        panic!("it goes on");
    };
    assert_sense(&response, 3, 0x0c, 0x00);
    drop(task);
    assert_sense(&bench.run(&nexus, &TEST_UNIT_READY, &[]), 3, 0x31, 0x03);
}

#[test]
fn what_forbids_it_before_it_begins_keeps_it_from_beginning() {
    let bench = Harness::new(config());
    let (nexus, other) = (bench.login(1), bench.login(2));
    let began = |mut task: Box<dyn Task>| {
        let list = overwrite_list(1, &[5]);
        match task.step(Input::Begin { data_out: &list }) {
            Step::Done(response) => response,
            step => panic!("it begins: {step:?}"),
        }
    };
    let task = asked(&bench, &nexus, 0);
    bench.unit().set_read_only(true);
    assert_sense(&began(task), 7, 0x27, 0x00);
    bench.unit().set_read_only(false);
    assert_sense(&bench.run(&nexus, &TEST_UNIT_READY, &[]), 6, 0x2a, 0x01);
    let task = asked(&bench, &nexus, 0);
    let mut key = [0; 24];
    key[15] = 7;
    // The first REQUEST SENSE reports the write protection.
    for _ in 0..2 {
        assert_good(bench.run(&other, &[0x03, 0, 0, 0, 18, 0], &[]));
    }
    let mut register = [0x5f, 0, 0, 0, 0, 0, 0, 0, 24, 0];
    assert_good(bench.run(&other, &register, &key));
    (key[7], key[15]) = (7, 0);
    (register[1], register[2]) = (1, 3);
    assert_good(bench.run(&other, &register, &key));
    assert_eq!(began(task).status, Status::ReservationConflict);
    // The command still leads out of the failed state.
    register[1] = 3;
    assert_good(bench.run(&other, &register, &key));
    drop(begun(&bench, &nexus, 0));
    let list = overwrite_list(1, &[6]);
    assert_good(bench.run(&nexus, &overwrite_cdb(0, 5), &list));
    // A unit that left the view is not overwritten for any initiator.
    let task = asked(&bench, &nexus, 0);
    nexus.end();
    assert_sense(&began(task), 5, 0x25, 0x00);
    assert_good(bench.run(&other, &TEST_UNIT_READY, &[]));
}

#[test]
fn the_group_that_it_was_asked_for_through_is_known_until_it_ends() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let task = asked(&bench, &nexus, 0);
    assert_eq!(bench.unit().sanitized_through(), None);
    drop(task);
    let task = begun(&bench, &nexus, 0);
    assert_eq!(bench.unit().sanitized_through(), Some(1));
    assert!(!bench.unit().retire(), "it is under way");
    drop(task);
    assert_eq!(bench.unit().sanitized_through(), None);
    // The command is refused, and nothing has changed.
    drop(begun(&bench, &nexus, 0));
    assert!(bench.unit().retire());
}
