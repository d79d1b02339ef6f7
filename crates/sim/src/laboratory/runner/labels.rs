//! Lost labels, and disks that shrink while the power is off.

use pages::{Page, Pages};
use store::engine::{
    LeafLabels, OpenError, Rebuild, Trace, examine, front_labels, rear_labels, trace_places,
};
use store::format::Label;
use store::format::label::{COPIES, LABEL_SIZE};

use super::super::FailureKind;
use super::Runner;
use crate::disk::{Disk, Medium, SECTOR_SIZE};
use crate::subject::{Subject, SubjectState};

/// Number of sectors of a label.
const SECTORS: u64 = (LABEL_SIZE / SECTOR_SIZE) as u64;

/// Returns the places of labels on a disk.
fn places(disk: &Disk) -> Vec<u64> {
    let end = disk.sectors() / SECTORS * SECTORS;
    let places = (0..COPIES).map(|copy| Label::offset(copy, end * SECTOR_SIZE as u64));
    places.map(|offset| offset / SECTOR_SIZE as u64).collect()
}

fn refused(error: OpenError) -> FailureKind {
    FailureKind::Refused(format!("no labels are rebuilt: {error}"))
}

fn size(disk: &Disk) -> u64 {
    disk.sectors() * SECTOR_SIZE as u64
}

fn copy_at(medium: &Medium, at: u64) -> Pages {
    let first = at / SECTOR_SIZE as u64;
    medium.read(first..first + SECTORS).unwrap_or_default()
}

/// Returns the labels at the ends of a disk.
fn labels(disk: &Disk) -> LeafLabels {
    let medium = disk.snapshot();
    let read = |at: Option<u64>| at.map(|at| copy_at(&medium, at)).unwrap_or_default();
    let [first, second] = front_labels(size(disk)).map(read);
    let [third, fourth] = rear_labels([&first, &second], size(disk)).map(read);
    LeafLabels {
        size: size(disk),
        copies: [first, second, third, fourth],
    }
}

fn traces(disk: &Disk) -> Vec<Trace> {
    let (medium, all) = (disk.snapshot(), trace_places(size(disk)).1);
    all.filter_map(|at| Trace::read(&copy_at(&medium, at), at).ok()?)
        .collect()
}

fn plan(disks: &[Disk], which: &[usize]) -> Result<Rebuild, OpenError> {
    let labels: Vec<LeafLabels> = which.iter().map(|number| labels(&disks[*number])).collect();
    let traces: Vec<Vec<Trace>> = which.iter().map(|number| traces(&disks[*number])).collect();
    Rebuild::plan(&labels, &traces, None)
}

/// Writes at most `most` labels, durably.
fn write_labels(disks: &mut [Disk], which: &[usize], plan: &Rebuild, most: u64) {
    let of = |step: usize| {
        let lost = which.iter().zip(&plan.labels);
        let lost = lost.filter_map(|(number, new)| Some((*number, new.as_ref()?)));
        lost.flat_map(move |(number, new)| {
            new.steps()[step]
                .clone()
                .into_iter()
                .map(move |write| (number, write))
        })
    };
    for (number, (at, bytes)) in of(0)
        .chain(of(1))
        .take(usize::try_from(most).unwrap_or(usize::MAX))
    {
        let bytes = bytes.to_vec();
        for (sector, part) in (at / SECTOR_SIZE as u64..).zip(bytes.chunks(SECTOR_SIZE)) {
            let mut page = pages::PageMut::copy_of(&Page::zero());
            page.copy_from_slice(part);
            disks[number].spoil(sector..sector + 1, &page.freeze());
        }
    }
}

impl<S: Subject> Runner<'_, S> {
    pub(super) fn crash_without_labels(&mut self) -> Result<(), FailureKind> {
        if self.machine.subject.state() != SubjectState::Open {
            return Ok(());
        }
        self.loses_labels = true;
        self.crash(&[], true)
    }

    /// Destroys labels. Of the whole labels of a disk, one is left.
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

    pub(super) fn crash_without_any_label(&mut self) -> Result<(), FailureKind> {
        if self.machine.subject.state() != SubjectState::Open {
            return Ok(());
        }
        self.loses_all_labels = true;
        self.crash(&[], true)
    }

    /// Destroys all labels at the ends of disks that have inner ones, and rebuilds them. Half of
    /// the times, the power fails behind some write of a label, and the rebuild starts again if
    /// there is still something to do.
    pub(super) fn rebuild_labels(&mut self, disks: &mut [Disk]) -> Result<(), FailureKind> {
        let has_labels = |disk: &Disk| {
            labels(disk)
                .copies
                .iter()
                .any(|copy| Label::read(copy).is_ok())
        };
        let known: Vec<usize> = (0..disks.len())
            .filter(|number| has_labels(&disks[*number]))
            .collect();
        let before: Vec<LeafLabels> = known.iter().map(|number| labels(&disks[*number])).collect();
        let Ok(before) = examine(&before, None) else {
            return Ok(());
        };
        let is_listed = |guid: &u64| before.config.lists(*guid);
        let listed = known.iter().zip(&before.leaves);
        let listed = listed.filter(|(_, leaf)| leaf.as_ref().is_some_and(is_listed));
        let listed: Vec<usize> = listed.map(|(number, _)| *number).collect();
        let bare: Vec<usize> = (listed.iter().copied())
            .filter(|number| !traces(&disks[*number]).is_empty() && self.random.per_mille(800))
            .collect();
        self.tell(|| format!("disks {bare:?} lose all labels at their ends"));
        for number in &bare {
            let disk = &mut disks[*number];
            for at in places(disk) {
                let mut page = pages::PageMut::copy_of(&Page::zero());
                page.fill(if self.random.per_mille(500) { 0 } else { 0xee });
                disk.spoil(at..at + SECTORS, &page.freeze());
            }
        }
        if bare.is_empty() {
            return Ok(());
        }
        self.report.rebuilt_labels += bare.len() as u64;
        if self.random.per_mille(500) {
            let most = self.random.within(0..4 * bare.len() as u64);
            let plan = plan(disks, &listed).map_err(refused)?;
            write_labels(disks, &listed, &plan, most);
            self.tell(|| format!("the power fails behind {most} of their labels"));
            self.report.torn_rebuilds += 1;
            // The disks that have a label by now may be enough.
            if let Ok(plan) = self::plan(disks, &listed) {
                write_labels(disks, &listed, &plan, u64::MAX);
            }
            return Ok(());
        }
        let plan = plan(disks, &listed).map_err(refused)?;
        write_labels(disks, &listed, &plan, u64::MAX);
        Ok(())
    }

    /// Makes one disk shorter, of a vdev that can lose one. This happens once in a history, since
    /// the disk is not used for long.
    pub(super) fn crash_to_short(&mut self) -> Result<(), FailureKind> {
        if self.machine.subject.state() != SubjectState::Open || self.has_shrunk {
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
