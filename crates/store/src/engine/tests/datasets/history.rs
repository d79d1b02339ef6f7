//! A pool, the steps of its history, and the model of the expected contents of every volume and
//! snapshot.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::super::{Limits, Plan, PoolErrorKind};
use super::super::world::{DISK, World};
use crate::catalog::request::{
    CloneSnapshot, CreateVolume, Destroy, Rename, Resize, Rollback, SetProperties, TakeSnapshots,
};
use crate::catalog::{Catalog, Dataset};
use crate::format::DatasetId;
use crate::vdev::{LeafId, LeafSpec, TopLevelKind, VdevState};

/// Number of places for written sectors, each below a leaf of its own.
const PLACES: u64 = 6;
/// Sectors between two places, if blocks have one sector.
const STRIDE: u64 = 512;
/// Sectors of a place.
const PLACE: u64 = 24;
const SECTOR: u64 = 4096;

/// Step of a history; numbers choose among the existing datasets and disks.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Write {
        volume: u8,
        at: (u64, u64),
        sectors: u64,
        durable: bool,
    },
    Clear {
        volume: u8,
        at: (u64, u64),
        sectors: u64,
    },
    Create {
        shift: u32,
    },
    Snapshot {
        volume: u8,
    },
    GroupSnapshot,
    Clone {
        snapshot: u8,
    },
    Rollback {
        snapshot: u8,
        clones: bool,
    },
    Promote {
        volume: u8,
    },
    DestroyVolume {
        volume: u8,
        recursive: bool,
        clones: bool,
    },
    DestroySnapshot {
        snapshot: u8,
        clones: bool,
    },
    /// Destroys several snapshots of a volume at once, from this one on.
    DestroyRange {
        snapshot: u8,
    },
    /// Destroys several snapshots at once, of one volume or more.
    DestroySome {
        snapshots: [u8; 3],
    },
    Resize {
        volume: u8,
        places: u64,
    },
    Rename {
        volume: u8,
    },
    Set {
        volume: u8,
        property: usize,
    },
    Checkpoint,
    /// Begins a checkpoint; the next steps are done while it is made.
    BeginCheckpoint {
        steps: usize,
    },
    Reopen,
    /// Replaces a disk by another one. The old disk is wiped as soon as it is not needed any more.
    Replace {
        leaf: u8,
    },
    /// Attaches a mirror to a leaf.
    Attach {
        leaf: u8,
    },
    /// Detaches a leaf of a mirror, if the pool allows it.
    Detach {
        leaf: u8,
    },
    Offline {
        leaf: u8,
    },
    /// Brings offline disks back.
    Online,
}

pub(super) const PROPERTIES: [(&str, &str); 7] = [
    ("compression", "off"),
    ("compression", "zstd"),
    ("compression", "lz4"),
    ("checksum", "off"),
    ("checksum", "blake3"),
    ("checksum", "on"),
    ("primarycache", "none"),
];

pub(super) fn any_step() -> impl Strategy<Value = Step> {
    let at = || (0..PLACES, 0..PLACE);
    let number = any::<u8>;
    prop_oneof![
        16 => (number(), at(), 1..9_u64, any::<bool>()).prop_map(|(volume, at, sectors, durable)| {
            Step::Write { volume, at, sectors, durable }
        }),
        3 => (number(), at(), prop_oneof![1..20_u64, 1..4 * STRIDE])
            .prop_map(|(volume, at, sectors)| Step::Clear { volume, at, sectors }),
        2 => (12..15_u32).prop_map(|shift| Step::Create { shift }),
        6 => number().prop_map(|volume| Step::Snapshot { volume }),
        2 => Just(Step::GroupSnapshot),
        3 => number().prop_map(|snapshot| Step::Clone { snapshot }),
        2 => (number(), any::<bool>())
            .prop_map(|(snapshot, clones)| Step::Rollback { snapshot, clones }),
        2 => number().prop_map(|volume| Step::Promote { volume }),
        1 => (number(), any::<bool>(), any::<bool>()).prop_map(|(volume, recursive, clones)| {
            Step::DestroyVolume { volume, recursive, clones }
        }),
        4 => (number(), any::<bool>())
            .prop_map(|(snapshot, clones)| Step::DestroySnapshot { snapshot, clones }),
        2 => number().prop_map(|snapshot| Step::DestroyRange { snapshot }),
        2 => any::<[u8; 3]>().prop_map(|snapshots| Step::DestroySome { snapshots }),
        2 => (number(), 1..=PLACES).prop_map(|(volume, places)| Step::Resize { volume, places }),
        1 => number().prop_map(|volume| Step::Rename { volume }),
        2 => (number(), 0..PROPERTIES.len()).prop_map(|(volume, property)| {
            Step::Set { volume, property }
        }),
        4 => Just(Step::Checkpoint),
        4 => (1..40_usize).prop_map(|steps| Step::BeginCheckpoint { steps }),
        3 => Just(Step::Reopen),
        2 => number().prop_map(|leaf| Step::Replace { leaf }),
        1 => number().prop_map(|leaf| Step::Attach { leaf }),
        1 => number().prop_map(|leaf| Step::Detach { leaf }),
        2 => number().prop_map(|leaf| Step::Offline { leaf }),
        3 => Just(Step::Online),
    ]
}

