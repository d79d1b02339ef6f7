//! The attacks on pools: families of histories, each with its vdevs, the behaviour of its disks,
//! and the things that may go wrong.

mod harsher;
mod lanes;

use store::vdev::TopLevelKind::{self, Leaf, Mirror, Raidz};

use super::{PoolSetup, PoolSubject};
use crate::disk::{Behaviour, Chances};
use crate::history::{Climate, History, Step, Trouble, generate};
use crate::laboratory::{Defeat, Failure, Report, Summary, attack, run, trace};
use crate::model::{Order, Rules};
use crate::operation::{Admin, ChangeKind, Operation, SLICES_PER_BLOCK, VolumeId};
use crate::random::Random;

type Shape = [(TopLevelKind, usize)];

const RAIDZ1: TopLevelKind = Raidz { parity: 1 };
const RAIDZ2: TopLevelKind = Raidz { parity: 2 };
const RAIDZ3: TopLevelKind = Raidz { parity: 3 };

const ANY: &[&Shape] = &[
    &[(Leaf, 1)],
    &[(Leaf, 1)],
    &[(Leaf, 1), (Leaf, 1)],
    &[(Leaf, 1), (Leaf, 1), (Leaf, 1)],
    &[(Mirror, 2)],
    &[(Mirror, 3)],
    &[(Mirror, 2), (Mirror, 2)],
    &[(RAIDZ1, 3)],
    &[(RAIDZ2, 4)],
    &[(RAIDZ3, 5)],
    &[(RAIDZ1, 3), (Mirror, 2)],
];
const PLAIN: &[&Shape] = &[&[(Leaf, 1)], &[(Leaf, 1), (Leaf, 1)]];
const REDUNDANT: &[&Shape] = &[
    &[(Mirror, 2)],
    &[(Mirror, 3)],
    &[(Mirror, 2), (Mirror, 2)],
    &[(RAIDZ1, 3)],
    &[(RAIDZ1, 4)],
    &[(RAIDZ2, 4)],
    &[(RAIDZ2, 5)],
    &[(RAIDZ3, 5)],
    &[(RAIDZ1, 3), (Mirror, 2)],
];

/// Shapes for partings. Some labels are left that know of a lost leaf, whichever other leaf of the
/// first vdev is away.
const PARTING: &[&Shape] = &[
    &[(Mirror, 2), (Mirror, 2)],
    &[(RAIDZ1, 3)],
    &[(RAIDZ1, 4)],
    &[(RAIDZ2, 4)],
    &[(RAIDZ3, 5)],
    &[(RAIDZ1, 3), (Mirror, 2)],
    &[(Mirror, 2), (Leaf, 1)],
];

/// Returns the sectors of a disk with `data_mib` MiB for data.
const fn disk_sectors(data_mib: u64) -> u64 {
    (data_mib * 1024 + 1536) / 4
}

