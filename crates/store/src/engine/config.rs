//! Configuration of a pool as its labels keep it, in JSON: its identity, its vdevs and its
//! settings.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::features::{Features, StoredFeatures};
use super::open::error::{OpenError, OpenErrorKind};
use super::properties::PoolProperties;
use crate::format::{Epoch, PoolKey};
use crate::vdev::{
    Class, Dtl, LeafSpec, LeafState, SlotKind, SlotSpec, TopLevelKind, TopLevelSpec, VdevTree,
    layout,
};

/// Identity, vdevs and settings of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// Name of the pool.
    pub name: String,
    /// Guid of the pool, random.
    pub guid: u64,
    /// Guid that the pool's roots and records carry; `None` if it is `guid`. A pool made of a copy
    /// still carries the guid of the pool that it was copied from (`open/reguid.rs`).
    pub key_guid: Option<u64>,
    /// Random key of the pool's records. Only the labels have it.
    pub secret: u64,
    /// Number that grows with every change.
    pub generation: u64,
    /// Whether the pool was exported, so that any host may import it.
    pub is_exported: bool,
    /// Host that has the pool open, or had it last.
    pub host: String,
    /// Vdevs of the pool.
    pub tree: VdevTree,
    /// Spares, both available and in use.
    pub spares: Vec<LeafSpec>,
    /// Last known paths of the devices of leaves and spares, by their guids. They only tell users
    /// which device is missing.
    pub paths: BTreeMap<u64, String>,
    /// Cache vdevs.
    pub caches: Vec<LeafSpec>,
    /// Guids of broken leaves whose spare an administrator detached. No spare replaces them by
    /// itself.
    pub unspared: BTreeSet<u64>,
    /// Features of the format that the pool uses, or may use.
    pub features: Features,
    /// Properties that administrators have set.
    pub properties: PoolProperties,
}

impl PoolConfig {
    /// Makes the configuration of a new pool. `guid` and `secret` are random, and `host` has the
    /// pool open.
    pub fn new(name: &str, guid: u64, secret: u64, host: &str, tree: VdevTree) -> Self {
        Self {
            name: name.to_owned(),
            guid,
            key_guid: None,
            secret,
            generation: 0,
            is_exported: false,
            host: host.to_owned(),
            tree,
            spares: Vec::new(),
            paths: BTreeMap::new(),
            caches: Vec::new(),
            unspared: BTreeSet::new(),
            features: Features::of_new_pool(),
            properties: PoolProperties::default(),
        }
    }

    /// Returns the key that proves records and roots.
    pub fn key(&self) -> PoolKey {
        PoolKey {
            guid: self.key_guid.unwrap_or(self.guid),
            secret: self.secret,
        }
    }

    /// Returns all leaves of the vdevs, the spares and the caches.
    pub fn all_leaves(&self) -> impl Iterator<Item = &LeafSpec> {
        let slots = self.tree.top_levels.iter().flat_map(|top| &top.slots);
        let leaves = slots.flat_map(|slot| &slot.leaves);
        leaves.chain(&self.spares).chain(&self.caches)
    }

    /// Reports whether a leaf, spare or cache of this guid belongs to the pool.
    pub fn lists(&self, guid: u64) -> bool {
        self.all_leaves().any(|leaf| leaf.guid == guid)
    }

    /// Returns the places of a leaf's inner labels, in bytes: of the first round and of the second.
    /// `None` if the leaf has none.
    pub fn inner_offsets(&self, leaf: u64) -> Option<[u64; 2]> {
        let has_it = |top: &&TopLevelSpec| {
            let mut leaves = top.slots.iter().flat_map(|slot| &slot.leaves);
            leaves.any(|own| own.guid == leaf)
        };
        let top = self.tree.top_levels.iter().find(has_it)?;
        Some(top.inner_labels?.map(layout::sector_offset))
    }

    /// Encodes the configuration for labels.
    pub fn encode(&self) -> Vec<u8> {
        let stored = Stored {
            name: self.name.clone(),
            guid: format!("{:016x}", self.guid),
            key_guid: self.key_guid.map(|guid| format!("{guid:016x}")),
            secret: format!("{:016x}", self.secret),
            generation: self.generation,
            is_exported: self.is_exported,
            host: self.host.clone(),
            vdevs: self.tree.top_levels.iter().map(StoredTop::from).collect(),
            spares: self.spares.iter().map(StoredLeaf::from).collect(),
            paths: self
                .paths
                .iter()
                .map(|(guid, path)| (format!("{guid:016x}"), path.clone()))
                .collect(),
            caches: self.caches.iter().map(StoredLeaf::from).collect(),
            unspared: self
                .unspared
                .iter()
                .map(|of| format!("{of:016x}"))
                .collect(),
            features: StoredFeatures::from(&self.features),
            other: BTreeMap::new(),
            properties: self.properties.stored(),
        };
        serde_json::to_vec(&stored).expect("it is made of numbers, texts and lists of these")
    }

