//! Choice of a path: the path selection policies (PSP).
//!
//! The choice has two steps. [`Selection::review`] runs when the state of a path changes. It keeps
//! the paths that may carry I/O at all: active/optimized ones, or else active/non-optimized ones
//! (SPC-4 5.15.2.4). [`Selection::choose`] runs for every I/O, and picks one of the kept paths.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use scsi::application_client::target_port_groups::AccessState;

use super::path::{Path, PathId};
use super::round_robin::{LimitType, RoundRobin};
use super::settings::Settings;

/// A path selection policy by name: three of ESXi's, and two that ESXi lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum Psp {
    /// Most recently used: stays on its path until the path fails or a better one (optimized
    /// instead of non-optimized) appears. It does not return by itself to an equal path.
    #[serde(rename = "VMW_PSP_MRU")]
    Mru,
    /// Fixed: uses the preferred path while it is active, and returns to it when it is active
    /// again.
    #[serde(rename = "VMW_PSP_FIXED")]
    Fixed,
    /// Round robin: uses one path after the other, and moves on after a number of I/Os or bytes.
    #[serde(rename = "VMW_PSP_RR")]
    RoundRobin,
    /// Uses the path with the fewest I/Os on it.
    #[serde(rename = "SANDSTONE_PSP_LEAST_QUEUE")]
    LeastQueue,
    /// Uses the path that should answer soonest: average latency times the I/Os on it.
    #[serde(rename = "SANDSTONE_PSP_LOWEST_LATENCY")]
    LowestLatency,
}

impl Psp {
    /// All policies.
    pub const ALL: [Self; 5] = [
        Self::Mru,
        Self::Fixed,
        Self::RoundRobin,
        Self::LeastQueue,
        Self::LowestLatency,
    ];

    /// Returns the name in listings and in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mru => "VMW_PSP_MRU",
            Self::Fixed => "VMW_PSP_FIXED",
            Self::RoundRobin => "VMW_PSP_RR",
            Self::LeastQueue => "SANDSTONE_PSP_LEAST_QUEUE",
            Self::LowestLatency => "SANDSTONE_PSP_LOWEST_LATENCY",
        }
    }

    /// Returns the description in `esxcli storage nmp psp list`.
    pub fn description(self) -> &'static str {
        match self {
            Self::Mru => "Most Recently Used Path Selection",
            Self::Fixed => "Fixed Path Selection",
            Self::RoundRobin => "Round Robin Path Selection",
            Self::LeastQueue => "Path with the fewest I/Os in flight",
            Self::LowestLatency => "Path with the lowest expected latency",
        }
    }

    /// Finds the policy of this name, in any case, with or without the maker's prefix.
    pub fn from_name(name: &str) -> Option<Self> {
        let wanted = name.replace('-', "_");
        Self::ALL.into_iter().find(|psp| {
            let full = psp.name();
            let short = full.split_once("_PSP_").map_or(full, |(_, short)| short);
            full.eq_ignore_ascii_case(&wanted) || short.eq_ignore_ascii_case(&wanted)
        })
    }

    /// Reports whether the policy spreads I/O over all good paths. Others keep all but one path in
    /// reserve.
    pub fn uses_all_paths(self) -> bool {
        !matches!(self, Self::Mru | Self::Fixed)
    }
}

/// Time without I/O after which a path is tried again. Without it, [`Psp::LowestLatency`] would
/// take a path that was slow once for slow for ever.
const EXPLORE_AFTER_US: u64 = 1_000_000;

/// Memory of the policy about a device.
#[derive(Debug, Default)]
pub(super) struct Selection {
    /// Paths that may carry I/O now, in order of their numbers.
    candidates: Vec<PathId>,
    /// Index of the candidate that is in use, or was last used.
    at: usize,
    /// Current path of MRU and FIXED; kept even while it is not a candidate.
    current: Option<PathId>,
    /// Path that FIXED prefers if none was set: the best path at the time when a path first
    /// appeared.
    found_first: Option<PathId>,
    /// I/Os and bytes since round robin came to the current path.
    pub(super) ios_here: u32,
    pub(super) bytes_here: u64,
}

