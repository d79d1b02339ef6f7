//! A unit as a block device, for work of the daemon itself such as a benchmark.
//!
//! A request passes the gates that the operations of initiators pass: reservations, access states,
//! readiness, write protection. A request that changes blocks shares its range with other writers,
//! and an order to wait for what is under way ([`super::drain`]) includes all of them.
//!
//! Requests count in the figures of the unit like those of an initiator, all of their time as time
//! of the device: nothing comes in or leaves by a wire.
//!
//! Any thread may submit, each with a lane of its own. Nothing could resume a request on such a
//! lane once an atomic command lets go of the range, so a request that would have to wait is
//! refused.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use scsi::nexus::TargetPort;
use scsi::range_lock::Hold;
use scsi::{Access, BlockRange, Refusal};
use slab::Slab;

use super::drain::DrainOrder;
use super::execution::{access, durably};
use super::loops::{Call, Seat, Token};
use super::nexus::Nexus;
use super::timing::CommandTimes;
use super::timing::rare::Failure;
use super::timing::tally::UnderWay;
use super::unit::Unit;
use crate::quiet_signal::QuietSignal;
use block::clock;
use block::lane::{Observer, Outcome};
use block::{
    BlockDevice, BlockError, BlockErrorKind, Foreseen, Geometry, Lane, LatencySplit, Request,
    Submitted, Ticket, Usage,
};
use model::figures::{CommandKind, CommandStage};

/// A unit as a block device. The unit forgets its nexus when the device is dropped.
#[derive(Debug)]
pub struct UnitDevice {
    /// Seat among the loops. It is left first, so that no order arrives while the nexus ends.
    seat: Seat,
    shared: Arc<Shared>,
}

/// State that requests under way share with the device.
#[derive(Debug)]
struct Shared {
    nexus: Arc<Nexus>,
    /// Requests under way, each with the signals that wait for its end.
    under_way: Mutex<Slab<Vec<Arc<QuietSignal>>>>,
    /// Held by the lane that counts. Lanes of several threads end requests, and a tally has one
    /// writer.
    counting: Mutex<()>,
}

/// A request under way. Its end gives its range back.
#[derive(Debug)]
struct Running {
    shared: Arc<Shared>,
    key: usize,
    /// Number of the device among the loops, under which it counts.
    loop_index: usize,
    work: Work,
    /// Range of blocks that the request changes and shares.
    changes: Option<BlockRange>,
    _counted: UnderWay,
}

/// Work of a request, for the figures.
#[derive(Clone, Copy, Debug)]
struct Work {
    kind: CommandKind,
    bytes: u64,
    begun: Instant,
}

impl Work {
    /// Begins the work of a request now.
    fn begin(request: &Request) -> Self {
        let (kind, bytes) = match request {
            Request::Read { len, .. } => (CommandKind::Read, u64::from(*len)),
            Request::Write { data, .. } => (CommandKind::Write, data.len() as u64),
            Request::Discard { len, .. } => (CommandKind::Discard, *len),
            Request::Flush => (CommandKind::Flush, 0),
            Request::WriteZeroes { .. } | Request::Extents { .. } => (CommandKind::Other, 0),
        };
        Self {
            kind,
            bytes,
            begun: clock::now(),
        }
    }

    /// Returns the times of the work, which has ended now.
    fn times(&self) -> CommandTimes {
        let mut stages_ns = [0; CommandStage::ALL.len()];
        let spent = self.begun.elapsed().as_nanos();
        stages_ns[CommandStage::Device as usize] = u64::try_from(spent).unwrap_or(u64::MAX);
        CommandTimes {
            kind: self.kind,
            bytes: self.bytes,
            stages_ns,
        }
    }

    fn failure(&self, met_reservation: bool) -> Failure {
        Failure {
            kind: self.kind,
            bytes: self.bytes,
            met_reservation,
        }
    }
}

impl UnitDevice {
    /// Joins a unit under a name, which stands where the name of an initiator would. Returns `None`
    /// if the unit has as many loops as there may be.
    pub fn join(unit: Arc<Unit>, name: &str) -> Option<Arc<Self>> {
        let port = TargetPort {
            name: name.to_owned(),
            portal_group_tag: 0,
            relative_port_id: 0,
            target_port_group: 0,
        };
        let loops = Arc::clone(&unit.loops);
        let shared = Arc::new(Shared {
            nexus: Nexus::join(unit, name.to_owned(), Arc::new(port)),
            under_way: Mutex::default(),
            counting: Mutex::default(),
        });
        let own = Arc::downgrade(&shared);
        let seat = loops.join(move |call| {
            // No request waits for its range, so none is woken.
            if let (Call::Drain(order), Some(shared)) = (call, own.upgrade()) {
                shared.drain(&order);
            }
        })?;
        Some(Arc::new(Self { shared, seat }))
    }

