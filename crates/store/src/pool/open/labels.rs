//! What the labels of a set of devices say: which pool they are of, and which checkpoints there are.

use std::collections::BTreeSet;

use pages::Pages;

use super::super::config::PoolConfig;
use super::parted::require_one_history;
use super::{OpenError, OpenErrorKind};
use crate::format::label::{NoLabel, RING_OFFSET, RING_SLOTS};
use crate::format::{Epoch, Label, PoolKey, Root, SECTOR_SIZE};
use crate::vdev::{Class, Kind, LeafSpec, LeafState};

/// The four label copies of a device, each as it was read; empty where it could not be.
#[derive(Clone, Debug, Default)]
pub struct LeafLabels {
    /// Bytes of the device.
    pub size: u64,
    /// 256 KiB each.
    pub copies: [Pages; 4],
}

/// What labels say together.
#[derive(Clone, Debug)]
pub struct Examined {
    /// The newest configuration, with leaves that were not found put aside.
    pub config: PoolConfig,
    /// The leaf that each device is, in the order in which they were given; `None`: of another pool, or none.
    pub leaves: Vec<Option<u64>>,
    /// Checkpoints, newest first.
    pub roots: Vec<Candidate>,
    /// Whether labels have to be written again: some say something else.
    pub is_config_new: bool,
    /// The guids of leaves that were not found and that, for all that these labels know, may have been used
    /// without those that were: then changes that were acknowledged are on them only. Empty where that
    /// cannot be, since a leaf that was found would have had to take part and its label would say so. Who
    /// opens the pool nevertheless must be told.
    pub unaccounted: Vec<u64>,
    /// Log vdevs that were in use and of which no leaf is there that has all.
    pub missing_logs: Vec<MissingLog>,
}

/// A log vdev that is away. Durable writes that had not reached the chain may be there, and nowhere else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingLog {
    /// Its number.
    pub vdev: u16,
    /// The guids of its leaves.
    pub leaves: Vec<u64>,
}

impl Examined {
    /// Refuses to go on without log vdevs that may matter.
    pub(super) fn require_logs(&self) -> Result<(), OpenError> {
        let Some(log) = self.missing_logs.first() else {
            return Ok(());
        };
        let leaves: Vec<String> = log.leaves.iter().map(|of| format!("{of:016x}")).collect();
        let loss = match self.config.is_exported {
            true => "it was exported in order, so nothing is lost without it",
            false => {
                "without it, durable writes of the last moments before the pool was last used may be lost"
            }
        };
        let context = format!("its log device is missing ({}): {loss}", leaves.join(", "));
        Err(OpenError::new(OpenErrorKind::LogMissing, context))
    }

    /// Gives up the log vdevs that are away, with what is there and nowhere else; returns them.
    pub fn drop_missing_logs(&mut self) -> Vec<MissingLog> {
        let dropped = std::mem::take(&mut self.missing_logs);
        for log in &dropped {
            if let Some(top) = self.config.tree.top_levels.get_mut(usize::from(log.vdev)) {
                (top.kind, top.leaf_sectors) = (Kind::Hole, Some(0));
                top.slots.clear();
                self.is_config_new = true;
            }
        }
        dropped
    }
}

/// A checkpoint that a pool may be opened at.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its root.
    pub root: Root,
    /// How many equal copies there are.
    pub copies: u32,
}