/// Returns any step, with more steps that make the lists of datasets longer.
pub(super) fn any_growing_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => any_step(),
        1 => Just(Step::GroupSnapshot),
        1 => any::<u8>().prop_map(|snapshot| Step::Clone { snapshot }),
    ]
}

/// Makes the bytes of a sector; every second one can be compressed.
pub(super) fn content(tag: u32) -> Vec<u8> {
    let mut state = u64::from(tag).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let words = (0..SECTOR / 8).map(|_| {
        if tag.is_multiple_of(2) {
            return u64::from(tag);
        }
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    });
    words.flat_map(u64::to_le_bytes).collect()
}

/// Expected contents of a volume or snapshot: sectors that are not zeros.
type Held = BTreeMap<u64, u32>;

/// Returns the sectors in use without the pages of the space map. Their number depends on how far
/// apart the blocks came to lie.
pub(super) fn needed(world: &World) -> u64 {
    let space = &world.pool.space;
    let pages = (0..).zip(&world.pool.persisted.pages).map(|(vdev, pages)| {
        let used = pages.iter().filter(|page| !page.is_hole()).count() as u64;
        used * u64::from(world.pool.disks.array().footprint(vdev, 1))
    });
    space.counts().allocated - pages.sum::<u64>()
}

pub(super) struct History {
    pub(super) world: World,
    pub(super) model: BTreeMap<DatasetId, Held>,
    pub(super) tag: u32,
    pub(super) names: u32,
    /// Sectors that an empty pool needs.
    pub(super) empty: u64,
    /// Whether the metadata of the empty pool lay twice.
    pub(super) was_double: bool,
}

fn nth(catalog: &Catalog, number: u8, is_wanted: fn(&Dataset) -> bool) -> Option<DatasetId> {
    let wanted: Vec<_> = catalog
        .datasets()
        .filter(|dataset| is_wanted(dataset))
        .collect();
    let at = usize::from(number).checked_rem(wanted.len())?;
    Some(wanted[at].id)
}

impl History {
    pub(super) fn new(kind: TopLevelKind, disks: usize, limits: Limits) -> Self {
        let mut world = World::new(kind, disks, limits);
        for _ in 0..3 {
            world.checkpoint();
        }
        Self {
            empty: needed(&world),
            was_double: world.pool.is_metadata_double(),
            world,
            model: BTreeMap::new(),
            tag: 0,
            names: 0,
        }
    }

    pub(super) fn volume(&self, number: u8) -> Option<DatasetId> {
        nth(self.world.pool.catalog(), number, |of| {
            of.as_volume().is_some()
        })
    }

    pub(super) fn snapshot(&self, number: u8) -> Option<DatasetId> {
        nth(self.world.pool.catalog(), number, |of| {
            of.as_snapshot().is_some()
        })
    }

    pub(super) fn name(&self, id: DatasetId) -> String {
        self.world.pool.catalog().name(id)
    }

    fn new_name(&mut self) -> String {
        self.names += 1;
        format!("n{}", self.names)
    }

    fn sectors(&self, id: DatasetId) -> u64 {
        self.world.pool.contents[&id].size / SECTOR
    }

