//! The runner of one history, step by step.

mod attempts;
mod labels;
mod old_copies;
mod repeats;

use std::collections::BTreeMap;

use pages::Pages;

use super::lineage::Lineage;
use super::machine::{Cuts, Machine, Recovery, Trying, Way, prove};
use super::pending::Pending;
use super::{Failure, FailureKind, Report};
use crate::disk::{Chances, Disk, Medium, Return, SECTOR_SIZE};
use crate::history::{History, Step, Trouble};
use crate::model::{ChangeId, Model, WrongKind, pattern};
use crate::operation::{Admin, ChangeKind, Operation, SLICES_PER_BLOCK, VolumeId};
use crate::random::Random;
use crate::subject::{Answer, Subject, SubjectState};

/// Number of histories of which one proves the pool after all its crashes, also those that are only
/// tried.
const PROVING: u64 = 8;

/// Sectors of a disk with less than 2 MiB for data. In a pool of these disks, checkpoints hold back
/// much of the space that UNMAP may take beside volumes with reserved space. Nobody makes pools
/// below 64 MiB.
const TINY: u64 = (2 * 1024 + 1536) / 4;

/// Number of the last records, of which one is lost.
const LATE: usize = 6;

/// Number of flushes behind a change of the disks in which labels are written. Labels are written
/// in two rounds, once more if something else changed, followed by the writes that rely on them.
const UNREST: u32 = 16;

/// Number of answers and ticks that no history's operations reach.
const ENDLESS: u32 = 300_000;

pub(super) struct Runner<'a, S: Subject> {
    pub(super) setup: &'a S::Setup,
    pub(super) history: &'a History,
    lines: &'a mut Option<Vec<String>>,
    pub(super) machine: Machine<S>,
    model: Model,
    pending: BTreeMap<u64, Pending>,
    /// Step at which each change was submitted.
    changes: BTreeMap<ChangeId, usize>,
    lineage: Lineage,
    remembered: Vec<Medium>,
    /// Content of all disks at earlier moments.
    moments: Vec<Vec<Medium>>,
    /// Content that disks have when the store is opened the next time.
    replaced: Vec<(usize, Medium)>,
    /// Disk that ends earlier from then on.
    shortened: Option<(usize, u64)>,
    /// Whether a disk shrank already.
    has_shrunk: bool,
    loses_labels: bool,
    loses_all_labels: bool,
    /// Number of flushes for which labels may have to say something new.
    unrest: u32,
    /// Copies that lie beside the disks, each with the number of its disk.
    pub(super) copies: Vec<(usize, Medium)>,
    /// Sectors for blocks that the pool promised to have for good.
    promised_sectors: u64,
    pub(super) random: Random,
    step: usize,
    next_tag: u64,
    pub(super) report: Report,
}

impl<'a, S: Subject> Runner<'a, S> {
    pub(super) fn new(
        setup: &'a S::Setup,
        history: &'a History,
        lines: &'a mut Option<Vec<String>>,
    ) -> Self {
        let mut random = Random::new(history.chance);
        let geometry = &history.geometry;
        // Disks are honest while the store is made, so its first content is certain.
        let mut disk = |_| {
            let (sectors, mut behaviour) = (geometry.disk_sectors, history.behaviour.clone());
            behaviour.chances = Chances::default();
            Disk::new(sectors, behaviour, random.fork())
        };
        let disks: Vec<Disk> = (0..geometry.disks).map(&mut disk).collect();
        let mut model = Model::new(history.rules);
        for volume in &geometry.volumes {
            model.insert(volume.id, volume.blocks, volume.unit);
            if volume.is_thick {
                model.keep_space(volume.id);
            }
        }
        Self {
            setup,
            history,
            lines,
            remembered: vec![Medium::default(); disks.len()],
            moments: Vec::new(),
            replaced: Vec::new(),
            shortened: None,
            has_shrunk: false,
            loses_labels: false,
            loses_all_labels: false,
            unrest: 0,
            machine: Machine::new(S::create(setup, geometry, 0), disks, 0),
            model,
            pending: BTreeMap::new(),
            changes: BTreeMap::new(),
            lineage: Lineage::default(),
            copies: Vec::new(),
            promised_sectors: 0,
            random,
            step: 0,
            next_tag: 0,
            report: Report::default(),
        }
    }