    /// Decodes the configuration of a label.
    ///
    /// # Errors
    /// It is no configuration of this version, or names a format feature that this program lacks.
    pub fn decode(bytes: &[u8]) -> Result<Self, OpenError> {
        let unreadable = |error: serde_json::Error| {
            let context = format!("a label's configuration cannot be read: {error}");
            OpenError::new(OpenErrorKind::Damaged, context)
        };
        // Features come first: if one is unknown, the rest need not be understood.
        let needs: Needs = serde_json::from_slice(bytes).map_err(unreadable)?;
        let features = needs.features.open(&needs.name)?;
        let stored: Stored = serde_json::from_slice(bytes).map_err(unreadable)?;
        if let Some(field) = stored.other.keys().next()
            && features.unknown_to_write().next().is_none()
        {
            let unknown = format!("unknown field `{field}`");
            return Err(unreadable(serde::de::Error::custom(unknown)));
        }
        let number = |text: &str| {
            u64::from_str_radix(text, 16).map_err(|_| {
                let context = format!("'{text}' in a label is not a number");
                OpenError::new(OpenErrorKind::Damaged, context)
            })
        };
        let spares = stored.spares.into_iter().map(|spare| spare.open(&number));
        let spares = spares.collect::<Result<_, _>>()?;
        let paths = stored.paths.into_iter();
        let paths = paths.map(|(guid, path)| Ok((number(&guid)?, path)));
        let paths = paths.collect::<Result<_, OpenError>>()?;
        let caches = stored.caches.into_iter().map(|cache| cache.open(&number));
        let caches = caches.collect::<Result<_, _>>()?;
        let unspared = stored.unspared.iter().map(|guid| number(guid));
        let unspared = unspared.collect::<Result<_, _>>()?;
        let properties = PoolProperties::open(&stored.properties)?;
        let tops = stored.vdevs.into_iter().map(|top| top.open(&number));
        Ok(Self {
            guid: number(&stored.guid)?,
            key_guid: stored.key_guid.as_deref().map(number).transpose()?,
            secret: number(&stored.secret)?,
            name: stored.name,
            generation: stored.generation,
            is_exported: stored.is_exported,
            host: stored.host,
            tree: VdevTree {
                top_levels: tops.collect::<Result<_, _>>()?,
            },
            spares,
            paths,
            caches,
            unspared,
            features,
            properties,
        })
    }
}

