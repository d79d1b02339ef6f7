//! Operations on a unit in memory: they wait, are refused, are counted and end.

use std::sync::mpsc::{Receiver, channel};

use scsi::nexus::TargetPort;

use super::*;
use crate::drain::Whose;
use crate::loops::Call;
use crate::timing::Moment;
use crate::unit::Unit;
use block::Pages;
use block::memory::MemoryDevice;

const BLOCK: usize = 512;

/// A unit in memory, with an executor and the tokens that wake the executor.
struct Loop {
    nexus: Arc<Nexus>,
    executor: Executor<Named>,
    woken: Receiver<Token>,
}

/// Name of an operation.
#[derive(Debug)]
struct Named(&'static str, Stopwatch);

impl Named {
    fn new(name: &'static str) -> Self {
        Self(
            name,
            Stopwatch::start(CommandStage::WireIn, Moment::default()),
        )
    }
}

impl Timed for Named {
    fn stopwatch(&mut self) -> &mut Stopwatch {
        &mut self.1
    }
}

fn a_loop() -> Loop {
    let device = MemoryDevice::new(1 << 20, BLOCK as u32, 1 << 20).expect("memory");
    let unit = Unit::alone("lu".into(), Arc::new(device));
    let (sender, woken) = channel();
    let door = move |call| match call {
        Call::Wake(token) => sender.send(token).expect("the test listens"),
        Call::Drain(order) => panic!("{order:?}"),
    };
    let seat = unit.loops.join(door).expect("room");
    let port = TargetPort {
        name: "port".into(),
        portal_group_tag: 0,
        relative_port_id: 0,
        target_port_group: 0,
    };
    Loop {
        nexus: Nexus::join(unit, "somebody".into(), Arc::new(port)),
        executor: Executor::new(Lane::without_io_uring(Arc::new(|| {})), seat),
        woken,
    }
}

fn write(offset: u64, byte: u8) -> Request {
    Request::Write {
        offset,
        data: Pages::from_bytes(&[byte; BLOCK]),
        durable: false,
    }
}

fn read(offset: u64) -> Request {
    let len = BLOCK as u32;
    Request::Read { offset, len }
}

impl Loop {
    fn now(&mut self, request: Request) -> Outcome {
        let (_, outcome) = (self.executor)
            .submit(&self.nexus, request, Named::new("now"))
            .expect("memory answers at once");
        outcome
    }

    fn byte(&mut self, offset: u64) -> u8 {
        match self.now(read(offset)) {
            Outcome::Done(Done::Pages(pages)) => pages.to_vec()[0],
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_write_waits_for_an_atomic_command_and_reads_do_not() {
    let mut it = a_loop();
    let unit = Arc::clone(&it.nexus.unit);
    let range = BlockRange::new(0, 1).expect("a range");
    assert!(unit.range_lock.lock(range, Hold::Exclusive, u64::MAX));
    let begun = it
        .executor
        .submit(&it.nexus, write(0, 7), Named::new("waits"));
    assert!(begun.is_none(), "{begun:?}");
    assert_eq!(it.byte(0), 0);
    assert!(it.woken.try_recv().is_err());
    unit.range_lock.unlock(range, Hold::Exclusive);
    let token = it.woken.try_recv().expect("its turn has come");
    let ended = it.executor.granted(token);
    assert!(
        matches!(ended, Some((Named("waits", _), Outcome::Done(_)))),
        "{ended:?}"
    );
    assert_eq!(it.byte(0), 7);
    // The operation gave back its whole range.
    assert!(unit.range_lock.lock(range, Hold::Exclusive, u64::MAX));
}

#[test]
fn an_executor_that_ends_gives_back_what_its_operations_wait_for() {
    let mut it = a_loop();
    let unit = Arc::clone(&it.nexus.unit);
    let range = BlockRange::new(0, 1).expect("a range");
    assert!(unit.range_lock.lock(range, Hold::Exclusive, u64::MAX));
    assert!(
        it.executor
            .submit(&it.nexus, write(0, 7), Named::new(""))
            .is_none()
    );
    drop(it.executor);
    unit.range_lock.unlock(range, Hold::Exclusive);
    assert!(unit.range_lock.lock(range, Hold::Exclusive, u64::MAX));
}

#[test]
fn gates_that_close_while_an_operation_waits_refuse_it() {
    let mut it = a_loop();
    let unit = Arc::clone(&it.nexus.unit);
    let range = BlockRange::new(0, 1).expect("a range");
    assert!(unit.range_lock.lock(range, Hold::Exclusive, u64::MAX));
    assert!(
        it.executor
            .submit(&it.nexus, write(0, 7), Named::new(""))
            .is_none()
    );
    unit.logical.set_read_only(true);
    unit.range_lock.unlock(range, Hold::Exclusive);
    let token = it.woken.try_recv().expect("its turn has come");
    let ended = it.executor.granted(token);
    let refused = matches!(
        ended,
        Some((Named("", _), Outcome::Refused(Refusal::WriteProtected)))
    );
    assert!(refused, "{ended:?}");
    assert_eq!(it.byte(0), 0);
    assert!(unit.range_lock.lock(range, Hold::Exclusive, u64::MAX));
}

#[test]
fn write_protection_forbids_changes_alone_and_an_offline_unit_everything() {
    let mut it = a_loop();
    let logical = Arc::clone(&it.nexus.unit.logical);
    let (offset, len) = (0, BLOCK as u64);
    let changes = || {
        let zeroes = Request::WriteZeroes {
            offset,
            len,
            unmap: true,
            durable: false,
        };
        [write(0, 1), zeroes, Request::Discard { offset, len }]
    };
    let others = || [read(0), Request::Flush, Request::Extents { offset, len }];
    let is = |outcome: Outcome, refusal| match outcome {
        Outcome::Refused(found) => found == refusal,
        _ => false,
    };
    it.nexus.itl.set_read_only(true);
    for request in changes() {
        assert!(is(it.now(request), Refusal::WriteProtected));
    }
    for request in others() {
        assert!(matches!(it.now(request), Outcome::Done(_)));
    }
    logical.set_offline(true);
    for request in changes().into_iter().chain(others()) {
        assert!(is(it.now(request), Refusal::NotReady));
    }
    logical.set_offline(false);
    it.nexus.itl.set_read_only(false);
    for request in changes().into_iter().chain(others()) {
        assert!(matches!(it.now(request), Outcome::Done(_)));
    }
    logical.detach(it.nexus.itl.nexus().id);
    assert!(is(it.now(read(0)), Refusal::Gone));
}

#[test]
fn statistics_count_what_was_done() {
    let mut it = a_loop();
    it.now(write(0, 1));
    it.now(read(0));
    it.nexus.unit.logical.set_offline(true);
    it.now(write(0, 1));
    it.now(read(0));
    let totals = it.nexus.unit.logical.statistics().totals();
    assert_eq!((totals.write_commands, totals.write_blocks), (1, 1));
    assert_eq!((totals.read_commands, totals.read_blocks), (1, 1));
}

#[test]
fn orders_to_wait_include_operations_of_their_unit_and_group_alone() {
    let mut it = a_loop();
    let unit = Arc::clone(&it.nexus.unit);
    let other = a_loop().nexus;
    let other = &other.unit;
    let range = BlockRange::new(0, 1).expect("a range");
    let waits = |it: &mut Loop, whose: Whose| {
        let (over, is_over) = channel();
        let wake: scsi::task_set::Wake =
            Arc::new(move |_| over.send(()).expect("the test listens"));
        let signal = QuietSignal::at_the_end(Token(0), wake);
        assert!(unit.range_lock.lock(range, Hold::Exclusive, u64::MAX));
        assert!(
            it.executor
                .submit(&it.nexus, write(0, 7), Named::new(""))
                .is_none()
        );
        it.executor.drain(&DrainOrder::new(whose, signal));
        let waits = is_over.try_recv().is_err();
        unit.range_lock.unlock(range, Hold::Exclusive);
        let token = it.woken.try_recv().expect("its turn has come");
        assert!(it.executor.granted(token).is_some());
        assert_eq!(is_over.try_recv().is_ok(), waits, "over once, at the end");
        waits
    };
    let units = |unit: &Arc<Unit>| Arc::from([Arc::clone(unit)]);
    assert!(waits(&mut it, Whose::Units(units(&unit))));
    assert!(waits(&mut it, Whose::NotCommands(Arc::clone(&unit))));
    assert!(waits(&mut it, Whose::Groups([0].into())));
    assert!(!waits(&mut it, Whose::Units(units(other))));
    assert!(!waits(&mut it, Whose::NotCommands(Arc::clone(other))));
    assert!(!waits(&mut it, Whose::Groups([1].into())));
    // The state of a unit is stored for commands alone.
    assert!(!waits(&mut it, Whose::Saves(units(&unit))));
}