    pub(super) fn run(&mut self) -> Result<(), FailureKind> {
        let history = self.history;
        let opened = self.machine.wait_until_open();
        if self.gives_up(opened)? {
            return Ok(());
        }
        for disk in &history.unreliable {
            self.machine.disks[*disk].behaviour_mut().chances = history.behaviour.chances;
        }
        for (number, step) in history.steps.iter().enumerate() {
            self.step = number;
            let outcome = self.take(step);
            if self.gives_up(outcome)? {
                return Ok(());
            }
        }
        self.step = history.steps.len();
        let outcome = self.end();
        self.gives_up(outcome).map(drop)
    }

    /// Reports whether the history ends here: the store refused to open, and may.
    fn gives_up(&mut self, outcome: Result<(), FailureKind>) -> Result<bool, FailureKind> {
        match outcome {
            Ok(()) => Ok(false),
            Err(FailureKind::Refused(why)) if self.history.tolerates_errors => {
                self.tell(|| format!("refused, which it may: {why}"));
                self.report.refused = true;
                Ok(true)
            }
            Err(kind) => Err(kind),
        }
    }

    /// Ends the history. Everything is answered and read, and is still there after two power cuts
    /// with nothing between.
    fn end(&mut self) -> Result<(), FailureKind> {
        self.drain()?;
        let volumes: Vec<VolumeId> = self.model.volumes().collect();
        for volume in volumes {
            if let Some(blocks) = self.model.blocks(volume) {
                let slices = 0..blocks * SLICES_PER_BLOCK;
                self.submit(&Operation::Read { volume, slices })?;
            }
        }
        self.drain()?;
        self.crash(&[], true)?;
        self.crash(&[], true)?;
        let mut disks = self.machine.disks.clone();
        disks.iter_mut().for_each(Disk::detach);
        self.prove(&disks)
    }

    /// Reports whether this history proves the pool after crashes, and not only at its end.
    fn proves(&self) -> bool {
        self.history.seed.is_multiple_of(PROVING)
    }

    /// Proves that the content of these disks has only flaws that the disks may have caused.
    fn prove(&mut self, disks: &[Disk]) -> Result<(), FailureKind> {
        let (geometry, now_us) = (&self.history.geometry, self.machine.now_us);
        let mut flaws = match prove::<S>(self.setup, geometry, disks, now_us) {
            Err(FailureKind::Refused(_)) if self.history.tolerates_errors => return Ok(()),
            proven => proven?,
        };
        self.report.proofs += 1;
        flaws.retain(|flaw| !self.history.allows(flaw.kind));
        match flaws.is_empty() {
            true => Ok(()),
            false => Err(FailureKind::Flawed(flaws)),
        }
    }

    fn take(&mut self, step: &Step) -> Result<(), FailureKind> {
        match step {
            Step::Submit(operation) => return self.submit(operation),
            Step::Advance(answers) => {
                for _ in 0..*answers {
                    if !self.advance()? {
                        break;
                    }
                }
            }
            Step::Drain => self.drain()?,
            Step::PowerCut { again_after } => self.crash(again_after, true)?,
            Step::Kill => self.crash(&[], false)?,
            Step::Export => self.export()?,
            Step::TryCuts { ways } => drop(self.try_cuts(*ways)?),
            Step::LoseRecords { ways } => self.lose_records(*ways)?,
            Step::RotMetadata { ways } => self.rot_metadata(*ways)?,
            Step::LoseLabels => self.crash_without_labels()?,
            Step::LoseAllLabels => self.crash_without_any_label()?,
            Step::Shrink => self.crash_to_short()?,
            Step::RememberAll => self.remember_all(),
            Step::OldCopies { again_after, power } => self.crash_to_old(again_after, *power)?,
            Step::TryOldCopies { ways } => self.try_old_copies(*ways)?,
            Step::Heal => self.heal()?,
            Step::Copy { disk } => self.copy(*disk),
            Step::CopyAll => self.copy_all()?,
            Step::Grow { disk, sectors } => self.grow(*disk, *sectors),
            Step::Try(attempt) => self.attempt(*attempt)?,
            Step::Trouble { disk, trouble } => self.trouble(*disk, trouble),
        }
        Ok(())
    }