    /// Carries out an operation. Returns whether the catalogue agreed.
    pub(super) fn administer(&mut self, plan: Plan) -> bool {
        let done = self.world.administer(plan);
        if let Err(error) = &done {
            assert_eq!(error.kind, PoolErrorKind::Refused, "{error}");
        }
        // A dataset not known before is a snapshot of its volume, or a clone of its origin, or new.
        let catalog = self.world.pool.catalog();
        let mut model = std::mem::take(&mut self.model);
        for dataset in catalog.datasets().filter(|of| of.geometry().is_some()) {
            if model.contains_key(&dataset.id) {
                continue;
            }
            let from = match dataset.as_snapshot() {
                Some(_) => Some(dataset.parent),
                None => catalog.origin(dataset.id),
            };
            let held = from.map(|from| model[&from].clone()).unwrap_or_default();
            model.insert(dataset.id, held);
        }
        model.retain(|id, _| catalog.dataset(*id).is_some());
        self.model = model;
        done.is_ok()
    }

    fn range(&self, volume: DatasetId, at: (u64, u64), sectors: u64) -> Option<(u64, u64)> {
        let block = u64::from(self.world.pool.contents[&volume].block_size) / SECTOR;
        let first = at.0 * STRIDE * block + at.1;
        let end = (first + sectors).min(self.sectors(volume));
        (first < end).then_some((first, end))
    }

    pub(super) fn perform(&mut self, step: &Step) {
        match step {
            Step::Write {
                volume,
                at,
                sectors,
                durable,
            } => {
                let Some(volume) = self.volume(*volume) else {
                    return;
                };
                let Some((first, end)) = self.range(volume, *at, *sectors) else {
                    return;
                };
                let mut bytes = Vec::new();
                for sector in first..end {
                    self.tag += 1;
                    bytes.extend(content(self.tag));
                    let held = self.model.get_mut(&volume).expect("it is known");
                    held.insert(sector, self.tag);
                }
                self.world.write(volume, first * SECTOR, &bytes, *durable);
            }
            Step::Clear {
                volume,
                at,
                sectors,
            } => {
                let Some(volume) = self.volume(*volume) else {
                    return;
                };
                let Some((first, end)) = self.range(volume, *at, *sectors) else {
                    return;
                };
                let held = self.model.get_mut(&volume).expect("it is known");
                held.retain(|sector, _| !(first..end).contains(sector));
                self.world
                    .clear(volume, first * SECTOR, (end - first) * SECTOR);
            }
            Step::Checkpoint => self.world.checkpoint(),
            Step::BeginCheckpoint { steps } => self.world.begin_checkpoint(*steps),
            Step::Reopen => {
                self.world.reopen().expect("opens");
                self.verify();
            }
            Step::Replace { .. }
            | Step::Attach { .. }
            | Step::Detach { .. }
            | Step::Offline { .. }
            | Step::Online => self.reshape(step),
            other => self.change(other),
        }
        self.wipe_detached();
        // The running estimate of the lists' length is no less than the real length.
        let pool = &self.world.pool;
        let counted = pool.count_lists(pool.catalog());
        assert!(
            pool.promises.lists().is_none_or(|lists| lists >= counted),
            "{step:?}"
        );
    }

    /// Returns the leaves of slots, each with the number of leaves in its slot.
    fn slots(&self) -> Vec<(LeafId, VdevState, usize)> {
        let slots = self
            .world
            .pool
            .disks
            .array()
            .top_levels()
            .flat_map(|top| top.slots);
        let leaves = slots.flat_map(|slot| {
            let count = slot.leaves.len();
            let leaves = slot.leaves.into_iter();
            leaves.map(move |leaf| (leaf.leaf, leaf.state, count))
        });
        leaves.collect()
    }

    fn is_labelled(&self, leaf: LeafId) -> bool {
        let examined = self.world.examine().expect("a pool");
        let disk = self.world.leaves.get(&leaf.0);
        disk.is_some_and(|disk| examined.leaves[*disk].is_some())
    }

    fn reshape(&mut self, step: &Step) {
        let now = self.world.now_us;
        let slots = self.slots();
        let (Step::Replace { leaf }
        | Step::Attach { leaf }
        | Step::Detach { leaf }
        | Step::Offline { leaf }) = step
        else {
            for (leaf, state, _) in slots {
                // A device that has not answered yet is tried another time.
                if state == VdevState::Offline {
                    let _ = self.world.pool.online(leaf, now);
                }
            }
            return;
        };
        let (leaf, _, in_slot) = slots[usize::from(*leaf) % slots.len()];
        // A leaf without a label would not be found when the pool is opened.
        let is_labelled = self.is_labelled(leaf);
        let number = self.world.disks.len();
        let new = LeafSpec::new(100 + number as u64, DISK);
        let pool = &mut self.world.pool;
        let joined = match step {
            Step::Replace { .. } if in_slot == 1 => pool.replace(leaf, &new).ok(),
            Step::Attach { .. } if slots.len() < 4 => pool.attach(leaf, &new).ok(),
            // The pool decides whether the leaf may be detached.
            Step::Detach { .. } => pool.detach(leaf, now).map_or(None, |()| None),
            Step::Offline { .. } if is_labelled => pool.offline(leaf, now).map_or(None, |()| None),
            _ => None,
        };
        if let Some(leaf) = joined {
            self.world.disks.push(Default::default());
            self.world.leaves.insert(leaf.0, number);
        }
    }

