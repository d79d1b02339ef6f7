//! Rewinds a pool to a state that is whole: gives up data that cannot be had, so that the rest can
//! be.
//!
//! These are given up, from the least to the most:
//! - groups at the end of the log. The first of them was durable and is missing, or cannot be told
//!   from the end of the log;
//! - the newest checkpoint, if structures that it leads to are damaged, and all groups after it.
//!   The previous checkpoint is whole, since the space of the last two durable checkpoints is never
//!   reused (`space`). The log after the previous one is followed only up to the given-up
//!   checkpoint. Later groups may lie where the blocks of the previous one lay;
//! - more checkpoints. They are in the label rings still, but their blocks may have been
//!   overwritten. That state must be proven ([`crate::engine::check`]) before it is trusted.
//!
//! The order that matters: the first checkpoint after a rewind gets an epoch and a last group
//! number above all that was given up. Until its root is durable nothing is promised
//! (`engine/io/log_start.rs`). From then on the labels lead to this history. Before, they lead to
//! the old one, whose opening fails as it did. Records that were given up fit nowhere any more:
//! their numbers are too low, and no chain leads to them.

use std::sync::Arc;

use super::{Candidate, Examined, OpenError, OpenErrorKind, Opening};
use crate::cache::Cache;
use crate::catalog::Catalog;
use crate::engine::io::log_end::Start;
use crate::format::Epoch;
use crate::log::chain::Chain;
use crate::log::replay::Damage;
use crate::vdev;

/// Number that is greater than any count of groups after a checkpoint.
const GROUPS: u64 = 1 << 32;
/// Number that is greater than the epochs that groups after a checkpoint may span. Each snapshot
/// begins an epoch, even without a checkpoint.
const EPOCHS: u64 = 1 << 20;

/// Bounds of a rewind, and what it has given up.
#[derive(Debug)]
pub(super) struct Rewind {
    /// Last group that is done again.
    last_seq: u64,
    /// Epoch in which the pool continues, and number of the last group before that.
    goes_on: (Epoch, u64),
    /// Checkpoints newer than the one that is opened.
    checkpoints: usize,
    /// Time at which the newest checkpoint was made, in seconds since 1970.
    newest_s: u64,
    /// Damage of the log.
    damage: Option<String>,
}

/// State to which a pool goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Back {
    /// Number of checkpoints that are given up.
    pub checkpoints: usize,
    /// Whether the log after the checkpoint is given up, too. Otherwise it is followed as far as it
    /// is whole, and no further than to the next checkpoint.
    pub without_log: bool,
}

/// Result of a rewind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewound {
    /// Checkpoint from which the pool was opened.
    pub epoch: Epoch,
    /// Time at which that checkpoint was made, in seconds since 1970.
    pub time_s: u64,
    /// Time at which the newest checkpoint in the labels was made, in seconds since 1970.
    pub newest_s: u64,
    /// Groups of the log that were done again after the checkpoint.
    pub groups: u64,
    /// Checkpoints that were given up, with everything after them.
    pub checkpoints: usize,
    /// Damage at the end of the log; `None` if its end was found, and no durable group is missing
    /// before it.
    pub damage: Option<String>,
}

impl Opening {
    /// Begins to open the pool at an older checkpoint, and gives up the damaged groups after it, or
    /// all.
    ///
    /// # Errors
    /// There is no such checkpoint, or the vdevs are invalid.
    pub fn rewinding(
        examined: &Examined,
        back: Back,
        limits: super::Limits,
        vdev_limits: vdev::Limits,
        cache: Arc<Cache>,
        now_us: u64,
    ) -> Result<Self, OpenError> {
        let steps = back.checkpoints;
        let (Some(newest), Some(root)) = (examined.roots.first(), examined.roots.get(steps)) else {
            let context = "the labels hold no older checkpoint";
            return Err(OpenError::damaged(context));
        };
        let given_up = steps
            .checked_sub(1)
            .and_then(|next| examined.roots.get(next));
        let last_seq = match back.without_log {
            true => root.root.seq,
            false => given_up.map_or(u64::MAX, |next: &Candidate| next.root.seq),
        };
        let goes_on = (
            Epoch(newest.root.epoch.0 + EPOCHS),
            newest.root.seq + GROUPS,
        );
        let mut opening = Self::new(examined, root, limits, vdev_limits, cache, now_us)?;
        opening.rewind = Some(Rewind {
            last_seq,
            goes_on,
            checkpoints: steps,
            newest_s: newest.root.time_s,
            damage: None,
        });
        Ok(opening)
    }

    /// Returns the result of the rewind; `None` if nothing may be given up.
    pub fn rewound(&self) -> Option<Rewound> {
        let rewind = self.rewind.as_ref()?;
        Some(Rewound {
            epoch: self.root.epoch,
            time_s: self.root.time_s,
            newest_s: rewind.newest_s,
            groups: self.replay.groups,
            checkpoints: rewind.checkpoints,
            damage: rewind.damage.clone(),
        })
    }

    /// Returns the datasets of the checkpoint that is opened, with the changes of the log so far;
    /// `None` while they are unknown.
    pub fn catalog(&self) -> Option<&Catalog> {
        let is_known = self.pool.checkpoint_epoch() == self.root.epoch;
        is_known.then_some(self.pool.catalog())
    }

    /// Reports whether the next record belongs to the groups that are given up.
    pub(super) fn is_at_end_of_rewind(&self) -> bool {
        let last = self.rewind.as_ref().map(|rewind| rewind.last_seq);
        last.is_some_and(|last| self.replay.replay.seq() > last)
    }

    /// Notes that the log is damaged where it seemed to end.
    ///
    /// # Errors
    /// Nothing may be given up.
    pub(super) fn log_is_damaged(&mut self, damage: &Damage) -> Result<(), OpenError> {
        let context = format!(
            "the log is damaged: group {} at {} is missing, and group {} says that it was durable",
            damage.seq, damage.address, damage.proven_by
        );
        match &mut self.rewind {
            Some(rewind) => {
                // Damage in the given-up groups is no news.
                let is_news = damage.seq <= rewind.last_seq;
                rewind.damage = is_news.then_some(context).or(rewind.damage.take());
                Ok(())
            }
            None => Err(OpenError::new(OpenErrorKind::LogDamaged, context)),
        }
    }

    /// Handles a log whose end cannot be told. Returns the error, unless a rewind tolerates it.
    pub(super) fn end_is_untold(&mut self, error: OpenError) -> Option<OpenError> {
        let Some(rewind) = &mut self.rewind else {
            return Some(error);
        };
        rewind.damage = Some(error.context);
        None
    }

    /// Lets the pool continue above all that was given up.
    pub(super) fn go_on_above(&mut self) {
        let Some(rewind) = &self.rewind else { return };
        let (epoch, seq) = rewind.goes_on;
        let (next, previous) = (self.replay.replay.address(), self.replay.replay.previous());
        let pool = &mut self.pool;
        pool.begin_log(Chain::new(seq, next, previous), Start::Anew(seq));
        // The place of the next record is in use until that record is no longer needed.
        if let Some((of, _)) = pool.records.back_mut() {
            *of = seq + 1;
        }
        pool.log_opened_at(seq);
        pool.begin_epoch(epoch.max(pool.epoch().next()));
        pool.want_checkpoint();
    }
}
