//! Makes histories from seeds.
//!
//! The generator knows roughly what exists at each step. If something no longer exists, because a
//! step failed or was cut out of the history, the run leaves steps on it out.

mod together;

use std::collections::BTreeMap;
use std::ops::Range;

use super::{Climate, History, Step, Trouble};
use crate::disk::{Behaviour, Dirty, Fault, Tearing};
use crate::operation::{Admin, ChangeKind, Operation, Reshape, SLICES_PER_BLOCK, VolumeId};
use crate::random::Random;
use crate::subject::{Geometry, VolumeSpec};

/// Returns the history of a seed.
pub fn generate(seed: u64, climate: &Climate) -> History {
    let mut random = Random::new(seed).fork();
    let count = random.within(climate.volumes.clone()).max(1);
    let volumes: Vec<VolumeSpec> = (0..count)
        .map(|number| {
            let unit = random.one_of(&climate.units);
            // The number is drawn only if the family has thick volumes, so that the histories of
            // other families stay equal.
            let is_thick = climate.thick_per_mille > 0 && random.per_mille(climate.thick_per_mille);
            let most = match is_thick {
                true => climate.thick_blocks,
                false => climate.blocks,
            };
            let least = unit.min(most);
            let blocks = random.within(least..most + 1);
            VolumeSpec {
                id: VolumeId(number as u32),
                blocks: (blocks / unit).max(1) * unit,
                unit,
                is_thick,
            }
        })
        .collect();
    let mut behaviour = climate.behaviour.clone();
    behaviour.tearing = random.one_of(&[
        Tearing::Never,
        Tearing::Sectors,
        Tearing::Slices,
        Tearing::Slices,
    ]);
    // The disks range from all alike to disks on which nearly every order occurs.
    let slowest_us = random.one_of(&[21, 60, 200, 2000]);
    behaviour.latency_us.end = behaviour.latency_us.start + slowest_us;
    if climate.is_hard {
        harden(&mut behaviour, climate, &mut random);
    }
    if climate.cuts_at_flushes {
        behaviour.cuts_at_flushes = true;
        // If nothing is ever torn, there is little to attack at flushes.
        if behaviour.tearing == Tearing::Never && random.per_mille(750) {
            behaviour.tearing = random.one_of(&[Tearing::Sectors, Tearing::Slices]);
        }
    }
    let cut = random.per_mille(climate.cut_histories_per_mille);
    let known = volumes.iter().map(|spec| Known {
        id: spec.id,
        blocks: spec.blocks,
        unit: spec.unit,
        origin: None,
        is_snapshot: false,
    });
    let mut author = Author {
        climate,
        known: known.collect(),
        next_volume: count as u32,
        next_group: 0,
        durable_per_mille: random.one_of(&[0, 100, 500, 1000]),
        // Few hot places make operations meet.
        hot: random.within(2..climate.blocks.max(2) + 1),
        first_losable: random.within(0..climate.disks as u64) as usize,
        random,
    };
    let mut steps = match climate.fills {
        true => fill(&volumes),
        false => Vec::new(),
    };
    let count = author.random.within(climate.steps.clone());
    steps.extend((0..count).map(|_| author.step()));
    let unreliable = (0..climate.disks).filter(|disk| author.may_fail(*disk));
    let unreliable = unreliable.collect();
    History {
        seed,
        chance: seed,
        geometry: Geometry {
            disks: climate.disks,
            disk_sectors: climate.disk_sectors,
            volumes,
            grown: BTreeMap::new(),
        },
        behaviour,
        unreliable,
        rules: climate.rules,
        tolerates_errors: climate.tolerates_errors,
        lacks_only_space: climate.lacks_only_space,
        cuts_per_flush: if cut { climate.cuts_per_flush } else { 0 },
        cut_flushes_per_mille: climate.cut_flushes_per_mille,
        attempt: None,
        cuts_openings: cut && climate.is_hard,
        asks_extents: climate.extents_per_mille > 0,
        steps,
    }
}