/// Family of histories of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Honest disks lose their power at any moment, and the program is killed at any moment.
    PowerCuts,
    /// Honest disks lose their power, with much administration: snapshots, clones, rollbacks,
    /// resizing, destruction.
    Datasets,
    /// Administration in a pool of few MiB, which is full most of the time. Some volumes are thick,
    /// and their writes never fail.
    Full,
    /// Disks without redundancy fail, and say so.
    Failing,
    /// Disks without redundancy lie in every way. Reads may be errors, but never wrong bytes.
    Lying,
    /// Faulty disks are as many as redundancy covers: they lie, fail, vanish and come back old.
    /// Nothing may fail.
    Covered,
    /// Disks as in `Covered`, with spares, which take over and stand ready again.
    Spared,
    /// All disks of redundant vdevs fail and lie. Reads may be errors, but never wrong bytes.
    Beyond,
    /// A disk is lost, and the others go on. Then the power fails, the disk is back, and one of the
    /// others is away. The returned disk must never serve its old content as if it had missed
    /// nothing. If redundancy covers both disks, the pool opens.
    Apart,
    /// Power cuts and kills happen while disks are replaced, attached, detached and put aside, and
    /// datasets come and go. Nothing may be lost, and no detached disk is needed.
    Reshaped,
    /// Changes as in `Reshaped`, while all disks fail, hang and vanish, and every second pool has
    /// spares. Reads may be errors, but never wrong bytes.
    FailingReshaped,
    /// Power cuts and kills of pools with log vdevs.
    Logs,
    /// Pools with log vdevs whose disks fail, hang and vanish. No change may fail, and nothing that
    /// was promised may be missing silently.
    FailingLogs,
    /// Power cuts and kills happen while disks grow, are replaced by larger ones, and the pool is
    /// told so. Every second pool is full most of the time.
    Growing,
    /// Disks grow as in `Growing`, in a full pool in which reservations of volumes grow, shrink and
    /// end.
    Reserving,
    /// Reservations in a pool that is filled to the brim beside a volume with reserved space. That
    /// volume is overwritten completely, twice.
    Pressed,
    /// Bits flip on as many disks as redundancy covers, hundreds at a time. The disks are honest
    /// otherwise. Nothing may fail.
    Rotting,
    /// Honest disks without redundancy lose their power and one durable record of the log. The loss
    /// must be reported.
    LosingRecords,
    /// Honest disks without redundancy lose their power, and one sector of metadata rots. Nothing
    /// may be lost.
    RottenMetadata,
    /// Administration as in `Datasets`, with volumes in folders. Several volumes and snapshots are
    /// destroyed in one operation, below a folder or by the name of snapshots. They are all there,
    /// or all gone.
    Destroying,
    /// Honest disks come back with their content of an earlier moment, as many as redundancy
    /// covers. Meanwhile others are replaced, attached, detached and put aside. Nothing may be
    /// lost, even if others go once the old ones are rebuilt.
    OldCopies,
    /// The power is off while up to three of four labels of each disk are lost. Nothing may be
    /// lost.
    LostLabels,
    /// Disks lose all labels at both ends while the power is off, and get them back from their
    /// inner labels. The power may fail during that, too. Nothing may be lost.
    RebuiltLabels,
    /// A disk that redundancy covers is shorter after a power cut. Nothing may be lost.
    ShortDevices,
    /// Copies of disks in use, made at any moment, lie beside these at every later opening, while
    /// disks are replaced and the power fails. No opening takes a copy, and without the copies
    /// nothing is missing. Copies of all disks become pools of their own.
    Twins,
    /// Power cuts and kills happen while free space of disks is trimmed. Trimmed space reads as
    /// bytes that nobody wrote, and an opening must not need any of it. Every third pool is full
    /// most of the time. Disks come and go.
    Trimming,
    /// Disks go and come back while labels are written, and after the power cut another one is
    /// away. Missing data must be reported.
    Parting,
    /// Log vdevs with few sectors lose their power or are pulled, while the other vdevs stay far
    /// behind them.
    PulledLogs,
    /// The newest checkpoint is lost in all labels, and perhaps all labels of each disk but one.
    /// Nothing may be missing. Free space is soon overwritten there, and disks are told of it.
    LostRoots,
    /// Changes that a power cut took are written again and the power fails once more, or the mark
    /// is lost that an opening wrote. Changes that were given up must not come back, and promised
    /// ones must be there.
    Repeating,
    /// Lanes read beside the engine and prepare writes, several at once, in small pools whose
    /// places are soon used again. Honest disks lose their power.
    Lanes,
    /// Lanes as in `Lanes`, while disks fail, lie and come back old, as many as redundancy covers.
    /// Nothing may fail.
    CoveredLanes,
}

/// All families.
pub const FAMILIES: [Family; 32] = [
    Family::PowerCuts,
    Family::Datasets,
    Family::Full,
    Family::Failing,
    Family::Lying,
    Family::Covered,
    Family::Spared,
    Family::Beyond,
    Family::Apart,
    Family::Reshaped,
    Family::FailingReshaped,
    Family::Logs,
    Family::FailingLogs,
    Family::Growing,
    Family::Reserving,
    Family::Pressed,
    Family::Rotting,
    Family::LosingRecords,
    Family::RottenMetadata,
    Family::Destroying,
    Family::OldCopies,
    Family::LostLabels,
    Family::ShortDevices,
    Family::Twins,
    Family::Trimming,
    Family::RebuiltLabels,
    Family::Parting,
    Family::PulledLogs,
    Family::LostRoots,
    Family::Repeating,
    Family::Lanes,
    Family::CoveredLanes,
];