    fn unit(&self) -> &Arc<Unit> {
        &self.shared.nexus.unit
    }

    /// Begins a request: takes the range that it changes.
    ///
    /// # Errors
    /// An atomic command has the range.
    fn begin(&self, request: &Request) -> Result<Arc<Running>, BlockError> {
        let unit = self.unit();
        let changes = unit.changed_by(request);
        let key = self.shared.requests().insert(Vec::new());
        let running = |changes| Running {
            shared: Arc::clone(&self.shared),
            key,
            loop_index: self.seat.index(),
            work: Work::begin(request),
            changes,
            _counted: unit.tally.operation(),
        };
        if let Some(range) = changes {
            let token = Token::new(self.seat.index(), 0, key as u32).0;
            let is_granted = unit.range_lock.lock(range, Hold::Shared, token);
            // The range may have been granted while the wait for it was given up.
            if !is_granted && unit.range_lock.cancel(token) {
                drop(running(None));
                return Err(BlockError::new(
                    BlockErrorKind::Reserved,
                    "an atomic command of an initiator uses the blocks",
                ));
            }
        }
        Ok(Arc::new(running(changes)))
    }
}

impl Shared {
    fn requests(&self) -> MutexGuard<'_, Slab<Vec<Arc<QuietSignal>>>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn drain(&self, order: &DrainOrder) {
        let nexus = &self.nexus;
        for (_, observers) in self.requests().iter_mut() {
            order.wait_for_other(&nexus.unit, nexus.itl.nexus(), observers);
        }
    }
}

impl Running {
    /// Counts the request, which the device has answered.
    fn count(&self, outcome: &Outcome) {
        let (nexus, work) = (&self.shared.nexus, &self.work);
        let unit = &nexus.unit;
        if let Err(error) = outcome {
            nexus.tally.add_failure(work.failure(false));
            unit.note_error(error, Some(&nexus.itl.nexus().initiator.name));
            return;
        }
        let (statistics, blocks) = (unit.logical.statistics(), unit.blocks(work.bytes));
        match work.kind {
            CommandKind::Read => statistics.add_read(self.loop_index, blocks),
            CommandKind::Write => statistics.add_write(self.loop_index, blocks),
            _ => {}
        }
        let counting = &self.shared.counting;
        let _counting = counting.lock().unwrap_or_else(PoisonError::into_inner);
        nexus.tally.add(self.loop_index, &work.times());
    }
}

impl Observer for Running {
    fn completed(&self, _: u64, outcome: Outcome) -> Outcome {
        self.count(&outcome);
        outcome
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(range) = self.changes {
            let lock = &self.shared.nexus.unit.range_lock;
            lock.unlock(range, Hold::Shared);
        }
        // A signal that fires calls a loop, which must find the list unlocked.
        let observers = self.shared.requests().remove(self.key);
        drop(observers);
    }
}

impl BlockDevice for UnitDevice {
    fn geometry(&self) -> Geometry {
        let unit = self.unit();
        let beneath = unit.device.geometry();
        let block_len = unit.logical.block_len();
        Geometry {
            len: unit.logical.blocks() * u64::from(block_len),
            granularity: block_len.max(beneath.granularity),
            // Without the write cache each write is made durable.
            volatile_cache: unit.logical.write_cache_enabled() && beneath.volatile_cache,
            ..beneath
        }
    }

    fn submit(&self, request: Request, mut ticket: Ticket, lane: &mut Lane) -> Submitted {
        let running = match self.begin(&request) {
            Ok(running) => running,
            Err(error) => return Submitted::Ready(Err(error)),
        };
        let unit = self.unit();
        let nexus = &self.shared.nexus;
        if let Err(refusal) = nexus.itl.admits(access(&request)) {
            let met_reservation = refusal == Refusal::ReservationConflict;
            nexus
                .tally
                .add_failure(running.work.failure(met_reservation));
            return Submitted::Ready(Err(refused(refusal)));
        }
        unit.note_request(&request);
        let (request, _) = durably(request, !unit.logical.write_cache_enabled());
        ticket.observe(Arc::clone(&running) as Arc<dyn Observer>, 0);
        let submitted = unit.device.submit(request, ticket, lane);
        // Nobody observes an answer that comes at once.
        if let Submitted::Ready(outcome) = &submitted {
            running.count(outcome);
        }
        submitted
    }

    fn reads_in_place(&self) -> bool {
        self.unit().reads_in_place
    }