    /// Wipes detached disks, since nothing needs them: they are used again.
    fn wipe_detached(&mut self) {
        let array = self.world.pool.disks.array();
        for (number, disk) in self.world.disks.iter_mut().enumerate() {
            if array.find(100 + number as u64).is_none() {
                disk.clear();
            }
        }
    }

    /// Brings all disks back, and waits until everything is rebuilt.
    fn make_whole(&mut self) {
        self.world.settle();
        self.reshape(&Step::Online);
        self.world.settle();
        self.wipe_detached();
        let status = self.world.pool.status();
        assert_eq!((status.state, status.suspended), (VdevState::Online, None));
        assert!(
            self.world
                .pool
                .leaf_statuses()
                .all(|leaf| !leaf.is_incomplete)
        );
    }

    pub(super) fn change(&mut self, step: &Step) {
        match step {
            Step::Create { shift } => {
                let request = CreateVolume {
                    name: self.new_name(),
                    size: (PLACES * STRIDE) << shift,
                    block_size: 1 << shift,
                    ..CreateVolume::default()
                };
                self.administer(Box::new(move |catalog, stamp| {
                    catalog.plan_create_volume(&request, stamp)
                }));
            }
            Step::Snapshot { volume } => {
                if let Some(volume) = self.volume(*volume) {
                    let name = format!("{}@{}", self.name(volume), self.new_name());
                    self.take(vec![name]);
                }
            }
            Step::GroupSnapshot => {
                let new = self.new_name();
                let catalog = self.world.pool.catalog();
                let volumes = catalog.datasets().filter(|of| of.as_volume().is_some());
                let names: Vec<_> = volumes
                    .map(|of| format!("{}@{new}", catalog.name(of.id)))
                    .collect();
                if !names.is_empty() {
                    self.take(names);
                }
            }
            Step::Clone { snapshot } => {
                if let Some(snapshot) = self.snapshot(*snapshot) {
                    let request = CloneSnapshot {
                        snapshot: self.name(snapshot),
                        name: self.new_name(),
                        ..CloneSnapshot::default()
                    };
                    self.administer(Box::new(move |catalog, stamp| {
                        catalog.plan_clone(&request, stamp)
                    }));
                }
            }
            Step::Rollback { snapshot, clones } => {
                if let Some(snapshot) = self.snapshot(*snapshot) {
                    self.roll_back(snapshot, *clones);
                }
            }
            Step::Promote { volume } => {
                if let Some(volume) = self.volume(*volume) {
                    let name = self.name(volume);
                    self.administer(Box::new(move |catalog, _| catalog.plan_promote(&name)));
                }
            }
            Step::Resize { volume, places } => {
                if let Some(volume) = self.volume(*volume) {
                    self.resize(volume, *places);
                }
            }
            Step::Rename { volume } => {
                if let Some(volume) = self.volume(*volume) {
                    let request = Rename {
                        from: self.name(volume),
                        to: self.new_name(),
                        ..Rename::default()
                    };
                    self.administer(Box::new(move |catalog, stamp| {
                        catalog.plan_rename(&request, stamp)
                    }));
                }
            }
            Step::Set { volume, property } => {
                if let Some(volume) = self.volume(*volume) {
                    let (name, value) = PROPERTIES[*property];
                    let request = SetProperties {
                        name: self.name(volume),
                        properties: [(name.to_owned(), value.to_owned())].into(),
                        ..SetProperties::default()
                    };
                    self.administer(Box::new(move |catalog, _| catalog.plan_set(&request)));
                }
            }
            Step::DestroySome { snapshots } => {
                let some = snapshots.iter().filter_map(|number| self.snapshot(*number));
                let names: Vec<_> = some.map(|snapshot| self.name(snapshot)).collect();
                if !names.is_empty() {
                    self.destroy_names(names, false, false);
                }
            }
            other => self.destroy(other),
        }
    }

