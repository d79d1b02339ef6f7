//! Labels that are lost, and disks that shrink while the power is off.

use pages::Page;
use store::format::Label;
use store::format::label::{COPIES, LABEL_SIZE};

use super::super::FailureKind;
use super::Runner;
use crate::disk::{Disk, SECTOR_SIZE};
use crate::subject::{State, Subject};

/// Sectors of a label.
const SECTORS: u64 = (LABEL_SIZE / SECTOR_SIZE) as u64;

/// Where labels lie on a disk.
fn places(disk: &Disk) -> Vec<u64> {
    let end = disk.sectors() / SECTORS * SECTORS;
    let places = (0..COPIES).map(|copy| Label::offset(copy, end * SECTOR_SIZE as u64));
    places.map(|offset| offset / SECTOR_SIZE as u64).collect()
}

impl<S: Subject> Runner<'_, S> {
    pub(super) fn crash_without_labels(&mut self) -> Result<(), FailureKind> {
        if self.machine.subject.state() != State::Open {
            return Ok(());
        }
        self.loses_labels = true;
        self.crash(&[], true)
    }

    /// Destroys labels; of those of a disk that are whole one is left.
    pub(super) fn lose_labels(&mut self, disks: &mut [Disk]) {
        for (number, disk) in disks.iter_mut().enumerate() {
            let medium = disk.snapshot();
            let places = places(disk);
            let is_whole = |at: &u64| {
                let copy = medium.read(*at..at + SECTORS);
                copy.is_some_and(|copy| Label::read(&copy).is_ok())
            };
            let whole: Vec<u64> = places.iter().copied().filter(is_whole).collect();
            if whole.is_empty() {
                continue;
            }
            let kept = self.random.one_of(&whole);
            let lost = places.into_iter().filter(|at| *at != kept);
            let lost: Vec<u64> = lost.filter(|_| self.random.per_mille(700)).collect();
            self.tell(|| format!("disk {number} loses labels at {lost:?}, and keeps {kept}"));
            for at in lost {
                let mut page = pages::PageMut::copy_of(&Page::zero());
                page.fill(0xee);
                disk.spoil(at..at + SECTORS, &page.freeze());
                self.report.lost_labels += 1;
            }
        }
    }

    /// One disk of a vdev that can lose one ends earlier. Once in a history: it is not used for long.
    pub(super) fn crash_to_short(&mut self) -> Result<(), FailureKind> {
        if self.machine.subject.state() != State::Open || self.has_shrunk {
            return Ok(());
        }
        let groups = self.machine.subject.losable();
        let disks: Vec<usize> = groups.into_iter().flat_map(|(disks, _)| disks).collect();
        if !disks.is_empty() {
            let disk = self.random.one_of(&disks);
            let sectors = self.machine.disks[disk].sectors();
            let least = 4 * SECTORS + 2 * 256;
            let short = self.random.within(least..sectors);
            self.tell(|| format!("disk {disk} shrinks from {sectors} to {short} sectors"));
            (self.shortened, self.has_shrunk) = (Some((disk, short)), true);
            self.report.short_disks += 1;
        }
        self.crash(&[], true)
    }
}
