//! Twins: devices that carry the label of one and the same leaf.
//!
//! `dd`, `cp`, a snapshot of the volume or array below, and the clone of a virtual machine all copy
//! labels with the rest. Each of the two devices is whole and right by itself, and no label can
//! tell which of them the administrator wants. An opening that took either would read from one
//! history and write into another. So nothing here chooses: it reports what each device holds.

use std::collections::BTreeMap;
use std::fmt;

use super::super::config::PoolConfig;
use super::error::{OpenError, OpenErrorKind};
use crate::engine::open::leaf_labels::LeafLabels;
use crate::format::label::{RING_OFFSET, RING_SLOTS};
use crate::format::{Epoch, Label, PoolKey, Root, SECTOR_SIZE};

/// Devices that share the identity of one leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Twins {
    /// Guid of the leaf.
    pub leaf: u64,
    /// Devices, in the order in which they were given.
    pub devices: Vec<Twin>,
    /// Relation of the devices to one another.
    pub standing: Standing,
}

/// One of the twins, and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Twin {
    /// Number of the device among those that were given.
    pub device: usize,
    /// Size of the device in bytes.
    pub size: u64,
    /// Generation of the configuration that counts on the device.
    pub generation: u64,
    /// Epoch of the device's newest root, and the time at which it was made, in seconds since 1970.
    /// `None` if it has no root, as spares and caches.
    pub newest: Option<(Epoch, u64)>,
    /// Whether the device's labels say that the pool was exported.
    pub is_exported: bool,
    /// Host that had the device last by its labels.
    pub host: String,
}

/// Relation of twins, as far as labels tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// All labels are equal. Changes since the last checkpoint may differ.
    Alike,
    /// The device of this number has the checkpoints of the others, and later ones.
    Newest(usize),
    /// Each device has data that the others lack: they were used without each other.
    Parted,
}

/// Statements of one device's labels.
struct Voice<'a> {
    label: &'a Label,
    /// Roots of which the device holds two equal copies.
    roots: BTreeMap<Epoch, (Vec<u8>, u64)>,
}

impl Voice<'_> {
    fn newest(&self) -> Option<(Epoch, &[u8])> {
        let (epoch, (bytes, _)) = self.roots.last_key_value()?;
        Some((*epoch, bytes))
    }

    /// Reports whether everything on this device is the past or present of what is on the other
    /// one.
    fn leads_to(&self, other: &Self) -> bool {
        let is_same = self.label.config == other.label.config;
        let is_before = self.label.generation < other.label.generation;
        let Some((epoch, bytes)) = self.newest() else {
            return is_before || is_same;
        };
        let oldest = other.roots.keys().next();
        let is_behind_the_ring = oldest.is_some_and(|oldest| epoch < *oldest);
        let is_known = other.roots.get(&epoch).is_some_and(|of| of.0 == bytes);
        (is_before || is_same) && (is_behind_the_ring || is_known)
    }
}

/// Finds the twins among devices. `owns` is the label that counts on each of them. Devices that the
/// configuration does not know are left out, since nothing uses them.
pub(super) fn find(
    devices: &[LeafLabels],
    owns: &[Option<&Label>],
    config: &PoolConfig,
) -> Vec<Twins> {
    let mut by_leaf: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (device, own) in owns.iter().enumerate() {
        let leaf = own.map(|label| label.leaf);
        if let Some(leaf) = leaf.filter(|leaf| config.lists(*leaf)) {
            by_leaf.entry(leaf).or_default().push(device);
        }
    }
    by_leaf.retain(|_, shared| shared.len() > 1);
    let of_leaf = |(leaf, shared): (u64, Vec<usize>)| {
        let voice = |device: &usize| {
            let label = owns[*device]?;
            let roots = roots(&devices[*device], config.key());
            Some((*device, Voice { label, roots }))
        };
        let voices: Vec<(usize, Voice<'_>)> = shared.iter().filter_map(voice).collect();
        let twin = |(device, voice): &(usize, Voice<'_>)| Twin {
            size: devices[*device].size,
            ..twin(*device, voice)
        };
        Twins {
            leaf,
            devices: voices.iter().map(twin).collect(),
            standing: standing(&voices),
        }
    };
    by_leaf.into_iter().map(of_leaf).collect()
}

/// Refuses devices that share an identity.
pub(super) fn refuse(twins: &[Twins]) -> Result<(), OpenError> {
    let told: Vec<String> = twins.iter().map(Twins::to_string).collect();
    match told.is_empty() {
        true => Ok(()),
        false => Err(OpenError::new(OpenErrorKind::Twins, told.join("; "))),
    }
}

impl fmt::Display for Twins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = self.devices.iter().map(|twin| twin.device.to_string());
        let numbers: Vec<String> = numbers.collect();
        write!(
            f,
            "devices {} are all leaf {:016x}: they are copies of one another",
            numbers.join(", "),
            self.leaf
        )
    }
}

fn twin(device: usize, voice: &Voice<'_>) -> Twin {
    let config = PoolConfig::decode(&voice.label.config);
    let newest = voice.roots.last_key_value();
    Twin {
        device,
        size: 0,
        generation: voice.label.generation,
        newest: newest.map(|(epoch, (_, time_s))| (*epoch, *time_s)),
        is_exported: config.as_ref().is_ok_and(|config| config.is_exported),
        host: config.map(|config| config.host).unwrap_or_default(),
    }
}