impl Selection {
    /// Returns the paths that may carry I/O ("Working Paths" of round robin).
    pub(super) fn candidates(&self) -> &[PathId] {
        &self.candidates
    }

    /// Returns the current path of MRU and FIXED.
    pub(super) fn current(&self) -> Option<PathId> {
        self.current
    }

    /// Returns the position of the path in use among the working paths.
    pub(super) fn index(&self) -> usize {
        self.at
    }

    /// Returns the path that FIXED prefers: the one that was set, or else the one that was found
    /// first.
    pub(super) fn preferred(&self, paths: &[Option<Path>], settings: &Settings) -> Option<PathId> {
        let Some(name) = settings.preferred_path.as_deref() else {
            return self.found_first;
        };
        each(paths)
            .find(|(_, path)| path.identity.runtime_name == name)
            .map(|(id, _)| id)
    }

    /// Finds the paths that may carry I/O now, after a change of a path or setting.
    pub(super) fn review(&mut self, paths: &[Option<Path>], settings: &Settings) {
        let both = settings.psp == Psp::RoundRobin && settings.round_robin.use_ano;
        let was = self.candidates.get(self.at).copied();
        self.candidates.clear();
        let of = |wanted: &dyn Fn(AccessState) -> bool| {
            each(paths)
                .filter(|(_, path)| path.is_usable() && wanted(path.access))
                .map(|(id, _)| id)
                .collect::<Vec<_>>()
        };
        self.candidates = if both {
            of(&|_| true)
        } else {
            of(&|access| access == AccessState::ActiveOptimized)
        };
        if self.candidates.is_empty() {
            self.candidates = of(&|_| true);
        }
        self.settle_current(paths, settings);
        let stay = match settings.psp {
            Psp::Mru | Psp::Fixed => self.current,
            Psp::RoundRobin | Psp::LeastQueue | Psp::LowestLatency => was,
        };
        match self.candidates.iter().position(|id| Some(*id) == stay) {
            Some(at) => self.at = at,
            None => self.move_to(0),
        }
    }

    /// Finds the one path of MRU and FIXED.
    fn settle_current(&mut self, paths: &[Option<Path>], settings: &Settings) {
        let is_candidate = |id: &PathId| self.candidates.contains(id);
        let best = self.candidates.iter().copied().min_by_key(|id| {
            let preferred = get(paths, *id).is_some_and(|path| path.preferred_group);
            (!preferred, *id)
        });
        if self.found_first.is_none_or(|id| get(paths, id).is_none()) {
            self.found_first = best;
        }
        if settings.psp == Psp::Fixed {
            let preferred = self.preferred(paths, settings);
            // A path that an administrator prefers is used while it is active, even if others are
            // optimized. A path that was merely found first must be as good as the best.
            let explicit = settings.preferred_path.is_some();
            let usable =
                preferred.filter(|id| get(paths, *id).is_some_and(|path| path.is_usable()));
            if let Some(id) = usable.filter(|id| explicit || is_candidate(id)) {
                self.current = Some(id);
                if !is_candidate(&id) {
                    self.candidates = vec![id];
                }
                return;
            }
        }
        if !self.current.as_ref().is_some_and(is_candidate) && best.is_some() {
            self.current = best;
        }
    }

    fn move_to(&mut self, at: usize) {
        self.at = at;
        self.ios_here = 0;
        self.bytes_here = 0;
    }

    /// Chooses the path for one I/O of `bytes`. Returns `None` if all candidates are full, or if
    /// there are none.
    #[inline]
    pub(super) fn choose(
        &mut self,
        paths: &[Option<Path>],
        settings: &Settings,
        bytes: u32,
        now_us: u64,
    ) -> Option<PathId> {
        match settings.psp {
            Psp::Mru | Psp::Fixed => {
                let id = *self.candidates.get(self.at)?;
                get(paths, id)?.has_room().then_some(id)
            }
            Psp::RoundRobin => self.next_in_turn(paths, &settings.round_robin, bytes),
            Psp::LeastQueue => self.least(paths, |path| path.in_flight as f32),
            Psp::LowestLatency => self.soonest(paths, now_us),
        }
    }

