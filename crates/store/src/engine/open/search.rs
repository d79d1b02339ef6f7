//! Searches around the end of the log for proof that more of it was durable.
//!
//! All leaves that miss nothing are read as they are, in long runs. A record lies whole on each
//! leaf of a mirror. As a single sector, it also lies whole in each column of a raidz. One copy of
//! a record is proof enough. A found record may prove nothing: its group was sealed before the
//! missing one was durable, or it is a signpost. It may lead to a record that proves more, so it is
//! followed.

use std::collections::BTreeSet;
use std::ops::Range;

use super::{OpenError, Opening, OpeningStage, Wanted};
use crate::engine::io::log_end::Start;
use crate::format::{Address, SECTOR_SIZE};
use crate::log::chain::Chain;
use crate::log::replay::{SEARCH, Trace};
use crate::vdev::{ArrayError, DeviceErrorKind, LeafId, TopLevelKind, VdevState, layout};

/// Sectors of a leaf that are read at once.
const RUN: u64 = 256;

/// Run of sectors in a leaf's data area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Run {
    leaf: LeafId,
    sector: u64,
    sectors: u64,
}

/// Records found around the end, and places already searched.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// Number of each record, and checksum of the one before.
    found: BTreeSet<(u64, u128)>,
    /// Places that were read since a record leads there.
    followed: BTreeSet<Address>,
}

impl Search {
    /// Returns the places of the records that follow these, unless they were searched already.
    fn follow(&mut self, traces: &[Trace]) -> Vec<Address> {
        let found = traces.iter().map(|trace| (trace.seq, trace.previous));
        self.found.extend(found);
        let ends = traces.iter().filter(|trace| {
            let behind = (trace.seq + 1, trace.checksum);
            !self.found.contains(&behind) && self.followed.insert(trace.next)
        });
        ends.map(|trace| trace.next).collect()
    }
}

impl Opening {
    /// Begins to search for proof that more was durable than was found. It searches around the
    /// place where the log ended, and around its last place on each other vdev.
    pub(super) fn begin_search(&mut self) -> Result<(), OpenError> {
        self.stage = OpeningStage::Search;
        let end = self.replay.replay.address();
        let mut places = std::mem::take(&mut self.replay.last);
        places.insert(end.vdev(), end.sector());
        for (vdev, sector) in places {
            self.search_from((sector + 1).saturating_sub(SEARCH)..sector + SEARCH, vdev);
        }
        self.search_goes_on()
    }

    fn search_goes_on(&mut self) -> Result<(), OpenError> {
        match self.reading.is_empty() {
            true => self.take_search(),
            false => Ok(()),
        }
    }

    /// Reads sectors of a vdev from all leaves that miss nothing.
    fn search_from(&mut self, sectors: Range<u64>, vdev: u16) {
        let runs = self.runs_of(sectors, vdev);
        runs.into_iter().for_each(|run| self.search_run(run));
    }

    fn runs_of(&self, sectors: Range<u64>, vdev: u16) -> Vec<Run> {
        let Some(top) = (self.pool.tops()).nth(vdev.into()) else {
            return Vec::new();
        };
        let sectors = sectors.start..sectors.end.min(self.pool.space_of(vdev));
        let rows = match top.kind {
            TopLevelKind::Raidz { .. } => {
                let slots = top.slots.len() as u64;
                sectors.start / slots..sectors.end.div_ceil(slots)
            }
            TopLevelKind::Leaf | TopLevelKind::Mirror | TopLevelKind::Hole => sectors,
        };
        let leaves = top.slots.iter().flat_map(|slot| &slot.leaves);
        let whole = leaves.filter(|leaf| leaf.state == VdevState::Online && !leaf.is_incomplete);
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
        self.pool.read_leaf(tag, run.leaf, offset, len as u32);
    }

    /// Handles a run that could not be read. If one of its sectors is bad, the sectors are read one
    /// by one. A run that still cannot be read proves nothing.
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
        let traces: Vec<Trace> = chunks
            .flat_map(|sectors| replay.traces(sectors).collect::<Vec<_>>())
            .collect();
        let damage = replay.damage_by(traces.iter());
        if let Some(damage) = damage.or_else(|| self.damage_by_copies()) {
            self.log_is_damaged(&damage)?;
        } else {
            let ends = self.search.follow(&traces);
            for place in &ends {
                self.search_from(place.sector()..place.sector() + 1, place.vdev());
            }
            if !ends.is_empty() {
                return self.search_goes_on();
            }
        }
        let replay = &self.replay.replay;
        let (last, next) = (replay.seq() - 1, replay.address());
        let chain = Chain::new(last, next, replay.previous());
        self.pool.begin_log(chain, Start::Found);
        self.pool.log_opened_at(last);
        self.make_rings_even()
    }
}
