//! `pool reguid`: makes a pool of its own from a copy of a pool's devices.
//!
//! The pool and all its leaves get new guids, and perhaps a new name. Roots and records are keyed
//! with the old guid and the secret. So the configuration remembers the old guid as `key_guid`. It
//! also names the feature `reguid` as needed, since a program that does not know the field finds no
//! root. So nothing but the configuration in labels is written, and the copy keeps its checkpoints,
//! its log and every block where they are.
//!
//! A leaf's new guid is a hash of the new pool guid and the leaf's old guid. If a device has labels
//! of two pools, this tells an interrupted change from a device that moved between pools.
//!
//! The order that matters:
//! 1. the first and third label of every named device are written, and all these devices are
//!    flushed;
//! 2. the second and fourth label of every named device are written, and all are flushed.
//!
//! A power cut before 1 is durable leaves devices with old labels, and some with labels of both
//! identities. A power cut after that leaves the new identity on every device, and also the old one
//! on some. A device with both opens under neither identity ([`OpenErrorKind::Reguid`]). If it
//! opened as the old pool, it would part from the devices that are new already. The same request
//! with the same devices continues with the new identity that it finds, and never makes a second
//! one.

use std::collections::{BTreeMap, BTreeSet};

use super::super::config::PoolConfig;
use super::super::features::Feature;
use super::configurations::{Labels, derived};
use super::error::{OpenError, OpenErrorKind};
use super::examination::examine;
use super::leaf_labels::LeafLabels;
use crate::engine::devices::label_rounds::ROUNDS;
use crate::format::Label;
use crate::vdev::LeafSpec;

/// New identity of a copy.
#[derive(Clone, Debug)]
pub struct NewIdentity {
    /// New guid of the pool, random.
    pub guid: u64,
    /// New name of the pool; `None` keeps the old one.
    pub name: Option<String>,
    /// Host that has the pool from now on.
    pub host: String,
    /// Path of each device.
    pub paths: Vec<String>,
}

/// Plan of the labels that give devices their new identity.
#[derive(Clone, Debug)]
pub struct Reguid {
    /// Configuration of the new pool.
    pub config: PoolConfig,
    /// New label of each device, in the order in which they were given. The ring of the label stays
    /// as it is.
    pub labels: Vec<Label>,
    /// Whether this attempt completes an earlier, interrupted one.
    pub is_continued: bool,
}

impl Reguid {
    /// Plans the labels of these devices of the pool `guid`. Nothing else is touched.
    ///
    /// # Errors
    /// The devices make no pool, share an identity, or belong to different pools.
    pub fn plan(devices: &[LeafLabels], guid: u64, new: NewIdentity) -> Result<Self, OpenError> {
        let labels = Labels::decode(devices)?;
        let torn: BTreeSet<(u64, u64)> = labels.identities().flatten().collect();
        let torn: Vec<(u64, u64)> = torn.into_iter().collect();
        let planned = match torn[..] {
            [] => Self::begin(&labels, devices, guid, new),
            [(old, found)] if [old, found].contains(&guid) => {
                Self::go_on(&labels, devices.len(), old, found)
            }
            [(old, found)] => {
                let context = format!(
                    "the devices are changing from number {old:016x} to {found:016x}: name the pool by one \
                     of these numbers"
                );
                Err(refused(context))
            }
            _ => Err(refused(
                "the labels show several interrupted changes of the pool's number",
            )),
        }?;
        if planned.config.encode().len() > Label::MAX_CONFIG {
            return Err(refused("the configuration is too long for a label"));
        }
        Ok(planned)
    }

    /// Returns the label copies that are written in each round. All devices are flushed after each
    /// round.
    pub fn rounds() -> Vec<Vec<usize>> {
        ROUNDS.map(Vec::from).into()
    }