    fn has_read_cache(&self) -> bool {
        self.unit().device.has_read_cache()
    }

    fn foresees(&self) -> bool {
        self.unit().foresees
    }

    fn foresee(&self, accesses: &[Foreseen]) {
        self.unit().device.foresee(accesses);
    }

    fn latency_split(&self) -> Option<LatencySplit> {
        self.unit().device.latency_split()
    }

    fn is_read_only(&self) -> bool {
        self.shared.nexus.itl.admits(Access::Write) == Err(Refusal::WriteProtected)
    }

    fn usage(&self) -> Result<Usage, BlockError> {
        self.unit().device.usage()
    }

    fn is_over(&self) -> bool {
        self.unit().device.is_over()
    }

    fn fault(&self) -> Option<String> {
        self.unit().device.fault()
    }
}

/// Returns the error of a request that a gate refuses.
fn refused(refusal: Refusal) -> BlockError {
    let kind = match refusal {
        Refusal::Gone => BlockErrorKind::Gone,
        Refusal::ReservationConflict => BlockErrorKind::Reserved,
        Refusal::NoAccess(_) | Refusal::NotReady => BlockErrorKind::Away,
        Refusal::WriteProtected => BlockErrorKind::ReadOnly,
    };
    BlockError::new(kind, refusal.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;
    use crate::drain::Whose;
    use block::delay::DelayDevice;
    use block::memory::MemoryDevice;
    use block::{Done, Pages};

    const BLOCK: usize = 512;

    /// Returns a unit over memory whose answers come with the next turn of a lane, as a device.
    fn joined() -> (Arc<Unit>, Arc<UnitDevice>, Lane) {
        let memory = MemoryDevice::new(1 << 20, BLOCK as u32, 1 << 20).expect("memory");
        let device = DelayDevice::new(Arc::new(memory), Duration::ZERO, None);
        let unit = Unit::alone("lu".into(), Arc::new(device));
        let joined = UnitDevice::join(Arc::clone(&unit), "a benchmark").expect("room");
        (unit, joined, Lane::standing_with(false).expect("a lane"))
    }

    fn write() -> Request {
        Request::Write {
            offset: 0,
            data: Pages::from_bytes(&[7; BLOCK]),
            durable: false,
        }
    }

    fn read() -> Request {
        let len = BLOCK as u32;
        Request::Read { offset: 0, len }
    }

    fn end(lane: &mut Lane) -> Outcome {
        let mut ended = Vec::new();
        while ended.is_empty() {
            lane.wait(None).expect("it waits");
            lane.take_completions(&mut ended);
        }
        ended.pop().expect("one request").1
    }

    fn now(device: &UnitDevice, lane: &mut Lane, request: Request) -> Outcome {
        match device.submit(request, Ticket::new(1), lane) {
            Submitted::Ready(outcome) => outcome,
            Submitted::Pending => end(lane),
        }
    }

    #[test]
    fn what_is_written_is_read_and_initiators_see_it() {
        let (unit, device, mut lane) = joined();
        assert!(now(&device, &mut lane, write()).is_ok());
        for device in [
            Arc::clone(&device) as Arc<dyn BlockDevice>,
            Arc::clone(&unit.device),
        ] {
            let found = block::lane::ask(&*device, read()).expect("it is read");
            let Done::Pages(pages) = found else {
                panic!("{found:?}")
            };
            assert_eq!(pages.to_vec(), [7; BLOCK]);
        }
    }

    #[test]
    fn gates_refuse_and_nothing_is_done() {
        let (unit, device, mut lane) = joined();
        let kind = |outcome: Outcome| outcome.map(drop).expect_err("refused").kind();
        assert!(!device.is_read_only());
        unit.logical.set_read_only(true);
        assert!(device.is_read_only());
        assert_eq!(
            kind(now(&device, &mut lane, write())),
            BlockErrorKind::ReadOnly
        );
        assert!(now(&device, &mut lane, read()).is_ok());
        unit.logical.set_offline(true);
        assert_eq!(kind(now(&device, &mut lane, read())), BlockErrorKind::Away);
        assert_eq!(unit.tally.operations(), 0);
    }

    #[test]
    fn a_write_beside_an_atomic_command_is_refused_and_a_read_is_not() {
        let (unit, device, mut lane) = joined();
        let range = BlockRange::new(0, 1).expect("a range");
        assert!(unit.range_lock.lock(range, Hold::Exclusive, u64::MAX));
        let refused = now(&device, &mut lane, write()).expect_err("the range is taken");
        assert_eq!(refused.kind(), BlockErrorKind::Reserved);
        assert!(now(&device, &mut lane, read()).is_ok());
        unit.range_lock.unlock(range, Hold::Exclusive);
        assert!(now(&device, &mut lane, write()).is_ok());
        // Each request gave its range back.
        assert!(unit.range_lock.lock(range, Hold::Exclusive, u64::MAX));
    }

    #[test]
    fn orders_to_wait_include_requests_under_way_until_their_end() {
        for request in [read(), write()] {
            let (unit, device, mut lane) = joined();
            let submitted = device.submit(request, Ticket::new(1), &mut lane);
            assert!(matches!(submitted, Submitted::Pending));
            assert_eq!(unit.tally.operations(), 1);
            let (over, is_over) = channel();
            let wake: scsi::task_set::Wake =
                Arc::new(move |_| over.send(()).expect("the test listens"));
            let signal = QuietSignal::at_the_end(Token(0), wake);
            let whose = Whose::Units(Arc::from([Arc::clone(&unit)]));
            unit.loops.drain(&DrainOrder::new(whose, signal));
            assert!(is_over.try_recv().is_err(), "the request is under way");
            assert!(end(&mut lane).is_ok());
            assert!(is_over.try_recv().is_ok());
            assert_eq!(unit.tally.operations(), 0);
        }
    }

    #[test]
    fn requests_count_in_the_figures_of_the_unit_whether_answered_at_once_or_later() {
        let memory = || MemoryDevice::new(1 << 20, BLOCK as u32, 1 << 20).expect("memory");
        let later = DelayDevice::new(Arc::new(memory()), Duration::from_millis(1), None);
        let devices: [(u64, Arc<dyn BlockDevice>); 2] =
            [(0, Arc::new(memory())), (1_000_000, Arc::new(later))];
        for (least_ns, beneath) in devices {
            let unit = Unit::alone("lu".into(), beneath);
            let device = UnitDevice::join(Arc::clone(&unit), "a benchmark").expect("room");
            let mut lane = Lane::standing_with(false).expect("a lane");
            let discard = Request::Discard {
                offset: 0,
                len: 4 * BLOCK as u64,
            };
            for request in [write(), read(), read(), Request::Flush, discard] {
                assert!(now(&device, &mut lane, request).is_ok());
            }
            unit.logical.set_read_only(true);
            assert!(now(&device, &mut lane, write()).is_err());
            let [reads, writes, _] = unit.tally.totals();
            assert_eq!((reads.commands, reads.bytes), (2, 2 * BLOCK as u64));
            assert_eq!((writes.commands, writes.bytes), (1, BLOCK as u64));
            let [wire_in, queue, device_ns, reply] = reads.stages_ns;
            assert_eq!((wire_in, queue, reply), (0, 0, 0));
            assert!(device_ns >= 2 * least_ns, "{device_ns}");
            let rare = unit.tally.rare();
            assert_eq!(rare.flushes.commands, 1);
            assert_eq!(rare.discards.bytes, 4 * BLOCK as u64);
            assert_eq!(rare.failures.writes, 1);
            let totals = unit.logical.statistics().totals();
            assert_eq!((totals.read_commands, totals.write_commands), (2, 1));
        }
    }

    /// A device that notes whether each write is to be durable.
    #[derive(Debug)]
    struct Noting {
        inner: MemoryDevice,
        durable: Mutex<Vec<bool>>,
    }

    impl BlockDevice for Noting {
        fn geometry(&self) -> Geometry {
            self.inner.geometry()
        }

        fn submit(&self, request: Request, ticket: Ticket, lane: &mut Lane) -> Submitted {
            if let Request::Write { durable, .. } = &request {
                self.durable.lock().expect("whole").push(*durable);
            }
            self.inner.submit(request, ticket, lane)
        }

        fn usage(&self) -> Result<Usage, BlockError> {
            self.inner.usage()
        }
    }

    #[test]
    fn without_its_write_cache_the_unit_makes_each_write_durable() {
        let inner = MemoryDevice::new(1 << 20, BLOCK as u32, 1 << 20).expect("memory");
        let noting = Arc::new(Noting {
            inner,
            durable: Mutex::default(),
        });
        let unit = Unit::alone("lu".into(), Arc::clone(&noting) as Arc<dyn BlockDevice>);
        let device = UnitDevice::join(Arc::clone(&unit), "a benchmark").expect("room");
        let mut lane = Lane::standing_with(false).expect("a lane");
        for cache in [true, false] {
            unit.logical.fix_write_cache(Some(cache));
            assert!(now(&device, &mut lane, write()).is_ok());
        }
        assert_eq!(*noting.durable.lock().expect("whole"), [false, true]);
    }
}
