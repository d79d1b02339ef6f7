//! Examines the labels of a set of devices: which pool they belong to, and which checkpoints there
//! are.

use std::collections::BTreeSet;

use super::super::activity::protection::Protection;
use super::super::config::PoolConfig;
use super::configurations::Labels;
use super::error::{OpenError, OpenErrorKind};
use super::leaf_labels::LeafLabels;
use super::leaves_behind::{Behind, believe_needed, judge};
use super::parted_leaves::{missing_now, require_one_history};
use super::roots::{Candidate, Ring, Roots};
use super::sizes::{Short, fit};
use super::twins::{self, Twins};
use crate::format::Epoch;
use crate::vdev::{Class, LeafSpec, LeafState, SlotSpec, TopLevelKind};

/// Facts that all labels give together.
#[derive(Clone, Debug)]
pub struct Examined {
    /// Newest configuration, with missing leaves taken offline.
    pub config: PoolConfig,
    /// Leaf that each device is, in the order in which they were given; `None` if it is of another
    /// pool, or none.
    pub leaves: Vec<Option<u64>>,
    /// Checkpoints, newest first.
    pub roots: Vec<Candidate>,
    /// Ring that every label is to hold.
    pub(super) ring: Ring,
    /// Whether labels have to be rewritten, since some differ.
    pub is_config_new: bool,
    /// Guids of missing leaves that may have been used without the leaves found, as far as these
    /// labels know. Then acknowledged changes are only on the missing leaves. The list is empty if
    /// a leaf that was found would have had to take part, since its label would say so. If the pool
    /// is opened all the same, the administrator must be told.
    pub unaccounted: Vec<u64>,
    /// Guids of missing leaves that have data which the leaves found lack: these were being rebuilt
    /// from them.
    pub needed: Vec<u64>,
    /// Leaves that are here and are older than the pool.
    pub behind: Vec<Behind>,
    /// Devices that are shorter than they were.
    pub short: Vec<Short>,
    /// Whether only one label of all can be read. Its checkpoint is followed if all that it leads
    /// to is whole.
    pub is_lone_label: bool,
    /// Log vdevs that were in use and have no leaf here with all copies.
    pub missing_logs: Vec<MissingLog>,
    /// Whether nothing will be written to the devices.
    is_only_read: bool,
    /// Protection with which the opener claims the pool in the labels; `None` if it does not.
    pub protection: Option<Protection>,
}

/// Missing log vdev, which may be the only place of durable writes that had not reached the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingLog {
    /// Number of the vdev.
    pub vdev: u16,
    /// Guids of its leaves.
    pub leaves: Vec<u64>,
}

impl Examined {
    /// Promises that nothing is written to the devices. They may then have features that only
    /// writers must know.
    pub fn only_read(&mut self) {
        self.is_only_read = true;
    }

    /// Refuses to write to a pool if writing needs features that this program lacks.
    pub(super) fn require_writable(&self) -> Result<(), OpenError> {
        match self.is_only_read {
            true => Ok(()),
            false => self.config.features.require_writable(&self.config.name),
        }
    }

    /// Refuses to continue without log vdevs that may matter.
    pub(super) fn require_logs(&self) -> Result<(), OpenError> {
        let Some(log) = self.missing_logs.first() else {
            return Ok(());
        };
        let leaves: Vec<String> = log.leaves.iter().map(|of| format!("{of:016x}")).collect();
        let loss = match self.config.is_exported {
            true => "the pool was exported cleanly, so nothing is lost without it",
            false => {
                "without it, durable writes of the last moments before the pool was last used may be lost"
            }
        };
        let context = format!("its log device is missing ({}): {loss}", leaves.join(", "));
        Err(OpenError::new(OpenErrorKind::LogMissing, context))
    }