/// Looks at the labels of devices for the pool `guid`, or for the only one that there is.
///
/// # Errors
/// There is none, more than one, or one that cannot be used.
pub fn examine(devices: &[LeafLabels], guid: Option<u64>) -> Result<Examined, OpenError> {
    let labels: Vec<Vec<Label>> = devices.iter().map(decode).collect::<Result<_, _>>()?;
    let newest = labels
        .iter()
        .flatten()
        .filter(|label| guid.is_none_or(|guid| label.pool == guid))
        .max_by_key(|label| label.generation)
        .ok_or_else(|| OpenError::new(OpenErrorKind::NoPool, "no label of a pool was found"))?;
    let others = labels
        .iter()
        .flatten()
        .find(|label| label.pool != newest.pool);
    if guid.is_none() && others.is_some() {
        let context = "the devices belong to more than one pool: say which";
        return Err(OpenError::new(OpenErrorKind::NoPool, context));
    }
    let mut config = PoolConfig::decode(&newest.config)?;
    let leaves: Vec<Option<u64>> = labels
        .iter()
        .map(|copies| {
            let own = copies.iter().filter(|label| label.pool == config.guid);
            own.max_by_key(|label| label.generation)
                .map(|label| label.leaf)
        })
        .collect();
    let Roots {
        candidates: roots,
        last_seen,
        clashing,
    } = roots(devices, &leaves, &config)?;
    require_one_history(&config, &labels, &last_seen, &clashing)?;
    if roots.is_empty() {
        let context = "the labels hold no checkpoint of which there are two equal copies";
        return Err(OpenError::damaged(context));
    }
    let generation = config.generation;
    let is_old = |label: &Label| label.pool == config.guid && label.generation < generation;
    let mut is_config_new = labels.iter().flatten().any(is_old);
    let unaccounted = unaccounted(&config, &leaves);
    let in_use = logs_in_use(&config);
    let tops = config.tree.top_levels.iter_mut();
    for leaf in tops.flat_map(|top| top.slots.iter_mut().flat_map(|slot| &mut slot.leaves)) {
        let is_here = leaves.contains(&Some(leaf.guid));
        let was_online = leaf.state == LeafState::Online;
        // It was away when this was written, and missed more since: the labels are written when leaves come
        // and go, not with each epoch. How much more is known at the end of the log.
        if !was_online && let Some((first, _)) = leaf.missing.ranges().last() {
            leaf.missing.add_since(*first);
        }
        // That its newest root is an old one says nothing: power fails while roots are written. What it missed,
        // the configuration says (`pool/labels.rs`).
        let returned = [LeafState::Unavailable, LeafState::Removed].contains(&leaf.state);
        if is_here && returned {
            leaf.state = LeafState::Online;
            is_config_new = true;
        } else if !is_here && was_online {
            leaf.state = LeafState::Unavailable;
            is_config_new = true;
        }
    }
    for cache in &mut config.caches {
        // One that failed is tried again: nothing depends on it.
        cache.state = match leaves.contains(&Some(cache.guid)) {
            true => LeafState::Online,
            false => LeafState::Unavailable,
        };
    }
    let missing_logs = missing_logs(&config, &in_use, roots[0].root.epoch);
    Ok(Examined {
        config,
        leaves,
        roots,
        is_config_new,
        unaccounted,
        missing_logs,
    })
}

/// The leaves that were not found, if they are enough of every top-level vdev for a pool of their own.
fn unaccounted(config: &PoolConfig, found: &[Option<u64>]) -> Vec<u64> {
    let mut away = Vec::new();
    let tops = config.tree.top_levels.iter();
    for top in tops.filter(|top| top.kind != Kind::Hole && top.class == Class::Normal) {
        let mut slots = 0;
        for slot in &top.slots {
            let is_away = |leaf: &&LeafSpec| {
                let may_work = leaf.state == LeafState::Online && leaf.missing.is_empty();
                may_work && !found.contains(&Some(leaf.guid))
            };
            let before = away.len();
            away.extend(slot.leaves.iter().filter(is_away).map(|leaf| leaf.guid));
            slots += usize::from(away.len() > before);
        }
        let needed = match top.kind {
            Kind::Mirror => 1,
            Kind::Raidz { parity } => top.slots.len() - usize::from(parity),
            Kind::Leaf | Kind::Hole => top.slots.len(),
        };
        if slots < needed {
            return Vec::new();
        }
    }
    away
}

/// The leaves of log vdevs that were online: what was promised there is on each of them.
fn logs_in_use(config: &PoolConfig) -> BTreeSet<u64> {
    let logs = config.tree.top_levels.iter();
    let logs = logs.filter(|top| top.class == Class::Log);
    let leaves = logs.flat_map(|top| top.slots.iter().flat_map(|slot| &slot.leaves));
    let online = leaves.filter(|leaf| leaf.state == LeafState::Online);
    online.map(|leaf| leaf.guid).collect()
}