/// Part of a configuration that every program understands.
#[derive(Deserialize)]
struct Needs {
    name: String,
    #[serde(default)]
    features: StoredFeatures,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    name: String,
    guid: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key_guid: Option<String>,
    secret: String,
    generation: u64,
    is_exported: bool,
    host: String,
    vdevs: Vec<StoredTop>,
    spares: Vec<StoredLeaf>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    paths: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    caches: Vec<StoredLeaf>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unspared: Vec<String>,
    #[serde(default, skip_serializing_if = "StoredFeatures::is_empty")]
    features: StoredFeatures,
    /// Fields of other programs. A feature that only writers need may have added some.
    #[serde(flatten, skip_serializing)]
    other: BTreeMap<String, serde::de::IgnoredAny>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    properties: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredTop {
    kind: StoredKind,
    is_log: bool,
    /// Sectors used of each leaf.
    leaf_sectors: Option<u64>,
    /// First sectors of the inner labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inner_labels: Option<[u64; 2]>,
    slots: Vec<StoredSlot>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredKind {
    Leaf,
    Mirror,
    Raidz1,
    Raidz2,
    Raidz3,
    Hole,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredSlot {
    kind: StoredSlotKind,
    leaves: Vec<StoredLeaf>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredSlotKind {
    Single,
    Replacing,
    Spare,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredLeaf {
    guid: String,
    size: u64,
    state: StoredState,
    /// First and last epoch of each run that the leaf missed.
    missing: Vec<(u64, u64)>,
    #[serde(default, skip_serializing_if = "is_zero")]
    joined: u64,
}

/// Reports whether the leaf joined together with its vdev.
fn is_zero(joined: &u64) -> bool {
    *joined == 0
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredState {
    Online,
    Offline,
    Faulted,
    Unavailable,
    Removed,
    Detached,
}

impl From<&TopLevelSpec> for StoredTop {
    fn from(top: &TopLevelSpec) -> Self {
        Self {
            kind: match top.kind {
                TopLevelKind::Leaf => StoredKind::Leaf,
                TopLevelKind::Mirror => StoredKind::Mirror,
                TopLevelKind::Raidz { parity: 1 } => StoredKind::Raidz1,
                TopLevelKind::Raidz { parity: 2 } => StoredKind::Raidz2,
                TopLevelKind::Raidz { .. } => StoredKind::Raidz3,
                TopLevelKind::Hole => StoredKind::Hole,
            },
            is_log: top.class == Class::Log,
            leaf_sectors: top.leaf_sectors,
            inner_labels: top.inner_labels,
            slots: top.slots.iter().map(StoredSlot::from).collect(),
        }
    }
}

impl From<&SlotSpec> for StoredSlot {
    fn from(slot: &SlotSpec) -> Self {
        Self {
            kind: match slot.kind {
                SlotKind::Single => StoredSlotKind::Single,
                SlotKind::Replacing => StoredSlotKind::Replacing,
                SlotKind::Spare => StoredSlotKind::Spare,
            },
            leaves: slot.leaves.iter().map(StoredLeaf::from).collect(),
        }
    }
}

impl From<&LeafSpec> for StoredLeaf {
    fn from(leaf: &LeafSpec) -> Self {
        let missing = leaf.missing.ranges().iter();
        Self {
            guid: format!("{:016x}", leaf.guid),
            size: leaf.size,
            state: match leaf.state {
                LeafState::Online => StoredState::Online,
                LeafState::Offline => StoredState::Offline,
                LeafState::Faulted => StoredState::Faulted,
                LeafState::Unavailable => StoredState::Unavailable,
                LeafState::Removed => StoredState::Removed,
                LeafState::Detached => StoredState::Detached,
            },
            missing: missing.map(|(first, last)| (first.0, last.0)).collect(),
            joined: leaf.joined.0,
        }
    }
}

impl StoredTop {
    fn open(
        self,
        number: &impl Fn(&str) -> Result<u64, OpenError>,
    ) -> Result<TopLevelSpec, OpenError> {
        let kind = match self.kind {
            StoredKind::Leaf => TopLevelKind::Leaf,
            StoredKind::Mirror => TopLevelKind::Mirror,
            StoredKind::Raidz1 => TopLevelKind::Raidz { parity: 1 },
            StoredKind::Raidz2 => TopLevelKind::Raidz { parity: 2 },
            StoredKind::Raidz3 => TopLevelKind::Raidz { parity: 3 },
            StoredKind::Hole => TopLevelKind::Hole,
        };
        let slots = self.slots.into_iter().map(|slot| {
            let leaves = slot.leaves.into_iter().map(|leaf| leaf.open(number));
            Ok(SlotSpec {
                kind: match slot.kind {
                    StoredSlotKind::Single => SlotKind::Single,
                    StoredSlotKind::Replacing => SlotKind::Replacing,
                    StoredSlotKind::Spare => SlotKind::Spare,
                },
                leaves: leaves.collect::<Result<_, _>>()?,
            })
        });
        Ok(TopLevelSpec {
            kind,
            class: if self.is_log {
                Class::Log
            } else {
                Class::Normal
            },
            leaf_sectors: self.leaf_sectors,
            inner_labels: self.inner_labels,
            slots: slots.collect::<Result<_, _>>()?,
        })
    }
}

impl StoredLeaf {
    fn open(self, number: &impl Fn(&str) -> Result<u64, OpenError>) -> Result<LeafSpec, OpenError> {
        let missing = self.missing.into_iter();
        Ok(LeafSpec {
            guid: number(&self.guid)?,
            size: self.size,
            state: match self.state {
                StoredState::Online => LeafState::Online,
                StoredState::Offline => LeafState::Offline,
                StoredState::Faulted => LeafState::Faulted,
                StoredState::Unavailable => LeafState::Unavailable,
                StoredState::Removed => LeafState::Removed,
                StoredState::Detached => LeafState::Detached,
            },
            missing: Dtl::from_ranges(missing.map(|(first, last)| (Epoch(first), Epoch(last)))),
            joined: Epoch(self.joined),
        })
    }
}
