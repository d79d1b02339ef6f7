//! Repeats: changes that were given up at the end of a log must stay given up. From one moment of a
//! history on, openings, changes and power cuts come in turn.
//!
//! An initiator that repeats a write after a power cut may make the store write an equal record
//! again, byte for byte and in the old place. Records behind it of the time before may still lie
//! there.

use pages::Pages;

use super::super::FailureKind;
use super::super::machine::Machine;
use super::Runner;
use crate::disk::{Disk, Medium};
use crate::model::{ChangeId, Model, pattern};
use crate::operation::{ChangeKind, Operation, SLICES_PER_BLOCK, VolumeId};
use crate::subject::{Answer, Subject};

/// First tag of the requests here, apart from those of the history and of the reads after openings.
const FIRST_TAG: u64 = 1 << 61;
/// Number of ways in which the power fails after the first changes, and after the repeated ones.
const WAYS: usize = 4;

/// A write.
#[derive(Clone, Debug)]
pub(super) struct Made {
    id: ChangeId,
    operation: Operation,
    slices: std::ops::Range<u64>,
}

impl Made {
    fn data(&self) -> Pages {
        let slices = &self.slices;
        pattern::pages(self.id, slices.start, slices.end - slices.start)
    }
}

/// A store from an opening on, and its possible content.
pub(super) struct Life<S> {
    machine: Machine<S>,
    pub(super) model: Model,
    /// Whether a durable write was answered.
    has_promised: bool,
}

impl<S: Subject> Life<S> {
    /// Submits these writes, lets a number of events happen, and takes the answers.
    pub(super) fn submit(
        &mut self,
        made: &[Made],
        answers: u64,
        may_fail: bool,
    ) -> Result<(), FailureKind> {
        for (tag, made) in (FIRST_TAG..).zip(made) {
            self.machine.submit(tag, &made.operation, made.data());
        }
        for _ in 0..answers {
            for Answer { tag, outcome } in std::mem::take(&mut self.machine.answers) {
                let number = tag.checked_sub(FIRST_TAG);
                let made = number.and_then(|number| made.get(number as usize));
                let Some(made) = made else {
                    return Err(FailureKind::UnknownAnswer(tag));
                };
                self.model.settle_change(made.id, outcome.is_ok());
                match outcome {
                    Ok(_) => self.has_promised = true,
                    Err(_) if may_fail => {}
                    Err(why) => {
                        return Err(FailureKind::Failed(made.operation.to_string(), why));
                    }
                }
            }
            if !self.machine.advance() {
                break;
            }
        }
        // Answers that come now were not seen by anybody.
        self.machine.answers.clear();
        Ok(())
    }
}

impl<S: Subject> Runner<'_, S> {
    /// Opens the store after a power cut that leaves these disks.
    pub(super) fn live_on(&self, disks: Vec<Disk>, before: &Model) -> Result<Life<S>, FailureKind> {
        let mut model = before.clone();
        model.crash();
        let machine = self.reopen(disks, &[], &mut model)?;
        Ok(Life {
            machine,
            model,
            has_promised: false,
        })
    }

    /// Makes durable writes of whole blocks to existing volumes.
    pub(super) fn make_writes(&mut self, model: &mut Model, count: u64) -> Vec<Made> {
        let is_volume = |id: &VolumeId| model.blocks(*id).is_some() && !model.is_snapshot(*id);
        let volumes: Vec<VolumeId> = model.volumes().filter(is_volume).collect();
        if volumes.is_empty() {
            return Vec::new();
        }
        let mut made = Vec::new();
        for _ in 0..count {
            let volume = self.random.one_of(&volumes);
            let unit = model.unit(volume).unwrap_or(1);
            let units = model.blocks(volume).unwrap_or(0) / unit;
            if units == 0 {
                continue;
            }
            let first = self.random.within(0..units) * unit;
            let slices = first * SLICES_PER_BLOCK..(first + unit) * SLICES_PER_BLOCK;
            let id = model.submit_change(volume, slices.clone(), ChangeKind::Write, true);
            let operation = Operation::Change {
                volume,
                slices: slices.clone(),
                kind: ChangeKind::Write,
                durable: true,
            };
            made.push(Made {
                id,
                operation,
                slices,
            });
        }
        made
    }

    pub(super) fn cut_life(&mut self, life: &Life<S>) -> Vec<Disk> {
        let tearing = self.history.behaviour.tearing;
        life.machine.cut_together(tearing, &mut self.random)
    }

    /// Tries repeats. The power takes the first of some writes, and this write is made again. Then
    /// the power fails once more.
    pub(super) fn try_repeats(&mut self) -> Result<(), FailureKind> {
        let model = self.model.clone();
        let disks = self.cut_together();
        let mut first = self.live_on(disks, &model)?;
        let count = self.random.within(2..5);
        let made = self.make_writes(&mut first.model, count);
        let Some(repeated) = made.first() else {
            return Ok(());
        };
        let answers = self.random.within(1..12);
        first.submit(&made, answers, false)?;
        for _ in 0..WAYS {
            let disks = self.cut_life(&first);
            let mut second = self.live_on(disks, &first.model)?;
            let slices = repeated.slices.clone();
            second.model.submit_again(repeated.id, slices);
            let answers = self.random.within(1..12);
            second.submit(std::slice::from_ref(repeated), answers, false)?;
            for _ in 0..WAYS {
                let disks = self.cut_life(&second);
                self.live_on(disks, &second.model)?;
                self.report.attempts.repeats += 1;
            }
        }
        Ok(())
    }

    /// Tries lost marks: nothing is left of the marks that an opening wrote, as if a disk silently
    /// lost a write.
    pub(super) fn try_lost_mark(&mut self) -> Result<(), FailureKind> {
        let model = self.model.clone();
        let disks = self.cut_together();
        let before: Vec<Medium> = disks.iter().map(Disk::snapshot).collect();
        let mut life = self.live_on(disks, &model)?;
        let count = self.random.within(1..5);
        let made = self.make_writes(&mut life.model, count);
        let answers = self.random.within(5..120);
        life.submit(&made, answers, false)?;
        for _ in 0..WAYS {
            let mut disks = self.cut_life(&life);
            let media: Vec<Medium> = disks.iter().map(Disk::snapshot).collect();
            let marks = S::marks(self.setup, &media).into_iter();
            let new = marks.filter(|(disk, sector)| {
                media[*disk].sector(*sector)[..] != before[*disk].sector(*sector)[..]
            });
            for (disk, sector) in new {
                disks[disk].spoil(sector..sector + 1, &before[disk].sector(sector));
                self.report.attempts.lost_marks += 1;
            }
            let opened = self.live_on(disks, &life.model);
            self.report.attempts.needless_marks += u64::from(life.has_promised);
            match opened {
                // Writes behind the mark were not promised to anybody yet.
                Err(FailureKind::Refused(why))
                    if S::misses_a_record(&why) && !life.has_promised => {}
                opened => drop(opened?),
            }
        }
        Ok(())
    }
}