    /// Refuses to continue without leaves that others were being rebuilt from. Data that is not
    /// rebuilt yet could not be read, and data written meanwhile would keep the two apart for good.
    pub(super) fn require_needed(&self) -> Result<(), OpenError> {
        if let Some(context) = self.old_copy() {
            return Err(OpenError::new(OpenErrorKind::Old, context));
        }
        if self.needed.is_empty() {
            return Ok(());
        }
        let needed: Vec<String> = self.needed.iter().map(|of| format!("{of:016x}")).collect();
        let context = format!(
            "leaf {} is missing, and the other devices were being rebuilt from it: they lack a part of its \
             data",
            needed.join(", ")
        );
        Err(OpenError::new(OpenErrorKind::Missing, context))
    }

    /// Describes the leaf that is an old copy which no other leaf makes up for, and by how much it
    /// is behind.
    pub fn old_copy(&self) -> Option<String> {
        let old = self.behind.iter().find(|of| of.is_needed)?;
        let path = self.config.paths.get(&old.leaf);
        let path = path.map(|path| format!(" ({path})")).unwrap_or_default();
        Some(format!(
            "leaf {:016x}{path} holds an old copy of its data: {}, and the other devices do not have all of \
             the newer data",
            old.leaf,
            old.told()
        ))
    }

    /// Gives up the data of missing leaves that others were being rebuilt from, and the data that
    /// old copies lack.
    pub fn go_without_needed(&mut self) {
        self.needed.clear();
        believe_needed(&mut self.config, &mut self.behind);
    }

    /// Gives up the missing log vdevs, with data that is nowhere else. Returns them.
    pub fn drop_missing_logs(&mut self) -> Vec<MissingLog> {
        let dropped = std::mem::take(&mut self.missing_logs);
        for log in &dropped {
            if let Some(top) = self.config.tree.top_levels.get_mut(usize::from(log.vdev)) {
                (top.kind, top.leaf_sectors) = (TopLevelKind::Hole, Some(0));
                top.inner_labels = None;
                top.slots.clear();
                self.is_config_new = true;
            }
        }
        dropped
    }
}

/// Finds the devices among these that share an identity, of the pool `guid`.
///
/// # Errors
/// There is no such pool, or its labels cannot be used.
pub fn twins(devices: &[LeafLabels], guid: u64) -> Result<Vec<Twins>, OpenError> {
    let labels = Labels::decode(devices)?;
    let newest = labels.newest(Some(guid)).ok_or_else(no_pool)?;
    let config = PoolConfig::decode(&newest.config)?;
    Ok(twins::find(devices, &labels.of_pool(config.guid), &config))
}

/// Returns the old and the new guid of the device's pool, if a change of its identity was
/// interrupted.
pub fn torn_identity(device: &LeafLabels) -> Option<(u64, u64)> {
    let labels = Labels::decode(std::slice::from_ref(device)).ok()?;
    labels.identities().next().flatten()
}

fn no_pool() -> OpenError {
    OpenError::new(OpenErrorKind::NoPool, "no label of a pool was found")
}

