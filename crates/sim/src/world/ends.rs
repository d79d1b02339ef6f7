//! Ends of commands, and what they mean to the model.

use super::jobs::Purpose;
use super::{OWN, SCRATCH, World};
use crate::drive::BLOCK;
use crate::initiator::Ended;

/// Statuses of SAM-5.
const GOOD: u8 = 0x00;
const CHECK_CONDITION: u8 = 0x02;
const BUSY: u8 = 0x08;
const RESERVATION_CONFLICT: u8 = 0x18;
const TASK_SET_FULL: u8 = 0x28;
const TASK_ABORTED: u8 = 0x40;

/// Additional sense codes.
const NEXUS_IS_NEW: u8 = 0x29;
const NEXUS_WAS_LOST: u8 = 0x07;

/// Meaning of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Good,
    /// A unit attention with its additional sense code and qualifier.
    Attention(u8, u8),
    /// The command was not carried out, and may be later.
    NotNow,
    /// The command may have been carried out in part.
    Failed,
    Miscompared,
    Conflict,
    /// The unit is not there.
    Gone,
}

fn end(ended: &Ended) -> End {
    match ended.status {
        GOOD => End::Good,
        BUSY | TASK_SET_FULL => End::NotNow,
        RESERVATION_CONFLICT => End::Conflict,
        TASK_ABORTED => End::Gone,
        CHECK_CONDITION => {
            let byte = |at: usize| ended.sense.get(at).copied().unwrap_or_default();
            match byte(2) & 0xf {
                0x2 => End::NotNow,
                0x3 | 0x4 | 0xb => End::Failed,
                0x5 if byte(12) == 0x25 => End::Gone,
                0x6 => End::Attention(byte(12), byte(13)),
                0xe => End::Miscompared,
                _ => panic!("{ended:02x?}"),
            }
        }
        _ => panic!("{ended:02x?}"),
    }
}

impl World {
    /// Takes the ends of a port's commands.
    pub(super) fn take_ended(&mut self, port: usize) {
        for ended in std::mem::take(&mut self.ports[port].initiator.ended) {
            self.ended(port, &ended);
        }
        for number in std::mem::take(&mut self.ports[port].initiator.aborted) {
            self.aborted(port, number);
        }
    }

    fn ended(&mut self, port: usize, ended: &Ended) {
        let (number, end) = (ended.cookie, end(ended));
        let meant = &self.meant[&number];
        assert_eq!(
            meant.host, self.ports[port].host,
            "a command of another host"
        );
        assert!(
            end != End::Failed || self.climate.failures_per_mille > 0,
            "{meant:?}: no disk fails here: {ended:02x?}"
        );
        self.judge_first_answer(port, number, end);
        let meant = &self.meant[&number];
        let is_modest = self.climate.hogs > 0 && meant.host < super::HOSTS;
        assert!(
            !is_modest || ended.status != TASK_SET_FULL,
            "{meant:?}: memory ran out for a host that takes little"
        );
        self.landings.ended(meant, self.schedule.now());
        match end {
            End::Attention(..) => {
                self.report.attentions += 1;
                self.ports[port].initiator.repeat(number);
                self.resume(port);
            }
            End::NotNow | End::Failed if meant.lun == OWN => {
                self.report.refusals += 1;
                self.resting.push((port, number));
            }
            End::Gone | End::Conflict | End::Miscompared if meant.lun == OWN => {
                panic!("{meant:?}: {ended:02x?}")
            }
            End::Gone if meant.lun != SCRATCH => panic!("{meant:?}: {ended:02x?}"),
            end => self.over(port, number, end),
        }
    }

    /// The first command of a session on each unit is told that the nexus is new.
    fn judge_first_answer(&mut self, port: usize, number: u64, end: End) {
        let lun = self.meant[&number].lun;
        let of = &mut self.ports[port];
        let is_first = of.first_issued.get(&lun) == Some(&number);
        if lun == SCRATCH || !is_first || !of.first_answers.insert(lun) {
            return;
        }
        let was_known = !of.known_to.insert(lun);
        match end {
            End::Attention(NEXUS_IS_NEW, NEXUS_WAS_LOST) => self.report.told_of_loss += 1,
            End::Attention(NEXUS_IS_NEW, _) if !was_known => {}
            end => panic!("the first answer of a new session to {of:?} is {end:?}"),
        }
    }

    fn over(&mut self, port: usize, number: u64, end: End) {
        let job = self.ports[port].initiator.jobs.remove(&number);
        let job = job.expect("a command ends once");
        let meant = self.meant.remove(&number).expect("a command ends once");
        let now = self.schedule.now();
        match end {
            End::Good => {
                let fences = self.landings.good(port, &meant, now);
                self.report.fenced += u64::from(fences);
                self.report.swapped += u64::from(meant.purpose == Purpose::Swap);
            }
            End::Miscompared => self.report.miscompared += 1,
            End::Conflict => self.report.conflicts += 1,
            _ => self.report.refusals += 1,
        }
        if meant.lun == OWN {
            let at = meant.blocks.start as usize * BLOCK..meant.blocks.end as usize * BLOCK;
            match meant.bytes {
                Some(bytes) => self.model[at].copy_from_slice(&bytes),
                None => assert!(job.data_in == self.model[at], "blocks {:?}", meant.blocks),
            }
            meant.blocks.for_each(|lba| self.busy[lba as usize] = false);
        }
        self.report.ended += 1;
        self.last_end = now;
    }

    /// A command whose abort was confirmed has taken place or never will.
    fn aborted(&mut self, port: usize, number: u64) {
        let job = self.ports[port].initiator.jobs.remove(&number);
        job.expect("a command ends once");
        let meant = self.meant.remove(&number).expect("a command ends once");
        let now = self.schedule.now();
        self.landings.ended(&meant, now);
        self.landings.aborted(meant.stamp);
        if meant.lun == OWN {
            self.adopt(&meant);
            meant.blocks.for_each(|lba| self.busy[lba as usize] = false);
        }
        self.report.aborted += 1;
        self.report.ended += 1;
        self.last_end = now;
    }

    /// Takes over what an aborted command left, block by block: its own bytes, or those before it.
    fn adopt(&mut self, meant: &super::jobs::Meant) {
        let Some(bytes) = &meant.bytes else { return };
        let start = meant.blocks.start as usize * BLOCK;
        let found = self.target.drives[usize::from(OWN)].bytes(start, bytes.len());
        for (at, found) in found.chunks(BLOCK).enumerate() {
            let place = start + at * BLOCK;
            let known = &mut self.model[place..place + BLOCK];
            let own = &bytes[at * BLOCK..][..BLOCK];
            // An earlier sending of the same command may have taken place as well.
            let is_known = found == known || found == own || self.landings.is_of(found, meant);
            assert!(is_known, "{meant:?} left something else");
            known.copy_from_slice(found);
        }
    }
}