/// Chooses further behaviour of the disks.
fn harden(behaviour: &mut Behaviour, climate: &Climate, random: &mut Random) {
    if climate.ruins {
        behaviour.tearing = Tearing::Ruin;
    }
    // A trim wipes disks that leave a pool.
    behaviour.trim_keeps_bytes = climate.reshapes_per_mille == 0 && random.per_mille(300);
    if random.per_mille(200) {
        behaviour.stalls_per_mille = random.one_of(&[5, 50]);
        behaviour.stall_us = random.one_of(&[5_000, 40_000]);
    }
}

/// Writes all of these volumes, the thick ones last: their reserved space must still be there.
fn fill(volumes: &[VolumeSpec]) -> Vec<Step> {
    const AT_ONCE: usize = 32;
    let mut steps = Vec::new();
    let thin = volumes.iter().filter(|spec| !spec.is_thick);
    let thick = volumes.iter().filter(|spec| spec.is_thick);
    for spec in thin.chain(thick) {
        for first in (0..spec.blocks).step_by(AT_ONCE) {
            let end = (first + AT_ONCE as u64).min(spec.blocks);
            steps.push(Step::Submit(Operation::Change {
                volume: spec.id,
                slices: first * SLICES_PER_BLOCK..end * SLICES_PER_BLOCK,
                kind: ChangeKind::Write,
                durable: false,
            }));
        }
        steps.push(Step::Drain);
    }
    steps
}

/// A volume that exists, if all went well.
#[derive(Clone, Copy, Debug)]
struct Known {
    id: VolumeId,
    blocks: u64,
    unit: u64,
    origin: Option<VolumeId>,
    is_snapshot: bool,
}

struct Author<'a> {
    climate: &'a Climate,
    random: Random,
    known: Vec<Known>,
    next_volume: u32,
    next_group: u32,
    durable_per_mille: u64,
    hot: u64,
    first_losable: usize,
}