/// First seed of hard histories. Histories below it stay equal for ever, so that one that failed
/// once can be repeated.
pub const HARD: u64 = 1 << 32;

/// First seed of harder histories. They are hard, and each is cut at some of its flushes, where
/// writes are torn most often. They also ask for extents: what has space and what is a hole.
pub const HARDER: u64 = 1 << 40;

/// First seed of histories that are harder, and in which lanes read beside the engine and prepare
/// writes, whatever the family.
pub const BESIDE: u64 = 1 << 44;

const LOGS: &[&Shape] = &[&[(Leaf, 1)], &[(Mirror, 2)], &[(Leaf, 1), (Mirror, 2)]];

const LIES: Chances = Chances {
    lying_flush: 100,
    failed_flush: 10,
    failed_write: 5,
    lost_write: 10,
    misdirected_write: 10,
    misdirected_read: 10,
    failed_read: 5,
    bit_rot: 10,
    ruin: 5,
};

impl Family {
    /// Returns the family's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::PowerCuts => "power-cuts",
            Self::Datasets => "datasets",
            Self::Full => "full",
            Self::Failing => "failing",
            Self::Lying => "lying",
            Self::Covered => "covered",
            Self::Spared => "spared",
            Self::Beyond => "beyond",
            Self::Apart => "apart",
            Self::Reshaped => "reshaped",
            Self::FailingReshaped => "failing-reshaped",
            Self::Logs => "logs",
            Self::FailingLogs => "failing-logs",
            Self::Growing => "growing",
            Self::Reserving => "reserving",
            Self::Pressed => "pressed",
            Self::Rotting => "rotting",
            Self::LosingRecords => "losing-records",
            Self::RottenMetadata => "rotten-metadata",
            Self::Destroying => "destroying",
            Self::OldCopies => "old-copies",
            Self::LostLabels => "lost-labels",
            Self::RebuiltLabels => "rebuilt-labels",
            Self::ShortDevices => "short-devices",
            Self::Twins => "twins",
            Self::Trimming => "trimming",
            Self::Parting => "parting",
            Self::PulledLogs => "pulled-logs",
            Self::LostRoots => "lost-roots",
            Self::Repeating => "repeating",
            Self::Lanes => "lanes",
            Self::CoveredLanes => "covered-lanes",
        }
    }

    fn shapes(self) -> &'static [&'static Shape] {
        match self {
            Self::PowerCuts | Self::Datasets | Self::Full | Self::Reshaped => ANY,
            Self::Logs | Self::FailingLogs | Self::FailingReshaped => ANY,
            Self::Growing | Self::Reserving | Self::Pressed | Self::Destroying | Self::Twins => ANY,
            Self::Failing | Self::Lying | Self::LosingRecords | Self::RottenMetadata => PLAIN,
            Self::Trimming | Self::PulledLogs | Self::LostRoots | Self::Repeating => ANY,
            Self::Covered | Self::Beyond | Self::Spared | Self::Rotting => REDUNDANT,
            Self::OldCopies | Self::ShortDevices => REDUNDANT,
            Self::LostLabels | Self::RebuiltLabels => ANY,
            Self::Apart | Self::Parting => PARTING,
            Self::Lanes => lanes::WHOLE,
            Self::CoveredLanes => lanes::MIRRORS,
        }
    }

    fn setup(self, seed: u64) -> PoolSetup {
        let mut setup = PoolSetup::random(seed, self.shapes());
        if matches!(self, Self::Logs | Self::FailingLogs) {
            setup.logs = LOGS[(seed % 3) as usize].to_vec();
        }
        if self == Self::PulledLogs {
            harsher::add_logs(&mut setup, seed);
        }
        if self == Self::OldCopies && seed % 4 == 3 {
            setup.logs = LOGS[1].to_vec();
        }
        if self == Self::Twins && seed.is_multiple_of(3) {
            setup.logs = LOGS[(seed / 3 % 3) as usize].to_vec();
        }
        if matches!(
            self,
            Self::Reshaped | Self::FailingReshaped | Self::OldCopies | Self::Twins
        ) {
            setup.spare_disks = 3;
            setup.limits.scan_batch = [1, 10, 100, 1 << 16][(seed / 2 % 4) as usize];
        }
        if self == Self::Growing {
            setup.spare_disks = 2;
            if seed.is_multiple_of(3) {
                setup.logs = LOGS[(seed / 3 % 3) as usize].to_vec();
            }
        }
        if self == Self::Trimming {
            setup.spare_disks = 2;
            setup.autotrim = !seed.is_multiple_of(4);
            if seed.is_multiple_of(5) {
                setup.logs = LOGS[(seed / 5 % 3) as usize].to_vec();
            }
        }
        if self == Self::Spared || self == Self::FailingReshaped && !seed.is_multiple_of(2) {
            setup.spares = 1 + (seed / 8 % 2) as usize;
            setup.limits.scan_batch = [1, 10, 100, 1 << 16][(seed / 2 % 4) as usize];
        }
        setup
    }

    /// Returns the pool and the climate of a seed.
    pub fn of_seed(self, seed: u64) -> (PoolSetup, Climate) {
        let mut setup = self.setup(seed);
        let mut climate = Climate {
            disks: setup.all_disks(),
            disk_sectors: disk_sectors(if seed.is_multiple_of(4) { 40 } else { 8 }),
            blocks: 40,
            units: vec![1, 2, 4, 8],
            losable: setup.redundancy(),
            cuts_per_flush: 2,
            ..Climate::default()
        };
        match self {
            Self::PowerCuts => {
                setup.must_open = true;
                setup.never_suspends = true;
                setup.without_checksums = true;
            }
            Self::Datasets => {
                setup.must_open = true;
                setup.never_suspends = true;
                climate.admin_per_mille = 350;
                climate.volumes = 1..4;
            }
            Self::Destroying => destroy_together(&mut setup, &mut climate),
            Self::Full => fill(&mut setup, &mut climate, 1 + seed % 2),
            Self::Growing => grow(&mut setup, &mut climate, seed.is_multiple_of(2)),
            Self::Reserving => {
                fill(&mut setup, &mut climate, 2 + seed % 2);
                // A pool that is full from the beginning has no room for more promises.
                climate.fills = seed.is_multiple_of(4);
                climate.reserves_per_mille = 150;
                climate.thick_per_mille = 200;
            }
            Self::Pressed => fill_by_hand(&mut setup, &mut climate),
            Self::Rotting => rot(&mut setup, &mut climate),
            Self::LosingRecords | Self::RottenMetadata => {
                setup.never_suspends = true;
                // There are records that the next checkpoint does not cover at once.
                setup.limits.groups = setup.limits.groups.max(30);
                climate.steps = 20..80;
            }
            Self::Twins => show_copies(&mut setup, &mut climate),
            Self::Trimming => trim(&mut setup, &mut climate, seed.is_multiple_of(3)),
            Self::Parting => harsher::part(&mut setup, &mut climate),
            Self::PulledLogs => harsher::pull_logs(&mut setup, &mut climate, seed),
            Self::LostRoots => harsher::lose_roots(&mut setup, &mut climate, seed),
            Self::Repeating => harsher::repeat(&mut setup, &mut climate),
            Self::Lanes => lanes::read(&mut setup, &mut climate, seed),
            Self::CoveredLanes => {
                cover(&mut setup, &mut climate);
                lanes::read(&mut setup, &mut climate, seed);
            }
            Self::Failing => fail(&mut climate),
            Self::Lying => lie(&mut climate),
            Self::Covered => cover(&mut setup, &mut climate),
            Self::Spared => {
                cover(&mut setup, &mut climate);
                // Most disks are lost for good, so that there is time to rebuild.
                climate.troubles_per_mille = 80;
                climate.steps = 20..90;
            }
            Self::Beyond => lie(&mut climate),
            Self::Apart => {
                setup.must_open = setup.redundancy() > 1 || seed.is_multiple_of(2);
                climate.tolerates_errors = true;
                climate.crashes_per_mille = 0;
            }
            Self::LostLabels => (setup.must_open, setup.never_suspends) = (true, true),
            Self::RebuiltLabels => rebuild_labels(&mut setup, &mut climate),
            Self::ShortDevices => {
                setup.must_open = true;
                setup.never_suspends = true;
                climate.steps = 20..80;
            }
            Self::Reshaped | Self::OldCopies => reshape(&mut setup, &mut climate),
            Self::FailingReshaped => fail_and_reshape(&mut climate),
            Self::Logs => {
                setup.must_open = true;
                setup.never_suspends = true;
                climate.admin_per_mille = 100;
            }
            Self::FailingLogs => {
                fail(&mut climate);
                setup.never_suspends = true;
                climate.troubled = Some(setup.log_disks());
            }
        }
        if seed >= HARD {
            self.harden(seed, &mut setup, &mut climate);
        }
        if seed >= HARDER || self >= Self::Growing {
            self.harden_more(&mut climate);
        }
        if seed >= BESIDE {
            setup.with_lanes = true;
        }
        (setup, climate)
    }

    fn harden(self, seed: u64, setup: &mut PoolSetup, climate: &mut Climate) {
        climate.is_hard = true;
        // There are more cuts in fewer histories, so that torn writes are among them.
        climate.cuts_per_flush = if seed.is_multiple_of(4) { 12 } else { 5 };
        climate.cut_histories_per_mille = climate.cut_histories_per_mille.min(80) / 2;
        if self == Self::FailingLogs {
            // A disk that comes back old has silently lost durable data. No other disk may fail
            // beside it.
            let is_covered = |(kind, leaves): &(TopLevelKind, usize)| kind.redundancy(*leaves) > 0;
            let is_alone = seed.is_multiple_of(2) && setup.logs.iter().all(is_covered);
            let logs = setup.log_disks();
            let one = logs.start + (seed / 2) as usize % logs.len();
            climate.losable = if is_alone { climate.disks } else { 0 };
            climate.troubled = Some(if is_alone { one..one + 1 } else { logs });
        }
        if seed % 8 != 5 {
            return;
        }
        match self {
            Self::PowerCuts | Self::Datasets | Self::Reshaped | Self::Logs => {
                setup.must_open = false;
                climate.tolerates_errors = true;
                climate.ruins = true;
            }
            Self::Failing | Self::Lying | Self::Beyond | Self::FailingReshaped => {
                climate.ruins = true;
            }
            // In these families the pool must open, or little is left of the history.
            Self::Full | Self::Covered | Self::Spared | Self::Apart | Self::FailingLogs => {}
            Self::Growing | Self::Reserving | Self::Pressed => {}
            Self::Rotting | Self::LosingRecords | Self::Destroying | Self::OldCopies => {}
            Self::RottenMetadata => {}
            Self::LostLabels | Self::RebuiltLabels | Self::ShortDevices | Self::Twins => {}
            Self::Trimming | Self::Parting | Self::PulledLogs => {}
            Self::LostRoots | Self::Repeating => {}
            Self::Lanes | Self::CoveredLanes => {}
        }
    }

    fn harden_more(self, climate: &mut Climate) {
        climate.cuts_at_flushes = true;
        climate.extents_per_mille = 60;
        // There are few cuts at each flush, in all histories: each cut tears something else.
        climate.cut_histories_per_mille = 1000;
        climate.cuts_per_flush = 3;
        // In a full pool there is much to read after each cut.
        climate.cut_flushes_per_mille = match climate.reshapes_per_mille {
            _ if climate.lacks_only_space => 20,
            0 => 90,
            _ => 40,
        };
        if matches!(self, Self::Covered | Self::Spared) {
            climate.rots_per_mille = 30;
        }
    }

    /// Returns the pool and the history of a seed.
    pub fn history(self, seed: u64) -> (PoolSetup, History) {
        let (setup, climate) = self.of_seed(seed);
        let mut history = generate(seed, &climate);
        self.finish(&setup, &mut history);
        (setup, history)
    }

    fn finish(self, setup: &PoolSetup, history: &mut History) {
        if setup.with_lanes {
            lanes::add_bursts(history);
        }
        if self == Self::Apart {
            part(setup, history);
        }
        if self == Self::Pressed {
            press(setup, history);
        }
        if self == Self::Rotting {
            // The steps happen now and then, and at the end.
            let middle = history.steps.len() / 2;
            history.steps.insert(middle, Step::Heal);
            history.steps.push(Step::Heal);
        }
        if self == Self::LosingRecords {
            lose_records(history);
        }
        match self {
            Self::OldCopies => bring_old_copies(history),
            Self::LostLabels => now_and_then(history, &Step::LoseLabels),
            Self::RebuiltLabels => now_and_then(history, &Step::LoseAllLabels),
            Self::ShortDevices => now_and_then(history, &Step::Shrink),
            Self::Twins => copy_disks(setup, history),
            Self::RottenMetadata => now_and_then(history, &Step::RotMetadata { ways: 3 }),
            Self::Parting => harsher::try_partings(setup, history),
            Self::PulledLogs => harsher::try_pulls(setup, history),
            Self::LostRoots => harsher::try_lost_roots(history),
            Self::Repeating => harsher::try_repeats(history),
            _ => {}
        }
        if (Self::Parting..=Self::Repeating).contains(&self) {
            // The attempts are enough.
            history.cuts_per_flush = 0;
            history.asks_extents = false;
        }
    }

    /// Runs the history of one seed.
    ///
    /// # Errors
    /// The failure of the history.
    pub fn run(self, seed: u64) -> Result<Report, Failure> {
        let (setup, history) = self.history(seed);
        run::<PoolSubject>(&setup, &history)
    }

    /// Runs the history of one seed, and shortens it if it fails.
    ///
    /// # Errors
    /// The failure, and the shortest history found that fails.
    pub fn attack(self, seed: u64) -> Result<Summary, Box<Defeat>> {
        let (setup, climate) = self.of_seed(seed);
        let finish = |history: &mut History| self.finish(&setup, history);
        attack::<PoolSubject>(&setup, &climate, finish, seed..seed + 1)
    }

    /// Runs the history of one seed and tells all that happens.
    pub fn trace(self, seed: u64) -> (Result<Report, Failure>, Vec<String>) {
        let (setup, history) = self.history(seed);
        trace::<PoolSubject>(&setup, &history)
    }
}

