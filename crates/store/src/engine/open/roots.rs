//! Reads the roots in the label rings, and decides which of them are believed.

use std::collections::{BTreeSet, HashMap};

use pages::Pages;

use super::super::config::PoolConfig;
use super::error::OpenError;
use super::leaf_labels::LeafLabels;
use super::parted_leaves::{self, Stray, missing_now};
use crate::engine::devices::label_rounds::ROUNDS;
use crate::format::label::{COPIES, RING_OFFSET, RING_SLOTS};
use crate::format::{Epoch, Label, PoolKey, Root, SECTOR_SIZE};
use crate::vdev::{Dtl, LeafSpec, LeafState};

/// Checkpoint that a pool may be opened at.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Root of the checkpoint.
    pub root: Root,
    /// Number of equal copies of the root.
    pub copies: u32,
}

/// Ring of 32 sectors that every label is to have.
#[derive(Clone, Debug, Default)]
pub(super) struct Ring {
    /// Roots that are believed, each in its slot; zeros if there is none.
    pub(super) sectors: Pages,
    /// Whether all labels have this ring.
    pub(super) is_even: bool,
}

/// Roots in the label rings.
pub(super) struct Roots {
    /// Roots with two equal, believed copies, newest first.
    pub(super) candidates: Vec<Candidate>,
    /// Ring of the candidates, each in its slot.
    pub(super) ring: Ring,
    /// Roots of each device that lead into another history than that of the leaves which missed
    /// nothing.
    pub(super) strays: Vec<Stray>,
    /// Newest candidate that each device has.
    pub(super) held: Vec<Option<Epoch>>,
    /// Whether a label of the second round was seen to have the newest candidate.
    pub(super) is_newest_settled: bool,
    /// Whether only one label of the pool can be read. Then its roots count, but must be proven by
    /// the trees that they lead to.
    pub(super) is_lone: bool,
}

impl Roots {
    /// Reads the rings of all devices of vdevs; `leaves` says which leaf each device is. Cache
    /// vdevs have no roots of this time and are left out. So are devices that were detached while
    /// away and kept their labels, since they went on in no history.
    ///
    /// # Errors
    /// A root was written by a later version of the program.
    pub(super) fn find(
        devices: &[LeafLabels],
        leaves: &[Option<u64>],
        config: &PoolConfig,
    ) -> Result<Self, OpenError> {
        // Nearly all sectors of a slot are equal, so each content is looked at once.
        let mut slots: Vec<Vec<Sector>> = vec![Vec::new(); RING_SLOTS as usize];
        let has_roots = |guid: u64| parted_leaves::leaf(config, guid).is_some();
        let asked = || (0..devices.len()).filter(|of| leaves[*of].is_some_and(has_roots));
        for device in asked() {
            for (place, copy) in devices[device].copies.iter().enumerate() {
                for (number, slot) in slots.iter_mut().enumerate() {
                    let start = RING_OFFSET + number * SECTOR_SIZE;
                    if copy.len() >= start + SECTOR_SIZE {
                        let sector = copy.slice(start..start + SECTOR_SIZE);
                        Sector::note(slot, sector, (device, place), config.key());
                    }
                }
            }
        }
        let mut sectors = slots.iter().flatten();
        let later = sectors.find_map(|sector| Root::later_version(&sector.bytes, config.key()));
        if let Some(version) = later {
            return Err(OpenError::later("a checkpoint", version));
        }
        let witnesses = Witnesses::new(devices, leaves, config, &slots);
        let labels = asked().flat_map(|device| &devices[device].copies);
        let is_lone = labels.filter(|copy| Label::read(copy).is_ok()).count() == 1;
        let least = if is_lone { 1 } else { 2 };
        let strays = strays(leaves, config, &slots);
        let labels = asked().count() * COPIES as usize;
        let mut ring = Vec::with_capacity(slots.len() * SECTOR_SIZE);
        let mut is_even = true;
        for slot in &mut slots {
            slot.retain(|sector| sector.root.is_none() || sector.on.len() >= least);
            let best = slot
                .iter()
                .filter(|sector| witnesses.believed(sector) as usize >= least)
                .max_by_key(|sector| sector.epoch());
            let bytes = best.map_or(&[0; SECTOR_SIZE][..], |sector| &sector.bytes);
            ring.extend_from_slice(bytes);
            let equal = slot.iter().find(|sector| sector.bytes == bytes);
            is_even &= equal.is_some_and(|sector| sector.on.len() == labels);
        }
        let mut held = vec![None; devices.len()];
        let mut newest = (None, false);
        let mut candidates = Vec::new();
        for sector in slots.into_iter().flatten() {
            let copies = witnesses.believed(&sector);
            if (copies as usize) < least {
                continue;
            }
            newest = newest.max((sector.epoch(), sector.is_settled()));
            for device in sector.devices() {
                held[device] = held[device].max(sector.epoch());
            }
            candidates.extend(sector.root.map(|root| Candidate { root, copies }));
        }
        candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.root.epoch));
        let sectors = Pages::from_bytes(&ring);
        Ok(Self {
            candidates,
            ring: Ring { sectors, is_even },
            strays,
            held,
            is_newest_settled: newest.1,
            is_lone,
        })
    }
}