impl Author<'_> {
    fn step(&mut self) -> Step {
        let climate = self.climate;
        if self.random.per_mille(climate.crashes_per_mille) {
            return self.crash();
        }
        if climate.troubles_per_mille > 0 && self.random.per_mille(climate.troubles_per_mille) {
            return self.trouble();
        }
        if climate.reshapes_per_mille > 0 && self.random.per_mille(climate.reshapes_per_mille) {
            return Step::Submit(Operation::Admin(Admin::Reshape(self.reshape())));
        }
        // Nothing is drawn for steps that a family does not have, so that the histories of others
        // stay equal.
        if climate.grows_per_mille > 0 && self.random.per_mille(climate.grows_per_mille) {
            return self.grow();
        }
        if climate.trims_per_mille > 0 && self.random.per_mille(climate.trims_per_mille) {
            let number = self.random.within(0..1 << 16) as u32;
            return Step::Submit(Operation::Admin(Admin::Reshape(Reshape::Trim(number))));
        }
        if climate.reserves_per_mille > 0 && self.random.per_mille(climate.reserves_per_mille) {
            return Step::Submit(Operation::Admin(self.reserve()));
        }
        if climate.rots_per_mille > 0 && self.random.per_mille(climate.rots_per_mille) {
            return self.rot();
        }
        if climate.extents_per_mille > 0 && self.random.per_mille(climate.extents_per_mille) {
            let known = self.any_volume(true);
            let (volume, slices) = (known.id, self.asked(known));
            return Step::Submit(Operation::Extents { volume, slices });
        }
        if climate.destroys_per_mille > 0 && self.random.per_mille(climate.destroys_per_mille) {
            return Step::Submit(Operation::Admin(self.together()));
        }
        if climate.reads_per_mille > 0 && self.random.per_mille(climate.reads_per_mille) {
            return self.read();
        }
        if self.random.per_mille(climate.admin_per_mille) {
            return Step::Submit(Operation::Admin(self.admin()));
        }
        match self.random.within(0..100) {
            0..20 => Step::Advance(self.random.one_of(&[1, 1, 2, 5, 20])),
            20..25 => Step::Drain,
            25..37 => {
                let volume = self.any_volume(false).id;
                Step::Submit(Operation::Flush { volume })
            }
            37..52 => self.read(),
            _ => Step::Submit(self.change()),
        }
    }

    fn read(&mut self) -> Step {
        let known = self.any_volume(true);
        let (volume, slices) = (known.id, self.slices(known));
        Step::Submit(Operation::Read { volume, slices })
    }

    fn crash(&mut self) -> Step {
        match self.random.within(0..10) {
            0..6 => {
                let mut again_after = Vec::new();
                while again_after.len() < 3 && self.random.per_mille(300) {
                    let longest = self.longest_cut_opening();
                    again_after.push(self.random.within(0..longest) as u32);
                }
                Step::PowerCut { again_after }
            }
            6 if self.climate.is_hard && !self.climate.tolerates_errors => Step::Export,
            6..8 => Step::Kill,
            // With twelve ways some are torn, however many writes there are.
            _ if self.climate.is_hard => Step::TryCuts { ways: 12 },
            _ => Step::TryCuts { ways: 8 },
        }
    }

    /// Returns the most answers of disks in an opening that is cut. The labels of five disks take
    /// twenty answers, and an opening writes only after them.
    fn longest_cut_opening(&mut self) -> u64 {
        match self.climate.is_hard {
            true => self.random.one_of(&[20, 60, 200, 600]),
            false => 20,
        }
    }

    fn trouble(&mut self) -> Step {
        let mut disk = self.random.within(0..self.climate.disks as u64) as usize;
        while !self.may_fail(disk) {
            disk = (disk + 1) % self.climate.disks;
        }
        let dirty = [Dirty::Kept, Dirty::Dropped, Dirty::Forgotten];
        let faults = [
            Fault::FailedFlush(self.random.one_of(&dirty)),
            Fault::FailedWrite,
            Fault::FailedRead,
        ];
        let is_losable = self.is_losable(disk);
        let trouble = match self.random.within(0..10) {
            4 => Trouble::Vanish,
            5 => Trouble::Hang,
            6 if self.climate.is_hard && is_losable => Trouble::ReturnAfterPowerCut,
            6 | 7 => Trouble::Return,
            8 if is_losable => Trouble::Remember,
            9 if is_losable => self
                .random
                .one_of(&[Trouble::ReturnOld, Trouble::ReturnMixed]),
            _ => Trouble::Fault {
                nth: self.random.within(1..6),
                fault: self.random.one_of(&faults),
            },
        };
        Step::Trouble { disk, trouble }
    }

    fn may_fail(&self, disk: usize) -> bool {
        match &self.climate.troubled {
            Some(disks) => disks.contains(&disk),
            None => !self.climate.only_losable_fail || self.is_losable(disk),
        }
    }

    /// Reports whether a disk may come back with old contents: any disks, but always the same ones
    /// in one history.
    fn is_losable(&self, disk: usize) -> bool {
        let disks = self.climate.disks;
        (disk + self.first_losable) % disks < self.climate.losable.min(disks)
    }

    /// Grows some disks, or tells the pool that some grew: both in any order and number.
    fn grow(&mut self) -> Step {
        let disks = self.climate.disks as u64;
        let one = self.random.within(0..disks);
        let tell = |reshape| Step::Submit(Operation::Admin(Admin::Reshape(reshape)));
        match self.random.within(0..10) {
            0..2 => tell(Reshape::Expand(one as u32)),
            2..6 => tell(Reshape::ExpandAll),
            way => {
                // The sizes are less than the grain of the data area, so that labels move and
                // nothing else, or some MiB.
                let sectors = self.random.one_of(&[1, 64, 128, 256, 512, 1024]);
                let disk = (way < 8).then_some(one as usize);
                Step::Grow { disk, sectors }
            }
        }
    }

    fn reserve(&mut self) -> Admin {
        let known = self.any_volume(false);
        let units = known.blocks / known.unit;
        let some = self.random.within(0..units + 1);
        let units = self.random.one_of(&[0, some, some, units]);
        Admin::Reserve {
            volume: known.id,
            blocks: units * known.unit,
        }
    }

    fn rot(&mut self) -> Step {
        let disks = self.climate.disks;
        let mut disk = self.random.within(0..disks as u64) as usize;
        while !self.is_losable(disk) {
            disk = (disk + 1) % disks;
        }
        let sectors = self.random.one_of(&[1, 3, 20, 200]);
        let trouble = Trouble::Rot { sectors };
        Step::Trouble { disk, trouble }
    }

    /// Chooses the range to ask for: mostly all of a volume.
    fn asked(&mut self, known: Known) -> Range<u64> {
        match self.random.per_mille(600) {
            true => 0..known.blocks * SLICES_PER_BLOCK,
            false => self.slices(known),
        }
    }

    fn any_volume(&mut self, or_snapshot: bool) -> Known {
        let fits = |known: &&Known| or_snapshot || !known.is_snapshot;
        let count = self.known.iter().filter(fits).count() as u64;
        let at = self.random.within(0..count) as usize;
        let mut fitting = self.known.iter().filter(fits);
        *fitting.nth(at).expect("there is always a volume")
    }

    fn change(&mut self) -> Operation {
        let known = self.any_volume(false);
        Operation::Change {
            volume: known.id,
            slices: self.slices(known),
            kind: match self.random.within(0..10) {
                0 => ChangeKind::Zero,
                1 => ChangeKind::Unmap,
                _ => ChangeKind::Write,
            },
            durable: self.random.per_mille(self.durable_per_mille),
        }
    }

    fn slices(&mut self, known: Known) -> Range<u64> {
        let hot = self.hot.min(known.blocks);
        let within = if self.random.per_mille(700) {
            hot
        } else {
            known.blocks
        };
        let mut first = self.random.within(0..within);
        let mut count = self.random.one_of(&[1, 1, 1, 2, 4, 8]);
        if self.random.per_mille(300) {
            first = first / known.unit * known.unit;
            count = known.unit;
        }
        let end = (first + count).min(known.blocks);
        let (mut start, mut end) = (first * SLICES_PER_BLOCK, end * SLICES_PER_BLOCK);
        if self.random.per_mille(self.climate.unaligned_per_mille) {
            start += self.random.within(0..SLICES_PER_BLOCK);
            end -= self.random.within(0..SLICES_PER_BLOCK.min(end - start));
        }
        start..end
    }

    fn new_volume(&mut self, like: Known, is_snapshot: bool, origin: Option<VolumeId>) -> VolumeId {
        let id = VolumeId(self.next_volume);
        self.next_volume += 1;
        self.known.push(Known {
            id,
            is_snapshot,
            origin,
            ..like
        });
        id
    }

    fn admin(&mut self) -> Admin {
        let kinds = if self.climate.is_hard { 16 } else { 12 };
        // Snapshots are the most important kind. Most other kinds need one.
        match self.random.within(0..kinds) {
            0..5 => self.snapshot(),
            5 => self.clone_snapshot(),
            6 => self.roll_back(),
            7 => self.resize(),
            8 => self.destroy(),
            9 => {
                let blocks = self.random.within(1..self.climate.blocks + 1);
                let mut like = self.any_volume(false);
                (like.blocks, like.unit) = (blocks, 1);
                let volume = self.new_volume(like, false, None);
                Admin::Create { volume, blocks }
            }
            10 => Admin::Scrub,
            11 => Admin::Checkpoint,
            // A snapshot that becomes another volume's would have another number in its group.
            12 if self.climate.destroys_per_mille > 0 => self.snapshot_group(),
            12 => self.promote(),
            13 => {
                // Snapshots of a group share a name.
                let or_snapshot = self.climate.destroys_per_mille == 0;
                let volume = self.any_volume(or_snapshot).id;
                Admin::Rename { volume }
            }
            _ => {
                let volume = self.any_volume(false).id;
                let choice = self.random.within(0..1000) as u32;
                Admin::SetProperty { volume, choice }
            }
        }
    }

    /// Promotes a clone, if there is one.
    fn promote(&mut self) -> Admin {
        let clones = self.known.iter();
        let clones: Vec<VolumeId> = clones
            .filter(|known| !known.is_snapshot && known.origin.is_some())
            .map(|known| known.id)
            .collect();
        match clones.is_empty() {
            true => self.clone_snapshot(),
            false => {
                let volume = self.random.one_of(&clones);
                Admin::Promote { volume }
            }
        }
    }

    fn reshape(&mut self) -> Reshape {
        let disk = self.random.within(0..1000) as u32;
        let kinds = if self.climate.is_hard { 14 } else { 10 };
        match self.random.within(0..kinds) {
            0..3 => Reshape::Replace(disk),
            3 => Reshape::Attach(disk),
            4 => Reshape::Detach(disk),
            5..7 => Reshape::Offline(disk),
            7..10 => Reshape::Online,
            10 => Reshape::Add,
            11 => Reshape::AddLog,
            _ => Reshape::RemoveLog(disk),
        }
    }

    fn snapshot(&mut self) -> Admin {
        let first = self.any_volume(false);
        let mut group = vec![first];
        let second = self.any_volume(false);
        if second.id != first.id && self.random.per_mille(400) {
            group.push(second);
        }
        let taken = group.into_iter().map(|volume| {
            let snapshot = self.new_volume(volume, true, Some(volume.id));
            (volume.id, snapshot)
        });
        Admin::Snapshot {
            of: taken.collect(),
        }
    }

    fn any_snapshot(&mut self) -> Option<Known> {
        let snapshots = self.known.iter().filter(|known| known.is_snapshot);
        let snapshots: Vec<Known> = snapshots.copied().collect();
        (!snapshots.is_empty()).then(|| self.random.one_of(&snapshots))
    }

    fn clone_snapshot(&mut self) -> Admin {
        let Some(snapshot) = self.any_snapshot() else {
            return self.snapshot();
        };
        let volume = self.new_volume(snapshot, false, Some(snapshot.id));
        let snapshot = snapshot.id;
        Admin::Clone { snapshot, volume }
    }

    /// Rolls back to the newest snapshot of a volume. A rollback to an older one is refused while
    /// newer ones exist.
    fn roll_back(&mut self) -> Admin {
        let Some(any) = self.any_snapshot() else {
            return self.snapshot();
        };
        let mut snapshots = self.known.iter().rev();
        let newest = snapshots.find(|known| known.is_snapshot && known.origin == any.origin);
        let newest = *newest.unwrap_or(&any);
        let volume = self
            .known
            .iter_mut()
            .find(|known| Some(known.id) == any.origin);
        match volume {
            Some(volume) => {
                volume.blocks = newest.blocks;
                Admin::Rollback {
                    volume: volume.id,
                    snapshot: newest.id,
                }
            }
            None => Admin::Checkpoint,
        }
    }

    fn resize(&mut self) -> Admin {
        let chosen = self.any_volume(false);
        let most = (self.climate.blocks / chosen.unit).max(1);
        let units = self.random.within(1..most + 1);
        let blocks = units * chosen.unit;
        let volume = self.known.iter_mut().find(|known| known.id == chosen.id);
        if let Some(volume) = volume {
            volume.blocks = blocks;
        }
        let volume = chosen.id;
        Admin::Resize { volume, blocks }
    }

    /// Destroys a volume or snapshot from which nothing stems. The last volume stays.
    fn destroy(&mut self) -> Admin {
        let volumes = self.known.iter().filter(|known| !known.is_snapshot).count();
        let can_go = |candidate: &Known| {
            let has_child = |known: &Known| known.origin == Some(candidate.id);
            (candidate.is_snapshot || volumes > 1) && !self.known.iter().any(has_child)
        };
        let candidates: Vec<usize> = (0..self.known.len())
            .filter(|at| can_go(&self.known[*at]))
            .collect();
        if candidates.is_empty() {
            return self.snapshot();
        }
        let at = self.random.one_of(&candidates);
        let volume = self.known.remove(at).id;
        Admin::Destroy { volume }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn only_as_many_disks_come_back_old_as_the_pool_can_lose() {
        let climate = Climate {
            disks: 4,
            losable: 2,
            steps: 200..201,
            troubles_per_mille: 500,
            ..Climate::default()
        };
        let mut ever = BTreeSet::new();
        for seed in 0..50 {
            let history = generate(seed, &climate);
            let old = history.steps.iter().filter_map(|step| match step {
                Step::Trouble { disk, trouble } => {
                    let is_old = [Trouble::ReturnOld, Trouble::ReturnMixed].contains(trouble);
                    is_old.then_some(*disk)
                }
                _ => None,
            });
            let old: BTreeSet<usize> = old.collect();
            assert!(old.len() <= 2, "{old:?}");
            ever.extend(old);
        }
        assert_eq!(ever.len(), 4, "each history has others");
    }

    #[test]
    fn hard_histories_have_everything_and_others_what_they_had() {
        let climate = Climate {
            steps: 100..101,
            troubles_per_mille: 100,
            losable: 1,
            admin_per_mille: 400,
            reshapes_per_mille: 200,
            is_hard: true,
            ..Climate::default()
        };
        let kinds = |climate: &Climate| {
            let mut kinds = BTreeSet::new();
            for seed in 0..50 {
                for step in generate(seed, climate).steps {
                    kinds.insert(match step {
                        Step::Submit(Operation::Admin(Admin::Promote { .. })) => "promote",
                        Step::Submit(Operation::Admin(Admin::Rename { .. })) => "rename",
                        Step::Submit(Operation::Admin(Admin::SetProperty { .. })) => "set",
                        Step::Submit(Operation::Admin(Admin::Reshape(Reshape::Add))) => "add",
                        Step::Submit(Operation::Admin(Admin::Reshape(Reshape::AddLog))) => "log",
                        Step::Submit(Operation::Admin(Admin::Reshape(Reshape::RemoveLog(_)))) => {
                            "no log"
                        }
                        Step::Export => "export",
                        Step::Trouble {
                            trouble: Trouble::ReturnAfterPowerCut,
                            ..
                        } => "power",
                        Step::PowerCut { again_after }
                            if again_after.iter().any(|at| *at > 100) =>
                        {
                            "late cut"
                        }
                        _ => "another",
                    });
                }
            }
            kinds
        };
        assert_eq!(kinds(&climate).len(), 10);
        let easy = Climate {
            is_hard: false,
            ..climate
        };
        assert_eq!(kinds(&easy), BTreeSet::from(["another"]));
    }

    #[test]
    fn histories_have_what_their_climate_asks_for_and_nothing_else() {
        let kinds = |climate: &Climate| {
            let mut kinds = BTreeSet::new();
            for step in (0..30).flat_map(|seed| generate(seed, climate).steps) {
                kinds.insert(match step {
                    Step::Grow { disk: None, .. } => "all grow",
                    Step::Grow { .. } => "one grows",
                    Step::Submit(Operation::Extents { .. }) => "extents",
                    Step::Submit(Operation::Admin(Admin::Reserve { blocks: 0, .. })) => "none",
                    Step::Submit(Operation::Admin(Admin::Reserve { .. })) => "some",
                    Step::Submit(Operation::Admin(Admin::Reshape(Reshape::Expand(_)))) => "expand",
                    Step::Submit(Operation::Admin(Admin::Reshape(_))) => "expand all",
                    Step::Trouble { disk, trouble } => {
                        assert!(
                            matches!(trouble, Trouble::Rot { .. }) && disk < 4,
                            "{trouble:?}"
                        );
                        "rot"
                    }
                    _ => "another",
                });
            }
            kinds
        };
        let climate = Climate {
            disks: 4,
            losable: 2,
            grows_per_mille: 100,
            reserves_per_mille: 100,
            rots_per_mille: 100,
            extents_per_mille: 100,
            ..Climate::default()
        };
        assert_eq!(kinds(&climate).len(), 9);
        assert_eq!(kinds(&Climate::default()), BTreeSet::from(["another"]));
        for seed in 0..30 {
            let steps = generate(seed, &climate).steps.into_iter();
            let rotten = steps.filter_map(|step| match step {
                Step::Trouble { disk, .. } => Some(disk),
                _ => None,
            });
            assert!(rotten.collect::<BTreeSet<usize>>().len() <= 2);
        }
    }

    #[test]
    fn operations_lie_within_the_volumes_that_the_generator_knows() {
        for seed in 0..200 {
            let climate = Climate::default();
            let history = generate(seed, &climate);
            assert!(climate.steps.contains(&(history.steps.len() as u64)));
            for volume in &history.geometry.volumes {
                assert!(volume.blocks > 0 && volume.blocks.is_multiple_of(volume.unit));
            }
            for step in &history.steps {
                if let Step::Submit(
                    Operation::Read { slices, .. } | Operation::Change { slices, .. },
                ) = step
                {
                    let most = climate.blocks * SLICES_PER_BLOCK;
                    assert!(!slices.is_empty() && slices.end <= most, "{slices:?}");
                }
            }
        }
    }
}
