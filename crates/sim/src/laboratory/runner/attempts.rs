//! Results of power cuts together with another loss: [`Attempt`].

use std::ops::Range;

use pages::Page;

use super::super::FailureKind;
use super::Runner;
use super::repeats::Life;
use crate::disk::{Disk, Medium, Return};
use crate::history::Attempt;
use crate::subject::{Subject, SubjectState};

impl<S: Subject> Runner<'_, S> {
    pub(super) fn attempt(&mut self, attempt: Attempt) -> Result<(), FailureKind> {
        if self.machine.subject.state() != SubjectState::Open {
            return Ok(());
        }
        match attempt {
            Attempt::Cut => self.try_cut_together(),
            Attempt::Parting { first, end } => self.try_partings(first..end),
            Attempt::LostRoot => self.try_lost_root(),
            Attempt::Repeat => self.try_repeats(),
            Attempt::LostMark => self.try_lost_mark(),
        }
    }

    pub(super) fn cut_together(&mut self) -> Vec<Disk> {
        let tearing = self.history.behaviour.tearing;
        self.machine.cut_together(tearing, &mut self.random)
    }

    fn try_cut_together(&mut self) -> Result<(), FailureKind> {
        let disks = self.cut_together();
        let model = self.model_after_a_cut();
        self.report.attempts.cuts += 1;
        self.trying(&model).one::<S>(self.setup, disks)
    }

    /// Tries partings at each flush while labels are written, and seldom at other times.
    fn try_partings(&mut self, may_be_away: Range<usize>) -> Result<(), FailureKind> {
        if self.unrest == 0 && self.random.per_mille(950) {
            return Ok(());
        }
        self.unrest = self.unrest.saturating_sub(1);
        self.try_parting(may_be_away)
    }

    /// Tries a parting. The disk that is away may be the only one with promised data. The store
    /// must report that, and must never take the rest for everything.
    fn try_parting(&mut self, may_be_away: Range<usize>) -> Result<(), FailureKind> {
        let mut disks = self.cut_together();
        let present: Vec<usize> = may_be_away.filter(|disk| !disks[*disk].is_gone()).collect();
        let returns = self.random.per_mille(900);
        for disk in disks.iter_mut().filter(|disk| disk.is_gone() && returns) {
            disk.come_back(Return::Unharmed);
        }
        let away = match present.is_empty() || self.random.per_mille(200) {
            true => None,
            false => Some(self.random.one_of(&present)),
        };
        match away {
            Some(away) => disks[away].vanish(),
            None if self.random.per_mille(300) => self.prove(&disks)?,
            None => {}
        }
        self.tell(|| format!("with disk {away:?} away, others back: {returns}"));
        self.report.attempts.partings += 1;
        let model = self.model.clone();
        let life = match self.live_on(disks, &model) {
            Err(FailureKind::Refused(_)) => return Ok(()),
            life => life?,
        };
        self.report.attempts.untold += 1;
        match away {
            Some(away) if self.random.per_mille(300) => self.go_on_without(away, life, &present),
            _ => Ok(()),
        }
    }

    /// Goes on without a disk. Then that disk is back, and perhaps another one is away.
    fn go_on_without(
        &mut self,
        away: usize,
        mut life: Life<S>,
        others: &[usize],
    ) -> Result<(), FailureKind> {
        let count = self.random.within(1..4);
        let made = self.make_writes(&mut life.model, count);
        let answers = self.random.within(10..150);
        life.submit(&made, answers, true)?;
        let mut disks = self.cut_life(&life);
        disks[away].come_back(Return::Unharmed);
        let other = self.random.one_of(others);
        if other != away {
            disks[other].vanish();
        }
        self.tell(|| format!("disk {away} is back, and disk {other} away"));
        match self.live_on(disks, &life.model) {
            Err(FailureKind::Refused(_)) => Ok(()),
            opened => opened.map(drop),
        }
    }

    /// Tries a lost root. Everything must be there to which the checkpoint before and the log
    /// behind it lead.
    fn try_lost_root(&mut self) -> Result<(), FailureKind> {
        let mut disks = self.cut_together();
        if self.random.per_mille(500) {
            self.lose_labels(&mut disks);
        }
        let media: Vec<Medium> = disks.iter().map(Disk::snapshot).collect();
        let geometry = self.history.geometry.on(&disks);
        let places = S::newest_root(self.setup, &media, &geometry);
        if places.is_empty() {
            return Ok(());
        }
        for (disk, sector) in places {
            disks[disk].spoil(sector..sector + 1, &Page::zero());
        }
        let model = self.model_after_a_cut();
        let tried = self.trying(&model).one::<S>(self.setup, disks);
        self.tell(|| format!("without the newest checkpoint: {tried:?}"));
        self.report.attempts.lost_roots += 1;
        tried
    }
}