    fn begin(
        labels: &Labels,
        devices: &[LeafLabels],
        guid: u64,
        new: NewIdentity,
    ) -> Result<Self, OpenError> {
        let examined = examine(devices, Some(guid))?;
        let newest = labels
            .newest(Some(guid))
            .ok_or_else(|| refused("no label of the pool was found"))?;
        let mut config = PoolConfig::decode(&newest.config)?;
        let is_listed = |leaf: &Option<u64>| leaf.is_some_and(|leaf| config.lists(leaf));
        if let Some(stranger) = examined.leaves.iter().position(|leaf| !is_listed(leaf)) {
            let context = format!("{} is not a device of the pool", new.paths[stranger]);
            return Err(refused(context));
        }
        config.generation = examined.config.generation + 1;
        config.key_guid = Some(config.key().guid);
        config.features.require(Feature::Reguid);
        config.guid = new.guid;
        config.host = new.host;
        if let Some(name) = new.name {
            config.name = name;
        }
        let leaves: Vec<u64> = examined.leaves.iter().flatten().copied().collect();
        rename_leaves(&mut config, new.guid);
        let places = leaves.iter().map(|leaf| derived(new.guid, *leaf));
        config.paths.extend(places.zip(new.paths));
        let encoded = config.encode();
        let label = |leaf: &u64| Label {
            pool: new.guid,
            leaf: derived(new.guid, *leaf),
            generation: config.generation,
            config: encoded.clone(),
        };
        Ok(Self {
            labels: leaves.iter().map(label).collect(),
            config,
            is_continued: false,
        })
    }

    /// Completes an interrupted change.
    fn go_on(labels: &Labels, count: usize, old: u64, new: u64) -> Result<Self, OpenError> {
        let (olds, news) = (labels.of_pool(old), labels.of_pool(new));
        let newest = labels
            .newest(Some(new))
            .ok_or_else(|| refused("no label of the new pool was found"))?;
        let config = PoolConfig::decode(&newest.config)?;
        let mut planned: Vec<Label> = Vec::new();
        for device in 0..count {
            let label = match (news[device], olds[device]) {
                (Some(own), _) => own.clone(),
                // The device was opened under its old identity meanwhile: it has changes that the
                // others lack.
                (None, Some(own)) if own.generation >= newest.generation => {
                    let context = format!(
                        "device {device} was used under the old number after the other devices got the new \
                         one"
                    );
                    return Err(refused(context));
                }
                (None, Some(own)) => Label {
                    leaf: derived(new, own.leaf),
                    ..newest.clone()
                },
                (None, None) => {
                    return Err(refused(format!(
                        "device {device} does not belong to the pool"
                    )));
                }
            };
            let is_twin = planned.iter().any(|other| other.leaf == label.leaf);
            if is_twin || !config.lists(label.leaf) {
                let context = format!(
                    "device {device} is a copy of another device, or was not part of the change that was \
                     interrupted"
                );
                return Err(refused(context));
            }
            planned.push(label);
        }
        Ok(Self {
            config,
            labels: planned,
            is_continued: true,
        })
    }
}

fn refused(context: impl Into<String>) -> OpenError {
    OpenError::new(OpenErrorKind::Reguid, context)
}

/// Gives all leaves, spares and caches their guids in the pool of this guid.
fn rename_leaves(config: &mut PoolConfig, pool: u64) {
    let slots = config.tree.top_levels.iter_mut();
    let slots = slots.flat_map(|top| &mut top.slots);
    let leaves = slots.flat_map(|slot| &mut slot.leaves);
    let rename = |leaf: &mut LeafSpec| leaf.guid = derived(pool, leaf.guid);
    leaves
        .chain(&mut config.spares)
        .chain(&mut config.caches)
        .for_each(rename);
    let unspared = std::mem::take(&mut config.unspared).into_iter();
    config.unspared = unspared.map(|leaf| derived(pool, leaf)).collect();
    let paths: BTreeMap<u64, String> = std::mem::take(&mut config.paths);
    let paths = paths.into_iter();
    config.paths = paths.map(|(leaf, at)| (derived(pool, leaf), at)).collect();
}
