//! Tallies of command times: per unit, per nexus, per session, per port group.
//!
//! A unit has many cells, so they are small: sums of each stage, and one histogram of the whole
//! latency for reads and one for writes. A port group also has a histogram for each stage.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::CommandTimes;
use super::histogram::Histogram;
use super::per_loop::PerLoop;
use super::rare::{Cause, Failure, Failures, Upkeep};
use crate::unit::Unit;
use model::figures::latency::LatencyCounts;
use model::figures::rare::{FailureSums, RareSums};
use model::figures::{KINDS, STAGES, StageLatency, StageTotals, WITH_HISTOGRAM};

/// Sums of the commands of one kind.
#[derive(Debug, Default)]
struct KindCell {
    commands: AtomicU64,
    bytes: AtomicU64,
    stages_ns: [AtomicU64; STAGES],
}

/// Sums by kind, in which one thread counts.
#[derive(Debug, Default)]
pub struct StageSums([KindCell; KINDS]);

#[inline]
fn raise(counter: &AtomicU64, more: u64) {
    // With one writer, a plain store loses nothing, and costs less than an atomic addition.
    counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

impl StageSums {
    /// Adds a command. Only one thread may call this.
    #[inline]
    pub fn add(&self, times: &CommandTimes) {
        let cell = &self.0[times.kind.place()];
        raise(&cell.commands, 1);
        raise(&cell.bytes, times.bytes);
        for (sum, spent) in cell.stages_ns.iter().zip(times.stages_ns) {
            raise(sum, spent);
        }
    }

    /// Returns the sums.
    pub fn totals(&self) -> StageTotals {
        let mut totals = StageTotals::default();
        self.add_to(&mut totals);
        totals
    }

    fn add_to(&self, totals: &mut StageTotals) {
        for (total, cell) in totals.iter_mut().zip(&self.0) {
            total.commands += cell.commands.load(Ordering::Relaxed);
            total.bytes += cell.bytes.load(Ordering::Relaxed);
            for (sum, stage) in total.stages_ns.iter_mut().zip(&cell.stages_ns) {
                *sum += stage.load(Ordering::Relaxed);
            }
        }
    }
}

/// Figures of one unit on one loop.
#[derive(Debug, Default)]
struct UnitCell {
    sums: StageSums,
    latency: [Histogram; WITH_HISTOGRAM],
}

/// Figures of one unit.
#[derive(Debug)]
pub struct UnitTally {
    /// Name of the unit.
    name: String,
    /// Number of the tally; never reused.
    number: u64,
    cells: PerLoop<UnitCell>,
    upkeep: Upkeep,
    failures: Failures,
    /// Operations under way of protocols without task sets.
    operations: AtomicU32,
}

impl UnitTally {
    /// Makes the tally of the unit with this name.
    pub fn new(name: String) -> Arc<Self> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Arc::new(Self {
            name,
            number: LAST.fetch_add(1, Ordering::Relaxed) + 1,
            cells: PerLoop::default(),
            upkeep: Upkeep::default(),
            failures: Failures::default(),
            operations: AtomicU32::new(0),
        })
    }

    /// Returns the name of the unit.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds a command that a loop has served. Only this loop may use the number.
    #[inline]
    pub fn add(&self, loop_index: usize, times: &CommandTimes) {
        let cell = self.cells.of(loop_index);
        cell.sums.add(times);
        match cell.latency.get(times.kind as usize) {
            Some(latency) => latency.add(times.latency_ns()),
            None => self.upkeep.add(times),
        }
    }

    /// Counts an operation of a protocol without task sets for as long as it is under way.
    #[inline]
    pub(crate) fn operation(self: &Arc<Self>) -> UnderWay {
        self.operations.fetch_add(1, Ordering::Relaxed);
        UnderWay(Arc::clone(self))
    }

    /// Returns the number of operations under way of protocols without task sets.
    pub fn operations(&self) -> u32 {
        self.operations.load(Ordering::Relaxed)
    }

    /// Returns the sums of discards, flushes and failures.
    pub fn rare(&self) -> RareSums {
        self.upkeep.sums(&self.failures)
    }

    /// Returns the number of the tally. A unit that is opened anew has another one.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the sums of all loops.
    pub fn totals(&self) -> StageTotals {
        let mut totals = StageTotals::default();
        self.cells
            .cells()
            .for_each(|cell| cell.sums.add_to(&mut totals));
        totals
    }

    /// Returns the latencies of reads, and those of writes.
    pub fn latency(&self) -> [LatencyCounts; WITH_HISTOGRAM] {
        let mut counts = <[LatencyCounts; WITH_HISTOGRAM]>::default();
        for cell in self.cells.cells() {
            for (sum, histogram) in counts.iter_mut().zip(&cell.latency) {
                histogram.add_to(sum);
            }
        }
        counts
    }
}

/// Operation under way of a protocol without task sets. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct UnderWay(Arc<UnitTally>);