/// Examines the labels of devices for the pool `guid`, or for the only pool that there is.
///
/// # Errors
/// There is no pool, more than one, or one that cannot be used; or two of the devices share an
/// identity.
pub fn examine(devices: &[LeafLabels], guid: Option<u64>) -> Result<Examined, OpenError> {
    let labels = Labels::decode(devices)?;
    if guid.is_none() {
        labels.require_one_identity(None)?;
    }
    let newest = labels.newest(guid).ok_or_else(no_pool)?;
    if guid.is_none() && labels.all().any(|label| label.pool != newest.pool) {
        let context = "the devices belong to more than one pool: name one pool";
        return Err(OpenError::new(OpenErrorKind::NoPool, context));
    }
    let mut config = PoolConfig::decode(&newest.config)?;
    // Given-up configurations may be on missing leaves, so the next one must be newer than all of
    // them.
    let of_pool = labels.all().filter(|label| label.pool == config.guid);
    let generations = of_pool.map(|label| label.generation);
    config.generation = generations.fold(config.generation, u64::max);
    let owns = labels.of_pool(config.guid);
    twins::refuse(&twins::find(devices, &owns, &config))?;
    labels.require_one_identity(Some(config.guid))?;
    let leaves: Vec<Option<u64>> = owns.iter().map(|own| own.map(|label| label.leaf)).collect();
    let found = Roots::find(devices, &leaves, &config)?;
    require_one_history(&config, &owns, &found.strays)?;
    if found.candidates.is_empty() {
        let context = "no checkpoint could be read from the labels of the devices";
        return Err(OpenError::damaged(context));
    }
    let behind = judge(&mut config, devices, &leaves, &owns, newest, &found);
    let (roots, ring) = (found.candidates, found.ring);
    // An unreadable label may hold another configuration, and may be readable another time.
    let mut is_config_new = labels.say_else(newest, &leaves) || !behind.is_empty();
    let unaccounted = unaccounted(&config, &leaves);
    let needed = needed(&config, &leaves);
    let in_use = logs_in_use(&config);
    let tops = config.tree.top_levels.iter_mut();
    for leaf in tops.flat_map(|top| top.slots.iter_mut().flat_map(|slot| &mut slot.leaves)) {
        let is_here = leaves.contains(&Some(leaf.guid));
        let was_online = leaf.state == LeafState::Online;
        // How much more the leaf missed is known at the end of the log.
        leaf.missing = missing_now(leaf);
        let returned = [LeafState::Unavailable, LeafState::Removed].contains(&leaf.state);
        if is_here && returned {
            leaf.state = LeafState::Online;
            config.unspared.remove(&leaf.guid);
            is_config_new = true;
        } else if !is_here && was_online {
            leaf.state = LeafState::Unavailable;
            is_config_new = true;
        }
    }
    let put_aside = |cache: &LeafSpec| cache.state == LeafState::Offline;
    for cache in config.caches.iter_mut().filter(|of| !put_aside(of)) {
        // A failed cache is tried again, since nothing depends on it.
        cache.state = match leaves.contains(&Some(cache.guid)) {
            true => LeafState::Online,
            false => LeafState::Unavailable,
        };
    }
    let short = fit(&mut config, &leaves, devices);
    is_config_new |= !short.is_empty();
    let missing_logs = missing_logs(&config, &in_use, roots[0].root.epoch);
    Ok(Examined {
        config,
        leaves,
        roots,
        ring,
        is_config_new,
        unaccounted,
        needed,
        behind,
        short,
        is_lone_label: found.is_lone,
        missing_logs,
        is_only_read: false,
        protection: None,
    })
}

/// Returns the leaves that were not found, if they are enough of every top-level vdev for a pool of
/// their own.
fn unaccounted(config: &PoolConfig, found: &[Option<u64>]) -> Vec<u64> {
    let mut away = Vec::new();
    let has_found =
        |leaves: &[LeafSpec]| leaves.iter().any(|leaf| found.contains(&Some(leaf.guid)));
    let tops = config.tree.top_levels.iter();
    for top in tops.filter(|top| top.kind != TopLevelKind::Hole && top.class == Class::Normal) {
        let mut slots = 0;
        for slot in &top.slots {
            let is_away = |leaf: &&LeafSpec| {
                // A leaf that left a slot, as a spare does, has labels of before that. The slot's
                // first leaf was whole then, or soon after.
                let is_stood_in_for =
                    slot.leaves[0].guid == leaf.guid && has_found(&slot.leaves[1..]);
                let may_work =
                    leaf.state == LeafState::Online && (leaf.missing.is_empty() || is_stood_in_for);
                may_work && !found.contains(&Some(leaf.guid))
            };
            let before = away.len();
            away.extend(slot.leaves.iter().filter(is_away).map(|leaf| leaf.guid));
            slots += usize::from(away.len() > before);
        }
        let needed = match top.kind {
            TopLevelKind::Mirror => 1,
            // A vdev with fewer leaves than parity is invalid, and is refused later.
            TopLevelKind::Raidz { parity } => top.slots.len().saturating_sub(parity.into()),
            TopLevelKind::Leaf | TopLevelKind::Hole => top.slots.len(),
        };
        if slots < needed {
            return Vec::new();
        }
    }
    away
}