    pub(super) fn tell(&mut self, line: impl FnOnce() -> String) {
        if let Some(lines) = self.lines {
            let now_us = self.machine.now_us;
            lines.push(format!("{now_us:>8} µs, step {:>3}: {}", self.step, line()));
        }
    }

    /// Submits an operation if it makes sense at this step.
    fn submit(&mut self, operation: &Operation) -> Result<(), FailureKind> {
        let is_exclusive = matches!(operation, Operation::Admin(admin) if !admin.is_concurrent());
        let mut pending = self.pending.values();
        if is_exclusive
            || pending.any(|pending| {
                matches!(
                    pending,
                    Pending::Admin {
                        is_exclusive: true,
                        ..
                    }
                )
            })
        {
            self.drain()?;
            if !self.pending.is_empty() {
                return Ok(());
            }
        }
        if !self.lineage.makes_sense(&self.model, operation) {
            return Ok(());
        }
        let tag = self.next_tag;
        self.next_tag += 1;
        let mut data = Pages::new();
        let pending = match operation {
            Operation::Read { volume, slices } => {
                let moment = self.model.submit_read();
                Pending::Read(*volume, slices.start, slices.end, moment)
            }
            Operation::Extents { volume, slices } => {
                let moment = self.model.submit_read();
                Pending::Extents(*volume, slices.start, slices.end, moment)
            }
            Operation::Change {
                volume,
                slices,
                kind,
                durable,
            } => {
                let (model, range) = (&mut self.model, slices.clone());
                let unit = model.unit(*volume).unwrap_or(1) * SLICES_PER_BLOCK;
                let is_whole = range.start.is_multiple_of(unit) && range.end.is_multiple_of(unit);
                let change = model.submit_change(*volume, range, *kind, *durable);
                self.changes.insert(change, self.step);
                if *kind == ChangeKind::Write {
                    data = pattern::pages(change, slices.start, slices.end - slices.start);
                }
                Pending::Change {
                    change,
                    // If an unmap covers blocks in part, it writes the rest of them.
                    needs_space: *kind != ChangeKind::Unmap
                        || !is_whole
                        || model.keeps_space() && self.history.geometry.disk_sectors < TINY,
                }
            }
            Operation::Flush { volume } => Pending::Flush(*volume, self.model.submit_flush()),
            Operation::Admin(admin) => {
                self.lineage.note(admin);
                if let Admin::Reshape(_) = admin {
                    self.unrest = UNREST;
                }
                let is_several =
                    matches!(admin, Admin::DestroyAll { volumes, .. } if volumes.len() > 1);
                self.report.destructions += u64::from(is_several);
                let id = self.model.submit_admin(admin);
                Pending::Admin {
                    id,
                    is_exclusive,
                    needs_space: !matches!(admin, Admin::Destroy { .. } | Admin::DestroyAll { .. }),
                }
            }
        };
        self.tell(|| format!("{tag}: {operation} {}", pending));
        self.pending.insert(tag, pending);
        self.report.operations += 1;
        self.machine.submit(tag, operation, data);
        self.take_answers()
    }

    /// Lets the next event happen, and tries cuts before flushes. Returns false if none ever will.
    fn advance(&mut self) -> Result<bool, FailureKind> {
        if self.history.cuts_per_flush > 0 && self.machine.is_flush_next() && self.is_cut_here() {
            let (tried, torn_cuts, torn_sectors) = self.try_cuts(self.history.cuts_per_flush)?;
            self.report.flush_cuts += tried;
            self.report.torn_cuts += torn_cuts;
            self.report.torn_sectors += torn_sectors;
        }
        if let Some((attempt, per_mille)) = self.history.attempt
            && self.machine.is_flush_next()
            && self.random.per_mille(per_mille)
        {
            self.attempt(attempt)?;
        }
        let goes_on = self.machine.advance();
        self.take_answers()?;
        Ok(goes_on)
    }

    fn is_cut_here(&mut self) -> bool {
        // Nothing is drawn if cuts are tried at all flushes, so that those histories stay equal.
        let per_mille = self.history.cut_flushes_per_mille;
        per_mille >= 1000 || self.random.per_mille(per_mille)
    }

