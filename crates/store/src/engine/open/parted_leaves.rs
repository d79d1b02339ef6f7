//! Finds out whether leaves of one pool were used without each other, so that each has changes that
//! the others lack.
//!
//! A mirror's leaf may be used alone while the other is away, and later the other alone. Changes of
//! both were acknowledged, and neither history leads to the other. No pool has both. So the opening
//! is refused, and the administrator must say which of them is given up.

use super::super::config::PoolConfig;
use super::error::{OpenError, OpenErrorKind};
use crate::format::{Epoch, Label};
use crate::vdev::{Dtl, LeafSpec, LeafState};

/// Roots of a device that are on no leaf which missed nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stray {
    /// Newest epoch of these roots.
    pub(super) newest: Option<Epoch>,
    /// Whether a leaf that missed nothing has another root of the same epoch. Of both there are two
    /// equal copies, believed or not.
    pub(super) clashes: bool,
}

pub(super) fn is_whole(leaf: &LeafSpec) -> bool {
    leaf.state == LeafState::Online && leaf.missing.is_empty()
}

fn leaves(config: &PoolConfig) -> impl Iterator<Item = &LeafSpec> {
    let slots = config.tree.top_levels.iter().flat_map(|top| &top.slots);
    slots.flat_map(|slot| &slot.leaves)
}

pub(super) fn leaf(config: &PoolConfig, guid: u64) -> Option<&LeafSpec> {
    leaves(config).find(|leaf| leaf.guid == guid)
}

/// Returns the epochs that a leaf missed, by the configuration. A leaf not in use when the
/// configuration was written has missed more since. Labels are written when leaves come and go, not
/// with each epoch.
pub(super) fn missing_now(leaf: &LeafSpec) -> Dtl {
    let mut missing = leaf.missing.clone();
    if leaf.state != LeafState::Online
        && let Some((first, _)) = leaf.missing.ranges().last()
    {
        missing.add_since(*first);
    }
    missing
}

/// Fails if leaves of the pool were used without each other.
///
/// It looks for a label that disagrees with the newest configuration. The label, on leaf A, says
/// that another leaf B missed data. The newest configuration says that A missed data, and B missed
/// nothing. This alone may be so for a moment: when a leaf is rebuilt, and the leaf that it was
/// rebuilt from fails. So two more conditions must hold.
///
/// First, A has a checkpoint that the leaves which missed nothing do not have. Either they have
/// another checkpoint of that epoch, or the epoch is later than the first one that A is said to
/// have missed. Checkpoints that they have as well are of one history. A leaf that did not take a
/// write is still given checkpoints, until it is given up.
///
/// Second, the label is not of an earlier stay of A. Labels that a spare had before it left its
/// slot and stood in anew lead nowhere. (A label of a later stay than the newest configuration
/// knows exists only in another history.)
pub(super) fn require_one_history(
    newest: &PoolConfig,
    labels: &[Option<&Label>],
    strays: &[Stray],
) -> Result<(), OpenError> {
    for (own, stray) in labels.iter().zip(strays) {
        let Some(label) = own else {
            continue;
        };
        let Ok(config) = PoolConfig::decode(&label.config) else {
            continue;
        };
        let Some(accused) = leaf(newest, label.leaf).filter(|leaf| !is_whole(leaf)) else {
            continue;
        };
        let since = accused.missing.ranges().last().map(|(first, _)| *first);
        let is_beyond =
            since.is_some_and(|since| stray.newest.is_some_and(|newest| newest > since));
        let accuses = leaves(&config)
            .filter(|other| other.guid != label.leaf && !is_whole(other))
            .find(|other| leaf(newest, other.guid).is_some_and(is_whole));
        let went_on = leaf(&config, label.leaf)
            .is_some_and(|own| is_whole(own) && own.joined >= accused.joined);
        if let Some(other) = accuses
            && went_on
            && (is_beyond || stray.clashes)
        {
            let context = format!(
                "leaf {:016x} was used without leaf {:016x}, and the other without it: each has acknowledged \
                 changes that the other lacks. Decide which of them to keep, and open the pool without the \
                 other, which can then be rebuilt",
                label.leaf, other.guid
            );
            return Err(OpenError::new(OpenErrorKind::Parted, context));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vdev::{Class, TopLevelKind, TopLevelSpec, VdevTree};

    /// Makes a mirror of two leaves. The first lacks everything or nothing, and took its place in
    /// the epoch `joined`.
    fn config(is_first_whole: bool, joined: u64) -> PoolConfig {
        let mut leaves = [LeafSpec::new(1, 1 << 30), LeafSpec::new(2, 1 << 30)];
        leaves[0].joined = Epoch(joined);
        leaves[usize::from(is_first_whole)].missing = Dtl::all_until(Epoch(90));
        PoolConfig::new(
            "tank",
            77,
            4711,
            "here",
            VdevTree {
                top_levels: vec![TopLevelSpec::new(
                    TopLevelKind::Mirror,
                    Class::Normal,
                    leaves,
                )],
            },
        )
    }

    /// An earlier stay is over. A later stay than the known one was in another history.
    #[test]
    fn only_labels_of_an_earlier_stay_are_no_history_of_their_own() {
        let newest = config(false, 50);
        let stray = Stray {
            newest: Some(Epoch(80)),
            clashes: false,
        };
        for (joined, is_one) in [(0, true), (49, true), (50, false), (70, false)] {
            let label = Label {
                pool: 77,
                leaf: 1,
                generation: 9,
                config: config(true, joined).encode(),
            };
            let result = require_one_history(&newest, &[Some(&label)], &[stray]);
            assert_eq!(result.is_ok(), is_one, "{joined}: {result:?}");
        }
    }
}