/// Takes one disk away in the middle of the history. At its end the disk is back and, with odd
/// seeds, another one of its vdev is away.
fn part(setup: &PoolSetup, history: &mut History) {
    let mut random = Random::new(history.seed ^ 0x7061_7274).fork();
    let leaves = setup.shape.first().map_or(1, |(_, leaves)| *leaves as u64);
    let lost = random.within(0..leaves);
    let then = (lost + random.within(1..leaves)) % leaves;
    let trouble = |disk: u64, trouble| Step::Trouble {
        disk: disk as usize,
        trouble,
    };
    let middle = random.within(0..history.steps.len() as u64 + 1) as usize;
    history.steps.insert(middle, trouble(lost, Trouble::Vanish));
    if random.per_mille(500) {
        history.steps.push(Step::Drain);
    }
    history.steps.push(trouble(lost, Trouble::Return));
    if !history.seed.is_multiple_of(2) {
        history.steps.push(trouble(then, Trouble::Vanish));
    }
    let again_after = vec![random.within(1..30) as u32];
    history.steps.push(Step::PowerCut { again_after });
}

/// Loses records, behind about every tenth step.
fn lose_records(history: &mut History) {
    let mut random = Random::new(history.seed ^ 0x6c6f_7365).fork();
    let steps = std::mem::take(&mut history.steps);
    for step in steps {
        history.steps.push(step);
        if random.per_mille(100) {
            history.steps.push(Step::LoseRecords { ways: 3 });
        }
    }
}