impl Drop for UnderWay {
    #[inline]
    fn drop(&mut self) {
        self.0.operations.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Figures of one nexus: a unit as one session, or one connection of NBD, uses it. They take memory
/// once there was a command.
///
/// The tally does not hold the unit itself: a command whose answer is not fetched must not keep the
/// device of a deleted unit open.
#[derive(Debug)]
pub struct NexusTally {
    /// Figures of the unit.
    pub unit: Arc<UnitTally>,
    /// Figures of the port group through which the nexus leads; `None` for protocols without any.
    port_group: Option<Arc<PortGroupTally>>,
    sums: OnceLock<Box<StageSums>>,
}

impl NexusTally {
    /// Makes the tally of a nexus that leads through a port group to `unit`.
    pub fn new(unit: &Unit, port_group: Option<Arc<PortGroupTally>>) -> Arc<Self> {
        Arc::new(Self {
            unit: Arc::clone(&unit.tally),
            port_group,
            sums: OnceLock::new(),
        })
    }

    /// Adds a command of the nexus, to the figures of its unit too. Only the loop of the nexus may
    /// call this.
    #[inline]
    pub fn add(&self, loop_index: usize, times: &CommandTimes) {
        self.unit.add(loop_index, times);
        self.sums.get_or_init(Box::default).add(times);
    }

    /// Adds a command that failed to the figures of the unit and of the port group.
    #[cold]
    pub fn add_failure(&self, failure: Failure) {
        self.unit.failures.add(failure);
        if let Some(port_group) = &self.port_group {
            port_group.failures.add(failure);
        }
    }

    /// Adds commands that ended before their time to the figures of the unit and of the port group.
    pub fn add_aborted(&self, commands: u64, cause: Cause) {
        self.unit.failures.add_aborted(commands, cause);
        if let Some(port_group) = &self.port_group {
            port_group.failures.add_aborted(commands, cause);
        }
    }

    /// Returns the sums, or `None` if there was no command yet.
    pub fn totals(&self) -> Option<StageTotals> {
        self.sums.get().map(|sums| sums.totals())
    }
}

/// Figures of one port group on one loop.
#[derive(Debug, Default)]
#[repr(align(128))]
struct PortGroupCell {
    sums: StageSums,
    latency: [Histogram; WITH_HISTOGRAM],
    stages: [[Histogram; STAGES]; WITH_HISTOGRAM],
}

/// Figures of one port group.
#[derive(Debug, Default)]
pub struct PortGroupTally {
    cells: PerLoop<PortGroupCell>,
    failures: Failures,
}

impl PortGroupTally {
    /// Adds a command that a loop has served. Only this loop may use the number.
    #[inline]
    pub fn add(&self, loop_index: usize, times: &CommandTimes) {
        let cell = self.cells.of(loop_index);
        cell.sums.add(times);
        let kind = times.kind as usize;
        if let (Some(latency), Some(stages)) = (cell.latency.get(kind), cell.stages.get(kind)) {
            latency.add(times.latency_ns());
            for (stage, spent) in stages.iter().zip(times.stages_ns) {
                stage.add(spent);
            }
        }
    }

    /// Returns the sums of all loops.
    pub fn totals(&self) -> StageTotals {
        let mut totals = StageTotals::default();
        self.cells
            .cells()
            .for_each(|cell| cell.sums.add_to(&mut totals));
        totals
    }

    /// Returns the latencies of reads, and those of writes.
    pub fn latency(&self) -> [StageLatency; WITH_HISTOGRAM] {
        let mut found = <[StageLatency; WITH_HISTOGRAM]>::default();
        for cell in self.cells.cells() {
            for (kind, sum) in found.iter_mut().enumerate() {
                cell.latency[kind].add_to(&mut sum.whole);
                let stages = sum.stages.iter_mut().zip(&cell.stages[kind]);
                stages.for_each(|(sum, stage)| stage.add_to(sum));
            }
        }
        found
    }

    /// Returns the sums of commands that failed or were aborted.
    pub fn failures(&self) -> FailureSums {
        self.failures.sums()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::figures::latency::Latencies;
    use model::figures::{CommandKind, KindTotals};

    fn read(stages_us: [u64; STAGES]) -> CommandTimes {
        CommandTimes {
            kind: CommandKind::Read,
            bytes: 4096,
            stages_ns: stages_us.map(|us| us * 1000),
        }
    }

    #[test]
    fn loops_add_up() {
        let (unit, port) = (UnitTally::new("lu".into()), PortGroupTally::default());
        for (loop_index, times) in [(0, [0, 10, 100, 1]), (1, [0, 30, 300, 3])] {
            unit.add(loop_index, &read(times));
            port.add(loop_index, &read(times));
        }
        let other = CommandTimes {
            kind: CommandKind::Other,
            bytes: 0,
            ..read([0, 5, 0, 0])
        };
        unit.add(0, &other);
        port.add(0, &other);
        let [reads, writes, others] = unit.totals();
        assert_eq!(unit.totals(), port.totals());
        assert_eq!((reads.commands, reads.bytes), (2, 8192));
        assert_eq!(reads.stages_ns, [0, 40_000, 400_000, 4_000]);
        assert_eq!(writes, KindTotals::default());
        assert_eq!((others.commands, others.stages_ns[1]), (1, 5_000));
        let [latency, none] = unit.latency();
        let all_of = |counts: &LatencyCounts| {
            let mut latencies = Latencies::default();
            latencies.add_between(&LatencyCounts::default(), counts);
            latencies
        };
        assert_eq!(all_of(&latency).commands(), 2);
        assert_eq!(all_of(&none).commands(), 0);
        let [stages, _] = port.latency();
        assert_eq!(stages.whole, latency);
        assert_eq!(all_of(&stages.stages[2]).below(200_000), 1);
    }

    /// Checks the bound that a machine with many units and loops relies on: 31 MB for 1,000 units
    /// that 32 loops serve.
    #[test]
    fn a_unit_takes_less_than_a_kilobyte_on_each_loop() {
        // An allocation takes a word more, and is rounded up to 16 bytes.
        let allocated = |size: usize| (size + 8).next_multiple_of(16);
        let cells = 32 * allocated(size_of::<UnitCell>());
        let rows = 2 * allocated(PerLoop::<UnitCell>::ROW_SIZE);
        let unit = allocated(size_of::<UnitTally>()) + rows + cells;
        assert!(unit * 1000 <= 31_000_000, "{unit}");
    }
}