    fn destroy(&mut self, step: &Step) {
        let (name, is_recursive, with_clones) = match step {
            Step::DestroyVolume {
                volume,
                recursive,
                clones,
            } => (self.volume(*volume), *recursive, *clones),
            Step::DestroySnapshot { snapshot, clones } => {
                (self.snapshot(*snapshot), false, *clones)
            }
            Step::DestroyRange { snapshot } => (self.snapshot(*snapshot), false, false),
            other => unreachable!("{other:?}"),
        };
        let Some(id) = name else {
            return;
        };
        let mut name = self.name(id);
        if matches!(step, Step::DestroyRange { .. }) {
            name += "%";
        }
        self.destroy_names(vec![name], is_recursive, with_clones);
    }

    pub(super) fn destroy_names(
        &mut self,
        names: Vec<String>,
        is_recursive: bool,
        with_clones: bool,
    ) -> bool {
        let request = Destroy {
            names,
            is_recursive,
            with_clones,
        };
        self.administer(Box::new(move |catalog, _| catalog.plan_destroy(&request)))
    }

    pub(super) fn take(&mut self, names: Vec<String>) {
        let request = TakeSnapshots {
            names,
            ..TakeSnapshots::default()
        };
        self.administer(Box::new(move |catalog, stamp| {
            catalog.plan_snapshot(&request, stamp)
        }));
    }

    fn roll_back(&mut self, snapshot: DatasetId, with_clones: bool) {
        let volume = self
            .world
            .pool
            .catalog()
            .volume_of(snapshot)
            .expect("a volume");
        let request = Rollback {
            snapshot: self.name(snapshot),
            destroy_newer: true,
            with_clones,
        };
        if self.administer(Box::new(move |catalog, _| catalog.plan_rollback(&request))) {
            let held = self.model[&snapshot].clone();
            self.model.insert(volume, held);
        }
    }

    fn resize(&mut self, volume: DatasetId, places: u64) {
        let block = u64::from(self.world.pool.contents[&volume].block_size);
        let request = Resize {
            name: self.name(volume),
            size: (places * STRIDE - 500) * block,
            may_shrink: true,
        };
        if self.administer(Box::new(move |catalog, _| catalog.plan_resize(&request))) {
            let sectors = self.sectors(volume);
            let held = self.model.get_mut(&volume).expect("it is known");
            held.retain(|sector, _| *sector < sectors);
        }
    }

    /// Reads every place of every volume and snapshot.
    pub(super) fn verify(&mut self) {
        for (id, held) in self.model.clone() {
            let size = self.sectors(id);
            let block = u64::from(self.world.pool.contents[&id].block_size) / SECTOR;
            for place in 0..PLACES {
                let first = place * STRIDE * block;
                let end = (first + PLACE + 10).min(size);
                if first >= end {
                    continue;
                }
                let read = self
                    .world
                    .read(id, first * SECTOR, ((end - first) * SECTOR) as u32);
                for (sector, bytes) in (first..end).zip(read.chunks(SECTOR as usize)) {
                    let is_right = match held.get(&sector) {
                        Some(tag) => bytes == content(*tag),
                        None => bytes.iter().all(|byte| *byte == 0),
                    };
                    assert!(is_right, "sector {sector} of {}", self.name(id));
                }
            }
        }
    }

    /// Destroys everything, and checks that all space comes back.
    pub(super) fn end(&mut self) {
        self.make_whole();
        // No blocks or nodes are in memory any more.
        self.world.reopen().expect("opens");
        self.verify();
        self.world.checkpoint();
        while let Some(volume) = self.volume(0) {
            let name = self.name(volume);
            assert!(self.destroy_names(vec![name], true, true));
        }
        for _ in 0..400 {
            let is_done = self.world.pool.destroyed.is_empty();
            if is_done {
                break;
            }
            self.world.checkpoint();
        }
        for _ in 0..3 {
            self.world.checkpoint();
        }
        let needed = needed(&self.world);
        // If a vdev lost its redundancy meanwhile, metadata lies twice by now.
        let empty = match self.world.pool.is_metadata_double() && !self.was_double {
            true => 2 * self.empty,
            false => self.empty,
        };
        assert!(needed <= empty, "{needed}, {empty} when it was empty");
    }
}
