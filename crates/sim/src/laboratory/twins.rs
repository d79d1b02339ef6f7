//! Twins: copies of disks beside the disks, made at any moment of a history, and shown to every
//! later opening.
//!
//! An opening that is shown a disk and its copy refuses, and writes to neither. The opening of the
//! history itself is then without the copy. After that, the store is asked whether the copy is
//! still a twin: a disk that left the pool has no twin.

use super::FailureKind;
use super::machine::Machine;
use super::runner::Runner;
use crate::disk::{Disk, Medium};
use crate::subject::{Geometry, Subject, SubjectState};

/// Result of an opening that was shown a copy.
pub(super) struct Shown {
    copy: Medium,
    sectors: u64,
    /// Reason of the refusal, if the opening refused.
    refused: Option<String>,
}

impl<S: Subject> Runner<'_, S> {
    pub(super) fn copy(&mut self, disk: usize) {
        self.tell(|| format!("disk {disk} is copied"));
        let medium = self.machine.disks[disk].snapshot();
        self.copies.push((disk, medium));
    }

    /// Opens these disks and one of the copies, as a user would who looks through a folder. Nothing
    /// may be written.
    pub(super) fn open_beside_a_copy(
        &mut self,
        disks: &[Disk],
    ) -> Result<Option<Shown>, FailureKind> {
        if self.copies.is_empty() {
            return Ok(None);
        }
        let chosen = self.random.within(0..self.copies.len() as u64) as usize;
        let (disk, copy) = self.copies[chosen].clone();
        let mut shown: Vec<Disk> = disks.iter().map(Disk::honest_copy).collect();
        let of_disk = &shown[disk];
        let sectors = of_disk.sectors();
        shown.push(of_disk.with_medium(copy.clone(), self.random.fork()));
        let before: Vec<Medium> = shown.iter().map(Disk::snapshot).collect();
        let mut machine = self.start(self.setup, shown);
        let refused = match machine.wait_until_open() {
            Ok(()) => None,
            Err(FailureKind::Refused(why)) => Some(why),
            Err(kind) => return Err(kind),
        };
        self.tell(|| format!("beside a copy of disk {disk}: {refused:?}"));
        let mut written = machine.disks.iter().zip(&before);
        if refused.is_some() && written.any(|(disk, before)| !disk.snapshot().is_same(before)) {
            return Err(FailureKind::Twins("it wrote, and then refused".into()));
        }
        Ok(Some(Shown {
            copy,
            sectors,
            refused,
        }))
    }

    /// Judges that opening by the knowledge of the store that was opened without the copy.
    pub(super) fn judge_shown(&mut self, shown: Option<Shown>) -> Result<(), FailureKind> {
        let Some(shown) = shown else {
            return Ok(());
        };
        let is_refused = shown.refused.as_deref().is_some_and(S::refuses_twins);
        let twin = self.machine.subject.is_twin(&shown.copy, shown.sectors);
        match (twin, is_refused) {
            (Some(true), false) => {
                let why = shown.refused.unwrap_or_else(|| "it opened".into());
                Err(FailureKind::Twins(format!("not refused: {why}")))
            }
            (Some(false), true) => Err(FailureKind::Twins(
                "refused although the disk is not a copy".into(),
            )),
            (_, true) => {
                self.report.refused_twins += 1;
                Ok(())
            }
            (_, false) => {
                self.report.strangers += 1;
                Ok(())
            }
        }
    }

    /// Copies all disks in one moment. The copies become a store of their own and are opened, alone
    /// and beside the disks.
    pub(super) fn copy_all(&mut self) -> Result<(), FailureKind> {
        if self.machine.subject.state() != SubjectState::Open {
            return Ok(());
        }
        let disks: Vec<Disk> = self.machine.disks.iter().map(Disk::honest_copy).collect();
        let mut media: Vec<Medium> = disks.iter().map(Disk::snapshot).collect();
        let geometry = self.history.geometry.on(&disks);
        let became = S::become_another(self.setup, &mut media, &geometry, &mut self.random);
        let (setup, cuts) = match became {
            None => return Ok(()),
            Some(Err(why)) => return Err(FailureKind::Twins(why)),
            Some(Ok(became)) => became,
        };
        self.tell(|| format!("copies of all disks are a store of their own, after {cuts} cuts"));
        self.report.separated += 1;
        self.report.torn_separations += cuts;
        let model = self.model_after_a_cut();
        let own = |(disk, medium): (&Disk, &Medium)| {
            disk.with_medium(medium.clone(), self.random.clone())
        };
        let copies: Vec<Disk> = disks.iter().zip(&media).map(own).collect();
        let beside: Vec<Disk> = disks.iter().chain(&copies).cloned().collect();
        for setup in [self.setup, &setup] {
            let mut machine = self.start(setup, beside.clone());
            if let Err(kind) = machine.wait_until_open() {
                return Err(FailureKind::Twins(format!(
                    "beside a copy of its own: {kind}"
                )));
            }
        }
        self.trying(&model).one::<S>(&setup, copies)
    }

    /// Starts the store on other disks than the history's.
    fn start(&self, setup: &S::Setup, disks: Vec<Disk>) -> Machine<S> {
        let geometry = Geometry {
            disks: disks.len(),
            ..self.history.geometry.on(&disks)
        };
        let now_us = self.machine.now_us;
        Machine::new(S::open(setup, &geometry, now_us), disks, now_us)
    }
}
