//! Leaves that came back older than the pool: an old image, a disk of last week, or a snapshot that
//! a lower layer rolled back.
//!
//! By the configuration such a leaf is online and misses nothing, since nothing noted its absence.
//! Its contents say otherwise:
//! - its newest root is not the pool's newest. A root reaches labels of the first round on all
//!   leaves, and is durable there, before a label of the second round has it. A root that stayed
//!   in the first round counts only if all leaves that are here have it ([`super::roots`]). So a
//!   leaf without the newest root is older than that root, or failed to take it. It may lack blocks
//!   born after its own newest root;
//! - its configuration is older than the pool's. By the same order of rounds it had the newest one
//!   once. It may still miss what it says that it missed then.
//!
//! A leaf that has the newest root may lack groups of the log after that. The replay finds these
//! groups ([`super::proven_groups`]).
//!
//! Until such a leaf is rebuilt it does not count. Its ring is left as it is until the labels say
//! what it lacks. With the newest root in the ring, the next opening would take the leaf for
//! current.

use super::super::config::PoolConfig;
use super::leaf_labels::LeafLabels;
use super::parted_leaves::{self, missing_now};
use super::roots::Roots;
use crate::engine::devices::label_rounds::ROUNDS;
use crate::format::{Epoch, Label};
use crate::vdev::{Class, Dtl, LeafSpec, LeafState};

/// Leaf that is older than the pool, or lacks a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behind {
    /// Guid of the leaf.
    pub leaf: u64,
    /// Epoch of the leaf's newest checkpoint; `None` if it has none that counts.
    pub root: Option<Epoch>,
    /// Epoch of the pool's newest checkpoint.
    pub newest: Epoch,
    /// Whether the leaf is needed: the other leaves do not hold all that it should hold.
    pub is_needed: bool,
    /// Epochs that the leaf missed by the configuration.
    before: Dtl,
    /// Whether the leaf may have the newest root in a label that cannot be read.
    is_doubtful: bool,
}

impl Behind {
    /// Describes a leaf that is used again while the pool is open.
    pub(in crate::engine) fn of_returned(leaf: u64, root: Option<Epoch>, newest: Epoch) -> Self {
        Self {
            leaf,
            root,
            newest,
            is_needed: false,
            before: Dtl::new(),
            is_doubtful: false,
        }
    }

    /// Returns a text that says how far the leaf is behind.
    pub fn told(&self) -> String {
        let newest = self.newest.0;
        match self.root {
            None => "it has no checkpoint of the pool".to_owned(),
            Some(root) if root < self.newest => format!(
                "its newest checkpoint is {}, but the pool's is {newest}",
                root.0
            ),
            Some(_) => "its labels are older than those of the other devices".to_owned(),
        }
    }
}

/// Statements of a device's labels about its leaf, beside what the pool knows of the leaf.
pub(in crate::engine) struct Claim<'a> {
    /// Newest root that counts.
    pub(in crate::engine) root: Option<Epoch>,
    /// Label of the device, if it is older than the pool's.
    pub(in crate::engine) old_label: Option<&'a Label>,
}

impl Claim<'_> {
    /// Returns the epochs that a leaf lacks in a pool whose newest root is of the epoch `newest`.
    pub(in crate::engine) fn lacks(&self, spec: &LeafSpec, newest: Epoch) -> Dtl {
        let mut lacks = Dtl::new();
        if spec.joined <= newest && self.root < Some(newest) {
            lacks.add_since(self.root.map_or(Epoch(0), Epoch::next));
        }
        let Some(label) = self.old_label else {
            return lacks;
        };
        let config = PoolConfig::decode(&label.config).ok();
        let own = config
            .as_ref()
            .and_then(|of| parted_leaves::leaf(of, spec.guid));
        match own.filter(|own| own.joined == spec.joined) {
            Some(own) => lacks.add_all(&missing_now(own)),
            // The leaf was in no slot then, or in an earlier stay there.
            None => lacks.add_since(Epoch(0)),
        }
        lacks
    }
}