/// Log vdevs of which leaves were in use, and none of these is there and has all since the newest root.
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

/// The labels on a device that can be read.
fn decode(device: &LeafLabels) -> Result<Vec<Label>, OpenError> {
    let mut labels = Vec::new();
    for copy in &device.copies {
        match Label::read(copy) {
            Ok(label) => labels.push(label),
            Err(NoLabel::Absent | NoLabel::Damaged) => {}
            Err(NoLabel::Later(version)) => return Err(OpenError::later("a label", version)),
        }
    }
    Ok(labels)
}

/// The roots in the label rings.
struct Roots {
    /// Those of which there are two equal copies, newest first.
    candidates: Vec<Candidate>,
    /// The newest epoch on each device.
    last_seen: Vec<Option<Epoch>>,
    /// Epochs of which there are two candidates.
    clashing: BTreeSet<Epoch>,
}

fn roots(
    devices: &[LeafLabels],
    leaves: &[Option<u64>],
    config: &PoolConfig,
) -> Result<Roots, OpenError> {
    // Nearly all sectors of a slot are equal: each content is looked at once.
    let mut slots: Vec<Vec<Sector>> = vec![Vec::new(); RING_SLOTS as usize];
    let mut last_seen = Vec::new();
    // On cache vdevs there are none of this time.
    let has_roots = |leaf: u64| config.caches.iter().all(|cache| cache.guid != leaf);
    for (device, leaf) in devices.iter().zip(leaves) {
        let mut last = None;
        let is_asked = leaf.is_some_and(has_roots);
        for copy in device.copies.iter().filter(|_| is_asked) {
            for (number, slot) in slots.iter_mut().enumerate() {
                let start = RING_OFFSET + number * SECTOR_SIZE;
                if copy.len() >= start + SECTOR_SIZE {
                    let sector = copy.slice(start..start + SECTOR_SIZE);
                    last = last.max(Sector::count(slot, sector, config.key()));
                }
            }
        }
        last_seen.push(last);
    }
    let mut sectors = slots.iter().flatten();
    let later = sectors.find_map(|sector| Root::later_version(&sector.bytes, config.key()));
    if let Some(version) = later {
        return Err(OpenError::later("a checkpoint", version));
    }
    let found = slots.into_iter().flatten();
    let mut found: Vec<Candidate> = found
        .filter_map(|sector| {
            let (root, copies) = (sector.root?, sector.copies);
            Some(Candidate { root, copies })
        })
        .collect();
    found.retain(|candidate| candidate.copies >= 2);
    found.sort_by_key(|candidate| std::cmp::Reverse(candidate.root.epoch));
    let pairs = found.windows(2);
    let clashing = pairs.filter(|pair| pair[0].root.epoch == pair[1].root.epoch);
    let clashing = clashing.map(|pair| pair[0].root.epoch).collect();
    Ok(Roots {
        candidates: found,
        last_seen,
        clashing,
    })
}

/// What lies in a sector of rings, and in how many of them.
#[derive(Clone)]
struct Sector {
    bytes: Vec<u8>,
    root: Option<Root>,
    copies: u32,
}

impl Sector {
    /// Counts what lies in a slot's sector once more; the epoch of its root.
    fn count(slot: &mut Vec<Self>, sector: Pages, key: PoolKey) -> Option<Epoch> {
        let is_equal = |known: &&mut Self| {
            let mut at = 0;
            sector.chunks().all(|chunk| {
                at += chunk.len();
                known.bytes[at - chunk.len()..at] == *chunk
            })
        };
        if let Some(known) = slot.iter_mut().find(is_equal) {
            known.copies += 1;
            return Some(known.root.as_ref()?.epoch);
        }
        let bytes = sector.to_vec();
        let root = Root::decode(&bytes, key);
        let epoch = root.as_ref().map(|root| root.epoch);
        let copies = 1;
        slot.push(Self {
            bytes,
            root,
            copies,
        });
        epoch
    }
}