/// Returns for each device its roots that are on no leaf which missed nothing by the newest
/// configuration.
fn strays(leaves: &[Option<u64>], config: &PoolConfig, slots: &[Vec<Sector>]) -> Vec<Stray> {
    let is_whole = |device: &usize| {
        let leaf = leaves[*device].and_then(|guid| parted_leaves::leaf(config, guid));
        leaf.is_some_and(parted_leaves::is_whole)
    };
    let roots = || slots.iter().flatten().filter(|of| of.root.is_some());
    let is_common = |sector: &&Sector| sector.devices().any(|device| is_whole(&device));
    // The place does not matter, since a device may put a root in the wrong one.
    let common: HashMap<&[u8], &Sector> = roots()
        .filter(is_common)
        .map(|sector| (&sector.bytes[..], sector))
        .collect();
    let twice = |sector: &Sector| sector.on.len() >= 2;
    let known: BTreeSet<Option<Epoch>> = (common.values().filter(|of| twice(of)))
        .map(|of| of.epoch())
        .collect();
    let mut strays = vec![Stray::default(); leaves.len()];
    for sector in roots().filter(|of| !common.contains_key(&of.bytes[..])) {
        let clashes = twice(sector) && known.contains(&sector.epoch());
        for device in sector.devices() {
            let stray = &mut strays[device];
            stray.newest = stray.newest.max(sector.epoch());
            stray.clashes |= clashes;
        }
    }
    strays
}

/// Contents of a sector of rings, and the labels that have it.
#[derive(Clone)]
struct Sector {
    bytes: Vec<u8>,
    root: Option<Root>,
    /// Device of each copy, and number of the label that has it.
    on: Vec<(usize, usize)>,
}

impl Sector {
    /// Notes the contents of a slot's sector in one more label.
    fn note(slot: &mut Vec<Self>, sector: Pages, place: (usize, usize), key: PoolKey) {
        let is_equal = |known: &&mut Self| {
            let mut at = 0;
            sector.chunks().all(|chunk| {
                at += chunk.len();
                known.bytes[at - chunk.len()..at] == *chunk
            })
        };
        if let Some(known) = slot.iter_mut().find(is_equal) {
            known.on.push(place);
            return;
        }
        let bytes = sector.to_vec();
        let root = Root::decode(&bytes, key);
        let on = vec![place];
        slot.push(Self { bytes, root, on });
    }

    fn epoch(&self) -> Option<Epoch> {
        Some(self.root.as_ref()?.epoch)
    }

    /// Reports whether a label of the second round has the root.
    fn is_settled(&self) -> bool {
        self.on.iter().any(|(_, copy)| ROUNDS[1].contains(copy))
    }