/// Remembers moments now and then, and brings them back, mostly in attempts only.
fn bring_old_copies(history: &mut History) {
    let mut random = Random::new(history.seed ^ 0x6f6c_6421).fork();
    let steps = std::mem::take(&mut history.steps);
    for step in steps {
        history.steps.push(step);
        match random.within(0..100) {
            0..10 => history.steps.push(Step::RememberAll),
            10..15 => {
                let again_after = match random.per_mille(500) {
                    true => vec![random.within(1..120) as u32],
                    false => Vec::new(),
                };
                let power = random.per_mille(700);
                history.steps.push(Step::OldCopies { again_after, power });
            }
            15..18 => history.steps.push(Step::TryOldCopies { ways: 2 }),
            _ => {}
        }
    }
}

/// Adds this step behind about every twelfth step.
fn now_and_then(history: &mut History, what: &Step) {
    let mut random = Random::new(history.seed ^ 0x6e6f_7721).fork();
    let steps = std::mem::take(&mut history.steps);
    for step in steps {
        history.steps.push(step);
        if random.per_mille(80) {
            history.steps.push(what.clone());
        }
    }
}

/// Copies two or three disks at any moment, and all of them once.
fn copy_disks(setup: &PoolSetup, history: &mut History) {
    let mut random = Random::new(history.seed ^ 0x636f_7079).fork();
    let mut insert = |step, random: &mut Random| {
        let at = random.within(0..history.steps.len() as u64 + 1) as usize;
        history.steps.insert(at, step);
    };
    for _ in 0..random.within(2..4) {
        // The disks are mostly those in use from the beginning, and now and then others.
        let all = match random.per_mille(800) {
            true => setup.disks(),
            false => setup.all_disks(),
        };
        let disk = random.within(0..all as u64) as usize;
        insert(Step::Copy { disk }, &mut random);
    }
    insert(Step::CopyAll, &mut random);
}