    /// Waits for all operations, as far as disks answer.
    fn drain(&mut self) -> Result<(), FailureKind> {
        let mut left = ENDLESS;
        while !self.pending.is_empty() {
            left -= 1;
            if left == 0 || !self.advance()? {
                let may_wait = self.history.tolerates_errors;
                if may_wait && left > 0 && self.machine.disks.iter().any(Disk::is_hung) {
                    return Ok(());
                }
                let waiting: Vec<String> = self.pending.values().map(Pending::to_string).collect();
                return Err(FailureKind::Hangs(waiting.join(", ")));
            }
        }
        Ok(())
    }

    fn take_answers(&mut self) -> Result<(), FailureKind> {
        for Answer { tag, outcome } in std::mem::take(&mut self.machine.answers) {
            let Some(pending) = self.pending.remove(&tag) else {
                return Err(FailureKind::UnknownAnswer(tag));
            };
            self.tell(|| match &outcome {
                Ok(_) => format!("{tag}: done"),
                Err(why) => format!("{tag}: failed: {why}"),
            });
            let (model, report) = (&mut self.model, &mut self.report);
            pending.answered(tag, outcome, self.history, model, report)?;
        }
        Ok(())
    }

    /// Ends the store's life, with the power or without. The next life begins.
    fn crash(&mut self, again_after: &[u32], power: bool) -> Result<(), FailureKind> {
        self.tell(|| match power {
            true => format!("the power fails, and again after {again_after:?} answers"),
            false => "the program is killed".to_owned(),
        });
        if power {
            self.report.cut.count(self.machine.subject.under_way());
        }
        self.note_sectors();
        let mut disks = std::mem::take(&mut self.machine.disks);
        for disk in &mut disks {
            match power {
                true => disk.power_cut(),
                false => disk.detach(),
            }
            disk.wake();
        }
        for (disk, medium) in std::mem::take(&mut self.replaced) {
            disks[disk].come_back(Return::Old(medium));
        }
        if let Some((disk, sectors)) = self.shortened.take() {
            disks[disk].shrink(sectors);
        }
        if std::mem::take(&mut self.loses_labels) {
            self.lose_labels(&mut disks);
        }
        if std::mem::take(&mut self.loses_all_labels) {
            self.rebuild_labels(&mut disks)?;
        }
        if again_after.is_empty() && self.proves() {
            self.prove(&disks)?;
        }
        self.pending.clear();
        self.model.crash();
        self.report.crashes += 1;
        let shown = self.open_beside_a_copy(&disks)?;
        // The history goes on as if nothing had been drawn for these cuts.
        let cuts = Cuts {
            ways: self.history.cuts_per_flush,
            random: self.random.clone(),
            tried: 0,
        };
        let mut recovery = Recovery {
            history: self.history,
            now_us: self.machine.now_us,
            interruptions: again_after,
            promised_sectors: self.promised_sectors,
            cuts: self.history.cuts_openings.then_some(cuts),
            model: &mut self.model,
            struck: &mut self.report.struck,
        };
        self.report.moves = self.report.moves + self.machine.subject.moves();
        let recovered = recovery.run(self.setup, disks);
        self.report.tried_cuts += recovery.cuts.map_or(0, |cuts| cuts.tried);
        self.machine = recovered?;
        self.judge_shown(shown)
    }

    fn wait_for_scrub(&mut self) -> Result<(), FailureKind> {
        let mut left = ENDLESS;
        while self.machine.subject.under_way().scrub {
            left -= 1;
            if left == 0 || !self.advance()? {
                return Err(FailureKind::Hangs("a scrub".into()));
            }
        }
        Ok(())
    }

    fn heal(&mut self) -> Result<(), FailureKind> {
        // A scrub that is at work already has passed blocks that went bad behind it.
        for admin in [Admin::Checkpoint, Admin::Scrub] {
            self.submit(&Operation::Admin(admin))?;
            self.drain()?;
            self.wait_for_scrub()?;
        }
        let mut disks = self.machine.disks.clone();
        disks.iter_mut().for_each(Disk::detach);
        let (geometry, now_us) = (&self.history.geometry, self.machine.now_us);
        let flaws = prove::<S>(self.setup, geometry, &disks, now_us)?;
        self.report.heals += 1;
        match flaws.is_empty() {
            true => Ok(()),
            false => Err(FailureKind::Flawed(flaws)),
        }
    }