    fn devices(&self) -> impl Iterator<Item = usize> {
        self.on.iter().map(|(device, _)| *device)
    }
}

/// Leaves that can say of an epoch whether it had a checkpoint.
///
/// A leaf that missed an epoch may still hold a root of it. The root may have been half written
/// when the power failed, and given up while this leaf was away ([`super::ring`]). So the leaf is
/// not believed if another leaf here would have the root. The other leaf must have been in the pool
/// before, and have missed nothing of that epoch. If there is none, the root is believed, since it
/// is all that there is. So a pool of a single leaf that once did not take a write still has its
/// newest root.
///
/// A root counts for nothing if it is only in labels of the first round, and some leaf here lacks
/// it. Its checkpoint never was durable, so nothing was written over the blocks of the previous
/// checkpoint. The log after that one leads further than this root. A leaf without the root may be
/// a copy of an earlier moment, and the log brings it up to date. Without this rule an opening
/// could not tell what the leaf lacks.
struct Witnesses<'a> {
    devices: &'a [LeafLabels],
    /// Leaf that each device is, as the configuration has it.
    specs: Vec<Option<&'a LeafSpec>>,
    /// Epochs that each device missed.
    missing: Vec<Dtl>,
    /// Oldest epoch in the rings of each device.
    first_seen: Vec<Option<Epoch>>,
}

impl<'a> Witnesses<'a> {
    fn new(
        devices: &'a [LeafLabels],
        leaves: &[Option<u64>],
        config: &'a PoolConfig,
        slots: &[Vec<Sector>],
    ) -> Self {
        let specs = leaves
            .iter()
            .map(|leaf| parted_leaves::leaf(config, (*leaf)?))
            .collect::<Vec<_>>();
        let missing = |spec: &Option<&LeafSpec>| spec.map(missing_now).unwrap_or_default();
        let mut witnesses = Self {
            devices,
            missing: specs.iter().map(missing).collect(),
            specs,
            first_seen: vec![None; devices.len()],
        };
        for sector in slots.iter().flatten() {
            let Some(epoch) = sector.epoch() else {
                continue;
            };
            for device in sector.devices() {
                let first = &mut witnesses.first_seen[device];
                *first = Some(first.map_or(epoch, |first| first.min(epoch)));
            }
        }
        witnesses
    }

    /// Returns the number of believed copies of a root.
    fn believed(&self, sector: &Sector) -> u32 {
        let Some(epoch) = sector.epoch() else {
            return 0;
        };
        let missed = |device: usize| self.missing[device].contains(epoch);
        let mut devices = 0..self.missing.len();
        let is_known = devices.any(|device| {
            let was_there = self.first_seen[device].is_some_and(|first| first <= epoch);
            was_there && !missed(device)
        });
        let copies = (sector.devices()).filter(|of| !is_known || !missed(*of));
        match self.is_unsettled(sector) && self.lacks_holder(sector, epoch) {
            true => 0,
            false => copies.count() as u32,
        }
    }

    /// Reports whether the power failed while a root was written. Then no label of the second round
    /// has it. And each leaf that has it in the first round has a readable label of the second.
    fn is_unsettled(&self, sector: &Sector) -> bool {
        let shows = |device: usize| {
            let mut second = ROUNDS[1]
                .iter()
                .map(|copy| &self.devices[device].copies[*copy]);
            second.any(|copy| Label::read(copy).is_ok())
        };
        !sector.is_settled() && sector.devices().all(shows)
    }

    /// Reports whether a leaf is here that should have this root and has it in no label.
    fn lacks_holder(&self, sector: &Sector, epoch: Epoch) -> bool {
        let mut leaves = self.specs.iter().zip(&self.missing).enumerate();
        leaves.any(|(device, (spec, missing))| {
            let takes_it = |spec: &&LeafSpec| {
                spec.state == LeafState::Online && spec.joined <= epoch && !missing.contains(epoch)
            };
            spec.is_some_and(|spec| takes_it(&spec)) && sector.devices().all(|of| of != device)
        })
    }
}