    /// Chooses the next path of round robin. Moves on after the limit, and skips full paths.
    #[inline]
    fn next_in_turn(
        &mut self,
        paths: &[Option<Path>],
        limits: &RoundRobin,
        bytes: u32,
    ) -> Option<PathId> {
        let count = self.candidates.len();
        let ios_used_up = self.ios_here >= limits.iops;
        let bytes_used_up = self.bytes_here >= limits.bytes;
        let used_up = match limits.limit_type {
            LimitType::Default => ios_used_up || bytes_used_up,
            LimitType::Iops => ios_used_up,
            LimitType::Bytes => bytes_used_up,
        };
        let start = if used_up { self.at + 1 } else { self.at };
        for step in 0..count {
            let at = wrapped(start + step, count);
            let id = self.candidates[at];
            if get(paths, id).is_some_and(Path::has_room) {
                if used_up || at != self.at {
                    self.move_to(at);
                }
                self.ios_here = self.ios_here.saturating_add(1);
                self.bytes_here = self.bytes_here.saturating_add(u64::from(bytes));
                return Some(id);
            }
        }
        None
    }

    /// Returns the path with the least cost. Among equal paths, the next in turn wins.
    fn least(&mut self, paths: &[Option<Path>], cost: impl Fn(&Path) -> f32) -> Option<PathId> {
        let count = self.candidates.len();
        let mut best: Option<(f32, usize)> = None;
        for step in 1..=count {
            let at = wrapped(self.at + step, count);
            let Some(path) = get(paths, self.candidates[at]).filter(|path| path.has_room()) else {
                continue;
            };
            let cost = cost(path);
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, at));
            }
        }
        let (_, at) = best?;
        self.at = at;
        Some(self.candidates[at])
    }

    /// Returns the path with the lowest expected time to an answer. A path without a recent
    /// measurement gets one I/O to show its speed, and no second one before the first is answered.
    fn soonest(&mut self, paths: &[Option<Path>], now_us: u64) -> Option<PathId> {
        let count = self.candidates.len();
        let mut best: Option<(f32, usize)> = None;
        for step in 1..=count {
            let at = wrapped(self.at + step, count);
            let id = self.candidates[at];
            let Some(path) = get(paths, id).filter(|path| path.has_room()) else {
                continue;
            };
            let measured = path.latency_us > 0.0;
            let forgotten = now_us.saturating_sub(path.last_sent_us) >= EXPLORE_AFTER_US;
            if path.in_flight == 0 && (!measured || forgotten) {
                self.at = at;
                return Some(id);
            }
            let cost = path.latency_us * (path.in_flight + 1) as f32;
            if measured && best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, at));
            }
        }
        let Some((_, at)) = best else {
            // All paths are being measured for the first time.
            return self.least(paths, |path| path.in_flight as f32);
        };
        self.at = at;
        Some(self.candidates[at])
    }
}

/// Wraps a position below `2 * count` to a candidate's index. A division would cost more than the
/// rest.
#[inline]
fn wrapped(at: usize, count: usize) -> usize {
    if at < count { at } else { at - count }
}

/// Returns the path of this number.
#[inline]
pub(super) fn get(paths: &[Option<Path>], id: PathId) -> Option<&Path> {
    paths.get(id.0 as usize)?.as_ref()
}

/// Lists all paths with their numbers.
pub(super) fn each(paths: &[Option<Path>]) -> impl Iterator<Item = (PathId, &Path)> {
    (0..)
        .map(PathId)
        .zip(paths)
        .filter_map(|(id, path)| Some((id, path.as_ref()?)))
}