fn grow(setup: &mut PoolSetup, climate: &mut Climate, is_full: bool) {
    setup.must_open = true;
    setup.never_suspends = true;
    climate.steps = 20..80;
    climate.admin_per_mille = 100;
    climate.reshapes_per_mille = 60;
    climate.grows_per_mille = 120;
    if is_full {
        fill(setup, climate, 2);
    }
}

fn trim(setup: &mut PoolSetup, climate: &mut Climate, is_full: bool) {
    setup.must_open = true;
    setup.never_suspends = true;
    climate.steps = 20..80;
    climate.admin_per_mille = 150;
    climate.reshapes_per_mille = 40;
    if is_full {
        fill(setup, climate, 2);
    }
    climate.trims_per_mille = 120;
    climate.behaviour.trim_garbles = true;
}

/// Makes disks with `data_mib` MiB for data, in which there is little room for more.
fn fill(setup: &mut PoolSetup, climate: &mut Climate, data_mib: u64) {
    setup.must_open = true;
    setup.never_suspends = true;
    climate.disk_sectors = disk_sectors(data_mib);
    // Two or three volumes, half as large on average, need nearly all of the space.
    climate.blocks = data_mib * 200 * setup.columns();
    climate.steps = 20..80;
    climate.admin_per_mille = 120;
    climate.tolerates_errors = true;
    climate.lacks_only_space = true;
    climate.thick_per_mille = 400;
    climate.thick_blocks = 100;
    climate.volumes = 2..4;
    climate.fills = true;
    // There is much to read after each cut.
    climate.cut_histories_per_mille = 40;
}

