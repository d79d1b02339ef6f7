//! Looking behind the end of the log for proof that more of it was durable.
//!
//! Leaves are read as they are, in long runs, all that miss nothing: a record lies whole on each leaf of a
//! mirror and, being a single sector, in each column of a raidz. One copy of it is proof enough.

use super::super::anew::Start;
use super::super::commit::Commit;
use super::{OpenError, Opening, Stage, Wanted};
use crate::format::SECTOR_SIZE;
use crate::log::chain::Chain;
use crate::log::replay;
use crate::vdev::{ArrayError, DeviceErrorKind, Kind, LeafId, State, layout};

/// Sectors of each vdev that are searched: of that where the log ends behind its end, of the others behind
/// the last place that it used there. What was under way at once is not more.
const SEARCH: u64 = replay::SEARCH as u64 / SECTOR_SIZE as u64;
/// Sectors of a leaf that are read at once.
const RUN: u64 = 256;

/// Sectors of a leaf's data area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Run {
    leaf: LeafId,
    sector: u64,
    sectors: u64,
}

impl Opening {
    /// Looks for proof that more was durable than was found.
    pub(super) fn begin_search(&mut self) -> Result<(), OpenError> {
        self.stage = Stage::Search;
        let end = self.replay.replay.address();
        let mut places = std::mem::take(&mut self.replay.last);
        places.insert(end.vdev(), end.sector());
        let runs = places
            .into_iter()
            .map(|(vdev, place)| self.runs_behind(vdev, place));
        let runs: Vec<Run> = runs.flatten().collect();
        runs.into_iter().for_each(|run| self.search_run(run));
        match self.reading.is_empty() {
            true => self.take_search(),
            false => Ok(()),
        }
    }

    /// Where later records may lie behind a sector of a vdev.
    fn runs_behind(&self, vdev: u16, sector: u64) -> Vec<Run> {
        let size = self.pool.space.size(vdev);
        let (first, last) = (sector + 1, (sector + SEARCH).min(size));
        let Some(top) = (self.pool.array.top_levels()).nth(vdev.into()) else {
            return Vec::new();
        };
        let rows = match top.kind {
            Kind::Raidz { .. } => {
                let slots = top.slots.len() as u64;
                first / slots..last.div_ceil(slots)
            }
            Kind::Leaf | Kind::Mirror | Kind::Hole => first..last,
        };
        let leaves = top.slots.iter().flat_map(|slot| &slot.leaves);
        let whole = leaves.filter(|leaf| leaf.state == State::Online && !leaf.is_incomplete);
        let runs = whole.flat_map(|leaf| {
            let (leaf, end) = (leaf.leaf, rows.end);
            let starts = rows.clone().step_by(RUN as usize);
            starts.map(move |sector| Run {
                leaf,
                sector,
                sectors: RUN.min(end - sector),
            })
        });
        runs.collect()
    }

    fn search_run(&mut self, run: Run) {
        let tag = self.note_tag(Wanted::Search(run));
        let (offset, len) = (
            layout::sector_offset(run.sector),
            run.sectors * SECTOR_SIZE as u64,
        );
        let pool = &mut self.pool;
        let (now, out) = (pool.now_us, &mut pool.array_output);
        pool.array
            .read_leaf(tag, run.leaf, offset, len as u32, now, out);
    }

    /// A run could not be read. Where a sector of it is to blame, the others are read one by one; by the
    /// rest nothing can be proven.
    pub(super) fn search_again(&mut self, run: Run, error: &ArrayError) {
        let is_medium = |kind| kind == DeviceErrorKind::Medium;
        let cause = error.source.as_ref().map(|cause| cause.kind);
        if run.sectors > 1 && cause.is_some_and(is_medium) {
            for sector in run.sector..run.sector + run.sectors {
                self.search_run(Run {
                    sector,
                    sectors: 1,
                    ..run
                });
            }
        }
    }

    pub(super) fn take_search(&mut self) -> Result<(), OpenError> {
        let replay = &self.replay.replay;
        let found = std::mem::take(&mut self.got);
        let chunks = found.values().flat_map(|data| data.chunks());
        let mut damages = chunks.filter_map(|sectors| replay.search(sectors));
        if let Some(damage) = damages.next() {
            self.log_is_damaged(&damage)?;
        } else if let Some(damage) = self.damage_by_copies() {
            self.log_is_damaged(&damage)?;
        }
        let replay = &self.replay.replay;
        let (last, next) = (replay.seq() - 1, replay.address());
        let chain = Chain::new(last, next, replay.previous());
        self.pool.commit = Commit::new(chain, Start::Found);
        self.pool.logs.opened_at(last);
        self.make_rings_even()
    }
}
