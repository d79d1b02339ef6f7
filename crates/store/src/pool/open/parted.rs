//! Whether leaves of one pool went on without each other, each with changes that the others lack.
//!
//! A mirror's leaf may be used alone while the other is away; later the other alone. What both took
//! was acknowledged, and neither history leads to the other: there is no pool that has both. It is
//! refused, and somebody must say which one is given up.

use super::super::config::PoolConfig;
use super::OpenError;
use super::OpenErrorKind;
use super::roots::Stray;
use crate::format::Label;
use crate::vdev::{LeafSpec, LeafState};

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

/// Fails where a label says that a leaf missed something which by the newest configuration missed
/// nothing, while that says the same of the leaf with the label. That alone may be so for a moment:
/// when a leaf is rebuilt, and the one that it was rebuilt from fails. So the leaf must have a
/// checkpoint besides that the leaves which missed nothing do not have: of an epoch of which they
/// have another one, or from after that which it is said to have missed first. What they have as
/// well is of one history: a leaf that did not take a write is still given checkpoints, until it is
/// given up. And the label must not be of an earlier stay of the leaf: what a spare was before it
/// left its slot, and stood in anew, leads nowhere. (Of a later stay than the newest configuration
/// knows of there is a label in another history only.)
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
                "leaf {:016x} was used without leaf {:016x}, and that one without it: each has acknowledged changes \
                 that the other lacks. Decide which of them to keep, and open the pool without the other, which can \
                 then be rebuilt",
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
    use crate::format::Epoch;
    use crate::vdev::{Class, Dtl, Kind, TopLevelSpec, VdevTree};

    /// A mirror of two leaves; the first lacks everything or nothing, and took its place in an
    /// epoch.
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
                top_levels: vec![TopLevelSpec::new(Kind::Mirror, Class::Normal, leaves)],
            },
        )
    }

    /// An earlier stay is over. A later one than is known was in another history.
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