    fn note_sectors(&mut self) {
        if let Some((_, promised)) = self.machine.subject.sectors() {
            self.promised_sectors = self.promised_sectors.max(promised);
        }
    }

    fn grow(&mut self, disk: Option<usize>, sectors: u64) {
        self.tell(|| format!("disks grow by {sectors} sectors: {disk:?}"));
        let machine = &mut self.machine;
        for (number, target) in machine.disks.iter_mut().enumerate() {
            if disk.is_none_or(|disk| disk == number) {
                target.grow(sectors);
                machine.subject.resized(number, target.sectors());
            }
        }
    }

    /// Exports the store with everything that was answered. None of that goes with the power.
    fn export(&mut self) -> Result<(), FailureKind> {
        self.drain()?;
        let moment = self.model.submit_flush();
        self.machine.close();
        let mut left = ENDLESS;
        while !self.machine.subject.is_closed() {
            left -= 1;
            if left == 0 || !self.advance()? {
                return Err(FailureKind::Hangs("the export".into()));
            }
        }
        let volumes: Vec<VolumeId> = self.model.volumes().collect();
        for volume in volumes {
            self.model.flushed(volume, moment);
        }
        self.crash(&[], true)
    }

    /// Opens and judges the possible results of `ways` power cuts at this moment. Returns how many
    /// were tried, how many of them tore a write, and how many sectors were torn.
    fn try_cuts(&mut self, ways: usize) -> Result<(u64, u64, u64), FailureKind> {
        if self.machine.subject.state() != SubjectState::Open {
            return Ok((0, 0, 0));
        }
        let tearing = self.history.behaviour.tearing;
        let all = self.machine.cut(ways, tearing, &mut self.random);
        if let Some(first) = all.first()
            && self.proves()
        {
            self.prove(&first.disks)?;
        }
        let torn = all.iter().filter(|way| way.torn_writes > 0).count() as u64;
        let sectors = all.iter().map(|way: &Way| way.torn_sectors).sum();
        let model = self.model_after_a_cut();
        let tried = self.trying(&model).all::<S>(self.setup, all);
        let tried = tried.map_err(|(way, kind)| {
            self.tell(|| format!("the power fails in way {way}"));
            kind
        })?;
        self.report.tried_cuts += tried;
        let under_way = self.machine.subject.under_way();
        self.report.cut.count(under_way);
        Ok((tried, torn, sectors))
    }

    /// Returns the model of a power cut at this moment.
    pub(super) fn model_after_a_cut(&mut self) -> Model {
        self.note_sectors();
        let mut model = self.model.clone();
        model.crash();
        model
    }

