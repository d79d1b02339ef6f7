//! The labels of all disks, read before a pool is opened, and the place of the newest checkpoint in
//! them.

use store::engine::{LeafLabels, examine, front_labels, rear_labels};
use store::format::Label;
use store::format::label::{COPIES, LABEL_SIZE};
use store::vdev::layout::label_offset;

use super::{PoolSetup, twins};
use crate::disk::{DeviceOp, DeviceOutcome, Medium, SECTOR_SIZE};
use crate::operation::BLOCK_SIZE;
use crate::subject::{DiskRequest, Geometry};

/// Labels that are known so far.
pub(super) struct Labels {
    pub(super) leaves: Vec<LeafLabels>,
    /// Number of the first two labels of each disk that were not answered yet.
    front: Vec<usize>,
    waiting: usize,
}

fn request(disk: usize, copy: u64, offset: u64) -> DiskRequest {
    let len = LABEL_SIZE as u32;
    let (id, op) = (copy, DeviceOp::Read { offset, len });
    DiskRequest { disk, id, op }
}

impl Labels {
    /// Makes the requests that read the first two labels of each disk.
    pub(super) fn new(geometry: &Geometry) -> (Self, Vec<DiskRequest>) {
        let size = |disk: usize| geometry.sectors(disk) * BLOCK_SIZE as u64;
        let leaf = |disk: usize| LeafLabels {
            size: size(disk),
            ..LeafLabels::default()
        };
        let mut front = vec![0; geometry.disks];
        let mut requests = Vec::new();
        for (disk, front) in front.iter_mut().enumerate() {
            let places = (0..).zip(front_labels(size(disk)));
            let found = places.filter_map(|(copy, offset)| Some(request(disk, copy, offset?)));
            let found: Vec<DiskRequest> = found.collect();
            *front = found.len();
            requests.extend(found);
        }
        let labels = Self {
            leaves: (0..geometry.disks).map(leaf).collect(),
            front,
            waiting: requests.len(),
        };
        (labels, requests)
    }

    pub(super) fn is_complete(&self) -> bool {
        self.waiting == 0
    }

    /// Takes a label. Behind the second one, returns the requests that read the others of the disk.
    pub(super) fn take(
        &mut self,
        disk: usize,
        copy: u64,
        outcome: DeviceOutcome,
    ) -> Vec<DiskRequest> {
        self.waiting -= 1;
        if let Ok(data) = outcome {
            self.leaves[disk].copies[copy as usize] = data;
        }
        if copy >= COPIES / 2 {
            return Vec::new();
        }
        self.front[disk] -= 1;
        if self.front[disk] > 0 {
            return Vec::new();
        }
        let leaf = &self.leaves[disk];
        let rear = rear_labels([&leaf.copies[0], &leaf.copies[1]], leaf.size);
        let found = (2..).zip(rear);
        let found: Vec<DiskRequest> = found
            .filter_map(|(copy, offset)| Some(request(disk, copy, offset?)))
            .collect();
        self.waiting += found.len();
        found
    }
}

/// Returns the places of the newest root that counts, in all labels of all disks, if there is a
/// root before it.
pub(super) fn newest_root(
    setup: &PoolSetup,
    disks: &[Medium],
    geometry: &Geometry,
) -> Vec<(usize, u64)> {
    let all = disks.iter().enumerate();
    let labels: Vec<LeafLabels> = all
        .map(|(disk, medium)| twins::labels(medium, geometry.sectors(disk)))
        .collect();
    let Ok(examined) = examine(&labels, Some(setup.guid)) else {
        return Vec::new();
    };
    let [newest, _, ..] = &examined.roots[..] else {
        return Vec::new();
    };
    let slot = Label::slot_offset(newest.root.epoch.0);
    let mut places = Vec::new();
    for (disk, of) in labels.iter().enumerate() {
        let offsets = (0..COPIES).filter_map(|copy| label_offset(copy, of.size));
        places.extend(offsets.map(|offset| (disk, (offset + slot) / SECTOR_SIZE as u64)));
    }
    places
}
