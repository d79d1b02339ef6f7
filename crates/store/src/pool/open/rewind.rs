//! Giving up what cannot be had, so that the rest can be: a pool goes back to a state that is
//! whole.
//!
//! What is given up, from the least to the most:
//! - groups at the end of the log, from the first one that is missing although it was durable, or
//!   that cannot be told from the end of the log;
//! - the newest checkpoint, where what it leads to is damaged, and all groups behind it. The one
//!   before is whole: nothing that the last two durable checkpoints lead to is used for anything
//!   else (`space`). The log behind it is followed up to the checkpoint that is given up, since the
//!   groups behind that may lie where this one's blocks lay;
//! - more checkpoints. They are in the label rings still, but what they lead to may have been
//!   overwritten: such a state is to be proven ([`crate::pool::check`]) before it is trusted.
//!
//! The order that matters: the first checkpoint after this gets an epoch and a number of its last
//! group above all that was given up, and until its root is durable nothing is promised to anybody
//! (`anew.rs`). From then on the labels lead to this history; before, they lead to the old one,
//! whose opening fails as it did. Records that were given up fit nowhere any more: they are behind
//! in number, and no chain leads to them.

use super::super::anew::Start;
use super::super::commit::Commit;
use super::{Candidate, Examined, OpenError, OpenErrorKind, Opening};
use crate::cache::Cache;
use crate::catalog::Catalog;
use crate::format::Epoch;
use crate::log::chain::Chain;
use crate::log::replay::Damage;
use crate::vdev;
use std::sync::Arc;

/// More groups than there ever are behind a checkpoint.
const GROUPS: u64 = 1 << 32;
/// More epochs than groups behind a checkpoint may be of: each snapshot begins one, also without a
/// checkpoint.
const EPOCHS: u64 = 1 << 20;

/// What an opening may give up, and has given up.
#[derive(Debug)]
pub(super) struct Rewind {
    /// Groups behind this one are not done again.
    last_seq: u64,
    /// The epoch that the pool goes on in, and the number of the last group before.
    goes_on: (Epoch, u64),
    /// Checkpoints newer than the one that is opened.
    checkpoints: usize,
    /// When the newest one was made, in seconds since 1970.
    newest_s: u64,
    /// Where the log is damaged.
    damage: Option<String>,
}

/// Where a pool goes back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Back {
    /// So many checkpoints are given up.
    pub checkpoints: usize,
    /// The log behind the one that it goes back to is given up, too. Otherwise it is followed as
    /// far as it is whole, and no further than to the next checkpoint.
    pub without_log: bool,
}

/// What going back comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewound {
    /// The checkpoint from which the pool was opened.
    pub epoch: Epoch,
    /// When it was made, in seconds since 1970.
    pub time_s: u64,
    /// When the newest checkpoint was made that labels know, in seconds since 1970.
    pub newest_s: u64,
    /// Groups of the log that were done again behind it.
    pub groups: u64,
    /// Checkpoints that were given up, with everything behind them.
    pub checkpoints: usize,
    /// What was wrong at the end of the log; `None`: its end was found, nothing durable is missing
    /// in front of it.
    pub damage: Option<String>,
}

impl Opening {
    /// Begins to open the pool at a checkpoint behind the newest, and gives up what is damaged
    /// behind it, or all.
    ///
    /// # Errors
    /// There is no such checkpoint, or the vdevs are none.
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

    /// What going back came to; `None` where nothing may be given up.
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

    /// The datasets of the checkpoint that is opened, with what the log was found to do to them so
    /// far; `None` while they are not known.
    pub fn catalog(&self) -> Option<&Catalog> {
        let is_known = self.pool.persisted.epoch == self.root.epoch;
        is_known.then_some(&self.pool.catalog)
    }

    /// Whether the next record belongs to what is given up.
    pub(super) fn is_at_end_of_rewind(&self) -> bool {
        let last = self.rewind.as_ref().map(|rewind| rewind.last_seq);
        last.is_some_and(|last| self.replay.replay.seq() > last)
    }

    /// The log is damaged where it seemed to end.
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
                // That of the checkpoint that is given up is no news.
                let is_news = damage.seq <= rewind.last_seq;
                rewind.damage = is_news.then_some(context).or(rewind.damage.take());
                Ok(())
            }
            None => Err(OpenError::new(OpenErrorKind::LogDamaged, context)),
        }
    }

    /// Where the log ends cannot be told. Whether that is to be lived with.
    pub(super) fn end_is_untold(&mut self, error: OpenError) -> Option<OpenError> {
        let Some(rewind) = &mut self.rewind else {
            return Some(error);
        };
        rewind.damage = Some(error.context);
        None
    }

    /// The pool goes on above all that was given up.
    pub(super) fn go_on_above(&mut self) {
        let Some(rewind) = &self.rewind else { return };
        let (epoch, seq) = rewind.goes_on;
        let (next, previous) = (self.replay.replay.address(), self.replay.replay.previous());
        let pool = &mut self.pool;
        pool.commit = Commit::new(Chain::new(seq, next, previous), Start::Anew(seq));
        // The place of the next record is in use until that is no more needed.
        if let Some((of, _)) = pool.records.back_mut() {
            *of = seq + 1;
        }
        pool.logs.opened_at(seq);
        pool.begin_epoch(epoch.max(pool.epoch.next()));
        pool.is_checkpoint_wanted = true;
    }
}
