//! The labels of all disks, read before a pool is opened.

use store::format::label::{COPIES, LABEL_SIZE};
use store::pool::LeafLabels;
use store::vdev::layout::label_offset;

use crate::disk::{DeviceOp, DeviceOutcome};
use crate::operation::BLOCK_SIZE;
use crate::subject::{DiskRequest, Geometry};

/// What is known of them so far.
pub(super) struct Labels {
    pub(super) leaves: Vec<LeafLabels>,
    waiting: usize,
}

impl Labels {
    /// With the requests that read them.
    pub(super) fn new(geometry: &Geometry) -> (Self, Vec<DiskRequest>) {
        let size = |disk: usize| geometry.sectors(disk) * BLOCK_SIZE as u64;
        let leaf = |disk: usize| LeafLabels {
            size: size(disk),
            ..LeafLabels::default()
        };
        let mut requests = Vec::new();
        for disk in 0..geometry.disks {
            for copy in 0..COPIES {
                if let Some(offset) = label_offset(copy, size(disk)) {
                    let len = LABEL_SIZE as u32;
                    let (id, op) = (copy, DeviceOp::Read { offset, len });
                    requests.push(DiskRequest { disk, id, op });
                }
            }
        }
        let labels = Self {
            leaves: (0..geometry.disks).map(leaf).collect(),
            waiting: requests.len(),
        };
        (labels, requests)
    }

    pub(super) fn is_complete(&self) -> bool {
        self.waiting == 0
    }

    pub(super) fn take(&mut self, disk: usize, copy: u64, outcome: DeviceOutcome) {
        self.waiting -= 1;
        if let Ok(data) = outcome {
            self.leaves[disk].copies[copy as usize] = data;
        }
    }
}
