//! A unit that is pointed to other data, or opened anew, keeps its stored state.
//!
//! The state includes changes that initiators make meanwhile: an initiator that was fenced off
//! stays so, and a restart finds every acknowledged change.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use block::memory::MemoryDevice;
use block::{BlockDevice, BlockError, Geometry, Lane, Request, Submitted, Ticket, Usage};
use model::config::{BackendSpec, Config};
use model::data_plane::DataPlane;
use target::DeviceLayer;
use testing::wait;

use crate::losses::fencing::{logged_in, one_block, persistent_reserve_out};
use crate::losses::lost_preemption::{
    REGISTER, RESERVE, hold_saves, reserve_out, wait_for_the_save,
};
use crate::rig::process::free_portal;
use crate::rig::served::{self, Served};
use crate::rig::session::{Ended, PipelinedSession, wait_for_traffic};

const GOOD: u8 = 0x00;
const BUSY: u8 = 0x08;
const RESERVATION_CONFLICT: u8 = 0x18;
const PREEMPT: u8 = 0x04;
const BLOCKS: u64 = 8;

/// Gate that holds an opening after the stored state is loaded and before the unit is served.
#[derive(Debug, Default)]
struct Gate {
    /// Whether a unit was opened, and whether the opening may go on.
    state: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl Gate {
    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.0 = true;
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |state| !state.1).unwrap());
    }

    fn wait_until_opened(&self) {
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |state| !state.0).unwrap());
    }

    fn let_go(&self) {
        self.state.lock().unwrap().1 = true;
        self.changed.notify_all();
    }
}

/// Memory of a unit that is opened through a gate.
#[derive(Debug)]
struct Gated(MemoryDevice, Arc<Gate>);

impl BlockDevice for Gated {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn submit(&self, request: Request, ticket: Ticket, lane: &mut Lane) -> Submitted {
        self.0.submit(request, ticket, lane)
    }

    fn usage(&self) -> Result<Usage, BlockError> {
        self.0.usage()
    }

    /// The first question when the device server has the stored state.
    fn is_read_only(&self) -> bool {
        self.1.pass();
        false
    }
}

/// Device that is taken away when the test says so.
#[derive(Debug)]
struct TakenAway(Arc<dyn BlockDevice>, Arc<AtomicBool>);

impl BlockDevice for TakenAway {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn submit(&self, request: Request, ticket: Ticket, lane: &mut Lane) -> Submitted {
        self.0.submit(request, ticket, lane)
    }

    fn usage(&self) -> Result<Usage, BlockError> {
        self.0.usage()
    }

    fn is_over(&self) -> bool {
        self.1.load(Ordering::SeqCst)
    }
}

/// Unit in memory that initiator 1 has reserved with key 7, beside initiator 2 with key 8.
///
/// The state of both is stored.
struct Bench {
    gate: Arc<Gate>,
    /// Flag that takes the unit's first device away.
    is_over: Arc<AtomicBool>,
    served: Served,
    fenced: PipelinedSession,
    owner: PipelinedSession,
    other: PipelinedSession,
    portal: SocketAddr,
}

impl Bench {
    fn new() -> Self {
        let gate = Arc::new(Gate::default());
        let of_file = Arc::clone(&gate);
        let is_over = Arc::<AtomicBool>::default();
        let of_first = Mutex::new(Some(Arc::clone(&is_over)));
        let layer = DeviceLayer::new(move |spec, backend| match spec.backend {
            BackendSpec::File { .. } => {
                let memory = MemoryDevice::new(BLOCKS * 512, 512, 1 << 20).unwrap();
                Arc::new(Gated(memory, Arc::clone(&of_file)))
            }
            _ => match of_first.lock().unwrap().take() {
                Some(is_over) => Arc::new(TakenAway(backend, is_over)),
                None => backend,
            },
        });
        let portal = free_portal();
        let units = vec![served::unit(0, BLOCKS, 512, true)];
        let served = Served::start_with(&[portal], units, layer, served::limits());
        let file = std::fs::File::create(served.folder().join("other.img")).unwrap();
        file.set_len(BLOCKS * 512).unwrap();
        let [mut fenced, mut owner, other] = [1, 2, 3].map(|number| logged_in(portal, number));
        assert_eq!(reserve_out(&mut fenced, REGISTER, 0, 7).status, GOOD);
        assert_eq!(reserve_out(&mut owner, REGISTER, 0, 8).status, GOOD);
        assert_eq!(reserve_out(&mut fenced, RESERVE, 7, 0).status, GOOD);
        Self {
            gate,
            is_over,
            served,
            fenced,
            owner,
            other,
            portal,
        }
    }
}