    pub(super) fn trying<'m>(&self, model: &'m Model) -> Trying<'m>
    where
        'a: 'm,
    {
        Trying {
            history: self.history,
            model,
            promised_sectors: self.promised_sectors,
            now_us: self.machine.now_us,
        }
    }

    /// Opens the possible results of `ways` power cuts at this moment. In each, one record is
    /// missing that led to promised data.
    fn lose_records(&mut self, ways: usize) -> Result<(), FailureKind> {
        if self.machine.subject.state() != SubjectState::Open {
            return Ok(());
        }
        let tearing = self.history.behaviour.tearing;
        let all = self.machine.cut(ways, tearing, &mut self.random);
        let model = self.model_after_a_cut();
        for Way { mut disks, .. } in all {
            let media: Vec<Medium> = disks.iter().map(Disk::snapshot).collect();
            let records = S::proven_records(self.setup, &media);
            // The last records are chosen: those before the last checkpoint are not needed.
            let late = &records[records.len().saturating_sub(LATE)..];
            if late.is_empty() {
                continue;
            }
            let lost = self.random.one_of(late);
            let (disk, sector) = (lost.disk, lost.sector);
            let bit = self.random.within(0..SECTOR_SIZE as u64 * 8) as u32;
            disks[disk].rot(sector, bit);
            let tried = self.trying(&model).one::<S>(self.setup, disks);
            self.tell(|| format!("without sector {sector} of disk {disk}: {tried:?}"));
            match tried {
                Ok(()) => self.report.needless_records += 1,
                Err(FailureKind::Refused(why)) if S::misses_a_record(&why) => {
                    self.report.missed_records += 1;
                    self.report.missed_by_signposts += u64::from(lost.is_twice);
                }
                Err(kind) => return Err(kind),
            }
        }
        Ok(())
    }

    /// Opens the possible results of `ways` power cuts at this moment. In each, one sector is
    /// rotten that leads to others.
    fn rot_metadata(&mut self, ways: usize) -> Result<(), FailureKind> {
        if self.machine.subject.state() != SubjectState::Open {
            return Ok(());
        }
        let tearing = self.history.behaviour.tearing;
        let all = self.machine.cut(ways, tearing, &mut self.random);
        let model = self.model_after_a_cut();
        for Way { mut disks, .. } in all {
            let media: Vec<Medium> = disks.iter().map(Disk::snapshot).collect();
            let places = S::metadata(self.setup, &media);
            if places.is_empty() {
                continue;
            }
            let (disk, sector) = self.random.one_of(&places);
            let bit = self.random.within(0..SECTOR_SIZE as u64 * 8) as u32;
            disks[disk].rot(sector, bit);
            let tried = self.trying(&model).one::<S>(self.setup, disks);
            self.tell(|| format!("with sector {sector} of disk {disk} rotten: {tried:?}"));
            tried?;
            self.report.rotten_metadata += 1;
        }
        Ok(())
    }

    fn trouble(&mut self, disk: usize, trouble: &Trouble) {
        self.tell(|| format!("disk {disk}: {trouble:?}"));
        if *trouble == Trouble::Vanish {
            self.unrest = UNREST;
        }
        let remembered = self.remembered[disk].clone();
        let target = &mut self.machine.disks[disk];
        match trouble {
            Trouble::Fault { nth, fault } => target.arm(*nth, *fault),
            Trouble::Rot { sectors } => target.rot_written(*sectors),
            Trouble::Vanish => target.vanish(),
            Trouble::Hang => target.hang(),
            Trouble::Remember => self.remembered[disk] = target.snapshot(),
            Trouble::Return => target.come_back(Return::Unharmed),
            Trouble::ReturnAfterPowerCut => target.come_back(Return::AfterPowerCut),
            Trouble::ReturnOld => target.come_back(Return::Old(remembered)),
            Trouble::ReturnMixed => target.come_back(Return::Mixed(remembered)),
        }
    }

    pub(super) fn report(&self) -> Report {
        let disks_are_lost = self.machine.disks.is_empty();
        Report {
            struck: match disks_are_lost {
                true => self.report.struck,
                false => self.machine.struck(),
            },
            time_us: self.machine.now_us,
            moves: self.report.moves + self.machine.subject.moves(),
            ..self.report
        }
    }

    /// Makes a failure, with the steps that led to it.
    pub(super) fn failure(&self, kind: FailureKind) -> Failure {
        let step = match self.history.steps.get(self.step) {
            Some(Step::Submit(operation)) => format!("{operation}"),
            Some(step) => format!("{step:?}"),
            None => "the end: drain, read all, cut the power twice".to_owned(),
        };
        let mut context = vec![format!("step {}: {step}", self.step)];
        if let FailureKind::Wrong(wrong) = &kind {
            let mut named = wrong.allowed.clone();
            if let crate::model::SliceContent::Change(change)
            | crate::model::SliceContent::Elsewhere(change, _) = wrong.found
            {
                named.push(change);
            }
            if let WrongKind::Torn(change) | WrongKind::Order(change) = wrong.kind {
                named.push(change);
            }
            named.sort_unstable();
            named.dedup();
            for change in named {
                if let Some(step) = self.changes.get(&change)
                    && let Some(Step::Submit(operation)) = self.history.steps.get(*step)
                {
                    let history = self.model.describe(change);
                    let number = change.0;
                    let line = format!("change {number}, step {step}: {operation}; {history}");
                    context.push(line);
                }
            }
        }
        Failure {
            seed: self.history.seed,
            step: self.step,
            kind,
            context,
        }
    }
}