/// Presses the pool. The first volume gets space for all of it or for a part. Another volume takes
/// all that it can get. Then the first volume is written twice.
fn press(setup: &PoolSetup, history: &mut History) {
    const ANOTHER: VolumeId = VolumeId(100_000);
    const AT_ONCE: u64 = 32;
    let mut random = Random::new(history.seed ^ 0x7072_6573).fork();
    let first = history.geometry.volumes[0];
    let part = random.within(0..first.blocks / first.unit) * first.unit;
    let volume = first.id;
    let blocks = random.one_of(&[first.blocks, first.blocks, part]);
    let all = history.geometry.disk_sectors * setup.columns();
    let admin = |admin| Step::Submit(Operation::Admin(admin));
    let write = |volume, blocks: u64, from: u64| {
        let end = (from + AT_ONCE).min(blocks);
        Step::Submit(Operation::Change {
            volume,
            slices: from * SLICES_PER_BLOCK..end * SLICES_PER_BLOCK,
            kind: ChangeKind::Write,
            durable: false,
        })
    };
    let written = |volume, blocks: u64| {
        let starts = (0..blocks).step_by(AT_ONCE as usize);
        starts.map(move |from| write(volume, blocks, from))
    };
    let mut steps = vec![
        admin(Admin::Reserve { volume, blocks }),
        admin(Admin::Create {
            volume: ANOTHER,
            blocks: all,
        }),
        Step::Drain,
    ];
    steps.extend(written(ANOTHER, all));
    steps.push(Step::Drain);
    for _ in 0..2 {
        steps.extend(written(volume, first.blocks));
        steps.push(Step::Drain);
    }
    // The steps behind it happen in a pool that is full to the brim.
    let at = random.within(0..history.steps.len() as u64 + 1) as usize;
    history.steps.splice(at..at, steps);
}