fn point_to_the_file(config: &mut Config) {
    config.units[0].backend = BackendSpec::File {
        path: "other.img".into(),
        size: BLOCKS * 512,
        preallocate: false,
    };
}

/// Returns the keys of PERSISTENT RESERVE IN, READ KEYS.
fn keys(session: &mut PipelinedSession) -> Vec<u64> {
    let mut cdb = [0; 16];
    (cdb[0], cdb[8]) = (0x5e, 128);
    let told = session.run(0, cdb, 128, Vec::new());
    assert_eq!(told.status, GOOD, "{told:?}");
    let keys = told.data_in[8..].chunks_exact(8);
    keys.map(|key| u64::from_be_bytes(key.try_into().unwrap()))
        .collect()
}

/// Repeats a command that an unregistered initiator may not do, until the unit lets nobody change
/// its stored state.
fn wait_until_busy(session: &mut PipelinedSession, lun: u8) {
    wait::until("the unit is busy", || {
        let (cdb, list) = persistent_reserve_out(RESERVE, 5, 1, 0);
        match session.run(lun, cdb, 0, list).status {
            BUSY => true,
            status => {
                assert_eq!(status, RESERVATION_CONFLICT);
                false
            }
        }
    });
}

fn end_of_the_command(session: &mut PipelinedSession) -> Ended {
    let mut ended = Vec::new();
    while ended.is_empty() {
        wait_for_traffic(std::slice::from_ref(session));
        session.pump(&mut ended).unwrap();
    }
    ended.remove(0)
}

/// Checks that the fence holds in the new unit, and that changes told to the new unit are stored.
fn assert_fenced(bench: Bench) {
    let Bench {
        served,
        mut fenced,
        mut owner,
        mut other,
        portal,
        ..
    } = bench;
    for session in [&mut fenced, &mut owner, &mut other] {
        session.wait_until_ready(0);
    }
    assert_eq!(keys(&mut owner), [8]);
    let written = fenced.run(0, one_block(0x8a), 0, vec![1; 512]);
    assert_eq!(written.status, RESERVATION_CONFLICT);
    assert_eq!(reserve_out(&mut other, REGISTER, 0, 9).status, GOOD);
    drop((fenced, owner, other));
    let served = served.restart();
    assert_eq!(keys(&mut logged_in(portal, 2)), [8, 9]);
    served.stop();
}

#[test]
fn a_fence_between_opening_and_serving_holds() {
    let mut bench = Bench::new();
    std::thread::scope(|scope| {
        let change = scope.spawn(|| bench.served.change(point_to_the_file));
        bench.gate.wait_until_opened();
        let preempted = reserve_out(&mut bench.owner, PREEMPT, 8, 7);
        assert_eq!(preempted.status, GOOD);
        bench.gate.let_go();
        change.join().unwrap();
    });
    assert_fenced(bench);
}

#[test]
fn a_fence_that_is_being_stored_is_waited_for() {
    let mut bench = Bench::new();
    let state_file = bench.served.state_file(0);
    std::thread::scope(|scope| {
        let change = scope.spawn(|| bench.served.change(point_to_the_file));
        bench.gate.wait_until_opened();
        hold_saves(&state_file);
        let (cdb, list) = persistent_reserve_out(PREEMPT, 5, 8, 7);
        bench.owner.write(1, 0, cdb, list);
        let save = wait_for_the_save(&mut bench.owner, &state_file);
        bench.gate.let_go();
        wait_until_busy(&mut bench.other, 0);
        assert!(!change.is_finished(), "its state is not final");
        drop(save);
        change.join().unwrap();
        assert_eq!(end_of_the_command(&mut bench.owner).status, GOOD);
    });
    assert_fenced(bench);
}

