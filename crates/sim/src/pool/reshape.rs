//! Disks that replace others, join mirrors, and go: an administrator's changes to a pool at work.
//!
//! A detached disk is wiped as soon as the labels of the others say that it is gone, as the daemon
//! does it. Then the disk may be used again. A pool that still needed it finds nothing there. A
//! spare that stands ready again keeps its content, old labels too, until it stands in once more.

use store::engine::{Pool, RequestId};
use store::vdev::{Class, LeafId, LeafSpec, TopLevelKind, TopLevelSpec, VdevState};

use super::{ASKED, PoolSubject};
use crate::disk::DeviceOp;
use crate::operation::Reshape;
use crate::subject::DiskRequest;

/// First number of requests that wipe disks. The pool knows nothing of them.
pub(super) const WIPING: u64 = 1 << 62;

impl PoolSubject {
    /// Makes the change if the pool allows it.
    pub(super) fn reshape(&mut self, pool: &mut Pool, reshape: Reshape) {
        let slots = pool
            .status()
            .top_levels
            .into_iter()
            .flat_map(|top| top.slots);
        let leaves: Vec<(LeafId, VdevState, usize)> = slots
            .flat_map(|slot| {
                let count = slot.leaves.len();
                let leaves = slot.leaves.into_iter();
                leaves.map(move |leaf| (leaf.leaf, leaf.state, count))
            })
            .collect();
        let chosen = |number: u32| leaves[number as usize % leaves.len()];
        let now_us = self.now_us;
        match reshape {
            Reshape::Online => {
                let disks = &self.disks;
                let aside = leaves.iter().filter(|(leaf, state, _)| {
                    *state == VdevState::Offline && disks.contains_key(&leaf.0)
                });
                // A leaf that has not answered yet is tried another time.
                let taken = aside.filter(|(leaf, _, _)| pool.online(*leaf, now_us).is_ok());
                self.moves.reshapes += taken.count() as u64;
            }
            Reshape::Offline(number) => {
                let (leaf, _, _) = chosen(number);
                // A disk without labels would not be found when the pool is opened.
                if pool.is_config_durable() {
                    self.moves.reshapes += u64::from(pool.offline(leaf, now_us).is_ok());
                }
            }
            Reshape::Detach(number) => {
                let is_taken = pool.detach(chosen(number).0, now_us).is_ok();
                self.moves.reshapes += u64::from(is_taken);
            }
            Reshape::Add => self.add(pool, Class::Normal),
            Reshape::AddLog => self.add(pool, Class::Log),
            Reshape::RemoveLog(number) => {
                let logs: Vec<u16> = pool.status().logs.iter().map(|log| log.vdev).collect();
                if !logs.is_empty() {
                    self.plans += 1;
                    let id = RequestId(ASKED.start + self.plans);
                    pool.remove_log(id, logs[number as usize % logs.len()], now_us);
                }
            }
            Reshape::Expand(number) => self.expand(pool, &[chosen(number).0]),
            Reshape::ExpandAll => {
                let all: Vec<LeafId> = leaves.iter().map(|(leaf, ..)| *leaf).collect();
                self.expand(pool, &all);
            }
            Reshape::Trim(number) => {
                let (leaf, _, _) = chosen(number);
                // The request is refused if a trim runs already, or if none runs.
                let _ = match number / 256 % 8 {
                    0 => pool.pause_trim(leaf, now_us),
                    1 => pool.cancel_trim(leaf, now_us),
                    2 => pool.start_trim(leaf, Some(64 << 20), now_us),
                    _ => pool.start_trim(leaf, None, now_us),
                };
            }
            Reshape::Replace(number) | Reshape::Attach(number) => {
                let (leaf, _, in_slot) = chosen(number);
                let Some(disk) = self.unused_disk().filter(|_| in_slot == 1) else {
                    return;
                };
                let spec = LeafSpec::new(self.new_guid(), self.sizes[disk]);
                let joined = match reshape {
                    Reshape::Replace(_) => pool.replace(leaf, &spec),
                    _ => pool.attach(leaf, &spec),
                };
                if let Ok(new) = joined {
                    self.disks.insert(new.0, disk);
                    self.labelled.insert(disk);
                    self.moves.reshapes += 1;
                }
            }
        }
    }

    /// Adds a top-level vdev as redundant as the existing ones.
    fn add(&mut self, pool: &mut Pool, class: Class) {
        let kind = match self.setup.redundancy() {
            0 => (TopLevelKind::Leaf, 1),
            _ => (TopLevelKind::Mirror, 2),
        };
        let mut leaves = Vec::new();
        let mut disks = Vec::new();
        for _ in 0..kind.1 {
            let Some(disk) = self.unused_disk() else {
                break;
            };
            self.labelled.insert(disk);
            disks.push(disk);
            leaves.push(LeafSpec::new(self.new_guid(), self.sizes[disk]));
        }
        let guids: Vec<u64> = leaves.iter().map(|leaf| leaf.guid).collect();
        let is_added =
            leaves.len() == kind.1 && pool.add(&TopLevelSpec::new(kind.0, class, leaves)).is_ok();
        self.moves.reshapes += u64::from(is_added);
        for (guid, disk) in guids.into_iter().zip(disks) {
            match pool.leaf(guid).filter(|_| is_added) {
                Some(leaf) => drop(self.disks.insert(leaf.0, disk)),
                None => drop(self.labelled.remove(&disk)),
            }
        }
    }

    fn unused_disk(&self) -> Option<usize> {
        let all = self.setup.disks() + self.setup.spare_disks;
        (0..all).find(|disk| !self.labelled.contains(disk))
    }

    fn new_guid(&mut self) -> u64 {
        self.plans += 1;
        let moment = self.now_us.wrapping_mul(1 << 20) + self.plans;
        self.setup.secret.rotate_left(17) ^ moment | 1 << 40
    }

    /// Wipes disks that left the pool, if the other disks know that they did.
    pub(super) fn wipe_detached(&mut self, pool: &Pool) {
        if !pool.is_config_durable() {
            return;
        }
        let is_gone = |leaf: u32| {
            let guid = pool.guid(LeafId(leaf));
            guid.is_none_or(|guid| pool.leaf(guid) != Some(LeafId(leaf)))
        };
        let gone: Vec<(u32, usize)> = self
            .disks
            .iter()
            .filter(|(leaf, _)| is_gone(**leaf))
            .map(|(leaf, disk)| (*leaf, *disk))
            .collect();
        for (leaf, disk) in gone {
            self.disks.remove(&leaf);
            let guid = pool.guid(LeafId(leaf));
            let mut spares = pool.config().spares.iter();
            let is_ready = spares.any(|spare| Some(spare.guid) == guid);
            // A spare that stands ready again keeps its content. When it stands in once more, it is
            // another leaf.
            if is_ready || self.disks.values().any(|used| *used == disk) {
                continue;
            }
            self.plans += 1;
            let op = DeviceOp::Trim {
                offset: 0,
                len: self.sizes[disk],
            };
            let id = WIPING + self.plans;
            self.requests.push(DiskRequest { disk, id, op });
        }
    }
}