/// Sets up a pool that [`press`] fills.
fn fill_by_hand(setup: &mut PoolSetup, climate: &mut Climate) {
    fill(setup, climate, 2);
    climate.disk_sectors = disk_sectors(8);
    climate.fills = false;
    climate.steps = 5..30;
    climate.reserves_per_mille = 150;
}

/// Makes disks that are large enough for inner labels.
fn rebuild_labels(setup: &mut PoolSetup, climate: &mut Climate) {
    (setup.must_open, setup.never_suspends) = (true, true);
    setup.with_inner_labels = true;
    climate.disk_sectors = disk_sectors(40);
}

fn destroy_together(setup: &mut PoolSetup, climate: &mut Climate) {
    setup.must_open = true;
    setup.never_suspends = true;
    setup.with_folders = true;
    climate.admin_per_mille = 250;
    climate.volumes = 2..6;
    climate.destroys_per_mille = 150;
    climate.steps = 20..80;
}

fn rot(setup: &mut PoolSetup, climate: &mut Climate) {
    setup.must_open = true;
    setup.never_suspends = true;
    climate.rots_per_mille = 80;
    climate.admin_per_mille = 120;
    climate.steps = 20..80;
}

fn fail(climate: &mut Climate) {
    climate.tolerates_errors = true;
    climate.troubles_per_mille = 30;
    climate.behaviour = Behaviour {
        chances: Chances {
            failed_flush: 10,
            failed_write: 3,
            failed_read: 5,
            ..Chances::default()
        },
        ..Behaviour::default()
    };
}

fn reshape(setup: &mut PoolSetup, climate: &mut Climate) {
    setup.must_open = true;
    setup.never_suspends = true;
    setup.without_checksums = true;
    climate.admin_per_mille = 250;
    climate.reshapes_per_mille = 150;
    climate.steps = 20..90;
}

fn fail_and_reshape(climate: &mut Climate) {
    fail(climate);
    // If one of two disks was away and comes back alone, it cannot know which changes the other
    // took.
    climate.rules = Rules {
        order: Order::AfterAcknowledged,
        durability: false,
    };
    climate.admin_per_mille = 0;
    climate.reshapes_per_mille = 150;
    climate.steps = 20..90;
}

fn show_copies(setup: &mut PoolSetup, climate: &mut Climate) {
    setup.must_open = true;
    setup.never_suspends = true;
    climate.admin_per_mille = 150;
    climate.reshapes_per_mille = 100;
    climate.crashes_per_mille = 120;
    // A pool that is shown a copy is opened once more without it.
    climate.cut_histories_per_mille = 30;
}

fn cover(setup: &mut PoolSetup, climate: &mut Climate) {
    setup.must_open = true;
    setup.never_suspends = true;
    fail(climate);
    climate.tolerates_errors = false;
    climate.only_losable_fail = true;
    climate.behaviour.chances = LIES;
}

fn lie(climate: &mut Climate) {
    fail(climate);
    climate.behaviour.chances = LIES;
    climate.admin_per_mille = 0;
    climate.rules = Rules {
        order: Order::AfterAcknowledged,
        durability: false,
    };
}