#[test]
fn a_fence_that_is_being_stored_holds_in_a_unit_that_is_opened_anew() {
    let mut bench = Bench::new();
    let state_file = bench.served.state_file(0);
    hold_saves(&state_file);
    let (cdb, list) = persistent_reserve_out(PREEMPT, 5, 8, 7);
    bench.owner.write(1, 0, cdb, list);
    let save = wait_for_the_save(&mut bench.owner, &state_file);
    bench.is_over.store(true, Ordering::SeqCst);
    let service = bench.served.service();
    let opened = std::thread::spawn(move || DataPlane::try_again(&*service));
    wait_until_busy(&mut bench.other, 0);
    assert!(!opened.is_finished(), "its state is not final");
    drop(save);
    opened.join().unwrap();
    assert_eq!(end_of_the_command(&mut bench.owner).status, GOOD);
    assert_fenced(bench);
}

/// Starts two units in memory, and returns the list of the names of opened units, in order.
fn two_units_that_are_taken_away(is_over: &Arc<AtomicBool>) -> (Served, Arc<Mutex<Vec<String>>>) {
    let opened = Arc::<Mutex<Vec<String>>>::default();
    let (of_first, names) = (Arc::clone(is_over), Arc::clone(&opened));
    let layer = DeviceLayer::new(move |spec, backend| {
        let mut names = names.lock().unwrap();
        let is_first = !names.contains(&spec.name);
        names.push(spec.name.clone());
        match is_first {
            true => Arc::new(TakenAway(backend, Arc::clone(&of_first))),
            false => backend,
        }
    });
    let units = [0, 1].map(|lun| served::unit(lun, BLOCKS, 512, true));
    let served = Served::start_with(&[free_portal()], units.into(), layer, served::limits());
    assert_eq!(*opened.lock().unwrap(), ["unit-0", "unit-1"]);
    (served, opened)
}

#[test]
fn units_that_are_taken_away_together_are_waited_for_together() {
    let is_over = Arc::<AtomicBool>::default();
    let (served, opened) = two_units_that_are_taken_away(&is_over);
    let mut other = logged_in(served.portal, 9);
    other.wait_until_ready(1);
    // A registration of an initiator with the first is being stored.
    let mut first = logged_in(served.portal, 1);
    let state_file = served.state_file(0);
    assert_eq!(reserve_out(&mut first, REGISTER, 0, 7).status, GOOD);
    hold_saves(&state_file);
    let (cdb, mut list) = persistent_reserve_out(REGISTER, 0, 7, 8);
    list[20] = 1;
    first.write(1, 0, cdb, list);
    let save = wait_for_the_save(&mut first, &state_file);
    is_over.store(true, Ordering::SeqCst);
    let service = served.service();
    let trying = std::thread::spawn(move || DataPlane::try_again(&*service));
    for lun in [0, 1] {
        wait_until_busy(&mut other, lun);
    }
    let (cdb, list) = persistent_reserve_out(RESERVE, 5, 1, 0);
    assert_eq!(other.run(0, cdb, 0, list).status, BUSY, "both at once");
    drop(save);
    trying.join().unwrap();
    assert_eq!(end_of_the_command(&mut first).status, GOOD);
    assert_eq!(opened.lock().unwrap()[2..], ["unit-0", "unit-1"]);
    drop((first, other));
    served.stop();
}

#[test]
fn what_is_stored_late_does_not_outlive_a_deleted_unit() {
    let mut bench = Bench::new();
    let state_file = bench.served.state_file(0);
    hold_saves(&state_file);
    let (cdb, list) = persistent_reserve_out(PREEMPT, 5, 8, 7);
    bench.owner.write(1, 0, cdb, list);
    let save = wait_for_the_save(&mut bench.owner, &state_file);
    std::thread::scope(|scope| {
        let change = scope.spawn(|| {
            bench.served.change(|config| {
                config.units.clear();
                config.maps.clear();
            });
        });
        wait_until_busy(&mut bench.other, 0);
        assert!(state_file.exists(), "its state is not final");
        drop(save);
        change.join().unwrap();
    });
    assert!(!state_file.exists());
    bench.served.stop();
}