/// Returns the missing leaves of vdevs that are whole with them and not without them. An offline
/// leaf may be one of those that were found: it is here, and is not used.
fn needed(config: &PoolConfig, found: &[Option<u64>]) -> Vec<u64> {
    let is_whole = |leaf: &LeafSpec| leaf.state == LeafState::Online && leaf.missing.is_empty();
    let is_here = |leaf: &LeafSpec| found.contains(&Some(leaf.guid));
    let mut needed = Vec::new();
    let tops = config.tree.top_levels.iter();
    for top in tops.filter(|top| top.class == Class::Normal) {
        let spare = top.kind.redundancy(top.slots.len());
        let lacking = |of: &dyn Fn(&LeafSpec) -> bool| {
            let lacks = |slot: &&SlotSpec| !slot.leaves.iter().any(of);
            top.slots.iter().filter(lacks).count()
        };
        let is_incomplete = lacking(&|leaf| is_whole(leaf) && is_here(leaf)) > spare;
        // If no leaf of a slot is here, the slot is missing, and no leaf counts as rebuilt.
        let is_there = lacking(&is_here) <= spare;
        if is_incomplete && is_there && lacking(&is_whole) <= spare {
            let leaves = top.slots.iter().flat_map(|slot| &slot.leaves);
            let away = leaves.filter(|leaf| is_whole(leaf) && !is_here(leaf));
            needed.extend(away.map(|leaf| leaf.guid));
        }
    }
    needed
}

/// Returns the leaves of log vdevs that were online: each of them has all that was promised there.
fn logs_in_use(config: &PoolConfig) -> BTreeSet<u64> {
    let logs = config.tree.top_levels.iter();
    let logs = logs.filter(|top| top.class == Class::Log);
    let leaves = logs.flat_map(|top| top.slots.iter().flat_map(|slot| &slot.leaves));
    let online = leaves.filter(|leaf| leaf.state == LeafState::Online);
    online.map(|leaf| leaf.guid).collect()
}

/// Returns the log vdevs that were in use, and of whose used leaves none is here with all copies
/// since the newest root.
fn missing_logs(config: &PoolConfig, in_use: &BTreeSet<u64>, newest: Epoch) -> Vec<MissingLog> {
    let has_all = |leaf: &LeafSpec| {
        let last = leaf.missing.ranges().last();
        leaf.state == LeafState::Online && last.is_none_or(|(_, last)| *last <= newest)
    };
    let mut missing = Vec::new();
    for (vdev, top) in (0..).zip(&config.tree.top_levels) {
        let leaves = || top.slots.iter().flat_map(|slot| &slot.leaves);
        let mut used = leaves()
            .filter(|leaf| in_use.contains(&leaf.guid))
            .peekable();
        if top.class == Class::Log && used.peek().is_some() && !used.any(has_all) {
            let leaves = leaves().map(|leaf| leaf.guid).collect();
            missing.push(MissingLog { vdev, leaves });
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vdev::{TopLevelSpec, VdevTree};

    #[test]
    fn a_raidz_of_fewer_leaves_than_parity_is_looked_at_without_harm() {
        let leaves = [LeafSpec::new(1, 64 << 20)];
        let top = TopLevelSpec::new(TopLevelKind::Raidz { parity: 2 }, Class::Normal, leaves);
        let config = PoolConfig::new(
            "tank",
            7,
            8,
            "",
            VdevTree {
                top_levels: vec![top],
            },
        );
        assert!(unaccounted(&config, &[Some(1)]).is_empty());
    }
}
