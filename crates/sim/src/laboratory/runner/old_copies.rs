//! Old copies: disks have their content of an earlier moment again when the store is opened the
//! next time. As many disks as redundancy covers come back so, and nothing is lost. When they are
//! rebuilt, as many others may go.

use super::super::FailureKind;
use super::super::machine::{Machine, Recovery, Way};
use super::Runner;
use crate::disk::{Disk, Medium, Return, Struck};
use crate::model::Model;
use crate::subject::{Subject, SubjectState};

/// Number of moments that are remembered.
const MOMENTS: usize = 6;

impl<S: Subject> Runner<'_, S> {
    /// Remembers the content of all disks: as it is read now, or as a power cut would leave it.
    pub(super) fn remember_all(&mut self) {
        let media: Vec<Medium> = match self.random.per_mille(500) {
            true => self.machine.disks.iter().map(Disk::snapshot).collect(),
            false => {
                let tearing = self.history.behaviour.tearing;
                let ways = self.machine.cut(1, tearing, &mut self.random);
                let first = ways.into_iter().next();
                let disks = first.map(|way| way.disks).unwrap_or_default();
                disks.iter().map(Disk::snapshot).collect()
            }
        };
        self.moments.push(media);
        if self.moments.len() > MOMENTS {
            self.moments.remove(0);
        }
    }

    /// Chooses disks of a vdev whose leaves are complete, as many as may be lost, and the content
    /// with which each comes back. Returns nothing if there is no such vdev.
    fn choose_old(&mut self) -> Vec<(usize, Medium)> {
        let groups = self.machine.subject.losable();
        if groups.is_empty() || self.moments.is_empty() {
            return Vec::new();
        }
        let chosen = self.random.within(0..groups.len() as u64) as usize;
        let (mut disks, most) = groups[chosen].clone();
        self.random.shuffle(&mut disks);
        let count = self.random.within(1..most as u64 + 1) as usize;
        let mut old = Vec::new();
        for disk in disks.into_iter().take(count) {
            let moment = self.random.within(0..self.moments.len() as u64) as usize;
            if let Some(medium) = self.moments[moment].get(disk) {
                old.push((disk, medium.clone()));
            }
        }
        old
    }

    /// Cuts the power, or kills the program, and brings disks back with old content. The history
    /// goes on with them.
    pub(super) fn crash_to_old(
        &mut self,
        again_after: &[u32],
        power: bool,
    ) -> Result<(), FailureKind> {
        if self.machine.subject.state() != SubjectState::Open {
            return Ok(());
        }
        let old = self.choose_old();
        let disks: Vec<usize> = old.iter().map(|(disk, _)| *disk).collect();
        self.tell(|| format!("disks come back old: {disks:?}"));
        self.report.old_copies += disks.len() as u64;
        self.replaced = old;
        self.crash(again_after, power)
    }

    /// Opens the possible results of power cuts at this moment, with disks that come back old. When
    /// these are rebuilt, as many others of their vdev go.
    pub(super) fn try_old_copies(&mut self, ways: usize) -> Result<(), FailureKind> {
        if self.machine.subject.state() != SubjectState::Open {
            return Ok(());
        }
        let tearing = self.history.behaviour.tearing;
        let all = self.machine.cut(ways, tearing, &mut self.random);
        let model = self.model_after_a_cut();
        for Way { mut disks, .. } in all {
            let groups = self.machine.subject.losable();
            let old = self.choose_old();
            let Some((first, _)) = old.first() else {
                return Ok(());
            };
            let group = groups.into_iter().find(|(disks, _)| disks.contains(first));
            let Some((group, most)) = group else {
                return Ok(());
            };
            for (disk, medium) in old {
                disks[disk].come_back(Return::Old(medium));
                self.report.old_copies += 1;
            }
            let again_after = match self.random.per_mille(500) {
                true => vec![self.random.within(1..200) as u32],
                false => Vec::new(),
            };
            let mut model = model.clone();
            let mut machine = self.reopen(disks, &again_after, &mut model)?;
            // A disk that did not belong to the pool at that moment is away now, so no other disks
            // can go.
            if !wait_until_whole(&mut machine)?
                || !machine.subject.losable().iter().any(|of| of.0 == group)
            {
                continue;
            }
            self.report.rebuilt_old_copies += 1;
            let mut disks = machine.disks;
            let mut lost = group;
            self.random.shuffle(&mut lost);
            for disk in &mut disks {
                disk.power_cut();
            }
            lost.iter()
                .take(most)
                .for_each(|disk| disks[*disk].vanish());
            model.crash();
            self.reopen(disks, &[], &mut model)?;
            self.report.tried_cuts += 1;
        }
        Ok(())
    }

    pub(super) fn reopen(
        &self,
        disks: Vec<Disk>,
        interruptions: &[u32],
        model: &mut Model,
    ) -> Result<Machine<S>, FailureKind> {
        let mut recovery = Recovery {
            history: self.history,
            now_us: self.machine.now_us,
            promised_sectors: self.promised_sectors,
            interruptions,
            cuts: None,
            model,
            struck: &mut Struck::default(),
        };
        recovery.run::<S>(self.setup, disks)
    }
}

/// Waits until no leaf lacks anything. Returns false if that never happens.
fn wait_until_whole<S: Subject>(machine: &mut Machine<S>) -> Result<bool, FailureKind> {
    for _ in 0..super::ENDLESS {
        let is_whole = !machine.subject.is_lacking();
        if is_whole || machine.subject.state() != SubjectState::Open {
            return Ok(is_whole);
        }
        if !machine.advance() {
            break;
        }
    }
    Err(FailureKind::Hangs(
        "a leaf that came back old is not rebuilt".into(),
    ))
}
