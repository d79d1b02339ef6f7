//! What the labels of a set of devices say: which pool they are of, and which checkpoints there are.

use std::collections::BTreeSet;

use pages::Pages;

use super::super::config::PoolConfig;
use super::{OpenError, OpenErrorKind};
use crate::format::label::{NoLabel, RING_OFFSET, RING_SLOTS};
use crate::format::{Epoch, Label, PoolKey, Root, SECTOR_SIZE};
use crate::vdev::LeafState;

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
    let (roots, last_seen, seen) = roots(devices, &leaves, &config);
    let Some(newest_root) = roots.first() else {
        let context = "the labels hold no checkpoint of which there are two equal copies";
        return Err(OpenError::damaged(context));
    };
    let newest_epoch = newest_root.root.epoch;
    let before = seen.range(..newest_epoch).next_back().copied();
    let generation = config.generation;
    let is_old = |label: &Label| label.pool == config.guid && label.generation < generation;
    let mut is_config_new = labels.iter().flatten().any(is_old);
    let tops = config.tree.top_levels.iter_mut();
    for leaf in tops.flat_map(|top| top.slots.iter_mut().flat_map(|slot| &mut slot.leaves)) {
        let position = leaves.iter().position(|found| *found == Some(leaf.guid));
        match position {
            None if leaf.state == LeafState::Online => {
                leaf.state = LeafState::Unavailable;
                is_config_new = true;
            }
            None => {}
            Some(position) => {
                let was_online = leaf.state == LeafState::Online;
                if leaf.state == LeafState::Unavailable || leaf.state == LeafState::Removed {
                    leaf.state = LeafState::Online;
                    is_config_new = true;
                }
                // It was away while others went on: what was written meanwhile is not on it. Not so where
                // the power failed when only some had got the newest root: all that were online had all
                // that it leads to.
                let last = last_seen[position].unwrap_or(Epoch(0));
                let is_just_behind = was_online && Some(last) == before;
                if last < newest_root.root.epoch && !is_just_behind {
                    leaf.missing.add(last.next(), newest_root.root.epoch.next());
                }
            }
        }
    }
    Ok(Examined {
        config,
        leaves,
        roots,
        is_config_new,
    })
}

/// The labels on a device that can be read.
fn decode(device: &LeafLabels) -> Result<Vec<Label>, OpenError> {
    let mut labels = Vec::new();
    for copy in &device.copies {
        match Label::read(copy) {
            Ok(label) => labels.push(label),
            Err(NoLabel::Absent | NoLabel::Damaged) => {}
            Err(NoLabel::Later(version)) => {
                let context =
                    format!("a label has version {version}, which this program does not know");
                return Err(OpenError::new(OpenErrorKind::Version, context));
            }
        }
    }
    Ok(labels)
}

/// The roots of which there are two equal copies, newest first; the newest epoch on each device; and all
/// epochs.
fn roots(
    devices: &[LeafLabels],
    leaves: &[Option<u64>],
    config: &PoolConfig,
) -> (Vec<Candidate>, Vec<Option<Epoch>>, BTreeSet<Epoch>) {
    // Nearly all sectors of a slot are equal: each content is looked at once.
    let mut slots: Vec<Vec<Sector>> = vec![Vec::new(); RING_SLOTS as usize];
    let mut last_seen = Vec::new();
    for (device, leaf) in devices.iter().zip(leaves) {
        let mut last = None;
        for copy in device.copies.iter().filter(|_| leaf.is_some()) {
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
    let found = slots.into_iter().flatten();
    let mut found: Vec<Candidate> = found
        .filter_map(|sector| {
            let (root, copies) = (sector.root?, sector.copies);
            Some(Candidate { root, copies })
        })
        .collect();
    let seen = found.iter().map(|candidate| candidate.root.epoch).collect();
    found.retain(|candidate| candidate.copies >= 2);
    found.sort_by_key(|candidate| std::cmp::Reverse(candidate.root.epoch));
    (found, last_seen, seen)
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