/// Finds the leaves that are behind, and notes in the configuration what they lack.
pub(super) fn judge(
    config: &mut PoolConfig,
    devices: &[LeafLabels],
    leaves: &[Option<u64>],
    labels: &[Option<&Label>],
    counting: &Label,
    roots: &Roots,
) -> Vec<Behind> {
    let Some(newest) = roots.candidates.first().map(|of| of.root.epoch) else {
        return Vec::new();
    };
    let previous = roots.candidates.get(1).map(|of| of.root.epoch);
    let mut behind = Vec::new();
    let slots = config
        .tree
        .top_levels
        .iter_mut()
        .flat_map(|top| &mut top.slots);
    for spec in slots.flat_map(|slot| &mut slot.leaves) {
        let Some(device) = leaves.iter().position(|leaf| *leaf == Some(spec.guid)) else {
            continue;
        };
        // These leaves are examined when they are used again.
        if matches!(spec.state, LeafState::Offline | LeafState::Faulted) {
            continue;
        }
        let root = roots.held[device];
        let label = labels[device].filter(|own| own.generation < counting.generation);
        let claim = Claim {
            root,
            old_label: label,
        };
        let before = missing_now(spec);
        let mut missing = before.clone();
        missing.add_all(&claim.lacks(spec, newest));
        if missing == before {
            continue;
        }
        spec.missing = missing;
        if spec.state == LeafState::Online {
            behind.push(Behind {
                leaf: spec.guid,
                root,
                newest,
                is_needed: false,
                before,
                // The power may have failed while roots were written, and labels that would show it
                // are lost.
                is_doubtful: root.is_some()
                    && root == previous
                    && (!roots.is_newest_settled || !shows_first_round(&devices[device])),
            });
        }
    }
    note_needed(config, leaves, &mut behind);
    believe(config, &mut behind, |of| of.is_needed && of.is_doubtful);
    behind
}

/// Reports whether a label of the first round can be read.
fn shows_first_round(device: &LeafLabels) -> bool {
    let mut first = ROUNDS[0].iter().map(|copy| &device.copies[*copy]);
    first.any(|copy| Label::read(copy).is_ok())
}

/// Notes which leaves that are behind are needed, since their vdevs have too few whole leaves.
fn note_needed(config: &PoolConfig, leaves: &[Option<u64>], behind: &mut [Behind]) {
    let is_here = |leaf: &LeafSpec| leaves.contains(&Some(leaf.guid));
    let is_usable = |leaf: &LeafSpec| {
        !matches!(leaf.state, LeafState::Offline | LeafState::Faulted) && is_here(leaf)
    };
    for top in config
        .tree
        .top_levels
        .iter()
        .filter(|top| top.class == Class::Normal)
    {
        let lacking = |of: &dyn Fn(&LeafSpec) -> bool| {
            let slots = top.slots.iter();
            slots.filter(|slot| !slot.leaves.iter().any(of)).count()
        };
        let spare = top.kind.redundancy(top.slots.len());
        let is_lacking = lacking(&|leaf| is_here(leaf) && parted_leaves::is_whole(leaf)) > spare;
        // If too few leaves are here at all, only that is reported.
        if is_lacking && lacking(&is_usable) <= spare {
            let leaves = || top.slots.iter().flat_map(|slot| &slot.leaves);
            let own = behind
                .iter_mut()
                .filter(|of| leaves().any(|leaf| leaf.guid == of.leaf));
            own.for_each(|of| of.is_needed = true);
        }
    }
}

/// Takes needed leaves for current because the administrator says so: the pool then has what they
/// have.
pub(super) fn believe_needed(config: &mut PoolConfig, behind: &mut Vec<Behind>) {
    believe(config, behind, |of| of.is_needed);
}

fn believe(config: &mut PoolConfig, behind: &mut Vec<Behind>, which: impl Fn(&Behind) -> bool) {
    let slots = config
        .tree
        .top_levels
        .iter_mut()
        .flat_map(|top| &mut top.slots);
    for spec in slots.flat_map(|slot| &mut slot.leaves) {
        let own = behind.iter().find(|of| which(of) && of.leaf == spec.guid);
        if let Some(own) = own {
            spec.missing = own.before.clone();
        }
    }
    behind.retain(|of| !which(of));
}