fn standing(voices: &[(usize, Voice<'_>)]) -> Standing {
    let is_newest = |newest: &&(usize, Voice<'_>)| {
        let mut others = voices.iter();
        others.all(|(_, other)| other.leads_to(&newest.1))
    };
    let newest: Vec<usize> = voices.iter().filter(is_newest).map(|of| of.0).collect();
    match newest[..] {
        [] => Standing::Parted,
        [one] => Standing::Newest(one),
        // If several all lead to one another, the rest may still be older.
        [first, ..] if newest.len() < voices.len() => Standing::Newest(first),
        _ => Standing::Alike,
    }
}

/// Returns the roots of which a device holds two equal copies, and the times at which they were
/// made.
fn roots(device: &LeafLabels, key: PoolKey) -> BTreeMap<Epoch, (Vec<u8>, u64)> {
    let mut seen: Vec<Vec<u8>> = Vec::new();
    let mut twice = BTreeMap::new();
    for slot in 0..RING_SLOTS as usize {
        let start = RING_OFFSET + slot * SECTOR_SIZE;
        seen.clear();
        for copy in &device.copies {
            if copy.len() < start + SECTOR_SIZE {
                continue;
            }
            let bytes = copy.slice(start..start + SECTOR_SIZE).to_vec();
            if seen.contains(&bytes)
                && let Some(root) = Root::decode(&bytes, key)
            {
                twice.insert(root.epoch, (bytes, root.time_s));
            } else {
                seen.push(bytes);
            }
        }
    }
    twice
}

#[cfg(test)]
mod tests {
    use pages::Pages;

    use super::*;
    use crate::format::Address;
    use crate::format::label::LABEL_SIZE;

    const KEY: PoolKey = PoolKey { guid: 7, secret: 8 };

    /// Makes labels with roots of these epochs, each made in a history of the given number.
    fn ring(epochs: &[(u64, u64)]) -> LeafLabels {
        let mut bytes = vec![0; LABEL_SIZE];
        for (epoch, history) in epochs {
            let root = Root {
                epoch: Epoch(*epoch),
                time_s: *history,
                seq: 0,
                log: Address::default(),
                previous: 0,
                manifest_len: 0,
                manifest: Vec::new(),
            };
            let at = Label::slot_offset(*epoch) as usize;
            bytes[at..at + SECTOR_SIZE].copy_from_slice(&root.encode(KEY));
        }
        let pages = Pages::from_bytes(&bytes);
        LeafLabels {
            size: 1 << 30,
            copies: [pages.clone(), Pages::new(), pages, Pages::new()],
        }
    }

    fn stand(devices: &[(u64, &[(u64, u64)])]) -> Standing {
        let label = |(generation, _): &(u64, &[(u64, u64)])| Label {
            pool: 7,
            leaf: 1,
            generation: *generation,
            config: generation.to_string().into_bytes(),
        };
        let labels: Vec<Label> = devices.iter().map(label).collect();
        let voices = devices.iter().zip(&labels).enumerate();
        let voices: Vec<(usize, Voice<'_>)> = voices
            .map(|(number, ((_, epochs), label))| {
                let roots = roots(&ring(epochs), KEY);
                (number, Voice { label, roots })
            })
            .collect();
        standing(&voices)
    }

    #[test]
    fn the_newer_one_goes_on_where_the_other_ends() {
        let (old, new): (&[_], &[_]) = (&[(4, 0), (5, 0)], &[(4, 0), (5, 0), (6, 0)]);
        assert_eq!(stand(&[(3, old), (3, new)]), Standing::Newest(1));
        assert_eq!(stand(&[(4, new), (3, old)]), Standing::Newest(0));
        assert_eq!(stand(&[(3, old), (4, old)]), Standing::Newest(1));
        assert_eq!(stand(&[(3, old), (3, old)]), Standing::Alike);
        assert_eq!(stand(&[(3, new), (3, old), (3, new)]), Standing::Newest(0));
        // The ring of the newer device reaches back only 32 checkpoints.
        assert_eq!(stand(&[(3, old), (9, &[(60, 0)])]), Standing::Newest(1));
    }

    #[test]
    fn those_that_went_on_without_each_other_are_parted() {
        let (one, other): (&[_], &[_]) = (&[(4, 0), (5, 1)], &[(4, 0), (5, 2)]);
        assert_eq!(stand(&[(3, one), (3, other)]), Standing::Parted);
        assert_eq!(
            stand(&[(3, one), (4, &[(4, 0), (5, 2), (6, 2)])]),
            Standing::Parted
        );
        // One device has newer labels, the other a newer checkpoint.
        assert_eq!(stand(&[(5, &[(4, 0)]), (4, other)]), Standing::Parted);
    }

    #[test]
    fn without_roots_the_generation_tells() {
        assert_eq!(stand(&[(0, &[]), (0, &[])]), Standing::Alike);
        assert_eq!(stand(&[(2, &[]), (0, &[])]), Standing::Newest(0));
    }
}
